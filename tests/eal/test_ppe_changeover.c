/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs change while messages lie between two workers, one of which is held at the crossbar: with the
 * former table, or before it goes over to the new one. Nothing of one job may count in the other.
 *
 * All frames come in by port 0, which is worker 0's; worker 1 is held in __wrap_crossbar_receive, which
 * the linker puts in place of crossbar_receive.
 */
#include <criterion/criterion.h>

#include <errno.h>

#include <inttypes.h>
#include <string.h>

#include <rte_cycles.h>

#include "ppe/crossbar.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/rig.h"

#define ELEMENTS 8
#define FIXED    7
#define HOLD_S   5 /* the most that a worker is held: a test that fails ends, too */

/* Where worker 1 is held: with the table of its turn and what lies in its ring not yet taken; or
 * having taken what was there: it changes over before it takes anything more. */
enum gate { GATE_OPEN, GATE_BEFORE, GATE_BEHIND };

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];
static uint32_t gate, held; /* enum gate; whether worker 1 is there */

unsigned int __real_crossbar_receive(struct ppe_worker *worker);
unsigned int __wrap_crossbar_receive(struct ppe_worker *worker);

static void
hold(enum gate here)
{
	uint64_t end = rte_rdtsc() + HOLD_S * rte_get_tsc_hz();

	while (__atomic_load_n(&gate, __ATOMIC_ACQUIRE) == here && rte_rdtsc() < end) {
		__atomic_store_n(&held, 1, __ATOMIC_RELEASE);
		rte_delay_us_sleep(100);
	}
	__atomic_store_n(&held, 0, __ATOMIC_RELEASE);
}

unsigned int
__wrap_crossbar_receive(struct ppe_worker *worker)
{
	unsigned int n;

	if (worker->id == 1)
		hold(GATE_BEFORE);
	n = __real_crossbar_receive(worker);
	if (worker->id == 1)
		hold(GATE_BEHIND);
	return n;
}

static void
close_gate(enum gate where)
{
	__atomic_store_n(&gate, where, __ATOMIC_RELEASE);
	for (unsigned int ms = 0; ms < 2000 && !__atomic_load_n(&held, __ATOMIC_ACQUIRE); ms++)
		rte_delay_us_sleep(1000);
	cr_assert(__atomic_load_n(&held, __ATOMIC_ACQUIRE), "worker 1 does not come to the gate");
}

static void
open_gate(void)
{
	cr_assert(__atomic_load_n(&held, __ATOMIC_ACQUIRE), "worker 1 was not held long enough");
	__atomic_store_n(&gate, GATE_OPEN, __ATOMIC_RELEASE);
}

/* Until so many messages lie in the ring to worker 1. */
static void
wait_for_hops(unsigned int n)
{
	const struct rte_ring *ring = rig.ppe->worker[0]->peer[1].out;

	for (unsigned int ms = 0; ms < 2000 && rte_ring_count(ring) < n; ms++)
		rte_delay_us_sleep(1000);
	cr_assert_eq(rte_ring_count(ring), n, "%u messages for worker 1", rte_ring_count(ring));
}

/* A job whose generation is fixed. */
static struct ppe_job
fixed_job(uint8_t id, uint16_t sources, uint16_t window, uint32_t instance)
{
	struct ppe_job job = rig_job(id, sources, window, ELEMENTS);

	job.fixed_generation = FIXED;
	job.instance = instance;
	return job;
}

static void
start(const struct ppe_job *job)
{
	struct rig_config config = {
		.lcores = true, .workers = 2, .threads = 4, .ports = 2, .jobs = 1};

	config.job[0] = *job;
	rig_start(&rig, &config);
}

static void
publish(const struct ppe_job *job)
{
	struct ppe_jobs table = {0};

	table.by_id[job->id] = job;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
}

static uint64_t
unknown(void)
{
	struct ppe_stats stats;

	ppe_stats_read(rig.ppe, &stats);
	return stats.drops[PPE_DROP_UNKNOWN_JOB];
}

