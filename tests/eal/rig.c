/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/rig.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_ring.h>

#include "ppe/ppe_priv.h"
#include "ppe/programs/programs.h"
#include "tests/eal/graph.h"
#include "tests/random.h"
#include "tests/thread/handover.h"

#define READING      16 /* cycles */
#define STEP_US      100 /* of virtual time, between two turns */
#define STEPS_MAX    20000 /* a longer time passes in longer steps */
#define SECONDS      10 /* of virtual time, until everything must be at rest */
#define TURN_MS      (2000 * RIG_SLOW) /* that a worker may have no CPU; one that stands takes longer */
#define ENOUGH       10 /* turns, for what came to leave by another worker's port */
#define ENOUGH_TURNS 1000 /* for packets, before time passes */
#define SETTLE_S     (20 * RIG_SLOW)
#define DRAIN_S      (20 * RIG_SLOW)

#define FAIL(...)                                                                                  \
	do {                                                                                       \
		fprintf(stderr, "rig: " __VA_ARGS__);                                              \
		fputc('\n', stderr);                                                               \
		abort();                                                                           \
	} while (0)

/* ---- virtual time ---- */

#ifdef __SANITIZE_THREAD__
#define ALWAYS_LCORES true
#else
#define ALWAYS_LCORES false
#endif

static struct rig *rigs; /* in virtual time */
static uint64_t virtual_now = UINT64_C(1) << 40; /* TSC */
static bool in_turn;

/* In place of the engine's, which is weak. Each reading takes some cycles, so that what happens in a turn has an order. */
uint64_t
ppe_tsc(void)
{
	return rigs != NULL ? virtual_now += READING : rte_rdtsc();
}

/* In place of DPDK's: in virtual time, whoever waits lets the workers turn. In a turn, time passes. */
void
rte_delay_us_sleep(unsigned int us)
{
	const struct timespec t = {us / 1000000, us % 1000000 * 1000L};

	if (rigs == NULL)
		nanosleep(&t, NULL);
	else if (in_turn)
		virtual_now += us * rte_get_tsc_hz() / 1000000;
	else
		rig_pass_us(us);
}

void
rig_turn(struct rig *rig)
{
	if (rigs == NULL) {
		sched_yield();
		return;
	}
	in_turn = true;
	for (unsigned int w = 0; w < rig->config.workers; w++) {
		struct ppe_worker *worker = rig->ppe->worker[w];

		if ((rig->standing >> w & 1) != 0)
			continue;
		RTE_PER_LCORE(ppe_worker_self) = worker;
		graph_turn(worker);
		ppe_worker_turn(worker, rig->ppe->state);
	}
	RTE_PER_LCORE(ppe_worker_self) = NULL;
	in_turn = false;
}

void
rig_turn_after_us(struct rig *rig, uint64_t us)
{
	virtual_now += us * rte_get_tsc_hz() / 1000000;
	rig_turn(rig);
}

void
rig_pass_us(uint64_t us)
{
	uint64_t step = RTE_MAX(us / STEPS_MAX + 1, (uint64_t)STEP_US);

	if (rigs == NULL) {
		rte_delay_us_sleep((unsigned int)us);
		return;
	}
	for (uint64_t left = us; left > 0; left -= step) {
		step = RTE_MIN(step, left);
		virtual_now += step * rte_get_tsc_hz() / 1000000;
		for (struct rig *rig = rigs; rig != NULL; rig = rig->next)
			rig_turn(rig);
	}
}

static bool
rests(const struct rig *rig)
{
	for (unsigned int p = 0; p < rig->ports; p++)
		for (unsigned int q = 0; q < rig->queues; q++)
			if (rte_ring_count(rig->to[p][q]) > 0)
				return false;
	for (unsigned int w = 0; w < rig->config.workers; w++)
		if (ppe_worker_in_flight(rig->ppe->worker[w]) > 0 ||
			rig->ppe->worker[w]->live_count > 0)
			return false;
	return true;
}

/* false: something is still under way after that time. */
static bool
turn_until_rest(struct rig *rig)
{
	for (unsigned int turns = 0; !rests(rig); turns++) {
		if (turns > SECONDS * 1000000 / STEP_US)
			return false;
		rig_turn_after_us(rig, turns < ENOUGH_TURNS ? 0 : STEP_US);
	}
	return true;
}

