/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How libweir cuts operations into blocks: all sources of a job are played here, and the switch between
 * them by the rules of docs/protocol.md alone; what lies in the buffers at the end is what the
 * collective is.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/libweir/geometry.h"

#define SOURCES 8
#define COUNT   200 /* elements of a slice, at most */
#define BEYOND  64 /* elements behind a buffer, which are looked at, too */
#define MOST    (COUNT * SOURCES + BEYOND)

static struct rank {
	int32_t send[MOST], recv[MOST];
	int32_t packet[WEIR_ELEMENTS_MAX], result[WEIR_ELEMENTS_MAX];
	size_t sent; /* elements in the packet */
	bool skips_own;
	struct weir_geometry geometry;
	struct weir_shape shape;
} ranks[SOURCES];

static unsigned int n, root, plays;

/* Of a buffer's place: no two alike. */
static int32_t
value(unsigned int rank, size_t at)
{
	return (int32_t)(rank * 100003 + at * 7 + 1);
}

/* What rank has at this place in the end; false: nothing is written there. */
static bool
expected(unsigned int collective, unsigned int rank, size_t at, size_t count, int32_t *is)
{
	size_t slice = count == 0 ? 0 : at / count, in = count == 0 ? 0 : at % count;
	int32_t sum = 0;
	bool whole =
		collective == WEIR_COLLECTIVE_ALLREDUCE || collective == WEIR_COLLECTIVE_REDUCE;

	for (unsigned int r = 0; r < n; r++)
		sum += value(r, whole ? at : rank * count + at);
	*is = sum;
	switch (collective) {
	case WEIR_COLLECTIVE_ALLREDUCE:
	case WEIR_COLLECTIVE_REDUCESCATTER: return at < count;
	case WEIR_COLLECTIVE_REDUCE: return at < count && rank == root;
	case WEIR_COLLECTIVE_BROADCAST: *is = value(root, at); return at < count;
	case WEIR_COLLECTIVE_SCATTER: *is = value(root, rank * count + at); return at < count;
	case WEIR_COLLECTIVE_GATHER:
		*is = value((unsigned int)slice, in);
		return at < n * count && rank == root;
	case WEIR_COLLECTIVE_ALLGATHER: *is = value((unsigned int)slice, in); return at < n * count;
	case WEIR_COLLECTIVE_ALLTOALL:
		*is = value((unsigned int)slice, rank * count + in);
		return at < n * count;
	default: return false;
	}
}

/* The first element of a slice of a block, and how many it has. */
static size_t
slice_of(size_t elements, unsigned int rank, size_t *count)
{
	size_t q = elements / n, r = elements % n;

	*count = q + (rank < r);
	return rank * q + (rank < r ? rank : r);
}

/* Insert elements that nobody may use where the rank left out its own slice. */
static void
restore(unsigned int rank)
{
	const struct weir_shape *s = &ranks[rank].shape;
	size_t own, first = slice_of(s->elements, rank, &own);
	int32_t *packet = ranks[rank].packet;
	bool is_root = rank == s->root;

	if (s->collective == WEIR_COLLECTIVE_GATHER)
		first = 0;
	if (!ranks[rank].skips_own ||
		!(s->collective == WEIR_COLLECTIVE_ALLTOALL ||
			(is_root && s->collective == WEIR_COLLECTIVE_GATHER) ||
			(is_root && s->collective == WEIR_COLLECTIVE_SCATTER)))
		return;
	memmove(packet + first + own, packet + first, (ranks[rank].sent - first) * 4);
	memset(packet + first, 0x77, own * 4);
	ranks[rank].sent += own;
}

/* Remove the own slice of so many elements from the result. */
static size_t
leave_out(unsigned int rank, size_t first, size_t own, size_t filled)
{
	int32_t *to = ranks[rank].result;

	if (!ranks[rank].skips_own)
		return filled;
	memmove(to + first, to + first + own, (filled - first - own) * 4);
	return filled - own;
}

