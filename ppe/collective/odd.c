/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contributions that are not added to their block: it is finished, has them already, or is another sum.
 * docs/protocol.md, "Blocks and the window".
 */
#include "ppe/collective/block.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/way.h"

enum weir_field
disagreement(const struct block *b, const struct weir_header *h, uint16_t *has, uint16_t *offers)
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

struct ppe_next
answer_late(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	uint8_t source = lmem(thread)->c.header.src_id;
	struct job_shard *js = state->job[b->job];

	if (!mask_test(b->heard, source)) {
		mask_set(b->heard, source);
		b->heard_count++;
		js->count.late++;
		block_release_previous(state, js, b);
	} else {
		js->count.asked_again++;
	}
	emit_block(worker, thread, b, source, NULL);
	ppe_drop(worker, thread, PPE_DROP_LATE);
	return PPE_RUN(emit);
}

struct ppe_next
repeated(struct ppe_worker *worker, struct ppe_thread *thread, const struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	const struct ppe_job *j = worker->jobs->by_id[b->job];

	state->job[b->job]->count.duplicates++;
	if (j != NULL && worker->now - b->opened >= j->timeout_ms * state->tsc_per_ms)
		reply_status(worker, thread, &lmem(thread)->c.header, WEIR_STATUS_WAITING, b->heard,
			WEIR_BITMAP_BYTES);
	ppe_drop(worker, thread, PPE_DROP_DUPLICATE);
	return PPE_END;
}

struct ppe_next
disagrees(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b,
	enum weir_field field, uint16_t has, uint16_t offers)
{
	struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = state->job[b->job];

	b->mismatch = (struct weir_mismatch){.field = (uint8_t)field,
		.source = b->first_source,
		.other = lmem(thread)->c.header.src_id};
	weir_put16(b->mismatch.block, has);
	weir_put16(b->mismatch.offered, offers);
	mask_set(b->heard, lmem(thread)->c.header.src_id);
	b->heard_count++;
	block_finish(state, js, b, WEIR_STATUS_MISMATCH);
	emit_block(worker, thread, b, -1, NULL);
	ppe_drop(worker, thread, PPE_DROP_MISMATCH);
	return PPE_RUN(emit);
}
