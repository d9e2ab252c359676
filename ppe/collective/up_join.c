/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations on the way up: how a switch takes part in its parents' jobs. docs/tree.md, "Generations". */
#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"

struct ppe_next
joined_above(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return end_dropped(worker, thread, PPE_DROP_STALE); /* it has not joined */
}

struct ppe_next
revoked_above(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return end_dropped(worker, thread, PPE_DROP_STALE); /* fixed generations do not end */
}