/* docs/protocol.md: what a block's contributions make, in each one's result; how many elements. */
static size_t
serve(unsigned int rank)
{
	const struct weir_shape *s = &ranks[rank].shape;
	size_t elements = s->elements, own, first = slice_of(elements, rank, &own), filled = 0;
	int32_t *to = ranks[rank].result;

	switch (s->collective) {
	case WEIR_COLLECTIVE_REDUCE:
	case WEIR_COLLECTIVE_ALLREDUCE:
	case WEIR_COLLECTIVE_REDUCESCATTER:
		memset(to, 0, sizeof(ranks[rank].result));
		if (s->collective == WEIR_COLLECTIVE_REDUCE && rank != s->root)
			return 0;
		if (s->collective != WEIR_COLLECTIVE_REDUCESCATTER) {
			first = 0;
			own = elements;
		}
		for (unsigned int r = 0; r < n; r++)
			for (size_t i = 0; i < own; i++)
				to[i] += ranks[r].packet[first + i];
		return own;
	case WEIR_COLLECTIVE_BROADCAST:
		memcpy(to, ranks[s->root].packet, elements * 4);
		return elements;
	case WEIR_COLLECTIVE_SCATTER:
		memcpy(to, ranks[s->root].packet + first, own * 4);
		return rank == s->root ? leave_out(rank, 0, own, own) : own;
	case WEIR_COLLECTIVE_GATHER:
		if (rank != s->root)
			return 0;
		/* fall through */
	case WEIR_COLLECTIVE_ALLGATHER:
		for (unsigned int r = 0; r < n; r++) {
			memcpy(to + filled, ranks[r].packet, ranks[r].sent * 4);
			filled += ranks[r].sent;
		}
		return leave_out(rank, first, own, filled);
	case WEIR_COLLECTIVE_ALLTOALL:
		for (unsigned int r = 0; r < n; r++, filled += own)
			memcpy(to + filled, ranks[r].packet + first, own * 4);
		return leave_out(rank, rank * own, own, filled);
	default: return 0;
	}
}

/* Copy between a buffer and a packet; elements. */
static size_t
move(const struct weir_span *span, int32_t *buffer, int32_t *packet, bool out)
{
	uint8_t *place = (uint8_t *)buffer, *bytes = (uint8_t *)packet;

	for (unsigned int i = 0; i < span->pieces; i++) {
		uint8_t *piece = place + span->offset + i * span->stride;

		if (!weir_span_has(span, i))
			continue;
		memcpy(out ? bytes : piece, out ? piece : bytes, span->bytes);
		bytes += span->bytes;
	}
	return weir_span_bytes(span) / 4;
}

static void
play_block(uint32_t nth, unsigned int limit)
{
	for (unsigned int r = 0; r < n; r++) {
		const struct weir_shape *s = &ranks[r].shape, *first = &ranks[0].shape;

		weir_geometry_block(&ranks[r].geometry, nth, &ranks[r].shape);
		cr_assert(s->elements == first->elements && s->collective == first->collective &&
				s->root == first->root,
			"rank %u has another block %u", r, nth);
		cr_assert(s->elements > 0 && s->elements <= limit);
		cr_assert(s->collective != WEIR_COLLECTIVE_ALLTOALL ||
			s->elements * n <= ranks[r].geometry.row_room);
		ranks[r].sent = move(&s->send, ranks[r].send, ranks[r].packet, true);
		restore(r);
	}
	for (unsigned int r = 0; r < n; r++) {
		struct weir_header h = {.collective = ranks[r].shape.collective,
			.root = ranks[r].shape.root,
			.grad_cnt = ranks[r].shape.elements};
		size_t served = serve(r);

		cr_assert_eq(weir_span_bytes(&ranks[r].shape.recv), served * 4);
		cr_assert_eq(weir_geometry_result(&h, n, r, ranks[r].skips_own), (int32_t)served);
		move(&ranks[r].shape.recv, ranks[r].recv, ranks[r].result, false);
		memcpy((uint8_t *)ranks[r].recv + ranks[r].shape.own.to,
			(uint8_t *)ranks[r].send + ranks[r].shape.own.from,
			ranks[r].shape.own.bytes);
	}
}

static void
play(unsigned int collective, size_t count, unsigned int limit, unsigned int room)
{
	const size_t looked_at = n * count + BEYOND;

	for (unsigned int r = 0; r < n; r++) {
		/* Nobody leaves out own slices, all do, some do. */
		ranks[r].skips_own = plays % 3 == 1 || (plays % 3 == 2 && r % 2 == 0);
		ranks[r].geometry = (struct weir_geometry){.collective = (uint8_t)collective,
			.sources = n,
			.rank = r,
			.root = root,
			.limit = limit,
			.row_room = room,
			.skips_own = ranks[r].skips_own,
			.count = count,
			.element_bytes = 4};
		for (size_t i = 0; i < looked_at; i++) {
			ranks[r].send[i] = value(r, i);
			ranks[r].recv[i] = -1;
		}
		cr_assert_eq(weir_geometry_cut(&ranks[r].geometry), 0);
		cr_assert_eq(ranks[r].geometry.blocks, ranks[0].geometry.blocks);
	}
	for (uint32_t nth = 0; nth < ranks[0].geometry.blocks; nth++)
		play_block(nth, limit);
	for (unsigned int r = 0; r < n; r++)
		for (size_t i = 0; i < looked_at; i++) {
			int32_t is;

			if (!expected(collective, r, i, count, &is))
				is = -1;
			cr_assert_eq(ranks[r].recv[i], is,
				"collective %u, %zu elements, blocks of %u, root %u of %u: rank %u "
				"has %d at %zu, not %d",
				collective, count, limit, root, n, r, ranks[r].recv[i], i, is);
		}
}

