/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench engine: contributions that lie in mbufs already, through the real program, beside the
 * same vector operations alone.
 *
 * weir-bench scaling: one lcore, then more. Each worker has a port, and a job whose sources all sit
 * there; a contribution belongs to another worker's shard with a given probability, and then hops.
 * The limit of n lcores is n times what one does without hops, measured before each point.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/generator.h"
#include "pktbuf/wire/wire.h"

#define FRAME_MEMORY (UINT64_C(1024) << 20) /* ready frames; fewer blocks are under way beyond */

static struct option_list engine_lcores = {1, {1}}, scaling_lcores = {2, {1, 2}};
static struct option_list threads = {1, {20}}, sources = {1, {8}}, window = {1, {64}},
			  elements = {3, {64, 256, 1024}};
static uint64_t burst = 32, frames = 4096, packets;
static double engine_far, scaling_far = -1;
static bool any_disturbed, authenticate, deterministic;
static const char *engine_type = "all", *scaling_type = "int32", *order = "block",
		  *checksum = "none", *results = "unicast", *isa = "auto", *traffic = "aggregate";

static const struct option_row engine_options[] = {
	{"lcores", 0, OPTION_LIST, &engine_lcores, 1, 16, NULL, "worker lcores; each needs a CPU"},
	{"far", 0, OPTION_REAL, &engine_far, 0, 0.999, NULL,
		"with more than one: probability that a contribution hops to another"},
	{"type", 0, OPTION_CHOICE, &engine_type, 0, 0, "int32|fp32|all", "type of the elements"},
	{"traffic", 0, OPTION_CHOICE, &traffic, 0, 0, "aggregate|forward",
		"contributions, or ordinary frames of their size to a known station"},
	{"authenticate", 0, OPTION_FLAG, &authenticate, 0, 0, NULL,
		"each point a second time with an authenticated job, without the hosts' tagging"},
	{"packets", 0, OPTION_UINT, &packets, 0, 100000000, NULL,
		"for callgrind: collect only so many packets, and print no figures"},
	{0},
};

static const struct option_row scaling_options[] = {
	{"lcores", 0, OPTION_LIST, &scaling_lcores, 1, 16, NULL, "worker lcores; each needs a CPU"},
	{"far", 0, OPTION_REAL, &scaling_far, 0, 0.999, NULL,
		"probability that a contribution hops; -1: 0, 0.5 and 1 - 1/lcores"},
	{"type", 0, OPTION_CHOICE, &scaling_type, 0, 0, "int32|fp32", "type of the elements"},
	{0},
};

static const struct option_row work_options[] = {
	{.help = "Work:"},
	{"threads", 0, OPTION_LIST, &threads, 1, 64, NULL, "thread contexts per lcore"},
	{"sources", 0, OPTION_LIST, &sources, 2, 256, NULL, "contributions to a block"},
	{"window", 0, OPTION_LIST, &window, 1, 4096, NULL, "blocks in flight, powers of two"},
	{"elements", 0, OPTION_LIST, &elements, 1, 2048, NULL, "elements of a contribution"},
	{"order", 0, OPTION_CHOICE, &order, 0, 0, "block|source|random", "order of arrival"},
	{"checksum", 0, OPTION_CHOICE, &checksum, 0, 0, "none|software",
		"UDP checksums: neither verified nor computed, or by software both"},
	{"results", 0, OPTION_CHOICE, &results, 0, 0, "unicast|multicast",
		"a result for each source, or one for all"},
	{"deterministic", 0, OPTION_FLAG, &deterministic, 0, 0, NULL,
		"add floating-point contributions in the order of their sources"},
	{"burst", 0, OPTION_UINT, &burst, 1, 256, NULL, "packets per poll"},
	{"frames", 0, OPTION_UINT, &frames, 1, 1000000, NULL,
		"mbufs in rotation per lcore, at least sources x window"},
	{"isa", 0, OPTION_CHOICE, &isa, 0, 0, "auto|scalar|avx2|avx512", "widest vectors"},
	{0},
};

/* Parameters of both benches, and their cells; the last ones are not shown. */
#define WORK_COLUMNS                                                                               \
	{.key = "lcores", .title = "lcores", .role = BENCH_PARAM},                                 \
		{.key = "threads", .title = "threads", .role = BENCH_PARAM},                       \
		{.key = "sources", .title = "sources", .role = BENCH_PARAM},                       \
		{.key = "window", .title = "window", .role = BENCH_PARAM},                         \
		{.key = "elements", .title = "elements", .role = BENCH_PARAM},                     \
		{.key = "type", .title = "type", .role = BENCH_PARAM},                             \
		{.key = "order", .role = BENCH_PARAM}, {.key = "checksum", .role = BENCH_PARAM},   \
		{.key = "results", .role = BENCH_PARAM}, {.key = "burst", .role = BENCH_PARAM},    \
		{.key = "isa", .role = BENCH_PARAM}, {.key = "frames", .role = BENCH_PARAM},       \
		{.key = "deterministic", .role = BENCH_PARAM},                                     \
	{                                                                                          \
		.key = "huge_pages", .role = BENCH_PARAM                                           \
	}
