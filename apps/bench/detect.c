/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench detect: when a real switch finds a straggler. Of two sources one contributes and the other
 * is silent; the time from handing the contribution to the switch's port until the partial result lies
 * in that port's ring is compared with the timeout.
 *
 * The main thread plays the hosts, by rings; the worker may have a CPU of its own, or not (yield, sleep).
 * On a busy machine both lose their CPUs now and then. With --idle spin it shows: such a thread does not
 * turn for long. Samples that saw it are set apart, and counted; their times tell about the machine.
 *
 * Load: what the worker's bursts have room for is filled up with repeats of a contribution to a block of
 * another job: they are parsed, looked up and dropped, at the rate that the worker can do.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "apps/bench/barrier.h"
#include "apps/bench/bench.h"
#include "ppe/ppe.h"
#include "rmw/rmw.h"

#define WINDOW   256
#define RING     4096
#define POOL     8191
#define ADDRESS  0x0a4d0001 /* of source 0; host order */
#define TRIES    10 /* stragglers for a sample, at most */
#define REPEAT   3 /* timeouts */
#define SLACK_MS 2000 /* beyond the timeouts, until nothing comes any more */

enum { DETECT = 1, LOAD = 2 }; /* jobs */

static struct bench_list timeouts = {6, {1, 2, 5, 10, 100, 1000}};
static const char *idle = "spin", *load = "both";
static uint64_t samples = 1000, sleep_us = 100, timer_threads = 100, burst = 32;

static const struct bench_option options[] = {
	{"timeout", BENCH_LIST, &timeouts, 1, 60000, NULL, "of the job, ms"},
	{"idle", BENCH_TEXT, &idle, 0, 0, "spin|yield|sleep", "what the worker does without work"},
	{"sleep-us", BENCH_UINT, &sleep_us, 1, 10000, NULL, "with --idle sleep"},
	{"load", BENCH_TEXT, &load, 0, 0, "no|yes|both",
		"other contributions, all that it can take"},
	{"samples", BENCH_UINT, &samples, 10, 1000000, NULL, "stragglers of each point"},
	{"timer-threads", BENCH_UINT, &timer_threads, 1, 1000, NULL, "slices of the table"},
	{"burst", BENCH_UINT, &burst, 1, 256, NULL, "packets per poll"},
	{0},
};

/* A residue of the window: a block that straggles, or that is to come. */
struct residue {
	uint32_t block;
	bool open, apart;
	uint64_t at; /* TSC: when it was handed over, or will be */
};

/* When the worker did not turn. worker: wo, main: ro */
#define ABSENCES 1024
struct absences {
	uint64_t last; /* TSC of its last poll */
	uint64_t least; /* TSC cycles; less is nothing */
	unsigned int count;
	struct {
		uint64_t from, to;
	} away[ABSENCES]; /* the last of them */
};

struct bed {
	struct ppe_config config;
	struct ppe_job job[LOAD + 1];
	struct ppe_jobs jobs;
	struct ppe *ppe;
	struct rte_ring *to, *from;
	struct rte_mempool *pool;
	const struct rte_eth_rxtx_callback *callback;
	uint16_t port;
	bool loaded; /* main: wo, worker: ro */
	struct residue residue[WINDOW];
	unsigned int used; /* residues in use */
	uint64_t timeout, random;
	struct absences absences;
	double *ratio;
	unsigned int found, apart, lost; /* lost: no memory, or no room, for what a host sends */
};

static uint64_t
draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static void
write_packet(
	const struct bed *bed, struct rte_mbuf *packet, uint8_t job, uint8_t source, uint32_t block)
{
	const struct weir_header h = {
		.job_id = job, .src_id = source, .gen_id = 1, .block_id = block};

	barrier_write((uint8_t *)rte_pktmbuf_append(packet, BARRIER_FRAME), &bed->config.identity,
		ADDRESS + source, &h);
}

static void
contribute(struct bed *bed, uint8_t source, uint32_t block)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(bed->pool);

	if (packet == NULL) {
		bed->lost++;
		return;
	}
	write_packet(bed, packet, DETECT, source, block);
	bed->lost += rte_ring_enqueue(bed->to, packet) != 0;
}

static void
note_poll(struct absences *absences)
{
	uint64_t now = rte_rdtsc();
	unsigned int i = absences->count;

	if (absences->last != 0 && now - absences->last >= absences->least) {
		absences->away[i % ABSENCES].from = absences->last;
		absences->away[i % ABSENCES].to = now;
		__atomic_store_n(&absences->count, i + 1, __ATOMIC_RELEASE);
	}
	absences->last = now;
}

