/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch: its pools, ports, workers, queues, rings and programs; then its start and stop. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>

#include "pktbuf/memif.h"
#include "pktbuf/wire/crc32c.h"
#include "ppe/crossbar.h"
#include "ppe/faults/faults_priv.h"
#include "ppe/filters/filters_priv.h"
#include "ppe/guard.h"
#include "ppe/ppe_priv.h"
#include "ppe/trace/trace.h"
#include "rmw/rmw.h"

RTE_LOG_REGISTER(ppe_log, weir.ppe, NOTICE);
#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_log, "weir: " __VA_ARGS__)

#define POOL_CACHE_MOST 256

/* Mbufs that an lcore may cache. It frees mbufs that others allocated and returns only those beyond
 * 1.5 caches, so all caches together must leave most of the pool to receivers. */
static unsigned int
pool_cache(const struct ppe *ppe, unsigned int n)
{
	unsigned int fair = n / (4 * (ppe->config.workers + 1u));

	return RTE_MIN(fair, (unsigned int)POOL_CACHE_MOST);
}

static int
check_config(const struct ppe_config *config, unsigned int nb_ports)
{
	bool good = config->programs != NULL && config->workers >= 1 &&
		config->workers <= PPE_WORKERS_MAX && config->threads >= 1 &&
		config->threads <= PPE_THREADS_MAX && config->burst >= 1 && config->burst <= 256 &&
		config->batch >= 1 && config->batch <= 256 && nb_ports >= 1 &&
		nb_ports <= PPE_PORTS_MAX && config->exception_port < (int)nb_ports &&
		rte_is_power_of_2(config->crossbar_depth) &&
		rte_is_power_of_2(config->queue_depth) && config->queue_wait_ms >= 1 &&
		config->queue_wait_ms <= 10000 && config->first_generation != 0 &&
		config->timer_threads >= 1 && config->timer_threads <= 1000 &&
		config->nb_hosts <= PPE_HOSTS_MAX && config->joins_s <= 3600;

#define X(name, key, ...) good = good && config->policers.key <= PPE_POLICER_MAX;
	PPE_POLICERS(X)
#undef X
	return good ? 0 : -EINVAL;
}

static int
create_pools(struct ppe *ppe)
{
	const struct ppe_config *c = &ppe->config;
	int socket = (int)rte_socket_id();

	ppe->pools.packets = pktbuf_packet_pool(
		"weir_packets", c->packets, c->packet_bytes, pool_cache(ppe, c->packets), socket);
	ppe->pools.headers =
		pktbuf_header_pool("weir_headers", c->headers, pool_cache(ppe, c->headers), socket);
	ppe->pools.attaches = pktbuf_attach_pool(
		"weir_attaches", c->headers, pool_cache(ppe, c->headers), socket);
	if (ppe->pools.packets && ppe->pools.headers && ppe->pools.attaches)
		return 0;
	LOG(ERR, "no memory for the pools of %u packets and %u headers\n", c->packets, c->headers);
	return -ENOMEM;
}

static int
open_ports(struct ppe *ppe, const struct pktbuf_port_config *ports)
{
	for (unsigned int p = 0; p < ppe->nb_ports; p++) {
		int rc = pktbuf_port_open(&ppe->port[p], &ports[p], ppe->pools.packets);

		if (rc < 0)
			return rc;
		ppe->port[p].index = (uint16_t)p;
		ppe->ports_open++;
	}
	return 0;
}

/*
 * Each worker gets a UDP port of each form, in the order of shards (ppe_job_shard), so that a
 * device with several queues can give it the packets of its blocks. Other devices gain nothing.
 */
static void
choose_udp_ports(struct ppe *ppe, const struct pktbuf_port_config *ports)
{
	struct pktbuf_identity *self = &ppe->config.identity;
	uint16_t workers = ppe->config.workers;
	uint16_t any = (uint16_t)((rte_align32pow2(workers) - 1) << 1);
	bool several = false;

	self->ports = 1;
	self->port_any = 0;
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		several |= ports[p].rx_queues > 1;
	if (!several || workers == 1)
		return;
	if (((self->port_base | self->port_ext) & any) != 0) {
		LOG(WARNING,
			"hosts cannot choose the worker of a block: with %u workers both UDP ports "
			"must be multiples of %u, or one more\n",
			workers, any + 2u);
		return;
	}
	self->ports = workers;
	self->port_any = any;
}

/*
 * Packets that may wait in the output queues of a worker: of the packets that no device keeps,
 * three quarters of the headers or half of the packets. The rest is for ports that take all their
 * packets at once, receivers, and lcores' caches.
 */