void
rig_rest(struct rig *rig)
{
	struct ppe_stats stats;

	if (rigs == NULL)
		rig_settle(rig, &stats);
	else if (!turn_until_rest(rig))
		FAIL("something stays under way");
}

uint64_t
rig_random(uint64_t *state)
{
	return random_bits(state);
}

uint64_t
rig_seed(void)
{
	return random_seed();
}

struct ppe_job
rig_job(uint8_t id, uint16_t sources, uint16_t window, uint16_t elements)
{
	struct ppe_job job = {.id = id,
		.dtype = WEIR_DTYPE_INT32,
		.op = WEIR_OP_SUM,
		.policy = PPE_POLICY_WAIT,
		.window = window,
		.elements = elements,
		.nb_sources = sources,
		.timeout_ms = 1000};

	snprintf(job.name, sizeof(job.name), "job%u", id);
	for (unsigned int s = 0; s < sources; s++) {
		job.members[s / 64] |= UINT64_C(1) << (s % 64);
		job.address[s] = rig_source_ip(s);
	}
	return job;
}

struct ppe_job
rig_job_of(uint8_t id, const uint8_t *ids, uint16_t n, uint16_t window, uint16_t elements)
{
	struct ppe_job job = rig_job(id, 0, window, elements);

	job.nb_sources = n;
	for (unsigned int i = 0; i < n; i++) {
		job.members[ids[i] / 64] |= UINT64_C(1) << (ids[i] % 64);
		job.address[ids[i]] = rig_source_ip(ids[i]);
	}
	return job;
}

void
rig_start_eal(unsigned int workers)
{
	char lcores[256], prefix[64];
	size_t at = (size_t)snprintf(lcores, sizeof(lcores), "0@0");
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char *argv[] = {(char *)(uintptr_t) "rig", (char *)(uintptr_t) "--no-huge",
		(char *)(uintptr_t) "--no-shconf", (char *)(uintptr_t) "--no-pci",
		(char *)(uintptr_t) "--no-telemetry", (char *)(uintptr_t) "-m",
		(char *)(uintptr_t) "256", (char *)(uintptr_t) "--log-level=*:error",
		(char *)(uintptr_t) "--lcores", lcores, (char *)(uintptr_t) "--file-prefix",
		prefix};

	for (unsigned int w = 0; w < workers; w++)
		at += (size_t)snprintf(
			lcores + at, sizeof(lcores) - at, ",%u@%ld", w + 1, (long)(w + 1) % cpus);
	snprintf(prefix, sizeof(prefix), "weir_rig_%d", (int)getpid());
	if (rte_eal_init((int)RTE_DIM(argv), argv) < 0)
		FAIL("EAL does not start");
	handover_pools();
}

