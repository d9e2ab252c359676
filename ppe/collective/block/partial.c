/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial results: blocks that end without the contributions of some ranks.
 *
 *   - timeout.c ends a block that is past its timeout, as the job's policy says (partial_timeout).
 *   - A block also ends without some ranks when their sources have been expelled, or when a child's
 *     contribution lacks them (tree/child.c).
 *   - partial_settle() notes the ranks that are in the block. If some are missing, its result is
 *     PARTIAL. If the root of a broadcast or scatter is missing, there is no result: ERROR.
 *   - partial_clear() writes zeros where missing ranks would have put their parts.
 *   - hop_end() (membership/hop.c) writes the bitmap of the ranks behind the payload.
 *
 * A source that is not in its partial result was late. docs/protocol.md, "Timeouts".
 */
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"

uint16_t
partial_ranks(const struct job_shard *js, const struct block *b, uint64_t ranks[MASK_WORDS])
{
	if (unlikely(js->children))
		return js->tree->ranks(js, b, ranks);
	memcpy(ranks, b->heard, sizeof(b->heard));
	return b->heard_count;
}

static bool
is_in(const struct job_shard *js, const struct block *b, unsigned int rank)
{
	return rank < js->ranks && mask_test(b->in, js->ranked[rank]);
}

/* Is the root one of this switch's ranks, and is its contribution missing? */
static bool
root_is_missing(const struct job_shard *js, const struct block *b)
{
	return collective_table[b->collective].contribution == CONTRIBUTION_ROOT &&
		(unsigned int)b->root - js->first_rank < js->own_ranks && !is_in(js, b, b->root);
}

enum weir_status
partial_settle(const struct job_shard *js, struct block *b, enum weir_status status)
{
	uint64_t ranks[MASK_WORDS];

	b->in_count = partial_ranks(js, b, ranks);
	memcpy(b->in, ranks, sizeof(b->in));
	if (status == WEIR_STATUS_OK && unlikely(b->in_count < js->own_ranks))
		status = WEIR_STATUS_PARTIAL;
	if (unlikely(status == WEIR_STATUS_PARTIAL) && root_is_missing(js, b))
		status = WEIR_STATUS_ERROR;
	return status;
}

void
partial_clear(const struct job_shard *js, struct block *b)
{
	const struct collective_row *row = &collective_table[b->collective];

	if (row->contribution != CONTRIBUTION_SLICE && row->contribution != CONTRIBUTION_ROW)
		return;
	for (unsigned int rank = js->first_rank; rank < js->first_rank + js->own_ranks; rank++)
		if (!is_in(js, b, rank))
			block_clear_part(js, b, rank);
}

enum weir_status
partial_timeout(const struct job_shard *js)
{
	return ppe_policy_sends_partial(js->policy) ? WEIR_STATUS_PARTIAL : WEIR_STATUS_ERROR;
}
