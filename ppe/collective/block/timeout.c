/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stragglers. Each timer thread searches its slices of the block table for blocks whose deadline
 * has passed, and applies the job's policy to blocks without a new contribution for the job's
 * timeout. Contributions do not move a deadline: when it has passed, the last contribution
 * determines the next deadline (hashengine/deadline.h).
 *
 * The time is worker->seen, up to which all packets were received: a later packet may be the
 * missing contribution. A thread may still have that packet, so each block is checked again at its
 * turn.
 */
#include "hashengine/deadline_fast.h"
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"

/* Records per segment: some microseconds if none is in a cache. */
#define STEP STRAGGLERS_MAX

static struct ppe_next search(struct ppe_worker *worker, struct ppe_thread *thread);

static uint64_t
deadline_of(const struct job_shard *js, const struct block *b)
{
	return b->progress + js->timeout;
}

/* The record's deadline has passed: is the block past its timeout? Returns the next deadline. */
static uint64_t
check_deadline(void *arg, uint32_t record)
{
	struct stragglers *found = arg;
	struct block *b = &found->state->records[record];
	struct job_shard *js;
	uint64_t deadline;

	/* The block is gone or done: deadlines are not cleared. */
	if (!b->hash.live || b->state != BLOCK_OPEN)
		return HASH_NEVER;
	js = found->state->job[b->job];
	deadline = deadline_of(js, b);
	if (deadline > found->worker->seen)
		return deadline;
	if (js->policy == PPE_POLICY_WAIT) {
		js->count.blocks_waiting += !b->overdue;
		b->overdue = 1;
		return HASH_NEVER; /* unless the policy changes: timeout_rearm() */
	}
	found->block[found->count] = b;
	found->key[found->count++] = b->hash.key;
	return HASH_NEVER;
}

static struct ppe_next
go_on(struct collective *state, const struct stragglers *found)
{
	if (found->from < found->end)
		return PPE_RUN(search);
	state->aging--;
	return PPE_END;
}

/* End the straggling blocks one by one; each emission continues here. */
static struct ppe_next
straggler(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;

	while (found->next < found->count) {
		struct block *b = found->block[found->next];
		uint64_t key = found->key[found->next++];
		struct job_shard *js;

		if (!block_is(b, key) || b->state != BLOCK_OPEN)
			continue; /* completed meanwhile */
		js = state->job[b->job];
		if (deadline_of(js, b) > worker->seen || js->policy == PPE_POLICY_WAIT) {
			/* A contribution came, or timeout or policy changed. */
			hash_deadline_set(state->deadlines, (uint32_t)(b - state->records),
				deadline_of(js, b));
			continue;
		}
		if (block_end(state, js, b, partial_timeout(js)))
			return block_emit(worker, thread, b, -1, straggler);
	}
	return go_on(state, found);
}

static struct ppe_next
search(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;

	found->count = 0;
	found->next = 0;
	found->from = hash_deadline_scan(state->deadlines, found->from, found->end, worker->seen,
		STEP, check_deadline, found);
	if (found->count > 0)
		return PPE_RUN(straggler);
	return go_on(state, found);
}

struct ppe_next
timeout_scan(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;
	uint64_t records = hash_capacity(state->blocks);

	if (unlikely(ppe_timer_must_wait(worker)))
		return PPE_END;
	/* Leave half of the contexts to packets. The next visit finds the rest. */
	if (unlikely(2 * state->aging >= worker->threads))
		return PPE_END;
	state->aging++;
	found->worker = worker;
	found->state = state;
	found->from = (uint32_t)(records * thread->slice / state->slices);
	found->end =
		(uint32_t)(records * (thread->slice + (uint64_t)thread->slices) / state->slices);
	return search(worker, thread);
}

uint64_t
timeout_earliest(const void *arg)
{
	const struct collective *state = arg;

	return hash_deadline_earliest(state->deadlines);
}

void
timeout_rearm(struct collective *state, const struct job_shard *js)
{
	for (unsigned int residue = 0; residue < js->window; residue++) {
		const struct block *b = js->slot[residue].current;

		if (b != NULL && b->state == BLOCK_OPEN)
			hash_deadline_set(state->deadlines, (uint32_t)(b - state->records),
				deadline_of(js, b));
	}
}

/*
 * Sources that are expelled. docs/protocol.md, "Timeouts".
 *
 * A dead source acknowledges nothing, so after two windows all sources would wait for it. Its
 * timeout begins with the first contribution that is held back, not with its last packet: a source
 * that has nothing to send is not dead. No timer searches for dead sources: the others' repetitions
 * trigger the check. Each shard decides for itself. An expelled source learns that from the shard,
 * which ends its operation; its contributions to other shards count.
 */

static bool
expel_silent(struct job_shard *job, const struct slot *slot, uint64_t patience, uint64_t now)
{
	bool any = false;

	for (unsigned int s = 0; s < job->source_end; s++) {
		uint8_t source = (uint8_t)s;
		uint32_t heard = job->flow[s].heard;

		if (!mask_test(job->in, source) || mask_test(job->expelled, source) ||
			slot_source_has(slot, slot->previous, source))
			continue;
		if (heard != 0 && ticks_since(heard, heard_now(now)) < patience >> HEARD_SHIFT)
			continue;
		source_expel(job, source);
		any = true;
	}
	return any;
}

void
block_expel_silent(struct collective *state, struct job_shard *job, struct slot *slot, uint64_t now)
{
	const struct ppe_job *j = state->worker->jobs->by_id[job->job];
	uint64_t patience;

	/* Other policies give no partial results. Without joins an expelled source could not
	 * return. */
	if (j == NULL || !ppe_policy_sends_partial(j->policy) || j->dead_after_ms == 0)
		return;
	patience = j->dead_after_ms * state->tsc_per_ms;
	if (slot->held_since == 0)
		slot->held_since = now;
	if (now - slot->held_since < patience || !expel_silent(job, slot, patience, now))
		return;
	for (unsigned int residue = 0; residue < job->window; residue++)
		if (job->slot[residue].current != NULL)
			block_release_previous(state, job, job->slot[residue].current);
}

const struct ppe_segment_name timeout_segments[] = {
	{timeout_scan, "age", "search"},
	{search, "search", "search straggler"},
	{straggler, "straggler", "straggler search emit output"},
	{0},
};
