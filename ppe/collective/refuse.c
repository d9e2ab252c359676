/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is not taken: dropped, and its source told why, or not.
 *
 * Who is no source of the job is a stranger: its job was deleted or its membership has expired while it sent, the
 * switch was restarted without the job, or it never was one. A host that is told so need not repeat
 * into the void until its own timeout.
 *
 * It has shown nothing, not even that its address is its own. So that nobody can have a third one
 * pelted with answers: one is a header, never longer than what it answers, and a worker gives a
 * limited number a second. Who is no source of an authenticated job, and may lack its keys, is
 * told nothing.
 */
#include <rte_cycles.h>
#include <rte_ether.h>

#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/hooks.h"
#include "ppe/collective/way.h"

#define BURST_LEAST 64

int
refusals_init(struct collective *state, uint32_t per_second)
{
	uint32_t burst = RTE_MAX(per_second / 4, (uint32_t)BURST_LEAST);

	if (per_second == 0)
		return 0;
	return rmw_policer_init(
		&state->refusals, UINT64_C(8) * per_second, burst, rte_get_tsc_hz(), rte_rdtsc());
}

struct ppe_next
end_dropped(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason)
{
	ppe_drop(worker, thread, reason);
	return PPE_END;
}

struct ppe_next
refuse(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason,
	enum weir_status status)
{
	reply_status(worker, thread, &lmem(thread)->c.header, status, NULL, 0);
	return end_dropped(worker, thread, reason);
}

static enum ppe_drop
reason_of(const struct ppe_job *j, uint8_t source)
{
	if (j == NULL)
		return PPE_DROP_UNKNOWN_JOB;
	return ppe_job_has(j, source) ? PPE_DROP_ADDRESS : PPE_DROP_UNKNOWN_SOURCE;
}

struct ppe_next
refuse_stranger(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;

	if ((j == NULL || !j->authenticated) && !from_group(thread) &&
		rmw_police(&state->refusals, worker->now, 1)) {
		if (!checksums_hold(worker, thread))
			return PPE_END;
		reply_status(worker, thread, h, WEIR_STATUS_REFUSED, NULL, 0);
	}
	return end_dropped(worker, thread, reason_of(j, h->src_id));
}
