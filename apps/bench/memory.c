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

#include <rte_common.h>

#include "apps/bench/bench.h"
#include "apps/bench/child.h"
#include "apps/bench/memory_demo.h"
#include "apps/bench/memory_switch.h"

#define HEAP_MB      256u /* and what large blocks take beyond */
#define HIDDEN       (UINT64_C(4) << 20)
#define DEVICE_KEEPS 1024u /* net_null never frees its dummy packets */
#define JOB_BOOKS    16384u /* what a job's home shard has for joins is not computed */

static struct bench_list elements = {.count = 4, .value = {64, 256, 1024, 2048}};
static uint64_t sources = 8, window = 64;
static const char *demo;
static bool spoil, deterministic;

static const struct bench_option options[] = {
	{"elements", BENCH_LIST, &elements, 1, 4095, NULL, "of a block, 4 bytes each"},
	{"window", BENCH_UINT, &window, 1, 1024, NULL, "blocks in flight of a job, a power of two"},
	{"sources", BENCH_UINT, &sources, 1, 128, NULL, "of a job"},
	{"deterministic", BENCH_FLAG, &deterministic, 0, 0, NULL, "the jobs are"},
	{"demo", BENCH_TEXT, &demo, 0, 0, NULL,
		"also run this apps/demo/demo.py, as root, and read what its processes hold"},
	{"spoil", BENCH_FLAG, &spoil, 0, 0, NULL,
		"take memory secretly, to see that it is noticed"},
	{0},
};

enum thing { JOB, BLOCK, RECORD, SOURCE, STATION, PACKET, THINGS };

static const char *const thing_name[THINGS] = {
	"job", "block in flight", "idle record", "source", "station", "packet"};
static const char *const metric[THINGS] = {"job", "block", "record", "source", "station", "packet"};

/* What one of a thing more costs. */
struct cost {
	double computed, taken;
	double limit; /* bytes of payload, or BENCH_NONE */
};

/* One switch. 0, or an exit status. */
static int
measure(const struct memory_shape *shape, bool secretly, struct memory_use *use)
{
	if (memory_switch_measure(shape, secretly ? HIDDEN : 0, use) < 0)
		return 2;
	if (use->kept <= DEVICE_KEEPS)
		return 0;
	fprintf(stderr, "weir-bench: %" PRIu64 " bytes did not come back\n", use->kept);
	return 1;
}

/* `base` with more of one thing, and how many more. */
static double
grow(enum thing thing, const struct memory_shape *base, struct memory_shape *more)
{
	*more = *base;
	switch (thing) {
	case JOB: more->jobs++; return 1;
	case BLOCK: more->window *= 2; return base->window;
	case RECORD: more->window *= 2; return 2.0 * base->window;
	case SOURCE: more->sources *= 2; return base->sources;
	case STATION: more->stations *= 2; return base->stations;
	case PACKET: more->packets *= 2; return base->packets;
	case THINGS:
	default: return 1;
	}
}

/* Do both agree, but for what is known not to be computed? 0, or 1 after a line. */
static int
compare(enum thing thing, const struct cost *cost)
{
	double more = cost->computed * 0.02 + 128 + (thing == JOB ? JOB_BOOKS : 0);

	if (cost->taken >= cost->computed * 0.98 - 128 && cost->taken <= cost->computed + more)
		return 0;
	fprintf(stderr, "weir-bench: a %s: %.1f bytes were computed, and %.1f taken\n",
		thing_name[thing], cost->computed, cost->taken);
	return 1;
}

static int
measure_thing(enum thing thing, const struct memory_shape *base, const struct memory_use *before,
	struct cost *cost)
{
	double payload = 4.0 * base->elements, n;
	struct memory_shape shape;
	struct memory_use use;
	int rc;

	n = grow(thing, base, &shape);
	rc = measure(&shape, spoil, &use);
	if (rc != 0)
		return rc;
	cost->computed = (double)use.needed.total - (double)before->needed.total;
	cost->taken = (double)use.taken - (double)before->taken;
	cost->limit = thing == JOB ? payload * base->window : thing == BLOCK ? payload : BENCH_NONE;
	if (thing == RECORD) { /* without the buffers, which a record has only while it is in use */
		cost->computed -=
			(double)use.needed.data_memory - (double)before->needed.data_memory;
		cost->taken -= (double)use.data - (double)before->data;
	}
	cost->computed /= n;
	cost->taken /= n;
	return thing == PACKET ? 0 : compare(thing, cost);
}

