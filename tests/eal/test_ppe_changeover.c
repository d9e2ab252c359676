/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs change while messages lie between two workers, one of which is held at the crossbar: with the
 * former table, or before it goes over to the new one. Nothing of one job may count in the other.
 *
 * All frames come in by port 0, which is worker 0's; worker 1 is held in __wrap_crossbar_receive, which
 * the linker puts in place of crossbar_receive.
 */
#include <errno.h>
#include <inttypes.h>

#include <rte_cycles.h>
#include <rte_ring.h>

#include "ppe/crossbar.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"

#define ELEMENTS 8
#define FIXED    7
#define HOLD_S   5 /* the most that a worker is held: a test that fails ends, too */

/* Where worker 1 is held: with the table of its turn and what lies in its ring not yet taken; or
 * having taken what was there: it changes over before it takes anything more. */
enum gate { GATE_OPEN, GATE_BEFORE, GATE_BEHIND };

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
fixed_job(uint16_t sources, uint16_t window, uint32_t instance)
{
	struct ppe_job job = rig_job(1, sources, window, ELEMENTS);

	job.fixed_generation = FIXED;
	job.instance = instance;
	return job;
}

static const struct ppe_job *first; /* of the job that a switch starts with */

static void
with_lcores(struct rig_config *config)
{
	config->lcores = true;
	config->job[0] = *first;
}

static void
start_with(const struct ppe_job *job)
{
	first = job;
	start(.workers = 2, .threads = 4, .ports = 1, .late = true, .change = with_lcores);
	generation = job->fixed_generation;
}

/* This job takes the first one's place, and hosts are its own. */
static void
change_over(const struct ppe_job *job)
{
	struct ppe_jobs table = {0};

	rig.job[1] = *job;
	table.by_id[job->id] = &rig.job[1];
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &table), 0);
	use_job(1);
	generation = job->fixed_generation;
}

/* Worker 1 has dropped so many that were another job's. */
static void
expect_unknown(uint64_t n)
{
	struct ppe_stats stats = {0};

	for (unsigned int ms = 0; ms < 2000 && stats.drops[PPE_DROP_UNKNOWN_JOB] < n; ms++) {
		rte_delay_us_sleep(1000);
		ppe_stats_read(rig.ppe, &stats);
	}
	expect_drop(PPE_DROP_UNKNOWN_JOB, n);
}

/* A contribution that must not count: its sum would be wrong. */
static void
contribute_wrongly(unsigned int source, uint32_t block)
{
	const struct weir_header h = contribution(source, block);
	const uint32_t values[ELEMENTS] = {5000};

	rig_offer(&rig, 0, &h, values, sizeof(values));
}

/* As if the source's interface had a MAC address with this last byte. */
static void
join_from_mac(unsigned int source, uint8_t last)
{
	const struct weir_header h = note(source, 1000 + source, WEIR_COLLECTIVE_JOIN);
	unsigned int n = write_frame(&h, 0);

	frame[11] = last;
	rig_send(&rig, 0, frame, n);
}

/* Blocks are reduced; the job did this and no more; the former one has left; every packet is accounted for. */
static void
finish(const struct ppe_job *job, unsigned int blocks)
{
	unsigned int left = 1;

	for (uint32_t block = 0; block < blocks; block++)
		reduce(block);
	expect_silence();
	cr_expect_eq(job_stats(job->id).blocks_opened, blocks);
	cr_expect_eq(job_stats(job->id).contributions, blocks * job->nb_sources);
	cr_expect_eq(job_stats(job->id).blocks_in_flight, 0);
	for (unsigned int ms = 0; ms < 1000 && left > 0; ms++) {
		left = ppe_jobs_leaving(rig.ppe);
		rte_delay_us_sleep(1000);
	}
	cr_expect_eq(left, 0, "the former job never left");
	stop();
}

/* Contributions of sources 0 and 2 of a job of three, to one of two that has its id now: neither may
 * count there, as themselves or as somebody else's. */
Test(ppe_changeover, hops_of_a_job_that_lost_a_source, .timeout = 90)
{
	const struct ppe_job three = fixed_job(3, 4, 1), two = fixed_job(2, 4, 2);

	start_with(&three);
	close_gate(GATE_BEHIND);
	contribute_wrongly(0, 0);
	contribute_wrongly(2, 0);
	wait_for_hops(2);
	change_over(&two);
	open_gate();
	expect_unknown(2);
	finish(&two, 8);
}

