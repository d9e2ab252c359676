/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources that hold the others up and are silent: when they are given up, and what becomes of them. */
#include <string.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/one_rig.h"

#define HANGS_MS 60000
#define WINDOW   2
#define SOURCES  3
#define TIMEOUT  300 /* ms, in which both workers have a CPU on a busy machine, too */

static uint8_t frame[RIG_FRAME_MAX];
static uint16_t generation;

/* The last packet that each source got. */
static struct weir_header got[SOURCES];
static uint8_t bitmap[SOURCES];
static uint32_t sum[SOURCES];
static unsigned int count[SOURCES];

static void
start(uint8_t policy, uint32_t dead_after_ms, uint16_t fixed_generation)
{
	struct rig_config config = {.workers = 2, .threads = 4, .ports = SOURCES, .jobs = 1};

	config.job[0] = rig_job(1, SOURCES, WINDOW, 16);
	config.job[0].timeout_ms = TIMEOUT;
	config.job[0].policy = policy;
	config.job[0].dead_after_ms = dead_after_ms;
	config.job[0].fixed_generation = fixed_generation;
	rig_start(&rig, &config);
	generation = fixed_generation != 0 ? fixed_generation : rig_join(&rig, 0, false);
}

static void
contribute(unsigned int s, uint32_t block)
{
	const uint32_t values[2] = {1u << s, block};
	const struct weir_header h = rig_contribution(1, generation, s, block, 2);

	rig_offer(&rig, s, &h, values, sizeof(values));
}

/* Take all that comes within so long, and what comes later because the workers had no CPU. */
static void
drain(unsigned int ms)
{
	struct ppe_stats stats;

	memset(count, 0, sizeof(count));
	memset(got, 0xff, sizeof(got));
	rte_delay_us_sleep(ms * 1000);
	rig_settle(&rig, &stats);
	for (unsigned int s = 0; s < SOURCES; s++) {
		const uint8_t *payload;
		unsigned int n, bytes;

		while ((n = rig_receive(&rig, s, frame, 5)) > 0) {
			if (!rig_parse(frame, n, &got[s], &payload, &bytes))
				continue;
			count[s]++;
			if (bytes >= 4)
				memcpy(&sum[s], payload, 4);
			if (bytes > 8)
				bitmap[s] = payload[8];
		}
	}
}

/* Sources 0 and 1 go on with a block until it is done, for `most` ms. Returns after how many ms. */
static unsigned int
two_go_on(uint32_t block, unsigned int most)
{
	uint64_t begin = ppe_tsc(), ms;

	do {
		contribute(0, block);
		contribute(1, block);
		drain(5);
		ms = (ppe_tsc() - begin) * 1000 / rte_get_tsc_hz();
		if (count[0] > 0 && got[0].block_id == block &&
			(got[0].status == WEIR_STATUS_PARTIAL || got[0].status == WEIR_STATUS_OK))
			return (unsigned int)ms;
	} while (ms < most);
	return UINT32_MAX;
}

Test(ppe_expel, expelled_source_delays_others_no_more, .timeout = 240)
{
	unsigned int ms;

	start(PPE_POLICY_PARTIAL, 1000, 0);
	/* Had these been held back, source 2 would be expelled. */
	cr_expect_neq(two_go_on(0, HANGS_MS), UINT32_MAX);
	cr_expect_neq(two_go_on(2, HANGS_MS), UINT32_MAX);
	cr_expect_eq(job_stats(1).expelled, 0);
	/* Nobody acknowledged for source 2: the third waits for it, and then need not. */
	ms = two_go_on(4, HANGS_MS);
	cr_expect(ms >= 980 && ms != UINT32_MAX, "%u ms", ms);
	cr_expect_eq(job_stats(1).expelled, 1);
	/* From now on at full speed: the contribution of the second completes the block. */
	for (uint32_t block = 6; block < 20; block += 2) {
		contribute(0, block);
		contribute(1, block);
		drain(5);
		cr_expect_eq(got[0].block_id, block);
		cr_expect_eq(got[0].status, WEIR_STATUS_PARTIAL);
		cr_expect_eq(got[0].src_cnt, 2);
		cr_expect_eq(bitmap[0], 3);
		cr_expect_eq(sum[0], 3, "block %u: %u", block, sum[0]);
		cr_expect_eq(count[2], 0, "an expelled source gets results");
	}
	stop();
}