/* Was the worker away at some time after `from`? */
static bool
was_away(const struct absences *absences, uint64_t from)
{
	unsigned int n = __atomic_load_n(&absences->count, __ATOMIC_ACQUIRE);

	for (unsigned int i = n > ABSENCES / 2 ? n - ABSENCES / 2 : 0; i < n; i++)
		if ((int64_t)(absences->away[i % ABSENCES].to - from) > 0)
			return true;
	return false;
}

/* The worker's receive callback: behind what the hosts sent, repeats. */
static uint16_t
fill_up(uint16_t port __rte_unused, uint16_t queue __rte_unused, struct rte_mbuf *packets[],
	uint16_t n, uint16_t max, void *arg)
{
	struct bed *bed = arg;

	note_poll(&bed->absences);
	if (!__atomic_load_n(&bed->loaded, __ATOMIC_RELAXED) ||
		rte_pktmbuf_alloc_bulk(bed->pool, packets + n, max - n) < 0)
		return n;
	for (uint16_t i = n; i < max; i++)
		write_packet(bed, packets[i], LOAD, 0, 0);
	return max;
}

static void
configure(struct bed *bed, uint32_t timeout_ms)
{
	static const uint8_t mac[6] = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01};

	bed->config = (struct ppe_config){.workers = 1,
		.threads = 20,
		.burst = (uint16_t)burst,
		.idle = idle[1] == 'p'   ? PPE_IDLE_SPIN
			: idle[0] == 'y' ? PPE_IDLE_YIELD
					 : PPE_IDLE_SLEEP,
		.idle_sleep_us = (uint32_t)sleep_us,
		.crossbar_depth = 1024,
		.queue_depth = RING,
		.timer_threads = (uint32_t)timer_threads,
		.fdb_entries = 1024,
		.fdb_timeout_s = 300,
		.exception_port = -1,
		.isa = RMW_ISA_AVX512,
		.first_generation = 1,
		.packets = 1024,
		.packet_bytes = 2048,
		.headers = RING,
		.identity = {
			.ip = 0x0a4d00fe, .port_base = WEIR_PORT_BASE, .port_ext = WEIR_PORT_EXT}};
	memcpy(bed->config.identity.mac, mac, sizeof(mac));
	for (unsigned int id = DETECT; id <= LOAD; id++) {
		bed->job[id] = (struct ppe_job){.id = (uint8_t)id,
			.dtype = WEIR_DTYPE_INT32,
			.op = WEIR_OP_SUM,
			.policy = id == DETECT ? PPE_POLICY_PARTIAL : PPE_POLICY_WAIT,
			.window = WINDOW,
			.elements = 1,
			.nb_sources = 2,
			.fixed_generation = 1,
			.timeout_ms = id == DETECT ? timeout_ms : 60000,
			.members = {3},
			.address = {ADDRESS, ADDRESS + 1}};
		snprintf(bed->job[id].name, sizeof(bed->job[id].name), "job%u", id);
		bed->jobs.by_id[id] = &bed->job[id];
	}
}