static struct rte_ring *
make_ring(const char *direction, unsigned int port, unsigned int queue)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u_%u", direction, port, queue);
	return rte_ring_create(name, 4096, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

static void
make_ports(struct rig *rig, const struct rig_config *config, struct pktbuf_port_config *configs)
{
	for (unsigned int p = 0; p < rig->ports; p++) {
		struct rte_eth_dev_info info;
		char name[32];
		int id;

		for (unsigned int q = 0; q < rig->queues; q++) {
			rig->to[p][q] = make_ring("to", p, q);
			rig->from[p][q] = make_ring("from", p, q);
		}
		snprintf(name, sizeof(name), "rig%u_%u", config->number, p);
		id = rte_eth_from_rings(
			name, rig->to[p], rig->queues, rig->from[p], rig->queues, 0);
		if (id < 0 || rte_eth_dev_info_get((uint16_t)id, &info) < 0)
			FAIL("port %u can't be made", p);
		memset(&configs[p], 0, sizeof(configs[p]));
		snprintf(configs[p].name, sizeof(configs[p].name), "p%u", p);
		rte_eth_dev_get_name_by_port((uint16_t)id, configs[p].device);
		configs[p].rx_queues = (uint16_t)rig->queues;
		configs[p].tx_queues = (uint16_t)rig->queues;
		if (config->unchecked)
			configs[p].rx_checksum = configs[p].tx_checksum = PKTBUF_CHECKSUM_OFF;
		configs[p].rx_descriptors = 512;
		configs[p].tx_descriptors = 512;
	}
}

void
rig_stop_eal(void)
{
	/* No rte_eal_cleanup: what tests still look at lives in its memory. */
	rmdir(rte_eal_get_runtime_dir());
}

/* WEIR_BATCH: 1 for a thread for each packet. */
static uint16_t
batch_size(void)
{
	const char *size = getenv("WEIR_BATCH");

	return size != NULL ? (uint16_t)atoi(size) : 256;
}

void
rig_build(struct rig *rig, const struct rig_config *config)
{
	struct pktbuf_port_config ports[RIG_PORTS_MAX];

	memset(rig, 0, sizeof(*rig));
	rig->ports = config->ports;
	rig->queues = config->queues != 0 ? config->queues : 1;
	if (config->number == 0)
		rig_start_eal(config->workers);
	make_ports(rig, config, ports);
	memcpy(rig->job, config->job, sizeof(rig->job));
	for (unsigned int j = 0; j < config->jobs; j++)
		rig->jobs.by_id[rig->job[j].id] = &rig->job[j];
	rig->config = (struct ppe_config){
		.programs = config->programs != NULL ? config->programs : ppe_programs(),
		.workers = (uint16_t)config->workers,
		.threads = (uint16_t)config->threads,
		.burst = 32,
		.batch = batch_size(),
		.idle = config->spin ? PPE_IDLE_SPIN : PPE_IDLE_SLEEP,
		.idle_sleep_us = 50,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.queue_wait_ms = 100,
		.timer_threads = 100,
		.joins_s = config->joins_s,
		.blocks = 4096,
		.fdb_entries = 1024,
		.fdb_timeout_s = config->fdb_timeout_s != 0 ? config->fdb_timeout_s : 300,
		.exception_port = config->exception ? (int)config->ports - 1 : -1,
		.policers = config->policers,
		.unforwarded = config->unforwarded,
		.nb_hosts = config->nb_hosts,
		.isa = RMW_ISA_AVX512,
		.first_generation =
			config->first_generation != 0 ? config->first_generation : 65534,
		.packets = config->packets != 0 ? config->packets : 1024,
		.packet_bytes = RIG_FRAME_MAX,
		.headers = 1024,
	};
	memcpy(rig->config.host, config->host, sizeof(config->host));
	memcpy(rig->config.identity.mac, rig_switch_mac, 6);
	rig->config.identity.mac[4] += (uint8_t)config->number;
	rig->config.identity.ip = RIG_SWITCH_IP + (config->number << 8);
	rig->config.identity.port_base = WEIR_PORT_BASE;
	rig->config.identity.port_ext = WEIR_PORT_EXT;
	rig->pool = config->number != 0
		? rte_mempool_lookup("rig")
		: rte_pktmbuf_pool_create_by_ops("rig", config->frames != 0 ? config->frames : 2047,
			  64, PKTBUF_PRIV_BYTES, RIG_FRAME_MAX + 128, 0, "ring_mt_rts");
	rig->ppe = ppe_create(&rig->config, ports, rig->ports, &rig->jobs);
	if (rig->pool == NULL || rig->ppe == NULL)
		FAIL("the switch can't be built");
	for (unsigned int p = 0; p < rig->ports; p++)
		handover_port(rig->ppe->port[p].id, (uint16_t)rig->queues);
}

void
rig_start(struct rig *rig, const struct rig_config *config)
{
	rig_build(rig, config);
	if (config->lcores || ALWAYS_LCORES) {
		if (ppe_start(rig->ppe) < 0)
			FAIL("the switch does not start");
		return;
	}
	for (unsigned int p = 0; p < rig->ports; p++)
		if (pktbuf_port_start(&rig->ppe->port[p]) < 0)
			FAIL("port %u does not start", p);
	rig->next = rigs;
	rigs = rig;
	if (getenv("WEIR_GRAPH") != NULL)
		graph_watch();
	for (unsigned int w = 0; w < config->workers; w++)
		ppe_worker_begin(rig->ppe->worker[w]);
	RTE_PER_LCORE(ppe_worker_self) = NULL;
	rig->ppe->state = PPE_STATE_RUNNING;
}

/* Before ppe_destroy(). Like ppe_stop(). */
static int
stop(struct rig *rig)
{
	int rc = ppe_stop(rig->ppe, 2000);

	for (unsigned int i = 1; rc == -EBUSY && i < RIG_SLOW; i++)
		rc = ppe_stop(rig->ppe, 2000);
	if (rigs == NULL)
		return rc;
	for (unsigned int w = 0; w < rig->config.workers; w++)
		ppe_worker_end(rig->ppe->worker[w]);
	for (struct rig **link = &rigs; *link != NULL; link = &(*link)->next)
		if (*link == rig) {
			*link = rig->next;
			break;
		}
	return rc;
}

bool
rig_turns(struct rig *rig, unsigned int turns)
{
	struct ppe_stats mark, now;
	bool turned = false;

	for (unsigned int i = 0; rigs != NULL && i < turns; i++)
		rig_turn(rig);
	if (rigs != NULL)
		return true;
	/* Workers of a switch that was stopped turn no more, and none will count anything. */
	if (__atomic_load_n(&rig->ppe->state, __ATOMIC_ACQUIRE) == PPE_STATE_STOPPED)
		return true;
	ppe_stats_read(rig->ppe, &mark);
	for (unsigned int ms = 0; ms < TURN_MS && !turned; ms++) {
		rte_delay_us_sleep(1000);
		ppe_stats_read(rig->ppe, &now);
		turned = true;
		for (unsigned int w = 0; w < now.nb_workers; w++)
			turned = turned && now.worker[w].turns >= mark.worker[w].turns + turns;
	}
	return turned;
}

/*
 * Is nothing under way? Reads the statistics. A worker that loses its CPU between taking a frame from the ring
 * and counting it has one that is in no book: who finds the rings empty waits for whole turns.
 */
static bool
at_rest(struct rig *rig, struct ppe_stats *stats)
{
	unsigned int waiting = 0;
	struct ppe_stats mark;
	bool turned;

	for (unsigned int p = 0; p < rig->ports; p++)
		for (unsigned int q = 0; q < rig->queues; q++)
			waiting += rte_ring_count(rig->to[p][q]);
	ppe_stats_read(rig->ppe, &mark);
	turned = rig_turns(rig, 2);
	ppe_stats_read(rig->ppe, stats);
	return waiting == 0 && turned && stats->in_flight == 0 &&
		stats->received == mark.received && stats->sent == mark.sent;
}

void
rig_settle(struct rig *rig, struct ppe_stats *stats)
{
	uint64_t end = rte_rdtsc() + SETTLE_S * rte_get_tsc_hz();

	if (rigs != NULL) {
		turn_until_rest(rig);
		ppe_stats_read(rig->ppe, stats);
		return;
	}
	while (!at_rest(rig, stats) && rte_rdtsc() < end)
		;
}

/* Take what comes out until nothing is under way: ports that are full would hold up a stop. */
static void
drain(struct rig *rig, uint8_t *frame)
{
	struct ppe_stats stats;
	uint64_t end = rte_rdtsc() + DRAIN_S * rte_get_tsc_hz();

	do {
		for (unsigned int p = 0; p < rig->ports; p++)
			while (rig_receive(rig, p, frame, 0) > 0)
				;
	} while ((rigs != NULL ? !turn_until_rest(rig) : !at_rest(rig, &stats)) &&
		rte_rdtsc() < end);
}

static uint64_t
imbalance(const struct ppe_stats *s)
{
	uint64_t ends = s->sent + s->consumed + s->in_flight;

	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		ends += s->drops[i];
	return s->received + s->created - ends;
}

/* The first thing that was not returned; NULL: nothing. */
static const char *
leaked(const struct ppe_leaks *leaks)
{
#define X(name, help)                                                                              \
	if (leaks->name != 0)                                                                      \
		return #name ": " help;
	PPE_LEAKS(X)
#undef X
	return NULL;
}

const char *
rig_stop(struct rig *rig)
{
	static char text[256];
	struct ppe_stats stats;
	struct ppe_leaks leaks;
	uint8_t *frame = malloc(RIG_FRAME_MAX);
	int rc;

	drain(rig, frame);
	rig->standing = 0;
	rc = stop(rig);
	ppe_stats_read(rig->ppe, &stats);
	for (unsigned int p = 0; p < rig->ports; p++)
		while (rig_receive(rig, p, frame, 0) > 0)
			;
	free(frame);
	ppe_destroy(rig->ppe, &leaks);
	rig_stop_eal();
	if (rc < 0 || stats.in_flight != 0)
		snprintf(
			text, sizeof(text), "stop: %d, %" PRIu64 " in flight", rc, stats.in_flight);
	else if (imbalance(&stats) != 0)
		snprintf(text, sizeof(text), "packet accounting is off by %" PRId64,
			(int64_t)imbalance(&stats));
	else if (leaked(&leaks) != NULL)
		snprintf(text, sizeof(text), "%s", leaked(&leaks));
	else if (rte_mempool_avail_count(rig->pool) != rig->pool->size)
		snprintf(text, sizeof(text), "%u of the test's mbufs leaked",
			rig->pool->size - rte_mempool_avail_count(rig->pool));
	else
		return NULL;
	return text;
}

static void
publish(struct rig *rig)
{
	int rc = ppe_publish_jobs(rig->ppe, &rig->jobs);

	if (rc < 0)
		FAIL("jobs can't be published: %d", rc);
	/* The buffers that others have freed come home in a turn. */
	rig_turn(rig);
	if (ppe_jobs_leaving(rig->ppe) > 0)
		FAIL("a job does not leave");
}

void
rig_renew_jobs(struct rig *rig)
{
	for (unsigned int j = 0; j < RTE_DIM(rig->job); j++)
		rig->job[j].instance++;
	publish(rig);
}

void
rig_change_jobs(struct rig *rig)
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
	if (there != pool->size)
		FAIL("%s: %u of %u mbufs", pool->name, there, pool->size);
}

