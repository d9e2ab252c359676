/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench: what its benches share. A bench is a row of the table in main.c: a name, options, and
 * a function that measures and reports. A figure is a record: what was measured, with which
 * parameters, and beside it the limit that the same run measured, so that the ratio holds on any
 * machine. People read the table that a bench prints; programs read the JSON.
 *
 * Everything here is for the main thread. Only main.c exits.
 */
#ifndef APPS_BENCH_BENCH_H
#define APPS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#define BENCH_LIST_MAX 32
#define BENCH_NONE     (-1.0) /* no limit, or a figure that this machine can't give */

/* Values of a sweep: "64,256,1024", or "8..4096" for the powers of two in between. */
struct bench_list {
	unsigned int count;
	uint64_t value[BENCH_LIST_MAX];
};

enum bench_kind {
	BENCH_UINT, /* to: uint64_t * */
	BENCH_LIST, /* to: struct bench_list * */
	BENCH_REAL, /* to: double *; least and most in thousandths, the default may lie beyond */
	BENCH_TEXT, /* to: const char **; one of `choices` when that is not NULL */
	BENCH_FLAG, /* to: bool *; no argument */
};

struct bench_option {
	const char *name; /* without dashes; NULL ends the list */
	enum bench_kind kind;
	void *to; /* holds the default */
	uint64_t least, most; /* BENCH_UINT, BENCH_LIST, BENCH_REAL */
	const char *choices; /* "a|b|c"; for BENCH_TEXT */
	const char *help;
};

/* What all benches take. */
struct bench_common {
	const char *json; /* file, "-" for standard output, NULL: none */
	const char *huge; /* auto | yes | no */
	uint64_t repeat; /* measurements of each point; the median counts */
	uint64_t phase_ms; /* length of one */
};
extern struct bench_common bench_common;

struct bench_report;

struct bench {
	const char *name, *help;
	const struct bench_option *options;
	/* 0, or an exit status: 1 when something was wrong (a wrong sum, no result), 2 when it
	 * can't run here; a line on standard error has said why. */
	int (*run)(struct bench_report *report);
};

/* Where tables go: standard output, or standard error while that is the JSON's. */
FILE *bench_table(const struct bench_report *report);

/*
 * Add a record. params: a JSON object, stolen. limit: BENCH_NONE when there is none; limit_is says
 * what the limit is ("bare kernel"). The record's ratio is value / limit. params say what was asked
 * for and nothing that was measured: by them the records of two runs are matched.
 */
void bench_add(struct bench_report *report, const char *metric, json_t *params, double value,
	const char *unit, double limit, const char *limit_is);

/* What was seen while the following records were measured (losses, disturbances): an object,
 * stolen, that stands beside their params until the next call. NULL: nothing. */
void bench_observe(struct bench_report *report, json_t *observed);

/* Say on standard error what is measured now, when that is a terminal. NULL wipes the line. */
void bench_progress(const struct bench_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The CPUs that this process may use, as it was started: how many, and the i-th of them. EAL binds
 * threads later, and changes nothing of that.
 */
unsigned int bench_cpus(void);
unsigned int bench_cpu(unsigned int i);

/* Has each of `workers` lcores a CPU of its own? Rates are of CPU time: two that share one would
 * measure as two. 0, or -1 after a line. */
int bench_lcores_fit(unsigned int workers);

/*
 * Start EAL with lcore 0 for the main thread, on the first of these CPUs, and `workers` more: [0,
 * 127], on all of them in turn from the last one down, so that the main thread's is used last. Huge
 * pages as bench_common.huge says; memory_mb without them. extra: NULL-terminated further arguments
 * (--vdev ...), may be NULL. 0, or a line on standard error and -1. Once a process.
 */
int bench_start_eal(unsigned int workers, unsigned int memory_mb, const char *const *extra);

/* Is EAL on huge pages? After bench_start_eal. */
bool bench_on_huge_pages(void);

/* Remove what EAL left in the file system. */
void bench_stop_eal(void);

/* The value in the middle; sorts. n: [1, ...]. */
double bench_median(double *values, size_t n);

/* The value at a quantile, [0, 1], of sorted values, by the nearest rank: the least value that so
 * great a share of all does not exceed. n: [1, ...]. */
double bench_quantile(const double *sorted, size_t n, double quantile);

/* The benches, each in a file of its name; main.c lists them. */
extern const struct bench bench_engine, bench_scaling;
extern const struct bench bench_ports;
extern const struct bench bench_latency;
extern const struct bench bench_rfc2544;
extern const struct bench bench_hash;
extern const struct bench bench_kernels;
extern const struct bench bench_memory;
extern const struct bench bench_plan;
extern const struct bench bench_scrape;
extern const struct bench bench_timers, bench_detect;
extern const struct bench bench_order;

#endif