#define WORK_CELLS(w)                                                                              \
	TABLE_NUMBER((w)->workers), TABLE_NUMBER((w)->threads), TABLE_NUMBER((w)->sources),        \
		TABLE_NUMBER((w)->window), TABLE_NUMBER((w)->elements),                            \
		TABLE_TEXT(weir_dtype_text((w)->type)), TABLE_TEXT(order), TABLE_TEXT(checksum),   \
		TABLE_TEXT(results), TABLE_NUMBER(burst), TABLE_TEXT(isa),                         \
		TABLE_NUMBER((w)->copies *(w)->depth *(w)->sources), TABLE_BOOL(deterministic),    \
		TABLE_BOOL(bench_on_huge_pages())

static const struct table_column engine_columns[] = {
	WORK_COLUMNS,
	{.key = "traffic", .role = BENCH_PARAM},
	{.key = "far", .role = BENCH_PARAM},
	COLUMN(METRIC, "time", "time", "ns/packet", 9, 1),
	{.key = "bare kernel", .role = BENCH_LIMIT},
	COLUMN(METRIC, "rate", "rate", "Mpps", 8, 3),
	{.key = "bare kernel", .role = BENCH_LIMIT},
	COLUMN(METRIC, "payload", "payload", "Gbit/s", 9, 1),
	COLUMN(LIMIT, "bare kernel", "bare", "Gbit/s", 9, 1),
	{.title = "ratio", .digits = 3, .width = 6},
	{.key = "authenticated", .title = "tags", .role = BENCH_PARAM},
	COLUMN(METRIC, "authenticated", "to none", "of rate", 0, 3),
	{.key = "not authenticated", .role = BENCH_LIMIT},
	{.key = "disturbed", .role = BENCH_SEEN},
	{.title = "", .left = true},
};

/* Medians over the samples; the ratio is that of pairs. */
static void
engine_row(const struct generator_work *w, const struct generator_result *result)
{
	static double plain; /* the same without tags, which was measured just before */
	double rate[BENCH_REPEAT_MAX], ratio[BENCH_REPEAT_MAX], cpu[BENCH_REPEAT_MAX];
	double bits = w->elements * weir_dtype_bytes(w->type) * 8e-9, r, q, time,
	       beside = BENCH_NONE;
	bool disturbed;

	for (unsigned int n = 0; n < result->samples; n++) {
		rate[n] = result->sample[n].rate;
		ratio[n] = rate[n] / result->sample[n].bare_rate;
		cpu[n] = result->sample[n].cpu;
	}
	disturbed = bench_median(cpu, result->samples) < GENERATOR_CPU;
	any_disturbed |= disturbed;
	r = bench_median(rate, result->samples);
	/* The limits are put so that value / limit is the median of the pairs' ratios. */
	q = w->forward ? BENCH_NONE : bench_median(ratio, result->samples);
	time = 1e9 * w->workers / r;
	if (w->authenticated)
		beside = q / plain;
	plain = q;
	bench_row((struct table_cell[]){WORK_CELLS(w), TABLE_TEXT(traffic), TABLE_NUMBER(w->far),
		TABLE_NUMBER(time), TABLE_NUMBER(time * q), TABLE_NUMBER(r * 1e-6),
		TABLE_NUMBER(r * 1e-6 / q), TABLE_NUMBER(r * bits), TABLE_NUMBER(r * bits / q),
		TABLE_NUMBER(q), TABLE_BOOL(w->authenticated), TABLE_NUMBER(beside),
		TABLE_NUMBER(1), TABLE_BOOL(disturbed), TABLE_TEXT(disturbed ? "*" : "")});
}

/* Blocks under way: a shard's part of the window, all of which may fall into one shard; or what the
 * memory for ready frames allows. */
static void
fit(struct generator_work *w)
{
	uint64_t most = FRAME_MEMORY / (w->sources * (w->elements * UINT64_C(4) + 512));

	w->depth = RTE_MAX(RTE_MIN(w->window / w->workers, (unsigned int)most), 1u);
	w->copies = RTE_MAX((unsigned int)frames / (w->depth * w->sources), 1u);
}

