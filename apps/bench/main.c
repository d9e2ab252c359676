/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-bench: chooses the bench, reads its options, writes its records. */
#include <string.h>

#include "apps/bench/options.h"
#include "apps/bench/report.h"

struct bench_common bench_common = {.huge = "auto", .repeat = 5, .phase_ms = 20};

static const struct bench_option common_options[] = {
	{"json", BENCH_TEXT, &bench_common.json, 0, 0, NULL,
		"also write the records to this file, - for standard output"},
	{"huge", BENCH_TEXT, &bench_common.huge, 0, 0, "auto|yes|no", "use huge pages"},
	{"repeat", BENCH_UINT, &bench_common.repeat, 1, 99, NULL,
		"measurements of each point, interleaved with its limit's; the median counts"},
	{"phase-ms", BENCH_UINT, &bench_common.phase_ms, 1, 10000, NULL,
		"length of a measurement, milliseconds"},
	{0},
};

static const struct bench *const benches[] = {
	&bench_engine,
	&bench_scaling,
	&bench_ports,
	&bench_latency,
	&bench_rfc2544,
	&bench_hash,
	&bench_kernels,
	&bench_memory,
	&bench_plan,
	&bench_scrape,
	&bench_timers,
	&bench_detect,
	&bench_order,
	NULL,
};

static void
usage(FILE *out)
{
	fputs("usage: weir-bench BENCH [--option VALUE]...\n\n", out);
	for (unsigned int i = 0; benches[i] != NULL; i++)
		fprintf(out, "  %-9s %s\n", benches[i]->name, benches[i]->help);
	fputs("\nweir-bench BENCH --help lists the bench's options. A list is 64,256,1024, or "
	      "8..4096"
	      "\nfor the powers of two in between. docs/performance.md reads the tables.\n",
		out);
}

static int
run(const struct bench *bench)
{
	struct bench_report *report = report_create(bench->name, bench_common.json);
	int rc;

	if (report == NULL)
		return 1;
	rc = bench->run(report);
	bench_progress(report, NULL);
	/* What was measured before something went wrong is still worth reading. */
	if (report_write(report, bench_common.json) != 0 && rc == 0)
		rc = 1;
	report_destroy(report);
	return rc;
}

int
main(int argc, char **argv)
{
	const struct bench *bench = NULL;

	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		usage(stdout);
		return 0;
	}
	for (unsigned int i = 0; argc >= 2 && benches[i] != NULL; i++)
		if (strcmp(argv[1], benches[i]->name) == 0)
			bench = benches[i];
	if (bench == NULL) {
		if (argc >= 2)
			fprintf(stderr, "weir-bench: no bench %s\n", argv[1]);
		usage(stderr);
		return 2;
	}
	switch (options_read(argc - 1, argv + 1, bench->options, common_options)) {
	case 0: return run(bench);
	case 1:
		printf("weir-bench %s: %s\n", bench->name, bench->help);
		options_print(bench->options, stdout);
		options_print(common_options, stdout);
		return 0;
	default: return 2;
	}
}
