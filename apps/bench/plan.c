/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench plan: what a switch, or a tree of two levels, needs for an AllReduce of all hosts at their full rate. It
 * measures nothing; the costs that it takes are figures of other benches.
 *
 *     contributions/s = hosts x rate / (8 x bytes of a packet on the wire)
 *     ups/s           = contributions/s / hosts of the leaf
 *     t               = cost + far x hop + port            ns of an lcore; far = 1 - 1 / lcores
 *     lcores          = (contributions/s x t + ups/s x t with the cost of the way up) / load
 *     window          = rate x round trip / (8 x bytes)    blocks, the next power of two
 *
 * Memory is what the engines compute before they allocate it. docs/performance.md, docs/tree.md
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "pktbuf/wire/wire.h"
#include "ppe/ppe.h"
#include "ppe/programs/programs.h"
#include "rmw/kernels.h"

#define HEADERS      58 /* Ethernet, IPv4, UDP, header of the extended form */
#define WIRE_EXTRA   24 /* of Ethernet: frame check sequence, preamble, gap */
#define LCORES_MAX   16
#define LEVELS       2
#define MIB          (1024.0 * 1024)
#define BUFFER_LEAST 2048 /* of packets: what the switch takes for small frames */

static uint64_t hosts = 8, leaves, spines, elements = 1024, window, timeout_ms = 1000,
		descriptors = 512, size;
static double rate = 25, link_rate, round_trip = 100, load = 80, cost, up_cost, spine_cost,
	      hop = 150, port_cost = 60;
static bool narrow, partial, authenticate;
static const char *type = "fp32", *op = "sum";

static const struct option_row options[] = {
	{.help = "What is planned:"},
	{"hosts", 0, OPTION_UINT, &hosts, 2, WEIR_SOURCES_MAX, NULL, "hosts, in all"},
	{"leaves", 0, OPTION_UINT, &leaves, 0, WEIR_SOURCES_MAX, NULL,
		"leaf switches, with equally many hosts each; 0: one switch"},
	{"spines", 0, OPTION_UINT, &spines, 0, PPE_PARENTS_MAX, NULL,
		"switches above the leaves; 0: one, if there are leaves"},
	{"rate", 0, OPTION_REAL, &rate, 0.001, 10000, "GBIT",
		"of a host's link, each way, which it fills"},
	{"link", 0, OPTION_REAL, &link_rate, 0, 10000, "GBIT",
		"of a link between leaf and spine; 0: as a host's"},
	{"elements", 0, OPTION_UINT, &elements, 1, WEIR_ELEMENTS_MAX, NULL,
		"jobs[].elements: of 4 bytes at most, half as many of 8"},
	{"type", 0, OPTION_TEXT, &type, 0, 0, "TYPE", "type of the elements: int8, ..., fp8_e5m2"},
	{"op", 0, OPTION_TEXT, &op, 0, 0, "OP", "operation: sum, ..., lxor"},
	{"narrow", 0, OPTION_FLAG, &narrow, 0, 0, NULL, "narrow types travel upward as they are"},
	{"authenticate", 0, OPTION_FLAG, &authenticate, 0, 0, NULL, "each packet has a tag"},
	{"partial", 0, OPTION_FLAG, &partial, 0, 0, NULL,
		"a host is missing everywhere: what goes up and all results have a bitmap"},
	{"window", 0, OPTION_UINT, &window, 0, PPE_WINDOW_MAX, NULL,
		"blocks, a power of two; 0: what the round trip needs"},
	{"round-trip", 0, OPTION_REAL, &round_trip, 0, 1e6, "US",
		"of a hop: host and switch, leaf and spine"},
	{"timeout-ms", 0, OPTION_UINT, &timeout_ms, 1, 60000, NULL, "of a block, where hosts are"},
	{"size", 0, OPTION_UINT, &size, 0, 1e12, "BYTES",
		"of an AllReduce, for the bytes on each link"},
	{.help = "What it costs, measured on the machine that is planned for:"},
	{"cost", 0, OPTION_REAL, &cost, 0, 1e6, "NS",
		"of a contribution, with its share of the results: weir-bench engine, time"},
	{"up-cost", 0, OPTION_REAL, &up_cost, 0, 1e6, "NS",
		"of a contribution that goes up and its answer: weir-bench tree, up; 0: as --cost"},
	{"spine-cost", 0, OPTION_REAL, &spine_cost, 0, 1e6, "NS",
		"of a leaf's contribution at a spine: weir-bench tree, time; 0: as --cost"},
	{"hop", 0, OPTION_REAL, &hop, 0, 1e6, "NS",
		"of a contribution that arrives at another lcore: weir-bench engine --lcores 1,2 "
		"--far 0,50"},
	{"port-cost", 0, OPTION_REAL, &port_cost, 0, 1e6, "NS",
		"of the ports' driver to receive a packet and send one: 1e9 / testpmd's packets "
		"per second"},
	{"load", 0, OPTION_REAL, &load, 1, 100, "PERCENT", "how busy an lcore may be"},
	{"descriptors", 0, OPTION_UINT, &descriptors, 16, 32768, NULL, "of each queue of a port"},
	{0},
};

