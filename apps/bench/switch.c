/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole switch over real ports, beside dpdk-testpmd on the same frames, with one generator. It
 * checks every result of the switch, and testpmd's frames by their headers alone. Where it has time
 * to spare beside both, a ratio is that of the devices. Where it has none beside testpmd, testpmd's
 * rate is that of the generator, and the ratio flatters the switch; such rows are marked.
 *
 * weir-bench ports: rates in a closed loop.
 *
 * weir-bench latency: from a block's last contribution to its first result, and of an ordinary frame
 * of the same size, both beside testpmd with as many frames per second of that size, of which as
 * many are samples. The generator stamps around its bursts; load is open loop on a fixed schedule,
 * and a latency counts from when the frame was due: a late generator makes latencies longer, never
 * shorter. A lost frame is a sample, too: of the longest latency.
 *
 * weir-bench rfc2544: the highest rate without loss, by bisection (RFC 2544, 26.1). Trials are far
 * shorter than the RFC's 60 s unless --trial-ms says so; a trial that failed while others held a CPU
 * is repeated.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "apps/bench/pair.h"

#define FRAME_MOST   1514
#define HEAD_BYTES   58 /* of a contribution, with frame check sequence */
#define WIRE_EXTRA   24 /* of Ethernet: frame check sequence, preamble, gap */
#define TRIES        6
#define SAMPLES_MOST (1u << 20)
#define SAMPLES_P999 10000 /* with fewer, p99.9 is a guess */
#define UNLOADED     100000.0 /* frames per second: one at a time */
#define GIVE_UP_S    2
#define PHASES       4 /* of --phase-ms for latencies: tails need samples */
#define KEPT_RATE    0.98 /* a trial at less than this share of its schedule does not count */
#define RATE_LEAST   1000 /* below, nothing passes */

static uint64_t sources = 8, window = 64, lose, trial_ms = 20;
static double resolution = 2;
static struct option_list elements = {3, {1024, 256, 64}};
static struct option_list frames = {7, {64, 128, 256, 512, 1024, 1280, 1518}};
static struct option_list loads = {4, {0, 50, 80, 95}};
static bool spoil;

#define JOB_OPTIONS                                                                                \
	{"sources", 0, OPTION_UINT, &sources, 2, DEVICE_SOURCES_MAX, NULL, "sources of the job"},  \
		{"window", 0, OPTION_UINT, &window, 1, DEVICE_WINDOW_MAX, NULL,                    \
			"blocks in flight, a power of two"},                                       \
	{                                                                                          \
		"lose", 0, OPTION_UINT, &lose, 0, 1e9, NULL,                                       \
			"discard one in this number of returning frames, to check that the bench " \
			"notices; 0: none"                                                         \
	}

static const struct option_row ports_options[] = {
	{"elements", 0, OPTION_LIST, &elements, 1, 2000, NULL, "elements of a contribution, fp32"},
	{"frames", 0, OPTION_LIST, &frames, 64, 1518, NULL,
		"bytes of ordinary frames, with check sequence"},
	{"spoil", 0, OPTION_FLAG, &spoil, 0, 0, NULL,
		"damage results before they are checked, to see that it is noticed"},
	JOB_OPTIONS,
	{0},
};
static const struct option_row latency_options[] = {
	{"elements", 0, OPTION_LIST, &elements, 4, 2000, NULL, "elements of a contribution, fp32"},
	{"loads", 0, OPTION_LIST, &loads, 0, 200, NULL,
		"frames offered, percent of the switch's capacity; 0: 100000 per second"},
	JOB_OPTIONS,
	{0},
};
static const struct option_row rfc2544_options[] = {
	{"frames", 0, OPTION_LIST, &frames, 64, 1518, NULL,
		"bytes of a frame, with check sequence"},
	{"trial-ms", 0, OPTION_UINT, &trial_ms, 1, 60000, NULL, "length of a trial, milliseconds"},
	{"resolution", 0, OPTION_REAL, &resolution, 0.1, 50, "PERCENT",
		"end the search when the rate is known to this percentage"},
	JOB_OPTIONS,
	{0},
};

static struct device device[2];

/* What is measured: contributions of so many elements, or ordinary frames of so many bytes, without
 * check sequence. */
struct subject {
	struct traffic *traffic[2];
	struct samples samples;
	uint64_t ms; /* of a measurement */
	double rate; /* that is offered */
	bool blocks; /* latency: a block of the switch is one sample */
	bool slow; /* rfc2544: the last trial that failed: the generator could not offer its rate */
};

