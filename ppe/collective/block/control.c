/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Acknowledgements and probes. docs/protocol.md.
 *
 * An acknowledgement of block b says that the source has the results of the blocks before b, as a
 * contribution to b does. Because the source does not have b, a repetition asks for b's result,
 * even for a residue's first block. The sources' acknowledgements are in the record of the block
 * before b.
 *
 * A probe of block b acknowledges the blocks before b, and asks whether the source's contribution
 * to b has arrived. It takes the contribution's path, after the contribution. So a contribution
 * that is not here was lost.
 */
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"

static struct block *
done_before(const struct job_shard *js, const struct slot *slot, uint32_t block)
{
	int32_t ahead = block_ahead(js, slot, block);
	struct block *b = ahead == 0 ? slot->current : NULL;

	if (slot->current != NULL && slot->current->block_id == block)
		b = slot->previous;
	return b != NULL && b->state == BLOCK_DONE ? b : NULL;
}

/* May no source ask about the block yet? before: done_before(). */
static bool
is_ahead(const struct job_shard *js, const struct slot *slot, uint32_t block,
	const struct block *before)
{
	int32_t ahead = block_ahead(js, slot, block);

	return ahead > 0 || (ahead == 0 && slot->current != NULL && before == NULL);
}

/* The packet's block, if it is done and the source is not known to have the result. */
static struct block *
lost_result(const struct slot *slot, const struct weir_header *h)
{
	struct block *b = slot->current;

	if (b != NULL && b->block_id != h->block_id)
		b = slot->previous;
	if (b == NULL || b->block_id != h->block_id || b->state != BLOCK_DONE ||
		slot_source_has(slot, b, h->src_id))
		return NULL;
	return b;
}

enum ppe_drop
block_control_end(const struct job_shard *js, const struct slot *slot, const struct weir_header *h)
{
	const struct block *before = done_before(js, slot, h->block_id), *b = slot->current;
	const bool probe = h->collective == WEIR_COLLECTIVE_PROBE;

	if (is_ahead(js, slot, h->block_id, before))
		return PPE_DROP_WINDOW;
	if (probe &&
		(block_ahead(js, slot, h->block_id) == 0 ||
			(b != NULL && b->block_id == h->block_id && b->state != BLOCK_DONE)))
		return PPE_DROP_PROBED;
	if (lost_result(slot, h) != NULL)
		return PPE_DROP_LATE;
	return !probe && before != NULL && !slot_source_has(slot, before, h->src_id)
		? PPE_DROP_ACKNOWLEDGED
		: PPE_DROP_KNOWN;
}

/* Send the result of the packet's block again, if the source lacks it. Otherwise drop the
 * packet. */
static struct ppe_next
answer_lost(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct slot *slot, enum ppe_drop reason)
{
	struct block *b = lost_result(slot, &lmem(thread)->c.header);

	if (b == NULL)
		return ppe_drop(worker, thread, reason);
	if (in_debt(worker, js))
		return block_police(worker, thread, js);
	js->count.asked_again++;
	return block_answer(worker, thread, b);
}

struct ppe_next
block_acknowledged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;
	struct slot *slot = slot_of(js, h->block_id);
	struct block *b = done_before(js, slot, h->block_id);
	enum ppe_drop reason = PPE_DROP_KNOWN;

	if (is_ahead(js, slot, h->block_id, b))
		return ppe_drop(worker, thread, PPE_DROP_WINDOW);
	if (js->parents != NULL)
		js->tree->ask(state, js, h->block_id, false);
	if (b != NULL && block_acknowledge(state, js, slot, b, h->src_id)) {
		js->count.acknowledged++;
		reason = PPE_DROP_ACKNOWLEDGED;
	}
	return answer_lost(worker, thread, js, slot, reason);
}

/* Tell the source which contributions the block has (NULL: it is not open yet). */
static struct ppe_next
tell_probing(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js,
	const struct block *b)
{
	uint64_t ranks[MASK_WORDS] = {0};

	if (b != NULL)
		partial_ranks(js, b, ranks);
	reply_status(worker, thread, &lmem(thread)->c.header, WEIR_STATUS_WAITING, ranks,
		WEIR_BITMAP_BYTES);
	return ppe_drop(worker, thread, PPE_DROP_PROBED);
}

struct ppe_next
block_probed(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	struct block *b;
	struct slot *slot;

	if (c->place-- > 0)
		return PPE_RUN(block_probed);
	/* Other threads have run since admission. */
	if (js == NULL || js->serial != c->serial)
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
	if (h->gen_id != js->hop.generation || js->is_revoked)
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	slot = slot_of(js, h->block_id);
	b = done_before(js, slot, h->block_id);
	if (is_ahead(js, slot, h->block_id, b))
		return ppe_drop(worker, thread, PPE_DROP_WINDOW);
	js->count.probes++;
	if (b != NULL)
		block_acknowledge(state, js, slot, b, h->src_id);
	if (block_ahead(js, slot, h->block_id) == 0)
		return tell_probing(worker, thread, js, NULL);
	b = slot->current;
	if (b != NULL && b->block_id == h->block_id && b->state != BLOCK_DONE)
		return b->state == BLOCK_OPEN ? tell_probing(worker, thread, js, b)
					      : js->tree->pending(worker, thread, b);
	return answer_lost(worker, thread, js, slot, PPE_DROP_KNOWN);
}

void
block_answer_held_back(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js)
{
	const struct weir_header *h = &lmem(thread)->c.header;
	const struct ppe_job *j = worker->jobs->by_id[js->job];
	const struct slot *slot = slot_of(js, h->block_id);
	uint64_t ranks[MASK_WORDS] = {0};

	if (j == NULL || slot->previous == NULL)
		return;
	for (unsigned int s = 0; s < js->source_end; s++)
		if (mask_test(js->expelled, (uint8_t)s) ||
			slot_source_has(slot, slot->previous, (uint8_t)s))
			mask_set_range(ranks, s, j->ranks[s]);
	reply_status(worker, thread, h, WEIR_STATUS_WAITING, ranks, WEIR_BITMAP_BYTES);
}
