/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources that are given up. docs/protocol.md, "Timeouts".
 *
 * A partial result excuses a source from contributing, never from receiving: so its residue goes on only
 * when it has acknowledged the block before. A dead source acknowledges nothing, and two blocks later
 * everybody would wait for it. So the time that counts begins with the first contribution that is held
 * back, and not when the source was last heard: who has nothing to send is not dead. Nothing looks for
 * dead sources: the others' repetitions ask.
 *
 * Each shard finds out by itself. A source that is expelled in one is told so there, which ends its
 * operation, whatever the other shards think; what it contributes to them counts, and bitmaps tell.
 */
#include "ppe/collective/block.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"

/* The source gets no results from now on, and what it sends is told `expired`: its packets have no pass
 * any more, and are not from where it is. */
static void
give_up(struct collective *state, struct job_shard *job, uint8_t source)
{
	static const struct pktbuf_endpoint nowhere;

	mask_set(job->expelled, source);
	job->target--;
	job->count.expelled++;
	source_is_at(state->worker, job, source, &nowhere);
}

/* Give up those who may lack the result of the slot's previous block, and were not heard for so long. */
static bool
give_up_silent(struct collective *state, struct job_shard *job, const struct slot *slot,
	uint64_t patience, uint64_t now)
{
	bool any = false;

	for (unsigned int s = 0; s < job->source_end; s++) {
		uint8_t source = (uint8_t)s;
		uint32_t heard = job->seen[s].heard;

		if (!mask_test(job->in, source) || mask_test(job->expelled, source) ||
			slot_source_has(slot, slot->previous, source))
			continue;
		if (heard != 0 && ticks_since(heard, heard_now(now)) < patience >> HEARD_SHIFT)
			continue;
		give_up(state, job, source);
		any = true;
	}
	return any;
}

void
expel(struct collective *state, struct job_shard *job, struct slot *slot, uint64_t now)
{
	const struct ppe_job *j = state->worker->jobs->by_id[job->job];
	uint64_t patience;

	/* Other policies give nobody a sum without all. Without joins, after which nobody could come
	 * back, job->in is empty. */
	if (j == NULL || j->policy != PPE_POLICY_PARTIAL || j->dead_after_ms == 0)
		return;
	patience = j->dead_after_ms * state->tsc_per_ms;
	if (slot->held_since == 0)
		slot->held_since = now;
	if (now - slot->held_since < patience || !give_up_silent(state, job, slot, patience, now))
		return;
	for (unsigned int residue = 0; residue < job->window; residue++)
		if (job->slot[residue].current != NULL)
			block_release_previous(state, job, job->slot[residue].current);
}
