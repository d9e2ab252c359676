/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A host that stands still at the end comes to the comparison later than a block's timeout: then it is made
 * again, everywhere, as its result is the same everywhere. */
#define COMPARISONS_MAX 1000
#define ALONE_BLOCK     256 /* elements */
#define SLICES          10 /* of a computation: so often a host looks whether it is in vain */

uint64_t
train_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void
sleep_until(uint64_t ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(ns / 1000000000),
		.tv_nsec = (long)(ns % 1000000000),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void
stand_still(double ms)
{
	if (ms > 0)
		sleep_until(train_now_ns() + (uint64_t)(ms * 1e6));
}

int
train_prepare(struct train_run *run, const struct train_options *options, struct weir *weir,
	unsigned int rank, unsigned int ranks)
{
	int code;

	run->options = options;
	run->weir = weir;
	run->rank = rank;
	run->ranks = ranks;
	run->shares = calloc(options->alone ? ranks : 1, sizeof(*run->shares));
	code = run->shares == NULL ? -ENOMEM : 0;
	if (code == 0)
		code = train_set_make(&run->train, options->seed, TRAIN_STREAM_TRAIN, TRAIN_POINTS);
	if (code == 0)
		code = train_set_make(&run->test, options->seed, TRAIN_STREAM_TEST, TRAIN_TEST);
	for (unsigned int r = 0; code == 0 && r < (options->alone ? ranks : 1); r++) {
		code = train_share_make(&run->shares[r], options->seed, TRAIN_POINTS,
			options->alone ? r : rank, ranks);
		run->share_count = r + 1;
	}
	if (code == 0 && options->batch > TRAIN_POINTS / ranks) {
		train_say(run, "--batch: a host has %u points, and not %u", TRAIN_POINTS / ranks,
			options->batch);
		return -EINVAL;
	}
	if (code < 0)
		train_say(run, "out of memory");
	run->block = weir == NULL ? ALONE_BLOCK : weir_elements(weir, WEIR_DTYPE_FP32);
	if (run->block < 2) {
		train_say(run, "the job's blocks have one element, and two are needed");
		return -EPROTO;
	}
	run->elements = train_elements(run->block);
	train_model_init(&run->model, options->seed);
	return code;
}

void
train_destroy(struct train_run *run)
{
	for (unsigned int r = 0; r < run->share_count; r++)
		train_share_destroy(&run->shares[r]);
	free(run->shares);
	train_set_destroy(&run->train);
	train_set_destroy(&run->test);
	free(run->marks);
}

int
train_mark(struct train_run *run)
{
	struct train_mark *more;

	if (run->iteration % run->options->every != 0 && run->iteration < run->options->iterations)
		return 0;
	more = reallocarray(run->marks, run->mark_count + 1, sizeof(*more));
	if (more == NULL) {
		train_say(run, "out of memory");
		return -ENOMEM;
	}
	run->marks = more;
	more += run->mark_count++;
	*more = (struct train_mark){
		.iteration = run->iteration,
		.score = train_evaluate(&run->model, &run->test),
		.seconds = (double)(train_now_ns() - run->began_ns) / 1e9,
	};
	run->seconds = more->seconds;
	run->reached = more->score.accuracy >= run->options->target;
	train_report_mark(run);
	return run->reached;
}

/* Whether the others have ended this iteration already: every block of its result is here. */
static bool
is_over(const struct train_run *run)
{
	unsigned int blocks = (run->elements + run->block - 1) / run->block;

	return weir_ahead(run->weir) >= blocks;
}

/* Half of the time that an accelerator takes for a gradient; false, and early: the iteration is over. */
static bool
compute_half(const struct train_run *run)
{
	uint64_t began = train_now_ns();

	for (unsigned int i = 1; i <= SLICES / 2; i++) {
		if (is_over(run))
			return false;
		sleep_until(began + (uint64_t)(run->options->compute_ms * 1e6 * i / SLICES));
	}
	return true;
}

/*
 * This host's part of an iteration up to AllReduce. A slow host stands still for as long as was drawn, also
 * where it has given up its gradient by then. It then contributes nothing. Zeros, sent early instead of that,
 * would begin the blocks, and let them time out before the others are there.
 */
static void
work(struct train_run *run)
{
	const struct train_options *o = run->options;
	double slow_ms[3] = {0};
	enum train_point point;
	double ms = train_slow_ms(o, run->rank, run->iteration, &point);
	bool done;

	slow_ms[point] = ms;
	run->counts.slow += ms > 0;
	run->slow_seconds += ms / 1e3;
	stand_still(slow_ms[TRAIN_BEFORE]);
	done = compute_half(run);
	stand_still(slow_ms[TRAIN_AMIDST]);
	done = done && compute_half(run) && !is_over(run);
	if (done)
		train_gradient(&run->model, &run->train,
			train_share_next(&run->shares[0], o->batch), o->batch, run->gradient);
	train_pack(done ? run->gradient : NULL, run->block, run->send);
	run->counts.computed += done;
	run->counts.given_up += !done;
	stand_still(slow_ms[TRAIN_AFTER]);
}

/* Add the gradients of all hosts. What is counted of the result is the same on all of them, but for
 * `missed`. */
static int
reduce(struct train_run *run)
{
	const struct weir_degraded *blocks;
	size_t n;
	bool in_time = true;
	int code = weir_allreduce(
		run->weir, run->send, run->sum, run->elements, WEIR_DTYPE_FP32, WEIR_OP_SUM);

	if (code < 0) {
		train_say(run, "iteration %u: %s", run->iteration, weir_last_error(run->weir));
		return code;
	}
	n = weir_degraded(run->weir, &blocks);
	for (size_t i = 0; i < n; i++)
		in_time = in_time && blocks[i].present[run->rank / 8] >> run->rank % 8 & 1;
	run->counts.missed += !in_time;
	run->counts.partial += code == WEIR_PARTIAL;
	run->counts.partial_blocks += n;
	return 0;
}

/* Let every host know every host's weights by their checksum: each puts its own in its place of a sum. */
static int
compare_replicas(struct train_run *run)
{
	static int32_t own[2 * WEIR_SOURCES_MAX], all[2 * WEIR_SOURCES_MAX];
	unsigned int at = 2 * run->rank;
	int code = WEIR_PARTIAL;

	own[at] = (int32_t)(uint32_t)run->checksum;
	own[at + 1] = (int32_t)(uint32_t)(run->checksum >> 32);
	for (unsigned int i = 0; code == WEIR_PARTIAL && i < COMPARISONS_MAX; i++) {
		code = weir_allreduce(
			run->weir, own, all, 2 * run->ranks, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		weir_error_feedback_forget(run->weir, own); /* it is said again, and not twice */
	}
	if (code != 0) {
		train_say(run, "the replicas can't be compared: %s", weir_last_error(run->weir));
		return code < 0 ? code : -ETIMEDOUT;
	}
	run->replicas = run->ranks;
	for (unsigned int r = 0; r < run->ranks; r++)
		if (memcmp(&all[2 * r], &own[at], 2 * sizeof(all[0])) != 0) {
			run->parted = true;
			train_say(run, "rank %u has other weights", r);
		}
	return 0;
}

int
train_run_switch(struct train_run *run)
{
	const struct train_options *o = run->options;
	int code = 0;

	run->began_ns = train_now_ns();
	while (code == 0 && run->iteration < o->iterations) {
		work(run);
		code = reduce(run);
		if (code < 0)
			return code;
		train_step(&run->model, run->sum, run->block, (float)o->rate, (float)o->momentum);
		run->iteration++;
		code = train_mark(run);
	}
	if (code < 0)
		return code;
	run->checksum = train_checksum(&run->model);
	return compare_replicas(run);
}
