/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sources of a fuzzed job call, and what must come of it: of every collective, of int32, where the
 * payload of a contribution is one bit of its source, 1 << s, in each element.
 */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

#include <stdint.h>

#include "pktbuf/wire/wire.h"

#define CALLS_ELEMENTS 8 /* of a block at most */

/* What is contributed to a block. */
struct call {
	uint8_t collective, root;
	uint16_t count; /* elements of the block */
};

/* One of them, for each byte: a collective, a root, and elements: one, an odd number, or all that fit. */
struct call calls_any(uint8_t what, unsigned int sources);

/* The elements in the payload of a source. */
unsigned int calls_sent(const struct call *call, unsigned int source, unsigned int sources);

/* Whether a result, whole or partial, is what it says: FUZZ_WRONG if not. payload: what follows the header. */
void calls_check(const struct weir_header *h, const uint8_t *payload, unsigned int bytes,
	unsigned int sources);

#endif
