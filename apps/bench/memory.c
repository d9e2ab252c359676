/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench memory: what one job, block, record, source, station or packet more costs. Computed,
 * as the switch does before it starts, and taken: DPDK's heap before and after, for two switches
 * that differ in nothing else. The limit is what a block in flight must hold at least, its payload
 * once.
 *
 * Computed and taken must agree, and all must come back: else the bench fails. Packets are only
 * shown: on pages of 4 KiB a mempool wastes the end of each, which depends on EAL's arguments.
 */
#include <inttypes.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "apps/bench/bench.h"
#include "ppe/ppe.h"
#include "rmw/kernels.h"

#define HEAP_MB      256u /* and what large blocks take beyond */
#define HIDDEN       (UINT64_C(4) << 20)
#define DEVICE       "net_null0"
#define DEVICE_KEEPS 1024u /* net_null never frees its dummy packets */
#define JOB_BOOKS    16384u /* what a job's home shard has for joins is not computed */
#define FRAME        2048u

static struct option_list elements = {4, {64, 256, 1024, 2048}};
static uint64_t sources = 8, window = 64;
static bool spoil, deterministic;

static const struct option_row options[] = {
	{"elements", 0, OPTION_LIST, &elements, 1, 4095, NULL, "of a block, 4 bytes each"},
	{"window", 0, OPTION_UINT, &window, 1, 1024, NULL,
		"blocks in flight of a job, a power of two"},
	{"sources", 0, OPTION_UINT, &sources, 1, 128, NULL, "of a job"},
	{"deterministic", 0, OPTION_FLAG, &deterministic, 0, 0, NULL, "deterministic jobs"},
	{"spoil", 0, OPTION_FLAG, &spoil, 0, 0, NULL,
		"take memory secretly, to see that it is noticed"},
	{0},
};

enum thing { JOB, BLOCK, RECORD, SOURCE, STATION, PACKET, THINGS };
static const char *const thing_name[THINGS] = {
	"job", "block", "record", "source", "station", "packet"};

/* What is varied, one at a time. */
struct shape {
	uint32_t jobs, sources, window, elements, stations, packets;
};

/* Bytes. */
struct use {
	struct ppe_memory needed; /* as the switch computes it before it starts */
	uint64_t taken; /* from DPDK's heap, its own books included */
};

static uint64_t
heap_used(void)
{
	struct rte_malloc_socket_stats stats;
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
			bytes += stats.heap_allocsz_bytes;
	return bytes;
}

static void
fill_job(struct ppe_job *job, uint8_t id, const struct shape *shape)
{
	*job = (struct ppe_job){.id = id,
		.dtype = WEIR_DTYPE_INT32,
		.op = WEIR_OP_SUM,
		.policy = PPE_POLICY_WAIT,
		.window = (uint16_t)shape->window,
		.elements = (uint16_t)shape->elements,
		.nb_sources = (uint16_t)shape->sources,
		.deterministic = deterministic,
		.timeout_ms = 1000};
	snprintf(job->name, sizeof(job->name), "job%u", id);
	for (unsigned int s = 0; s < shape->sources; s++) {
		job->members[s / 64] |= UINT64_C(1) << (s % 64);
		job->address[s] = 0x0a4d0001 + s;
	}
}

/* What a configuration file leaves to the defaults. */
static struct ppe_config
config_of(const struct shape *shape)
{
	return (struct ppe_config){.workers = 1,
		.threads = 20,
		.burst = 32,
		.idle = PPE_IDLE_SLEEP,
		.idle_sleep_us = 50,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.timer_threads = 100,
		.fdb_entries = shape->stations,
		.fdb_timeout_s = 300,
		.exception_port = -1,
		.isa = RMW_ISA_AVX512,
		.first_generation = 1,
		.packets = shape->packets,
		.packet_bytes =
			RTE_MAX(FRAME, (uint32_t)RTE_ALIGN_CEIL(shape->elements * 4 + 128, 64)),
		.headers = 4096,
		.identity = {
			.ip = 0x0a4d00fe, .port_base = WEIR_PORT_BASE, .port_ext = WEIR_PORT_EXT}};
}

