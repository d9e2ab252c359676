/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults for aggregation packets: contributions and results, by job, source and block. */
#include "tests/eal/fault_rig.h"

/* One rule, of what is `what`, and goes this way. */
static struct ppe_fault_rule *
start_with(
	enum ppe_fault_direction direction, enum ppe_fault_action action, enum ppe_fault_what what)
{
	start(.timeout_ms = 1000, .base_form = true);
	faults = (struct ppe_faults){.seed = 1, .held = 16};
	rule(direction, action)->what = what;
	return &faults.rule[0];
}

Test(ppe_faults_match, a_source_and_a_block_are_hit, .timeout = 90)
{
	struct ppe_fault_rule *r = start_with(PPE_FAULT_IN, PPE_FAULT_DROP, PPE_FAULT_CONTRIBUTION);

	r->job = 1;
	r->source = 1;
	r->first = r->last = 1;
	publish_faults();
	contribute_all(1);
	expect_drop(PPE_DROP_FAULT_DROP, 1);
	reduce(0);
	reduce(2);
	cr_expect_eq(read_faults().hit[0], 1);
	/* The block that misses it is complete when it comes again. */
	cr_assert_eq(ppe_publish_faults(rig.ppe, NULL), 0);
	contribute(1, 1);
	expect_all(1, WEIR_STATUS_OK, 0);
	stop();
}

Test(ppe_faults_match, another_job_is_not_hit, .timeout = 90)
{
	start_with(PPE_FAULT_IN, PPE_FAULT_DROP, PPE_FAULT_CONTRIBUTION)->job = 4;
	publish_faults();
	reduce(0);
	expect_drop(PPE_DROP_FAULT_DROP, 0);
	stop();
}

/* Cut short anywhere, a frame is ordinary or dropped under its own name; nothing is read behind it. */
Test(ppe_faults_match, truncated_packets_are_ordinary, .timeout = 90)
{
	const struct weir_header h = {.job_id = 1, .gen_id = 1};

	start_with(PPE_FAULT_IN, PPE_FAULT_DROP, PPE_FAULT_ORDINARY);
	publish_faults();
	for (unsigned int bytes = 1; bytes < 54; bytes++) {
		write_frame(&h, 0);
		rig_send(&rig, 0, frame, bytes);
	}
	rig_rest(&rig);
	cr_expect_eq(read_faults().hit[0], 53);
	stop();
}
