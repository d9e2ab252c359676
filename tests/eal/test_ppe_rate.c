/* SPDX-License-Identifier: BSD-3-Clause */
/* A job with a rate gets that and no more, in both directions; another one does not notice. */
#include <inttypes.h>

#include "tests/eal/bench.h"

#define MBIT    1
#define BLOCKS  100
#define WINDOW  4
#define THREADS 4
#define LARGE   512 /* elements */
#define HEADERS 192 /* of a frame, as a burst counts them */
#define SENT    (42 + WEIR_EXT_BYTES) /* as a frame has them */

static const struct ppe_job *shape; /* of the job with a rate, and of another one without */
static uint64_t began; /* us */
static uint64_t dropped; /* by the last send_blocks() */

static void
two_jobs(struct rig_config *config)
{
	config->jobs = 2;
	config->job[1] = config->job[0];
	config->job[1].id = 2;
	config->job[0].rate_mbit = shape->rate_mbit;
	config->job[0].group = shape->group;
}

static void
start_rated(unsigned int workers, uint16_t window, uint16_t elements, uint32_t rate_mbit)
{
	shape = &(const struct ppe_job){.rate_mbit = rate_mbit};
	start(.workers = workers, .threads = THREADS, .sources = 1, .ports = 2, .window = window,
		.elements = elements, .timeout_ms = 1000, .generation = 7, .change = two_jobs);
	began = now_us();
}

/* Each block until it is answered. Returns the bytes that were taken. */
static uint64_t
send_blocks(uint32_t from, unsigned int blocks)
{
	const uint64_t before = drops(PPE_DROP_POLICED);

	for (uint32_t block = from; block < from + blocks; block++) {
		contribute(0, block);
		for (unsigned int ms = 0; !received(0); ms++) {
			cr_assert_lt(ms, 2000, "block %u: no answer", block);
			pass_ms(1);
			contribute(0, block);
		}
	}
	dropped = drops(PPE_DROP_POLICED) - before;
	return (uint64_t)blocks * (SENT + 4 * rig.job[0].elements);
}

/* Bytes that a policer lets pass: its burst, and what came since. */
static void
expect_within(uint64_t bytes, uint64_t burst, unsigned int rate_mbit)
{
	uint64_t us = now_us() - began;

	cr_expect_leq(bytes, burst + us * rate_mbit / 8,
		"%" PRIu64 " bytes in %" PRIu64 " us, after a burst of %" PRIu64, bytes, us, burst);
}

/* Two buckets of a quarter of the window each, full at first, and what came since. */
static void
holds_the_rate(unsigned int workers)
{
	uint64_t bytes;

	start_rated(workers, WINDOW, LARGE, MBIT);
	bytes = send_blocks(0, BLOCKS);
	cr_expect_gt(dropped, 0);
	expect_within(bytes, 2 * (HEADERS + 4 * LARGE) * WINDOW + 2 * 1250, MBIT);
	cr_expect_geq(bytes, (now_us() - began) * MBIT / 8, "%" PRIu64 " bytes", bytes);
	use_job(1);
	send_blocks(0, BLOCKS);
	cr_expect_eq(dropped, 0, "the other job lost %" PRIu64, dropped);
	stop();
}

CASE(ppe_rate, holds_the_rate, holds_the_rate(1))
CASE(ppe_rate, holds_the_rate_on_two_workers, holds_the_rate(2))

Test(ppe_rate, the_rate_is_changed_while_it_runs, .timeout = 90)
{
	struct ppe_job changed;

	start_rated(2, WINDOW, LARGE, 0);
	send_blocks(0, BLOCKS);
	cr_expect_eq(dropped, 0);
	changed = rig.job[0];
	changed.rate_mbit = MBIT;
	publish(&changed);
	send_blocks(BLOCKS, BLOCKS);
	cr_expect_gt(dropped, 0);
	publish(&rig.job[0]);
	send_blocks(2 * BLOCKS, BLOCKS);
	cr_expect_eq(dropped, 0);
	stop();
}

/* However often the rate is changed, the bucket is not filled by that: all that is taken is one burst and
 * what the higher rate brings. */
Test(ppe_rate, a_change_of_the_rate_fills_no_bucket, .timeout = 90)
{
	struct ppe_job changed;
	uint64_t bytes;

	start_rated(1, 16, 256, MBIT);
	changed = rig.job[0];
	bytes = send_blocks(0, 64);
	cr_assert_gt(dropped, 0, "the bucket is not empty");
	for (uint32_t i = 0; i < 20; i++) {
		changed.rate_mbit = i % 2 == 0 ? 2 * MBIT : MBIT;
		publish(&changed);
		bytes += send_blocks(64 + 8 * i, 8);
	}
	expect_within(bytes, 2 * 16 * (HEADERS + 4 * 256), 2 * MBIT);
	stop();
}

/* A slow job's whole window may come at once, and no more than that. */
Test(ppe_rate, a_burst_is_a_window_of_a_slow_job, .timeout = 90)
{
	uint64_t bytes;

	start_rated(1, 256, 256, MBIT);
	bytes = send_blocks(0, 256);
	cr_expect_eq(dropped, 0, "of its first window it lost %" PRIu64, dropped);
	bytes += send_blocks(256, 244);
	expect_within(bytes, 256 * (HEADERS + 4 * 256), MBIT);
	stop();
}