static const struct table_column level_columns[] = {
	{.key = "level", .title = "level", .width = 6, .left = true},
	{.key = "switches", .title = "switches"},
	{.key = "sources", .title = "sources"},
	{.key = "contributions", .title = "contrib", .unit = "1/s", .width = 10},
	{.key = "ups", .title = "up", .unit = "1/s", .width = 9},
	{.key = "time", .title = "t", .unit = "ns", .digits = 1, .width = 6},
	{.key = "time_up", .title = "t up", .unit = "ns", .digits = 1, .width = 6},
	{.key = "busy", .title = "busy", .unit = "lcores", .digits = 2},
	{.key = "lcores", .title = "lcores"},
	{.key = "window", .title = "window", .unit = "blocks"},
	{.key = "buffers", .title = "buffers", .unit = "MiB", .digits = 2},
	{.key = "packets", .title = "packets"},
	{.key = "headers", .title = "headers"},
	{.key = "memory", .title = "memory", .unit = "MiB", .digits = 1},
	{.key = "timeout_ms", .title = "timeout", .unit = "ms"},
	{.title = "", .left = true},
};

static const struct table_column link_columns[] = {
	{.key = "link", .title = "link", .width = 20, .left = true},
	{.key = "links", .title = "links"},
	{.key = "packets", .title = "packets", .unit = "1/s", .width = 9},
	{.key = "parents_bytes", .title = "up", .unit = "B/packet"},
	{.key = "down_bytes", .title = "down", .unit = "B/packet"},
	{.key = "up", .title = "up", .unit = "Gbit/s", .digits = 2},
	{.key = "down", .title = "down", .unit = "Gbit/s", .digits = 2},
	{.key = "rate", .title = "rate", .unit = "Gbit/s", .digits = 1},
	{.key = "load_up", .title = "load up", .unit = "%", .digits = 1},
	{.key = "load_down", .title = "down", .unit = "%", .digits = 1},
	{.key = "size_up", .title = "op. up", .unit = "MB", .digits = 1},
	{.key = "size_down", .title = "op. down", .unit = "MB", .digits = 1},
	{.title = "", .left = true},
};

/* What holds on all levels. */
struct plan {
	unsigned int count, value_bytes,
		sum_bytes; /* of a block's elements, and of one of them below and above a leaf */
	unsigned int window;
	double up, down, leaf_up,
		leaf_down; /* bytes of a packet on the wire, on a host's link and above a leaf */
	double blocks; /* per second */
};

/* A level: `switches` of them. */
struct level {
	const char *name;
	unsigned int switches, sources, ports;
	bool goes_up;
	double contributions, ups; /* per second */
	double cost; /* of a contribution */
	double time, time_up, busy; /* ns, ns, lcores */
	unsigned int lcores; /* 0: more than a switch has */
	uint64_t timeout_ms;
};

static double
wire_bytes(const struct plan *plan, unsigned int element_bytes, bool bitmap)
{
	return plan->count * element_bytes + HEADERS + WIRE_EXTRA +
		(bitmap ? WEIR_BITMAP_BYTES : 0) + (authenticate ? WEIR_TAG_BYTES : 0);
}

static void
make(struct plan *plan)
{
	unsigned int dtype = (unsigned int)weir_dtype_parse(type);
	double hops = leaves > 0 ? LEVELS : 1, needed;
	struct rmw_reduction wide;

	plan->value_bytes = weir_dtype_bytes(dtype);
	plan->sum_bytes = !narrow &&
			rmw_reduction_wide(
				(enum weir_dtype)dtype, (enum weir_op)weir_op_parse(op), &wide)
		? wide.acc_bytes
		: plan->value_bytes;
	plan->count = RTE_MAX((unsigned int)elements * 4 / RTE_MAX(plan->value_bytes, 4u), 1u);
	plan->up = wire_bytes(plan, plan->value_bytes, false);
	plan->down = wire_bytes(plan, plan->value_bytes, partial);
	plan->leaf_up = wire_bytes(plan, plan->sum_bytes, partial);
	plan->leaf_down = plan->down;
	plan->blocks = rate * 1e9 / (8 * plan->up);
	needed = plan->blocks * hops * round_trip * 1e-6;
	plan->window = (unsigned int)window;
	for (plan->window = window > 0 ? plan->window : 1; window == 0 && plan->window < needed;)
		plan->window *= 2;
	if (plan->window > PPE_WINDOW_MAX)
		plan->window = PPE_WINDOW_MAX;
	bench_note("%u elements of %u bytes in a block, of %u bytes above a leaf; %.1f blocks in a "
		   "round trip",
		plan->count, plan->value_bytes, plan->sum_bytes, needed);
	if (plan->window < needed)
		bench_note("a window of %u blocks limits a host to %.2f Gbit/s", plan->window,
			rate * plan->window / needed);
}