static int
make_traffic(
	struct subject *subject, unsigned int t, unsigned int n, unsigned int bytes, bool multicast)
{
	const struct traffic_config config = {.device = &device[t],
		.sources = n > 0 ? (unsigned int)sources : 0,
		.window = (unsigned int)window,
		.elements = n,
		.bytes = bytes,
		.multicast = multicast,
		.spoil = spoil,
		.lose = (unsigned int)lose};

	device_select(&device[t]);
	subject->traffic[t] = traffic_create(&config);
	device_deselect(&device[t]);
	return subject->traffic[t] == NULL;
}

static void
drop_traffic(struct subject *subject)
{
	for (unsigned int t = 0; t < 2; t++) {
		traffic_destroy(subject->traffic[t]);
		subject->traffic[t] = NULL;
	}
}

/* Start both devices, with jobs of n elements or without, and do `what`. An exit status. */
static int
with_devices(unsigned int n, unsigned int frame_bytes, int (*what)(unsigned int n))
{
	const struct device_config config = {.frame_bytes = frame_bytes,
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = n};
	int rc;

	bench_progress("starting the devices");
	rc = device_start_both(device, &config);
	if (rc == 0)
		rc = what(n);
	return device_stop_both(device) | rc;
}

/* Begin a bench and its table. note: lines. 0, or an exit status. */
static int
enter(const char *what, const char *note, const struct table_column *columns, size_t count)
{
	int rc = device_enter();

	if (rc != 0)
		return rc;
	bench_note("%s: weir-switch beside dpdk-testpmd (io) over %s, %s pages; %" PRIu64
		   " sources, window %" PRIu64,
		what, device_over, bench_pages(), sources, window);
	bench_note("%s", note);
	bench_note("*: other processes took more than %.0f %% of the time, in repetitions, too; "
		   "!: lost, a rate with losses is no capacity",
		100 * PAIR_LIMIT);
	bench_note("g: the generator was idle for less than %.0f %%: it is the limit, and beside "
		   "testpmd the ratio flatters the switch",
		100 * PAIR_BUSY);
	bench_table(columns, count);
	return 0;
}

/* With jobs of each number of elements. */
static int
for_elements(int (*what)(unsigned int n))
{
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < elements.count; i++) {
		unsigned int n = (unsigned int)elements.value[i];

		/* As large in the extended form. */
		rc = with_devices(n, traffic_frame_bytes(n) + 4, what);
	}
	return rc;
}

static int
leave(int rc)
{
	device_leave();
	return device_interrupted() ? 1 : rc;
}

/* A closed loop as a measurement: [0] is the rate. */
static int
measure_rate(void *context, unsigned int t, double value[PAIR_VALUES])
{
	struct subject *subject = context;
	struct closed_loop loop = {0};
	int rc = traffic_run(subject->traffic[t], subject->ms, &loop);

	value[0] = loop.rate;
	value[PAIR_IDLE] = loop.idle;
	value[PAIR_GOOD] = loop.good;
	value[PAIR_LOST] = (double)loop.lost;
	value[PAIR_DISTURBED] = loop.good < TRAFFIC_GOOD ? 1 - loop.good : 0;
	return rc;
}

/* A pair of rates. 0, or 1. */
static int
pair_of_rates(unsigned int n, unsigned int bytes, bool multicast, struct pair *pair)
{
	struct subject subject = {.ms = bench_common.phase_ms};
	int rc = make_traffic(&subject, 0, n, bytes, multicast) |
		make_traffic(&subject, 1, n, bytes, multicast);

	if (rc == 0)
		rc = pair_run(device, measure_rate, &subject, pair);
	drop_traffic(&subject);
	return rc;
}

#define RATE_COLUMNS                                                                               \
	{.key = "ratio", .title = "ratio", .digits = 2},                                           \
		{.key = "idle", .title = "idle", .unit = "%", .digits = 1, .width = 5},            \
		{.key = "idle_testpmd", .title = "idle", .unit = "tp. %", .digits = 1},            \
		PAIR_COLUMNS
#define RATE_CELLS(pair)                                                                           \
	TABLE_NUMBER((pair)->value[0][0] / (pair)->value[1][0]),                                   \
		TABLE_NUMBER(100 * (pair)->value[0][PAIR_IDLE]),                                   \
		TABLE_NUMBER(100 * (pair)->value[1][PAIR_IDLE]), PAIR_CELLS(pair)

