/* SPDX-License-Identifier: BSD-3-Clause */
/* The main thread's half: builds ports, jobs, frames and the switch, runs the phases, sums up. */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "apps/bench/generator_priv.h"
#include "ctrl/config/files.h"
#include "ppe/filters/filters.h"
#include "ppe/programs/programs.h"
#include "rmw/kernels.h"

#define RING         16384 /* results between two polls: a burst may finish so many */
#define WARM_UP_MS   30
#define PATIENCE_MS  3000
#define PATIENCE_MAX 600000 /* under callgrind */
/* Bytes of ready frames; with more, fewer blocks are under way. */
#define FRAME_MEMORY     (UINT64_C(1024) << 20)
#define OF_A_JOB         2u /* blocks of one of many jobs under way */

#define TREE_RANKS(work) (2 * (work)->sources) /* a leaf's hosts, and as many elsewhere */

struct bench_switch {
	const struct generator_work *work;
	struct schedule schedule;
	struct generator *generator; /* `workers` entries */
	struct ppe_config config;
	struct ppe_jobs jobs;
	struct ppe_job job[WEIR_JOBS_MAX];
	struct generator_job *job_by_id[WEIR_JOBS_MAX];
	unsigned int nb_ports;
	struct pktbuf_port_config port[GENERATOR_PORTS];
	struct rte_ring *ring[GENERATOR_PORTS][GENERATOR_WORKERS + 1]; /* the last: receive */
	struct frames *lesson; /* teach */
	uint16_t ethdev[GENERATOR_PORTS];
	const struct rte_eth_rxtx_callback *callback[GENERATOR_PORTS]; /* NULL: none */
	struct ppe *ppe;
};

struct ppe_config
generator_config(const struct generator_work *w)
{
	return (struct ppe_config){
		.programs = ppe_programs(),
		.workers = (uint16_t)w->workers,
		.threads = (uint16_t)w->threads,
		.burst = (uint16_t)w->burst,
		.batch = 256,
		/* valgrind runs one thread at a time: a thread that waits must sleep. */
		.idle = w->packets != 0 ? PPE_IDLE_SLEEP : PPE_IDLE_SPIN,
		.idle_sleep_us = 50,
		.crossbar_depth = 4096,
		.queue_depth = RING,
		.queue_wait_ms = 10000,
		.timer_threads = 100,
		.fdb_entries = 1024,
		.fdb_timeout_s = 300,
		.exception_port = -1,
		.isa = w->isa,
		.first_generation = 1,
		.packets = 1024 * w->workers,
		.packet_bytes = RTE_MAX(2048u, 4 * w->elements + 128),
		.headers = RING,
		.identity = frames_switch,
	};
}

static void
configure_job(struct bench_switch *s, unsigned int id)
{
	const struct generator_work *w = s->work;
	struct ppe_job *job = &s->job[id];

	*job = (struct ppe_job){.id = (uint8_t)id,
		.dtype = (uint8_t)w->type,
		.op = WEIR_OP_SUM,
		.policy = PPE_POLICY_WAIT,
		.window = (uint16_t)w->window,
		.elements = (uint16_t)w->elements,
		.nb_sources = (uint16_t)w->sources,
		.authenticated = w->authenticated,
		.integrity = w->checked ? PPE_INTEGRITY_CRC32C : PPE_INTEGRITY_NONE,
		.deterministic = w->deterministic,
		.fixed_generation = 1,
		.timeout_ms = 60000,
		.group = w->multicast ? 0xef4d0000 + id : 0};
	snprintf(job->name, sizeof(job->name), "job%u", id);
	for (unsigned int i = 0; i < w->sources; i++) {
		unsigned int source = w->role == ROLE_SPINE ? i * w->ranks : i;

		job->members[source / 64] |= UINT64_C(1) << (source % 64);
		job->address[source] = FRAMES_FIRST + i;
		job->ranks[source] = (uint16_t)(w->role == ROLE_SPINE ? w->ranks : 0);
	}
	job->children = w->role == ROLE_SPINE;
	if (w->role == ROLE_LEAF) {
		struct ppe_parent *parent = &job->parent[job->nb_parents++];

		*parent = (struct ppe_parent){.name = "spine",
			.address = FRAMES_PARENT,
			.port = (uint16_t)w->workers,
			.udp = frames_switch.port_ext,
			.job = (uint8_t)id};
		frames_station(parent->mac, w->workers, 0);
		job->tree_ranks = (uint16_t)TREE_RANKS(w);
	}
	s->jobs.by_id[id] = job;
}

