/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench engine: contributions that lie in mbufs already, through the real program, beside the
 * same vector operations alone.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "apps/bench/collect.h"
#include "apps/bench/generator.h"

#define FRAME_MEMORY (UINT64_C(1024) << 20) /* ready frames; fewer blocks are under way beyond */

static struct bench_list lcores = {1, {1}}, threads = {1, {20}}, sources = {1, {8}},
			 window = {1, {64}}, elements = {3, {64, 256, 1024}};
static uint64_t burst = 32, frames = 4096, packets;
static double far_chance;
static bool any_disturbed, authenticate, deterministic;
static const char *type = "all", *order = "block", *checksum = "none", *results = "unicast",
		  *isa = "auto", *traffic = "aggregate";

static const struct bench_option options[] = {
	{"lcores", BENCH_LIST, &lcores, 1, 16, NULL, "worker lcores; each wants a CPU"},
	{"far", BENCH_REAL, &far_chance, 0, 999, NULL,
		"with more than one: probability that a block's contributions hop to another"},
	{"threads", BENCH_LIST, &threads, 1, 64, NULL, "thread contexts per lcore"},
	{"sources", BENCH_LIST, &sources, 2, 256, NULL, "contributions to a block"},
	{"window", BENCH_LIST, &window, 1, 4096, NULL, "blocks, a power of two"},
	{"elements", BENCH_LIST, &elements, 1, 2048, NULL, "elements of a contribution"},
	{"type", BENCH_TEXT, &type, 0, 0, "int32|fp32|all",
		"type of the elements: those that vector kernels exist for, or both"},
	{"traffic", BENCH_TEXT, &traffic, 0, 0, "aggregate|forward",
		"contributions, or ordinary frames of their size to a known station"},
	{"order", BENCH_TEXT, &order, 0, 0, "block|source|random", "order of arrival"},
	{"checksum", BENCH_TEXT, &checksum, 0, 0, "none|software",
		"UDP checksums: neither verified nor computed, or by software both"},
	{"results", BENCH_TEXT, &results, 0, 0, "unicast|multicast",
		"a result for each source, or one for all"},
	{"authenticate", BENCH_FLAG, &authenticate, 0, 0, NULL,
		"each point a second time with an authenticated job; hosts' tags are not counted"},
	{"deterministic", BENCH_FLAG, &deterministic, 0, 0, NULL,
		"the job adds floating-point contributions in the order of their sources"},
	{"burst", BENCH_UINT, &burst, 1, 256, NULL, "packets per poll"},
	{"frames", BENCH_UINT, &frames, 1, 1000000, NULL,
		"mbufs in rotation per lcore (as many as a port's receive ring and pool), at least "
		"sources x window"},
	{"isa", BENCH_TEXT, &isa, 0, 0, "auto|scalar|avx2|avx512", "widest vectors"},
	{"packets", BENCH_UINT, &packets, 0, 100000000, NULL,
		"for callgrind: only so many packets, collected, and no figures"},
	{0},
};

static json_t *
parameters(const struct generator_work *w)
{
	json_t *made = json_pack("{s:s,s:i,s:f,s:i,s:i,s:i,s:i,s:s,s:s,s:s,s:s,s:i,s:s,s:i,s:b}",
		"traffic", traffic, "lcores", (int)w->workers, "far", w->far, "threads",
		(int)w->threads, "sources", (int)w->sources, "window", (int)w->window, "elements",
		(int)w->elements, "type", rmw_type_name(w->type), "order", order, "checksum",
		checksum, "results", results, "burst", (int)w->burst, "isa", isa, "frames",
		(int)(w->copies * w->depth * w->sources), "huge_pages", bench_on_huge_pages());

	if (deterministic)
		json_object_set_new(made, "deterministic", json_true());
	if (authenticate)
		json_object_set_new(made, "authenticated", json_boolean(w->authenticated));
	return made;
}

static void
print_head(FILE *out)
{
	fprintf(out,
		"# traffic %s, order %s%s, checksums %s, results %s, burst %" PRIu64
		", far %g, %s pages\n"
		"# bare: the same vector operations on the same frames, alone, in the same run\n"
		"# time, rate, payload: of CPU time; results are compared with the expected ones "
		"in "
		"the warm-up, then one in 1024\n"
		"#%6s %7s %7s %7s %8s %6s %9s %8s %9s %9s %6s %7s %7s%s\n"
		"#%6s %7s %7s %7s %8s %6s %9s %8s %9s %9s %6s %7s %7s%s\n",
		traffic, order, deterministic ? ", deterministic" : "", checksum, results, burst,
		far_chance, bench_on_huge_pages() ? "huge" : "small", "lcores", "threads",
		"sources", "window", "elements", "type", "time", "rate", "payload", "bare", "ratio",
		"instr.", "cycles", authenticate ? "    tags   ratio" : "", "", "", "", "", "", "",
		"ns/packet", "Mpps", "Gbit/s", "Gbit/s", "", "/packet", "/packet",
		authenticate ? "         to none" : "");
}

