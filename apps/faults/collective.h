/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective that the hosts of a scenario repeat, any but the barrier: its call by name, and the check of its
 * results, complete and partial. */
#ifndef APPS_FAULTS_COLLECTIVE_H
#define APPS_FAULTS_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/perf/data.h"
#include "apps/libweir/weir.h"

/* Fill in the collective, the type and the operation of these names. 0, or -EINVAL. */
int collective_name(
	struct perf_reference *what, const char *collective, const char *type, const char *op);

/* Whether all hosts get the same result. */
bool collective_same(enum weir_collective collective);

/* Make the blocking call that the reference describes, with buffers of perf_reference_sent() and _received() elements.
 * Returns what the library returns. */
int collective_call(
	struct weir *weir, const struct perf_reference *what, const void *send, void *recv);

/*
 * Check the result, element by element, and its partial blocks. code: what the call returned, not negative. *wrong:
 * wrong elements, plus one for a partial result reported as complete or the other way round. *fingerprint: of the
 * elements and of the sources in them. 0 or -ENOMEM.
 */
int collective_check(struct weir *weir, const struct perf_reference *what, int code,
	const void *got, uint64_t *wrong, uint64_t *fingerprint);

#define COLLECTIVE_BITMAP 32 /* bytes: of 256 sources */

/* Add the sources of each block of the last result to in[blocks]. Returns whether each source has been in each block. */
bool collective_settled(struct weir *weir, const struct perf_reference *what,
	uint8_t (*in)[COLLECTIVE_BITMAP], size_t blocks);

#endif
