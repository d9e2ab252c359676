/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-perf: the benchmark of libweir. One process per host; options and table as in nccl-tests.
 *
 *	perf.c          main: options, open, run, report, exit status
 *	perf_options.c  the command line
 *	perf_shapes.c   a model's tensors from a file
 *	perf_data.c     what each rank reduces, and whether the result is right
 *	perf_run.c      the measurements, as steps that can be taken again
 *	perf_rejoin.c   after a failure: join again, and agree where to go on
 *	perf_report.c   the table and the JSON report
 *
 * Every function here is for the main thread; codes are 0 or -errno, and the text is on stderr.
 */
#ifndef APPS_HOST_PERF_H
#define APPS_HOST_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/host/perf_data.h"
#include "apps/host/weir.h"
#include "pktbuf/wire.h"

/* Exit statuses. */
enum perf_exit {
	PERF_RIGHT = 0, /* all ran, nothing was wrong, no result was partial */
	PERF_FAILED = 1, /* an error, or wrong elements on some rank */
	PERF_USAGE = 2,
	PERF_PARTIAL = 3, /* nothing wrong, but some results lacked sources (policy `partial`) */
};

struct perf_options {
	struct weir_config weir;
	bool barrier; /* measure barriers, not AllReduce */
	size_t min_bytes, max_bytes, step_bytes; /* step_bytes 0: multiply */
	double step_factor;
	unsigned int iterations, warmup;
	bool check;
	enum weir_dtype dtype; /* INT32 or FP32 */
	uint64_t seed;
	const char *json, *shapes; /* files; NULL: none */
	unsigned int rejoins; /* tries to join again after failures; 0: a failure is the end */
};

/* Parse the command line. 0: run; else the exit status plus 1 (so that 1 is "exit with 0"). */
int perf_options_parse(struct perf_options *options, int argc, char **argv);

/* A model: the sizes of its tensors. */
struct perf_shapes {
	size_t *counts; /* elements of each tensor */
	unsigned int tensors;
	size_t elements; /* of all */
};

/*
 * Read a file of lines `name dimension...`; '#' begins a comment, empty lines are skipped. On
 * failure -errno and a text `file:line: reason` in error. The caller destroys *shapes on success.
 */
int perf_shapes_read(const char *path, struct perf_shapes *shapes, char *error, size_t error_size);
void perf_shapes_destroy(struct perf_shapes *shapes);

/* One way of calling (out of place, in place), measured. */
struct perf_timing {
	bool measured;
	uint64_t ns; /* of the measured operations so far */
	unsigned int operations; /* so many; less than the iterations if this rank came later */
	double us; /* per operation */
	double algbw, busbw; /* GB/s: bytes / time; times 2(n-1)/n, what a ring moves per link */
	uint64_t wrong; /* elements, over all ranks */
	uint64_t own_wrong; /* on this rank */
	uint64_t degraded; /* blocks with sources missing, on this rank */
};

struct perf_row {
	unsigned int number; /* in the run; those that this rank had no part in are not there */
	bool printed;
	size_t bytes, count;
	unsigned int tensors; /* operations that the row is the sum of */
	int iteration; /* of --shapes; -1: an average */
	struct perf_timing out, in;
};

/* A failure, and what came after it. */
struct perf_rejoin {
	uint64_t failed_at, went_on_at; /* iterations of the run */
	int code; /* -errno of the operation */
	char error[512];
	unsigned int tries; /* to join again */
	bool mended;
	unsigned int generation; /* that it went on in */
	double ms; /* from the failure until then */
};

/* What a run adds up. */
struct perf_run {
	const struct perf_options *options;
	const struct perf_shapes *shapes; /* NULL: none */
	struct weir *weir;
	unsigned int rank, ranks;
	uint64_t step; /* the one that is next */
	uint64_t done; /* steps [0, done) have been taken, those before `began_at` by others */
	uint64_t repeated; /* of them, taken again */
	uint64_t began_at; /* 0, or where the others were when this rank came */
	bool placed; /* this rank has taken steps, or has agreed on its first one */
	bool anew; /* the ranks have just agreed on the step */
	uint8_t *send, *recv;
	bool *checked; /* per tensor */
	uint64_t early_wrong; /* elements, before the measurement begins */
	struct perf_rejoin *rejoins;
	unsigned int rejoin_count, tries;
	struct perf_data data;
	struct perf_row *rows;
	unsigned int row_count;
	uint64_t iteration; /* number of the next one; names its data */
	uint64_t degraded;
	double reduced_bytes; /* of all AllReduces, to compare with a ring */
	double ring_wire_bytes; /* what a ring would have sent for them, headers too */
	uint64_t spoke_ns; /* when progress was last told */
};

/* The iteration of a step. */
uint64_t perf_iteration(const struct perf_run *run, uint64_t step);

/* Run the measurements; rows are printed as they come. 0 or -errno of what ended them. */
int perf_run_all(struct perf_run *run);

/*
 * Agree with all other ranks on the step to take next, run->step: the least that any is at, or 0 if
 * none has begun. A rank that is started is at none. 0 or -errno of an operation that failed.
 */
int perf_agree(struct perf_run *run);

/*
 * After the failure of an operation: join again and agree, as often as the options allow. 0: go on with
 * run->step; else the code of what could not be mended, and weir_last_error() tells about it.
 */
int perf_recover(struct perf_run *run, int code);

/* Rank 0 prints to stdout, the others only their last line. */
void perf_report_header(const struct perf_run *run);
void perf_report_row(const struct perf_run *run, const struct perf_row *row);
void perf_report_end(const struct perf_run *run);
/* A failure that is behind, in the table: rank 0. */
void perf_report_rejoin(const struct perf_run *run, const struct perf_rejoin *rejoin);
/* error: why the run ended early, or NULL. -errno when the file can't be written. */
int perf_report_json(const struct perf_run *run, const char *error);

/* `weir-perf: rank N: ...` on stderr. */
void perf_say(const struct perf_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
