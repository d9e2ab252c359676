/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contributions of switches, as the parent in a tree takes them. docs/tree.md, "On the wire".
 *
 * A complete contribution has constant headers, so it takes the paths of a host's: flow cache, batches, aggregate(). A
 * degraded one lacks ranks, or says that the block failed; it comes here, and never into the flow cache. A block notes which
 * ranks its contributions lack; which ranks it has follows from its sources when it ends.
 */
#include "pktbuf/cursor.h"
#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"

bool
may_be_from_child(const struct ppe_job *j, const struct weir_header *h)
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

bool
child_fits(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct contribution *c)
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
		comes_wide(state, js, h->dtype, h->op))
		size = state->wide[h->dtype][h->op].acc_bytes;
	return part_fits(js, j, c, size);
}

/* Set the bits [first, first + count). */
static void
set_range(uint64_t mask[MASK_WORDS], unsigned int first, unsigned int count)
{
	for (unsigned int end = first + count; first < end;) {
		unsigned int n = RTE_MIN(end, (first / 64 + 1) * 64) - first;

		mask[first / 64] |= UINT64_MAX >> (64 - n) << first % 64;
		first += n;
	}
}

static uint16_t
count_of(const uint64_t mask[MASK_WORDS])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MASK_WORDS; i++)
		n += (unsigned int)__builtin_popcountll(mask[i]);
	return (uint16_t)n;
}

uint16_t
block_ranks(const struct job_shard *js, const struct block *b, uint64_t ranks[MASK_WORDS])
{
	if (!js->children) {
		memcpy(ranks, b->heard, sizeof(b->heard));
		return b->heard_count;
	}
	memset(ranks, 0, sizeof(b->heard));
	for (unsigned int s = 0; s < js->source_end; s++)
		if (mask_test(b->heard, (uint8_t)s))
			set_range(ranks, s, js->covers[s]);
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		ranks[i] &= ~b->in[i];
	return count_of(ranks);
}

void
block_set_ranks(const struct job_shard *js, struct block *b)
{
	uint64_t ranks[MASK_WORDS];

	b->in_count = block_ranks(js, b, ranks);
	memcpy(b->in, ranks, sizeof(ranks));
}

/* Read the bitmap: which ranks does the contribution lack? false: it has others than the source's, or not as many as the
 * header says. */
static bool
read_missing(const struct job_shard *js, struct ppe_thread *thread)
{
	const struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	uint64_t in[MASK_WORDS], *missing = lmem(thread)->missing;
	struct pktbuf_cursor cursor;
	uint16_t n;

	pktbuf_cursor_init(&cursor, thread->packet, c->payload + c->bytes, sizeof(in));
	pktbuf_cursor_copy(&cursor, in, sizeof(in));
	set_range(missing, h->src_id, js->covers[h->src_id]);
	for (unsigned int i = 0; i < MASK_WORDS; i++) {
		if ((in[i] & ~missing[i]) != 0)
			return false;
		missing[i] &= ~in[i];
	}
	n = count_of(in);
	return n > 0 && (uint8_t)n == h->src_cnt;
}

/* Bytes behind the payload: the bitmap, or what disagrees. */
static uint32_t
end_bytes(const struct weir_header *h)
{
	if (h->status == WEIR_STATUS_MISMATCH)
		return sizeof(struct weir_mismatch);
	return h->degraded ? WEIR_BITMAP_BYTES : 0;
}

bool
child_take_end(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	struct ppe_thread *thread)
{
	struct contribution *c = &lmem(thread)->c;
	const uint32_t bytes = end_bytes(&c->header);

	if (c->bytes < bytes)
		return false;
	c->bytes -= bytes;
	memset(lmem(thread)->missing, 0, sizeof(lmem(thread)->missing));
	return child_fits(state, js, j, c) && (!c->header.degraded || read_missing(js, thread));
}

/* The child's block failed, so this one does. */
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
		? emit_block(worker, thread, b, -1, NULL)
		: PPE_END;
}

struct ppe_next
take_degraded(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	enum weir_status status;
	enum ppe_drop reason = PPE_DROP_COUNT;

	start_bucket(state, js, c);
	c->block = NULL;
	if (hash_find(state->blocks, &c->probe))
		c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (c->block == NULL)
		reason = block_open(state, js, c, worker->now, &c->block, &status);
	if (reason != PPE_DROP_COUNT)
		return not_opened(worker, thread, js, reason, status);
	if (c->block->state != BLOCK_OPEN || mask_test(c->block->heard, c->header.src_id))
		return aggregate(worker, thread);
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		c->block->in[i] |= lmem(thread)->missing[i];
	return c->header.status == WEIR_STATUS_PARTIAL ? aggregate(worker, thread)
						       : child_failed(worker, thread, js);
}
