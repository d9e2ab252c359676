/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the collectives of WEIR_COLLECTIVE_LIST (pktbuf/wire/types.h) do, one row each:
 * docs/protocol.md, "Collectives". The switch and the hosts' library include this file; it needs no
 * DPDK.
 *
 * A block counts contributions; when the count meets its target, the result goes out. Windows,
 * losses, timeouts and tags are the same for all collectives. A row says only which data a
 * contribution carries, which part of the buffer a receiver gets, and which ranks are receivers. No
 * other code depends on the collective.
 *
 * The buffer holds the results of all receivers, one after the other, so what each of them gets is
 * one piece, to which packets refer. Pure functions, in elements; any thread.
 */
#ifndef PKTBUF_COLLECTIVES_H
#define PKTBUF_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "pktbuf/wire/types.h"

/* What a contribution to a block of G elements carries, and how the switch uses it. */
enum contribution_kind {
	CONTRIBUTION_NOTHING, /* no elements: it is only counted */
	CONTRIBUTION_REDUCE, /* G elements, reduced with the others' */
	CONTRIBUTION_ROOT, /* G elements of the root, copied; the others' are only counted */
	CONTRIBUTION_SLICE, /* the slice of its source, copied to its place */
	CONTRIBUTION_ROW, /* G elements: a slice for each receiver, copied to its column */
};

/* What a receiver gets of the buffer. */
enum result_kind {
	RESULT_NOTHING,
	RESULT_WHOLE, /* G elements */
	RESULT_SLICE, /* the slice of its rank */
	RESULT_COLUMN, /* the slices for its rank from all rows, in the order of the ranks */
};

/* The receivers of a payload; the others get a header. */
enum result_to { TO_NONE, TO_ALL, TO_ROOT, TO_EACH };

/* Is it an acknowledgement or a probe? They contribute nothing, and may come at any time. */
static inline bool
weir_is_control(unsigned int collective)
{
	return collective == WEIR_COLLECTIVE_ACKNOWLEDGE || collective == WEIR_COLLECTIVE_PROBE;
}

struct collective_row {
	uint8_t contribution; /* enum contribution_kind */
	uint8_t result; /* enum result_kind */
	uint8_t to; /* enum result_to; unless TO_ALL, receivers get different packets */
	bool served; /* false: not a collective */
	bool rooted; /* the header's root is used */
};

/* By enum weir_collective, as wide as its field. */
static const struct collective_row collective_table[16] = {
#define X(name, code, text, contribution_, result_, to_)                                           \
	[code] = {                                                                                 \
		.contribution = CONTRIBUTION_##contribution_,                                      \
		.result = RESULT_##result_,                                                        \
		.to = TO_##to_,                                                                    \
		.served = TO_##to_ != TO_NONE,                                                     \
		.rooted =                                                                          \
			CONTRIBUTION_##contribution_ == CONTRIBUTION_ROOT || TO_##to_ == TO_ROOT,  \
	},
	WEIR_COLLECTIVE_LIST(X)
#undef X
};

/* Their number: codes are [0, WEIR_COLLECTIVES). */
enum {
#define X(name, code, text, contribution, result, to) +(TO_##to != TO_NONE)
	WEIR_COLLECTIVES = 0 WEIR_COLLECTIVE_LIST(X)
#undef X
};

/* A part of a block, in elements. */
struct weir_slice {
	uint32_t first, count;
};

/*
 * The slice of `rank`, [0, sources), in a block of `elements`. If they don't divide evenly,
 * the first slices are an element longer. sources: [1, 256].
 */
static inline struct weir_slice
weir_slice(uint32_t elements, unsigned int sources, unsigned int rank)
{
	uint32_t each = elements / sources, longer = elements % sources;

	return (struct weir_slice){
		.first = rank * each + (rank < longer ? rank : longer),
		.count = each + (rank < longer),
	};
}

/* The slices of the ranks [first, first + count), one after the other. count: at least 1; first +
 * count: at most `sources`. */
static inline struct weir_slice
weir_slices(uint32_t elements, unsigned int sources, unsigned int first, unsigned int count)
{
	struct weir_slice slices = weir_slice(elements, sources, first);

	if (__builtin_expect(count != 1, 0))
		slices.count = weir_slice(elements, sources, first + count).first - slices.first;
	return slices;
}

/*
 * Parts of a block. A source covers the ranks [first, first + count) of n: a host one, a switch of
 * a tree several (docs/tree.md). It sends and gets the parts of these ranks, one after the other;
 * but rows go up side by side, by receiver: for each of the n receivers the slices of these ranks.
 */

