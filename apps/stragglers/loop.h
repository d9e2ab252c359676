/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-loop: a training job's shape without its mathematics. One process per host; each iteration computes
 * (sleeps, in the place of an accelerator's work) and then AllReduces the gradients of a model, bucket by
 * bucket. Hosts are slowed on purpose, by the Slow Worker Pattern, from a seed.
 *
 *	loop.c          main: options, open, run, report, exit status
 *	loop_options.c  the command line
 *	loop_plan.c     the model's tensors in buckets; who is slow when
 *	loop_data.c     what each host contributes, and whether a sum is right
 *	loop_run.c      the iterations
 *	loop_report.c   the JSON report
 *
 * Every function here is for the main thread; codes are 0 or -errno, and the text is on stderr.
 */
#ifndef APPS_STRAGGLERS_LOOP_H
#define APPS_STRAGGLERS_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/perf/perf.h" /* perf_shapes: a model's tensors from a file */
#include "apps/libweir/weir.h"
#include "pktbuf/wire/wire.h"

/* Exit statuses. */
enum loop_exit {
	LOOP_RIGHT = 0, /* all iterations done, every sum right */
	LOOP_FAILED = 1, /* an error, or wrong elements */
	LOOP_USAGE = 2,
};

struct loop_options {
	struct weir_config weir;
	const char *shapes, *json; /* files; NULL: none */
	size_t elements; /* without shapes: of one tensor */
	unsigned int scale; /* tensors have so many times fewer elements */
	size_t bucket; /* elements of a bucket, about; 0: all tensors are one bucket */
	unsigned int iterations, warmup;
	unsigned int compute_us; /* of an iteration, a third of it before the second point */
	unsigned int slow_ppm; /* probability that a host is slowed in an iteration */
	unsigned int slow_unit_us; /* the time of an iteration in which nobody is */
	double slow_min, slow_max; /* by how many of these it is slowed, uniformly */
	bool catch_up; /* no more computing for sums that are there already */
	uint64_t seed;
};

/* Parse the command line. 0: run; else the exit status plus 1 (so that 1 is "exit with 0"). */
int loop_options_parse(struct loop_options *options, int argc, char **argv);

/* -- the plan (loop_plan.c) */

/*
 * The gradients of a model as they lie in memory: the last tensor first, because backward propagation has
 * it first, and cut into buckets between tensors, so that one AllReduce carries many of them. As
 * PyTorch's DistributedDataParallel and Horovod do it: most tensors are much smaller than a window.
 */
struct loop_plan {
	size_t elements; /* of all tensors together */
	unsigned int tensors, buckets;
	size_t *first; /* [buckets + 1]; bucket b has the elements [first[b], first[b + 1]) */
};

/*
 * Plan the tensors of these counts, each divided by `scale` (rounded, at least 1 element). A bucket is
 * closed when the next tensor would make it larger than `bucket` elements (0: never); a tensor is not cut.
 * 0 or -ENOMEM; the caller destroys the plan on success.
 */
int loop_plan_make(struct loop_plan *plan, const size_t *counts, unsigned int tensors,
	unsigned int scale, size_t bucket);
void loop_plan_destroy(struct loop_plan *plan);

/* Blocks of all buckets, of so many elements each at most. */
uint64_t loop_plan_blocks(const struct loop_plan *plan, unsigned int per_block);

/* Where in an iteration a host is slowed. */
enum loop_point {
	LOOP_BEFORE_FORWARD,
	LOOP_BEFORE_BACKWARD,
	LOOP_BEFORE_ALLREDUCE,
	LOOP_POINTS,
};

struct loop_slow {
	uint64_t us; /* 0: not slowed */
	enum loop_point point;
};

/*
 * The Slow Worker Pattern: with probability slow_ppm a host stands still in this iteration, at one of the
 * points, for slow_min to slow_max units. A function of seed, rank and iteration alone; and who is slow at
 * some probability is slow at each higher one, by as much and at the same point. So all policies meet the
 * same delays, and a curve over the probability has no noise of different draws.
 */
struct loop_slow loop_slow(
	const struct loop_options *options, unsigned int rank, unsigned int iteration);

/* -- the data (loop_data.c) */

/*
 * Element i of rank r in iteration k is own(r, k) + common(k, i): small integers, so that sums in fp32 are
 * exact in any order, for up to 256 ranks, and sums of any ranks are checked with one addition an element. A
 * sum of other ranks, of another iteration, of another element, or with one rank twice differs.
 */
void loop_data_fill(
	uint64_t seed, unsigned int rank, unsigned int iteration, size_t count, float *to);

/* How many of the elements [first, first + count) at `got` are not the sum of the `ranks` first ranks or,
 * present not being NULL, of those among them that are in this bitmap (as on the wire). */
size_t loop_data_wrong(uint64_t seed, unsigned int ranks, const uint8_t *present,
	unsigned int iteration, size_t first, size_t count, const float *got);

/* -- the run (loop_run.c) */

struct loop_iteration {
	uint64_t us; /* from the end of the one before it to its own */
	uint64_t slow_us; /* of these, this host stood still on purpose */
	uint64_t partial_blocks;
	bool missed; /* some block of it is without this host */
	bool given_up; /* not computed, or not to the end: its sums were there already */
};

struct loop_run {
	const struct loop_options *options;
	struct weir *weir;
	struct loop_plan plan;
	unsigned int rank, ranks;
	uint64_t blocks; /* of an iteration */
	float *send, *recv; /* [plan.elements] */
	struct loop_iteration *iterations; /* [options->iterations] */
	unsigned int done; /* iterations that count */
	uint64_t us; /* of all of them */
	uint64_t wrong; /* elements */
	uint64_t contributions; /* in all results, of any source; at most blocks x sources */
	uint64_t results; /* blocks */
};

/* Run the iterations: the plan is made, the handle open. 0 or -errno, said. */
int loop_run(struct loop_run *run);

/* -- what is said (loop_report.c) */

/* One line to stdout, about this host. */
void loop_report(const struct loop_run *run);
/* error: why the run ended early, or NULL. -errno when the file can't be written, said. */
int loop_report_json(const struct loop_run *run, const char *error);
/* `weir-loop: rank N: ...` on stderr. */
void loop_say(const struct loop_run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