static void
contribute(uint8_t job, uint8_t source, uint16_t generation, uint32_t block, uint32_t value)
{
	struct weir_header h = rig_contribution(job, generation, source, block, ELEMENTS);
	uint32_t values[ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		values[i] = value + i;
	rig_offer(&rig, 0, &h, values, sizeof(values));
}

static void
join(uint8_t job, uint8_t source)
{
	struct weir_header h = {.job_id = job,
		.src_id = source,
		.block_id = 1000u + source,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};

	rig_offer(&rig, 0, &h, NULL, 0);
}

/* As if the source's interface had a MAC address with this last byte. */
static void
join_from_mac(uint8_t job, uint8_t source, uint8_t last)
{
	struct weir_header h = {.job_id = job,
		.src_id = source,
		.block_id = 1000u + source,
		.collective = WEIR_COLLECTIVE_JOIN,
		.extended = true};
	unsigned int n = rig_frame(frame, source, &h, NULL, 0);

	frame[11] = last;
	rig_send(&rig, 0, frame, n);
}

/* One answer. false: none came. */
static bool
hear(struct weir_header *h, const uint8_t **payload, unsigned int *bytes, unsigned int ms)
{
	unsigned int n = rig_receive(&rig, 0, frame, ms);

	return n > 0 && rig_parse(frame, n, h, payload, bytes);
}

/* Source s contributes 100 x (s + 1) + block: each source once, and each gets the sum. */
static void
reduce(const struct ppe_job *job, uint16_t generation, uint32_t block)
{
	uint32_t sum = 0;
	unsigned int results = 0;

	for (unsigned int s = 0; s < job->nb_sources; s++) {
		contribute(job->id, (uint8_t)s, generation, block, 100 * (s + 1) + block);
		sum += 100 * (s + 1) + block;
	}
	for (unsigned int s = 0; s < job->nb_sources; s++) {
		struct weir_header h;
		const uint8_t *payload;
		unsigned int bytes;
		uint32_t got;

		if (!hear(&h, &payload, &bytes, 1000))
			break;
		cr_expect(h.status == WEIR_STATUS_OK && h.block_id == block &&
				h.gen_id == generation && h.src_cnt == job->nb_sources &&
				bytes == ELEMENTS * 4,
			"block %u: status %s of block %u, %u sources, %u bytes", block,
			weir_status_text(h.status), h.block_id, h.src_cnt, bytes);
		for (unsigned int i = 0; i < bytes / 4; i++) {
			memcpy(&got, payload + 4 * i, 4);
			cr_expect_eq(got, sum + i * job->nb_sources, "block %u element %u: %u",
				block, i, got);
		}
		results++;
	}
	cr_expect_eq(results, job->nb_sources, "block %u: %u results", block, results);
}

/* The job did this and no more; the former one has left; every packet is accounted for. */
static void
finish(const struct ppe_job *job, unsigned int blocks)
{
	struct ppe_stats stats;
	struct ppe_job_stats count;
	struct weir_header h;
	const uint8_t *payload;
	const char *error;
	unsigned int bytes, left = 1;

	cr_expect_not(hear(&h, &payload, &bytes, 50), "an answer that nobody asked for");
	rig_settle(&rig, &stats);
	cr_assert_eq(ppe_job_stats_read(rig.ppe, job->id, &count), 0);
	cr_expect_eq(count.blocks_opened, blocks, "%" PRIu64 " opened", count.blocks_opened);
	cr_expect_eq(count.contributions, blocks * job->nb_sources);
	cr_expect_eq(count.blocks_in_flight, 0);
	for (unsigned int ms = 0; ms < 1000 && left > 0; ms++) {
		left = ppe_jobs_leaving(rig.ppe);
		rte_delay_us_sleep(1000);
	}
	cr_expect_eq(left, 0, "the former job never left");
	error = rig_stop(&rig);
	cr_expect_null(error, "%s", error);
}

/* Contributions of sources 0 and 2 of a job of three, to one of two that has its id now: neither may
 * count there, as themselves or as somebody else's. */
Test(ppe_changeover, hops_of_a_job_that_lost_a_source, .timeout = 90)
{
	const struct ppe_job three = fixed_job(1, 3, 4, 1), two = fixed_job(1, 2, 4, 2);

	start(&three);
	close_gate(GATE_BEHIND);
	contribute(1, 0, FIXED, 0, 5000);
	contribute(1, 2, FIXED, 0, 6000);
	wait_for_hops(2);
	publish(&two);
	open_gate();
	for (uint32_t block = 0; block < 8; block++)
		reduce(&two, FIXED, block);
	cr_expect_eq(unknown(), 2, "%" PRIu64 " of another job", unknown());
	finish(&two, 8);
}

/* The other way: contributions to the job of two come to a worker that still has the one of three. */
Test(ppe_changeover, hops_to_a_worker_with_the_former_table, .timeout = 90)
{
	const struct ppe_job three = fixed_job(1, 3, 4, 1), two = fixed_job(1, 2, 4, 2);

	start(&three);
	close_gate(GATE_BEFORE);
	publish(&two);
	contribute(1, 0, FIXED, 0, 5000);
	contribute(1, 1, FIXED, 0, 6000);
	wait_for_hops(2);
	open_gate();
	for (unsigned int ms = 0; ms < 2000 && unknown() < 2; ms++)
		rte_delay_us_sleep(1000);
	for (uint32_t block = 0; block < 8; block++)
		reduce(&two, FIXED, block);
	cr_expect_eq(unknown(), 2, "%" PRIu64 " of another job", unknown());
	finish(&two, 8);
}

/* Of window 1 all blocks are worker 1's, of window 64 every other one: a hop of the former job may
 * open no block where the new one has none. */
Test(ppe_changeover, hops_of_a_job_of_another_window, .timeout = 90)
{
	const struct ppe_job narrow = fixed_job(1, 2, 1, 1), wide = fixed_job(1, 2, 64, 2);

	start(&narrow);
	close_gate(GATE_BEHIND);
	for (uint32_t block = 0; block < 4; block++)
		contribute(1, 0, FIXED, block, 5000);
	wait_for_hops(4);
	publish(&wide);
	open_gate();
	for (uint32_t block = 0; block < 128; block++)
		reduce(&wide, FIXED, block);
	cr_expect_eq(unknown(), 4, "%" PRIu64 " of another job", unknown());
	finish(&wide, 128);
}

/* All of a job's sources have joined; the answers' generation. */
static uint16_t
joined(const struct ppe_job *job)
{
	uint16_t generation = 0;

	for (unsigned int answers = 0; answers < job->nb_sources;) {
		struct weir_header h;
		const uint8_t *payload;
		unsigned int bytes;

		cr_assert(hear(&h, &payload, &bytes, 2000), "a join is not answered");
		cr_assert_eq(h.collective, WEIR_COLLECTIVE_JOIN);
		if (h.status == WEIR_STATUS_WAITING)
			continue;
		cr_expect_eq(h.status, WEIR_STATUS_OK);
		cr_expect(generation == 0 || h.gen_id == generation);
		generation = h.gen_id;
		answers++;
	}
	return generation;
}

/* While a source's new endpoint is on its way to worker 1, that of another repeat waits: a job has one announcement at a
 * time, or repeats from many addresses would fill the memory for those. */
Test(ppe_changeover, endpoints_are_announced_one_at_a_time, .timeout = 90)
{
	const struct ppe_job job = rig_job(2, 2, 4, ELEMENTS); /* its home is worker 0 */
	const unsigned int repeats = 2 * PPE_STAGE;
	struct weir_header h;
	struct ppe_job_stats count;
	const uint8_t *payload;
	unsigned int bytes;

	start(&job);
	join(2, 0);
	join(2, 1);
	joined(&job);
	close_gate(GATE_BEFORE);
	for (unsigned int i = 0; i < repeats; i++) {
		join_from_mac(2, 0, (uint8_t)(i % 2 == 0 ? 0x55 : 0x66));
		for (unsigned int ms = 0; ms < 2000; ms++) {
			ppe_job_stats_read(rig.ppe, 2, &count);
			if (count.joins == i + 3)
				break;
			rte_delay_us_sleep(1000);
		}
	}
	wait_for_hops(1);
	ppe_job_stats_read(rig.ppe, 2, &count);
	cr_expect_geq(count.held_back, repeats / 2 - 1, "%" PRIu64 " held back", count.held_back);
	open_gate();
	frame[5] = 0;
	for (unsigned int i = 0; i < 100 && frame[5] != 0x77; i++) {
		join_from_mac(2, 0, 0x77);
		while (hear(&h, &payload, &bytes, 50) && frame[5] != 0x77)
			;
	}
	cr_expect_eq(frame[5], 0x77, "the endpoint no longer follows its source");
	while (hear(&h, &payload, &bytes, 50))
		;
	finish(&job, 0);
}

/* An announcement comes to a worker that does not have its job yet: it must come again. */
Test(ppe_changeover, a_walk_before_the_table, .timeout = 90)
{
	const struct ppe_job former = fixed_job(1, 2, 4, 1);
	struct ppe_job job = rig_job(2, 2, 4, ELEMENTS); /* its home is worker 0 */
	struct ppe_stats stats;
	uint16_t generation;

	start(&former);
	close_gate(GATE_BEFORE);
	publish(&job);
	join(2, 0);
	join(2, 1);
	wait_for_hops(1);
	open_gate();
	generation = joined(&job);
	ppe_stats_read(rig.ppe, &stats);
	cr_expect_geq(stats.worker[0].hops_out, 2, "the announcement did not come again");
	for (uint32_t block = 0; block < 8; block++)
		reduce(&job, generation, block);
	finish(&job, 8);
}

/* An announcement comes to a worker that has another job of its id: it must touch neither. */
Test(ppe_changeover, a_walk_behind_the_table, .timeout = 90)
{
	struct ppe_job former = rig_job(2, 2, 4, ELEMENTS), job = rig_job(2, 2, 4, ELEMENTS);
	uint16_t generation;

	former.instance = 1;
	job.instance = 2;
	job.first_generation = 300;
	start(&former);
	close_gate(GATE_BEHIND);
	join(2, 0);
	join(2, 1);
	wait_for_hops(1);
	publish(&job);
	open_gate();
	for (unsigned int ms = 0; ms < 2000 && unknown() < 1; ms++)
		rte_delay_us_sleep(1000);
	cr_expect_eq(unknown(), 1, "the former job's announcement goes on");
	join(2, 0);
	join(2, 1);
	generation = joined(&job);
	cr_expect_eq(generation, 300, "generation %u", generation);
	for (uint32_t block = 0; block < 8; block++)
		reduce(&job, generation, block);
	finish(&job, 8);
}

/* A switch stops without a worker that stands still, says so, and frees nothing that the worker has. */
Test(ppe_changeover, a_stop_does_not_wait_for_a_standing_worker, .timeout = 90)
{
	const struct ppe_job job = fixed_job(1, 2, 4, 1);

	start(&job);
	close_gate(GATE_BEFORE);
	cr_expect_eq(ppe_stop(rig.ppe, 100), -EBUSY);
	ppe_destroy(rig.ppe, NULL);
	open_gate();
	cr_expect_null(rig_stop(&rig));
}
