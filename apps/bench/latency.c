/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench latency: from a block's last contribution to its first result, and of an ordinary
 * frame of the same size, both beside dpdk-testpmd with as many frames per second of that size, of
 * which as many are samples. The generator stamps around its bursts; load is open loop on a fixed
 * schedule, and a latency counts from when the frame was due: a late generator makes latencies
 * longer, never shorter. What is lost is a sample, too, of the longest kind.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "apps/bench/contributions.h"
#include "apps/bench/pair.h"
#include "apps/bench/stream.h"

#define SAMPLES_MOST (1u << 20)
#define SAMPLES_P999 10000 /* with fewer, p99.9 is a guess */
#define UNLOADED     100000.0 /* frames per second: one at a time */
#define PARTS        4 /* of --phase-ms: short runs are disturbed more rarely */
#define GIVE_UP_S    2
#define LIMIT_PHASES 12 /* of --phase-ms, for a measurement */
#define RUNS         16 /* in a measurement: tails need samples */
#define FLYING       256

/* Values of a measurement; the pairs are sorted by the first. */
enum { P50, P99, P999, WORST, RATE, SAMPLES };

static uint64_t sources = 8, window = 64, lose;
static struct bench_list elements = {3, {1024, 256, 64}};
static struct bench_list loads = {4, {0, 50, 80, 95}};

static const struct bench_option options[] = {
	{"elements", BENCH_LIST, &elements, 4, 2000, NULL, "elements of a contribution, fp32"},
	{"loads", BENCH_LIST, &loads, 0, 200, NULL,
		"frames offered, percent of the switch's capacity; 0: 100000 per second"},
	{"sources", BENCH_UINT, &sources, 2, TARGET_SOURCES_MAX, NULL, "sources of the job"},
	{"window", BENCH_UINT, &window, 1, TARGET_WINDOW_MAX, NULL,
		"blocks in flight, a power of two"},
	{"lose", BENCH_UINT, &lose, 0, 1000000000, NULL,
		"throw away one in so many frames that come back: it must be told; 0: none"},
	TARGET_OPTIONS,
	{0},
};

/* What is measured: contributions to the switch or frames through it; testpmd has frames always. */
struct subject {
	struct target *target[2];
	struct contributions *contributions; /* NULL: frames */
	struct stream *stream[2];
	struct samples samples;
	double rate;
};

static int
compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* One short run; its samples are taken back when it was disturbed and `keep` is false. A block is
 * one sample: so that testpmd has as many, one of its frames in `sources` is one. */
static int
run_once(struct subject *subject, unsigned int t, bool keep, bool *clean, double *value)
{
	unsigned int each = subject->contributions != NULL ? (unsigned int)sources : 1;
	uint64_t ms = RTE_MAX(bench_common.phase_ms / PARTS, UINT64_C(1));
	struct samples *s = &subject->samples;
	size_t before = s->count;
	struct open_loop result;
	uint64_t waited = pair_waited_ns(subject->target[t]);
	int rc = t == 0 && subject->contributions != NULL
		? contributions_offer(subject->contributions, subject->rate, ms, s, &result)
		: stream_offer(subject->stream[t], subject->rate, ms, s, each, &result);

	waited = pair_waited_ns(subject->target[t]) - waited;
	*clean = (double)waited < PAIR_LIMIT * 1e6 * (double)ms;
	if (rc != 0)
		return rc;
	if (!*clean && !keep) {
		s->count = before;
		return 0;
	}
	value[RATE] = result.rate;
	value[PAIR_LOST] += (double)(result.sent - result.done);
	return 0;
}

