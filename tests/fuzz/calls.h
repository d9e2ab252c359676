/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sources of a fuzzed job call, and what must come of it: of every collective, of int32, where the
 * payload of a contribution is one bit of its source, 1 << s, in each element.
 */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

#include <stdbool.h>
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

/* What a source covers: a host one rank, a switch of a tree several. */
struct ranks {
	unsigned int first, count;
};

/* What such a source contributes if the ranks of the mask `in` are in it. Returns its elements. */
unsigned int calls_sent(const struct call *call, struct ranks own, uint32_t in,
	unsigned int sources, uint32_t out[CALLS_ELEMENTS]);

/* What it gets if those are in the block. */
unsigned int calls_got(const struct call *call, struct ranks own, uint32_t in, unsigned int sources,
	uint32_t out[CALLS_ELEMENTS]);

/* Whether a result for these ranks, whole or partial, is what it says, or, `up`, a switch's contribution: FUZZ_WRONG if
 * not. payload: what follows the header. */
void calls_check(const struct weir_header *h, const uint8_t *payload, unsigned int bytes,
	struct ranks own, unsigned int sources, bool up);

#endif