typedef int (*point)(const struct generator_work *work);

/* Call `each` for every point of the sweep. */
static int
sweep(const struct option_list *lcores, const char *type, double far, point each)
{
	static const enum weir_dtype types[] = {WEIR_DTYPE_INT32, WEIR_DTYPE_FP32};
	const struct option_list *list[] = {lcores, &threads, &sources, &window, &elements};
	unsigned int at[5] = {0};

	for (;;) {
		struct generator_work w = {
			.burst = (unsigned int)burst,
			.order = order[0] == 'b'  ? GENERATOR_BLOCK
				: order[0] == 's' ? GENERATOR_SOURCE
						  : GENERATOR_RANDOM,
			.checksum = checksum[0] == 's',
			.multicast = results[0] == 'm',
			.deterministic = deterministic,
			.forward = traffic[0] == 'f',
			.isa = rmw_isa_parse(isa),
			.repeat = (unsigned int)bench_common.repeat,
			.phase_ms = (unsigned int)bench_common.phase_ms,
			.packets = packets,
		};
		unsigned int *const to[] = {
			&w.workers, &w.threads, &w.sources, &w.window, &w.elements};
		unsigned int i = RTE_DIM(at);

		for (unsigned int k = 0; k < RTE_DIM(at); k++)
			*to[k] = (unsigned int)list[k]->value[at[k]];
		w.far = w.workers > 1 ? far : 0;
		fit(&w);
		for (unsigned int t = 0; t < RTE_DIM(types); t++) {
			w.type = types[t];
			if (strcmp(type, "all") != 0 && strcmp(type, weir_dtype_text(w.type)) != 0)
				continue;
			w.authenticated = false;
			if (each(&w) < 0)
				return -1;
			w.authenticated = authenticate;
			if (authenticate && each(&w) < 0)
				return -1;
		}
		while (i > 0 && ++at[i - 1] == list[i - 1]->count)
			at[--i] = 0;
		if (i == 0)
			return 0;
	}
}

static unsigned int memory_needed;

static int
count_memory(const struct generator_work *w)
{
	memory_needed = RTE_MAX(memory_needed, generator_memory_mb(w));
	if (rte_is_power_of_2(w->window) && w->window >= w->workers)
		return 0;
	warnx("--window %u must be a power of two, and at least --lcores", w->window);
	return -1;
}

static int
engine_point(const struct generator_work *w)
{
	struct generator_result result;

	bench_progress("%u lcores, %u threads, %u sources, window %u, %u elements, %s", w->workers,
		w->threads, w->sources, w->window, w->elements, weir_dtype_text(w->type));
	if (generator_run(w, &result) < 0)
		return -1;
	if (packets != 0)
		fprintf(bench_out(), "counted %" PRIu64 " packets\n", result.counted);
	else if (result.samples > 0)
		engine_row(w, &result);
	else
		warnx("other processes left the workers no time to measure");
	return result.samples > 0 || packets != 0 ? 0 : -1;
}

/* Start EAL and sweep. An exit status. */
static int
run_sweep(const struct option_list *lcores, const char *type, double far, point each,
	const struct table_column *columns, size_t count)
{
	unsigned int most = 0;
	int rc;

	for (unsigned int i = 0; i < lcores->count; i++)
		most = RTE_MAX(most, (unsigned int)lcores->value[i]);
	if (packets == 0 && bench_lcores_fit(most) < 0)
		return 2;
	if (sweep(lcores, type, far, count_memory) < 0 || bench_start_eal(most, memory_needed) < 0)
		return 2;
	if (packets == 0) {
		bench_note("%s, order %s%s, checksums %s, results %s, burst %" PRIu64
			   ", far %g, %s pages",
			traffic, order, deterministic ? ", deterministic" : "", checksum, results,
			burst, far, bench_pages());
		bench_note(
			"bare: the same vector operations on the same frames, alone, in the same "
			"run; times are CPU time");
		bench_table(columns, count);
	}
	rc = sweep(lcores, type, far, each);
	if (any_disturbed)
		bench_note("*: other processes had the CPU for more than a tenth of most phases: "
			   "rates of CPU time, with caches that others used");
	bench_stop_eal();
	return rc < 0 ? 1 : 0;
}

static int
engine_run(void)
{
	if (authenticate && (traffic[0] == 'f' || checksum[0] == 's')) {
		warnx("--authenticate goes with --traffic aggregate and --checksum none");
		return 2;
	}
	if (packets != 0 && !BENCH_CAN_COLLECT) {
		warnx("built without valgrind's header");
		return 2;
	}
	return run_sweep(&engine_lcores, engine_type, engine_far, engine_point, engine_columns,
		RTE_DIM(engine_columns));
}