static const struct table_column contributions_columns[] = {
	{.key = "elements", .title = "elements"},
	{.key = "frame_bytes", .title = "frame", .unit = "bytes"},
	{.key = "results", .title = "results", .width = 9},
	{.key = "rate", .title = "contrib", .unit = "1/s", .width = 10},
	{.key = "rate_testpmd", .title = "testpmd", .unit = "1/s", .width = 10},
	{.key = "payload", .title = "payload", .unit = "Gbit/s", .digits = 2},
	{.key = "wire", .title = "wire", .unit = "Gbit/s", .digits = 2},
	{.key = "wire_testpmd", .title = "testpmd", .unit = "Gbit/s", .digits = 2},
	{.key = "sources"},
	{.key = "window"},
	RATE_COLUMNS,
};

static int
contributions_rates(unsigned int n)
{
	unsigned int bytes = traffic_frame_bytes(n), payload = 4 * n, wire = bytes + WIRE_EXTRA;
	struct pair pair;

	for (unsigned int multicast = 0; multicast < 2; multicast++) {
		const char *results = multicast ? "multicast" : "unicast";
		const double *v = pair.value[0], *limit = pair.value[1];

		bench_progress("%u elements, results %s", n, results);
		if (pair_of_rates(n, bytes, multicast, &pair) != 0)
			return 1;
		bench_row((struct table_cell[]){TABLE_NUMBER(n), TABLE_NUMBER(bytes),
			TABLE_TEXT(results), TABLE_NUMBER(v[0]), TABLE_NUMBER(limit[0]),
			TABLE_NUMBER(v[0] * payload * 8e-9), TABLE_NUMBER(v[0] * wire * 8e-9),
			TABLE_NUMBER(limit[0] * wire * 8e-9), TABLE_NUMBER(sources),
			TABLE_NUMBER(window), RATE_CELLS(&pair)});
	}
	return 0;
}

static const struct table_column frames_columns[] = {
	{.key = "frame_bytes", .title = "frame", .unit = "bytes"},
	{.key = "rate", .title = "frames", .unit = "1/s", .width = 10},
	{.key = "rate_testpmd", .title = "testpmd", .unit = "1/s", .width = 10},
	{.key = "wire", .title = "wire", .unit = "Gbit/s", .digits = 2},
	RATE_COLUMNS,
};

static int
frames_rates(unsigned int n)
{
	struct pair pair;

	(void)n;
	bench_note("ordinary frames, port 0 to port 1, addresses learned; frame: with its check "
		   "sequence");
	bench_table(frames_columns, RTE_DIM(frames_columns));
	for (unsigned int i = 0; i < frames.count; i++) {
		unsigned int bytes = (unsigned int)frames.value[i]; /* with check sequence */
		const double *v = pair.value[0];

		bench_progress("frames of %u bytes", bytes);
		if (pair_of_rates(0, bytes - 4, false, &pair) != 0)
			return 1;
		bench_row((struct table_cell[]){TABLE_NUMBER(bytes), TABLE_NUMBER(v[0]),
			TABLE_NUMBER(pair.value[1][0]),
			TABLE_NUMBER(v[0] * (bytes - 4 + WIRE_EXTRA) * 8e-9), RATE_CELLS(&pair)});
	}
	return 0;
}

static int
ports_run(void)
{
	int rc = enter("ports",
		"idle: of the generator, beside the switch and testpmd; lost: not back within "
		"50 ms, in all measurements of the row",
		contributions_columns, RTE_DIM(contributions_columns));

	if (rc == 0)
		rc = for_elements(contributions_rates);
	if (rc == 0)
		rc = with_devices(0, FRAME_MOST, frames_rates);
	return leave(rc);
}

const struct bench bench_ports = {
	.name = "ports",
	.help = "the whole switch over memif or veth ports, beside testpmd",
	.options = ports_options,
	.more = device_options,
	.run = ports_run,
};

/* Values of a measurement of latencies; the pairs are sorted by the first. */
enum { P50, P99, P999, WORST, RATE, SAMPLES };

/* The value at a quantile, [0, 1], of n sorted ones by the nearest rank: the least that so great a share does
 * not exceed. */
