/* SPDX-License-Identifier: BSD-3-Clause */
/* A job with a rate gets that and no more, in both directions; another one does not notice. */
#include <string.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/one_rig.h"

#define MBIT         1 /* far less than even a busy machine sends */
#define BLOCKS       100
#define WINDOW       4
#define ELEMENTS_MAX 512

/* Of each block. Large frames: the sender waits for the policer, not the other way round. */
static unsigned int elements = ELEMENTS_MAX;
static uint8_t frame[RIG_FRAME_MAX];

static void
start(unsigned int workers, uint16_t window, uint32_t rate_mbit)
{
	struct rig_config config = {.workers = workers, .threads = 4, .ports = 2, .jobs = 2};

	for (unsigned int j = 0; j < 2; j++) {
		config.job[j] = rig_job((uint8_t)(1 + j), 1, window, (uint16_t)elements);
		config.job[j].fixed_generation = 7;
	}
	config.job[0].rate_mbit = rate_mbit;
	rig_start(&rig, &config);
}

/* What was taken since a contribution was policed first, and the time in which more was always there:
 * where the sender itself was late, a bucket may have been full. */
struct short_of {
	uint64_t bytes, tsc;
};

#define LATE_MS 70 /* a bucket holds what comes in 140 ms */

/* Send blocks to a job of one source, each until it is answered. Returns the bytes
 * that were taken; *dropped: how many contributions were not. */
static uint64_t
send_blocks(uint8_t job, uint32_t from, unsigned int blocks, unsigned int *dropped,
	struct short_of *less)
{
	static const uint32_t values[ELEMENTS_MAX];
	uint64_t taken = 0, last = 0;

	*dropped = 0;
	*less = (struct short_of){0};
	for (uint32_t block = from; block < from + blocks; block++) {
		const struct weir_header h = rig_contribution(job, 7, 0, block, elements);
		unsigned int bytes = rig_frame(frame, 0, &h, values, 4 * elements), n = 0;
		uint8_t answer[RIG_FRAME_MAX];

		while (n == 0) {
			struct ppe_stats stats;
			uint64_t before, now;

			ppe_stats_read(rig.ppe, &stats);
			before = stats.drops[PPE_DROP_POLICED];
			rig_send(&rig, 0, frame, bytes);
			for (unsigned int ms = 0; n == 0 && ms < 2000; ms++) {
				n = rig_receive(&rig, 0, answer, 1);
				ppe_stats_read(rig.ppe, &stats);
				if (stats.drops[PPE_DROP_POLICED] > before)
					break;
			}
			cr_assert(n > 0 || stats.drops[PPE_DROP_POLICED] > before,
				"block %u: neither answered nor policed", block);
			now = ppe_tsc();
			if (*dropped > 0 && now - last < LATE_MS * rte_get_tsc_hz() / 1000)
				less->tsc += now - last;
			if (*dropped > 0 && n > 0)
				less->bytes += bytes;
			last = now;
			*dropped += n == 0;
		}
		taken += bytes;
	}
	return taken;
}

/* Two buckets of a quarter of the window each, full at first, and what came since. */
static void
holds_the_rate(unsigned int workers)
{
	uint64_t began, bytes, us, burst = 2 * (192 + 4 * elements) * WINDOW + 2 * 1250;
	unsigned int dropped;
	struct short_of less, none;

	start(workers, WINDOW, MBIT);
	began = ppe_tsc();
	bytes = send_blocks(1, 0, BLOCKS, &dropped, &less);
	us = (ppe_tsc() - began) * 1000000 / rte_get_tsc_hz();
	cr_expect_gt(dropped, 0, "nothing was policed in %lu us", us);
	cr_expect_leq(bytes, burst + us * MBIT / 8, "%lu bytes in %lu us", bytes, us);
	us = less.tsc * 1000000 / rte_get_tsc_hz();
	cr_expect_gt(us, 200000, "only %lu us were long enough to say", us);
	cr_expect_geq(less.bytes + 4 * 4 * elements, us * MBIT / 8 * 9 / 10,
		"only %lu bytes in %lu us", less.bytes, us);
	send_blocks(2, 0, BLOCKS, &dropped, &none);
	cr_expect_eq(dropped, 0, "the other job lost %u", dropped);
	stop();
}