/* lcores that do the work, at most `n` of them: how many are busy, if n share it. */
static double
busy(struct level *level, unsigned int n)
{
	double more = (1 - 1.0 / n) * hop + port_cost;

	level->time = level->cost + more;
	level->time_up = level->goes_up ? (up_cost > 0 ? up_cost : cost) + more : BENCH_NONE;
	level->busy = (level->contributions * level->time +
			      (level->goes_up ? level->ups * level->time_up : 0)) *
		1e-9 / (load / 100);
	return level->busy;
}

static void
count_lcores(struct level *level)
{
	for (level->lcores = 1; level->lcores <= LCORES_MAX; level->lcores++)
		if (busy(level, level->lcores) <= level->lcores)
			return;
	level->lcores = 0;
}

/* Memory of the job and of the whole switch, as the switch computes it. */
static void
count_memory(const struct plan *plan, const struct level *level, struct ppe_config *config,
	struct ppe_memory *memory)
{
	static struct ppe_job job;
	static struct ppe_jobs jobs;
	unsigned int workers = RTE_MAX(level->lcores, 1u);
	uint32_t flight = level->sources * plan->window;
	uint32_t sends = level->ports * workers * (uint32_t)descriptors;

	job = (struct ppe_job){.dtype = (uint8_t)weir_dtype_parse(type),
		.window = (uint16_t)plan->window,
		.elements = (uint16_t)elements,
		.nb_sources = (uint16_t)level->sources,
		.authenticated = authenticate,
		.children = leaves > 0 && !level->goes_up,
		.nb_parents = level->goes_up ? (uint8_t)spines : 0};
	for (unsigned int s = 0; s < level->sources; s++)
		job.members[s / 64] |= UINT64_C(1) << (s % 64);
	jobs.by_id[0] = &job;
	*config = (struct ppe_config){.programs = ppe_programs(),
		.workers = (uint16_t)workers,
		.burst = 32,
		.crossbar_depth = 1024,
		.queue_depth = 1024,
		.queue_wait_ms = 100,
		.fdb_entries = 4096,
		.blocks = 16384,
		.packets = level->ports * (uint32_t)descriptors + sends + flight + 2 * 32 * workers,
		.headers = sends + flight,
		.packet_bytes =
			RTE_MAX(BUFFER_LEAST, (uint32_t)(RTE_MAX(plan->up, plan->leaf_up)))};
	ppe_memory_needed(config, level->ports, &jobs, memory);
}

static void
level_row(const struct plan *plan, struct level *level)
{
	struct ppe_memory memory;
	struct ppe_config config;

	count_lcores(level);
	count_memory(plan, level, &config, &memory);
	bench_row((struct table_cell[]){TABLE_TEXT(level->name), TABLE_NUMBER(level->switches),
		TABLE_NUMBER(level->sources), TABLE_NUMBER(round(level->contributions)),
		TABLE_NUMBER(level->goes_up ? round(level->ups) : BENCH_NONE),
		TABLE_NUMBER(level->time), TABLE_NUMBER(level->time_up), TABLE_NUMBER(level->busy),
		level->lcores > 0 ? TABLE_NUMBER(level->lcores) : TABLE_NONE,
		TABLE_NUMBER(plan->window), TABLE_NUMBER((double)memory.data_memory / MIB),
		TABLE_NUMBER(config.packets), TABLE_NUMBER(config.headers),
		TABLE_NUMBER((double)memory.total / MIB), TABLE_NUMBER(level->timeout_ms),
		TABLE_TEXT(level->lcores > 0 ? "" : "! more lcores than a switch may have")});
}