static double
quantile_of(const double *sorted, size_t n, double quantile)
{
	/* What a product of decimals lacks or has too much must not move the rank. */
	double rank = ceil(quantile * (double)n - 1e-9 * (double)n);

	return sorted[rank < 1 ? 0 : rank > (double)n ? n - 1 : (size_t)rank - 1];
}

/* Beside blocks one of testpmd's frames in `sources` is a sample, so that it has as many. */
static int
measure_latency(void *context, unsigned int t, double value[PAIR_VALUES])
{
	static const double quantile[] = {0.5, 0.99, 0.999, 1};
	struct subject *subject = context;
	unsigned int each = subject->blocks && t == 1 ? (unsigned int)sources : 1;
	struct samples *s = &subject->samples;
	uint64_t limit = rte_rdtsc() + GIVE_UP_S * rte_get_tsc_hz();
	struct open_loop result;

	s->count = 0;
	/* On a busy machine the device may not even run in a short time. */
	do {
		if (traffic_offer(subject->traffic[t], subject->rate, PHASES * subject->ms, s, each,
			    &result) != 0)
			return -1;
		value[PAIR_LOST] += (double)(result.sent - result.done);
	} while (s->count == 0 && result.sent > 0 && rte_rdtsc() < limit);
	if (s->count == 0 && result.sent > 0) {
		device_blame(&device[t], "nothing comes through in time");
		return -1;
	}
	qsort(s->value, s->count, sizeof(double), bench_ascending);
	for (unsigned int q = P50; q <= WORST; q++)
		value[q] = s->count == 0 /* a capacity so low that not one frame was due */
			? BENCH_NONE
			: 1e6 / (double)rte_get_tsc_hz() *
				quantile_of(s->value, s->count, quantile[q]);
	if (s->count < SAMPLES_P999)
		value[P999] = BENCH_NONE;
	value[RATE] = result.rate;
	value[SAMPLES] = (double)s->count;
	value[PAIR_DISTURBED] = s->count == 0;
	return 0;
}

#define LATENCY_COLUMNS(name, digit)                                                               \
	{.key = name, .title = name, .unit = "us", .digits = digit, .width = 7},                   \
	{                                                                                          \
		.key = name "_testpmd", .title = "testpmd", .unit = "us", .digits = digit          \
	}
static const struct table_column latency_columns[] = {
	{.key = "elements", .title = "elements"},
	{.key = "frame_bytes", .title = "frame", .unit = "bytes"},
	{.key = "what", .title = "what", .width = 7},
	{.key = "load_percent", .title = "load", .unit = "%"},
	{.key = "rate", .title = "frames", .unit = "1/s", .width = 9},
	{.key = "rate_testpmd"},
	{.key = "samples", .title = "samples", .width = 7},
	LATENCY_COLUMNS("p50", 2),
	LATENCY_COLUMNS("p99", 2),
	LATENCY_COLUMNS("p99.9", 1),
	LATENCY_COLUMNS("max", 1),
	PAIR_COLUMNS,
};

/* Latencies at each load, of what has traffic. */
static int
latency_of(unsigned int n, const char *what, struct subject *subject)
{
	double most[PAIR_VALUES] = {0};
	unsigned int bytes = traffic_frame_bytes(n);
	struct pair pair;
	int rc;

	bench_progress("%u elements, %s: capacity", n, what);
	rc = pair_once(&device[0], measure_rate, subject, 0, TRIES, most, NULL);
	for (unsigned int i = 0; rc == 0 && i < loads.count; i++) {
		const double *v = pair.value[0], *limit = pair.value[1];

		bench_progress("%u elements, %s, load %" PRIu64, n, what, loads.value[i]);
		subject->rate =
			loads.value[i] == 0 ? UNLOADED : most[0] * (double)loads.value[i] / 100;
		rc = pair_run(device, measure_latency, subject, &pair);
		if (rc == 0)
			bench_row((struct table_cell[]){TABLE_NUMBER(n), TABLE_NUMBER(bytes),
				TABLE_TEXT(what), TABLE_NUMBER(loads.value[i]),
				TABLE_NUMBER(v[RATE]), TABLE_NUMBER(limit[RATE]),
				TABLE_NUMBER(v[SAMPLES]), TABLE_NUMBER(v[P50]),
				TABLE_NUMBER(limit[P50]), TABLE_NUMBER(v[P99]),
				TABLE_NUMBER(limit[P99]), TABLE_NUMBER(v[P999]),
				TABLE_NUMBER(limit[P999]), TABLE_NUMBER(v[WORST]),
				TABLE_NUMBER(limit[WORST]), PAIR_CELLS(&pair)});
	}
	return rc;
}

