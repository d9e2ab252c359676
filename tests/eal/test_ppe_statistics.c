/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator can see of blocks and sources while the switch runs. */
#include <errno.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/rig.h"

#define PAUSE_US 40000

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];

static void
offer(uint16_t generation, unsigned int source, uint32_t block)
{
	const struct weir_header h = rig_contribution(1, generation, source, block, 4);
	const uint32_t values[4] = {1, 2, 3, 4};

	rig_offer(&rig, source % rig.ports, &h, values, sizeof(values));
}

static uint64_t
counted(const struct ppe_histogram *h, unsigned int from)
{
	uint64_t n = 0;

	for (unsigned int i = from; i < PPE_BUCKETS; i++)
		n += h->bucket[i];
	return n;
}

static uint16_t
start(unsigned int workers)
{
	struct rig_config config = {.workers = workers, .threads = 4, .ports = 2, .jobs = 1};

	config.job[0] = rig_job(1, 3, 4, 16);
	config.job[0].timeout_ms = 60000;
	rig_start(&rig, &config);
	return rig_join(&rig, 0, false);
}

static void
stop(void)
{
	const char *error;

	for (unsigned int port = 0; port < 2; port++)
		while (rig_receive(&rig, port, frame, 0) > 0)
			;
	error = rig_stop(&rig);
	cr_expect_null(error, "%s", error);
}

Test(ppe_statistics, a_block_tells_who_is_missing, .timeout = 90)
{
	uint16_t generation = start(2);
	struct ppe_block_info b[4];
	struct ppe_stats stats;

	for (uint32_t block = 0; block < 2; block++)
		for (unsigned int s = 0; s < 2; s++)
			offer(generation, s, block);
	offer(generation, 2, 1); /* block 1 is done, block 0 waits for source 2 */
	rig_settle(&rig, &stats);
	rte_delay_us_sleep(PAUSE_US);
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, true, PAUSE_US / 2, b, 4), 1);
	cr_assert(b[0].open && b[0].block == 0 && b[0].job == 1);
	cr_assert_eq(b[0].generation, generation);
	cr_assert_eq(b[0].heard_count, 2);
	cr_assert_eq(b[0].heard[0], 3);
	cr_assert_geq(b[0].age_us, PAUSE_US / 2);
	cr_assert_geq(b[0].age_us, b[0].idle_us);
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, true, UINT64_C(3600000000), b, 4), 0);
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, false, 0, b, 4), 2, "the finished one, too");
	cr_assert_eq(ppe_blocks_read(rig.ppe, 1, false, 0, NULL, 0), 2, "counted without room");
	cr_assert_eq(ppe_blocks_read(rig.ppe, 9, false, 0, b, 4), -ENOENT);
	stop();
}

Test(ppe_statistics, a_source_tells_how_long_it_kept_blocks_waiting, .timeout = 90)
{
	uint16_t generation = start(2);
	struct ppe_source_stats s;
	struct ppe_job_stats job;
	struct ppe_stats stats;

	cr_assert_eq(ppe_source_stats_read(rig.ppe, 1, 2, &s), 0);
	cr_assert(s.heard && s.located, "it has joined");
	cr_assert_eq(s.port, 0);
	for (unsigned int i = 0; i < 2; i++)
		offer(generation, i, 0);
	rig_settle(&rig, &stats);
	rte_delay_us_sleep(PAUSE_US);
	ppe_source_stats_read(rig.ppe, 1, 2, &s);
	cr_expect_geq(s.silent_us, PAUSE_US / 2);
	offer(generation, 2, 0);
	rig_settle(&rig, &stats);
	ppe_source_stats_read(rig.ppe, 1, 2, &s);
	cr_expect_eq(s.last, 1);
	cr_expect_geq(s.waited_us, PAUSE_US / 2);
	ppe_source_stats_read(rig.ppe, 1, 0, &s);
	cr_expect_eq(s.last, 0);
	cr_expect_eq(s.waited_us, 0);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, 1, &job), 0);
	cr_expect_eq(counted(&job.latency, 0), 1);
	cr_expect_eq(counted(&job.latency, 15), 1, "PAUSE_US is more than 2^14 us");
	cr_expect_eq(counted(&job.spread, 15), 1);
	cr_expect_geq(job.latency.sum_ns, PAUSE_US * UINT64_C(1000) / 2);
	cr_assert_eq(ppe_source_stats_read(rig.ppe, 9, 0, &s), -ENOENT);
	stop();
}

/* Blocks that open and finish in one turn of the worker take time, too. */
Test(ppe_statistics, a_block_of_one_turn_has_a_latency, .timeout = 90)
{
	uint16_t generation = start(1);
	struct ppe_job_stats job;
	struct ppe_stats stats;
	uint64_t before = 0;

	for (unsigned int block = 0; block < 100; block++) {
		for (unsigned int source = 0; source < 3; source++)
			offer(generation, source, block);
		rig_settle(&rig, &stats);
		while (rig_receive(&rig, 0, frame, 0) > 0 || rig_receive(&rig, 1, frame, 0) > 0)
			;
		cr_assert_eq(ppe_job_stats_read(rig.ppe, 1, &job), 0);
		cr_expect_eq(counted(&job.latency, 0), block + 1);
		cr_expect_gt(job.latency.sum_ns, before, "block %u", block);
		before = job.latency.sum_ns;
	}
	stop();
}

Test(ppe_statistics, silent_source_is_not_heard, .timeout = 90)
{
	struct rig_config config = {.workers = 1, .threads = 4, .ports = 2, .jobs = 1};
	struct ppe_source_stats s;

	config.job[0] = rig_job(1, 2, 4, 16);
	rig_start(&rig, &config);
	cr_assert_eq(ppe_source_stats_read(rig.ppe, 1, 0, &s), 0);
	cr_expect(!s.heard && !s.located);
	stop();
}
