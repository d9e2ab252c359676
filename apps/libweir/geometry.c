/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/geometry.h"

#include <errno.h>

/* How a block uses a buffer. */
enum part {
	NONE, /* not at all */
	ONE, /* some elements, in one piece */
	EACH, /* some elements of each source's slice */
};

bool
weir_geometry_always_whole(const struct weir_geometry *g)
{
	return g->per_root != 0 ||
		weir_collective_row(g->collective)->contribution == CONTRIBUTION_ROOT;
}

/* Do the elements of a block consist of a slice for each source? */
static bool
is_sliced(const struct collective_row *row)
{
	return row->contribution == CONTRIBUTION_SLICE || row->contribution == CONTRIBUTION_ROW ||
		row->result == RESULT_SLICE;
}

static enum part
sent(const struct collective_row *row, bool is_root)
{
	if (row->contribution == CONTRIBUTION_NOTHING ||
		(row->contribution == CONTRIBUTION_ROOT && !is_root))
		return NONE;
	return is_sliced(row) && row->contribution != CONTRIBUTION_SLICE ? EACH : ONE;
}

static enum part
received(const struct collective_row *row, bool is_root)
{
	if (row->result == RESULT_NOTHING || (row->to == TO_ROOT && !is_root))
		return NONE;
	return is_sliced(row) && row->result != RESULT_SLICE ? EACH : ONE;
}

int
weir_geometry_cut(struct weir_geometry *g)
{
	const struct collective_row *row = weir_collective_row(g->collective);
	bool rows = row->contribution == CONTRIBUTION_ROW;
	size_t slices = is_sliced(row) ? g->sources : 1, room = g->limit, blocks, bytes;

	g->per_root = 0;
	if (g->collective == WEIR_COLLECTIVE_BARRIER) {
		g->per_block = g->blocks = 1;
		return 0;
	}
	if (__builtin_mul_overflow(g->count, g->element_bytes, &bytes) ||
		__builtin_mul_overflow(bytes, slices, &bytes))
		return -EINVAL;
	if (slices == 0 || room < slices)
		return -EMSGSIZE;
	/* The block holds a row of slices for each source. If that is too much, rows go one after
	 * the other. */
	if (rows && g->row_room >= slices * slices)
		room = g->row_room / slices < room ? g->row_room / slices : room;
	else if (rows)
		g->per_root = 1;
	g->per_block = (unsigned int)(room / slices);
	blocks = g->count / g->per_block + (g->count % g->per_block != 0);
	if (blocks > INT32_MAX)
		return -EINVAL;
	if (g->per_root != 0) {
		g->per_root = (uint32_t)blocks;
		blocks *= g->sources;
		if (blocks > INT32_MAX)
			return -EINVAL;
	}
	g->blocks = (uint32_t)blocks;
	return 0;
}

static struct weir_span
span(const struct weir_geometry *g, enum part part, size_t first, size_t count)
{
	struct weir_span s = {
		.offset = first * g->element_bytes,
		.bytes = count * g->element_bytes,
		.stride = g->count * g->element_bytes,
		.pieces = part == NONE ? 0
			: part == ONE  ? 1
				       : g->sources,
	};

	s.skipped = s.pieces;
	return s;
}

/* Leave out the own slice: one of the pieces, or the only one. */
static void
leave_out(const struct weir_geometry *g, struct weir_span *span)
{
	if (span->pieces == g->sources)
		span->skipped = g->rank;
	else
		span->pieces = span->skipped = 0;
}

static size_t
own_offset(const struct weir_geometry *g, const struct weir_span *span)
{
	return span->offset + (span->pieces == g->sources ? g->rank * span->stride : 0);
}

static void
keep_own(const struct weir_geometry *g, const struct collective_row *row, struct weir_shape *shape)
{
	unsigned int n = g->sources;

	if (row_own_received(row, shape->elements, n, g->rank, shape->root).count == 0)
		return;
	shape->own = (struct weir_own){
		own_offset(g, &shape->send), own_offset(g, &shape->recv), shape->send.bytes};
	leave_out(g, &shape->recv);
	if (row_own_sent(row, shape->elements, n, g->rank, shape->root).count > 0)
		leave_out(g, &shape->send);
}

/* Join adjacent pieces into one. */
static void
merge(struct weir_span *span)
{
	if (span->pieces > 1 && span->skipped == span->pieces && span->bytes == span->stride) {
		span->bytes *= span->pieces;
		span->pieces = span->skipped = 1;
	}
}

void
weir_geometry_block(const struct weir_geometry *g, uint32_t nth, struct weir_shape *shape)
{
	bool scatters = g->per_root != 0;
	uint8_t collective = scatters ? WEIR_COLLECTIVE_SCATTER : g->collective;
	unsigned int root = scatters ? nth / g->per_root : g->root;
	const struct collective_row *row = weir_collective_row(collective);
	size_t first = (size_t)(scatters ? nth % g->per_root : nth) * g->per_block;
	size_t count = g->count - first < g->per_block ? g->count - first : g->per_block;
	size_t to = scatters ? root * g->count + first : first;

	*shape = (struct weir_shape){
		.elements = (uint16_t)(count * (is_sliced(row) ? g->sources : 1)),
		.collective = collective,
		.root = (uint8_t)root,
		.send = span(g, sent(row, g->rank == root), first, count),
		.recv = span(g, received(row, g->rank == root), to, count),
		.first = to,
		.count = count,
	};
	if (g->skips_own)
		keep_own(g, row, shape);
	merge(&shape->send);
	merge(&shape->recv);
}

static size_t
elements(const struct weir_geometry *g, enum part part)
{
	return part == NONE ? 0 : part == ONE ? g->count : g->count * g->sources;
}

size_t
weir_geometry_sent(const struct weir_geometry *g)
{
	return elements(g, sent(weir_collective_row(g->collective), g->rank == g->root));
}

size_t
weir_geometry_received(const struct weir_geometry *g)
{
	return elements(g, received(weir_collective_row(g->collective), g->rank == g->root));
}

int32_t
weir_geometry_result(
	const struct weir_header *h, unsigned int sources, unsigned int rank, bool skips_own)
{
	const struct collective_row *row = weir_collective_row(h->collective);

	if (!row->served || h->root >= sources)
		return -1;
	return (int32_t)(row_part(row, h->grad_cnt, sources, rank, 1, h->root).count -
		(skips_own ? row_own_received(row, h->grad_cnt, sources, rank, h->root).count : 0));
}
