/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation of libweir in flight, for the fuzzer of its receiving side. */
#ifndef TESTS_FUZZ_FLIGHT_H
#define TESTS_FUZZ_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/weir.h"

/* Its request, and buffers of their own sizes: sanitizers see who goes beyond. */
struct flight {
	struct weir_request *request;
	int32_t *send, *recv;
};

/* Begin an operation of a kind, a collective's number, of int32; without elements, a barrier. */
void flight_begin(struct weir *weir, unsigned int kind, unsigned int root, unsigned int sources,
	size_t count, struct flight *f);

/* Check how it has ended, and give it back. */
void flight_end(struct weir *weir, struct flight *f);

#endif