static uint32_t
queue_share(const struct ppe_config *config)
{
	uint32_t packets = config->packets - RTE_MIN(config->packets, config->packets_kept);
	uint32_t headers = config->headers - RTE_MIN(config->headers, config->headers_kept);

	return RTE_MIN(headers / 4 * 3, packets / 2) / config->workers;
}

static struct ppe_worker *
create_worker(struct ppe *ppe, uint16_t id)
{
	const struct ppe_config *c = &ppe->config;
	int socket = (int)rte_lcore_to_socket_id(ppe->lcore[id]);
	struct ppe_worker *w = rte_zmalloc_socket("weir_worker", sizeof(*w), 64, socket);

	if (w == NULL)
		return NULL;
	w->ppe = ppe;
	w->identity = &ppe->config.identity;
	w->pools = &ppe->pools;
	w->id = id;
	w->workers = c->workers;
	w->threads = c->threads;
	w->burst = c->burst;
	w->batch = c->batch;
	w->share = queue_share(c);
	w->nb_ports = (uint16_t)ppe->nb_ports;
	w->exception_port = (int16_t)c->exception_port;
	w->thread = rte_zmalloc_socket(
		"weir_threads", sizeof(struct ppe_thread) * c->threads, 64, socket);
	w->peer =
		rte_zmalloc_socket("weir_peers", sizeof(struct ppe_peer) * c->workers, 64, socket);
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		w->port[p] = &ppe->port[p];
	w->guard = guard_create(c, ppe->nb_ports, socket);
	ppe->worker[id] = w;
	if (w->thread == NULL || w->peer == NULL || w->guard == NULL)
		return NULL;
	for (unsigned int t = 0; t < c->threads; t++)
		w->free[w->free_count++] = &w->thread[t];
	return w;
}

static int
assign_rx(struct ppe *ppe)
{
	unsigned int turn = 0;

	for (unsigned int p = 0; p < ppe->nb_ports; p++) {
		for (uint16_t q = 0; q < ppe->port[p].rx_queues; q++) {
			struct ppe_worker *w = ppe->worker[turn++ % ppe->config.workers];

			if (w->nb_rx == PPE_QUEUES_MAX)
				return -ENOSPC;
			w->rx[w->nb_rx++] = (struct ppe_rx_queue){&ppe->port[p], q};
		}
	}
	return 0;
}

/* A worker gets its own transmit queue of a port if there are enough. */
static int
assign_tx(struct ppe *ppe)
{
	unsigned int workers = ppe->config.workers;

	for (unsigned int p = 0; p < ppe->nb_ports; p++) {
		unsigned int queues = RTE_MIN((unsigned int)ppe->port[p].tx_queues, workers);

		for (unsigned int q = 0; q < queues; q++) {
			struct ppe_worker *w = ppe->worker[(p + q) % workers];
			struct pktbuf_outq *outq = pktbuf_outq_create(&ppe->port[p], (uint16_t)q,
				ppe->config.queue_depth, ppe->pools.packets,
				ppe->config.queue_wait_ms,
				(int)rte_lcore_to_socket_id(ppe->lcore[w->id]));

			if (outq == NULL)
				return -rte_errno;
			w->outq[w->nb_outq++] = outq;
			w->route[p].queue = outq;
		}
		for (unsigned int i = 0; i < workers; i++)
			ppe->worker[(p + i) % workers]->route[p].owner =
				(uint16_t)((p + i % queues) % workers);
	}
	return 0;
}

struct ppe_setup
ppe_setup_of(struct ppe *ppe, unsigned int worker)
{
	return (struct ppe_setup){.ppe = ppe,
		.config = &ppe->config,
		.worker = ppe->worker[worker],
		.worker_id = worker,
		.workers = ppe->config.workers,
		.nb_ports = ppe->nb_ports,
		.socket = (int)rte_lcore_to_socket_id(ppe->lcore[worker])};
}

static int
choose_lcores(struct ppe *ppe)
{
	unsigned int lcore, n = 0;

	RTE_LCORE_FOREACH_WORKER(lcore)
	if (n < ppe->config.workers)
		ppe->lcore[n++] = lcore;
	if (n == ppe->config.workers)
		return 0;
	LOG(ERR, "%u workers configured, and EAL has %u worker lcores\n", ppe->config.workers, n);
	return -EINVAL;
}

