/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench rfc2544: the highest rate without loss, by bisection (RFC 2544, 26.1), of ordinary frames and of
 * contributions, beside dpdk-testpmd by the same procedure. Trials are far shorter than the RFC's 60 s
 * unless --trial-ms says so; a trial that failed while others held a CPU is repeated.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/contributions.h"
#include "apps/bench/pair.h"
#include "apps/bench/stream.h"

#define FRAME_MOST 1514
#define GAP_BYTES  20 /* of Ethernet: preamble and gap */
#define HEAD_BYTES (CONTRIBUTION_HEADERS + 4) /* with frame check sequence */
#define FLYING     256
#define KEPT_RATE  0.98 /* a trial at less than this share of its schedule tells nothing */

/* Values of a trial. */
enum { LOST, SENT_RATE };

static uint64_t sources = 8, window = 64, trial_ms = 20;
static double resolution = 2;
static struct bench_list frames = {7, {64, 128, 256, 512, 1024, 1280, 1518}};

static const struct bench_option options[] = {
	{"frames", BENCH_LIST, &frames, 64, 1518, NULL, "bytes of a frame, with check sequence"},
	{"trial-ms", BENCH_UINT, &trial_ms, 1, 60000, NULL, "length of a trial, milliseconds"},
	{"resolution", BENCH_REAL, &resolution, 0, 0, NULL,
		"the search ends when the rate is known to so many percent"},
	{"sources", BENCH_UINT, &sources, 2, TARGET_SOURCES_MAX, NULL, "sources of the job"},
	{"window", BENCH_UINT, &window, 1, TARGET_WINDOW_MAX, NULL,
		"blocks in flight, a power of two"},
	TARGET_OPTIONS,
	{0},
};

/* One of contributions and stream is there. */
struct trial {
	struct contributions *contributions;
	struct stream *stream;
	double rate;
};

static int
closed_loop(void *context, unsigned int t, double value[PAIR_VALUES])
{
	const struct trial *trial = context;

	(void)t;
	return trial->stream != NULL ? stream_run(trial->stream, FLYING, trial_ms, &value[0],
					       &value[1], &value[PAIR_DISTURBED])
				     : contributions_run(trial->contributions, trial_ms, &value[0],
					       &value[1], &value[PAIR_DISTURBED]);
}

static int
offer(void *context, unsigned int t, double value[PAIR_VALUES])
{
	const struct trial *trial = context;
	struct open_loop result;
	int rc;

	(void)t;
	rc = trial->stream != NULL
		? stream_offer(trial->stream, trial->rate, trial_ms, NULL, &result)
		: contributions_offer(trial->contributions, trial->rate, trial_ms, NULL, &result);
	value[LOST] = (double)(result.sent - result.done);
	value[SENT_RATE] = result.rate;
	return rc;
}

/* Without loss, and at the rate that was asked for? A failure counts when it was undisturbed, or
 * comes again and again. */
static int
passes(struct target *target, struct trial *trial, bool *passed)
{
	int rc = 0;

	*passed = false;
	for (unsigned int i = 0, failures = 0; rc == 0 && !*passed && i < 6 && failures < 2; i++) {
		double value[PAIR_VALUES] = {0};
		bool disturbed;

		rc = pair_try(target, offer, trial, 0, value, &disturbed);
		*passed = value[LOST] == 0 && value[SENT_RATE] >= KEPT_RATE * trial->rate;
		failures += !disturbed;
	}
	return rc;
}

/* The highest rate that passes, to the resolution. */
static int
search(struct target *target, struct trial *trial, double *best)
{
	double value[PAIR_VALUES] = {0}, low = 0, high;
	int rc = pair_once(target, closed_loop, trial, 0, value);

	/* Open loop can beat what a window allows, and no rate is too high to be tried first. */
	high = 1.3 * value[0];
	while (rc == 0 && high - low > resolution / 100 * high && !child_interrupted()) {
		bool passed;

		trial->rate = low == 0 ? 0.7 * high : (low + high) / 2;
		rc = passes(target, trial, &passed);
		if (passed)
			low = trial->rate;
		else
			high = trial->rate;
		if (high < 1000)
			break; /* nothing passes */
	}
	*best = low;
	return rc;
}

