/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the block room would do with a packet, in words. The control thread reads a shard while its
 * worker writes it, as statistics.c does: blocks are copied first. The decisions are those of the
 * microcode, in functions that only read.
 */
#include "ppe/simulate.h"

#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/collective/collective.h"

/* A residue as it was a moment ago; its blocks are copies. */
struct view {
	struct slot slot;
	struct block current, previous;
};

static struct block *
copy_of(struct block *const *from, struct block *to)
{
	const struct block *block = __atomic_load_n(from, __ATOMIC_RELAXED);

	return block != NULL && collective_copy_block(block, to) ? to : NULL;
}

static void
view_slot(const struct job_shard *js, uint32_t block, struct view *view)
{
	const struct slot *slot = slot_of(js, block);

	view->slot = *slot;
	view->slot.current = copy_of(&slot->current, &view->current);
	view->slot.previous =
		view->slot.current == NULL ? NULL : copy_of(&slot->previous, &view->previous);
}

static const struct block *
block_in(const struct view *view, uint64_t key)
{
	const struct slot *slot = &view->slot;

	if (slot->current != NULL && slot->current->hash.key == key)
		return slot->current;
	return slot->previous != NULL && slot->previous->hash.key == key ? slot->previous : NULL;
}

/* A contribution that is added to the block as it is here. */
static void
explain_added(const struct job_shard *js, const struct ppe_job *j, struct block block,
	const struct weir_header *h, struct ppe_explanation *explanation)
{
	mask_set(block.heard, h->src_id);
	block.heard_count++;
	if (h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH)
		ppe_explain_end(explanation, "consume",
			"the block failed at this switch, so it fails here");
	else if (!block_is_full(js, &block))
		ppe_explain_end(explanation, "consume", "contribution %u of %u to block %u: %s",
			block.heard_count, js->target, h->block_id,
			block.heard_count == 1 ? "it opens the block"
					       : "the block waits for others");
	else if (js->parents != NULL)
		ppe_explain_end(explanation, "consume",
			"the last contribution to block %u: the sum goes up to a parent",
			h->block_id);
	else
		ppe_explain_end(explanation, "consume",
			"the last contribution to block %u: the result goes to all %u sources of "
			"job %s",
			h->block_id, js->target, j->name);
}

/* A contribution to a block that is in the table. */
static void
explain_block(const struct job_shard *js, const struct ppe_job *j, const struct block *b,
	const struct weir_header *h, struct ppe_explanation *explanation)
{
	const bool heard = mask_test(b->heard, h->src_id);
	enum weir_field field;
	uint16_t has, offers;

	ppe_explain(explanation, "aggregate", "the block is %s: %u of %u contributions",
		b->state == BLOCK_OPEN         ? "open"
			: b->state == BLOCK_UP ? "sent to a parent, whose result is missing"
					       : "done",
		b->heard_count, js->target);
	field = b->state == BLOCK_OPEN && !heard && b->agreement != block_agreement(h, h->final)
		? block_disagreement(b, h, &has, &offers)
		: (enum weir_field)0;
	if (b->state == BLOCK_DONE)
		ppe_explain_end(explanation, "drop:late",
			"the result, which is kept, is sent to source %u again", h->src_id);
	else if (b->state == BLOCK_UP && !heard)
		ppe_explain_end(explanation, "drop:late",
			"the sum went to the parent without this contribution");
	else if (heard)
		ppe_explain_drop(explanation, PPE_DROP_DUPLICATE);
	else if (field != 0)
		ppe_explain_end(explanation, "drop:mismatch",
			"%s is %u in the block and %u in the contribution: the block fails",
			weir_field_text(field), has, offers);
	else
		explain_added(js, j, *b, h, explanation);
}