static void
report_thing(struct bench_report *report, enum thing thing, uint64_t elements_of_block,
	const struct cost *cost)
{
	FILE *out = bench_table(report);
	json_t *params = json_pack("{s:I, s:I, s:I}", "elements", (json_int_t)elements_of_block,
		"window", (json_int_t)window, "sources", (json_int_t)sources);

	fprintf(out, "%9" PRIu64 "  %-16s %11.1f %11.1f", elements_of_block, thing_name[thing],
		cost->computed, cost->taken);
	if (cost->limit == BENCH_NONE)
		fprintf(out, " %11s %7s\n", "-", "-");
	else
		fprintf(out, " %11.1f %7.2f\n", cost->limit, cost->taken / cost->limit);
	bench_observe(report, json_pack("{s:f}", "computed", cost->computed));
	bench_add(report, metric[thing], params, cost->taken, "B", cost->limit,
		cost->limit == BENCH_NONE ? NULL : "payload in flight");
}

static void
report_switch(
	struct bench_report *report, const struct memory_shape *shape, const struct memory_use *use)
{
	const struct ppe_memory *m = &use->needed;
	const struct {
		const char *name;
		uint64_t bytes;
	} row[] = {{"packet pools", m->packet_pools}, {"aggregation buffers", m->data_memory},
		{"block tables", m->block_tables}, {"forwarding table", m->fdb},
		{"rings", m->rings}, {"computed", m->total}, {"taken", use->taken},
		{"resident", use->resident}};
	/* Huge pages are EAL\'s from the start. */
	const unsigned int rows = RTE_DIM(row) - (bench_on_huge_pages() ? 1 : 0);
	double limit = 4.0 * shape->elements * shape->window;
	FILE *out = bench_table(report);

	bench_observe(report, NULL);
	fprintf(out,
		"#\n# A switch with one such job, %u packet buffers of %u B and %u stations; "
		"resident: what the\n# process grew by, zeroed memory and the device included. Its "
		"payload in flight: %.0f KiB\n#\n# %-24s %9s\n",
		shape->packets, memory_switch_frame(shape), shape->stations, limit / 1024, "part",
		"KiB");
	for (unsigned int i = 0; i < rows; i++) {
		fprintf(out, "  %-24s %9.1f\n", row[i].name, (double)row[i].bytes / 1024);
		bench_add(report, "switch", json_pack("{s:s}", "part", row[i].name),
			(double)row[i].bytes, "B", limit, "payload in flight");
	}
}

static int
run_sizes(struct bench_report *report)
{
	struct memory_shape base = {.jobs = 1,
		.sources = (uint32_t)sources,
		.window = (uint32_t)window,
		.deterministic = deterministic,
		.stations = 4096,
		.packets = 4096};
	struct memory_use use, first = {.taken = 0};
	struct cost cost;
	int rc = 0;

	fprintf(bench_table(report),
		"# weir-bench memory: 1 worker, jobs of %" PRIu64 " sources, window %" PRIu64 ", %s"
		"\n# computed  by the switch before it starts; taken: from DPDK's heap, by "
		"difference\n# limit     payload that is in flight, held once\n#\n"
		"# elements  one more            computed       taken       limit   ratio\n"
		"#                                      B           B           B  taken/limit\n",
		sources, window, bench_on_huge_pages() ? "huge pages" : "pages of 4 KiB");
	for (unsigned int e = 0; e < elements.count && rc == 0; e++) {
		base.elements = (uint32_t)elements.value[e];
		bench_progress(report, "blocks of %u elements", base.elements);
		rc = measure(&base, false, &use);
		if (e == 0)
			first = use; /* later ones find their pages resident */
		for (enum thing t = 0; t < THINGS && rc == 0; t++) {
			/* What does not depend on the block is said once. */
			if (e > 0 && t > BLOCK)
				continue;
			rc = measure_thing(t, &base, &use, &cost);
			bench_progress(report, NULL);
			if (rc == 0)
				report_thing(report, t, elements.value[e], &cost);
		}
	}
	base.elements = (uint32_t)elements.value[0];
	if (rc == 0)
		report_switch(report, &base, &first);
	return rc;
}

/* A job twice as large as asked for has four buffers for each block in flight. */
static unsigned int
heap_mb(void)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < elements.count; i++)
		most = RTE_MAX(most, elements.value[i]);
	return HEAP_MB + (unsigned int)(most * 4 * window * 6 >> 20);
}

static int
run(struct bench_report *report)
{
	int rc;

	if ((window & (window - 1)) != 0) {
		fprintf(stderr, "weir-bench: --window %" PRIu64 ": must be a power of two\n",
			window);
		return 2;
	}
	if (demo != NULL)
		child_prepare();
	if (bench_start_eal(1, heap_mb(), NULL) < 0)
		return 2;
	rc = run_sizes(report);
	bench_stop_eal();
	if (rc == 0 && demo != NULL)
		rc = memory_demo(report, demo);
	return rc;
}

const struct bench bench_memory = {
	.name = "memory",
	.help = "bytes per job, block in flight, record, source; computed and taken",
	.options = options,
	.run = run,
};
