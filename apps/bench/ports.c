/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench ports: the whole switch over real ports, beside dpdk-testpmd on the same frames. The
 * generator is the same for both and checks every result of the switch, and testpmd's frames by their headers
 * alone: so testpmd is at its best, and the ratio is a lower bound.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/contributions.h"

#define WIRE_EXTRA 24 /* of Ethernet: frame check sequence, preamble, gap */

static uint64_t sources = 8, window = 64;
static struct bench_list elements = {3, {1024, 256, 64}};
static bool spoil;

static const struct bench_option options[] = {
	{"elements", BENCH_LIST, &elements, 1, 2000, NULL, "elements of a contribution, fp32"},
	{"sources", BENCH_UINT, &sources, 2, TARGET_SOURCES_MAX, NULL, "sources of the job"},
	{"window", BENCH_UINT, &window, 1, 4096, NULL, "blocks in flight, a power of two"},
	{"spoil", BENCH_FLAG, &spoil, 0, 0, NULL,
		"damage results before their check: it must fail"},
	TARGET_OPTIONS,
	{0},
};

/* What one pair of measurements gave: contributions per second, and the generator's idle share. */
struct pair {
	double rate[2], idle[2];
};

static int
compare(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	double rx = x->rate[0] / x->rate[1], ry = y->rate[0] / y->rate[1];

	return (rx > ry) - (rx < ry);
}

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
		"#%9s %8s %-9s %12s %9s %9s %12s %6s %6s %6s\n"
		"#%9s %8s %-9s %12s %9s %9s %12s %6s %6s %6s\n",
		target_options.over,
		strcmp(target_options.zero_copy, "yes") == 0 ? ", zero-copy" : "",
		bench_on_huge_pages() ? "huge" : "4 KiB", sources, window, "elements", "frame",
		"results", "contrib/s", "payload", "wire", "testpmd/s", "ratio", "idle", "idle", "",
		"bytes", "", "", "Gbit/s", "Gbit/s", "", "", "%", "%");
	fflush(out);
}

static void
row(struct bench_report *report, unsigned int n, bool multicast, const struct pair *pair)
{
	const char *results = multicast ? "multicast" : "unicast";
	unsigned int frame = contributions_frame_bytes(n);
	double payload = pair->rate[0] * 4 * n, wire = pair->rate[0] * (frame + WIRE_EXTRA);
	json_t *params = json_pack("{sisisisisssssbss}", "elements", (int)n, "sources",
		(int)sources, "window", (int)window, "frame_bytes", (int)frame, "results", results,
		"over", target_options.over, "zero_copy",
		strcmp(target_options.zero_copy, "yes") == 0, "rx_checksum",
		target_options.checksum);

	fprintf(bench_table(report), "%10u %8u %-9s %12.0f %9.2f %9.2f %12.0f %6.2f %6.1f %6.1f\n",
		n, frame, results, pair->rate[0], payload * 8e-9, wire * 8e-9, pair->rate[1],
		pair->rate[0] / pair->rate[1], 100 * pair->idle[0], 100 * pair->idle[1]);
	fflush(bench_table(report));
	bench_add(report, "contributions", json_incref(params), pair->rate[0], "1/s", pair->rate[1],
		"dpdk-testpmd io, same frames and ports");
	bench_add(report, "payload", json_incref(params), payload, "byte/s", pair->rate[1] * 4 * n,
		"dpdk-testpmd io, same frames and ports");
	bench_add(report, "wire", json_incref(params), wire, "byte/s",
		pair->rate[1] * (frame + WIRE_EXTRA), "dpdk-testpmd io, same frames and ports");
	bench_add(report, "generator_idle", params, pair->idle[0], "share", pair->idle[1],
		"beside dpdk-testpmd");
}

/* Interleaved measurements of one point. */
static int
point(struct bench_report *report, struct target target[2], unsigned int n, bool multicast)
{
	struct contributions *c[2];
	struct pair pair[99];
	int rc = 0;

	for (unsigned int t = 0; t < 2; t++) {
		struct contributions_config config = {&target[t], (unsigned int)sources,
			(unsigned int)window, n, multicast, spoil};

		c[t] = contributions_create(&config);
		rc |= c[t] == NULL;
	}
	for (unsigned int r = 0; rc == 0 && r < bench_common.repeat; r++)
		for (unsigned int t = 0; rc == 0 && t < 2; t++) {
			bench_progress(report, "%u elements, %s, %s, %u of %u", n,
				multicast ? "multicast" : "unicast", target[t].name, r + 1,
				(unsigned int)bench_common.repeat);
			target_select(&target[t]);
			rc = contributions_run(
				c[t], bench_common.phase_ms, &pair[r].rate[t], &pair[r].idle[t]);
			target_deselect(&target[t]);
		}
	bench_progress(report, NULL);
	if (rc == 0) {
		const struct contributions_count *count = contributions_count(c[0]);

		qsort(pair, bench_common.repeat, sizeof(pair[0]), compare);
		row(report, n, multicast, &pair[bench_common.repeat / 2]);
		if (count->repeated > 0)
			fprintf(bench_table(report),
				"# %" PRIu64 " contributions were repeated, %" PRIu64
				" results came again\n",
				count->repeated, count->again);
	}
	for (unsigned int t = 0; t < 2; t++)
		contributions_destroy(c[t]);
	return rc == 0 ? 0 : 1;
}

/* Both devices with jobs of n elements. */
static int
size(struct bench_report *report, unsigned int n)
{
	struct target_config config = {
		.link = {.frame_bytes = contributions_frame_bytes(n) + 4, /* extended form */
			.af_packet = strcmp(target_options.over, "af_packet") == 0,
			.zero_copy = strcmp(target_options.zero_copy, "yes") == 0,
			.slots = (unsigned int)target_options.slots},
		.sources = (unsigned int)sources,
		.window = (unsigned int)window,
		.elements = n,
		.verify = strcmp(target_options.checksum, "off") != 0,
	};
	struct target target[2] = {0};
	int rc = 1;

	bench_progress(report, "starting devices for %u elements", n);
	if (target_start_switch(&target[0], &config) == 0 &&
		target_start_testpmd(&target[1], &config) == 0)
		rc = point(report, target, n, false);
	if (rc == 0)
		rc = point(report, target, n, true);
	for (unsigned int t = 0; t < 2; t++)
		if (target_stop(&target[t]) < 0)
			rc = 1;
	return rc;
}

static int
run(struct bench_report *report)
{
	int rc;

	if ((window & (window - 1)) != 0) {
		fprintf(stderr, "weir-bench: --window must be a power of two\n");
		return 2;
	}
	rc = target_enter();
	if (rc == 0)
		header(bench_table(report));
	for (unsigned int i = 0; rc == 0 && i < elements.count; i++)
		rc = size(report, (unsigned int)elements.value[i]);
	target_leave();
	return child_interrupted() ? 1 : rc;
}

const struct bench bench_ports = {
	"ports", "the whole switch over memif or veth ports, beside testpmd", options, run};