/* -- what the switch sends for a job */

#define SMALL   192 /* frames */
#define AT_ONCE 16

/* Returns the bytes that came. */
static uint64_t
take_all(void)
{
	uint64_t bytes = 0;

	for (unsigned int port = 0; port < 2; port++)
		while (received(port))
			bytes += SENT + payload_bytes;
	return bytes;
}

/* Offer a header alone `n` times. Returns the bytes that came back. */
static uint64_t
ask(struct weir_header h, unsigned int n)
{
	uint64_t bytes = 0;

	h.grad_cnt = 0;
	for (unsigned int i = 0; i < n; i++) {
		offer(&h);
		if (i % AT_ONCE != AT_ONCE - 1)
			continue;
		bytes += take_all();
		pass_ms(1);
	}
	return bytes;
}

/* Without elements, contributions and probes ask for a whole result again. Returns the bytes of all results. */
static uint64_t
results_of(unsigned int index, enum weir_collective collective, enum weir_collective again)
{
	struct weir_header h;
	uint64_t bytes;

	use_job(index);
	h = contribution(0, 0);
	h.collective = (uint8_t)collective;
	offer(&h);
	bytes = take_all();
	h.collective = (uint8_t)again;
	return bytes + ask(h, SMALL);
}

static void
late_answers_are_paid_for(enum weir_collective collective, enum weir_collective again)
{
	/* When the burst is spent, all threads but one are about to answer. */
	const uint64_t most = HEADERS + 4 * LARGE, burst = 2 * most * 2 * WINDOW;
	uint64_t bytes;

	start_rated(1, 2 * WINDOW, LARGE, MBIT);
	bytes = results_of(0, collective, again);
	expect_within(bytes, burst + most, MBIT); /* the last answer may be beyond it */
	cr_expect_gt(bytes, burst / 2, "there is hardly an answer");
	cr_expect_gt(job_stats(1).policed, 0);
	/* Without a rate all are answered. */
	bytes = results_of(1, collective, again);
	cr_expect_eq(bytes, (1 + SMALL) * (SENT + 4 * LARGE), "%" PRIu64 " bytes", bytes);
	stop();
}

CASE(ppe_rate, late_answers_are_paid_for,
	late_answers_are_paid_for(WEIR_COLLECTIVE_ALLREDUCE, WEIR_COLLECTIVE_ALLREDUCE))
CASE(ppe_rate, late_answers_that_differ_by_receiver_are_paid_for,
	late_answers_are_paid_for(WEIR_COLLECTIVE_REDUCESCATTER, WEIR_COLLECTIVE_REDUCESCATTER))
CASE(ppe_rate, answers_to_probes_are_paid_for,
	late_answers_are_paid_for(WEIR_COLLECTIVE_ALLREDUCE, WEIR_COLLECTIVE_PROBE))

/* So are replies. */
Test(ppe_rate, replies_are_paid_for, .timeout = 90)
{
	uint64_t bytes;

	start_rated(1, WINDOW, 64, MBIT);
	bytes = send_blocks(0, 1);
	generation++;
	bytes += ask(contribution(0, 0), 2 * SMALL);
	expect_within(bytes, 2 * (HEADERS + 4 * 64) * WINDOW + HEADERS, MBIT);
	cr_expect_gt(job_stats(1).policed, 0);
	stop();
}

#define SOURCES 8
#define ROUNDS  24

/* A root's payload goes to all. group: 0 for unicast. */
static void
results_are_paid_for(uint32_t group)
{
	const uint64_t rate_s = MBIT * 1000000 / 8, most = HEADERS + 4 * LARGE;
	uint64_t bytes = 0;

	shape = &(const struct ppe_job){.rate_mbit = MBIT, .group = group};
	start(.workers = 1, .sources = SOURCES, .ports = 2, .elements = LARGE, .timeout_ms = 1000,
		.generation = 7, .change = two_jobs);
	began = now_us();
	for (uint32_t block = 0; block < ROUNDS; block++)
		while (job_stats(1).blocks_complete == block) {
			for (unsigned int s = 0; s < SOURCES; s++) {
				struct weir_header h = contribution(s, block);

				h.collective = WEIR_COLLECTIVE_BROADCAST;
				offer_bytes(&h, s == 0 ? 4 * LARGE : 0);
			}
			bytes += take_all();
			pass_ms(1);
		}
	/* Two windows, or a second. */
	expect_within(bytes, RTE_MIN(2 * most * WINDOW * SOURCES, rate_s) + most * SOURCES, MBIT);
	if (group == 0)
		cr_expect_gt(job_stats(1).policed, 0);
	else /* a frame for each port and form */
		cr_expect_eq(job_stats(1).policed, 0, "%" PRIu64, job_stats(1).policed);
	stop();
}

CASE(ppe_rate, results_to_all_are_paid_for, results_are_paid_for(0))
CASE(ppe_rate, a_multicast_result_is_paid_for_once, results_are_paid_for(0xef000001))