static int
build(struct bed *bed, uint32_t timeout_ms)
{
	static unsigned int serial; /* a device's name is not used twice */
	struct pktbuf_port_config port = {.name = "p0",
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 512,
		.tx_descriptors = 512,
		.rx_checksum = PKTBUF_CHECKSUM_OFF,
		.tx_checksum = PKTBUF_CHECKSUM_OFF};
	char name[32];
	int id;

	configure(bed, timeout_ms);
	snprintf(name, sizeof(name), "detect_to%u", serial);
	bed->to = rte_ring_create(name, RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	snprintf(name, sizeof(name), "detect_from%u", serial);
	bed->from = rte_ring_create(name, RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	snprintf(name, sizeof(name), "detect_pool%u", serial);
	bed->pool = rte_pktmbuf_pool_create(
		name, POOL, 64, PKTBUF_PRIV_BYTES, RTE_PKTMBUF_HEADROOM + 128, SOCKET_ID_ANY);
	if (bed->to == NULL || bed->from == NULL || bed->pool == NULL)
		return -1;
	snprintf(name, sizeof(name), "detect%u", serial++);
	id = rte_eth_from_rings(name, &bed->to, 1, &bed->from, 1, 0);
	if (id < 0)
		return -1;
	bed->port = (uint16_t)id;
	rte_eth_dev_get_name_by_port(bed->port, port.device);
	bed->callback = rte_eth_add_rx_callback(bed->port, 0, fill_up, bed);
	bed->ppe = ppe_create(&bed->config, &port, 1, &bed->jobs, NULL);
	return bed->ppe == NULL ? -1 : ppe_start(bed->ppe);
}

static void
tear_down(struct bed *bed)
{
	struct rte_mbuf *packet;

	__atomic_store_n(&bed->loaded, false, __ATOMIC_RELAXED);
	if (bed->ppe != NULL)
		ppe_stop(bed->ppe, 1000);
	while (bed->from != NULL && rte_ring_dequeue(bed->from, (void **)&packet) == 0)
		rte_pktmbuf_free(packet);
	if (bed->callback != NULL) {
		rte_eth_remove_rx_callback(bed->port, 0, bed->callback);
		rte_free((void *)(uintptr_t)bed->callback);
	}
	ppe_destroy(bed->ppe, NULL);
	rte_ring_free(bed->to);
	rte_ring_free(bed->from);
	rte_mempool_free(bed->pool);
}

/* A straggler's partial result: note the time, let the straggler acknowledge it, and go on later. */
static void
take(struct bed *bed, const struct rte_mbuf *packet, uint64_t now, bool late)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
	struct weir_header h = {0};
	struct residue *r;

	weir_header_read(&h, bytes + BARRIER_HEADER);
	if (h.job_id != DETECT || bytes[5] != (uint8_t)ADDRESS)
		return; /* what source 1 gets */
	r = &bed->residue[h.block_id % WINDOW];
	if (!r->open || h.block_id != r->block || !h.degraded)
		return; /* an answer to a repeat */
	/* What the worker did before the block was overdue does not matter. */
	if (late || r->apart || was_away(&bed->absences, r->at + bed->timeout))
		bed->apart++;
	else if (bed->found < samples)
		bed->ratio[bed->found++] = (double)(now - r->at) / (double)bed->timeout;
	contribute(bed, 1, r->block);
	r->open = false;
	r->block += WINDOW;
	r->at = now + draw(&bed->random) % bed->timeout;
}

/* Contribute when it is time; and again when nothing came of it: in one burst with the straggler's
 * acknowledgement it may have overtaken that, and been held back. */
static void
offer(struct bed *bed, struct residue *r)
{
	uint64_t now = rte_rdtsc();

	if ((int64_t)(now - r->at) < (int64_t)(r->open ? REPEAT * bed->timeout : 0))
		return;
	contribute(bed, 0, r->block);
	r->apart = r->open || rte_rdtsc() - now >= bed->absences.least;
	r->open = true;
	r->at = now;
}

/* Why nothing comes any more. */
static void
explain(const struct bed *bed)
{
	struct ppe_stats stats;

	fprintf(stderr, "weir-bench: after %u stragglers nothing comes any more\n", bed->found);
	ppe_stats_read(bed->ppe, &stats);
	for (unsigned int d = 0; d < PPE_DROP_COUNT; d++)
		if (stats.drops[d] > 0)
			fprintf(stderr, "weir-bench: the switch dropped %" PRIu64 ": %s\n",
				stats.drops[d], ppe_drop_key((enum ppe_drop)d));
}

/* All residues straggle in turn, at random times, until there are enough. */
static int
play(struct bed *bed)
{
	uint64_t hz = rte_get_tsc_hz(), quiet = rte_rdtsc(), before = quiet;

	for (unsigned int i = 0; i < bed->used; i++)
		bed->residue[i] = (struct residue){
			.block = i, .at = quiet + draw(&bed->random) % bed->timeout};
	while (bed->found < samples && bed->found + bed->apart < TRIES * samples) {
		struct rte_mbuf *packets[32];
		unsigned int n = rte_ring_dequeue_burst(bed->from, (void **)packets, 32, NULL);
		uint64_t now = rte_rdtsc(); /* not before: nothing is to seem early */

		for (unsigned int i = 0; i < n; i++)
			take(bed, packets[i], now, now - before >= bed->absences.least);
		rte_pktmbuf_free_bulk(packets, n);
		if (n > 0)
			quiet = now;
		before = now;
		for (unsigned int i = 0; i < bed->used; i++)
			offer(bed, &bed->residue[i]);
		if (now - quiet > 2 * REPEAT * bed->timeout + SLACK_MS * (hz / 1000)) {
			explain(bed);
			return -1;
		}
	}
	if (bed->lost > 0)
		fprintf(stderr, "weir-bench: %u contributions found no room\n", bed->lost);
	return bed->lost > 0 ? -1 : 0;
}

static int
ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
report_point(struct bench_report *report, struct bed *bed, uint32_t timeout_ms)
{
	static const struct {
		const char *name;
		double quantile;
	} row[] = {{"detection min", 0}, {"detection p50", 0.5}, {"detection p99", 0.99},
		{"detection max", 1}};
	FILE *out = bench_table(report);

	if (bed->found == 0) {
		bench_progress(report, NULL);
		fprintf(out,
			"# timeout %u ms, load %s: a thread had lost its CPU at all %u "
			"stragglers\n",
			timeout_ms, bed->loaded ? "yes" : "no", bed->apart);
		return;
	}
	qsort(bed->ratio, bed->found, sizeof(bed->ratio[0]), ascending);
	bench_progress(report, NULL);
	fprintf(out, " %8u %6s %6s %8u %8u", timeout_ms, idle, bed->loaded ? "yes" : "no",
		bed->found, bed->apart);
	bench_observe(report,
		json_pack("{s:i,s:i,s:b}", "samples", (int)bed->found, "set apart", (int)bed->apart,
			"disturbed", bed->apart > bed->found));
	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		double value = bench_quantile(bed->ratio, bed->found, row[i].quantile);

		fprintf(out, " %8.4f", value);
		bench_add(report, row[i].name,
			json_pack("{s:i,s:s,s:b,s:i,s:i,s:i}", "timeout_ms", (int)timeout_ms,
				"idle", idle, "load", bed->loaded, "samples", (int)samples,
				"timer_threads", (int)timer_threads, "burst", (int)burst),
			value, "timeouts", BENCH_NONE, NULL);
	}
	fputc('\n', out);
	fflush(out);
}