/* Make a switch of this shape, look, destroy it. hidden: bytes that nobody has computed. 0, or an
 * exit status after a line. */
static int
measure(const struct shape *shape, uint64_t hidden, struct use *use)
{
	static struct ppe_job job[8];
	static const struct pktbuf_port_config port = {.name = "p0",
		.device = DEVICE,
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_descriptors = 512,
		.tx_descriptors = 512};
	struct ppe_config config = config_of(shape);
	struct ppe_jobs jobs = {.by_id = {NULL}};
	struct ppe_leaks leaks;
	uint64_t before, heap;
	struct ppe *ppe;
	void *secret;
	int rc;

	for (unsigned int j = 0; j < shape->jobs; j++) {
		fill_job(&job[j], (uint8_t)(j + 1), shape);
		jobs.by_id[j + 1] = &job[j];
	}
	ppe_memory_needed(&config, 1, &jobs, &use->needed);
	/* The first device of a process makes what all of them share, and that stays. */
	rc = rte_eal_hotplug_add("vdev", DEVICE, "");
	if (rc == 0)
		rc = rte_eal_hotplug_remove("vdev", DEVICE);
	before = heap_used();
	if (rc == 0)
		rc = rte_eal_hotplug_add("vdev", DEVICE, "");
	if (rc < 0) {
		warnx("no device " DEVICE ": %s", rte_strerror(-rc));
		return 2;
	}
	heap = heap_used();
	secret = hidden == 0 ? NULL : rte_malloc("bench", hidden, 0);
	ppe = ppe_create(&config, &port, 1, &jobs, NULL);
	if (ppe == NULL)
		warnx("the switch can't be made: %s", rte_strerror(rte_errno));
	use->taken = heap_used() - heap;
	if (ppe != NULL)
		ppe_destroy(ppe, &leaks);
	rte_free(secret);
	rte_eal_hotplug_remove("vdev", DEVICE);
	if (ppe == NULL)
		return 2;
	if (heap_used() <= before + DEVICE_KEEPS)
		return 0;
	warnx("%" PRIu64 " bytes did not come back", heap_used() - before);
	return 1;
}

/* `base` with more of one thing, and how many more. */
static double
grow(enum thing thing, const struct shape *base, struct shape *more)
{
	uint32_t *const to[THINGS] = {&more->jobs, &more->window, &more->window, &more->sources,
		&more->stations, &more->packets};
	uint32_t before;

	*more = *base;
	before = *to[thing];
	*to[thing] = thing == JOB ? before + 1 : 2 * before;
	return thing == JOB ? 1 : thing == RECORD ? 2.0 * before : before;
}

static const struct table_column columns[] = {
	{.key = "elements", .title = "elements", .role = BENCH_PARAM},
	{.title = "one more", .left = true, .width = 9, .role = BENCH_NAME},
	{.key = "computed",
		.title = "computed",
		.unit = "B",
		.digits = 1,
		.width = 11,
		.role = BENCH_SEEN},
	{.title = "taken", .unit = "B", .digits = 1, .width = 11, .role = BENCH_METRIC},
	{.key = "payload in flight",
		.title = "limit",
		.unit = "B",
		.width = 9,
		.role = BENCH_LIMIT},
	{.title = "ratio", .digits = 2},
	{.key = "window", .role = BENCH_PARAM},
	{.key = "sources", .role = BENCH_PARAM},
};

/* Must agree, but for what is known not to be computed. 0, or an exit status after a line. */
static int
measure_thing(enum thing thing, const struct shape *base, const struct use *before)
{
	double n, computed, taken, limit = BENCH_NONE, more;
	struct shape shape;
	struct use use;
	int rc;

	n = grow(thing, base, &shape);
	rc = measure(&shape, spoil ? HIDDEN : 0, &use);
	if (rc != 0)
		return rc;
	computed = (double)use.needed.total - (double)before->needed.total;
	taken = (double)use.taken - (double)before->taken;
	if (thing <= BLOCK)
		limit = 4.0 * base->elements * (thing == JOB ? base->window : 1);
	if (thing == RECORD) { /* without the buffers, which a record has only while it is in use */
		double buffers =
			(double)use.needed.data_memory - (double)before->needed.data_memory;

		computed -= buffers;
		taken -= buffers;
	}
	computed /= n;
	taken /= n;
	bench_row((struct table_cell[]){TABLE_NUMBER(base->elements), TABLE_TEXT(thing_name[thing]),
		TABLE_NUMBER(computed), TABLE_NUMBER(taken), TABLE_NUMBER(limit),
		TABLE_NUMBER(taken / limit), TABLE_NUMBER(window), TABLE_NUMBER(sources)});
	more = computed * 0.02 + 128 + (thing == JOB ? JOB_BOOKS : 0);
	if (thing == PACKET || (taken >= computed * 0.98 - 128 && taken <= computed + more))
		return 0;
	warnx("a %s: %.1f bytes were computed, and %.1f taken", thing_name[thing], computed, taken);
	return 1;
}