static int
create_qsbr(struct ppe *ppe)
{
	size_t size = rte_rcu_qsbr_get_memsize(PPE_WORKERS_MAX);

	ppe->qsbr = rte_zmalloc("weir_qsbr", size, RTE_CACHE_LINE_SIZE);
	if (ppe->qsbr == NULL)
		return -ENOMEM;
	return rte_rcu_qsbr_init(ppe->qsbr, PPE_WORKERS_MAX) == 0 ? 0 : -rte_errno;
}

static int
build(struct ppe *ppe, const struct pktbuf_port_config *ports, const struct ppe_jobs *jobs)
{
	int rc = choose_lcores(ppe);

	if (rc == 0)
		rc = create_qsbr(ppe);
	if (rc == 0)
		rc = create_pools(ppe);
	choose_udp_ports(ppe, ports);
	if (rc == 0)
		rc = open_ports(ppe, ports);
	for (uint16_t w = 0; rc == 0 && w < ppe->config.workers; w++)
		rc = create_worker(ppe, w) != NULL ? 0 : -ENOMEM;
	if (rc == 0)
		rc = crossbar_create(ppe, ppe->config.crossbar_depth, ppe->config.headers);
	if (rc == 0)
		rc = assign_rx(ppe);
	if (rc == 0)
		rc = assign_tx(ppe);
	if (rc == 0)
		rc = ppe_create_programs(ppe, jobs);
	if (rc == 0)
		rc = ppe_first_jobs(ppe, jobs);
	return rc;
}

static void
select_vectors(enum rmw_isa limit)
{
	enum rmw_isa isa = rmw_kernels_select(limit);

	pktbuf_sum_select(isa == RMW_ISA_AVX512 ? 512 : isa == RMW_ISA_AVX2 ? 256 : 128);
	weir_crc32c_select(isa == RMW_ISA_AVX512 ? 512 : 128);
}

struct ppe *
ppe_create(const struct ppe_config *config, const struct pktbuf_port_config *ports,
	unsigned int nb_ports, const struct ppe_jobs *jobs)
{
	struct ppe *ppe = NULL;
	int rc = check_config(config, nb_ports);

	if (rc == 0) {
		ppe = rte_zmalloc("weir_ppe", sizeof(*ppe), RTE_CACHE_LINE_SIZE);
		rc = ppe == NULL ? -ENOMEM : 0;
	}
	if (rc == 0) {
		ppe->config = *config;
		select_vectors((enum rmw_isa)config->isa);
		ppe->nb_ports = nb_ports;
		rc = build(ppe, ports, jobs);
	}
	if (rc == 0)
		return ppe;
	LOG(ERR, "the switch can't be built: %s\n", rte_strerror(-rc));
	ppe_destroy(ppe, NULL);
	rte_errno = -rc;
	return NULL;
}

static void
destroy_worker(struct ppe_worker *w)
{
	rte_free(w->thread);
	rte_free(w->peer);
	guard_destroy(w->guard);
	rte_free(w);
}

/* Free packets that a stop left behind for lack of time. */
static void
abandon(struct ppe_worker *w)
{
	ppe_free_consumed(w);
	for (unsigned int i = 0; i < w->live_count; i++)
		rte_pktmbuf_free(w->live[i]->packet);
	w->live_count = 0;
	while (w->backlog_head != w->backlog_tail)
		rte_pktmbuf_free(w->backlog[w->backlog_head++]);
	ppe_faults_abandon(w);
	for (unsigned int i = 0; i < w->nb_outq; i++)
		pktbuf_outq_destroy(w->outq[i]);
	w->nb_outq = 0;
}

static uint64_t
missing(const struct rte_mempool *pool)
{
	return pool == NULL ? 0 : pool->size - rte_mempool_avail_count(pool);
}

/* Packets that neither are in the pool nor were kept by a driver. */
static uint64_t
missing_packets(const struct ppe *ppe)
{
	uint64_t n = missing(ppe->pools.packets);

	for (unsigned int p = 0; p < ppe->ports_open; p++)
		n -= RTE_MIN(n, ppe->port[p].kept);
	return n;
}

/* Until each worker has ended the turn that it is in. */
static void
wait_for_turns(void *arg)
{
	struct ppe *ppe = arg;
	uint64_t token = rte_rcu_qsbr_start(ppe->qsbr);

	while (rte_rcu_qsbr_check(ppe->qsbr, token, false) != 1)
		rte_delay_us_sleep(100);
}

/* wait: for the workers; NULL: they have stopped. */
static void
guard_memif(struct ppe *ppe, void (*wait)(void *))
{
	for (unsigned int p = 0; p < ppe->ports_open; p++)
		if (strcmp(ppe->port[p].driver, PKTBUF_MEMIF) == 0)
			pktbuf_memif_guard(wait, ppe);
}