/* Short runs, until enough were undisturbed. */
static int
measure(void *context, unsigned int t, double value[PAIR_VALUES])
{
	static const double quantile[] = {0.5, 0.99, 0.999, 1};
	struct subject *subject = context;
	double us = 1e6 / (double)rte_get_tsc_hz();
	struct samples *s = &subject->samples;
	uint64_t limit =
		rte_rdtsc() + rte_get_tsc_hz() / 1000 * LIMIT_PHASES * bench_common.phase_ms;
	unsigned int good = 0;
	bool clean, late = false;
	int rc = 0;

	s->count = 0;
	/* Until enough were undisturbed or time is up; then at least some samples. */
	while (rc == 0 && good < RUNS && (!late || s->count == 0)) {
		late = rte_rdtsc() > limit;
		rc = run_once(subject, t, late && good == 0, &clean, value);
		good += clean;
		if (s->count == 0 && rte_rdtsc() > limit + GIVE_UP_S * rte_get_tsc_hz()) {
			target_blame(subject->target[t], "nothing comes through in time");
			return -1;
		}
	}
	if (rc != 0)
		return rc;
	if (s->count == 0) { /* the share of a capacity that others left: not one frame was due */
		for (unsigned int q = P50; q <= WORST; q++)
			value[q] = BENCH_NONE;
		value[PAIR_DISTURBED] = 1;
		return 0;
	}
	qsort(s->value, s->count, sizeof(double), compare);
	for (unsigned int q = P50; q <= WORST; q++)
		value[q] = us * bench_quantile(s->value, s->count, quantile[q]);
	if (s->count < SAMPLES_P999)
		value[P999] = BENCH_NONE;
	value[SAMPLES] = (double)s->count;
	value[PAIR_DISTURBED] = good > 0 ? 0 : 1;
	return 0;
}

static void
header(FILE *out)
{
	fprintf(out,
		"# latency: over %s, %s pages; %" PRIu64 " sources, window %" PRIu64 "\n"
		"# reduce: a block's last contribution in, its first result out; forward: an "
		"ordinary frame "
		"of the same size\n"
		"# load: of the switch's capacity in a closed loop, - 100000 frames per second; "
		"testpmd (io) "
		"beside has as many frames\n"
		"# counted from when a frame was due, with the generator's own time; microseconds\n"
		"# samples: of the switch; p99.9 of %u at least; what is lost, and blocks whose "
		"repair took long, are among them\n"
		"#%9s %8s %-8s %5s %10s %8s %8s %8s %8s %8s %6s  %8s %8s %8s %8s %6s\n"
		"#%9s %8s %-8s %5s %10s %8s %8s %8s %8s %8s %6s  %8s %8s %8s %8s %6s\n",
		target_options.over, bench_on_huge_pages() ? "huge" : "4 KiB", sources, window,
		SAMPLES_P999, "elements", "frame", "what", "load", "frames/s", "samples", "p50",
		"p99", "p99.9", "max", "lost", "testpmd", "p99", "p99.9", "max", "lost", "",
		"bytes", "", "%", "", "", "", "", "", "", "", "p50", "", "", "", "");
	fflush(out);
}

static void
print_side(FILE *out, const double *v)
{
	for (unsigned int q = P50; q <= WORST; q++)
		if (v[q] == BENCH_NONE)
			fprintf(out, " %8s", "-");
		else
			fprintf(out, " %8.*f", q <= P99 ? 2 : 1, v[q]);
	fprintf(out, " %6.0f", v[PAIR_LOST]);
}

static void
row(struct bench_report *report, unsigned int n, const char *what, unsigned int load,
	const struct pair *pair)
{
	static const char *const name[] = {"p50", "p99", "p99.9", "max"};
	unsigned int bytes = contributions_frame_bytes(n);
	const double *v = pair->value[0], *limit = pair->value[1];
	FILE *out = bench_table(report);
	char text[12] = "-";

	if (load > 0)
		snprintf(text, sizeof(text), "%u", load);
	fprintf(out, "%10u %8u %-8s %5s %10.0f %8.0f", n, bytes, what, text, v[RATE], v[SAMPLES]);
	print_side(out, v);
	fputc(' ', out);
	print_side(out, limit);
	fprintf(out, "%s\n", pair_mark(pair));
	fflush(out);
	pair_observe(report, pair);
	for (unsigned int q = P50; q <= WORST; q++)
		bench_add(report, name[q],
			json_pack("{sisisssissss}", "elements", (int)n, "frame_bytes", (int)bytes,
				"what", what, "load_percent", (int)load, "over",
				target_options.over, "rx_checksum", target_options.checksum),
			v[q], "us", limit[q], "dpdk-testpmd io, as many frames of the size");
	bench_add(report, "rate",
		json_pack("{sisssiss}", "elements", (int)n, "what", what, "load_percent", (int)load,
			"over", target_options.over),
		v[RATE], "1/s", limit[RATE], "dpdk-testpmd io, as many frames of the size");
}