CASE(ppe_rate, holds_the_rate, holds_the_rate(1))
CASE(ppe_rate, holds_the_rate_on_two_workers, holds_the_rate(2))

Test(ppe_rate, the_rate_is_changed_while_it_runs, .timeout = 90)
{
	struct ppe_jobs table = {0};
	struct ppe_job changed;
	unsigned int dropped;
	struct short_of less;

	start(2, WINDOW, 0);
	send_blocks(1, 0, BLOCKS, &dropped, &less);
	cr_expect_eq(dropped, 0);
	changed = rig.job[0];
	changed.rate_mbit = MBIT;
	table.by_id[1] = &changed;
	table.by_id[2] = &rig.job[1];
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	send_blocks(1, BLOCKS, BLOCKS, &dropped, &less);
	cr_expect_gt(dropped, 0);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), 0);
	send_blocks(1, 2 * BLOCKS, BLOCKS, &dropped, &less);
	cr_expect_eq(dropped, 0);
	stop();
}

/* However often the rate is changed, the bucket is not filled by that: all that is taken is one burst and
 * what the higher rate brings. */
Test(ppe_rate, a_change_of_the_rate_fills_no_bucket, .timeout = 90)
{
	const uint64_t burst = 2 * 16 * (192 + 1024);
	struct ppe_jobs table = {0};
	uint64_t began, bytes, us;
	struct ppe_job changed;
	struct short_of less;
	unsigned int dropped;

	elements = 256;
	start(1, 16, MBIT);
	changed = rig.job[0];
	table.by_id[1] = &changed;
	table.by_id[2] = &rig.job[1];
	began = ppe_tsc();
	bytes = send_blocks(1, 0, 64, &dropped, &less);
	cr_assert_gt(dropped, 0, "the bucket is not empty");
	for (uint32_t i = 0; i < 20; i++) {
		changed.rate_mbit = i % 2 == 0 ? 2 * MBIT : MBIT;
		cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
		bytes += send_blocks(1, 64 + 8 * i, 8, &dropped, &less);
	}
	us = (ppe_tsc() - began) * 1000000 / rte_get_tsc_hz();
	cr_expect_leq(bytes, burst + us * 2 * MBIT / 8, "%lu bytes in %lu us", bytes, us);
	stop();
}

/* A slow job's whole window may come at once, and no more than that. */
Test(ppe_rate, a_burst_is_a_window_of_a_slow_job, .timeout = 90)
{
	const uint64_t burst = 256 * (192 + 1024);
	struct short_of less;
	unsigned int dropped;
	uint64_t began, bytes, us;

	elements = 256;
	start(1, 256, MBIT);
	began = ppe_tsc();
	bytes = send_blocks(1, 0, 256, &dropped, &less);
	cr_expect_eq(dropped, 0, "of its first window it lost %u", dropped);
	bytes += send_blocks(1, 256, 244, &dropped, &less);
	us = (ppe_tsc() - began) * 1000000 / rte_get_tsc_hz();
	cr_expect_leq(bytes, burst + us * MBIT / 8, "%lu bytes in %lu us", bytes, us);
	stop();
}

/* -- what the switch sends for a job */

#define SMALL   192 /* frames */
#define AT_ONCE 16
#define HEADERS 192 /* of a frame, as the burst counts them */

/* Bytes that a policer lets pass: its burst, what came since, and a packet that took the last of it. */
static void
expect_within(uint64_t bytes, uint64_t burst, uint64_t most, uint64_t began)
{
	uint64_t us = (ppe_tsc() - began) * 1000000 / rte_get_tsc_hz();

	cr_expect_leq(bytes, burst + us * MBIT / 8 + most,
		"%" PRIu64 " bytes in %" PRIu64 " us, after a burst of %" PRIu64, bytes, us, burst);
}

/* Offer a header `n` times. Returns the bytes that came back. */
static uint64_t
offer(const struct weir_header *h, unsigned int n)
{
	uint8_t answer[RIG_FRAME_MAX];
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < n; i += AT_ONCE) {
		for (unsigned int k = 0; k < AT_ONCE; k++)
			rig_offer(&rig, 0, h, NULL, 0);
		for (unsigned int got; (got = rig_receive(&rig, 0, answer, 1)) > 0;)
			bytes += got;
	}
	return bytes;
}

