/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults on the bench, to frames with numbers. Main thread. */
#ifndef TESTS_EAL_FAULT_RIG_H
#define TESTS_EAL_FAULT_RIG_H

#include "ppe/faults/faults.h"
#include "tests/eal/bench.h"

static struct ppe_faults faults; /* what publish_faults() publishes */

/* For bench_setup.change. */
static inline void
without_jobs(struct rig_config *config)
{
	config->jobs = 0;
	config->frames = 8191; /* more than a worker can hold */
}

/* Another rule, of all that goes this way. */
static inline struct ppe_fault_rule *
rule(enum ppe_fault_direction direction, enum ppe_fault_action action)
{
	struct ppe_fault_rule *r = &faults.rule[faults.nb_rules++];

	*r = (struct ppe_fault_rule){.port = -1,
		.direction = direction,
		.job = -1,
		.source = -1,
		.last = UINT32_MAX,
		.probability = 1,
		.action = action,
		.distance = 1,
		.bits = 1};
	return r;
}

static inline void
publish_faults(void)
{
	cr_assert_eq(ppe_publish_faults(rig.ppe, &faults), 0);
}

static inline struct ppe_fault_stats
read_faults(void)
{
	struct ppe_fault_stats stats;

	ppe_faults_read(rig.ppe, &stats);
	return stats;
}

/* Frames with numbers from 1 on, for everybody, into port 0; all leave by port 1. */
static inline void
send_numbers(unsigned int count)
{
	for (uint32_t number = 1; number <= count; number++) {
		memset(frame, 0, 64);
		memset(frame, 0xff, 6);
		frame[6] = 2;
		weir_put16(frame + 12, 0x88b5);
		weir_put32(frame + 14, number);
		rig_send(&rig, 0, frame, 64);
	}
}

#endif
