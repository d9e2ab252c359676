/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that have more to do than a turn takes, turned by hand. One gets more from another than it can
 * serve: its timer threads get their contexts all the same, and the other's packets theirs. One was away
 * for longer than a timeout: nobody is a straggler whose contributions have waited for it.
 */
#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"

#define WINDOW  256
#define TIMEOUT 20 /* ms */
#define TURN_US 50
#define FLOOD   32 /* packets in a turn */

/* Without a turn. */
static struct ppe_job_stats
counts(uint8_t job)
{
	struct ppe_job_stats stats;

	ppe_job_stats_read(rig.ppe, job, &stats);
	return stats;
}

static void
empty_ports(void)
{
	for (unsigned int p = 0; p < rig.ports; p++)
		while (rig_receive(&rig, p, frame, 0) > 0)
			;
}

static void
with_another(struct rig_config *config)
{
	config->jobs = 2;
	config->job[1] = rig_job(2, 2, 2, 16);
	config->job[1].fixed_generation = 7;
}

/* All comes in at port 0, which is worker 0's, and goes to blocks of worker 1. */
static void
straggles_under_a_flood(unsigned int threads)
{
	double ms = 0;

	start(.workers = 2, .threads = threads, .window = 2, .elements = 16,
		.policy = PPE_POLICY_PARTIAL, .timeout_ms = TIMEOUT, .generation = 7,
		.change = with_another);
	contribute(0, 0);
	use_job(1);
	contribute(0, 1);
	rig_rest(&rig);
	cr_assert_eq(counts(1).blocks_opened, 1);
	cr_assert_gt(rig.ppe->worker[1]->count.worker.hops_in, 1);
	while (counts(1).blocks_partial == 0 && ms < 10 * TIMEOUT) {
		for (unsigned int i = 0; i < FLOOD; i++)
			contribute(0, 1);
		rig_turn_after_us(&rig, TURN_US);
		ms += TURN_US / 1000.;
		empty_ports();
	}
	cr_expect(ms >= TIMEOUT && ms <= 1.1 * TIMEOUT, "after %.2f ms", ms);
	cr_expect_gt(counts(2).duplicates, (uint64_t)(ms * 1000 / TURN_US / 3),
		"the flood is not served");
	stop_unread();
}

CASE(ppe_busy, one_thread, straggles_under_a_flood(1))
CASE(ppe_busy, four_threads, straggles_under_a_flood(4))

/* Of a window that is more than a poll, half has come when the workers lose their CPU, and the rest is there
 * when they are back: at port 0, which is worker 0's, the first to come back. */
static void
comes_back(unsigned int workers)
{
	start(.workers = workers, .threads = 4, .window = WINDOW, .elements = 16,
		.policy = PPE_POLICY_PARTIAL, .timeout_ms = TIMEOUT, .generation = 7);
	for (uint32_t b = 0; b < WINDOW; b++)
		contribute(1, b);
	rig_rest(&rig);
	for (uint32_t b = 0; b < WINDOW; b++)
		contribute(0, b);
	rig_turn_after_us(&rig, 3 * TIMEOUT * 1000);
	for (unsigned int i = 0; i < 200; i++)
		rig_turn_after_us(&rig, 5);
	cr_expect_eq(
		counts(1).blocks_partial, 0, "%u blocks", (unsigned int)counts(1).blocks_partial);
	cr_expect_eq(counts(1).blocks_complete, WINDOW);

	/* Who has not sent then is one. */
	empty_ports();
	contribute(0, WINDOW);
	rig_rest(&rig);
	rig_turn_after_us(&rig, 3 * TIMEOUT * 1000);
	rig_turn_after_us(&rig, 50);
	rig_turn_after_us(&rig, 50);
	cr_expect_eq(counts(1).blocks_partial, 1);
	stop_unread();
}

CASE(ppe_busy, away_alone, comes_back(1))
CASE(ppe_busy, away_with_another, comes_back(2))