/* A header alone asks for a whole result again. */
Test(ppe_rate, late_answers_are_paid_for, .timeout = 90)
{
	const uint64_t burst = 2 * (HEADERS + 4 * ELEMENTS_MAX) * WINDOW;
	struct weir_header again = rig_contribution(1, 7, 0, 0, 0);
	uint64_t began = ppe_tsc(), bytes;
	struct short_of less;
	unsigned int dropped;

	elements = ELEMENTS_MAX;
	start(1, WINDOW, MBIT);
	bytes = send_blocks(1, 0, 1, &dropped, &less);
	bytes += offer(&again, SMALL);
	expect_within(bytes, burst, HEADERS + 4 * ELEMENTS_MAX, began);
	cr_expect_gt(bytes, burst / 2, "there is hardly an answer");
	cr_expect_gt(job_stats(1).policed, 0);
	/* Without a rate all are answered. */
	send_blocks(2, 0, 1, &dropped, &less);
	again.job_id = 2;
	cr_expect_gt(offer(&again, SMALL), SMALL / 2 * 4 * ELEMENTS_MAX);
	stop();
}

/* So are replies. */
Test(ppe_rate, replies_are_paid_for, .timeout = 90)
{
	const uint64_t burst = 2 * (HEADERS + 4 * 64) * WINDOW;
	struct weir_header stale = rig_contribution(1, 8, 0, 0, 0);
	uint64_t began = ppe_tsc(), bytes;
	struct short_of less;
	unsigned int dropped;

	elements = 64;
	start(1, WINDOW, MBIT);
	bytes = send_blocks(1, 0, 1, &dropped, &less);
	bytes += offer(&stale, 2 * SMALL);
	expect_within(bytes, burst, HEADERS, began);
	cr_expect_gt(job_stats(1).policed, 0);
	stop();
}

#define SOURCES 8
#define ROUNDS  24

/* A root's payload goes to all. Returns the bytes that the ports sent. */
static uint64_t
broadcast(uint32_t block)
{
	static const uint32_t values[ELEMENTS_MAX];
	const uint64_t answers = job_stats(1).blocks_complete + 1;
	uint8_t answer[RIG_FRAME_MAX];
	uint64_t bytes = 0;

	while (job_stats(1).blocks_complete < answers) {
		for (unsigned int s = 0; s < SOURCES; s++) {
			struct weir_header h = rig_contribution(1, 7, s, block, ELEMENTS_MAX);

			h.collective = WEIR_COLLECTIVE_BROADCAST;
			rig_offer(&rig, s % 2, &h, values, s == 0 ? sizeof(values) : 0);
		}
		for (unsigned int port = 0; port < 2; port++)
			for (unsigned int n; (n = rig_receive(&rig, port, answer, 1)) > 0;)
				bytes += n;
	}
	return bytes;
}

/* group: 0 for unicast. */
static void
results_are_paid_for(uint32_t group)
{
	struct rig_config config = {.workers = 1, .threads = 4, .ports = 2, .jobs = 1};
	const uint64_t rate_s = MBIT * 1000000 / 8, most = HEADERS + 4 * ELEMENTS_MAX;
	uint64_t began = ppe_tsc(), bytes = 0;

	config.job[0] = rig_job(1, SOURCES, WINDOW, ELEMENTS_MAX);
	config.job[0].fixed_generation = 7;
	config.job[0].rate_mbit = MBIT;
	config.job[0].group = group;
	rig_start(&rig, &config);
	for (uint32_t block = 0; block < ROUNDS; block++)
		bytes += broadcast(block);
	/* Two windows, or a second. */
	expect_within(bytes, RTE_MIN(2 * most * WINDOW * SOURCES, rate_s), most * SOURCES, began);
	if (group == 0)
		cr_expect_gt(job_stats(1).policed, 0);
	else /* a frame for each port and form */
		cr_expect_eq(job_stats(1).policed, 0, "%" PRIu64, job_stats(1).policed);
	stop();
}

CASE(ppe_rate, results_to_all_are_paid_for, results_are_paid_for(0))
CASE(ppe_rate, a_multicast_result_is_paid_for_once, results_are_paid_for(0xef000001))