static void
print_count(FILE *out, double value)
{
	if (value < 0)
		fprintf(out, " %7s", "-");
	else
		fprintf(out, " %7.0f", value);
}

/* A record with its limit, which forwarding has not. */
static void
add_beside_bare(struct bench_report *report, const char *metric, const struct generator_work *w,
	double value, const char *unit, double limit)
{
	bench_add(report, metric, parameters(w), value, unit, w->forward ? BENCH_NONE : limit,
		w->forward ? NULL : "bare kernel");
}

/* An authenticated job beside the same without tags, which was measured just before: each was
 * divided by the bare kernel of its own phases. */
static void
print_beside_plain(struct bench_report *report, const struct generator_work *w, double beside_bare)
{
	static double plain;

	if (!w->authenticated) {
		plain = beside_bare;
		fprintf(bench_table(report), " %7s %7s", "no", "-");
		return;
	}
	fprintf(bench_table(report), " %7s %7.3f", "yes", beside_bare / plain);
	bench_add(report, "authenticated", parameters(w), beside_bare / plain,
		"of the rate without tags", 1, "not authenticated");
}

/* Medians over the samples; the ratio is that of pairs. */
static void
report_point(struct bench_report *report, const struct generator_work *w,
	const struct generator_result *result)
{
	double rate[GENERATOR_REPEAT_MAX], bare[GENERATOR_REPEAT_MAX], ratio[GENERATOR_REPEAT_MAX];
	double instructions[GENERATOR_REPEAT_MAX], cycles[GENERATOR_REPEAT_MAX];
	double bits = w->elements * rmw_type_size(w->type) * 8.0;
	FILE *out = bench_table(report);
	double cpu[GENERATOR_REPEAT_MAX], r, b, q, i, c;
	bool disturbed;

	for (unsigned int n = 0; n < result->samples; n++) {
		rate[n] = result->sample[n].rate;
		bare[n] = result->sample[n].bare_rate;
		ratio[n] = rate[n] / bare[n];
		instructions[n] = result->sample[n].instructions;
		cycles[n] = result->sample[n].cycles;
		cpu[n] = result->sample[n].cpu;
	}
	disturbed = bench_median(cpu, result->samples) < GENERATOR_CPU;
	any_disturbed |= disturbed;
	r = bench_median(rate, result->samples);
	b = bench_median(bare, result->samples);
	q = bench_median(ratio, result->samples);
	i = bench_median(instructions, result->samples);
	c = bench_median(cycles, result->samples);
	bench_progress(report, NULL);
	fprintf(out, " %6u %7u %7u %7u %8u %6s %9.1f %8.3f %9.1f", w->workers, w->threads,
		w->sources, w->window, w->elements, rmw_type_name(w->type), 1e9 * w->workers / r,
		r / 1e6, r * bits / 1e9);
	if (w->forward)
		fprintf(out, " %9s %6s", "-", "-");
	else
		fprintf(out, " %9.1f %6.3f", b * bits / 1e9, q);
	print_count(out, i);
	print_count(out, c);
	if (authenticate)
		print_beside_plain(report, w, q);
	fputs(disturbed ? " *\n" : "\n", out);
	fflush(out);
	bench_observe(report, json_pack("{s:b}", "disturbed", disturbed));
	/* The limit is put so that value / limit is the median of the pairs' ratios. */
	add_beside_bare(report, "payload", w, r * bits / 1e9, "Gbit/s", r * bits / 1e9 / q);
	add_beside_bare(
		report, "time", w, 1e9 * w->workers / r, "ns/packet", 1e9 * w->workers / r * q);
	add_beside_bare(report, "rate", w, r / 1e6, "Mpps", r / 1e6 / q);
	bench_add(report, "instructions", parameters(w), i < 0 ? BENCH_NONE : i, "per packet",
		BENCH_NONE, NULL);
	bench_add(report, "cycles", parameters(w), c < 0 ? BENCH_NONE : c, "per packet", BENCH_NONE,
		NULL);
}

/* Blocks under way: a shard's part of the window, all of which may fall into one shard; or what the
 * memory for ready frames allows. */