/* The other way: contributions to the job of two come to a worker that still has the one of three. */
Test(ppe_changeover, hops_to_a_worker_with_the_former_table, .timeout = 90)
{
	const struct ppe_job three = fixed_job(3, 4, 1), two = fixed_job(2, 4, 2);

	start_with(&three);
	close_gate(GATE_BEFORE);
	change_over(&two);
	contribute_wrongly(0, 0);
	contribute_wrongly(1, 0);
	wait_for_hops(2);
	open_gate();
	expect_unknown(2);
	finish(&two, 8);
}

/* Of window 1 all blocks are worker 1's, of window 64 every other one: a hop of the former job may
 * open no block where the new one has none. */
Test(ppe_changeover, hops_of_a_job_of_another_window, .timeout = 90)
{
	const struct ppe_job narrow = fixed_job(2, 1, 1), wide = fixed_job(2, 64, 2);

	start_with(&narrow);
	close_gate(GATE_BEHIND);
	for (uint32_t block = 0; block < 4; block++)
		contribute_wrongly(0, block);
	wait_for_hops(4);
	change_over(&wide);
	open_gate();
	expect_unknown(4);
	finish(&wide, 128);
}

/* All have joined, and are told the generation. */
static void
expect_all_joined(void)
{
	for (unsigned int answers = 0; answers < 2;) {
		cr_assert(receive(0), "a join is not answered");
		cr_assert_eq(got.collective, WEIR_COLLECTIVE_JOIN);
		if (got.status == WEIR_STATUS_WAITING)
			continue;
		cr_expect_eq(got.status, WEIR_STATUS_OK);
		cr_expect(answers == 0 || got.gen_id == generation);
		generation = got.gen_id;
		answers++;
	}
}

static void
all_join(void)
{
	join(0, 1000);
	join(1, 1001);
}

/* While a source's new endpoint is on its way to worker 1, that of another repeat waits: a job has one announcement at a
 * time, or repeats from many addresses would fill the memory for those. */
Test(ppe_changeover, endpoints_are_announced_one_at_a_time, .timeout = 90)
{
	const struct ppe_job job = rig_job(2, 2, 4, ELEMENTS); /* its home is worker 0 */
	const unsigned int repeats = 2 * PPE_STAGE;
	struct ppe_job_stats count;

	start_with(&job);
	all_join();
	expect_all_joined();
	close_gate(GATE_BEFORE);
	for (unsigned int i = 0; i < repeats; i++) {
		join_from_mac(0, (uint8_t)(i % 2 == 0 ? 0x55 : 0x66));
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
		join_from_mac(0, 0x77);
		while (received(0) && frame[5] != 0x77)
			;
	}
	cr_expect_eq(frame[5], 0x77, "the endpoint no longer follows its source");
	discard();
	finish(&job, 0);
}

/* An announcement comes to a worker that does not have its job yet: it must come again. */
Test(ppe_changeover, a_walk_before_the_table, .timeout = 90)
{
	const struct ppe_job former = fixed_job(2, 4, 1);
	const struct ppe_job job = rig_job(2, 2, 4, ELEMENTS); /* its home is worker 0 */
	struct ppe_stats stats;

	start_with(&former);
	close_gate(GATE_BEFORE);
	change_over(&job);
	all_join();
	wait_for_hops(1);
	open_gate();
	expect_all_joined();
	ppe_stats_read(rig.ppe, &stats);
	cr_expect_geq(stats.worker[0].hops_out, 2, "the announcement did not come again");
	finish(&job, 8);
}

/* An announcement comes to a worker that has another job of its id: it must touch neither. */
Test(ppe_changeover, a_walk_behind_the_table, .timeout = 90)
{
	struct ppe_job former = rig_job(2, 2, 4, ELEMENTS), job = former;

	former.instance = 1;
	job.instance = 2;
	job.first_generation = 300;
	start_with(&former);
	close_gate(GATE_BEHIND);
	all_join();
	wait_for_hops(1);
	change_over(&job);
	open_gate();
	expect_unknown(1);
	discard();
	all_join();
	expect_all_joined();
	cr_expect_eq(generation, 300, "generation %u", generation);
	finish(&job, 8);
}

/* A switch stops without a worker that stands still, says so, and frees nothing that the worker has. */
Test(ppe_changeover, a_stop_does_not_wait_for_a_standing_worker, .timeout = 90)
{
	const struct ppe_job job = fixed_job(2, 4, 1);

	start_with(&job);
	close_gate(GATE_BEFORE);
	cr_expect_eq(ppe_stop(rig.ppe, 100), -EBUSY);
	ppe_destroy(rig.ppe, NULL);
	open_gate();
	stop_unread();
}
