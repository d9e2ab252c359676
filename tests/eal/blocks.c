/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/blocks.h"

#include <string.h>

/* Dealt like cards: one each, in turn. */
unsigned int
block_slice(const struct block_plan *plan, unsigned int rank)
{
	unsigned int count = 0;

	for (unsigned int e = 0; e < plan->elements; e++)
		count += e % plan->n == rank;
	return count;
}

/* The byte of an element of what a rank has: of its vector, its row or its slice. */
static uint8_t
byte_of(const struct block_plan *plan, unsigned int rank, unsigned int element, unsigned int byte)
{
	uint64_t s = plan->seed ^ (uint64_t)rank << 48 ^ (uint64_t)element << 8 ^ byte;

	return (uint8_t)rig_random(&s);
}

static bool
is_absent(const struct block_plan *plan, unsigned int rank)
{
	return rank < 64 && (plan->absent >> rank & 1) != 0;
}

/* So many elements of what a rank has; filler where it is not in. */
static unsigned int
put(const struct block_plan *plan, unsigned int rank, unsigned int first, unsigned int count,
	uint8_t *to)
{
	unsigned int size = weir_dtype_bytes(plan->dtype);

	for (unsigned int e = 0; e < count; e++)
		for (unsigned int b = 0; b < size; b++)
			to[e * size + b] = is_absent(plan, rank)
				? plan->filler
				: byte_of(plan, rank, first + e, b);
	return count * size;
}

static bool
skips(const struct block_plan *plan, unsigned int rank)
{
	return rank < 64 && (plan->skips_own >> rank & 1) != 0;
}

static unsigned int
slices_before(const struct block_plan *plan, unsigned int rank)
{
	return rank == 0 ? 0 : slices_before(plan, rank - 1) + block_slice(plan, rank - 1);
}

/* A row, without the own slice if the rank leaves it out. */
static unsigned int
put_row(const struct block_plan *plan, unsigned int rank, uint8_t *to)
{
	unsigned int before = slices_before(plan, rank), own = block_slice(plan, rank), at;

	if (!skips(plan, rank))
		return put(plan, rank, 0, plan->elements, to);
	at = put(plan, rank, 0, before, to);
	return at + put(plan, rank, before + own, plan->elements - before - own, to + at);
}

unsigned int
block_contribution(
	const struct block_plan *plan, unsigned int rank, uint8_t payload[BLOCK_BYTES_MAX])
{
	const struct collective_row *row = &collective_table[plan->collective];
	bool root = rank == plan->root;

	switch ((enum contribution_kind)row->contribution) {
	case CONTRIBUTION_REDUCE: return put(plan, rank, 0, plan->elements, payload);
	case CONTRIBUTION_ROW: return put_row(plan, rank, payload);
	case CONTRIBUTION_ROOT:
		if (!root)
			return 0;
		return row->result == RESULT_SLICE ? put_row(plan, rank, payload)
						   : put(plan, rank, 0, plan->elements, payload);
	case CONTRIBUTION_SLICE:
		return row->to == TO_ROOT && root && skips(plan, rank)
			? 0
			: put(plan, rank, 0, block_slice(plan, rank), payload);
	case CONTRIBUTION_NOTHING:
	default: return 0;
	}
}

/* The sum of so many elements of all that are in. */
static unsigned int
put_sum(const struct block_plan *plan, unsigned int first, unsigned int count, uint8_t *to)
{
	for (unsigned int e = first; e < first + count; e++, to += 4) {
		uint32_t sum = 0;

		for (unsigned int rank = 0; rank < plan->n; rank++)
			for (unsigned int b = 0; b < 4 && !is_absent(plan, rank); b++)
				sum += (uint32_t)byte_of(plan, rank, e, b) << 8 * b;
		memcpy(to, &sum, 4);
	}
	return count * 4;
}

/* All slices one after the other, for this rank. */
static unsigned int
put_slices(const struct block_plan *plan, unsigned int to_rank, uint8_t *to)
{
	unsigned int at = 0;

	for (unsigned int rank = 0; rank < plan->n; rank++)
		if (rank != to_rank || !skips(plan, rank))
			at += put(plan, rank, 0, block_slice(plan, rank), to + at);
	return at;
}

