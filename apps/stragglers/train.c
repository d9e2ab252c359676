/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/perf/perf.h" /* perf_shapes: a model's tensors from a file */
#include "apps/report/options.h"

#define LAYERS      25 /* of a pass: so often a host checks whether it is too late */
#define COMPARISONS 1000 /* of weights: each fails while some host is late */

static uint64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void
sleep_until(uint64_t us)
{
	const struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
		;
}

/* Whether the others have finished this iteration without this host: all sums of it are here. */
static bool
is_over(const struct train_run *run)
{
	return weir_unexpected(run->weir) >= run->blocks;
}

static void
make_gradients(struct train_run *run, unsigned int number)
{
	static float gradient[TRAIN_WEIGHTS];
	const struct train_options *o = run->options;

	if (run->model == NULL) {
		train_tensors_fill(o->seed, run->rank, number, run->plan.elements, run->send);
		return;
	}
	train_gradient(run->model, &run->train,
		train_share_next(&run->share, (unsigned int)o->batch), (unsigned int)o->batch,
		gradient);
	train_pack(gradient, run->block, run->send);
}

/* One pass over the model, layer by layer. The real work is part of the backward pass. False: stopped early, because
 * the sums are there already. */
static bool
pass(struct train_run *run, bool backward, unsigned int number)
{
	uint64_t forward = run->options->compute_us / 3, begin = now_us(),
		 length = backward ? run->options->compute_us - forward : forward;

	if (backward)
		make_gradients(run, number);
	for (unsigned int layer = 1; layer <= LAYERS; layer++) {
		sleep_until(begin + length * layer / LAYERS);
		if (is_over(run))
			return false;
	}
	return true;
}

/*
 * The compute phase. A host that is so late that its iteration ends without it stops computing: its gradients would
 * miss the sums. It fetches these, and begins the next iteration together with the others. It stands still for as long
 * as was drawn in any case, so the delays are the same with every policy. It must not contribute zeros early instead:
 * that would begin the blocks, and let them time out before the others are there.
 */
static void
compute(struct train_run *run, unsigned int number, struct train_slow slow,
	struct train_iteration *it)
{
	it->slow_us = slow.us;
	for (enum train_point p = TRAIN_BEFORE_FORWARD; p < TRAIN_POINTS; p++) {
		if (slow.us != 0 && slow.point == p)
			sleep_until(now_us() + slow.us);
		it->given_up = it->given_up || is_over(run);
		if (!it->given_up && p != TRAIN_BEFORE_ALLREDUCE)
			it->given_up = !pass(run, p == TRAIN_BEFORE_BACKWARD, number);
	}
	if (it->given_up)
		memset(run->send, 0, run->plan.elements * sizeof(*run->send));
}

