/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-perf: the benchmark of libweir. One process per host; options and table as in nccl-tests.
 *
 *	main.c       open, run, report, exit status
 *	options.c    the command line
 *	plan.c       which collectives, types, operations, roots and sizes
 *	shapes.c     the tensors of a model, from a file
 *	run.c        the measurements, also of a model's tensors, as steps that can be repeated
 *	operate.c    operations: called, timed, counted and checked
 *	opens.c      how long it takes to open jobs
 *	rejoin.c     what the ranks tell each other; after a failure: join again, agree, resume
 *	report.c     the table and the JSON report
 *
 * Every function here is for the main thread; codes are 0 or -errno, and the text is on stderr.
 */
#ifndef APPS_PERF_PERF_H
#define APPS_PERF_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/libweir/weir.h"
#include "apps/report/options.h"
#include "apps/verify/verify.h"
#include "pktbuf/wire/wire.h"

/* Exit statuses. */
enum perf_exit {
	PERF_RIGHT = STATUS_DONE, /* all ran, nothing was wrong, no result was partial */
	PERF_FAILED = STATUS_FAILED, /* an error, or wrong elements on some rank */
	PERF_USAGE = STATUS_USAGE,
	PERF_PARTIAL =
		STATUS_INCOMPLETE, /* nothing wrong, but some results lacked sources (policy `partial`) */
};

/* A list of the command line, as a bit for each code of the wire. */
struct perf_list {
	uint32_t codes;
	bool all; /* "all": impossible combinations are left out; otherwise they are refused */
};

#define PERF_INFLIGHT_MAX 64
#define PERF_ROOT_ALL     UINT32_MAX

struct perf_options {
	struct weir_config weir;
	struct perf_list collectives, types, ops;
	unsigned int root; /* or PERF_ROOT_ALL, one after the other */
	uint64_t min_bytes, max_bytes, step_bytes; /* step_bytes 0: multiply */
	double step_factor;
	uint64_t iterations, warmup;
	uint64_t inflight; /* operations at a time, [1, PERF_INFLIGHT_MAX]; 1: blocking calls */
	uint64_t check; /* 0 or 1 */
	uint64_t levels, switches; /* of a tree's `narrow` job, as in struct verify */
	bool latency;
	bool spoil; /* change an element of each own result before it is checked */
	double link_rate; /* bit/s; 0: unknown */
	uint64_t seed;
	const char *json, *shapes; /* files; NULL: none */
	uint64_t opens; /* of temporary jobs, instead of measuring collectives; 0: none */
	uint64_t rejoins; /* tries to join again after failures; 0: a failure is the end */
};

/* Parse the command line. Ends the program with PERF_USAGE if it is wrong. */
const struct perf_options *perf_options_parse(int argc, char **argv);

/* Add the codes that a list like "fp32,int8" or "all" names; false: a name is unknown. */
bool perf_list_types(const char *text, struct perf_list *list);
bool perf_list_ops(const char *text, struct perf_list *list);
bool perf_list_collectives(const char *text, struct perf_list *list);

/* busbw / algbw, as nccl-tests defines them. */
double perf_bus_factor(enum weir_collective collective, unsigned int ranks);

/* Why these options can't be served, or NULL; names two of them in text. */
const char *perf_plan_refuses(const struct perf_options *options, char *text, size_t size);

/*
 * What is measured with all sizes: a series of a run is a collective, where it has them with type,
 * operation and root. They are in the order of collectives (a barrier is the last), types,
 * operations and roots. op: SUM where nothing is reduced. *series is the caller's to free. 0,
 * -ENOMEM, or -EINVAL: the root is no rank.
 */
int perf_plan(const struct perf_options *options, unsigned int ranks, struct weir_call **series,
	unsigned int *count);

/* Rows of the table for each series with data. */
unsigned int perf_plan_sizes(const struct perf_options *options);
/*
 * The row's `count` for the call; *bytes is the size of the larger of the buffers, as nccl-tests
 * counts it. Where a size is too small for the type or the ranks it is one element (of a slice).
 */
size_t perf_plan_count(const struct perf_options *options, const struct weir_call *series,
	unsigned int ranks, unsigned int row, size_t *bytes);

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
	uint64_t sent, received; /* bytes on the wire in these, at this rank */
	double user_us, system_us; /* CPU time in these, of all threads of this rank */
	double us, min_us, median_us, p99_us; /* per operation */
	double algbw, busbw; /* GB/s: bytes / time; times perf_bus_factor() */
	/* Bytes on the wire per operation, at the rank that has most; this rank's, where the ranks
	 * can't tell each other. */
	double wire_sent, wire_received;
	double link_share, data_share; /* of --link-rate: of all bytes on the wire, of the data */
	uint64_t wrong; /* elements, over all ranks */
	uint64_t own_wrong; /* on this rank */
	uint64_t degraded; /* blocks with sources missing, on this rank */
};

struct perf_row {
	unsigned int number; /* in the run; those that this rank had no part in are not there */
	bool printed;
	struct weir_call series;
	size_t bytes, count;
	unsigned int tensors; /* operations that the row is the sum of */
	int iteration; /* of --shapes; -1: an average */
	struct perf_timing out, in;
};