const struct bench bench_engine = {
	.name = "engine",
	.help = "contributions through the real program, beside the bare kernel",
	.options = engine_options,
	.more = work_options,
	.run = engine_run,
};

static const struct table_column scaling_columns[] = {
	WORK_COLUMNS,
	{.key = "far", .title = "far", .digits = 3, .role = BENCH_PARAM},
	{.title = "hops", .unit = "/packet", .digits = 2},
	{.title = "time", .unit = "ns/packet", .digits = 1, .width = 8},
	COLUMN(METRIC, "payload", "payload", "Gbit/s", 8, 1),
	COLUMN(LIMIT, "as many times one lcore without hops", "limit", "Gbit/s", 8, 1),
	{.title = "efficiency", .digits = 3},
	{.key = "bare", .unit = "Gbit/s", .role = BENCH_METRIC},
	COLUMN(LIMIT, "bare kernel on as many lcores", "bare", "Gbit/s", 8, 1),
	{.title = "ratio", .unit = "bare", .digits = 3},
	{.key = "hop", .title = "hop", .unit = "ns", .digits = 1, .width = 6, .role = BENCH_METRIC},
	{.key = "disturbed", .role = BENCH_SEEN},
	{.title = "", .left = true},
};

/* near: ns per contribution and worker at the same lcores without hops, set by the point without. */
static int
scaling_far_point(const struct generator_work *w, double *near)
{
	double rate[BENCH_REPEAT_MAX], efficiency[BENCH_REPEAT_MAX], bare[BENCH_REPEAT_MAX],
		cpu[BENCH_REPEAT_MAX];
	double gbits = w->elements * 32e-9, r, b, e, time, hop = BENCH_NONE;
	struct generator_work all = *w, single = *w;
	struct generator_best one, many = {0};
	uint64_t n = bench_common.repeat;
	bool disturbed;

	all.repeat = 3;
	single.repeat = 3;
	single.workers = 1;
	single.far = 0;
	fit(&single);
	for (uint64_t i = 0; i < n; i++) {
		bench_progress("%u elements, %u lcores, far %.2f, round %" PRIu64 " of %" PRIu64,
			w->elements, w->workers, w->far, i + 1, n);
		if (generator_best(&single, &one) < 0 || generator_best(&all, &many) < 0)
			return -1;
		rate[i] = many.rate;
		bare[i] = many.bare_rate;
		cpu[i] = RTE_MIN(one.cpu, many.cpu);
		efficiency[i] = many.rate / one.rate / w->workers;
	}
	r = bench_median(rate, n);
	b = bench_median(bare, n);
	e = bench_median(efficiency, n);
	time = 1e9 * w->workers / r;
	if (w->far <= 0)
		*near = time;
	else if (many.hops > 0)
		hop = (time - *near) / many.hops;
	disturbed = bench_median(cpu, n) < GENERATOR_CPU;
	any_disturbed |= disturbed;
	bench_row((struct table_cell[]){WORK_CELLS(w), TABLE_NUMBER(w->far),
		TABLE_NUMBER(many.hops), TABLE_NUMBER(time), TABLE_NUMBER(r * gbits),
		TABLE_NUMBER(r * gbits / e), TABLE_NUMBER(e), TABLE_NUMBER(r * gbits),
		TABLE_NUMBER(b * gbits), TABLE_NUMBER(r / b), TABLE_NUMBER(hop),
		TABLE_BOOL(disturbed), TABLE_TEXT(disturbed ? "*" : "")});
	return 0;
}

static int
scaling_point(const struct generator_work *w)
{
	double far[] = {0, scaling_far < 0 ? 0.5 : scaling_far,
		scaling_far < 0 && w->workers > 2 ? 1 - 1.0 / w->workers : 0};
	double near = 0;

	for (unsigned int f = 0; f < RTE_DIM(far); f++) {
		struct generator_work work = *w;

		work.far = far[f];
		if (f > 0 && (w->workers == 1 || far[f] <= 0))
			continue;
		if (scaling_far_point(&work, &near) < 0)
			return -1;
	}
	return 0;
}

static int
scaling_run(void)
{
	return run_sweep(&scaling_lcores, scaling_type, scaling_far, scaling_point, scaling_columns,
		RTE_DIM(scaling_columns));
}

const struct bench bench_scaling = {
	.name = "scaling",
	.help = "one lcore, then more; contributions arrive at the wrong one",
	.options = scaling_options,
	.more = work_options,
	.run = scaling_run,
};