static int
by_first(const void *a, const void *b)
{
	const struct weir_degraded *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static bool
is_present(const struct weir_degraded *block, unsigned int rank)
{
	return (block->present[rank / 8] >> rank % 8 & 1) != 0;
}

/* Note who is in the sum of a bucket. Tensors: check complete blocks against all ranks, partial ones against those in
 * them. */
static int
take_sum(struct train_run *run, unsigned int number, size_t first, size_t count,
	struct train_iteration *it)
{
	const struct weir_degraded *blocks;
	const uint64_t seed = run->options->seed;
	size_t n = weir_degraded(run->weir, &blocks), at = 0;
	struct weir_degraded *sorted = calloc(n + 1, sizeof(*sorted));

	if (sorted == NULL)
		return -ENOMEM;
	if (n != 0)
		memcpy(sorted, blocks, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_first);
	sorted[n].first = count;
	for (size_t i = 0; i <= n; i++) {
		const struct weir_degraded *d = &sorted[i];

		if (run->model == NULL) {
			run->wrong += train_tensors_wrong(seed, run->ranks, NULL, number,
				first + at, d->first - at, run->recv + first + at);
			run->wrong += train_tensors_wrong(seed, run->ranks, d->present, number,
				first + d->first, d->count, run->recv + first + d->first);
		}
		at = d->first + d->count;
		for (unsigned int r = 0; i < n && r < run->ranks; r++)
			run->contributions -= !is_present(d, r);
		it->missed = it->missed || (i < n && !is_present(d, run->rank));
	}
	it->partial_blocks += n;
	free(sorted);
	return 0;
}

static int
allreduce(struct train_run *run, unsigned int number, struct train_iteration *it)
{
	const struct train_buckets *plan = &run->plan;

	for (unsigned int b = 0; b < plan->buckets; b++) {
		size_t first = plan->first[b], count = plan->first[b + 1] - first;
		struct weir_result result;
		int code = weir_allreduce(run->weir, run->send + first, run->recv + first, count,
			WEIR_DTYPE_FP32, WEIR_OP_SUM);

		if (code < 0) {
			train_say(run, "iteration %u: %s", number, weir_last_error(run->weir));
			return code;
		}
		weir_last_result(run->weir, &result);
		run->results += result.blocks;
		run->contributions += result.blocks * run->ranks;
		code = take_sum(run, number, first, count, it);
		if (code < 0) {
			train_say(run, "out of memory");
			return code;
		}
	}
	return 0;
}

/* Evaluate the model if it is time. 0 or -ENOMEM. */
static int
evaluate(struct train_run *run, uint64_t us)
{
	const struct train_options *o = run->options;
	struct train_mark *more;

	if (run->done % o->every != 0 && run->done < o->iterations)
		return 0;
	more = reallocarray(run->marks, run->mark_count + 1, sizeof(*more));
	if (more == NULL) {
		train_say(run, "out of memory");
		return -ENOMEM;
	}
	run->marks = more;
	more += run->mark_count++;
	*more = (struct train_mark){
		.iteration = run->done,
		.score = train_evaluate(run->model, &run->test),
		.seconds = (double)us / 1e6,
	};
	run->reached = more->score.accuracy >= o->target;
	train_report_mark(run);
	return 0;
}

static int
iterate(struct train_run *run)
{
	const struct train_options *o = run->options;
	uint64_t began = now_us(), at = began;
	int code = 0;

	for (unsigned int k = 0; code == 0 && !run->reached && k < o->warmup + o->iterations; k++) {
		struct train_iteration it = {0};
		struct train_slow slow = {0};

		/* Nobody is slow during the warm-up: the hosts begin together. */
		if (k >= o->warmup)
			slow = train_slow(o, run->rank, k - (unsigned int)o->warmup);
		compute(run, k, slow, &it);
		code = allreduce(run, k, &it);
		if (code < 0)
			return code;
		if (k < o->warmup) {
			run->results = run->contributions = 0;
			began = at = now_us();
			continue;
		}
		run->done++;
		if (run->model != NULL) {
			train_step(run->model, run->recv, run->block, (float)o->rate,
				(float)o->momentum);
			code = evaluate(run, now_us() - began);
		}
		it.us = now_us() - at;
		at += it.us;
		run->iterations[run->done - 1] = it;
		run->us = at - began;
	}
	return code;
}

/* Compare the weights of all hosts by their checksums: each puts its own in its place of a sum. */
static int
compare_replicas(struct train_run *run)
{
	static int32_t own[2 * WEIR_SOURCES_MAX], all[2 * WEIR_SOURCES_MAX];
	unsigned int at = 2 * run->rank;
	int code = WEIR_PARTIAL;

	run->checksum = train_checksum(run->model);
	own[at] = (int32_t)(uint32_t)run->checksum;
	own[at + 1] = (int32_t)(uint32_t)(run->checksum >> 32);
	for (unsigned int i = 0; code == WEIR_PARTIAL && i < COMPARISONS; i++) {
		code = weir_allreduce(
			run->weir, own, all, 2 * run->ranks, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		weir_error_feedback_forget(
			run->weir, own); /* it is sent again, and must count once */
	}
	if (code != 0) {
		train_say(run, "the weights can't be compared: %s", weir_last_error(run->weir));
		return code < 0 ? code : -ETIMEDOUT;
	}
	for (unsigned int r = 0; r < run->ranks; r++)
		if (memcmp(&all[2 * r], &own[at], 2 * sizeof(all[0])) != 0) {
			run->diverged = true;
			train_say(run, "rank %u has other weights", r);
		}
	return 0;
}

/* Plan the tensors of the file, or the one tensor that stands for a model. */
static int
prepare_tensors(struct train_run *run)
{
	const struct train_options *o = run->options;
	size_t one = o->elements;
	struct perf_shapes shapes = {0};
	char error[512];
	int code;

	if (o->shapes == NULL)
		return train_buckets_make(&run->plan, &one, 1, o->scale, o->bucket);
	code = perf_shapes_read(o->shapes, &shapes, error, sizeof(error));
	if (code < 0) {
		train_say(run, "%s", error);
		return code;
	}
	code = train_buckets_make(&run->plan, shapes.counts, shapes.tensors, o->scale, o->bucket);
	perf_shapes_destroy(&shapes);
	return code;
}

static int
prepare_model(struct train_run *run)
{
	const struct train_options *o = run->options;
	size_t elements;
	int code;

	run->block = weir_elements(run->weir, WEIR_DTYPE_FP32);
	if (run->block < 2) {
		train_say(run, "the job's blocks have one element, and two are needed");
		return -EPROTO;
	}
	if (o->batch > TRAIN_POINTS_ALL / run->ranks) {
		train_say(run, "--batch: a host has %u points, not %u",
			TRAIN_POINTS_ALL / run->ranks, (unsigned int)o->batch);
		return -EINVAL;
	}
	run->model = malloc(sizeof(*run->model));
	if (run->model == NULL)
		return -ENOMEM;
	train_model_init(run->model, o->seed);
	code = train_set_make(
		&run->train, train_stream(o->seed, TRAIN_STREAM_TRAIN), TRAIN_POINTS_ALL);
	if (code == 0)
		code = train_set_make(
			&run->test, train_stream(o->seed, TRAIN_STREAM_TEST), TRAIN_POINTS_TEST);
	if (code == 0)
		code = train_share_make(
			&run->share, o->seed, TRAIN_POINTS_ALL, run->rank, run->ranks);
	elements = train_elements(run->block);
	return code < 0 ? code : train_buckets_make(&run->plan, &elements, 1, 1, 0);
}

static int
prepare(struct train_run *run)
{
	const struct train_options *o = run->options;
	int code =
		o->shapes != NULL || o->elements != 0 ? prepare_tensors(run) : prepare_model(run);

	if (code == 0) {
		run->blocks =
			train_buckets_blocks(&run->plan, weir_elements(run->weir, WEIR_DTYPE_FP32));
		run->send = calloc(run->plan.elements, sizeof(*run->send));
		run->recv = calloc(run->plan.elements, sizeof(*run->recv));
		run->iterations = calloc(o->iterations, sizeof(*run->iterations));
		if (run->send == NULL || run->recv == NULL || run->iterations == NULL)
			code = -ENOMEM;
	}
	if (code == -ENOMEM)
		train_say(run, "out of memory for %zu elements", run->plan.elements);
	return code;
}

static enum train_exit
join_and_run(struct train_run *run)
{
	int code = weir_open(&run->options->weir, &run->weir);

	if (code < 0) {
		train_say(run, "%s", weir_last_error(run->weir));
		(void)train_report_json(run, weir_last_error(run->weir));
		return TRAIN_FAILED;
	}
	run->ranks = weir_sources(run->weir);
	if (run->rank >= run->ranks) {
		train_say(run, "the job has %u sources; weir-train needs them numbered from 0",
			run->ranks);
		return TRAIN_FAILED;
	}
	code = prepare(run);
	if (code < 0)
		return code == -EINVAL ? TRAIN_USAGE : TRAIN_FAILED;
	code = iterate(run);
	if (code == 0 && run->model != NULL)
		code = compare_replicas(run);
	train_report_end(run);
	if (train_report_json(run, code < 0 ? weir_last_error(run->weir) : NULL) < 0 || code < 0)
		return TRAIN_FAILED;
	if (run->wrong != 0 || run->diverged)
		return TRAIN_FAILED;
	return run->model == NULL || run->reached ? TRAIN_RIGHT : TRAIN_MISSED;
}

static struct train_options options = {
	.seed = 1,
	.iterations = 1000,
	.slow_min = 0.5,
	.slow_max = 2,
	.target = 0.95,
	.every = 10,
	.batch = 64,
	.rate = 0.07,
	.momentum = 0.9,
	.scale = 1,
};

/* Of the command line, in types that its table knows. */
static uint64_t job = 1, source = UINT64_MAX, sources, timeout_ms = 30000, join_timeout_ms;
static const char *partial = "as-is";

static const struct option_row connection[] = {
	{"switch", 0, OPTION_TEXT, &options.weir.switch_address, 0, 0, "IPV4",
		"address of the switch"},
	{"address", 0, OPTION_TEXT, &options.weir.address, 0, 0, "IPV4",
		"own address, towards the switch"},
	{"job", 0, OPTION_UINT, &job, 0, WEIR_JOBS_MAX - 1, NULL, "job of the switch"},
	{"source", 0, OPTION_UINT, &source, 0, WEIR_SOURCES_MAX - 1, NULL,
		"this host, 0 to the sources less 1; required"},
	{"sources", 0, OPTION_UINT, &sources, 1, WEIR_SOURCES_MAX, NULL,
		"that the job must have; 0: as many as the switch says"},
	{"timeout", 0, OPTION_UINT, &timeout_ms, 1, 86400000, "MS",
		"of an operation without progress"},
	{"join-timeout", 0, OPTION_UINT, &join_timeout_ms, 1, 86400000, "MS",
		"of the join; 0: as --timeout"},
	{"partial", 0, OPTION_CHOICE, &partial, 0, 0, "as-is|rescale|fail",
		"partial results, as in weir-perf"},
	{"error-feedback", 0, OPTION_FLAG, &options.weir.error_feedback, 0, 0, NULL,
		"add what missed its sum to the next contribution"},
	{0},
};

static const struct option_row iterations[] = {
	{"seed", 0, OPTION_UINT, &options.seed, 0, 0x1p64, NULL,
		"of data, weights, order and slow hosts; equal on all hosts"},
	{"iterations", 0, OPTION_UINT, &options.iterations, 1, 10000000, NULL,
		"that count; of the model at most"},
	{"warmup", 0, OPTION_UINT, &options.warmup, 0, 10000000, NULL,
		"iterations before them, in which nobody is slow"},
	{"compute-us", 0, OPTION_UINT, &options.compute_us, 0, 1e9, "US",
		"of an iteration, as if an accelerator worked"},
	{"slow-ppm", 0, OPTION_UINT, &options.slow_ppm, 0, 1e6, NULL,
		"in how many of a million iterations a host is slow"},
	{"slow-min", 0, OPTION_REAL, &options.slow_min, 0, 1000, NULL,
		"units that it is slow, at least"},
	{"slow-max", 0, OPTION_REAL, &options.slow_max, 0, 1000, NULL,
		"units that it is slow, at most; uniform"},
	{"slow-unit-us", 0, OPTION_UINT, &options.slow_unit_us, 1, 1e9, "US",
		"a unit; 0: as --compute-us"},
	{"json", 0, OPTION_TEXT, &options.json, 0, 0, "FILE", "write a report"},
	{NULL, 0, OPTION_FLAG, NULL, 0, 0, NULL, "The model:"},
	{"target", 0, OPTION_REAL, &options.target, 0.01, 1, NULL, "train to this accuracy"},
	{"every", 0, OPTION_UINT, &options.every, 1, 1e9, NULL, "evaluate every N iterations"},
	{"batch", 0, OPTION_UINT, &options.batch, 1, TRAIN_POINTS_ALL, NULL,
		"points per host and iteration"},
	{"rate", 0, OPTION_REAL, &options.rate, 0, 1000, NULL, "of learning"},
	{"momentum", 0, OPTION_REAL, &options.momentum, 0, 1, NULL, "of the steps"},
	{NULL, 0, OPTION_FLAG, NULL, 0, 0, NULL, "Tensors in place of the model:"},
	{"shapes", 0, OPTION_TEXT, &options.shapes, 0, 0, "FILE",
		"of this file, lines `name dimension...'"},
	{"elements", 0, OPTION_UINT, &options.elements, 1, 1 << 30, NULL,
		"or one of so many elements"},
	{"scale", 0, OPTION_UINT, &options.scale, 1, 1e9, NULL,
		"every tensor has so many times fewer elements"},
	{"bucket", 0, OPTION_UINT, &options.bucket, 0, 1e12, NULL,
		"elements of a bucket, about; 0: one for all"},
	{0},
};

static int
usage(const char *text)
{
	fprintf(stderr, "weir-train: %s; see weir-train --help\n", text);
	return TRAIN_USAGE;
}

/* Check combinations of options. 0, or TRAIN_USAGE after a message. */
static int
check_options(void)
{
	options.weir.partial = partial[0] == 'r' ? WEIR_PARTIAL_RESCALE
		: partial[0] == 'f'              ? WEIR_PARTIAL_FAIL
						 : WEIR_PARTIAL_AS_IS;
	options.weir.job = (uint8_t)job;
	options.weir.source = (int)source;
	options.weir.sources = (unsigned int)sources;
	options.weir.op_timeout_ms = (unsigned int)timeout_ms;
	options.weir.join_timeout_ms =
		(unsigned int)(join_timeout_ms == 0 ? timeout_ms : join_timeout_ms);
	if (options.weir.switch_address == NULL || options.weir.address == NULL ||
		source == UINT64_MAX)
		return usage("--switch, --address and --source are needed");
	if (options.slow_max < options.slow_min)
		return usage("--slow-max is less than --slow-min");
	if (options.slow_ppm != 0 && options.slow_unit_us == 0 && options.compute_us == 0)
		return usage("--slow-ppm needs --compute-us or --slow-unit-us");
	return 0;
}

int
main(int argc, char **argv)
{
	struct train_run run = {.options = &options};
	int status;

	options_parse("weir-train",
		"Train a small model, or only the shape of a large one, data-parallel through a "
		"Weir "
		"switch; one process per host. Hosts can be slow on purpose.\v"
		"Exit status: 0 every sum is right, the target is reached and all hosts have the "
		"same "
		"weights; 1 an error; 2 usage; 3 the target was not reached.",
		NULL, (const struct option_row *[]){connection, iterations, NULL}, argc, argv);
	status = check_options();
	if (status != 0)
		return status;
	run.rank = (unsigned int)source;
	status = (int)join_and_run(&run);
	weir_close(run.weir);
	free(run.send);
	free(run.recv);
	free(run.iterations);
	free(run.plan.first);
	free(run.model);
	train_set_destroy(&run.train);
	train_set_destroy(&run.test);
	free(run.share.order);
	free(run.marks);
	return status;
}
