/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contributions of switches, at their parent in a tree. docs/protocol.md, "Between switches".
 *
 * A complete contribution has constant headers, so it takes the paths of a host's contribution:
 * flow cache, batches, block_aggregate(). A degraded contribution lacks ranks, or says that the
 * block failed; this file takes it, and it never enters the flow cache. A block notes which ranks
 * its contributions lack; which ranks it has follows from its sources when it ends.
 */
#include "pktbuf/cursor.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/collective/tree/tree.h"

bool
child_may_send(const struct ppe_job *j, const struct weir_header *h)
{
	const bool contribution = collective_table[h->collective].served;

	/* A join to a job of hosts is refused. */
	if (!is_from_child(h) ||
		(j != NULL && !j->children && h->collective != WEIR_COLLECTIVE_JOIN))
		return false;
	switch (h->status) {
	case WEIR_STATUS_OK:
		return !h->degraded && (!weir_is_control(h->collective) || h->src_cnt == 0);
	case WEIR_STATUS_PARTIAL:
	case WEIR_STATUS_ERROR: return h->degraded && contribution;
	case WEIR_STATUS_MISMATCH: return !h->degraded && contribution;
	default: return false;
	}
}

uint16_t
child_ranks(const struct job_shard *js, const struct block *b, uint64_t ranks[MASK_WORDS])
{
	memset(ranks, 0, sizeof(b->heard));
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		for (uint64_t left = b->heard[i]; left != 0; left &= left - 1) {
			unsigned int s = 64 * i + (unsigned int)__builtin_ctzll(left);

			mask_set_range(ranks, s, js->covers[s]);
		}
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		ranks[i] &= ~b->in[i];
	return (uint16_t)mask_count(ranks);
}

/* Bytes between the payload and the tag or CRC: the bitmap, or struct weir_mismatch. */
static uint32_t
end_bytes(const struct weir_header *h)
{
	if (h->status == WEIR_STATUS_MISMATCH)
		return sizeof(struct weir_mismatch);
	return h->degraded ? WEIR_BITMAP_BYTES : 0;
}

bool
child_fits(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct contribution *c, uint32_t bytes)
{
	const struct weir_header *h = &c->header;
	uint32_t size = state->dtype_bytes[h->dtype];

	if (h->status == WEIR_STATUS_OK && !weir_is_control(h->collective) &&
		h->src_cnt != (uint8_t)js->covers[h->src_id])
		return false;
	if ((h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH) &&
		h->grad_cnt != 0)
		return false;
	if (h->grad_cnt > 0 &&
		collective_table[h->collective].contribution == CONTRIBUTION_REDUCE &&
		block_comes_wide(state, js, h->dtype, h->op))
		size = state->wide[h->dtype][h->op].acc_bytes;
	return block_part_fits(js, j, h, bytes - end_bytes(h), size);
}

/* Read from the bitmap which ranks the contribution lacks. false: it has other ranks than the
 * source, or not as many as the header says. */
static bool
read_missing(const struct job_shard *js, const struct ppe_thread *thread,
	const struct contribution *c, uint64_t missing[MASK_WORDS])
{
	const struct weir_header *h = &c->header;
	uint64_t in[MASK_WORDS];
	struct pktbuf_cursor cursor;
	unsigned int n;

	pktbuf_cursor_init(&cursor, thread->packet, c->payload + c->bytes, sizeof(in));
	pktbuf_cursor_copy(&cursor, in, sizeof(in));
	mask_set_range(missing, h->src_id, js->covers[h->src_id]);
	for (unsigned int i = 0; i < MASK_WORDS; i++) {
		if ((in[i] & ~missing[i]) != 0)
			return false;
		missing[i] &= ~in[i];
	}
	n = mask_count(in);
	return n > 0 && (uint8_t)n == h->src_cnt;
}

/* The child's block failed, so this block fails. */
static struct ppe_next
child_failed(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	const struct contribution *c = &lmem(thread)->c;
	struct block *b = c->block;
	struct pktbuf_cursor cursor;

	if (c->header.status == WEIR_STATUS_MISMATCH) {
		pktbuf_cursor_init(
			&cursor, thread->packet, c->payload + c->bytes, sizeof(b->mismatch));
		pktbuf_cursor_copy(&cursor, &b->mismatch, sizeof(b->mismatch));
	}
	mask_set(b->heard, c->header.src_id);
	b->heard_count++;
	b->progress = worker->now;
	js->count.contributions++;
	ppe_consume(worker, thread);
	return block_end(ppe_state(worker, thread), js, b, (enum weir_status)c->header.status)
		? block_emit(worker, thread, b, -1, NULL)
		: PPE_END;
}

struct ppe_next
child_degraded(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	uint64_t missing[MASK_WORDS] = {0};
	enum weir_status status;
	enum ppe_drop reason = PPE_DROP_COUNT;

	c->bytes -= end_bytes(&c->header);
	if (c->header.degraded && !read_missing(js, thread, c, missing))
		return ppe_drop(worker, thread, PPE_DROP_LENGTH);
	block_start_bucket(state, js, c);
	c->block = NULL;
	if (hash_find(state->blocks, &c->probe))
		c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (c->block == NULL)
		reason = block_open(state, js, c, worker->now, &c->block, &status);
	if (reason != PPE_DROP_COUNT)
		return block_not_opened(worker, thread, js, reason, status);
	if (c->block->state != BLOCK_OPEN || mask_test(c->block->heard, c->header.src_id))
		return block_aggregate(worker, thread);
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		c->block->in[i] |= missing[i];
	return c->header.status == WEIR_STATUS_PARTIAL ? block_aggregate(worker, thread)
						       : child_failed(worker, thread, js);
}
