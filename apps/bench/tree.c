/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench tree: what a level of a tree adds, beside one switch in the same run.
 *
 * Three switches take turns on one lcore, each through the real program as in weir-bench engine: one switch, a leaf, and
 * a spine. A turn measures first what a contribution costs in a closed loop, then the latency of blocks that
 * come one at a time. The generator is the leaf's parent and answers in the next poll.
 *
 *     up     lcore time of a contribution that goes up and the answer that comes down: what a block takes
 *            longer at a leaf than at one switch
 *     added  what a level adds to the latency between the last contribution and the results, without the
 *            links: leaf, up and down, and spine, less one switch
 *
 * Figures are medians over the turns; ratios and differences those of the same turn.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/count.h"
#include "apps/bench/generator.h"
#include "pktbuf/wire/wire.h"

#define RANKS 4 /* of a source of the spine */
#define ROLES 3
#define TRIES 5 /* of a turn, until every worker got the CPU */

static uint64_t sources = 4, leaves = 2, window = 64, frames = 4096;
static struct option_list elements = {3, {64, 256, 1024}};
static const char *type = "fp32";
static bool count;

static const struct option_row options[] = {
	{"elements", 0, OPTION_LIST, &elements, 1, 2048, NULL, "elements of a contribution"},
	{"type", 0, OPTION_CHOICE, &type, 0, 0, "int32|fp32", "type of the elements"},
	{"sources", 0, OPTION_UINT, &sources, 2, 128, NULL, "hosts of one switch, and of a leaf"},
	{"leaves", 0, OPTION_UINT, &leaves, 2, WEIR_SOURCES_MAX / RANKS, NULL,
		"sources of the spine"},
	{"window", 0, OPTION_UINT, &window, 2, 4096, NULL, "blocks in flight, a power of two"},
	{"frames", 0, OPTION_UINT, &frames, 1, 1000000, NULL, "mbufs in rotation"},
	{"count", 0, OPTION_FLAG, &count, 0, 0, NULL,
		"also count instructions with valgrind, some seconds for each switch"},
	{0},
};

static const struct table_column columns[] = {
	{.key = "sources", .title = "sources"},
	{.key = "leaves", .title = "leaves"},
	{.key = "window"},
	{.key = "elements", .title = "elements"},
	{.key = "type", .title = "type"},
	{.key = "huge_pages"},
	{.key = "time_switch", .title = "switch", .unit = "ns", .digits = 1, .width = 6},
	{.key = "time_leaf", .title = "leaf", .unit = "ns", .digits = 1, .width = 6},
	{.key = "up", .title = "up", .unit = "ns/block", .digits = 1},
	{.key = "up_share", .title = "up", .unit = "contrib", .digits = 2},
	{.key = "time_spine", .title = "spine", .unit = "ns", .digits = 1, .width = 6},
	{.key = "latency_switch", .title = "switch", .unit = "us", .digits = 2},
	{.key = "latency_leaf_up", .title = "leaf up", .unit = "us", .digits = 2},
	{.key = "latency_leaf", .title = "and down", .unit = "us", .digits = 2},
	{.key = "latency_spine", .title = "spine", .unit = "us", .digits = 2},
	{.key = "added", .title = "added", .unit = "us", .digits = 2},
	{.key = "instructions_switch", .title = "instr.", .unit = "switch", .width = 6},
	{.key = "instructions_leaf", .title = "instr.", .unit = "leaf", .width = 6},
	{.key = "instructions_spine", .title = "instr.", .unit = "spine", .width = 6},
	{.key = "instructions_up", .title = "instr.", .unit = "up", .width = 6},
	{.key = "disturbed"},
	{.title = "", .left = true},
};

static const char *const role_name[ROLES] = {
	[ROLE_SWITCH] = "switch", [ROLE_LEAF] = "leaf", [ROLE_SPINE] = "spine"};

/* What turns have measured, one place of each array for each. */
struct turns {
	unsigned int n;
	double time[ROLES][BENCH_REPEAT_MAX], latency[ROLES][BENCH_REPEAT_MAX]; /* ns */
	double latency_up[BENCH_REPEAT_MAX], cpu[BENCH_REPEAT_MAX];
	double up[BENCH_REPEAT_MAX], up_share[BENCH_REPEAT_MAX], added[BENCH_REPEAT_MAX];
};

static struct generator_work
work_of(enum generator_role role, unsigned int n, bool lone)
{
	struct generator_work w = {.workers = 1,
		.threads = 20,
		.burst = 32,
		.batch = 256,
		.sources = (unsigned int)(role == ROLE_SPINE ? leaves : sources),
		.window = (unsigned int)window,
		.elements = n,
		.jobs = 1,
		.type = (enum weir_dtype)weir_dtype_parse(type),
		.order = lone ? ORDER_BLOCK : ORDER_RUNS,
		.run_length = 32,
		.seed = 1,
		.role = role,
		.ranks = RANKS,
		.lone = lone,
		.repeat = 1,
		.phase_ms = (unsigned int)bench_common.phase_ms};

	generator_fit(&w, (unsigned int)frames);
	return w;
}