static void
header(FILE *out)
{
	fprintf(out,
		"# rfc2544: highest rate without loss over %s, %s pages; trials of %" PRIu64
		" ms, to %g %%\n"
		"# forward: ordinary frames; reduce: contributions of %" PRIu64 " sources, window "
		"%" PRIu64 ", every result comes back right\n"
		"# frame: with check sequence; wire: with preamble and gap; testpmd: io\n"
		"#%7s %-8s %8s %12s %9s %12s %9s %6s\n#%7s %-8s %8s %12s %9s %12s %9s %6s\n",
		target_options.over, bench_on_huge_pages() ? "huge" : "4 KiB", trial_ms, resolution,
		sources, window, "frame", "what", "elements", "frames/s", "wire", "testpmd/s",
		"wire", "share", "bytes", "", "", "", "Gbit/s", "", "Gbit/s", "");
	fflush(out);
}

static void
row(struct bench_report *report, unsigned int bytes, unsigned int elements, const double best[2])
{
	const char *what = elements > 0 ? "reduce" : "forward";
	double bits = (bytes + GAP_BYTES) * 8.0;
	char count[12] = "-";

	if (elements > 0)
		snprintf(count, sizeof(count), "%u", elements);
	fprintf(bench_table(report), "%8u %-8s %8s %12.0f %9.2f %12.0f %9.2f %6.2f\n", bytes, what,
		count, best[0], best[0] * bits * 1e-9, best[1], best[1] * bits * 1e-9,
		best[1] > 0 ? best[0] / best[1] : 0);
	fflush(bench_table(report));
	bench_add(report, what,
		json_pack("{sisisisiss}", "frame_bytes", (int)bytes, "elements", (int)elements,
			"sources", (int)sources, "trial_ms", (int)trial_ms, "over",
			target_options.over),
		best[0], "1/s", best[1], "dpdk-testpmd io, same frames, ports and procedure");
}

/* elements: 0 for ordinary frames of so many bytes. */
static int
point(struct bench_report *report, struct target target[2], unsigned int bytes,
	unsigned int elements)
{
	double best[2] = {0};
	int rc = 0;

	for (unsigned int t = 0; rc == 0 && t < 2; t++) {
		struct contributions_config config = {
			.target = &target[t],
			.sources = (unsigned int)sources,
			.window = (unsigned int)window,
			.elements = elements,
		};
		struct trial trial = {0};

		bench_progress(report, "frames of %u bytes, %s, %s", bytes,
			elements > 0 ? "reduce" : "forward", target[t].child.name);
		target_select(&target[t]);
		if (elements > 0)
			trial.contributions = contributions_create(&config);
		else
			trial.stream = stream_create(&target[t], bytes - 4);
		target_deselect(&target[t]);
		rc = trial.contributions == NULL && trial.stream == NULL;
		if (rc == 0)
			rc = search(&target[t], &trial, &best[t]);
		contributions_destroy(trial.contributions);
		stream_destroy(trial.stream);
	}
	bench_progress(report, NULL);
	if (rc == 0) {
		row(report, bytes, elements, best);
	}
	return rc == 0 ? 0 : 1;
}

static int
run(struct bench_report *report)
{
	static struct target target[2];
	int rc = target_enter();

	if (rc == 0) {
		header(bench_table(report));
		bench_progress(report, "starting the devices");
		rc = target_start_both(target, (unsigned int)sources, (unsigned int)window,
			(FRAME_MOST - CONTRIBUTION_HEADERS) / 4, FRAME_MOST + 4);
	}
	for (unsigned int i = 0; rc == 0 && i < frames.count; i++)
		rc = point(report, target, (unsigned int)frames.value[i], 0);
	for (unsigned int i = 0; rc == 0 && i < frames.count; i++)
		rc = point(report, target, (unsigned int)frames.value[i],
			((unsigned int)frames.value[i] - HEAD_BYTES) / 4);
	rc |= target_stop_both(target);
	pair_note(bench_table(report));
	target_leave();
	return child_interrupted() ? 1 : rc;
}

const struct bench bench_rfc2544 = {
	"rfc2544", "highest rate without loss, by bisection, beside testpmd", options, run};
