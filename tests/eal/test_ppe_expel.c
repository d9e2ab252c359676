/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources that hold the others up and are silent: when they are given up, and what becomes of them. */
#include "tests/eal/bench.h"

#define HANGS_MS 60000
#define WINDOW   2
#define SOURCES  3
#define TIMEOUT  100 /* ms */

static uint32_t dead_after_ms; /* before start */

static void
expels(struct rig_config *config)
{
	config->job[0].dead_after_ms = dead_after_ms;
}

static void
start_with(enum ppe_policy policy, uint32_t ms, uint16_t fixed_generation)
{
	dead_after_ms = ms;
	start(.sources = SOURCES, .window = WINDOW, .policy = policy, .timeout_ms = TIMEOUT,
		.generation = fixed_generation, .change = expels);
}

/* Sources 0 and 1 go on with a block until it is done, for `most` ms. Returns after how many ms. */
static unsigned int
two_go_on(uint32_t block, unsigned int most)
{
	for (unsigned int ms = 1; ms < most; ms++) {
		contribute(0, block);
		contribute(1, block);
		pass_ms(1);
		while (received(0))
			if (got.block_id == block &&
				(got.status == WEIR_STATUS_PARTIAL ||
					got.status == WEIR_STATUS_OK)) {
				discard();
				return ms;
			}
	}
	discard();
	return UINT32_MAX;
}

Test(ppe_expel, expelled_source_delays_others_no_more, .timeout = 240)
{
	unsigned int ms;

	start_with(PPE_POLICY_PARTIAL, 1000, 0);
	/* Had these been held back, source 2 would be expelled. */
	cr_expect_neq(two_go_on(0, HANGS_MS), UINT32_MAX);
	cr_expect_neq(two_go_on(2, HANGS_MS), UINT32_MAX);
	cr_expect_eq(job_stats(1).expelled, 0);
	/* Nobody acknowledged for source 2: the third waits for it, and then need not. */
	ms = two_go_on(4, HANGS_MS);
	cr_expect(ms >= 1000 && ms <= 1010, "%u ms", ms);
	cr_expect_eq(job_stats(1).expelled, 1);
	/* From now on at full speed: the contribution of the second completes the block. */
	for (uint32_t block = 6; block < 20; block += 2) {
		contribute(0, block);
		contribute(1, block);
		for (unsigned int s = 0; s < 2; s++)
			expect(s, block, WEIR_STATUS_PARTIAL, 3);
		cr_expect_eq(got.src_cnt, 2);
		cr_expect_not(received(2), "an expelled source gets results");
	}
	stop();
}

Test(ppe_expel, expelled_source_gets_expired, .timeout = 90)
{
	start_with(PPE_POLICY_PARTIAL, 100, 0);
	for (uint32_t block = 0; block < 6; block += 2)
		cr_expect_neq(two_go_on(block, HANGS_MS), UINT32_MAX);
	cr_assert_eq(job_stats(1).expelled, 1);
	/* Blocks that are gone, kept, or open: the answer is the same, and no sum changes. */
	contribute(0, 6);
	for (uint32_t block = 0; block <= 6; block += 2) {
		contribute(2, block);
		expect(2, block, WEIR_STATUS_EXPIRED, 0);
	}
	contribute(1, 6);
	for (unsigned int s = 0; s < 2; s++)
		expect(s, 6, WEIR_STATUS_PARTIAL, 3);
	expect_silence();
	/* With the next generation it is back. */
	generation = rig_join(&rig, 0, false);
	reduce(0);
	stop();
}

/* It only was slow: who is heard in time is not expelled, and the others get their results. */
Test(ppe_expel, a_late_source_stays, .timeout = 90)
{
	start_with(PPE_POLICY_PARTIAL, 20000, 0);
	two_go_on(0, HANGS_MS);
	two_go_on(2, HANGS_MS);
	cr_expect_eq(two_go_on(4, 2 * TIMEOUT), UINT32_MAX, "not held back");
	for (uint32_t block = 0; block < 4; block += 2) {
		contribute(2, block);
		expect(2, block, WEIR_STATUS_PARTIAL, 3);
	}
	contribute_all(4);
	contribute_all(4); /* the first of them may have been held back */
	for (unsigned int s = 0; s < 2; s++)
		expect(s, 4, WEIR_STATUS_OK, 7);
	cr_expect_eq(job_stats(1).expelled, 0);
	stop_unread();
}

/* Nobody sends for longer than that: nobody is dead. */
Test(ppe_expel, idle_sources_stay, .timeout = 90)
{
	start_with(PPE_POLICY_PARTIAL, 3000, 0);
	two_go_on(0, HANGS_MS);
	two_go_on(2, HANGS_MS); /* as if source 2 had lost what it sent, and had the results */
	pass_ms(4000);
	cr_expect_eq(two_go_on(4, 2 * TIMEOUT), UINT32_MAX, "not held back");
	contribute(2, 4);
	cr_expect_leq(two_go_on(4, HANGS_MS), TIMEOUT);
	cr_expect_eq(job_stats(1).expelled, 0);
	stop();
}

static void
nobody_is_expelled(enum ppe_policy policy, uint32_t ms, uint16_t fixed_generation)
{
	start_with(policy, ms, fixed_generation);
	for (uint32_t block = 0; block < 6; block += 2)
		two_go_on(block, 2 * TIMEOUT);
	cr_expect_eq(job_stats(1).expelled, 0);
	stop();
}

CASE(ppe_expel, not_when_it_is_0, nobody_is_expelled(PPE_POLICY_PARTIAL, 0, 0))
CASE(ppe_expel, not_with_policy_error, nobody_is_expelled(PPE_POLICY_ERROR, 50, 0))
CASE(ppe_expel, not_of_a_fixed_generation, nobody_is_expelled(PPE_POLICY_PARTIAL, 50, 7))
