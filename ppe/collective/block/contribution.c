/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An admitted contribution, top to bottom:
 *
 *   block_find       search the bucket; prefetch the record, or open the block
 *   record           read the record; prefetch the buffer
 *   block_aggregate  verify the checksums, add the payload; the last contribution ends the block
 *   block_emit_step  send results that differ by receiver (result.c)
 *
 * In an authenticated job block_verify takes the place of the first three: it verifies the tag
 * while the next payload is fetched, then searches the block and adds.
 *
 * Checksums and tags are verified just before the payload is added, which is in L1 then. Before
 * that no sum changes and no reply is sent; only a source's time of last contact (without
 * authentication) and the job's rate change.
 */
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/guard.h"

static struct ppe_next record(struct ppe_worker *worker, struct ppe_thread *thread);

/* ---- contributions that are not added: after the checksums, each function ends the packet ---- */

struct ppe_next
block_not_opened(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js,
	enum ppe_drop reason, enum weir_status status)
{
	if (status != WEIR_STATUS_OK)
		return reply_refuse(worker, thread, reason, status);
	if (reason == PPE_DROP_HELD_BACK && js->children)
		block_answer_held_back(worker, thread, js);
	return ppe_drop(worker, thread, reason);
}

struct ppe_next
block_answer(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b)
{
	struct ppe_next next = block_emit(worker, thread, b, lmem(thread)->c.header.src_id, NULL);

	ppe_drop(worker, thread, PPE_DROP_LATE);
	return next;
}

/* The block is done: answer with the result. */
static struct ppe_next
answer_late(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	uint8_t source = lmem(thread)->c.header.src_id;
	struct job_shard *js = state->job[b->job];

	/* Other threads may have sent answers since admission. */
	if (in_debt(worker, js))
		return block_police(worker, thread, js);
	if (!mask_test(b->heard, source)) {
		mask_set(b->heard, source);
		b->heard_count++;
		js->count.late++;
		block_release_previous(state, js, b);
	} else {
		js->count.asked_again++;
	}
	return block_answer(worker, thread, b);
}

/* The source is in the block already. If that is past its timeout, send the source the bitmap. */
static struct ppe_next
duplicate(struct ppe_worker *worker, struct ppe_thread *thread, const struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	const struct ppe_job *j = worker->jobs->by_id[b->job];
	uint64_t in[MASK_WORDS];

	state->job[b->job]->count.duplicates++;
	if (j != NULL && worker->now - b->opened >= j->timeout_ms * state->tsc_per_ms) {
		partial_ranks(state->job[b->job], b, in);
		reply_status(worker, thread, &lmem(thread)->c.header, WEIR_STATUS_WAITING, in,
			WEIR_BITMAP_BYTES);
	}
	return ppe_drop(worker, thread, PPE_DROP_DUPLICATE);
}

/* Block and contribution disagree: the block fails, and every source is told. */
static struct ppe_next
mismatched(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b,
	enum weir_field field, uint16_t has, uint16_t offers)
{
	struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = state->job[b->job];
	struct ppe_next next;

	b->mismatch = (struct weir_mismatch){.field = (uint8_t)field,
		.source = b->first_source,
		.other = lmem(thread)->c.header.src_id};
	weir_put16(b->mismatch.block, has);
	weir_put16(b->mismatch.offered, offers);
	mask_set(b->heard, lmem(thread)->c.header.src_id);
	b->heard_count++;
	next = block_end(state, js, b, WEIR_STATUS_MISMATCH)
		? block_emit(worker, thread, b, -1, NULL)
		: PPE_END;
	ppe_drop(worker, thread, PPE_DROP_MISMATCH);
	return next;
}

enum weir_field
block_disagreement(
	const struct block *b, const struct weir_header *h, uint16_t *has, uint16_t *offers)
{
#define DIFFERS(field, name)                                                                       \
	if (unlikely(b->field != h->field)) {                                                      \
		*has = b->field;                                                                   \
		*offers = h->field;                                                                \
		return WEIR_FIELD_##name;                                                          \
	}
	DIFFERS(collective, COLLECTIVE)
	DIFFERS(grad_cnt, LENGTH)
	DIFFERS(root, ROOT)
	DIFFERS(final, FINAL)
	if (h->grad_cnt == 0)
		return (enum weir_field)0;
	DIFFERS(op, OP)
	DIFFERS(dtype, DTYPE)
#undef DIFFERS
	return (enum weir_field)0;
}

/* ---- the path ---- */

/* The block is not in the table: open it, or the contribution is too late or too early. */
static __rte_noinline struct ppe_next
open_block(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	enum weir_status status;
	enum ppe_drop reason;

	if (!c->verified && !block_is_undamaged(worker, thread, state->job[c->header.job_id]))
		return PPE_END;
	c->verified = true;
	reason =
		block_open(state, state->job[c->header.job_id], c, worker->now, &c->block, &status);
	if (likely(c->block != NULL))
		return block_aggregate(worker, thread);
	return block_not_opened(worker, thread, state->job[c->header.job_id], reason, status);
}

struct ppe_next
block_find(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);

	if (unlikely(!hash_find(state->blocks, &lmem(thread)->c.probe)))
		return open_block(worker, thread);
	block_start_payload(thread, &lmem(thread)->c, 0, 8);
	return PPE_RUN(record);
}