static int
latencies(unsigned int n)
{
	struct subject subject = {.ms = bench_common.phase_ms, .samples = {.most = SAMPLES_MOST}};
	int rc = 0;

	subject.samples.value = calloc(SAMPLES_MOST, sizeof(double));
	for (unsigned int forward = 0; rc == 0 && forward < 2; forward++) {
		unsigned int bytes = traffic_frame_bytes(n);

		subject.blocks = !forward;
		rc = subject.samples.value == NULL ||
			make_traffic(&subject, 0, forward ? 0 : n, bytes, false) |
				make_traffic(&subject, 1, 0, bytes, false);
		if (rc == 0)
			rc = latency_of(n, forward ? "forward" : "reduce", &subject);
		drop_traffic(&subject);
	}
	free(subject.samples.value);
	return rc == 0 ? 0 : 1;
}

static int
latency_run(void)
{
	int rc = enter("latency",
		"reduce: a block's last contribution in, its first result out; forward: an "
		"ordinary frame of the same size\n"
		"# load: of the switch's capacity in a closed loop, 0: 100000 frames per second; "
		"testpmd has as many frames\n"
		"# counted from when a frame was due, with the generator's own time; p99.9 "
		"of " RTE_STR(SAMPLES_P999) " samples at least; what is lost is among them",
		latency_columns, RTE_DIM(latency_columns));

	return leave(rc == 0 ? for_elements(latencies) : rc);
}

const struct bench bench_latency = {
	.name = "latency",
	.help = "from the last contribution to the first result, beside testpmd",
	.options = latency_options,
	.more = device_options,
	.run = latency_run,
};

/* What a search found. */
struct found {
	double rate; /* 0: no rate passes */
	bool disturbed; /* the trial that bounds it was disturbed again and again */
	bool slow; /* what bounds it is the generator */
};

/* A trial: [0] the rate at which frames were sent. */
static int
offer(void *context, unsigned int t, double value[PAIR_VALUES])
{
	struct subject *subject = context;
	struct open_loop result;
	int rc = traffic_offer(subject->traffic[t], subject->rate, subject->ms, NULL, 1, &result);

	value[0] = result.rate;
	value[PAIR_LOST] = (double)(result.sent - result.done);
	return rc;
}

/*
 * Does a rate pass: without loss, and offered in full? The first trial decides when it passes. A
 * failure counts when it was undisturbed; after one, two trials must pass before a second one
 * fails: a rate that loses frames now and then does not pass. *disturbed: no trial was decisive.
 */
