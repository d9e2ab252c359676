/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective is: a row of a table. docs/protocol.md, "Collectives".
 *
 * A block counts contributions; when the count meets its target, the result goes out. That, and all that
 * belongs to it (windows, losses, timeouts, tags), is the same for all of them. A row says only what a
 * contribution carries, what of the buffer a receiver gets, and who gets it. Nobody else asks which
 * collective it is.
 *
 * The buffer always holds the result of all receivers, one after the other: so what any of them gets is one
 * piece, which packets refer to. Pure functions, in elements; any thread.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_TABLE_H
#define PPE_PROGRAMS_COLLECTIVE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "pktbuf/wire/wire.h"

/* What a contribution carries of a block of G elements, and what is done with it. */
enum contribution_kind {
	CONTRIBUTION_NOTHING, /* only counts */
	CONTRIBUTION_REDUCE, /* G elements, reduced with the others' */
	CONTRIBUTION_ROOT, /* the root's: G elements, kept; the others' only count */
	CONTRIBUTION_SLICE, /* the slice of its source, put in its place */
	CONTRIBUTION_ROW, /* G elements: a slice for each receiver, put in that one's column */
};

/* What a receiver gets of it. */
enum result_kind {
	RESULT_NOTHING,
	RESULT_WHOLE, /* G elements */
	RESULT_SLICE, /* the slice of its rank */
	RESULT_COLUMN, /* the slices of its rank in all rows, in the order of the ranks */
};

/* Who gets a payload; the others get a header. */
enum result_to { TO_ALL, TO_ROOT, TO_EACH };

struct collective_row {
	uint8_t contribution; /* enum contribution_kind */
	uint8_t result; /* enum result_kind */
	uint8_t to; /* enum result_to; but for TO_ALL, receivers get different packets */
	bool served; /* it is a collective */
	bool rooted; /* its header's root means something */
};

/* By enum weir_collective, as wide as its field. */
extern const struct collective_row collective_table[16];

/* The elements that a contribution of `rank`, [0, n), carries. */
static inline uint32_t
row_contributed(const struct collective_row *row, uint32_t elements, unsigned int n,
	unsigned int rank, unsigned int root)
{
	if (__builtin_expect(row->contribution == CONTRIBUTION_REDUCE, 1) ||
		row->contribution == CONTRIBUTION_ROW)
		return elements;
	if (row->contribution == CONTRIBUTION_ROOT)
		return rank == root ? elements : 0;
	if (row->contribution == CONTRIBUTION_SLICE)
		return weir_slice(elements, n, rank).count;
	return 0;
}

/* The elements that the buffer holds. */
static inline uint32_t
row_extent(const struct collective_row *row, uint32_t elements, unsigned int n)
{
	return row->contribution == CONTRIBUTION_ROW ? n * elements : elements;
}

/* Where in the buffer the slice lies that a row of `rank` has for `receiver`. */
static inline uint32_t
row_cell(uint32_t elements, unsigned int n, unsigned int rank, unsigned int receiver)
{
	struct weir_slice slice = weir_slice(elements, n, receiver);

	return n * slice.first + rank * slice.count;
}

/* What of the buffer `rank` gets. */
static inline struct weir_slice
row_part(const struct collective_row *row, uint32_t elements, unsigned int n, unsigned int rank,
	unsigned int root)
{
	struct weir_slice part = weir_slice(elements, n, rank);

	if (row->result == RESULT_COLUMN)
		return (struct weir_slice){n * part.first, n * part.count};
	if (row->result == RESULT_SLICE)
		return part;
	if (row->result == RESULT_WHOLE && (row->to == TO_ALL || rank == root))
		return (struct weir_slice){0, elements};
	return (struct weir_slice){0, 0};
}

#endif
