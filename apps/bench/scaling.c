/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench scaling: one lcore, then more. Each worker has a port, and a job whose sources all sit
 * there; a contribution belongs to another worker's shard with a given probability, and then hops.
 * The limit of n lcores is n times what one does without hops, measured before each point.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "apps/bench/generator.h"

#define ROUNDS_MAX 99
#define FARS_MAX   3
#define TRIES      5

static struct bench_list lcores = {2, {1, 2}}, elements = {3, {64, 256, 1024}};
static uint64_t threads = 20, burst = 32, sources = 8, window = 64, frames = 4096;
static const char *type = "int32", *checksum = "none", *results = "unicast";
static double far_chance = -1;
static bool any_disturbed;

static const struct bench_option options[] = {
	{"lcores", BENCH_LIST, &lcores, 1, 16, NULL, "worker lcores; each wants a CPU"},
	{"elements", BENCH_LIST, &elements, 1, 2048, NULL, "elements of a contribution"},
	{"far", BENCH_REAL, &far_chance, 0, 999, NULL,
		"probability of another worker's shard; -1: 0, 0.5 and 1 - 1/lcores"},
	{"threads", BENCH_UINT, &threads, 1, 64, NULL, "thread contexts per lcore"},
	{"burst", BENCH_UINT, &burst, 1, 256, NULL, "packets per poll"},
	{"sources", BENCH_UINT, &sources, 2, 256, NULL, "contributions to a block"},
	{"window", BENCH_UINT, &window, 16, 4096, NULL, "blocks, a power of two"},
	{"frames", BENCH_UINT, &frames, 1, 1000000, NULL, "mbufs in rotation per lcore"},
	{"type", BENCH_TEXT, &type, 0, 0, "int32|fp32", "type of the elements"},
	{"checksum", BENCH_TEXT, &checksum, 0, 0, "none|software",
		"UDP checksums: neither verified nor computed, or by software both"},
	{"results", BENCH_TEXT, &results, 0, 0, "unicast|multicast",
		"a result for each source, or one for all"},
	{0},
};

/* What the rounds of one point gave. */
struct point {
	unsigned int workers;
	double far;
	double rate[ROUNDS_MAX]; /* contributions per second of CPU time, all workers together */
	double one[ROUNDS_MAX]; /* the single lcore of the same round */
	double efficiency[ROUNDS_MAX];
	double bare[ROUNDS_MAX]; /* the bare kernel on all of the workers at once */
	double cpu[ROUNDS_MAX]; /* least share of a phase on a CPU, of one lcore and of all */
	double hops; /* per contribution */
};

static struct generator_work
work_of(unsigned int workers, double far, unsigned int n)
{
	struct generator_work work = {
		.workers = workers,
		.threads = (unsigned int)threads,
		.burst = (unsigned int)burst,
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = n,
		.type = strcmp(type, "fp32") == 0 ? RMW_TYPE_FP32 : RMW_TYPE_INT32,
		.checksum = checksum[0] == 's',
		.multicast = results[0] == 'm',
		.far = far,
		.isa = RMW_ISA_AUTO,
		.repeat = 3,
		.phase_ms = (unsigned int)bench_common.phase_ms,
	};

	/* Each worker has so many blocks under way; a shard's residues are then never used up. */
	work.depth = (unsigned int)RTE_MAX(window / workers, UINT64_C(1));
	work.copies = (unsigned int)RTE_MAX(frames / (work.depth * sources), UINT64_C(1));
	return work;
}

/* Best of the run's samples: contributions per second; also the bare kernel's. A worker that other
 * processes kept from its CPU spoils a sample for all: then once more. *cpu: lowered to the best
 * sample's share of time on a CPU. */
static int
measure(const struct generator_work *work, double *rate, double *bare, double *cpu, double *hops)
{
	struct generator_result result;
	double whole = *cpu;

	for (unsigned int i = 0; i < TRIES; i++) {
		if (generator_run(work, &result) < 0)
			return -1;
		if (result.samples > 0)
			break;
	}
	if (result.samples == 0) {
		fprintf(stderr,
			"weir-bench: other processes left the workers no time to measure\n");
		return -1;
	}
	*rate = 0;
	*bare = 0;
	for (unsigned int i = 0; i < result.samples; i++) {
		if (result.sample[i].rate > *rate)
			*cpu = RTE_MIN(whole, result.sample[i].cpu);
		*rate = RTE_MAX(*rate, result.sample[i].rate);
		*bare = RTE_MAX(*bare, result.sample[i].bare_rate);
	}
	*hops = (double)result.hops / (double)result.contributions;
	return 0;
}

static int
measure_point(struct bench_report *report, struct point *point, unsigned int n)
{
	const struct generator_work one = work_of(1, 0, n);
	const struct generator_work all = work_of(point->workers, point->far, n);
	double hops, bare;

	for (unsigned int r = 0; r < bench_common.repeat; r++) {
		bench_progress(report, "%u elements, %u lcores, far %.2f, round %u of %u", n,
			point->workers, point->far, r + 1, (unsigned int)bench_common.repeat);
		point->cpu[r] = 1;
		if (measure(&one, &point->one[r], &bare, &point->cpu[r], &hops) < 0 ||
			measure(&all, &point->rate[r], &point->bare[r], &point->cpu[r],
				&point->hops) < 0)
			return -1;
		point->efficiency[r] = point->rate[r] / point->one[r] / point->workers;
	}
	return 0;
}

