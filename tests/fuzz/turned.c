/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/turned.h"

#include <inttypes.h>
#include <string.h>

static uint64_t clock_now; /* TSC */

static uint64_t
read_clock(const struct ppe_worker *worker)
{
	(void)worker;
	return clock_now;
}

/* The round itself, whose turn is a function of this file: the library's is not linked then. */
#define BARREL_CLOCK read_clock
#include "ppe/barrel.c"

#include "tests/fuzz/fuzz.h"

#define TURNS_MAX  100000
#define WAIT_TURNS 40 /* enough for all slices of a scan */

void
turned_start(struct rig *rig, const struct rig_config *config)
{
	rig_build(rig, config);
	for (unsigned int p = 0; p < rig->ports; p++)
		FUZZ_CHECK(pktbuf_port_start(&rig->ppe->port[p]) == 0, "a port does not start");
	clock_now = rte_rdtsc();
	for (unsigned int w = 0; w < config->workers; w++) {
		rig->ppe->worker[w]->begun = clock_now;
		ppe_timer_arm(rig->ppe->worker[w], clock_now);
	}
}

void
turned_turn(struct rig *rig)
{
	for (unsigned int w = 0; w < rig->config.workers; w++) {
		struct ppe_worker *worker = rig->ppe->worker[w];

		RTE_PER_LCORE(ppe_worker_self) = worker;
		begin_turn(worker, clock_now);
		turn(worker, PPE_STATE_RUNNING, false);
		if (worker->now >= worker->tend_at)
			tend(worker, false);
	}
	RTE_PER_LCORE(ppe_worker_self) = NULL;
}

void
turned_turn_after_us(struct rig *rig, uint64_t us)
{
	clock_now += us * (rte_get_tsc_hz() / 1000000);
	turned_turn(rig);
}

void
turned_wait_us(struct rig *rig, uint64_t us)
{
	/* In pieces: a timer that is a whole period behind lets slices out. */
	for (unsigned int i = 0; i < WAIT_TURNS; i++) {
		clock_now += us * (rte_get_tsc_hz() / 1000000) / WAIT_TURNS;
		turned_turn(rig);
	}
}

static bool
at_rest(const struct rig *rig)
{
	for (unsigned int p = 0; p < rig->ports; p++)
		if (rte_ring_count(rig->to[p][0]) > 0)
			return false;
	for (unsigned int w = 0; w < rig->config.workers; w++)
		if (ppe_worker_in_flight(rig->ppe->worker[w]) > 0 ||
			rig->ppe->worker[w]->live_count > 0)
			return false;
	return true;
}

void
turned_rest(struct rig *rig)
{
	for (unsigned int turns = 0; !at_rest(rig); turns++) {
		FUZZ_CHECK(turns < TURNS_MAX, "something stays under way");
		turned_turn(rig);
	}
}

/* The state is not RUNNING: the table is taken within the call. */
static void
publish(struct rig *rig)
{
	int rc = ppe_publish_jobs(rig->ppe, &rig->jobs);

	FUZZ_CHECK(rc == 0, "jobs can't be published: %d", rc);
	/* The buffers that others have freed come home in a turn. */
	turned_turn(rig);
	FUZZ_CHECK(ppe_jobs_leaving(rig->ppe) == 0, "a job does not leave");
}

void
turned_renew_jobs(struct rig *rig)
{
	for (unsigned int j = 0; j < RTE_DIM(rig->job); j++)
		rig->job[j].instance++;
	publish(rig);
}

void
turned_change_jobs(struct rig *rig)
{
	publish(rig);
}

/* An output queue may watch one. */
static void
check_pool(const struct ppe *ppe, const struct rte_mempool *pool)
{
	unsigned int there = rte_mempool_avail_count(pool);

	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int i = 0; i < ppe->worker[w]->nb_outq; i++) {
			const struct rte_mbuf *watched = ppe->worker[w]->outq[i]->watched;

			there += watched != NULL && watched->pool == pool;
		}
	FUZZ_CHECK(there == pool->size, "%s: %u of %u mbufs", pool->name, there, pool->size);
}

void
turned_check_packets(struct rig *rig)
{
	const struct ppe *ppe = rig->ppe;
	struct ppe_stats s;
	uint64_t ends;

	ppe_stats_read(ppe, &s);
	ends = s.sent + s.consumed + s.in_flight;
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		ends += s.drops[i];
	FUZZ_CHECK(s.in_flight == 0, "%" PRIu64 " in flight", s.in_flight);
	FUZZ_CHECK(s.received + s.created == ends, "packet accounting is off by %" PRId64,
		(int64_t)(s.received + s.created - ends));
	check_pool(ppe, ppe->pools.packets);
	check_pool(ppe, ppe->pools.headers);
	check_pool(ppe, ppe->pools.attaches);
	check_pool(ppe, rig->pool);
	FUZZ_CHECK(ppe->lost.buffers == 0 && ppe->lost.records == 0 && ppe->lost.faults == 0,
		"a job that left took %" PRIu64 " buffers and %" PRIu64 " records, %" PRIu64
		" faults",
		ppe->lost.buffers, ppe->lost.records, ppe->lost.faults);
}
