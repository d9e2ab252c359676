/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench ports: the whole switch over real ports, beside dpdk-testpmd on the same frames. The
 * generator is the same for both and checks every result of the switch, and testpmd's frames by
 * their headers alone. Where the generator has time to spare beside both, the ratio is that of the
 * devices. Where it has none beside testpmd, it is the generator that testpmd's rate tells of, and
 * the ratio flatters the switch; such rows are marked.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/contributions.h"
#include "apps/bench/pair.h"
#include "apps/bench/stream.h"

#define FLYING     256
#define FRAME_MOST 1514
#define WIRE_EXTRA 24 /* of Ethernet: frame check sequence, preamble, gap */

static uint64_t sources = 8, window = 64, lose;
static struct bench_list elements = {3, {1024, 256, 64}};
static struct bench_list frames = {7, {64, 128, 256, 512, 1024, 1280, 1518}};
static bool spoil;

static const struct bench_option options[] = {
	{"elements", BENCH_LIST, &elements, 1, 2000, NULL, "elements of a contribution, fp32"},
	{"frames", BENCH_LIST, &frames, 64, 1518, NULL,
		"bytes of ordinary frames, with check sequence"},
	{"sources", BENCH_UINT, &sources, 2, TARGET_SOURCES_MAX, NULL, "sources of the job"},
	{"window", BENCH_UINT, &window, 1, 4096, NULL, "blocks in flight, a power of two"},
	{"spoil", BENCH_FLAG, &spoil, 0, 0, NULL,
		"damage results before their check: it must fail"},
	{"lose", BENCH_UINT, &lose, 0, 1000000000, NULL,
		"throw away one in so many frames that come back: it must be told; 0: none"},
	TARGET_OPTIONS,
	{0},
};

static void
header(FILE *out)
{
	fprintf(out,
		"# ports: weir-switch beside dpdk-testpmd (io) over %s%s, %s pages; %" PRIu64
		" sources, window %" PRIu64 "\n"
		"# received by the device; wire: with Ethernet's preamble, check sequence and gap; "
		"idle: of the "
		"generator beside the switch, beside testpmd\n"
		"# every result's payload is checked; testpmd's frames only by header\n"
		"# good: share of the time by which the rate was computed, the rest took the "
		"scheduler; lost: not back within 50 ms, in all measurements of the row\n"
		"#%9s %8s %-9s %12s %9s %9s %12s %6s %6s %6s %6s %6s %6s %6s\n"
		"#%9s %8s %-9s %12s %9s %9s %12s %6s %6s %6s %6s %6s %6s %6s\n",
		target_options.over,
		strcmp(target_options.zero_copy, "yes") == 0 ? ", zero-copy" : "",
		bench_on_huge_pages() ? "huge" : "4 KiB", sources, window, "elements", "frame",
		"results", "contrib/s", "payload", "wire", "testpmd/s", "ratio", "idle", "idle",
		"good", "good", "lost", "lost", "", "bytes", "", "", "Gbit/s", "Gbit/s", "", "",
		"%", "tp. %", "%", "tp. %", "", "tp.");
	fflush(out);
}

/* The end of a row: how far the generator and the scheduler let it count. */
static void
print_trust(FILE *out, const struct pair *pair)
{
	const double *v = pair->value[0], *limit = pair->value[1];

	fprintf(out, " %6.1f %6.1f %6.0f %6.0f %6.0f %6.0f%s\n", 100 * v[PAIR_IDLE],
		100 * limit[PAIR_IDLE], 100 * v[PAIR_GOOD], 100 * limit[PAIR_GOOD], v[PAIR_LOST],
		limit[PAIR_LOST], pair_mark(pair));
	fflush(out);
}

static void
row(struct bench_report *report, unsigned int n, bool multicast, const struct pair *pair)
{
	const char *results = multicast ? "multicast" : "unicast";
	unsigned int frame = contributions_frame_bytes(n);
	double rate = pair->value[0][0], limit = pair->value[1][0];
	double payload = rate * 4 * n, wire = rate * (frame + WIRE_EXTRA);
	json_t *params = json_pack("{sisisisisssssbss}", "elements", (int)n, "sources",
		(int)sources, "window", (int)window, "frame_bytes", (int)frame, "results", results,
		"over", target_options.over, "zero_copy",
		strcmp(target_options.zero_copy, "yes") == 0, "rx_checksum",
		target_options.checksum);

	fprintf(bench_table(report), "%10u %8u %-9s %12.0f %9.2f %9.2f %12.0f %6.2f", n, frame,
		results, rate, payload * 8e-9, wire * 8e-9, limit, rate / limit);
	print_trust(bench_table(report), pair);
	pair_observe(report, pair);
	bench_add(report, "contributions", json_incref(params), rate, "1/s", limit,
		"dpdk-testpmd io, same frames and ports");
	bench_add(report, "payload", json_incref(params), payload, "byte/s", limit * 4 * n,
		"dpdk-testpmd io, same frames and ports");
	bench_add(report, "wire", json_incref(params), wire, "byte/s", limit * (frame + WIRE_EXTRA),
		"dpdk-testpmd io, same frames and ports");
	bench_add(report, "generator_idle", params, pair->value[0][PAIR_IDLE], "share",
		pair->value[1][PAIR_IDLE], "beside dpdk-testpmd");
}