static json_t *
parameters(const struct point *point, unsigned int n)
{
	return json_pack("{s:i,s:f,s:i,s:i,s:i,s:i,s:i,s:s,s:s,s:s,s:b}", "lcores",
		(int)point->workers, "far", point->far, "threads", (int)threads, "burst",
		(int)burst, "sources", (int)sources, "window", (int)window, "elements", (int)n,
		"type", type, "checksum", checksum, "results", results, "huge_pages",
		bench_on_huge_pages());
}

/* near: ns per contribution and worker at the same lcores without hops; 0 when not measured. */
static double
report_point(struct bench_report *report, struct point *point, unsigned int n, double near)
{
	size_t rounds = bench_common.repeat;
	double bits = n * 32.0;
	double rate = bench_median(point->rate, rounds), one = bench_median(point->one, rounds);
	double efficiency = bench_median(point->efficiency, rounds);
	double bare = bench_median(point->bare, rounds);
	double time = 1e9 * point->workers / rate, hop = BENCH_NONE;
	bool disturbed = bench_median(point->cpu, rounds) < GENERATOR_CPU;
	FILE *out = bench_table(report);

	if (point->hops > 0 && near > 0)
		hop = (time - near) / point->hops;
	bench_progress(report, NULL);
	fprintf(out, " %6u %6.3f %8u %6.2f %9.1f %9.1f %9.1f %9.1f %10.3f %6.3f", point->workers,
		point->far, n, point->hops, time, rate * bits / 1e9,
		one * point->workers * bits / 1e9, bare * bits / 1e9, efficiency, rate / bare);
	if (hop == BENCH_NONE)
		fprintf(out, " %7s", "-");
	else
		fprintf(out, " %7.1f", hop);
	fputs(disturbed ? " *\n" : "\n", out);
	fflush(out);
	any_disturbed |= disturbed;
	bench_observe(report, json_pack("{s:b}", "disturbed", disturbed));
	/* The limit is put so that value / limit is the median of the rounds' efficiencies. */
	bench_add(report, "payload", parameters(point, n), rate * bits / 1e9, "Gbit/s",
		rate * bits / 1e9 / efficiency, "as many times one lcore without hops");
	bench_add(report, "bare", parameters(point, n), rate * bits / 1e9, "Gbit/s",
		bare * bits / 1e9, "bare kernel on as many lcores");
	if (hop != BENCH_NONE)
		bench_add(report, "hop", parameters(point, n), hop, "ns", BENCH_NONE, NULL);
	return time;
}

/* The probabilities to measure with so many workers; returns how many. */
static unsigned int
fars_of(unsigned int workers, double far[FARS_MAX])
{
	unsigned int n = 0;

	if (workers == 1) {
		far[n++] = 0;
	} else if (far_chance >= 0) {
		far[n++] = 0;
		if (far_chance > 0)
			far[n++] = far_chance;
	} else {
		far[n++] = 0;
		far[n++] = 0.5;
		if (workers > 2)
			far[n++] = 1 - 1.0 / workers;
	}
	return n;
}

static int
measure_all(struct bench_report *report)
{
	for (unsigned int e = 0; e < elements.count; e++) {
		for (unsigned int l = 0; l < lcores.count; l++) {
			double far[FARS_MAX], near = 0;
			unsigned int fars = fars_of((unsigned int)lcores.value[l], far);

			for (unsigned int f = 0; f < fars; f++) {
				struct point point = {
					.workers = (unsigned int)lcores.value[l], .far = far[f]};
				unsigned int n = (unsigned int)elements.value[e];
				double time;

				if (measure_point(report, &point, n) < 0)
					return -1;
				time = report_point(report, &point, n, near);
				if (f == 0)
					near = time;
			}
		}
	}
	return 0;
}

static int
check(unsigned int *most, unsigned int *memory_mb)
{
	for (unsigned int l = 0; l < lcores.count; l++) {
		*most = RTE_MAX(*most, (unsigned int)lcores.value[l]);
		for (unsigned int e = 0; e < elements.count; e++) {
			const struct generator_work work = work_of(
				(unsigned int)lcores.value[l], 0, (unsigned int)elements.value[e]);

			*memory_mb = RTE_MAX(*memory_mb, generator_memory_mb(&work));
		}
	}
	if (far_chance >= 1 || !rte_is_power_of_2(window)) {
		fprintf(stderr, "weir-bench: --far must be below 1, --window a power of two\n");
		return -1;
	}
	return bench_lcores_fit(*most);
}

static int
run(struct bench_report *report)
{
	unsigned int most = 1, memory_mb = 0;
	int rc;

	if (check(&most, &memory_mb) < 0 || bench_start_eal(most, memory_mb, NULL) < 0)
		return 2;
	fprintf(bench_table(report),
		"# checksums %s, results %s, %s pages; time, payload: of CPU time\n"
		"# far: probability that a contribution hops to another worker\n"
		"# limit: as many times one lcore without hops; bare: the vector operations alone, "
		"on all lcores at once\n"
		"#%6s %6s %8s %6s %9s %9s %9s %9s %10s %6s %7s\n"
		"#%6s %6s %8s %6s %9s %9s %9s %9s %10s %6s %7s\n",
		checksum, results, bench_on_huge_pages() ? "huge" : "small", "lcores", "far",
		"elements", "hops", "time", "payload", "limit", "bare", "efficiency", "ratio",
		"hop", "", "", "", "/pkt", "ns/packet", "Gbit/s", "Gbit/s", "Gbit/s", "", "bare",
		"ns");
	rc = measure_all(report);
	if (any_disturbed)
		fprintf(bench_table(report), GENERATOR_DISTURBED);
	bench_stop_eal();
	return rc < 0 ? 1 : 0;
}

const struct bench bench_scaling = {
	.name = "scaling",
	.help = "one lcore, then more, with contributions that arrive at the wrong one",
	.options = options,
	.run = run,
};