/* 0, or -1 after a line. */
static int
run_role(enum generator_role role, unsigned int n, struct turns *t)
{
	struct generator_work w = work_of(role, n, false);
	struct generator_result result = {0};

	for (unsigned int tries = 0; result.samples == 0; tries++) {
		if (tries == TRIES) {
			warnx("other processes left the workers no time to measure");
			return -1;
		}
		if (generator_run(&w, &result) < 0)
			return -1;
	}
	t->time[role][t->n] = 1e9 / result.sample[0].rate;
	t->cpu[t->n] = RTE_MIN(t->cpu[t->n], result.sample[0].cpu);
	w = work_of(role, n, true);
	if (generator_run(&w, &result) < 0)
		return -1;
	t->latency[role][t->n] = result.latency_ns;
	if (role == ROLE_LEAF)
		t->latency_up[t->n] = result.up_ns;
	return 0;
}

static int
run_turn(unsigned int n, struct turns *t)
{
	t->cpu[t->n] = 1;
	for (unsigned int role = 0; role < ROLES; role++)
		if (run_role((enum generator_role)role, n, t) < 0)
			return -1;
	t->up[t->n] = (t->time[ROLE_LEAF][t->n] - t->time[ROLE_SWITCH][t->n]) * (double)sources;
	t->up_share[t->n] = t->up[t->n] / t->time[ROLE_SWITCH][t->n];
	t->added[t->n] = t->latency[ROLE_LEAF][t->n] + t->latency[ROLE_SPINE][t->n] -
		t->latency[ROLE_SWITCH][t->n];
	t->n++;
	return 0;
}

/* Per contribution. */
static double
instructions(enum generator_role role, unsigned int n)
{
	struct generator_work w = work_of(role, n, false);
	char text[5][24];
	const char *argv[61] = {"--role", role_name[role], "--type", type, "--order", "block",
		"--elements", text[0], "--sources", text[1], "--window", text[2], "--frames",
		text[3], "--packets", text[4]};
	const uint64_t values[5] = {
		n, w.sources, window, frames, RTE_MIN(w.copies * w.depth * w.sources, 32768u)};

	for (unsigned int i = 0; i < 5; i++)
		snprintf(text[i], sizeof(text[i]), "%lu", (unsigned long)values[i]);
	return count ? count_with_callgrind(argv) : BENCH_NONE;
}

static int
measure(unsigned int n)
{
	struct turns t = {0};
	double count_of[ROLES];
	bool disturbed;

	while (t.n < bench_common.repeat) {
		bench_progress("%u elements, turn %u", n, t.n + 1);
		if (run_turn(n, &t) < 0)
			return 1;
	}
	for (unsigned int role = 0; role < ROLES; role++)
		count_of[role] = instructions((enum generator_role)role, n);
	disturbed = bench_median(t.cpu, t.n) < GENERATOR_CPU;
	bench_row((struct table_cell[]){TABLE_NUMBER(sources), TABLE_NUMBER(leaves),
		TABLE_NUMBER(window), TABLE_NUMBER(n), TABLE_TEXT(type),
		TABLE_BOOL(bench_on_huge_pages()),
		TABLE_NUMBER(bench_median(t.time[ROLE_SWITCH], t.n)),
		TABLE_NUMBER(bench_median(t.time[ROLE_LEAF], t.n)),
		TABLE_NUMBER(bench_median(t.up, t.n)), TABLE_NUMBER(bench_median(t.up_share, t.n)),
		TABLE_NUMBER(bench_median(t.time[ROLE_SPINE], t.n)),
		TABLE_NUMBER(1e-3 * bench_median(t.latency[ROLE_SWITCH], t.n)),
		TABLE_NUMBER(1e-3 * bench_median(t.latency_up, t.n)),
		TABLE_NUMBER(1e-3 * bench_median(t.latency[ROLE_LEAF], t.n)),
		TABLE_NUMBER(1e-3 * bench_median(t.latency[ROLE_SPINE], t.n)),
		TABLE_NUMBER(1e-3 * bench_median(t.added, t.n)),
		TABLE_NUMBER(count_of[ROLE_SWITCH]), TABLE_NUMBER(count_of[ROLE_LEAF]),
		TABLE_NUMBER(count_of[ROLE_SPINE]),
		TABLE_NUMBER((count_of[ROLE_LEAF] - count_of[ROLE_SWITCH]) * (double)sources),
		TABLE_BOOL(disturbed), TABLE_TEXT(disturbed ? "*" : "")});
	return 0;
}

static int
run(void)
{
	unsigned int memory = 0;
	int rc = 0;

	if (!rte_is_power_of_2(window)) {
		warnx("--window %lu must be a power of two", (unsigned long)window);
		return 2;
	}
	if (count && !BENCH_CAN_COLLECT) {
		warnx("built without valgrind's header");
		return 2;
	}
	for (unsigned int i = 0; i < elements.count; i++)
		for (unsigned int role = 0; role < ROLES; role++) {
			const struct generator_work w = work_of(
				(enum generator_role)role, (unsigned int)elements.value[i], false);

			memory = RTE_MAX(memory, generator_memory_mb(&w));
		}
	if (bench_start_eal(1, memory) < 0)
		return 2;
	bench_note("one switch, a leaf whose parent answers at once, and a spine with leaves of %d "
		   "ranks, in turn; %s pages",
		RANKS, bench_pages());
	bench_note("ns per contribution, CPU time; up: of a block, its contribution upward and the "
		   "answer; us: from the last contribution to the results, a block at a time");
	bench_table(columns, RTE_DIM(columns));
	for (unsigned int i = 0; rc == 0 && i < elements.count; i++)
		rc = measure((unsigned int)elements.value[i]);
	bench_stop_eal();
	return rc;
}

const struct bench bench_tree = {
	.name = "tree",
	.help = "what a level of a tree adds: lcore time of a leaf and of a spine, latency, beside "
		"one switch",
	.options = options,
	.run = run,
};