static int
measure(struct bench_report *report, uint32_t timeout_ms, bool loaded)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	int rc = -1;

	if (bed == NULL)
		return -1;
	bench_progress(report, "timeout %u ms, load %s", timeout_ms, loaded ? "yes" : "no");
	bed->ratio = calloc(samples, sizeof(*bed->ratio));
	bed->random = 0x9e3779b97f4a7c15u;
	bed->timeout = timeout_ms * (rte_get_tsc_hz() / 1000);
	/* So few that the hosts don't wait for themselves. */
	bed->used = RTE_MIN(RTE_MAX(8 * timeout_ms, 16u), (unsigned int)WINDOW);
	bed->loaded = loaded;
	/* A worker that yields or sleeps is away on purpose. */
	bed->absences.least = idle[1] == 'p' ? bed->timeout / 50 : UINT64_MAX;
	if (bed->ratio == NULL || build(bed, timeout_ms) < 0)
		fprintf(stderr, "weir-bench: no memory for the switch\n");
	else
		rc = play(bed);
	if (rc == 0)
		report_point(report, bed, timeout_ms);
	tear_down(bed);
	free(bed->ratio);
	free(bed);
	return rc;
}

static int
run(struct bench_report *report)
{
	int rc = 0;

	if (idle[1] == 'p' && bench_lcores_fit(1) < 0)
		return 2;
	if (bench_start_eal(1, 256, NULL) < 0)
		return 2;
	fprintf(bench_table(report),
		"# from contribution to partial result, as a multiple of the timeout; %" PRIu64
		" timer threads, burst %" PRIu64 "\n"
		"# apart: found while a thread had lost its CPU, and not counted (with --idle "
		"spin)\n"
		"#%8s %6s %6s %8s %8s %8s %8s %8s %8s\n",
		timer_threads, burst, "timeout", "idle", "load", "samples", "apart", "min", "p50",
		"p99", "max");
	for (unsigned int t = 0; t < timeouts.count && rc == 0; t++) {
		if (load[0] != 'y')
			rc = measure(report, (uint32_t)timeouts.value[t], false);
		if (load[0] != 'n' && rc == 0)
			rc = measure(report, (uint32_t)timeouts.value[t], true);
	}
	bench_stop_eal();
	return rc < 0 ? 1 : 0;
}

const struct bench bench_detect = {
	.name = "detect",
	.help = "when a switch finds stragglers, as a multiple of the timeout",
	.options = options,
	.run = run,
};