Test(weir_geometry, all_collectives_by_definition, .timeout = 90)
{
	const unsigned int sizes[] = {1, 2, 3, 5, 8}, limits[] = {8, 9, 63, 64, 70, 1000};
	const size_t counts[] = {1, 2, 7, 8, 9, 64, 65, COUNT};

	for (unsigned int s = 0; s < 5; s++)
		for (unsigned int l = 0; l < 6; l++)
			for (unsigned int c = 0; c < 8; c++)
				for (unsigned int k = 0; k < WEIR_COLLECTIVE_BARRIER; k++) {
					n = sizes[s];
					root = (s + l + c) % n;
					for (plays = 0; plays < 6; plays++)
						play(k, counts[c], limits[l],
							plays < 3 ? limits[l]
								  : row_room(limits[l], n));
				}
}

static int
cut(unsigned int collective, unsigned int sources, unsigned int limit, size_t count, size_t bytes,
	uint32_t *blocks)
{
	struct weir_geometry g = {.collective = (uint8_t)collective,
		.sources = sources,
		.limit = limit,
		.row_room = limit,
		.count = count,
		.element_bytes = bytes};
	int code = weir_geometry_cut(&g);

	*blocks = g.blocks;
	return code;
}

Test(weir_geometry, what_can_t_be_cut_is_refused)
{
	uint32_t blocks;

	/* An element of each slice is the least. */
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLGATHER, 9, 8, 1, 4, &blocks), -EMSGSIZE);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLTOALL, 9, 8, 1, 4, &blocks), -EMSGSIZE);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLREDUCE, 9, 8, 9, 4, &blocks), 0);
	cr_expect_eq(blocks, 2u);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLREDUCE, 2, 8, SIZE_MAX / 2, 4, &blocks), -EINVAL);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLGATHER, 4, 8, SIZE_MAX / 8, 4, &blocks), -EINVAL);
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLREDUCE, 2, 1, (size_t)INT32_MAX, 1, &blocks), 0);
	cr_expect_eq(
		cut(WEIR_COLLECTIVE_ALLREDUCE, 2, 1, (size_t)INT32_MAX + 1, 1, &blocks), -EINVAL);
	/* As many blocks for each root. */
	cr_expect_eq(cut(WEIR_COLLECTIVE_ALLTOALL, 8, 8, INT32_MAX / 8 + 1, 1, &blocks), -EINVAL);
	cr_expect_eq(cut(WEIR_COLLECTIVE_BARRIER, 8, 1, 0, 0, &blocks), 0);
	cr_expect_eq(blocks, 1u);
}

Test(weir_geometry, an_alltoall_with_room_for_full_rows_fills_its_packets)
{
	struct weir_geometry g = {.collective = WEIR_COLLECTIVE_ALLTOALL,
		.sources = 8,
		.limit = 1024,
		.row_room = row_room(1024, 8),
		.count = 4096,
		.element_bytes = 4};
	struct weir_shape shape;

	cr_assert_eq(weir_geometry_cut(&g), 0);
	cr_expect_eq(g.blocks, 32u);
	weir_geometry_block(&g, 0, &shape);
	cr_expect_eq(weir_span_bytes(&shape.send), 4096u);
	cr_expect_eq(weir_span_bytes(&shape.recv), 4096u);
	/* Very many rows share what the largest buffer holds. */
	g.sources = 256;
	g.limit = 4095;
	g.row_room = row_room(4095, 256);
	cr_expect_eq(g.row_room, WEIR_ROWS_MAX);
	cr_assert_eq(weir_geometry_cut(&g), 0);
	cr_expect_eq(g.per_block, 2u);
	cr_expect_eq(row_room(1024, 1), 1024u);
}

Test(weir_geometry, results_of_what_does_not_exist_have_no_length)
{
	struct weir_header h = {.collective = WEIR_COLLECTIVE_JOIN, .grad_cnt = 5};

	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), -1);
	h.collective = WEIR_COLLECTIVE_REDUCE;
	h.root = 4;
	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), -1);
	/* Slices that don't divide evenly, as other hosts may send them. */
	h.root = 0;
	h.collective = WEIR_COLLECTIVE_SCATTER;
	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), 2);
	cr_expect_eq(weir_geometry_result(&h, 4, 1, false), 1);
	h.collective = WEIR_COLLECTIVE_ALLTOALL;
	cr_expect_eq(weir_geometry_result(&h, 4, 0, false), 8);
	cr_expect_eq(weir_geometry_result(&h, 4, 0, true), 6);
}