void
rig_check(struct rig *rig)
{
	const struct ppe *ppe = rig->ppe;
	struct ppe_stats s;

	ppe_stats_read(ppe, &s);
	if (s.in_flight != 0)
		FAIL("%" PRIu64 " in flight", s.in_flight);
	if (imbalance(&s) != 0)
		FAIL("packet accounting is off by %" PRId64, (int64_t)imbalance(&s));
	check_pool(ppe, ppe->pools.packets);
	check_pool(ppe, ppe->pools.headers);
	check_pool(ppe, ppe->pools.attaches);
	check_pool(ppe, rig->pool);
	if (ppe->lost.buffers != 0 || ppe->lost.records != 0 || ppe->lost.faults != 0)
		FAIL("a job that left took %" PRIu64 " buffers and %" PRIu64 " records, %" PRIu64
		     " faults",
			ppe->lost.buffers, ppe->lost.records, ppe->lost.faults);
}

void
rig_send(struct rig *rig, unsigned int port, const uint8_t *frame, unsigned int bytes)
{
	unsigned int queue = rig->queue_of != NULL ? rig->queue_of(rig, port, frame) : 0;
	struct rte_mbuf *first = NULL, *last = NULL;

	do {
		unsigned int take = bytes;
		struct rte_mbuf *m = rte_pktmbuf_alloc(rig->pool);

		for (unsigned int ms = 0; m == NULL; ms++) {
			if (ms > 5000)
				FAIL("the switch keeps all mbufs");
			rte_delay_us_sleep(1000);
			m = rte_pktmbuf_alloc(rig->pool);
		}
		if (rig->seed != 0)
			take = 1 + (unsigned int)(rig_random(&rig->seed) % bytes);
		memcpy(rte_pktmbuf_append(m, (uint16_t)take), frame, take);
		frame += take;
		bytes -= take;
		if (first == NULL) {
			first = last = m;
			continue;
		}
		last->next = m;
		last = m;
		first->nb_segs++;
		first->pkt_len += take;
	} while (bytes > 0);
	handover_put(first);
	for (unsigned int ms = 0; rte_ring_enqueue(rig->to[port][queue], first) < 0; ms++) {
		if (ms > 5000)
			FAIL("port %u takes nothing", port);
		rte_delay_us_sleep(1000);
	}
}