static int
passes(struct subject *subject, unsigned int t, bool *passed, bool *disturbed)
{
	unsigned int failures = 0, successes = 0;

	*disturbed = false;
	for (unsigned int i = 0; i < TRIES; i++) {
		double value[PAIR_VALUES] = {0};
		bool spoilt;

		if (pair_once(&device[t], offer, subject, t, 1, value, &spoilt) != 0)
			return -1;
		if (value[PAIR_LOST] == 0 && value[0] >= KEPT_RATE * subject->rate) {
			successes++;
		} else {
			failures += !spoilt;
			subject->slow = value[PAIR_LOST] == 0;
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
search(struct subject *subject, unsigned int t, struct found *found)
{
	double value[PAIR_VALUES] = {0}, low = 0, high;
	bool failed = false, passed = false, disturbed = false;
	int rc = pair_once(&device[t], measure_rate, subject, t, TRIES, value, NULL);

	*found = (struct found){0};
	high = 1.3 * value[0];
	while (rc == 0 && high >= RATE_LEAST && !device_interrupted()) {
		bool close = high - low <= resolution / 100 * high;

		if (close && failed)
			break;
		subject->rate = close ? high : low > 0 ? (low + high) / 2 : 0.7 * high;
		rc = passes(subject, t, &passed, &disturbed);
		if (rc == 0 && passed) {
			low = subject->rate;
			high = close ? 1.3 * high : high;
		} else if (rc == 0) {
			high = subject->rate;
			failed = true;
			found->disturbed = disturbed;
			found->slow = subject->slow;
		}
	}
	found->rate = low;
	return rc;
}

static const struct table_column rfc2544_columns[] = {
	{.key = "frame_bytes", .title = "frame", .unit = "bytes"},
	{.key = "what", .title = "what", .width = 7},
	{.key = "elements", .title = "elements"},
	{.key = "rate", .title = "frames", .unit = "1/s", .width = 10},
	{.key = "rate_testpmd", .title = "testpmd", .unit = "1/s", .width = 10},
	{.key = "wire", .title = "wire", .unit = "Gbit/s", .digits = 2},
	{.key = "wire_testpmd", .title = "testpmd", .unit = "Gbit/s", .digits = 2},
	{.key = "ratio", .title = "share", .digits = 2},
	{.key = "sources"},
	{.key = "trial_ms"},
	PAIR_COLUMNS,
};

static double
or_none(double rate)
{
	return rate > 0 ? rate : BENCH_NONE;
}

/* bytes: of a frame, with check sequence; n: elements, 0: ordinary frames. *nothing: set when no
 * rate passed, after a line. 0, or 1. */
static int
rfc2544_point(unsigned int bytes, unsigned int n, bool *nothing)
{
	const char *what = n > 0 ? "reduce" : "forward";
	double gbits = (bytes - 4 + WIRE_EXTRA) * 8e-9;
	struct pair pair = {.disturbed = 0};
	double best[2];

	for (unsigned int t = 0; t < 2; t++) {
		struct subject subject = {.ms = trial_ms};
		struct found found;
		int rc = make_traffic(&subject, t, n, bytes - 4, false);

		bench_progress("frames of %u bytes, %s, %s", bytes, what, device[t].name);
		if (rc == 0)
			rc = search(&subject, t, &found);
		drop_traffic(&subject);
		if (rc != 0)
			return 1;
		/* As a pair of measurements, for its marks. */
		pair.value[t][PAIR_IDLE] = found.slow ? 0 : 1;
		pair.value[t][PAIR_GOOD] = 1;
		pair.disturbed = found.disturbed ? 1 : pair.disturbed;
		best[t] = found.rate;
		if (found.rate > 0 || device_interrupted())
			continue;
		warnx("%s: frames of %u bytes (%s): no rate from %d per second on passes without "
		      "loss%s",
			device[t].name, bytes, what, RATE_LEAST,
			found.disturbed ? ", but other processes disturbed the trials" : "");
		*nothing |= !found.disturbed;
	}
	bench_row((struct table_cell[]){TABLE_NUMBER(bytes), TABLE_TEXT(what), TABLE_NUMBER(n),
		TABLE_NUMBER(or_none(best[0])), TABLE_NUMBER(or_none(best[1])),
		TABLE_NUMBER(best[0] * gbits), TABLE_NUMBER(best[1] * gbits),
		TABLE_NUMBER(best[0] / best[1]), TABLE_NUMBER(sources), TABLE_NUMBER(trial_ms),
		PAIR_CELLS(&pair)});
	return device_interrupted() ? 1 : 0;
}

static int
rfc2544_rates(unsigned int most)
{
	bool nothing = false;

	(void)most;
	for (unsigned int i = 0; i < 2 * frames.count; i++) {
		unsigned int bytes = (unsigned int)frames.value[i % frames.count];
		/* Whole elements: a frame may be some bytes shorter than given. */
		unsigned int n = i < frames.count ? 0 : (bytes - HEAD_BYTES) / 4;

		if (rfc2544_point(n > 0 ? HEAD_BYTES + 4 * n : bytes, n, &nothing) != 0)
			return 1;
	}
	return nothing ? 1 : 0;
}

static int
rfc2544_run(void)
{
	char note[256];
	int rc;

	snprintf(note, sizeof(note),
		"highest rate without loss; trials of %" PRIu64 " ms, to %g %%\n"
		"# forward: ordinary frames; reduce: contributions, every result comes back "
		"right; frame: with check sequence",
		trial_ms, resolution);
	rc = enter("rfc2544", note, rfc2544_columns, RTE_DIM(rfc2544_columns));
	if (rc == 0)
		rc = with_devices((FRAME_MOST - HEAD_BYTES + 4) / 4, FRAME_MOST + 4, rfc2544_rates);
	return leave(rc);
}

const struct bench bench_rfc2544 = {
	.name = "rfc2544",
	.help = "highest rate without loss, by bisection, beside testpmd",
	.options = rfc2544_options,
	.more = device_options,
	.run = rfc2544_run,
};