static void
stream_header(FILE *out)
{
	fprintf(out,
		"# ordinary frames, port 0 to port 1, addresses learned, %u under way; frame: with "
		"its check sequence\n"
		"#%9s %12s %9s %12s %6s %6s %6s %6s %6s %6s %6s\n"
		"#%9s %12s %9s %12s %6s %6s %6s %6s %6s %6s %6s\n",
		FLYING, "frame", "frames/s", "wire", "testpmd/s", "ratio", "idle", "idle", "good",
		"good", "lost", "lost", "bytes", "", "Gbit/s", "", "", "%", "tp. %", "%", "tp. %",
		"", "tp.");
	fflush(out);
}

static void
stream_row(struct bench_report *report, unsigned int bytes, const struct pair *pair)
{
	double rate = pair->value[0][0], limit = pair->value[1][0];
	json_t *params = json_pack("{sisssb}", "frame_bytes", (int)bytes, "over",
		target_options.over, "zero_copy", strcmp(target_options.zero_copy, "yes") == 0);

	fprintf(bench_table(report), "%10u %12.0f %9.2f %12.0f %6.2f", bytes, rate,
		rate * (bytes + 20) * 8e-9, limit, rate / limit);
	print_trust(bench_table(report), pair);
	pair_observe(report, pair);
	bench_add(report, "frames", params, rate, "1/s", limit,
		"dpdk-testpmd io, same frames and ports");
}

static int
measure_contributions(void *context, unsigned int t, double value[PAIR_VALUES])
{
	struct contributions **c = context;
	struct closed_loop loop = {0};
	int rc = contributions_run(c[t], bench_common.phase_ms, &loop);

	pair_closed_loop(&loop, value);
	return rc;
}

static int
contributions_point(
	struct bench_report *report, struct target target[2], unsigned int n, bool multicast)
{
	struct contributions *c[2];
	struct pair pair;
	int rc = 0;

	bench_progress(report, "%u elements, results %s", n, multicast ? "multicast" : "unicast");
	for (unsigned int t = 0; t < 2; t++) {
		struct contributions_config config = {&target[t], (unsigned int)sources,
			(unsigned int)window, n, multicast, spoil, (unsigned int)lose};

		c[t] = contributions_create(&config);
		rc |= c[t] == NULL;
	}
	if (rc == 0)
		rc = pair_run(target, measure_contributions, c, &pair);
	bench_progress(report, NULL);
	if (rc == 0)
		row(report, n, multicast, &pair);
	for (unsigned int t = 0; t < 2; t++)
		contributions_destroy(c[t]);
	return rc == 0 ? 0 : 1;
}

static int
measure_stream(void *context, unsigned int t, double value[PAIR_VALUES])
{
	struct stream **s = context;
	struct closed_loop loop = {0};
	int rc = stream_run(s[t], FLYING, bench_common.phase_ms, &loop);

	pair_closed_loop(&loop, value);
	return rc;
}

/* bytes: with the frame check sequence. */
static int
stream_point(struct bench_report *report, struct target target[2], unsigned int bytes)
{
	struct stream *s[2];
	struct pair pair;
	int rc = 0;

	bench_progress(report, "frames of %u bytes", bytes);
	for (unsigned int t = 0; t < 2; t++) {
		target_select(&target[t]);
		s[t] = stream_create(&target[t], bytes - 4, (unsigned int)lose);
		target_deselect(&target[t]);
		rc |= s[t] == NULL;
	}
	if (rc == 0)
		rc = pair_run(target, measure_stream, s, &pair);
	bench_progress(report, NULL);
	if (rc == 0)
		stream_row(report, bytes, &pair);
	for (unsigned int t = 0; t < 2; t++)
		stream_destroy(s[t]);
	return rc == 0 ? 0 : 1;
}

static int
contributions_size(struct bench_report *report, unsigned int n)
{
	static struct target target[2];
	int rc;

	bench_progress(report, "starting the devices for %u elements", n);
	rc = target_start_both(target, (unsigned int)sources, (unsigned int)window, n,
		contributions_frame_bytes(n) + 4); /* as large in the extended form */
	if (rc == 0)
		rc = contributions_point(report, target, n, false);
	if (rc == 0)
		rc = contributions_point(report, target, n, true);
	return target_stop_both(target) | rc;
}

static int
streams(struct bench_report *report)
{
	static struct target target[2];
	int rc;

	bench_progress(report, "starting the devices for ordinary frames");
	rc = target_start_both(target, 0, 0, 0, FRAME_MOST);
	if (rc == 0)
		stream_header(bench_table(report));
	for (unsigned int i = 0; rc == 0 && i < frames.count; i++)
		rc = stream_point(report, target, (unsigned int)frames.value[i]);
	return target_stop_both(target) | rc;
}

static int
run(struct bench_report *report)
{
	int rc = target_enter();

	if (rc == 0)
		header(bench_table(report));
	for (unsigned int i = 0; rc == 0 && i < elements.count; i++)
		rc = contributions_size(report, (unsigned int)elements.value[i]);
	if (rc == 0)
		rc = streams(report);
	pair_note(bench_table(report));
	target_leave();
	return child_interrupted() ? 1 : rc;
}

const struct bench bench_ports = {
	"ports", "the whole switch over memif or veth ports, beside testpmd", options, run};
