/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults for aggregation packets: contributions and results, by job, source and block. */
#include <criterion/criterion.h>

#include <string.h>

#include "ppe/faults/faults.h"
#include "tests/eal/one_rig.h"

static uint8_t frame[RIG_FRAME_MAX];
static struct ppe_faults faults;
static uint16_t generation;

static void
start(void)
{
	struct rig_config config = {.workers = 2, .threads = 8, .ports = 2, .jobs = 1};

	config.job[0] = rig_job(3, 2, 4, 8);
	rig_start(&rig, &config);
	generation = rig_join(&rig, 0, true);
	faults = (struct ppe_faults){.seed = 1, .held = 16, .nb_rules = 1};
	faults.rule[0] = (struct ppe_fault_rule){.port = -1,
		.job = -1,
		.source = -1,
		.last = UINT32_MAX,
		.probability = 1,
		.bits = 1};
}

static void
contribute(unsigned int source, uint32_t block)
{
	struct weir_header header = {.job_id = 3,
		.src_id = (uint8_t)source,
		.block_id = block,
		.gen_id = generation,
		.grad_cnt = 8};
	uint8_t payload[32] = {0};

	rig_send(&rig, source % 2, frame, rig_frame(frame, source, &header, payload, 32));
}

static void
settle(struct ppe_stats *stats)
{
	rig_settle(&rig, stats);
}

static uint64_t
hits(void)
{
	struct ppe_fault_stats stats;

	ppe_faults_read(rig.ppe, &stats);
	return stats.hit[0];
}

Test(ppe_faults_match, a_source_and_a_block_are_hit, .timeout = 90)
{
	struct ppe_stats stats;

	start();
	faults.rule[0].what = PPE_FAULT_CONTRIBUTION;
	faults.rule[0].job = 3;
	faults.rule[0].source = 1;
	faults.rule[0].first = faults.rule[0].last = 1;
	cr_assert_eq(ppe_publish_faults(rig.ppe, &faults), 0);
	for (uint32_t block = 0; block < 3; block++)
		for (unsigned int source = 0; source < 2; source++)
			contribute(source, block);
	settle(&stats);
	cr_expect_eq(stats.drops[PPE_DROP_FAULT_DROP], 1);
	cr_expect_eq(hits(), 1);
	/* The block that misses it is complete when it comes again. */
	cr_assert_eq(ppe_publish_faults(rig.ppe, NULL), 0);
	contribute(1, 1);
	settle(&stats);
	cr_expect_eq(stats.sent, stats.created, "six results, and the joins'");
	stop();
}

Test(ppe_faults_match, another_job_is_not_hit, .timeout = 90)
{
	struct ppe_stats stats;

	start();
	faults.rule[0].what = PPE_FAULT_CONTRIBUTION;
	faults.rule[0].job = 4;
	cr_assert_eq(ppe_publish_faults(rig.ppe, &faults), 0);
	contribute(0, 0);
	contribute(1, 0);
	settle(&stats);
	cr_expect_eq(stats.drops[PPE_DROP_FAULT_DROP], 0);
	stop();
}

/* A damaged result is one receiver's: the other's, of the same payload, is whole. */
Test(ppe_faults_match, one_receivers_result_is_damaged, .timeout = 90)
{
	unsigned int bytes;

	start();
	faults.rule[0].what = PPE_FAULT_RESULT;
	faults.rule[0].direction = PPE_FAULT_OUT;
	faults.rule[0].action = PPE_FAULT_CORRUPT;
	faults.rule[0].source = 1;
	cr_assert_eq(ppe_publish_faults(rig.ppe, &faults), 0);
	contribute(0, 0);
	contribute(1, 0);
	bytes = rig_receive(&rig, 0, frame, 2000);
	cr_assert_gt(bytes, 0);
	cr_expect(rig_checksums_hold(frame));
	for (unsigned int i = 54; i < bytes; i++)
		cr_expect_eq(frame[i], 0, "byte %u", i);
	cr_expect_gt(rig_receive(&rig, 1, frame, 2000), 0);
	cr_expect_eq(hits(), 1);
	stop();
}

/* Cut short anywhere, a frame is ordinary or dropped under its own name; nothing is read behind it. */
Test(ppe_faults_match, truncated_packets_are_ordinary, .timeout = 90)
{
	struct weir_header header = {.job_id = 3, .gen_id = 1, .grad_cnt = 0};
	struct ppe_fault_stats stats;
	struct ppe_stats packets;

	start();
	faults.rule[0].what = PPE_FAULT_ORDINARY;
	cr_assert_eq(ppe_publish_faults(rig.ppe, &faults), 0);
	for (unsigned int bytes = 1; bytes < 54; bytes++) {
		rig_frame(frame, 0, &header, NULL, 0);
		rig_send(&rig, 0, frame, bytes);
	}
	rig_settle(&rig, &packets);
	ppe_faults_read(rig.ppe, &stats);
	cr_expect_eq(stats.hit[0], 53);
	stop();
}