static void
explain_contribution(const struct job_shard *js, const struct ppe_job *j,
	const struct weir_header *h, struct ppe_explanation *explanation)
{
	const struct block none = {0};
	const struct block *b;
	enum ppe_drop reason;
	struct view view;

	view_slot(js, h->block_id, &view);
	b = block_in(&view, block_key(js->hop.generation, js->job, h->block_id));
	ppe_explain(explanation, js->keys != NULL ? "verify" : "find_block", "%s%s",
		b != NULL ? "the block is in the table" : "no such block is in the table",
		js->keys != NULL ? "; the tag is not checked here" : "");
	if (b != NULL) {
		explain_block(js, j, b, h, explanation);
		return;
	}
	reason = block_turn(js, &view.slot, h);
	if (reason == PPE_DROP_COUNT && block_waits_for_others(js, &view.slot, h->src_id))
		reason = PPE_DROP_HELD_BACK;
	if (reason == PPE_DROP_COUNT)
		explain_added(js, j, none, h, explanation);
	else if (reason == PPE_DROP_WINDOW || reason == PPE_DROP_EXPIRED)
		ppe_explain_end(explanation,
			reason == PPE_DROP_WINDOW ? "drop:window" : "drop:expired",
			"the next block of its residue is %u, and the window has %u blocks",
			(uint32_t)view.slot.next, js->window);
	else
		ppe_explain_drop(explanation, reason);
}

/* An acknowledgement or a probe. */
static void
explain_control(const struct job_shard *js, const struct weir_header *h,
	struct ppe_explanation *explanation)
{
	enum ppe_drop reason;
	struct view view;

	view_slot(js, h->block_id, &view);
	reason = block_control_end(js, &view.slot, h);
	if (h->collective == WEIR_COLLECTIVE_PROBE)
		ppe_explain(explanation, "probed", "has the source's contribution arrived?");
	if (reason == PPE_DROP_LATE)
		ppe_explain_end(explanation, "drop:late",
			"the result, which the source lacks, is sent to it again");
	else
		ppe_explain_drop(explanation, reason);
}

/* The reason, with what the switch has instead. */
static void
explain_refusal(const struct job_shard *js, const struct ppe_job *j, const struct contribution *c,
	enum ppe_drop reason, struct ppe_explanation *explanation)
{
	const struct weir_header *h = &c->header;

	if (reason == PPE_DROP_STALE)
		ppe_explain_end(explanation, "drop:stale",
			"generation %u of the packet; that of the job is %u%s", h->gen_id,
			js->hop.generation, js->is_revoked ? ", which is over" : "");
	else if (reason == PPE_DROP_LENGTH)
		ppe_explain_end(explanation, "drop:length",
			"%u elements in %u bytes; a block of the job has up to %u elements",
			h->grad_cnt, c->bytes, j->elements);
	else
		ppe_explain_drop(explanation, reason);
}

void
block_explain(const struct ppe_worker *worker, const void *const *states, struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	struct contribution *c = &lmem(thread)->c;
	struct weir_header *h = &c->header;
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	const struct collective *state;
	const struct job_shard *js;
	enum ppe_drop reason;
	uint16_t shard;

	if (!is_source(j, thread)) {
		ppe_explain(explanation, "job_entry", "the sender is no source of a job");
		ppe_explain_drop(explanation, reply_unknown_reason(worker, thread, j, h->src_id));
		return;
	}
	shard = block_complete_header(worker, j, h);
	ppe_explain(explanation, "job_entry", "block %u of job %s belongs to worker %u%s",
		h->block_id, j->name, shard, shard == worker->id ? "" : ": a hop");
	state = states[shard];
	js = state->job[h->job_id];
	if (js == NULL) {
		ppe_explain_drop(explanation, PPE_DROP_UNKNOWN_JOB);
		return;
	}
	reason = block_refusal(state, js, j, thread);
	ppe_explain(explanation, "admit", "source %u %s", h->src_id,
		reason == PPE_DROP_COUNT ? "may send this" : "may not send this");
	if (reason != PPE_DROP_COUNT)
		explain_refusal(js, j, c, reason, explanation);
	else if (weir_is_control(h->collective))
		explain_control(js, h, explanation);
	else
		explain_contribution(js, j, h, explanation);
}
