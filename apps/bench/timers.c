/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench timers: what looking for stragglers costs the packets. Contributions through the real
 * program, in a table that other jobs have filled, in phases with and without the timer threads.
 */
#include <inttypes.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "apps/bench/generator.h"

static struct bench_list records = {1, {1 << 20}}, timeouts = {3, {1, 10, 1000}},
			 elements = {2, {64, 1024}};
static uint64_t sources = 8, window = 64, threads = 20, burst = 32, frames = 4096;
static bool any_disturbed;

static const struct bench_option options[] = {
	{"records", BENCH_LIST, &records, 8192, 1 << 20, NULL,
		"records of other jobs in the block table, half of them of open blocks"},
	{"timeout", BENCH_LIST, &timeouts, 1, 60000, NULL,
		"of the job that is measured, ms; the others have a minute"},
	{"elements", BENCH_LIST, &elements, 1, 2048, NULL, "elements of a contribution, fp32"},
	{"sources", BENCH_UINT, &sources, 2, 256, NULL, "contributions to a block"},
	{"window", BENCH_UINT, &window, 1, 4096, NULL, "blocks, a power of two"},
	{"threads", BENCH_UINT, &threads, 1, 64, NULL, "thread contexts"},
	{"burst", BENCH_UINT, &burst, 1, 256, NULL, "packets per poll"},
	{"frames", BENCH_UINT, &frames, 1, 1000000, NULL, "mbufs in rotation"},
	{0},
};

static struct generator_work
work_of(uint64_t record, uint64_t timeout, uint64_t element)
{
	struct generator_work w = {.workers = 1,
		.threads = (unsigned int)threads,
		.burst = (unsigned int)burst,
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = (unsigned int)element,
		.depth = (unsigned int)window,
		.type = RMW_TYPE_FP32,
		.timeout_ms = (uint32_t)timeout,
		.resting = (uint32_t)record,
		.beside_no_timers = true,
		.isa = rmw_isa_parse("auto"),
		.repeat = (unsigned int)bench_common.repeat,
		.phase_ms = (unsigned int)bench_common.phase_ms};

	w.copies = (unsigned int)RTE_MAX(frames / (w.depth * w.sources), UINT64_C(1));
	return w;
}

static json_t *
parameters(const struct generator_work *w)
{
	return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b}", "records", (int)w->resting,
		"timeout_ms", (int)w->timeout_ms, "elements", (int)w->elements, "sources",
		(int)w->sources, "window", (int)w->window, "threads", (int)w->threads, "burst",
		(int)w->burst, "huge_pages", bench_on_huge_pages());
}

static void
report_point(struct bench_report *report, const struct generator_work *w,
	const struct generator_result *r)
{
	double with[GENERATOR_REPEAT_MAX], without[GENERATOR_REPEAT_MAX],
		ratio[GENERATOR_REPEAT_MAX], cpu[GENERATOR_REPEAT_MAX];
	double on, off, q;
	bool disturbed;

	for (unsigned int n = 0; n < r->samples; n++) {
		with[n] = r->sample[n].rate;
		without[n] = r->sample[n].bare_rate;
		ratio[n] = with[n] / without[n];
		cpu[n] = r->sample[n].cpu;
	}
	on = bench_median(with, r->samples);
	off = bench_median(without, r->samples);
	q = bench_median(ratio, r->samples);
	disturbed = bench_median(cpu, r->samples) < GENERATOR_CPU;
	any_disturbed |= disturbed;
	bench_progress(report, NULL);
	fprintf(bench_table(report), " %8u %8u %8u %9.1f %9.1f %7.2f %8.1f %8.1f %8.1f %8.1f%s\n",
		r->resting, w->timeout_ms, w->elements, 1e9 / on, 1e9 / off, 100 * (1 - q),
		r->gap_us[0][0], r->gap_us[1][0], r->gap_us[0][1], r->gap_us[1][1],
		disturbed ? " *" : "");
	fflush(bench_table(report));
	bench_observe(report,
		json_pack("{s:b,s:i}", "disturbed", disturbed, "live records", (int)r->resting));
	bench_add(report, "rate", parameters(w), on / 1e6, "Mpps", on / 1e6 / q,
		"without timers, in the same run");
	bench_add(report, "gap p99.9", parameters(w), r->gap_us[0][0], "us", r->gap_us[1][0],
		"without timers, in the same run");
	bench_add(report, "gap p99.99", parameters(w), r->gap_us[0][1], "us", r->gap_us[1][1],
		"without timers, in the same run");
}

static int
measure(struct bench_report *report, const struct generator_work *w)
{
	struct generator_result result;

	bench_progress(report, "%u records, timeout %u ms, %u elements", w->resting, w->timeout_ms,
		w->elements);
	if (generator_run(w, &result) < 0)
		return -1;
	if (result.samples == 0) {
		fprintf(stderr, "weir-bench: other processes left the worker no time\n");
		return -1;
	}
	report_point(report, w, &result);
	return 0;
}

static void
print_head(FILE *out)
{
	fprintf(out,
		"# one lcore, fp32, %" PRIu64 " sources, window %" PRIu64 ", burst %" PRIu64
		", %s pages\n"
		"# cost: of the rate, by the timer threads; gap: from one poll to the next\n"
		"#%8s %8s %8s %9s %9s %7s %17s %17s\n"
		"#%8s %8s %8s %9s %9s %7s %8s %8s %8s %8s\n",
		sources, window, burst, bench_on_huge_pages() ? "huge" : "small", "records",
		"timeout", "elements", "with", "without", "cost", "gap p99.9, us", "gap p99.99, us",
		"", "ms", "", "ns/packet", "ns/packet", "%", "with", "without", "with", "without");
}

static int
run(struct bench_report *report)
{
	unsigned int memory = 0;
	int rc = 0;

	if (bench_lcores_fit(1) < 0)
		return 2;
	for (unsigned int r = 0; r < records.count; r++)
		for (unsigned int e = 0; e < elements.count; e++) {
			struct generator_work w = work_of(records.value[r], 1, elements.value[e]);

			memory = RTE_MAX(memory, generator_memory_mb(&w));
		}
	if (bench_start_eal(1, memory, NULL) < 0)
		return 2;
	print_head(bench_table(report));
	for (unsigned int r = 0; r < records.count; r++)
		for (unsigned int t = 0; t < timeouts.count; t++)
			for (unsigned int e = 0; e < elements.count && rc == 0; e++) {
				struct generator_work w = work_of(
					records.value[r], timeouts.value[t], elements.value[e]);

				rc = measure(report, &w);
			}
	if (any_disturbed)
		fprintf(bench_table(report), GENERATOR_DISTURBED);
	bench_stop_eal();
	return rc < 0 ? 1 : 0;
}

const struct bench bench_timers = {
	.name = "timers",
	.help = "what looking for stragglers in a full table costs the packets",
	.options = options,
	.run = run,
};
