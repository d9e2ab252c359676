/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that takes all that it may, and cannot let go of it, takes nothing of another. */
#include "tests/eal/bench.h"

#define WINDOW 4

enum { GREEDY, BESIDE };

static void
with_another(struct rig_config *config)
{
	config->jobs = 2;
	config->job[BESIDE] = rig_job(2, 2, WINDOW, 8);
}

static void
run(unsigned int workers)
{
	struct ppe_job_stats greedy, beside;

	start(.workers = workers, .policy = PPE_POLICY_PARTIAL, .change = with_another);
	/* Two windows end without source 1, which acknowledges none: all buffers of the job are in use. */
	for (uint32_t block = 0; block < 2 * WINDOW; block++) {
		contribute(0, block);
		expect_all(block, WEIR_STATUS_PARTIAL, 1);
	}
	cr_assert_eq(job_stats(1).buffers_used, 2 * WINDOW);
	for (uint32_t block = 0; block < 5 * WINDOW; block++) {
		use_job(GREEDY);
		contribute(0, 2 * WINDOW + block % WINDOW);
		use_job(BESIDE);
		reduce(block);
	}
	greedy = job_stats(1);
	beside = job_stats(2);
	cr_expect_eq(greedy.held_back, 5 * WINDOW);
	cr_expect_eq(greedy.buffers_used, 2 * WINDOW);
	cr_expect_eq(greedy.buffers_reserved, 3 * WINDOW);
	cr_expect_eq(beside.held_back, 0);
	cr_expect_eq(beside.blocks_complete, 5 * WINDOW);
	cr_expect_leq(beside.buffers_used, 2 * WINDOW);
	expect_drop(PPE_DROP_HELD_BACK, 5 * WINDOW);
	expect_drop(PPE_DROP_NO_MEMORY, 0);
	expect_drop(PPE_DROP_TABLE_FULL, 0);
	/* It goes on as soon as the other one has acknowledged. */
	use_job(GREEDY);
	for (uint32_t block = WINDOW; block < 2 * WINDOW; block++) {
		contribute(1, block);
		expect(1, block, WEIR_STATUS_PARTIAL, 1);
	}
	for (uint32_t block = 2 * WINDOW; block < 3 * WINDOW; block++)
		reduce(block);
	stop();
}

CASE(ppe_quota, one_worker, run(1))
CASE(ppe_quota, two_workers, run(2))