Test(ppe_expel, expelled_source_gets_expired, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, 100, 0);
	for (uint32_t block = 0; block < 6; block += 2)
		cr_expect_neq(two_go_on(block, HANGS_MS), UINT32_MAX);
	cr_assert_eq(job_stats(1).expelled, 1);
	/* Blocks that are gone, kept, or open: the answer is the same, and no sum changes. */
	for (uint32_t block = 0; block <= 4; block += 2) {
		contribute(2, block);
		drain(5);
		cr_expect_eq(count[2], 1);
		cr_expect_eq(got[2].status, WEIR_STATUS_EXPIRED, "block %u: status %u", block,
			got[2].status);
	}
	contribute(0, 6);
	contribute(2, 6);
	contribute(1, 6);
	drain(5);
	cr_expect_eq(got[2].status, WEIR_STATUS_EXPIRED);
	cr_expect_eq(got[0].status, WEIR_STATUS_PARTIAL);
	cr_expect_eq(sum[0], 3);
	/* With the next generation it is back. */
	generation = rig_join(&rig, 0, false);
	for (unsigned int s = 0; s < SOURCES; s++)
		contribute(s, 0);
	drain(10);
	for (unsigned int s = 0; s < SOURCES; s++) {
		cr_expect_eq(got[s].status, WEIR_STATUS_OK);
		cr_expect_eq(sum[s], 7);
	}
	stop();
}

/* It only was slow: who is heard in time is not expelled, and the others get their results. */
Test(ppe_expel, a_late_source_stays, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, 20000, 0);
	two_go_on(0, 1000);
	two_go_on(2, 1000);
	cr_expect_eq(two_go_on(4, 2 * TIMEOUT), UINT32_MAX, "not held back");
	contribute(2, 0);
	drain(5);
	cr_expect_eq(got[2].status, WEIR_STATUS_PARTIAL);
	contribute(2, 2);
	drain(5);
	cr_expect_eq(got[2].status, WEIR_STATUS_PARTIAL);
	contribute(2, 4);
	cr_expect_neq(two_go_on(4, 2000), UINT32_MAX);
	cr_expect_eq(sum[0], 7);
	cr_expect_eq(got[0].status, WEIR_STATUS_OK);
	cr_expect_eq(job_stats(1).expelled, 0);
	stop();
}

/* Nobody sends for longer than that: nobody is dead. */
Test(ppe_expel, idle_sources_stay, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, 3000, 0);
	two_go_on(0, 1000);
	two_go_on(2, 1000); /* as if source 2 had lost what it sent, and had the results */
	rte_delay_us_sleep(4000 * 1000);
	cr_expect_eq(two_go_on(4, 2 * TIMEOUT), UINT32_MAX, "not held back");
	contribute(2, 4);
	drain(5);
	cr_expect_neq(two_go_on(4, 2400), UINT32_MAX);
	cr_expect_eq(job_stats(1).expelled, 0);
	stop();
}

static void
nobody_is_expelled(uint8_t policy, uint32_t dead_after_ms, uint16_t fixed_generation)
{
	start(policy, dead_after_ms, fixed_generation);
	two_go_on(0, 2 * TIMEOUT);
	two_go_on(2, 2 * TIMEOUT);
	two_go_on(4, 2 * TIMEOUT);
	cr_expect_eq(job_stats(1).expelled, 0);
	stop();
}

CASE(ppe_expel, not_when_it_is_0, nobody_is_expelled(PPE_POLICY_PARTIAL, 0, 0))
CASE(ppe_expel, not_with_policy_error, nobody_is_expelled(PPE_POLICY_ERROR, 50, 0))
CASE(ppe_expel, not_of_a_fixed_generation, nobody_is_expelled(PPE_POLICY_PARTIAL, 50, 7))