/* A failure, and the recovery from it. */
struct perf_rejoin {
	uint64_t failed_at, resumed_at; /* iterations of the run */
	int code; /* -errno of the operation */
	char error[512];
	unsigned int tries; /* to join again */
	bool recovered;
	unsigned int generation; /* in which it resumed */
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
	uint64_t repeated; /* of them, steps taken again */
	uint64_t began_at; /* 0, or where the others were when this rank came */
	bool started; /* this rank has taken a step, or has agreed on its first one */
	bool resumed; /* the ranks have just agreed on the step */
	struct weir_call *series;
	unsigned int series_count, sizes; /* rows of each that has data */
	struct weir_call current; /* what the step is of */
	struct perf_slot *slots; /* of operations at a time: options->inflight */
	uint64_t *samples; /* ns of the measured operations */
	unsigned int sample_count;
	uint64_t samples_of; /* the measurement that they are of */
	uint64_t early_wrong; /* elements, before the measurement begins */
	struct perf_rejoin *rejoins;
	unsigned int rejoin_count, tries;
	struct perf_row *rows;
	unsigned int row_count;

	uint64_t iteration; /* number of the next one; names its data */
	uint64_t degraded;
	double bytes; /* of all operations */
	uint64_t reported_ns; /* when progress was last reported */
};

/* The iteration of a step. */
uint64_t perf_iteration(const struct perf_run *run, uint64_t step);

/* Open and close options->opens jobs, and print how long that takes. 0, or -errno after a
 * message. */
int perf_opens(struct perf_run *run);

/* Run the measurements; rows are printed as they come. 0 or -errno of what ended them. */
int perf_run_all(struct perf_run *run);

/* What an operation needs, and what is known of its end. */
struct perf_slot {
	uint8_t *send, *recv; /* the whole buffers; recv is only used out of place */
	bool in_place;
	struct verify what; /* is called */
	struct weir_request *request;
	uint64_t begun_ns;
	struct weir_degraded *degraded; /* blocks of the last operation, or of all tensors */
	size_t degraded_count;
};

/* Allocate run->slots for operations of at most so many bytes, and the samples. */
int perf_slots_create(struct perf_run *run, size_t bytes, bool out_of_place);
void perf_slots_destroy(struct perf_run *run);

/* Prepare slots for an operation of run->current and run->iteration each; fill: with new data. */
void perf_slots_prepare(struct perf_run *run, size_t count, bool in_place, bool fill);

/*
 * Operate once in every slot, and wait. *timing gets time and bytes if they count, and in any case
 * what was degraded; wrong elements if checks are on. 0, or -errno after a message.
 */
int perf_operate(struct perf_run *run, struct perf_timing *timing, bool counts);

/* One AllReduce of run->current's type in place, of elements [first, first + count) of the
 * iteration, at slot 0. 0, WEIR_PARTIAL, or -errno after a message. */
int perf_operate_tensor(
	struct perf_run *run, struct perf_timing *timing, size_t first, size_t count);

/* Elements of the slot's result that are wrong, and of what was sent that have changed; 0 if checks
 * are off. */
size_t perf_wrong(struct perf_run *run, struct perf_slot *slot);

/* Print the text of the handle's last failure. Returns the code. */
int perf_failed(const struct perf_run *run, int code);

/* Wait for all ranks. 0, or -errno after a message. */
int perf_wait_for_all(struct perf_run *run);

uint64_t perf_now_ns(void);

void perf_sort(uint64_t *values, size_t n);
/* The least of n sorted values that so many of a thousand are not above; 0 if there are none. */
uint64_t perf_quantile(const uint64_t *sorted, size_t n, unsigned int per_mille);

/* After a measurement: all ranks' wrong elements, and the most bytes on the wire. 0, or -errno
 * after a message. */
int perf_exchange_timing(struct perf_run *run, struct perf_timing *timing);

/*
 * Agree with all other ranks on the step to take next, run->step: the least that any is at, or 0 if
 * none has begun. A rank that has just started has no step. 0 or -errno of an operation that
 * failed.
 */
int perf_agree(struct perf_run *run);

/*
 * After the failure of an operation: join again and agree, as often as the options allow. 0: go on
 * with run->step; else the code of the failure, with its text in weir_last_error().
 */
int perf_recover(struct perf_run *run, int code);

/* Rank 0 prints to stdout, the others only their last line. */
void perf_report_header(const struct perf_run *run);
void perf_report_row(struct perf_run *run, const struct perf_row *row);
void perf_report_end(const struct perf_run *run);
/* Print a failure that the run has recovered from. Rank 0 only. */
void perf_report_rejoin(const struct perf_run *run, const struct perf_rejoin *rejoin);

/* error: why the run ended early, or NULL. -errno when the file can't be written. */
int perf_report_json(const struct perf_run *run, const char *error);

/* `weir-perf: rank N: ...` on stderr. */
void perf_message(const struct perf_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
