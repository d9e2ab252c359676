/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench rfc2544: the highest rate without loss, by bisection (RFC 2544, 26.1), of ordinary
 * frames and of contributions, beside dpdk-testpmd by the same procedure. Trials are far shorter
 * than the RFC's 60 s unless --trial-ms says so; a trial that failed while others held a CPU is
 * repeated.
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
#define TRIALS     6 /* of one rate */
#define RATE_LEAST 1000 /* below, nothing passes */

/* Values of a trial. */
enum { SENT_RATE, LOST };

static uint64_t sources = 8, window = 64, trial_ms = 20, lose;
static double resolution = 2;
static struct bench_list frames = {7, {64, 128, 256, 512, 1024, 1280, 1518}};

static const struct bench_option options[] = {
	{"frames", BENCH_LIST, &frames, 64, 1518, NULL, "bytes of a frame, with check sequence"},
	{"trial-ms", BENCH_UINT, &trial_ms, 1, 60000, NULL, "length of a trial, milliseconds"},
	{"resolution", BENCH_REAL, &resolution, 100, 50000, NULL,
		"the search ends when the rate is known to so many percent"},
	{"sources", BENCH_UINT, &sources, 2, TARGET_SOURCES_MAX, NULL, "sources of the job"},
	{"window", BENCH_UINT, &window, 1, TARGET_WINDOW_MAX, NULL,
		"blocks in flight, a power of two"},
	{"lose", BENCH_UINT, &lose, 0, 1000000000, NULL,
		"throw away one in so many frames that come back: it must be told; 0: none"},
	TARGET_OPTIONS,
	{0},
};

/* One of contributions and stream is there. */
struct trial {
	struct contributions *contributions;
	struct stream *stream;
	double rate;
	bool slow; /* the last one that failed: the generator could not offer its rate */
};

/* What a search found. */
struct found {
	double rate; /* 0: no rate passes */
	bool disturbed; /* the trial that bounds it was disturbed again and again */
	bool slow; /* what bounds it is the generator */
};

static int
closed_loop(void *context, unsigned int t, double value[PAIR_VALUES])
{
	const struct trial *trial = context;

	struct closed_loop loop = {0};
	int rc = trial->stream != NULL ? stream_run(trial->stream, FLYING, trial_ms, &loop)
				       : contributions_run(trial->contributions, trial_ms, &loop);

	(void)t;
	pair_closed_loop(&loop, value);
	return rc;
}

static int
offer(void *context, unsigned int t, double value[PAIR_VALUES])
{
	const struct trial *trial = context;
	struct open_loop result;
	int rc;

	(void)t;
	rc = trial->stream != NULL
		? stream_offer(trial->stream, trial->rate, trial_ms, NULL, 1, &result)
		: contributions_offer(trial->contributions, trial->rate, trial_ms, NULL, &result);
	value[LOST] = (double)(result.sent - result.done);
	value[SENT_RATE] = result.rate;
	return rc;
}

/*
 * Without loss, and at the rate that was asked for? The first trial decides when it passes. A
 * failure counts when it was undisturbed; after one, two trials must pass before a second one
 * fails: what loses frames now and then does not pass. *disturbed: nothing was decided in all
 * trials.
 */
static int
passes(struct target *target, struct trial *trial, bool *passed, bool *disturbed)
{
	unsigned int failures = 0, successes = 0;

	*disturbed = false;
	for (unsigned int i = 0; i < TRIALS; i++) {
		double value[PAIR_VALUES] = {0};
		bool spoilt;

		if (pair_try(target, offer, trial, 0, value, &spoilt) != 0)
			return -1;
		if (value[LOST] == 0 && value[SENT_RATE] >= KEPT_RATE * trial->rate) {
			successes++;
		} else {
			failures += !spoilt;
			trial->slow = value[LOST] == 0;
		}
		*passed = successes > failures;
		if (*passed || failures == 2)
			return 0;
	}
	*disturbed = true;
	return 0;
}

/*
 * The highest rate that passes, to the resolution. No rate is too high to be tried first: open loop
 * can beat what a window allows. A bound that nothing has failed at is tried itself, and raised
 * when it passes.
 */
static int
search(struct target *target, struct trial *trial, struct found *found)
{
	double value[PAIR_VALUES] = {0}, low = 0, high;
	bool failed = false, passed, disturbed;
	int rc = pair_once(target, closed_loop, trial, 0, value);

	*found = (struct found){0};
	high = 1.3 * value[0];
	while (rc == 0 && high >= RATE_LEAST && !child_interrupted()) {
		bool close = high - low <= resolution / 100 * high;

		if (close && failed)
			break;
		trial->rate = close ? high : low > 0 ? (low + high) / 2 : 0.7 * high;
		rc = passes(target, trial, &passed, &disturbed);
		if (rc == 0 && passed) {
			low = trial->rate;
			high = close ? 1.3 * high : high;
		} else if (rc == 0) {
			high = trial->rate;
			failed = true;
			found->disturbed = disturbed;
			found->slow = trial->slow;
		}
	}
	found->rate = low;
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
		"# frame: with check sequence, of reduce as whole elements make it; wire: with "
		"preamble and gap; testpmd: io\n"
		"#%7s %-8s %8s %12s %9s %12s %9s %6s\n#%7s %-8s %8s %12s %9s %12s %9s %6s\n",
		target_options.over, bench_on_huge_pages() ? "huge" : "4 KiB", trial_ms, resolution,
		sources, window, "frame", "what", "elements", "frames/s", "wire", "testpmd/s",
		"wire", "share", "bytes", "", "", "", "Gbit/s", "", "Gbit/s", "");
	fflush(out);
}