unsigned int
block_result(const struct block_plan *plan, unsigned int rank, uint8_t payload[BLOCK_BYTES_MAX])
{
	const struct collective_row *row = &collective_table[plan->collective];
	bool whole = row->result == RESULT_WHOLE, root = rank == plan->root;
	unsigned int first = whole ? 0 : slices_before(plan, rank), at = 0;
	unsigned int count = whole ? plan->elements : block_slice(plan, rank);

	if (row->to == TO_ROOT && !root)
		return 0;
	switch ((enum contribution_kind)row->contribution) {
	case CONTRIBUTION_REDUCE: return put_sum(plan, first, count, payload);
	case CONTRIBUTION_ROOT:
		return !whole && root && skips(plan, rank)
			? 0
			: put(plan, plan->root, first, count, payload);
	case CONTRIBUTION_SLICE: return put_slices(plan, rank, payload);
	case CONTRIBUTION_ROW:
		for (unsigned int from = 0; from < plan->n; from++)
			if (from != rank || !skips(plan, rank))
				at += put(plan, from, first, count, payload + at);
		return at;
	case CONTRIBUTION_NOTHING:
	default: return 0;
	}
}

bool
block_to_all(const struct block_plan *plan, unsigned int rank)
{
	return !row_differs(&collective_table[plan->collective], skips(plan, rank));
}

unsigned int
block_up(const struct block_plan *plan, unsigned int first, unsigned int ranks,
	uint8_t payload[BLOCK_BYTES_MAX])
{
	static uint8_t row[BLOCK_BYTES_MAX];
	const enum contribution_kind what = collective_table[plan->collective].contribution;
	struct block_plan own = *plan;
	unsigned int n = 0;

	if (what == CONTRIBUTION_REDUCE) {
		own.collective = WEIR_COLLECTIVE_ALLREDUCE;
		own.absent |= ~(((UINT64_C(1) << ranks) - 1) << first);
		return block_result(&own, first, payload);
	}
	if (what != CONTRIBUTION_ROW) {
		for (unsigned int rank = first; rank < first + ranks; rank++)
			n += block_contribution(plan, rank, payload + n);
		return n;
	}
	for (unsigned int to = 0; to < plan->n; to++)
		for (unsigned int rank = first; rank < first + ranks; rank++) {
			unsigned int bytes = 4 * block_slice(plan, to);

			block_contribution(plan, rank, row);
			memcpy(payload + n, row + 4 * slices_before(plan, to), bytes);
			n += bytes;
		}
	return n;
}

unsigned int
block_down(const struct block_plan *plan, unsigned int first, unsigned int ranks,
	uint8_t payload[BLOCK_BYTES_MAX])
{
	unsigned int n = 0;

	if (block_to_all(plan, first))
		return block_result(plan, first, payload);
	for (unsigned int rank = first; rank < first + ranks; rank++)
		n += block_result(plan, rank, payload + n);
	return n;
}

struct weir_header
block_header(const struct block_plan *plan, unsigned int rank)
{
	return (struct weir_header){.job_id = plan->job,
		.gen_id = plan->generation,
		.src_id = plan->ids[rank],
		.block_id = plan->block,
		.grad_cnt = (uint16_t)plan->elements,
		.collective = (uint8_t)plan->collective,
		.dtype = (uint8_t)plan->dtype,
		.op = (uint8_t)plan->op,
		.root = (uint8_t)plan->root,
		.final = plan->final,
		.extended = true};
}

void
block_offer(struct rig *rig, const struct block_plan *plan, unsigned int rank)
{
	static uint8_t frame[RIG_FRAME_MAX], payload[BLOCK_BYTES_MAX];
	struct weir_header h = block_header(plan, rank);
	unsigned int bytes = block_contribution(plan, rank, payload);

	rig_send(rig, plan->ids[rank] % rig->ports, frame,
		rig_frame(frame, plan->ids[rank], &h, payload, bytes));
}