static void
report_switch(const struct shape *shape, const struct use *use)
{
	static const struct table_column switch_columns[] = {
		{.key = "part", .title = "part", .left = true, .width = 20, .role = BENCH_PARAM},
		{.title = "", .unit = "KiB", .digits = 1, .width = 9},
		{.key = "switch", .unit = "B", .role = BENCH_METRIC},
		{.key = "payload in flight", .role = BENCH_LIMIT},
	};
	const struct ppe_memory *m = &use->needed;
	const struct {
		const char *name;
		uint64_t bytes;
	} row[] = {{"packet pools", m->packet_pools}, {"aggregation buffers", m->data_memory},
		{"block tables", m->block_tables}, {"forwarding table", m->fdb},
		{"rings", m->rings}, {"computed", m->total}, {"taken", use->taken}};
	double limit = 4.0 * shape->elements * shape->window;

	bench_note("a switch with one such job, %u packet buffers of %u B and %u stations; its "
		   "payload in flight: %.0f KiB",
		shape->packets, FRAME, shape->stations, limit / 1024);
	bench_table(switch_columns, RTE_DIM(switch_columns));
	for (unsigned int i = 0; i < RTE_DIM(row); i++)
		bench_row((struct table_cell[]){TABLE_TEXT(row[i].name),
			TABLE_NUMBER((double)row[i].bytes / 1024), TABLE_NUMBER(row[i].bytes),
			TABLE_NUMBER(limit)});
}

static int
run_sizes(void)
{
	struct shape base = {.jobs = 1,
		.sources = (uint32_t)sources,
		.window = (uint32_t)window,
		.stations = 4096,
		.packets = 4096};
	struct use use, first = {.taken = 0};
	int rc = 0;

	bench_note("1 worker, jobs of %" PRIu64 " sources, window %" PRIu64 ", %s pages", sources,
		window, bench_pages());
	bench_note("computed by the switch before it starts; taken from DPDK's heap, by "
		   "difference; limit: payload in flight, held once");
	bench_table(columns, RTE_DIM(columns));
	for (unsigned int e = 0; e < elements.count && rc == 0; e++) {
		base.elements = (uint32_t)elements.value[e];
		bench_progress("blocks of %u elements", base.elements);
		rc = measure(&base, 0, &use);
		if (e == 0)
			first = use;
		/* What does not depend on the block is measured once. */
		for (enum thing t = 0; t < (e == 0 ? THINGS : RECORD) && rc == 0; t++)
			rc = measure_thing(t, &base, &use);
	}
	base.elements = (uint32_t)elements.value[0];
	if (rc == 0)
		report_switch(&base, &first);
	return rc;
}

static int
run(void)
{
	uint64_t most = 0;
	int rc;

	if (!rte_is_power_of_2((uint32_t)window)) {
		warnx("--window %" PRIu64 ": must be a power of two", window);
		return 2;
	}
	for (unsigned int i = 0; i < elements.count; i++)
		most = RTE_MAX(most, elements.value[i]);
	/* A job twice as large as asked for has four buffers for each block in flight. */
	if (bench_start_eal(1, HEAP_MB + (unsigned int)(most * 4 * window * 6 >> 20)) < 0)
		return 2;
	rc = run_sizes();
	bench_stop_eal();
	return rc;
}

const struct bench bench_memory = {
	.name = "memory",
	.help = "bytes per job, block, record and source: computed, and taken",
	.options = options,
	.run = run,
};
