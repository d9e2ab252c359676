/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective that the hosts of a scenario repeat, any but the barrier: its call, by name, and the check
 * of its results, whole and partial. Pure but for the call.
 */
#ifndef APPS_FAULTS_COLLECTIVE_H
#define APPS_FAULTS_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/perf/data.h"
#include "apps/libweir/weir.h"

/* The collective of a name of the protocol's, or -EINVAL. */
int collective_parse(const char *name);

/* The type and the operation of a name, or -EINVAL. */
int collective_dtype_parse(const char *name);
int collective_op_parse(const char *name);

/* Whether all hosts get the same result. */
bool collective_same(enum weir_collective collective);

/* Do it, blocking: of what the reference says, with buffers of perf_reference_sent() and _received()
 * elements. Returns as the library. */
int collective_call(
	struct weir *weir, const struct perf_reference *what, const void *send, void *recv);

/*
 * Check what came of it, element by element, and what was said of it: which blocks lack whom. code: what the
 * call returned, not negative. *wrong: the elements that are not right, and one for a part that was told as the
 * whole. *fingerprint: of elements and of who is in them. 0, or -ENOMEM.
 */
int collective_check(struct weir *weir, const struct perf_reference *what, int code,
	const void *got, uint64_t *wrong, uint64_t *fingerprint);

#define COLLECTIVE_BITMAP 32 /* bytes: of 256 sources */

/*
 * Note who is in which blocks of the last result, by in[blocks]. Returns whether each source was in each of them
 * by now, since they were zero.
 */
bool collective_settled(struct weir *weir, const struct perf_reference *what,
	uint8_t (*in)[COLLECTIVE_BITMAP], size_t blocks);

#endif