int
generator_port(unsigned int p, unsigned int n, enum pktbuf_checksum checksum,
	struct pktbuf_port_config *port, struct rte_ring **ring)
{
	static unsigned int serial; /* a device's name is not used twice */
	char name[32];
	int id;

	for (unsigned int q = 0; q <= n; q++) {
		snprintf(name, sizeof(name), "bench%u_%u_%u", serial, p, q);
		ring[q] = rte_ring_create(
			name, q < n ? RING : 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (ring[q] == NULL)
			return -1;
	}
	snprintf(name, sizeof(name), "bench%u_%u", serial++, p);
	id = rte_eth_from_rings(name, &ring[n], 1, ring, n, 0);
	if (id < 0)
		return -1;
	*port = (struct pktbuf_port_config){.rx_queues = 1,
		.tx_queues = (uint16_t)n,
		.rx_descriptors = 512,
		.tx_descriptors = 512,
		.rx_checksum = checksum,
		.tx_checksum = checksum};
	snprintf(port->name, sizeof(port->name), "p%u", p);
	rte_eth_dev_get_name_by_port((uint16_t)id, port->device);
	return id;
}

static void
make_job(struct bench_switch *s, struct generator *g, unsigned int i)
{
	const struct generator_work *w = g->work;
	unsigned int id = g->id * w->jobs + i;
	struct generator_job *job = &g->jobs[i];

	configure_job(s, id);
	s->job_by_id[id] = job;
	job->owner = g;
	job->residue = calloc(w->window, sizeof(*job->residue));
	memset(job->last, 0xff, sizeof(job->last));
	for (uint32_t r = 0; r < w->window; r++) {
		uint32_t *last = &job->last[ppe_job_shard(&s->job[id], r, w->workers)];
		uint32_t *next =
			*last == UINT32_MAX ? &job->residue[r].next : &job->residue[*last].next;

		job->residue[r].next = *last == UINT32_MAX ? r : *next;
		*next = *last = r;
	}
}

/* The parent's answers, one for each row of contributions. */
static int
make_answers(struct generator *g)
{
	struct frames_config answers = g->frames->config;

	answers.sources = 1;
	answers.id = g->work->workers;
	answers.answers = true;
	answers.tree_ranks = TREE_RANKS(g->work);
	g->answers = frames_create(&answers);
	g->up = calloc(g->work->depth * g->work->jobs, sizeof(*g->up));
	return g->answers == NULL ? -1 : 0;
}

static int
make_generator(struct bench_switch *s, unsigned int id)
{
	const struct generator_work *w = s->work;
	struct generator *g = &s->generator[id];
	unsigned int slots = w->depth * w->jobs;
	const struct frames_config frames = {.id = id,
		.sources = w->sources,
		.rows = slots * w->copies,
		.elements = w->elements,
		.type = w->type,
		.checksum = w->checksum,
		.authenticated = w->authenticated,
		.checked = w->checked,
		.ordinary = w->forward,
		.to_port = w->workers,
		.job = (uint8_t)(id * w->jobs),
		.jobs = w->jobs,
		.generation = 1,
		.ranks = w->role == ROLE_SPINE ? w->ranks : 0};
	const struct order_config order = {.order = w->order,
		.rows = frames.rows,
		.slots = slots,
		.jobs = w->jobs,
		.sources = w->sources,
		.seed = 1 + id};

	g->work = w;
	g->schedule = &s->schedule;
	g->all = s->generator;
	g->id = id;
	g->nb_ports = s->nb_ports;
	g->phase = -1;
	g->random = 0x9e3779b97f4a7c15u + id;
	g->results_per_block = w->multicast ? 1 : w->sources;
	g->frames = frames_create(&frames);
	g->under_way = slots * w->sources;
	g->steps = frames.rows * w->sources;
	g->step = lap_create(&order);
	g->slot = calloc(slots, sizeof(*g->slot));
	g->done = aligned_alloc(RTE_CACHE_LINE_SIZE, slots * sizeof(*g->done));
	g->jobs = calloc(w->jobs, sizeof(*g->jobs));
	g->job_by_id = s->job_by_id;
	if (g->frames == NULL || g->step == NULL || bare_create(&g->bare, w) < 0 ||
		(w->role == ROLE_LEAF && make_answers(g) < 0))
		return -1;
	g->lone = w->lone ? calloc(1, sizeof(*g->lone)) : NULL;
	for (unsigned int i = 0; i < w->jobs; i++)
		make_job(s, g, i);
	for (unsigned int k = 0; k < slots; k++) {
		g->slot[k] = (struct slot){.given = w->sources, .job = &g->jobs[k % w->jobs]};
		g->done[k].results = g->results_per_block;
	}
	return 0;
}

static void
destroy_generator(struct generator *g)
{
	frames_destroy(g->frames);
	frames_destroy(g->answers);
	free(g->up);
	free(g->lone);
	bare_destroy(&g->bare);
	for (unsigned int i = 0; g->jobs != NULL && i < g->work->jobs; i++)
		free(g->jobs[i].residue);
	free(g->jobs);
	free(g->step);
	free(g->slot);
	free(g->done);
}

/* A frame from the station behind the additional port, in the port's receive ring, so that the switch learns where the
 * station is. */
static int
teach(struct bench_switch *s)
{
	unsigned int n = s->work->workers;
	const struct frames_config lesson = {.id = n,
		.sources = 1,
		.rows = 1,
		.elements = 1,
		.type = s->work->type,
		.ordinary = true};

	s->lesson = frames_create(&lesson);
	return s->lesson == NULL ? -1 : rte_ring_enqueue(s->ring[n][n], s->lesson->mbuf[0]);
}

/* 0, or -1 after a line. */
static int
load_filter(struct ppe *ppe, const struct generator_work *w)
{
	struct ppe_filter filter = {.name = "bench", .ports = UINT64_MAX};
	const struct ebpf_insn *code;
	const char *why = NULL;
	unsigned int nb_code, at;
	size_t length;
	char *elf = ctrl_read_file(w->filter, &length, &why);

	for (unsigned int i = 0; i < WEIR_FILTER_VALUES && i < w->filter_values->count; i++)
		filter.value[i] = w->filter_values->value[i];
	if (elf != NULL)
		why = ppe_filter_code(elf, length, "weir", &code, &nb_code);
	if (elf != NULL && why == NULL)
		why = ppe_filter_check(code, nb_code, &at);
	if (elf != NULL && why == NULL && ppe_filter_load(ppe, &filter, code, nb_code, false) < 0)
		why = "DPDK's verifier refuses it";
	if (elf == NULL && why == NULL)
		why = strerror(errno);
	free(elf);
	if (why != NULL)
		warnx("%s: %s", w->filter, why);
	return why == NULL ? 0 : -1;
}

static int
build(struct bench_switch *s)
{
	unsigned int n = s->work->workers;
	bool leaf = s->work->role == ROLE_LEAF;
	const enum pktbuf_checksum checksum =
		s->work->checksum ? PKTBUF_CHECKSUM_SOFTWARE : PKTBUF_CHECKSUM_OFF;
	int rc = 0;

	/* The bare kernel is chosen before the switch is made: each point has its own isa. */
	rmw_kernels_select((enum rmw_isa)s->work->isa);
	s->config = generator_config(s->work);
	s->nb_ports = s->work->forward || leaf ? n + 1 : n;
	s->generator = aligned_alloc(RTE_CACHE_LINE_SIZE, n * sizeof(*s->generator));
	memset(s->generator, 0, n * sizeof(*s->generator));
	for (unsigned int i = 0; i < s->nb_ports && rc >= 0; i++) {
		rc = i < n && make_generator(s, i) < 0
			? -1
			: generator_port(i, n, checksum, &s->port[i], s->ring[i]);
		s->ethdev[i] = (uint16_t)rc;
	}
	if (rc < 0 || (s->work->forward && teach(s) < 0)) {
		warnx("no memory for the generator");
		return -1;
	}
	/* Queue q of port p is worker (p + q) % workers' own (ppe/topology.c). */
	for (unsigned int p = 0; p < s->nb_ports; p++)
		for (unsigned int q = 0; q < n; q++)
			s->generator[(p + q) % n].out[p] = s->ring[p][q];
	for (unsigned int i = 0; i < n + leaf; i++)
		s->callback[i] = rte_eth_add_rx_callback(s->ethdev[i], 0,
			i < n ? generator_offer : generator_answer, &s->generator[i % n]);
	s->ppe = ppe_create(&s->config, s->port, s->nb_ports, &s->jobs);
	if (s->ppe == NULL || (s->work->filter != NULL && load_filter(s->ppe, s->work) < 0))
		return -1;
	return ppe_start(s->ppe);
}

/* Wait until all workers have finished, or one has verified. 0, or -1 after a line: they give no
 * more packets. */
static int
await(const struct bench_switch *s, bool finished)
{
	uint64_t before = UINT64_MAX;
	unsigned int patience = s->work->packets != 0 ? PATIENCE_MAX : PATIENCE_MS;

	for (unsigned int quiet = 0; quiet <= patience + s->work->phase_ms; quiet++) {
		unsigned int ready = 0;
		uint64_t now = 0;

		for (unsigned int i = 0; i < s->work->workers; i++) {
			const struct generator *g = &s->generator[i];

			now += g->packets + g->bare.packets;
			ready += finished ? __atomic_load_n(&g->finished, __ATOMIC_ACQUIRE)
					  : __atomic_load_n(&g->verified, __ATOMIC_RELAXED) > 0;
		}
		if (ready >= (finished ? s->work->workers : 1))
			return 0;
		if (now != before)
			quiet = 0;
		before = now;
		rte_delay_us_sleep(1000);
	}
	warnx("the workers make no progress after %" PRIu64 " packets", before);
	return -1;
}

static int
run_phases(struct bench_switch *s)
{
	s->schedule.length = rte_get_tsc_hz() / 1000 * s->work->phase_ms;
	s->schedule.phases = PHASES * (unsigned int)s->work->repeat;
	__atomic_store_n(&s->schedule.start, UINT64_MAX, __ATOMIC_RELEASE);
	rte_delay_us_sleep(1000 * WARM_UP_MS);
	if (await(s, false) < 0)
		return -1;
	__atomic_store_n(&s->schedule.start, rte_rdtsc(), __ATOMIC_RELEASE);
	if (await(s, true) < 0)
		return -1;
	__atomic_store_n(&s->schedule.stop, true, __ATOMIC_RELAXED);
	rte_delay_us_sleep(5000);
	return 0;
}

/* Packets per second of CPU time; 0: the worker did not get to measure in this phase. */
static double
rate_of(const struct stretch *stretch)
{
	double ns = (double)stretch->to.cpu_ns - (double)stretch->from.cpu_ns;

	return stretch->from.cpu_ns == 0 || ns <= 0
		? 0
		: (double)(stretch->to.packets - stretch->from.packets) / ns * 1e9;
}

/* Share of the stretch that the thread had a CPU. */
static double
cpu_of(const struct stretch *stretch)
{
	double ns = (double)(stretch->to.tsc - stretch->from.tsc) * 1e9 / (double)rte_get_tsc_hz();

	return ns > 0 ? RTE_MIN((double)(stretch->to.cpu_ns - stretch->from.cpu_ns) / ns, 1.0) : 0;
}

/* One phase of each kind over all workers. false: a worker did not get the CPU. */
static bool
sum_turn(const struct generator *generators, const struct generator_work *work, unsigned int turn,
	struct generator_sample *sample)
{
	*sample = (struct generator_sample){.cpu = 1};
	for (unsigned int i = 0; i < work->workers; i++) {
		const struct stretch *own = &generators[i].stretch[PHASES * turn];

		for (unsigned int kind = 0; kind < PHASES; kind++) {
			if (rate_of(own + kind) <= 0)
				return false;
			sample->cpu = RTE_MIN(sample->cpu, cpu_of(own + kind));
			sample->rate[kind] += rate_of(own + kind);
		}
	}
	return true;
}

static void
sum_up(const struct generator *generators, const struct generator_work *work,
	struct generator_result *result)
{
	if (generators[0].lone != NULL) {
		struct lone *lone = generators[0].lone;
		double ns = 1e9 / (double)rte_get_tsc_hz();

		result->latency_ns = ns * bench_median(lone->whole, lone->samples);
		result->up_ns = work->role == ROLE_LEAF ? ns * bench_median(lone->up, lone->samples)
							: BENCH_NONE;
	}
	for (unsigned int r = 0; work->packets == 0 && !work->lone && r < work->repeat; r++)
		if (sum_turn(generators, work, r, &result->sample[result->samples]))
			result->samples++;
	for (unsigned int i = 0; i < work->workers; i++) {
		result->verified += generators[i].verified;
		result->wrong += generators[i].wrong;
		result->contributions += generators[i].packets;
		if (work->packets != 0)
			result->counted += generators[i].stretch[0].to.packets -
				generators[i].stretch[0].from.packets;
	}
}

uint64_t
generator_drops(const struct ppe_stats *stats)
{
	uint64_t dropped = 0;

	for (unsigned int d = 0; d < PPE_DROP_COUNT; d++) {
		if (stats->drops[d] > 0)
			warnx("the switch dropped %" PRIu64 ": %s", stats->drops[d],
				ppe_drop_key((enum ppe_drop)d));
		dropped += stats->drops[d];
	}
	return dropped;
}

/* The switch may neither drop nor keep anything. */
static int
check(struct bench_switch *s, struct generator_result *result)
{
	struct ppe_stats stats;
	uint64_t dropped;

	ppe_stats_read(s->ppe, &stats);
	dropped = generator_drops(&stats);
	for (unsigned int i = 0; i < s->work->workers; i++)
		result->hops += stats.worker[i].hops_out;
	if (result->wrong > 0)
		warnx("%" PRIu64 " of %" PRIu64 " results are WRONG", result->wrong,
			result->verified);
	if (result->verified == 0)
		warnx("no result was verified");
	if (s->lesson != NULL && ppe_statistic_value(&stats, "fdb_used") <= s->work->sources) {
		warnx("the switch does not know all stations: it floods");
		return -1;
	}
	return dropped > 0 || result->wrong > 0 || result->verified == 0 ? -1 : 0;
}

static void
tear_down(struct bench_switch *s)
{
	/* Also after a stall, when workers wait for each other. */
	__atomic_store_n(&s->schedule.stop, true, __ATOMIC_RELAXED);
	if (s->ppe != NULL)
		ppe_stop(s->ppe, 1000);
	for (unsigned int i = 0; s->ppe != NULL && i < s->work->workers; i++)
		generator_drain(&s->generator[i]);
	/* A callback would stay with the port's number, and meet the next switch. */
	for (unsigned int p = 0; p < s->nb_ports && s->callback[p] != NULL; p++) {
		rte_eth_remove_rx_callback(s->ethdev[p], 0, s->callback[p]);
		rte_free((void *)(uintptr_t)s->callback[p]);
	}
	ppe_destroy(s->ppe, NULL);
	for (unsigned int i = 0; s->generator != NULL && i < s->work->workers; i++)
		destroy_generator(&s->generator[i]);
	frames_destroy(s->lesson);
	for (unsigned int p = 0; p < s->nb_ports; p++)
		for (unsigned int q = 0; q <= s->work->workers; q++)
			rte_ring_free(s->ring[p][q]);
	free(s->generator);
	free(s);
}

void
generator_fit(struct generator_work *w, unsigned int frames)
{
	uint64_t most = FRAME_MEMORY / (w->jobs * w->sources * (w->elements * UINT64_C(4) + 512));
	/* A shard's part of the window, all of which may fall into one shard. */
	unsigned int own = w->window / w->workers;

	own = RTE_MIN(own, RTE_MAX(own / w->jobs, OF_A_JOB));
	w->depth = w->lone ? 1 : RTE_MAX(RTE_MIN(own, (unsigned int)most), 1u);
	w->copies = RTE_MAX(frames / (w->depth * w->jobs * w->sources), 1u);
}

unsigned int
generator_memory_mb(const struct generator_work *work)
{
	const struct frames_config frames = {.sources = work->sources,
		.rows = work->depth * work->jobs * work->copies * (work->role == ROLE_LEAF ? 2 : 1),
		.elements = work->elements,
		.type = work->type};
	uint64_t blocks = (uint64_t)work->window * work->jobs;
	uint64_t buffers = 5 * blocks * (work->elements * 4 + 256);
	uint64_t kept = work->deterministic ? blocks * work->sources : 0;
	uint64_t pools = UINT64_C(2) * RING * 640 + 1024 * 3072 + 4 * RING * sizeof(void *);
	uint64_t per_worker = frames_memory(&frames) + buffers + kept * (work->elements * 4 + 256) +
		pools + (UINT64_C(4) << 20);

	return (unsigned int)(work->workers * per_worker * 5 / 4 >> 20) + 64;
}

int
generator_run(const struct generator_work *work, struct generator_result *result)
{
	struct bench_switch *s = calloc(1, sizeof(*s));
	int rc = -1;

	memset(result, 0, sizeof(*result));
	if (s == NULL)
		return -1;
	s->work = work;
	if (build(s) == 0 && run_phases(s) == 0) {
		sum_up(s->generator, work, result);
		rc = check(s, result);
	}
	tear_down(s);
	return rc;
}
