/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/rig.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_ring.h>

#include "tests/random.h"

const uint8_t rig_switch_mac[6] = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01};

#define L2         14
#define L3         (L2 + 20)
#define L4         (L3 + 8)
#define UDP_SOURCE 40000

#define FAIL(...)                                                                                  \
	do {                                                                                       \
		fprintf(stderr, "rig: " __VA_ARGS__);                                              \
		fputc('\n', stderr);                                                               \
		abort();                                                                           \
	} while (0)

uint64_t
rig_random(uint64_t *state)
{
	return random_bits(state);
}

uint64_t
rig_seed(void)
{
	return random_seed_or(20221122);
}

uint32_t
rig_source_ip(unsigned int source)
{
	return 0x0a4d0001 + source;
}

void
rig_source_mac(unsigned int source, uint8_t mac[6])
{
	const uint8_t base[6] = {0x02, 0x48, 0, 0, 0, (uint8_t)(source + 1)};

	memcpy(mac, base, sizeof(base));
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
}

static void
make_ports(struct rig *rig, struct pktbuf_port_config *configs)
{
	for (unsigned int p = 0; p < rig->ports; p++) {
		struct rte_eth_dev_info info;
		char name[32];
		int id;

		snprintf(name, sizeof(name), "to%u", p);
		rig->to[p] = rte_ring_create(name, 4096, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
		snprintf(name, sizeof(name), "from%u", p);
		rig->from[p] = rte_ring_create(name, 4096, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
		snprintf(name, sizeof(name), "rig%u", p);
		id = rte_eth_from_rings(name, &rig->to[p], 1, &rig->from[p], 1, 0);
		if (id < 0 || rte_eth_dev_info_get((uint16_t)id, &info) < 0)
			FAIL("port %u can't be made", p);
		memset(&configs[p], 0, sizeof(configs[p]));
		snprintf(configs[p].name, sizeof(configs[p].name), "p%u", p);
		rte_eth_dev_get_name_by_port((uint16_t)id, configs[p].device);
		configs[p].rx_queues = 1;
		configs[p].tx_queues = 1;
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

void
rig_build(struct rig *rig, const struct rig_config *config)
{
	struct pktbuf_port_config ports[RIG_PORTS_MAX];

	memset(rig, 0, sizeof(*rig));
	rig->ports = config->ports;
	rig_start_eal(config->workers);
	make_ports(rig, ports);
	memcpy(rig->job, config->job, sizeof(rig->job));
	for (unsigned int j = 0; j < config->jobs; j++)
		rig->jobs.by_id[rig->job[j].id] = &rig->job[j];
	rig->config = (struct ppe_config){
		.workers = (uint16_t)config->workers,
		.threads = (uint16_t)config->threads,
		.burst = 32,
		.idle = config->spin    ? PPE_IDLE_SPIN
			: config->sleep ? PPE_IDLE_SLEEP
					: PPE_IDLE_YIELD,
		.idle_sleep_us = 50,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.timer_threads = 100,
		.refusals = 1000000, /* all that tests send */
		.blocks = 4096,
		.fdb_entries = 1024,
		.fdb_timeout_s = config->fdb_timeout_s != 0 ? config->fdb_timeout_s : 300,
		.exception_port = -1,
		.isa = RMW_ISA_AVX512,
		.first_generation =
			config->first_generation != 0 ? config->first_generation : 65534,
		.packets = 4096,
		.packet_bytes = RIG_FRAME_MAX,
		.headers = 4096,
	};
	memcpy(rig->config.identity.mac, rig_switch_mac, 6);
	rig->config.identity.ip = RIG_SWITCH_IP;
	rig->config.identity.port_base = WEIR_PORT_BASE;
	rig->config.identity.port_ext = WEIR_PORT_EXT;
	rig->pool = rte_pktmbuf_pool_create_by_ops(
		"rig", 8191, 64, PKTBUF_PRIV_BYTES, RIG_FRAME_MAX + 128, 0, "ring_mt_rts");
	rig->ppe = ppe_create(&rig->config, ports, rig->ports, &rig->jobs, config->programs);
	if (rig->pool == NULL || rig->ppe == NULL)
		FAIL("the switch can't be built");
}

void
rig_start(struct rig *rig, const struct rig_config *config)
{
	rig_build(rig, config);
	if (ppe_start(rig->ppe) < 0)
		FAIL("the switch does not start");
}

/* Is nothing under way? Reads the statistics. */
static bool
at_rest(struct rig *rig, struct ppe_stats *stats)
{
	unsigned int waiting = 0;

	for (unsigned int p = 0; p < rig->ports; p++)
		waiting += rte_ring_count(rig->to[p]);
	rte_delay_us_sleep(1000);
	ppe_stats_read(rig->ppe, stats);
	return waiting == 0 && stats->in_flight == 0;
}

void
rig_settle(struct rig *rig, struct ppe_stats *stats)
{
	for (unsigned int ms = 0; ms < 1000; ms++)
		if (at_rest(rig, stats))
			break;
}

/* Take what comes out until nothing is under way: ports that are full would hold up a stop. */
static void
drain(struct rig *rig, uint8_t *frame)
{
	struct ppe_stats stats;
	bool rest = false;

	for (unsigned int ms = 0; ms < 5000 && !rest; ms++) {
		for (unsigned int p = 0; p < rig->ports; p++)
			while (rig_receive(rig, p, frame, 0) > 0)
				;
		rest = at_rest(rig, &stats);
	}
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
	rc = ppe_stop(rig->ppe, 2000);
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
		snprintf(text, sizeof(text), "the books are off by %" PRId64,
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

void
rig_send(struct rig *rig, unsigned int port, const uint8_t *frame, unsigned int bytes)
{
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
	for (unsigned int ms = 0; rte_ring_enqueue(rig->to[port], first) < 0; ms++) {
		if (ms > 5000)
			FAIL("port %u takes nothing", port);
		rte_delay_us_sleep(1000);
	}
}

unsigned int
rig_receive(struct rig *rig, unsigned int port, uint8_t frame[RIG_FRAME_MAX], unsigned int ms)
{
	uint64_t end = rte_rdtsc() + ms * (rte_get_tsc_hz() / 1000);
	struct rte_mbuf *m;
	unsigned int bytes, at = 0;

	while (rte_ring_dequeue(rig->from[port], (void **)&m) < 0) {
		if (rte_rdtsc() >= end)
			return 0;
		rte_delay_us_sleep(20);
	}
	bytes = m->pkt_len;
	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		memcpy(frame + at, rte_pktmbuf_mtod(s, void *), s->data_len);
		at += s->data_len;
	}
	if (at != bytes)
		FAIL("segments have %u bytes, the packet %u", at, bytes);
	rte_pktmbuf_free(m);
	return bytes;
}

/* RFC 1071, byte pair by byte pair. */
static uint16_t
internet_sum(uint32_t sum, const uint8_t *p, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += (i & 1) ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint16_t
udp_sum(const uint8_t *frame)
{
	unsigned int length = weir_get16(frame + L3 + 4);

	return internet_sum(internet_sum(17 + length, frame + L2 + 12, 8), frame + L3, length);
}

void
rig_fix_checksums(uint8_t *frame)
{
	weir_put16(frame + L2 + 10, 0);
	weir_put16(frame + L2 + 10, (uint16_t)~internet_sum(0, frame + L2, 20));
	weir_put16(frame + L3 + 6, 0);
	weir_put16(frame + L3 + 6, (uint16_t)~udp_sum(frame));
}

bool
rig_checksums_hold(const uint8_t *frame)
{
	return internet_sum(0, frame + L2, 20) == 0xffff && udp_sum(frame) == 0xffff;
}

unsigned int
rig_frame(uint8_t *frame, unsigned int source, const struct weir_header *header,
	const void *payload, unsigned int payload_bytes)
{
	unsigned int udp = 8 + weir_header_bytes(header->extended) + payload_bytes;

	memset(frame, 0, L4);
	memcpy(frame, rig_switch_mac, 6);
	rig_source_mac(source, frame + 6);
	weir_put16(frame + 12, 0x0800);
	frame[L2] = 0x45;
	weir_put16(frame + L2 + 2, (uint16_t)(20 + udp));
	weir_put16(frame + L2 + 6, 0x4000);
	frame[L2 + 8] = 64;
	frame[L2 + 9] = 17;
	weir_put32(frame + L2 + 12, rig_source_ip(source));
	weir_put32(frame + L2 + 16, RIG_SWITCH_IP);
	weir_put16(frame + L3, (uint16_t)(UDP_SOURCE + source));
	weir_put16(frame + L3 + 2, header->extended ? WEIR_PORT_EXT : WEIR_PORT_BASE);
	weir_put16(frame + L3 + 4, (uint16_t)udp);
	weir_header_write(header, frame + L4);
	if (payload_bytes > 0)
		memcpy(frame + L4 + weir_header_bytes(header->extended), payload, payload_bytes);
	rig_fix_checksums(frame);
	return L3 + udp;
}

bool
rig_parse(const uint8_t *frame, unsigned int bytes, struct weir_header *header,
	const uint8_t **payload, unsigned int *payload_bytes)
{
	unsigned int udp, port;

	if (bytes < L4 + WEIR_BASE_BYTES || weir_get16(frame + 12) != 0x0800 || frame[L2 + 9] != 17)
		return false;
	port = weir_get16(frame + L3);
	udp = weir_get16(frame + L3 + 4);
	if ((port != WEIR_PORT_BASE && port != WEIR_PORT_EXT) || L3 + udp > bytes)
		return false;
	memset(header, 0, sizeof(*header));
	header->extended = port == WEIR_PORT_EXT;
	weir_header_read(header, frame + L4);
	*payload = frame + L4 + weir_header_bytes(header->extended);
	*payload_bytes = udp - 8 - weir_header_bytes(header->extended);
	return true;
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
			.flags = base_form ? WEIR_FLAG_BASE_RESULTS : 0,
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
		if (h.root != rank++)
			FAIL("source %u is told rank %u", s, h.root);
		generation = h.gen_id;
	}
	free(frame);
	return generation;
}
