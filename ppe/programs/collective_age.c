/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timer threads of the collective program: each looks through one slice of the block table for
 * blocks whose REF flag stayed clear, and does what the job's policy says about those that saw no
 * new contribution for the job's timeout.
 */
#include "hashengine/aging.h"
#include "ppe/programs/collective_priv.h"

/* Note a block that is past its timeout. What does not fit is found again by the next visit. */
static void
note(void *arg, struct hash_record *listed)
{
	struct stragglers *found = arg;
	const struct ppe_worker *worker = found->worker;
	struct block *b = (struct block *)(void *)listed;
	const struct ppe_job *j = worker->jobs->by_id[b->job];

	if (b->state != BLOCK_OPEN || j == NULL || found->count == STRAGGLERS_MAX)
		return;
	if ((int64_t)(worker->now - b->progress) < (int64_t)(j->timeout_ms * found->tsc_per_ms))
		return;
	found->block[found->count] = b;
	found->key[found->count++] = b->hash.key;
}

/* One straggling block after the other; each emission comes back here. */
static struct ppe_next
straggler(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;

	while (found->next < found->count) {
		struct block *b = found->block[found->next];
		uint64_t key = found->key[found->next++];
		const struct ppe_job *j;
		struct job_shard *js;

		if (!block_is(b, key) || b->state != BLOCK_OPEN || b->heard_count == 0)
			continue; /* completed while we served another */
		j = worker->jobs->by_id[b->job];
		js = state->job[b->job];
		if (j == NULL)
			continue;
		if (j->policy == PPE_POLICY_WAIT) {
			js->count.blocks_waiting += !b->overdue;
			b->overdue = 1;
			continue;
		}
		block_finish(state, js, b,
			j->policy == PPE_POLICY_PARTIAL ? WEIR_STATUS_PARTIAL : WEIR_STATUS_ERROR);
		emit_block(worker, thread, b, -1, straggler);
		return PPE_RUN(emit);
	}
	return PPE_END;
}

struct ppe_next
age(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;

	found->worker = worker;
	found->tsc_per_ms = state->tsc_per_ms;
	found->count = 0;
	found->next = 0;
	hash_age_scan(state->blocks, thread->slice, state->slices, note, found);
	return found->count > 0 ? PPE_RUN(straggler) : PPE_END;
}

const struct ppe_segment_name age_segments[] = {
	{age, "age"},
	{straggler, "straggler"},
	{NULL, NULL},
};