/* As a pair of measurements, for its marks. */
static struct pair
as_pair(const struct found found[2])
{
	struct pair pair = {.disturbed = found[0].disturbed || found[1].disturbed ? 1 : 0};

	for (unsigned int t = 0; t < 2; t++) {
		pair.value[t][0] = found[t].rate;
		pair.value[t][PAIR_IDLE] = found[t].slow ? 0 : 1;
		pair.value[t][PAIR_GOOD] = 1;
	}
	return pair;
}

static double
or_none(double rate)
{
	return rate > 0 ? rate : BENCH_NONE;
}

/* bytes: what a frame has, with check sequence. */
static void
row(struct bench_report *report, unsigned int bytes, unsigned int elements,
	const struct found found[2])
{
	const char *what = elements > 0 ? "reduce" : "forward";
	const struct pair pair = as_pair(found);
	double bits = (bytes + GAP_BYTES) * 8.0, best = found[0].rate, limit = found[1].rate;
	char count[12] = "-";

	if (elements > 0)
		snprintf(count, sizeof(count), "%u", elements);
	fprintf(bench_table(report), "%8u %-8s %8s %12.0f %9.2f %12.0f %9.2f %6.2f%s\n", bytes,
		what, count, best, best * bits * 1e-9, limit, limit * bits * 1e-9,
		limit > 0 ? best / limit : 0, pair_mark(&pair));
	fflush(bench_table(report));
	pair_observe(report, &pair);
	bench_add(report, what,
		json_pack("{sisisisiss}", "frame_bytes", (int)bytes, "elements", (int)elements,
			"sources", (int)sources, "trial_ms", (int)trial_ms, "over",
			target_options.over),
		or_none(best), "1/s", or_none(limit),
		"dpdk-testpmd io, same frames, ports and procedure");
}

/* Search with one device. 0, or -1 after a line. */
static int
search_with(struct target *target, unsigned int bytes, unsigned int elements, struct found *found)
{
	struct contributions_config config = {
		.target = target,
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = elements,
		.lose = (unsigned int)lose,
	};
	struct trial trial = {0};
	int rc = -1;

	target_select(target);
	if (elements > 0)
		trial.contributions = contributions_create(&config);
	else
		trial.stream = stream_create(target, bytes - 4, (unsigned int)lose);
	target_deselect(target);
	if (trial.contributions != NULL || trial.stream != NULL)
		rc = search(target, &trial, found);
	contributions_destroy(trial.contributions);
	stream_destroy(trial.stream);
	return rc == 0 ? 0 : -1;
}

/*
 * elements: 0 for ordinary frames of so many bytes, with check sequence. 0, or an exit status: 1
 * when something went wrong. *nothing: set when no rate passed, after a line.
 */
static int
point(struct bench_report *report, struct target target[2], unsigned int bytes,
	unsigned int elements, bool *nothing)
{
	struct found found[2];

	for (unsigned int t = 0; t < 2; t++) {
		bench_progress(report, "frames of %u bytes, %s, %s", bytes,
			elements > 0 ? "reduce" : "forward", target[t].child.name);
		if (search_with(&target[t], bytes, elements, &found[t]) < 0)
			return 1;
		bench_progress(report, NULL);
		if (found[t].rate > 0 || child_interrupted())
			continue;
		fprintf(stderr,
			"weir-bench: %s: frames of %u bytes (%s): no rate from %d per second on "
			"passes without loss%s\n",
			target[t].child.name, bytes, elements > 0 ? "reduce" : "forward",
			RATE_LEAST,
			found[t].disturbed ? ", but other processes disturbed the trials" : "");
		*nothing |= !found[t].disturbed;
	}
	row(report, bytes, elements, found);
	return child_interrupted() ? 1 : 0;
}

static int
run(struct bench_report *report)
{
	static struct target target[2];
	bool nothing = false;
	int rc = target_enter();

	if (rc == 0) {
		header(bench_table(report));
		bench_progress(report, "starting the devices");
		rc = target_start_both(target, (unsigned int)sources, (unsigned int)window,
			(FRAME_MOST - CONTRIBUTION_HEADERS) / 4, FRAME_MOST + 4);
	}
	for (unsigned int i = 0; rc == 0 && i < frames.count; i++)
		rc = point(report, target, (unsigned int)frames.value[i], 0, &nothing);
	for (unsigned int i = 0; rc == 0 && i < frames.count; i++) {
		/* Whole elements: a frame may be some bytes shorter than was asked for. */
		unsigned int n = ((unsigned int)frames.value[i] - HEAD_BYTES) / 4;

		rc = point(report, target, HEAD_BYTES + 4 * n, n, &nothing);
	}
	rc |= target_stop_both(target);
	pair_note(bench_table(report));
	target_leave();
	return child_interrupted() || (rc == 0 && nothing) ? 1 : rc;
}

const struct bench bench_rfc2544 = {
	"rfc2544", "highest rate without loss, by bisection, beside testpmd", options, run};
