/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timer threads of the collective program: each looks through its slices of the block table for
 * blocks whose deadline has passed, and does what the job's policy says about those that saw no
 * new contribution for the job's timeout.
 *
 * A block's deadline is set when it is opened, and not touched by contributions: when it has passed, the
 * last contribution tells how much later it is (hashengine/deadline.h). So one that is found early is put
 * off, and none is found late.
 *
 * Time is worker->seen, of which all packets are known: what has come since may be the
 * contribution that is missed. Two exceptions: what this worker has still in its threads, so a block
 * is asked once more when it is its turn; and what a worker that had no CPU has yet to take, so
 * nothing is asked until it has (ppe_timer_must_wait).
 */
#include "hashengine/deadline_fast.h"
#include "ppe/collective/block.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/hooks.h"
#include "ppe/collective/way.h"

/* Pieces of work in a segment: some microseconds, when none of it is in a cache. The other threads run
 * in between. */
#define STEP STRAGGLERS_MAX

static struct ppe_next search(struct ppe_worker *worker, struct ppe_thread *thread);

static uint64_t
deadline_of(const struct job_shard *js, const struct block *b)
{
	return b->progress + js->timeout;
}

/* The record's deadline has passed: is its block past the timeout? Returns its next deadline. */
static uint64_t
look(void *arg, uint32_t record)
{
	struct stragglers *found = arg;
	struct block *b = &found->state->records[record];
	struct job_shard *js;
	uint64_t deadline;

	/* Gone, or done: a deadline is not taken back. */
	if (!b->hash.live || b->state != BLOCK_OPEN)
		return HASH_NEVER;
	js = found->state->job[b->job];
	deadline = deadline_of(js, b);
	if (deadline > found->worker->seen)
		return deadline;
	if (js->policy == PPE_POLICY_WAIT) {
		js->count.blocks_waiting += !b->overdue;
		b->overdue = 1;
		return HASH_NEVER; /* nothing more will be done about it: age_anew */
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

/* One straggling block after the other; each emission comes back here. */
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
			continue; /* completed while we served another */
		js = state->job[b->job];
		if (deadline_of(js, b) > worker->seen || js->policy == PPE_POLICY_WAIT) {
			/* A contribution came meanwhile, or the job is to wait for longer, or for good. */
			hash_deadline_set(state->deadlines, (uint32_t)(b - state->records),
				deadline_of(js, b));
			continue;
		}
		block_finish(state, js, b,
			js->policy == PPE_POLICY_PARTIAL ? WEIR_STATUS_PARTIAL : WEIR_STATUS_ERROR);
		emit_block(worker, thread, b, -1, straggler);
		return PPE_RUN(emit);
	}
	return go_on(state, found);
}

/* The next records. */
static struct ppe_next
search(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;

	found->count = 0;
	found->next = 0;
	found->from = hash_deadline_scan(
		state->deadlines, found->from, found->end, worker->seen, STEP, look, found);
	if (found->count > 0)
		return PPE_RUN(straggler);
	return go_on(state, found);
}

struct ppe_next
age(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct stragglers *found = &lmem(thread)->stragglers;
	uint64_t records = hash_capacity(state->blocks);

	if (unlikely(ppe_timer_must_wait(worker)))
		return PPE_END;
	/* Thousands straggle at once: packets want contexts, too. The next visit finds the rest. */
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
age_earliest(const void *arg)
{
	const struct collective *state = arg;

	return hash_deadline_earliest(state->deadlines);
}

void
age_anew(struct collective *state, const struct job_shard *js)
{
	for (unsigned int residue = 0; residue < js->window; residue++) {
		const struct block *b = js->slot[residue].current;

		if (b != NULL && b->state == BLOCK_OPEN)
			hash_deadline_set(state->deadlines, (uint32_t)(b - state->records),
				deadline_of(js, b));
	}
}

const struct ppe_segment_name age_segments[] = {
	{age, "age"},
	{search, "search"},
	{straggler, "straggler"},
	{NULL, NULL},
};
