/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/geometry.h"

#include <errno.h>

/* What a buffer is to a block. */
enum part {
	NONE, /* it has no part in it */
	ONE, /* some elements, in one piece */
	EACH, /* so many of each source's slice */
};

/* Into how many parts the elements of a block are divided. */
enum cut { WHOLE, SLICES, SQUARE };

/* A collective, as a host sees it. */
static const struct row {
	bool is; /* there is such a collective */
	uint8_t send, recv; /* enum part */
	uint8_t cut;
	bool root_sends, root_receives; /* nobody else does */
	bool reduces, differs;
} rows[16] = {
	[WEIR_COLLECTIVE_ALLREDUCE] = {true, ONE, ONE, WHOLE, .reduces = true},
	[WEIR_COLLECTIVE_REDUCE] = {true, ONE, ONE, WHOLE, .reduces = true, .root_receives = true,
		.differs = true},
	[WEIR_COLLECTIVE_REDUCESCATTER] = {true, EACH, ONE, SLICES, .reduces = true,
		.differs = true},
	[WEIR_COLLECTIVE_BROADCAST] = {true, ONE, ONE, WHOLE, .root_sends = true},
	[WEIR_COLLECTIVE_SCATTER] = {true, EACH, ONE, SLICES, .root_sends = true, .differs = true},
	[WEIR_COLLECTIVE_GATHER] = {true, ONE, EACH, SLICES, .root_receives = true,
		.differs = true},
	[WEIR_COLLECTIVE_ALLGATHER] = {true, ONE, EACH, SLICES},
	[WEIR_COLLECTIVE_ALLTOALL] = {true, EACH, EACH, SQUARE, .differs = true},
	[WEIR_COLLECTIVE_BARRIER] = {true, NONE, NONE, WHOLE},
};

bool
weir_collective_reduces(unsigned int collective)
{
	return collective < 16 && rows[collective].reduces;
}

bool
weir_collective_has_root(unsigned int collective)
{
	return collective < 16 && (rows[collective].root_sends || rows[collective].root_receives);
}

bool
weir_collective_differs(unsigned int collective)
{
	return collective < 16 && rows[collective].differs;
}

bool
weir_geometry_always_whole(const struct weir_geometry *g)
{
	return g->per_root != 0 || rows[g->collective].root_sends;
}

static enum part
sent(const struct row *row, bool is_root)
{
	return row->root_sends && !is_root ? NONE : (enum part)row->send;
}

static enum part
received(const struct row *row, bool is_root)
{
	return row->root_receives && !is_root ? NONE : (enum part)row->recv;
}

int
weir_geometry_cut(struct weir_geometry *g)
{
	const struct row *row = &rows[g->collective];
	size_t slices = row->cut == WHOLE ? 1 : g->sources, room = g->limit, blocks, bytes;

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
	/* Each source has a row of slices in it; where that is too much, rows go one after the other. */
	if (row->cut == SQUARE && room >= slices * slices)
		room /= slices;
	else if (row->cut == SQUARE)
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

	if (s.pieces > 1 && s.bytes == s.stride) { /* they are one */
		s.bytes *= s.pieces;
		s.pieces = 1;
	}
	return s;
}

void
weir_geometry_block(const struct weir_geometry *g, uint32_t nth, struct weir_shape *shape)
{
	bool scatters = g->per_root != 0;
	uint8_t collective = scatters ? WEIR_COLLECTIVE_SCATTER : g->collective;
	unsigned int root = scatters ? nth / g->per_root : g->root;
	const struct row *row = &rows[collective];
	size_t first = (size_t)(scatters ? nth % g->per_root : nth) * g->per_block;
	size_t count = g->count - first < g->per_block ? g->count - first : g->per_block;
	size_t to = scatters ? root * g->count + first : first;

	*shape = (struct weir_shape){
		.elements = (uint16_t)(count * (row->cut == WHOLE ? 1 : g->sources)),
		.collective = collective,
		.root = (uint8_t)root,
		.send = span(g, sent(row, g->rank == root), first, count),
		.recv = span(g, received(row, g->rank == root), to, count),
		.first = to,
		.count = count,
	};
}

static size_t
elements(const struct weir_geometry *g, enum part part)
{
	return part == NONE ? 0 : part == ONE ? g->count : g->count * g->sources;
}

size_t
weir_geometry_sent(const struct weir_geometry *g)
{
	return elements(g, sent(&rows[g->collective], g->rank == g->root));
}

size_t
weir_geometry_received(const struct weir_geometry *g)
{
	return elements(g, received(&rows[g->collective], g->rank == g->root));
}

int32_t
weir_geometry_result(const struct weir_header *h, unsigned int sources, unsigned int rank)
{
	const struct row *row = h->collective < 16 ? &rows[h->collective] : &rows[15];
	uint32_t slice = h->grad_cnt / sources + (rank < h->grad_cnt % sources);

	if (!row->is || h->root >= sources)
		return -1;
	switch (received(row, rank == h->root)) {
	case NONE: return 0;
	case ONE: return (int32_t)(row->cut == WHOLE ? h->grad_cnt : slice);
	case EACH:
	default: return (int32_t)(row->cut == SQUARE ? sources * slice : h->grad_cnt);
	}
}
