/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator can see of blocks and sources while the switch runs. */
#include <errno.h>

#include "tests/eal/bench.h"

#define PAUSE_MS 40
#define PAUSE_US 30000 /* silent_us is known to a few ms */

static uint64_t
counted(const struct ppe_histogram *h, unsigned int from)
{
	uint64_t n = 0;

	for (unsigned int i = from; i < PPE_BUCKETS; i++)
		n += h->bucket[i];
	return n;
}

static void
start_three(unsigned int workers)
{
	start(.workers = workers, .sources = 3, .ports = 2, .timeout_ms = 60000);
}

/* Sources 0 and 1 contribute; the block waits for source 2. */
static void
two(uint32_t block)
{
	contribute(0, block);
	contribute(1, block);
	rig_rest(&rig);
}

Test(ppe_statistics, a_block_tells_who_is_missing, .timeout = 90)
{
	struct ppe_block_info b[4];

	start_three(2);
	two(0);
	two(1);
	contribute(2, 1); /* block 1 is done, block 0 waits */
	pass_ms(PAUSE_MS);
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, true, PAUSE_US, b, 4), 1);
	cr_assert(b[0].open && b[0].block == 0 && b[0].job == 1);
	cr_assert_eq(b[0].generation, generation);
	cr_assert_eq(b[0].heard_count, 2);
	cr_assert_eq(b[0].heard[0], 3);
	cr_assert_geq(b[0].age_us, PAUSE_US);
	cr_assert_geq(b[0].age_us, b[0].idle_us);
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, true, 2 * PAUSE_US, b, 4), 0);
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, false, 0, b, 4), 2, "the finished one, too");
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, false, 0, NULL, 0), 2, "counted without room");
	cr_assert_eq(ppe_blocks_read(rig.ppe, 9, false, 0, b, 4), -ENOENT);
	stop_unread();
}

Test(ppe_statistics, a_source_tells_how_long_it_kept_blocks_waiting, .timeout = 90)
{
	struct ppe_source_stats s;
	struct ppe_job_stats job;

	start_three(2);
	s = source_stats(2);
	cr_assert(s.heard && s.located, "it has joined");
	cr_assert_eq(s.port, 0);
	two(0);
	pass_ms(PAUSE_MS);
	cr_expect_geq(source_stats(2).silent_us, PAUSE_US);
	contribute(2, 0);
	rig_rest(&rig);
	s = source_stats(2);
	cr_expect_eq(s.last, 1);
	cr_expect_geq(s.waited_us, PAUSE_US);
	s = source_stats(0);
	cr_expect_eq(s.last, 0);
	cr_expect_eq(s.waited_us, 0);
	job = job_stats(1);
	cr_expect_eq(counted(&job.latency, 0), 1);
	cr_expect_eq(counted(&job.latency, 15), 1, "PAUSE_US is more than 2^14 us");
	cr_expect_eq(counted(&job.spread, 15), 1);
	cr_expect_geq(job.latency.sum_ns, PAUSE_US * UINT64_C(1000));
	cr_assert_eq(ppe_source_stats_read(rig.ppe, 9, 0, &s), -ENOENT);
	stop_unread();
}

/* Blocks that open and finish in one turn of the worker take time, too. */
Test(ppe_statistics, a_block_of_one_turn_has_a_latency, .timeout = 90)
{
	struct ppe_job_stats job;
	uint64_t before = 0;

	start_three(1);
	for (unsigned int block = 0; block < 100; block++) {
		reduce(block);
		job = job_stats(1);
		cr_expect_eq(counted(&job.latency, 0), block + 1);
		cr_expect_gt(job.latency.sum_ns, before, "block %u", block);
		before = job.latency.sum_ns;
	}
	stop();
}

Test(ppe_statistics, silent_source_is_not_heard, .timeout = 90)
{
	start(.late = true);
	cr_expect(!source_stats(0).heard && !source_stats(0).located);
	stop();
}