/* The elements that a contribution of these ranks carries. */
static inline uint32_t
row_contributed(const struct collective_row *row, uint32_t elements, unsigned int n,
	unsigned int first, unsigned int count, unsigned int root)
{
	if (__builtin_expect(row->contribution == CONTRIBUTION_REDUCE, 1))
		return elements;
	if (row->contribution == CONTRIBUTION_ROW)
		return count * elements;
	if (row->contribution == CONTRIBUTION_ROOT)
		return root - first < count ? elements : 0;
	if (row->contribution == CONTRIBUTION_SLICE)
		return weir_slices(elements, n, first, count).count;
	return 0;
}

/* The elements that the buffer of a switch with these ranks holds: what it collects, and what it
 * gets from a parent. */
static inline uint32_t
row_extent(const struct collective_row *row, uint32_t elements, unsigned int n, unsigned int first,
	unsigned int count)
{
	uint32_t columns;

	if (row->contribution != CONTRIBUTION_ROW)
		return elements;
	columns = n * weir_slices(elements, n, first, count).count;
	return columns > count * elements ? columns : count * elements;
}

/*
 * The elements of 4 bytes that the buffer of an alltoall's block holds in a job whose blocks have
 * at most `elements`, and which reserves room for full rows. n: [1, 256]. Pieces of 512 KiB keep to
 * the pages that devices see.
 */
#define WEIR_ROWS_MAX (UINT32_C(1) << 17)

static inline uint32_t
row_room(uint32_t elements, unsigned int n)
{
	return n * elements < WEIR_ROWS_MAX ? n * elements : WEIR_ROWS_MAX;
}

/* The place of the slice for `receiver`, [0, n), in the row-th of `rows` rows side by side. */
static inline uint32_t
row_cell(uint32_t elements, unsigned int n, unsigned int rows, unsigned int row,
	unsigned int receiver)
{
	struct weir_slice slice = weir_slice(elements, n, receiver);

	return rows * slice.first + row * slice.count;
}

/* The part of the buffer, with the rows of all ranks, that these ranks get. */
static inline struct weir_slice
row_part(const struct collective_row *row, uint32_t elements, unsigned int n, unsigned int first,
	unsigned int count, unsigned int root)
{
	struct weir_slice part = weir_slices(elements, n, first, count);

	if (row->result == RESULT_COLUMN)
		return (struct weir_slice){n * part.first, n * part.count};
	if (row->result == RESULT_SLICE)
		return part;
	if (row->result == RESULT_WHOLE && (row->to == TO_ALL || root - first < count))
		return (struct weir_slice){0, elements};
	return (struct weir_slice){0, 0};
}

/*
 * Own slices. The slice that a host contributes and gets back need not cross its link. A host may
 * agree with the switch to leave it out in each direction in which no other host needs it. Sums and
 * the other receivers of a result need it. A broadcast comes back whole, so that all receivers get
 * the same packet.
 */

/* What the host of this rank leaves out of its contribution: none or one piece, in elements. */
static inline struct weir_slice
row_own_sent(const struct collective_row *row, uint32_t elements, unsigned int n, unsigned int rank,
	unsigned int root)
{
	struct weir_slice own = weir_slice(elements, n, rank);

	if (row->contribution == CONTRIBUTION_ROW)
		return own;
	if (row->contribution == CONTRIBUTION_ROOT && row->result == RESULT_SLICE && rank == root)
		return own;
	if (row->contribution == CONTRIBUTION_SLICE && row->to == TO_ROOT && rank == root)
		return (struct weir_slice){0, own.count};
	return (struct weir_slice){0, 0};
}

/* What is left out of its result: elements of row_part(). */
static inline struct weir_slice
row_own_received(const struct collective_row *row, uint32_t elements, unsigned int n,
	unsigned int rank, unsigned int root)
{
	struct weir_slice own = weir_slice(elements, n, rank);

	if (row->result == RESULT_COLUMN)
		return (struct weir_slice){rank * own.count, own.count};
	if (row->contribution == CONTRIBUTION_SLICE && (row->to == TO_ALL || rank == root))
		return own;
	if (row->contribution == CONTRIBUTION_ROOT && row->result == RESULT_SLICE && rank == root)
		return (struct weir_slice){0, own.count};
	return (struct weir_slice){0, 0};
}

/* Do receivers get different payloads? skips_own: some host's own slices are left out. */
static inline bool
row_differs(const struct collective_row *row, bool skips_own)
{
	return row->to != TO_ALL || (skips_own && row->contribution == CONTRIBUTION_SLICE);
}

#endif