void
rig_offer(struct rig *rig, unsigned int port, const struct weir_header *header, const void *payload,
	unsigned int payload_bytes)
{
	uint8_t frame[RIG_FRAME_MAX];

	rig_send(
		rig, port, frame, rig_frame(frame, header->src_id, header, payload, payload_bytes));
}

static bool
take(struct rig *rig, unsigned int port, struct rte_mbuf **m)
{
	for (unsigned int q = 0; q < rig->queues; q++)
		if (rte_ring_dequeue(rig->from[port][q], (void **)m) == 0)
			return true;
	return false;
}

/* An ARP request of the switch. */
static bool
is_question(const uint8_t *frame, unsigned int bytes)
{
	return bytes >= 42 && memcmp(frame + 6, rig_switch_mac, 6) == 0 &&
		memcmp(frame + 12, "\x08\6\0\1\x08\0\6\4\0\1", 10) == 0;
}

unsigned int
rig_receive(struct rig *rig, unsigned int port, uint8_t frame[RIG_FRAME_MAX], unsigned int ms)
{
	uint64_t end = rte_rdtsc() + (uint64_t)ms * RIG_SLOW * (rte_get_tsc_hz() / 1000);
	struct rte_mbuf *m;
	unsigned int bytes, at = 0;
	uint64_t passed = 0; /* us, virtual */

	for (unsigned int turns = 0; rigs != NULL && !take(rig, port, &m); turns++) {
		/* Time passes when nothing else is left to do. */
		bool idle = turns > ENOUGH_TURNS || rests(rig);

		if (passed >= ms * UINT64_C(1000))
			return 0;
		if (idle)
			passed += STEP_US;
		rig_turn_after_us(rig, idle ? STEP_US : 0);
	}
	while (rigs == NULL && !take(rig, port, &m)) {
		if (rte_rdtsc() < end) {
			rte_delay_us_sleep(20);
			continue;
		}
		/* Perhaps it is only that a worker had no CPU. */
		if (ms > 0)
			rig_turns(rig, ENOUGH);
		if (ms == 0 || !take(rig, port, &m))
			return 0;
		break;
	}
	handover_get(m);
	bytes = m->pkt_len;
	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		memcpy(frame + at, rte_pktmbuf_mtod(s, void *), s->data_len);
		at += s->data_len;
	}
	if (at != bytes)
		FAIL("segments have %u bytes, the packet %u", at, bytes);
	rte_pktmbuf_free(m);
	if (!is_question(frame, bytes))
		return bytes;
	rig->asked[port]++;
	return rig_receive(rig, port, frame, ms);
}

