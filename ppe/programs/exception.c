/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exception program: what is addressed to the switch itself, and is no aggregation packet, goes
 * to the kernel through a TAP port that carries the switch's MAC and IP address; so the kernel
 * answers ARP, ping and whatever listens there. What the kernel sends enters the switch by the TAP
 * port and is forwarded like any other frame.
 */
#include "ppe/program_fast.h"
#include "ppe/programs/programs.h"

static struct ppe_next
to_kernel(struct ppe_worker *worker, struct ppe_thread *thread)
{
	ppe_send(worker, thread, (uint16_t)worker->exception_port, PKTBUF_PRIO_BULK);
	return PPE_END;
}

static struct ppe_next
classify(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (unlikely(worker->exception_port < 0)) {
		ppe_drop(worker, thread, PPE_DROP_NO_EXCEPTION_PORT);
		return PPE_END;
	}
	if (unlikely(thread->port == worker->exception_port)) {
		ppe_drop(worker, thread, PPE_DROP_SAME_PORT);
		return PPE_END;
	}
	return ppe_in_order(worker, thread, to_kernel);
}

static int
create(const struct ppe_setup *setup, void **state __rte_unused)
{
	const struct ppe_match match = {.conditions = PPE_MATCH_TO_SWITCH_MAC};

	return ppe_match_add(setup, &match);
}

static const struct ppe_segment_name segments[] = {
	{classify, "classify"},
	{to_kernel, "to_kernel"},
	{NULL, NULL},
};

const struct ppe_program exception_program = {
	.name = "exception",
	.first = classify,
	.ordered = true,
	.create = create,
	.segments = {segments},
};
