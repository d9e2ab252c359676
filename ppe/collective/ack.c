/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Acknowledgements: how a source whose application is late keeps the others going. docs/protocol.md,
 * "Acknowledgements".
 *
 * One for block b says what a contribution to b says of the blocks before it, and no more: it opens no
 * block, adds to none, completes none. That it says so of the block before, and not of b, is what makes a
 * repetition ask for b's result when that was lost, also of a residue's first block; and a bitmap for it
 * has room in the record of the block before, which is there for as long as anybody needs to be told.
 */
#include "ppe/collective/block.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/way.h"

/* The kept block before this one, if its result is out. */
static struct block *
before(const struct job_shard *js, const struct slot *slot, uint32_t block)
{
	int32_t ahead = block_ahead(js, slot, block);
	struct block *b = ahead == 0 ? slot->current : NULL;

	if (slot->current != NULL && slot->current->block_id == block)
		b = slot->previous;
	return b != NULL && b->state == BLOCK_DONE ? b : NULL;
}

/* The block itself, if its result is out, and the source is not known to have it. */
static struct block *
lost_by(const struct slot *slot, uint32_t block, uint8_t source)
{
	struct block *b = slot->current;

	if (b != NULL && b->block_id != block)
		b = slot->previous;
	if (b == NULL || b->block_id != block || b->state != BLOCK_DONE ||
		slot_source_has(slot, b, source))
		return NULL;
	return b;
}

struct ppe_next
acknowledged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;
	struct slot *slot = &js->slot[h->block_id & (js->window - 1u)];
	struct block *b = before(js, slot, h->block_id), *lost;
	int32_t ahead = block_ahead(js, slot, h->block_id);
	enum ppe_drop reason = PPE_DROP_KNOWN;

	/* Nobody can have a result that is not out. */
	if (ahead > 0 || (ahead == 0 && slot->current != NULL && b == NULL)) {
		ppe_drop(worker, thread, PPE_DROP_WINDOW);
		return PPE_END;
	}
	lost = lost_by(slot, h->block_id, h->src_id);
	if (b != NULL && acknowledge(state, js, slot, b, h->src_id)) {
		js->count.acknowledged++;
		reason = PPE_DROP_ACKNOWLEDGED;
	}
	if (lost == NULL) {
		ppe_drop(worker, thread, reason);
		return PPE_END;
	}
	js->count.asked_again++;
	emit_block(worker, thread, lost, h->src_id, NULL);
	ppe_drop(worker, thread, PPE_DROP_LATE);
	return PPE_RUN(emit);
}