static inline void
start_block(const struct block *block)
{
	rte_prefetch0(&block->buffer);
	if (block->buffer != NULL)
		rte_prefetch0(rmw_buffer_data(block->buffer));
}

static struct ppe_next
record(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;

	c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (unlikely(c->block == NULL))
		return open_block(worker, thread);
	start_block(c->block);
	block_start_payload(thread, c, 8, 16);
	return PPE_RUN(block_aggregate);
}

struct ppe_next
block_await_verification(struct collective *state, struct job_shard *js, struct ppe_thread *thread)
{
	struct contribution *c = &lmem(thread)->c;
	struct tagged *tagged = &state->tagged;

	block_start_bucket(state, js, c);
	if (tagged->verified == tagged->end)
		block_start_payload(thread, c, 0, UINT16_MAX);
	c->place = tagged->end++;
	tagged->payload[c->place % TAGGED_MAX] =
		rte_pktmbuf_mtod_offset(thread->packet, const uint8_t *, c->payload);
	return PPE_RUN(block_verify);
}

/* The payload that will be read next; NULL: not known. */
static inline const uint8_t *
next_payload(struct tagged *tagged, const struct contribution *c)
{
	tagged->verified = c->place + 1;
	return tagged->verified == tagged->end ? NULL
					       : tagged->payload[tagged->verified % TAGGED_MAX];
}

struct ppe_next
block_verify(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = state->job[c->header.job_id];
	const uint8_t *next = next_payload(&state->tagged, c);

	c->block = NULL;
	if (likely(hash_find(state->blocks, &c->probe)))
		c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (likely(c->block != NULL))
		start_block(c->block);
	if (!checksums_hold(worker, thread) || !keys_authentic(worker, thread, js, next))
		return PPE_END;
	c->verified = true;
	note_heard(worker, js, c->header.src_id);
	return likely(c->block != NULL) ? block_aggregate(worker, thread)
					: open_block(worker, thread);
}

/* All sources that have not been expelled have contributed. */
static __rte_noinline struct ppe_next
complete(struct ppe_worker *worker, struct ppe_thread *thread, struct collective *state,
	struct job_shard *js, struct block *b)
{
	if (!block_end(state, js, b, WEIR_STATUS_OK))
		return PPE_END;
	return block_emit(worker, thread, b, -1, NULL);
}

/* A payload that is copied, or added in order. */
static __rte_noinline void
put_payload(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b)
{
	if (b->copied && b->buffer != NULL)
		block_copy_payload(js, packet, c, b);
	else if (c->bytes > 0)
		order_add(js, packet, c, b);
}

struct ppe_next
block_aggregate(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	struct block *b = c->block;
	uint64_t since;

	if (unlikely(!block_is(b, c->probe.key)))
		return PPE_RUN(block_find); /* the block was released between segments */
	if (!c->verified && unlikely(!block_is_undamaged(worker, thread, js)))
		return PPE_END;
	if (unlikely(b->state != BLOCK_OPEN))
		return b->state == BLOCK_DONE ? answer_late(worker, thread, b)
					      : js->tree->pending(worker, thread, b);
	if (unlikely(mask_test(b->heard, h->src_id)))
		return duplicate(worker, thread, b);
	if (unlikely(b->agreement != block_agreement(h, h->final))) {
		uint16_t has, offers;
		enum weir_field field = block_disagreement(b, h, &has, &offers);

		if (field != 0)
			return mismatched(worker, thread, b, field, has, offers);
	}
	mask_set(b->heard, h->src_id);
	if (likely(b->on_arrival))
		block_add_payload(thread->packet, c, b, b->heard_count == 0);
	else
		put_payload(js, thread->packet, c, b);
	b->heard_count++;
	since = b->progress;
	b->progress = worker->now;
	js->count.contributions++;
	ppe_consume(worker, thread);
	if (likely(!block_is_full(js, b)))
		return PPE_END;
	block_was_last(&js->late[h->src_id], since, worker->now);
	return complete(worker, thread, state, js, b);
}

const struct ppe_segment_name block_segments[] = {
	{block_entry, "job_entry", "hop:admit" REFUSAL_LEADS_TO},
	{block_admit, "admit", "find_block verify examine drop:policed drop:not_a_contribution"},
	{block_examine, "examine",
		"find_block aggregate emit probed hop:unbound_at_home consume output "
		"drop:unknown_job drop:forged drop:not_joined drop:not_a_contribution "
		"drop:unsupported drop:length drop:policed drop:late drop:known "
		"drop:acknowledged" DAMAGE_LEADS_TO NOT_OPENED_LEADS_TO GUARD_LEADS_TO},
	{block_probed, "probed",
		"probed hop:parent_timeout hop:parent_prove drop:unknown_job drop:stale "
		"drop:window drop:known drop:probed drop:late drop:policed output"},
	{block_verify, "verify",
		"aggregate drop:forged drop:not_joined output" CHECKSUMS_LEAD_TO
			NOT_OPENED_LEADS_TO},
	{block_find, "find_block", "record aggregate output" DAMAGE_LEADS_TO NOT_OPENED_LEADS_TO},
	{record, "record", "aggregate output" DAMAGE_LEADS_TO NOT_OPENED_LEADS_TO},
	{block_aggregate, "aggregate",
		"find_block emit hop:parent_timeout hop:parent_prove consume output "
		"drop:duplicate drop:late drop:mismatch drop:policed" DAMAGE_LEADS_TO},
	{block_emit_step, "emit", "emit straggler output"},
	{0},
};