static unsigned int
depth_of(const struct generator_work *w)
{
	uint64_t most = FRAME_MEMORY / (w->sources * (w->elements * UINT64_C(4) + 512));

	return (unsigned int)RTE_MAX(RTE_MIN((uint64_t)w->window / w->workers, most), UINT64_C(1));
}

/* Call `each` for every point of the sweep. */
static int
sweep(struct bench_report *report,
	int (*each)(struct bench_report *, const struct generator_work *))
{
	static const enum rmw_type types[] = {RMW_TYPE_INT32, RMW_TYPE_FP32};
	const struct bench_list *list[] = {&lcores, &threads, &sources, &window, &elements};
	unsigned int at[5] = {0};

	for (;;) {
		struct generator_work w = {
			.workers = (unsigned int)lcores.value[at[0]],
			.threads = (unsigned int)threads.value[at[1]],
			.sources = (unsigned int)sources.value[at[2]],
			.window = (unsigned int)window.value[at[3]],
			.elements = (unsigned int)elements.value[at[4]],
			.burst = (unsigned int)burst,
			.order = order[0] == 'b'  ? GENERATOR_BLOCK
				: order[0] == 's' ? GENERATOR_SOURCE
						  : GENERATOR_RANDOM,
			.checksum = checksum[0] == 's',
			.multicast = results[0] == 'm',
			.deterministic = deterministic,
			.forward = traffic[0] == 'f',
			.far = lcores.value[at[0]] > 1 ? far_chance : 0,
			.isa = rmw_isa_parse(isa),
			.repeat = (unsigned int)bench_common.repeat,
			.phase_ms = (unsigned int)bench_common.phase_ms,
			.packets = packets,
		};
		unsigned int i = RTE_DIM(at);

		w.depth = depth_of(&w);
		w.copies = (unsigned int)RTE_MAX(frames / (w.depth * w.sources), UINT64_C(1));
		for (unsigned int t = 0; t < RTE_DIM(types); t++) {
			w.type = types[t];
			if (strcmp(type, "all") != 0 && strcmp(type, rmw_type_name(w.type)) != 0)
				continue;
			w.authenticated = false;
			if (each(report, &w) < 0)
				return -1;
			w.authenticated = authenticate;
			if (authenticate && each(report, &w) < 0)
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
look(struct bench_report *report __rte_unused, const struct generator_work *w)
{
	memory_needed = RTE_MAX(memory_needed, generator_memory_mb(w));
	if ((w->window & (w->window - 1)) == 0 && w->window >= w->workers)
		return 0;
	fprintf(stderr, "weir-bench: --window %u must be a power of two, and at least --lcores\n",
		w->window);
	return -1;
}

static int
measure(struct bench_report *report, const struct generator_work *w)
{
	struct generator_result result;

	bench_progress(report, "%u lcores, %u threads, %u sources, window %u, %u elements, %s",
		w->workers, w->threads, w->sources, w->window, w->elements, rmw_type_name(w->type));
	if (generator_run(w, &result) < 0)
		return -1;
	bench_progress(report, NULL);
	if (result.samples > 0)
		report_point(report, w, &result);
	else if (packets != 0)
		fprintf(bench_table(report), "counted %" PRIu64 " packets\n", result.counted);
	else
		fprintf(stderr,
			"weir-bench: other processes left the workers no time to measure\n");
	return result.samples > 0 || packets != 0 ? 0 : -1;
}

static int
run(struct bench_report *report)
{
	unsigned int most = 0;
	int rc;

	for (unsigned int i = 0; i < lcores.count; i++)
		most = RTE_MAX(most, (unsigned int)lcores.value[i]);
	if (authenticate && (traffic[0] == 'f' || checksum[0] == 's')) {
		fprintf(stderr,
			"weir-bench: --authenticate goes with --traffic aggregate and --checksum "
			"none\n");
		return 2;
	}
	if (packets != 0 && !BENCH_CAN_COLLECT) {
		fprintf(stderr, "weir-bench: built without valgrind's header\n");
		return 2;
	}
	if (packets == 0 && bench_lcores_fit(most) < 0)
		return 2;
	if (sweep(report, look) < 0 || bench_start_eal(most, memory_needed, NULL) < 0)
		return 2;
	if (packets == 0)
		print_head(bench_table(report));
	rc = sweep(report, measure);
	if (any_disturbed)
		fprintf(bench_table(report), GENERATOR_DISTURBED);
	bench_stop_eal();
	return rc < 0 ? 1 : 0;
}

const struct bench bench_engine = {
	.name = "engine",
	.help = "contributions in mbufs through the real program, beside the bare kernel",
	.options = options,
	.run = run,
};