/* blocks: per second, each a packet up and one down. size_up, size_down: MB of an operation. */
static void
link_row(const char *name, unsigned int links, double blocks, double up, double down, double most,
	double size_up, double size_down)
{
	double gbit_up = blocks * up * 8e-9, gbit_down = blocks * down * 8e-9;

	bench_row((struct table_cell[]){TABLE_TEXT(name), TABLE_NUMBER(links),
		TABLE_NUMBER(round(blocks)), TABLE_NUMBER(up), TABLE_NUMBER(down),
		TABLE_NUMBER(gbit_up), TABLE_NUMBER(gbit_down), TABLE_NUMBER(most),
		TABLE_NUMBER(100 * gbit_up / most), TABLE_NUMBER(100 * gbit_down / most),
		TABLE_NUMBER(size > 0 ? size_up * 1e-6 : BENCH_NONE),
		TABLE_NUMBER(size > 0 ? size_down * 1e-6 : BENCH_NONE),
		TABLE_TEXT(RTE_MAX(gbit_up, gbit_down) > most * 1.0001 ? "!" : "")});
}

/* The links, and what would cross those above the leaves without a tree. */
static void
link_rows(const struct plan *plan)
{
	double whole = (double)size, wide = whole * plan->sum_bytes / plan->value_bytes;
	double above = (link_rate > 0 ? link_rate : rate), n = (double)hosts;
	double ring = 2 * (n - 1) / n, per_leaf = n / (double)leaves;

	link_row("host, switch", (unsigned int)hosts, plan->blocks, plan->up, plan->down, rate,
		whole, whole);
	if (leaves == 0)
		return;
	link_row("leaf, a spine", (unsigned int)(leaves * spines), plan->blocks / (double)spines,
		plan->leaf_up, plan->leaf_down, above, wide / (double)spines,
		whole / (double)spines);
	above *= (double)spines;
	link_row("leaf, all spines", (unsigned int)leaves, plan->blocks, plan->leaf_up,
		plan->leaf_down, above, wide, whole);
	link_row("one switch above", (unsigned int)leaves, per_leaf * plan->blocks, plan->up,
		plan->down, above, per_leaf * whole, per_leaf * whole);
	link_row("ring by racks", (unsigned int)leaves, ring * plan->blocks, plan->up, plan->up,
		above, ring * whole, ring * whole);
}

/* Says what is wrong with the options. */
static bool
possible(void)
{
	if (cost <= 0)
		warnx("--cost: what does a contribution cost? weir-bench engine --elements %" PRIu64
		      " measures it",
			elements);
	else if (window > 0 && !rte_is_power_of_2(window))
		warnx("--window %" PRIu64 " is no power of two", window);
	else if (weir_dtype_parse(type) < 0 || weir_op_parse(op) < 0 ||
		!weir_dtype_has_op(
			(unsigned int)weir_dtype_parse(type), (unsigned int)weir_op_parse(op)))
		warnx("--type %s --op %s: there is no such type or operation, or not both", type,
			op);
	else if (leaves == 0 && spines > 0)
		warnx("--spines: how many --leaves?");
	else if (leaves == 1 || (leaves > 0 && hosts % leaves != 0))
		warnx("--leaves %" PRIu64 ": at least 2, and equally many hosts of %" PRIu64
		      " on each",
			leaves, hosts);
	else if (narrow && strcmp(op, "avg") == 0)
		warnx("--narrow: a narrow job has no avg");
	else
		return true;
	return false;
}

static int
run(void)
{
	struct plan plan;

	if (!possible())
		return 2;
	if (leaves > 0)
		spines = RTE_MAX(spines, 1u);
	make(&plan);
	bench_table(level_columns, RTE_DIM(level_columns));
	if (leaves == 0) {
		level_row(&plan,
			&(struct level){.name = "switch",
				.switches = 1,
				.sources = (unsigned int)hosts,
				.ports = (unsigned int)hosts,
				.contributions = (double)hosts * plan.blocks,
				.cost = cost,
				.timeout_ms = timeout_ms});
	} else {
		unsigned int each = (unsigned int)(hosts / leaves);

		level_row(&plan,
			&(struct level){.name = "leaf",
				.switches = (unsigned int)leaves,
				.sources = each,
				.ports = each + (unsigned int)spines,
				.goes_up = true,
				.contributions = each * plan.blocks,
				.ups = plan.blocks,
				.cost = cost,
				.timeout_ms = timeout_ms});
		level_row(&plan,
			&(struct level){.name = "spine",
				.switches = (unsigned int)spines,
				.sources = (unsigned int)leaves,
				.ports = (unsigned int)leaves,
				.contributions = (double)leaves * plan.blocks / (double)spines,
				.cost = spine_cost > 0 ? spine_cost : cost,
				.timeout_ms = 2 * timeout_ms});
	}
	bench_note("bytes of headers, preamble and gap included; an operation's are those of the "
		   "elements alone");
	bench_table(link_columns, RTE_DIM(link_columns));
	link_rows(&plan);
	return 0;
}

const struct bench bench_plan = {
	.name = "plan",
	.help = "how many lcores, how much memory and how loaded links a switch or a tree takes; "
		"measures nothing",
	.options = options,
	.run = run,
};