/* The capacity of the switch in a closed loop, undisturbed if that can be had. */
static int
capacity(void *context, unsigned int t, double value[PAIR_VALUES])
{
	struct subject *subject = context;
	struct closed_loop loop = {0};
	int rc = subject->contributions != NULL
		? contributions_run(subject->contributions, bench_common.phase_ms, &loop)
		: stream_run(subject->stream[t], FLYING, bench_common.phase_ms, &loop);

	pair_closed_loop(&loop, value);
	return rc;
}

static int
subject_run(struct bench_report *report, struct target target[2], unsigned int n, const char *what,
	struct subject *subject)
{
	double most[PAIR_VALUES] = {0};
	int rc;

	bench_progress(report, "%u elements, %s: capacity", n, what);
	rc = pair_once(&target[0], capacity, subject, 0, most);
	for (unsigned int i = 0; rc == 0 && i < loads.count; i++) {
		struct pair pair;

		bench_progress(report, "%u elements, %s, load %" PRIu64, n, what, loads.value[i]);
		subject->rate =
			loads.value[i] == 0 ? UNLOADED : most[0] * (double)loads.value[i] / 100;
		rc = pair_run(target, measure, subject, &pair);
		bench_progress(report, NULL);
		if (rc == 0)
			row(report, n, what, (unsigned int)loads.value[i], &pair);
	}
	return rc;
}

static int
point(struct bench_report *report, struct target target[2], unsigned int n)
{
	struct contributions_config config = {
		.target = &target[0],
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = n,
		.lose = (unsigned int)lose,
	};
	struct contributions *contributions = contributions_create(&config);
	struct subject subject = {
		.target = {&target[0], &target[1]}, .contributions = contributions};
	int rc = contributions == NULL || samples_create(&subject.samples, SAMPLES_MOST) < 0;

	for (unsigned int t = 0; rc == 0 && t < 2; t++) {
		target_select(&target[t]);
		subject.stream[t] =
			stream_create(&target[t], contributions_frame_bytes(n), (unsigned int)lose);
		target_deselect(&target[t]);
		rc = subject.stream[t] == NULL;
	}
	if (rc == 0)
		rc = subject_run(report, target, n, "reduce", &subject);
	subject.contributions = NULL;
	if (rc == 0)
		rc = subject_run(report, target, n, "forward", &subject);
	for (unsigned int t = 0; t < 2; t++)
		stream_destroy(subject.stream[t]);
	samples_destroy(&subject.samples);
	contributions_destroy(contributions);
	return rc == 0 ? 0 : 1;
}

static int
run(struct bench_report *report)
{
	static struct target target[2];
	int rc = target_enter();

	if (rc == 0)
		header(bench_table(report));
	for (unsigned int i = 0; rc == 0 && i < elements.count; i++) {
		unsigned int n = (unsigned int)elements.value[i];

		bench_progress(report, "starting the devices for %u elements", n);
		rc = target_start_both(target, (unsigned int)sources, (unsigned int)window, n,
			contributions_frame_bytes(n) + 4); /* as large in the extended form */
		if (rc == 0)
			rc = point(report, target, n);
		rc |= target_stop_both(target);
	}
	pair_note(bench_table(report));
	target_leave();
	return child_interrupted() ? 1 : rc;
}

const struct bench bench_latency = {
	"latency", "from the last contribution to the first result, beside testpmd", options, run};