void
ppe_destroy(struct ppe *ppe, struct ppe_leaks *leaks)
{
	struct ppe_program_leaks lost;

	if (ppe == NULL)
		return;
	if (ppe_stop(ppe, 1000) == -EBUSY) {
		/* A worker may continue at any moment and needs all of it. */
		if (leaks != NULL)
			*leaks = (struct ppe_leaks){.packets = missing_packets(ppe),
				.headers = missing(ppe->pools.headers),
				.attaches = missing(ppe->pools.attaches)};
		return;
	}
	lost = ppe->lost;
	ppe_trace_free(ppe->tracing.trace);
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (ppe->worker[w] != NULL)
			abandon(ppe->worker[w]);
	guard_memif(ppe, NULL);
	/* Drivers may return mbufs only now, and with them buffers over the crossbar. */
	for (unsigned int p = 0; p < ppe->ports_open; p++)
		pktbuf_port_close(&ppe->port[p]);
	crossbar_destroy(ppe);
	ppe_destroy_jobs(ppe, &lost);
	ppe_destroy_faults(ppe);
	ppe_destroy_programs(ppe, &lost);
	ppe_destroy_filters(ppe);
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (ppe->worker[w] != NULL)
			destroy_worker(ppe->worker[w]);
	if (leaks != NULL)
		*leaks = (struct ppe_leaks){.packets = missing_packets(ppe),
			.headers = missing(ppe->pools.headers),
			.attaches = missing(ppe->pools.attaches),
			.buffers = lost.buffers,
			.records = lost.records,
			.faults = lost.faults};
	rte_mempool_free(ppe->pools.packets);
	rte_mempool_free(ppe->pools.headers);
	rte_mempool_free(ppe->pools.attaches);
	rte_free(ppe->qsbr);
	rte_free(ppe);
}

void
ppe_memory_needed(const struct ppe_config *config, unsigned int nb_ports,
	const struct ppe_jobs *jobs, struct ppe_memory *memory)
{
	memset(memory, 0, sizeof(*memory));
	memory->packet_pools = pktbuf_packet_pool_bytes(config->packets, config->packet_bytes) +
		pktbuf_header_pool_bytes(config->headers) +
		pktbuf_attach_pool_bytes(config->headers);
	memory->rings = crossbar_bytes(config->workers, config->crossbar_depth, config->headers) +
		(uint64_t)nb_ports * config->workers * pktbuf_outq_bytes(config->queue_depth);
	for (const struct ppe_program *const *p = config->programs; *p != NULL; p++)
		if ((*p)->memory != NULL)
			(*p)->memory(config, jobs, memory);
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (jobs->by_id[id] != NULL)
			ppe_add_job_memory(config, jobs->by_id[id], memory);
	memory->fdb += config->workers * guard_bytes(nb_ports);
	memory->total = memory->packet_pools + memory->data_memory + memory->block_tables +
		memory->fdb + memory->rings;
}

void
ppe_print(const struct ppe *ppe, FILE *out)
{
	const struct ppe_config *c = &ppe->config;

	fprintf(out, "pools     packets %u x %u B, headers %u, attaches %u\n", c->packets,
		c->packet_bytes, c->headers, c->headers);
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		pktbuf_port_print(&ppe->port[p], out);
	for (unsigned int i = 0; i < c->workers; i++) {
		const struct ppe_worker *w = ppe->worker[i];

		fprintf(out, "worker %-2u lcore %u, %u threads, burst %u, receives", i,
			ppe->lcore[i], c->threads, c->burst);
		for (unsigned int q = 0; q < w->nb_rx; q++)
			fprintf(out, " %s:%u", w->rx[q].port->name, w->rx[q].queue);
		fprintf(out, ", sends");
		for (unsigned int q = 0; q < w->nb_outq; q++)
			fprintf(out, " %s:%u", w->outq[q]->port->name, w->outq[q]->queue);
		fprintf(out, "\n");
	}
	fprintf(out, "crossbar  %u rings of %u\n", c->workers * (c->workers - 1),
		c->crossbar_depth);
	fprintf(out, "programs ");
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		if (ppe->slot[p] != NULL)
			fprintf(out, " %s", ppe->slot[p]->program->name);
	fprintf(out, "\n");
}

/* The time in which a worker must notice the end. */
#define RETURN_MS 1000