static bool
skips_own(const struct rig *rig, unsigned int source)
{
	return (rig->skips_own[source / 64] >> (source % 64) & 1) != 0;
}

uint16_t
rig_join(struct rig *rig, unsigned int job, bool base_form)
{
	const struct ppe_job *j = &rig->job[job];
	uint8_t *frame = malloc(RIG_FRAME_MAX);
	uint16_t generation = 0;
	static uint32_t nonce = 77;

	nonce += 1000;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		struct weir_header h = {.job_id = j->id,
			.block_id = nonce + s,
			.src_id = (uint8_t)s,
			.collective = WEIR_COLLECTIVE_JOIN,
			.flags = (uint8_t)((base_form ? WEIR_FLAG_BASE_RESULTS : 0) |
				(skips_own(rig, s) ? WEIR_FLAG_SKIPS_OWN : 0)),
			.extended = true};

		if (ppe_job_has(j, (uint8_t)s))
			rig_send(rig, s % rig->ports, frame, rig_frame(frame, s, &h, NULL, 0));
	}
	for (unsigned int s = 0, rank = 0; rank < j->nb_sources; s++) {
		struct weir_header h = {.status = WEIR_STATUS_WAITING};
		const uint8_t *payload;
		unsigned int bytes, n;

		if (!ppe_job_has(j, (uint8_t)s))
			continue;
		while (h.status == WEIR_STATUS_WAITING) {
			n = rig_receive(rig, s % rig->ports, frame, 2000);
			if (n == 0 || !rig_parse(frame, n, &h, &payload, &bytes))
				FAIL("source %u of job %u gets no join reply", s, j->id);
		}
		if (h.status != WEIR_STATUS_OK || bytes != sizeof(struct weir_join_reply))
			FAIL("join reply: status %s, %u bytes", weir_status_text(h.status), bytes);
		if (((payload[7] & WEIR_JOIN_SKIPS_OWN) != 0) !=
			(skips_own(rig, s) && j->group == 0))
			FAIL("source %u is told flags %#x", s, payload[7]);
		if (h.root != rank++)
			FAIL("source %u is told rank %u", s, h.root);
		generation = h.gen_id;
		rig->udp_ports = (payload[7] >> WEIR_JOIN_PORTS_SHIFT) + 1u;
	}
	free(frame);
	return generation;
}