/* Have the device give each worker with a queue of the port the packets to its UDP ports. */
static int
steer(struct ppe *ppe, struct pktbuf_port *port)
{
	const struct pktbuf_identity *self = &ppe->config.identity;
	int rc = 0;

	for (uint16_t i = 0; i < self->ports; i++) {
		const struct ppe_worker *w = ppe->worker[i];
		uint16_t step = (uint16_t)(2 * i);
		unsigned int q = 0;

		while (q < w->nb_rx && w->rx[q].port != port)
			q++;
		if (q == w->nb_rx)
			continue;
		if (rc == 0)
			rc = pktbuf_port_steer(
				port, self->ip, (uint16_t)(self->port_base + step), w->rx[q].queue);
		if (rc == 0)
			rc = pktbuf_port_steer(
				port, self->ip, (uint16_t)(self->port_ext + step), w->rx[q].queue);
	}
	return rc;
}

static void
steer_or_say(struct ppe *ppe, struct pktbuf_port *port)
{
	int rc;

	if (port->rx_queues == 1 || ppe->config.identity.ports == 1)
		return;
	rc = steer(ppe, port);
	/* A worker without a queue of the port gets its packets from others. */
	port->steers = rc == 0 && port->rx_queues >= ppe->config.identity.ports;
	if (rc == 0)
		return;
	pktbuf_port_unsteer(port);
	LOG(WARNING,
		"port %s: the device (%s) does not put contributions into their workers' queues: "
		"%s. They hop\n",
		port->name, port->driver, rte_strerror(-rc));
}

bool
ppe_port_steers(const struct ppe *ppe, unsigned int port)
{
	return ppe->port[port].steers;
}

int
ppe_start(struct ppe *ppe)
{
	unsigned int left;

	/* This thread will wait for the workers to take tables. */
	ppe_sleep_exactly();
	guard_memif(ppe, wait_for_turns);
	for (unsigned int p = 0; p < ppe->nb_ports; p++) {
		int rc = pktbuf_port_start(&ppe->port[p]);

		if (rc < 0)
			return rc;
		steer_or_say(ppe, &ppe->port[p]);
	}
	left = rte_mempool_avail_count(ppe->pools.packets);
	if (left < (unsigned int)ppe->config.workers * ppe->config.burst) {
		LOG(ERR,
			"the ports' receive queues keep %u of %u packets: more packets are "
			"needed\n",
			ppe->config.packets - left, ppe->config.packets);
		return -ENOMEM;
	}
	__atomic_store_n(&ppe->state, PPE_STATE_RUNNING, __ATOMIC_RELEASE);
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		int rc = rte_eal_remote_launch(ppe_barrel, ppe->worker[w], ppe->lcore[w]);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool
all_rest(const struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		/* Acquire pairs with the worker's release: its hand-overs are visible to us. */
		if (!__atomic_load_n(&ppe->worker[w]->resting, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

static int
still_out(const struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (rte_eal_get_lcore_state(ppe->lcore[w]) == RUNNING)
			return (int)w;
	return -1;
}

static bool
all_return(const struct ppe *ppe)
{
	const uint64_t limit = rte_get_tsc_hz() / 1000 * RETURN_MS, began = ppe_clock();
	int w;

	while ((w = still_out(ppe)) >= 0) {
		if (ppe_clock() - began >= limit) {
			LOG(ERR, "worker %d is stuck: it did not stop within %d ms\n", w,
				RETURN_MS);
			return false;
		}
		rte_delay_us_sleep(1000);
	}
	/* This does not wait: it takes their last stores. */
	for (unsigned int i = 0; i < ppe->config.workers; i++)
		rte_eal_wait_lcore(ppe->lcore[i]);
	return true;
}

int
ppe_stop(struct ppe *ppe, unsigned int limit_ms)
{
	unsigned int quiet = 2;

	if (ppe->state == PPE_STATE_IDLE || ppe->returned)
		return 0;
	if (ppe->state == PPE_STATE_RUNNING) {
		__atomic_store_n(&ppe->state, PPE_STATE_DRAINING, __ATOMIC_RELEASE);
		quiet = 0;
		/* Twice in a row: a worker may get a packet from another between two checks. */
		for (unsigned int ms = 0; ms < limit_ms && quiet < 2; ms++) {
			quiet = all_rest(ppe) ? quiet + 1 : 0;
			rte_delay_us_sleep(1000);
		}
		__atomic_store_n(&ppe->state, PPE_STATE_STOPPED, __ATOMIC_RELEASE);
	}
	if (!all_return(ppe))
		return -EBUSY;
	ppe->returned = true;
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		pktbuf_port_stop(&ppe->port[p]);
	return quiet < 2 ? -ETIMEDOUT : 0;
}
