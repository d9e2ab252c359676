/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. A run is a sequence of steps, numbered alike on all ranks: an iteration each,
 * or the end of a measurement. A step depends only on its number, so ranks can agree on a step and
 * continue there, even if one was restarted or is a step ahead.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/perf/perf.h"

#define OVER      2 /* returned for a step beyond the last one */
#define REPORT_NS UINT64_C(3000000000)

/* Report the progress of a long run from time to time. */
static void
progress(struct perf_run *run, size_t bytes, unsigned int iteration)
{
	uint64_t now = perf_now_ns();

	if (run->reported_ns == 0)
		run->reported_ns = now;
	if (run->rank != 0 || now - run->reported_ns < REPORT_NS)
		return;
	run->reported_ns = now;
	perf_message(run, "%s of %s, %zu bytes, iteration %u of %" PRIu64,
		weir_collective_text(run->current.collective), weir_dtype_text(run->current.dtype),
		bytes, iteration + 1, run->options->iterations);
}

static double
quantile_us(const struct perf_run *run, unsigned int per_mille)
{
	return (double)perf_quantile(run->samples, run->sample_count, per_mille) / 1e3;
}

/* Compute the rates, for operations of so many bytes. */
static void
rate(struct perf_run *run, struct perf_timing *t, size_t bytes)
{
	unsigned int n = t->operations != 0 ? t->operations : 1;
	double us = (double)t->ns / 1e3 / n;

	perf_sort(run->samples, run->sample_count);
	t->measured = t->operations != 0;
	t->us = us;
	t->min_us = quantile_us(run, 0);
	t->median_us = quantile_us(run, 500);
	t->p99_us = quantile_us(run, 990);
	t->algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
	t->busbw = t->algbw * perf_bus_factor(run->current.collective, run->ranks);
	t->wire_sent = (double)t->sent / n;
	t->wire_received = (double)t->received / n;
}

/* A row that this rank works at: the last one, or the one before when the ranks go a step back.
 * Valid until the next call. NULL: out of memory, after a message. */
static struct perf_row *
row_of(struct perf_run *run, unsigned int number)
{
	struct perf_row *more;

	for (unsigned int i = run->row_count; i-- > 0 && run->rows[i].number >= number;)
		if (run->rows[i].number == number)
			return &run->rows[i];
	more = reallocarray(run->rows, run->row_count + 1, sizeof(*more));
	if (more == NULL) {
		perf_message(run, "out of memory");
		return NULL;
	}
	run->rows = more;
	more += run->row_count++;
	*more = (struct perf_row){.number = number, .tensors = 1, .iteration = -1};
	return more;
}

static void
row_print(struct perf_run *run, struct perf_row *row)
{
	if (!row->printed)
		perf_report_row(run, row);
	row->printed = true;
}

/* Steps of a measurement: its iterations, and what ends it. */
static uint64_t
steps_per(const struct perf_run *run)
{
	return (uint64_t)run->options->warmup + run->options->iterations + 1;
}

uint64_t
perf_iteration(const struct perf_run *run, uint64_t step)
{
	uint64_t per = steps_per(run);

	return step / per * (per - 1) + step % per;
}

/* An iteration of one size and one way. */
static int
iterate(struct perf_run *run, const struct perf_row *row, struct perf_timing *timing, bool in_place,
	unsigned int k)
{
	const struct perf_options *o = run->options;
	bool barrier = run->current.collective == WEIR_COLLECTIVE_BARRIER;
	/* Without checks the calls follow each other, as nccl-tests' do. */
	bool anew = !barrier && (o->check || k == 0 || run->resumed);
	int code;

	perf_slots_prepare(run, row->count, in_place, anew);
	if (anew) { /* so that no rank waits for another's data during the measurement */
		code = perf_wait_for_all(run);
		if (code < 0)
			return code;
	}
	progress(run, row->bytes, k < o->warmup ? 0 : k - o->warmup);
	run->bytes += (double)(row->bytes * o->inflight);
	/* Only the first time counts: caches differ when a step is repeated. */
	return perf_operate(run, timing, k >= o->warmup && run->step >= run->done);
}

/* The measurements have two ways of calling, but for the last one, of a barrier. False: it is
 * over. */
static bool
find(struct perf_run *run, uint64_t measurement, unsigned int *number, unsigned int *size)
{
	uint64_t series = measurement / 2 / run->sizes;

	*number = (unsigned int)(measurement / 2);
	*size = (unsigned int)(measurement / 2 % run->sizes);
	if (series >= run->series_count)
		return false;
	run->current = run->series[series];
	return run->current.collective != WEIR_COLLECTIVE_BARRIER ||
		measurement == series * 2 * run->sizes;
}

/* The end of a measurement: compute and print its results. */
static int
conclude(struct perf_run *run, struct perf_row *row, struct perf_timing *timing, bool in_place)
{
	double link = run->options->link_rate / 8e6; /* bytes per microsecond */
	int code = 0;

	rate(run, timing, row->bytes);
	if (run->current.collective != WEIR_COLLECTIVE_BARRIER)
		code = perf_exchange_timing(run, timing);
	/* Of the busiest rank, where the ranks have told their bytes. */
	if (link > 0 && timing->us > 0) {
		timing->link_share =
			fmax(timing->wire_sent, timing->wire_received) / timing->us / link;
		timing->data_share = timing->algbw * 1e3 / link;
	}
	if (code >= 0 && in_place)
		row_print(run, row);
	return code;
}

static int
take_step(struct perf_run *run)
{
	uint64_t per = steps_per(run), measurement = run->step / per;
	unsigned int k = (unsigned int)(run->step % per), number, size;
	struct perf_timing *timing;
	struct perf_row *row;
	bool in_place;

	if (!find(run, measurement, &number, &size))
		return OVER;
	row = row_of(run, number);
	if (row == NULL)
		return -ENOMEM;
	if (run->step >= run->done && measurement != run->samples_of) {
		run->samples_of = measurement;
		run->sample_count = 0;
	}
	row->series = run->current;
	row->count = perf_plan_count(run->options, &run->current, run->ranks, size, &row->bytes);
	in_place = measurement % 2 != 0 || run->current.collective == WEIR_COLLECTIVE_BARRIER;
	timing = in_place ? &row->in : &row->out;
	if (k + 1 < per)
		return iterate(run, row, timing, in_place, k);
	return conclude(run, row, timing, in_place);
}

/* ---- --shapes: all tensors of a model, in place, one call each ---- */

/* One iteration over all tensors. They are checked when all are reduced, so that no rank waits in
 * the measurement while another checks. */
static int
iterate_model(struct perf_run *run, struct perf_row *row, unsigned int k)
{
	const struct perf_shapes *shapes = run->shapes;
	uint64_t total = 0, begin;
	size_t first = 0;
	int code;

	perf_slots_prepare(run, shapes->elements, true, true);
	code = perf_wait_for_all(run);
	for (unsigned int t = 0; code >= 0 && t < shapes->tensors; first += shapes->counts[t++]) {
		begin = perf_now_ns();
		code = perf_operate_tensor(run, &row->in, first, shapes->counts[t]);
		total += perf_now_ns() - begin;
		progress(run, row->bytes, k);
	}
	if (code < 0)
		return code;
	row->in.own_wrong += perf_wrong(run, &run->slots[0]);
	run->bytes += (double)row->bytes;
	row->in.ns = total;
	row->in.operations = 1;
	rate(run, &row->in, row->bytes);
	return 0;
}

/* A step of --shapes. */
static int
model_step(struct perf_run *run)
{
	const struct perf_shapes *shapes = run->shapes;
	unsigned int warmup = run->options->warmup, k = 0;
	struct perf_row warm, *row = &warm;
	int code;

	if (run->step == steps_per(run) - 1)
		return OVER;
	if (run->step >= warmup) {
		k = (unsigned int)(run->step - warmup);
		row = row_of(run, k);
	}
	if (row == NULL)
		return -ENOMEM;
	run->current = run->series[0];
	*row = (struct perf_row){
		.number = k,
		.printed = row != &warm && row->printed,
		.series = run->current,
		.count = shapes->elements,
		.bytes = shapes->elements * weir_dtype_bytes(run->current.dtype),
		.tensors = shapes->tensors,
		.iteration = (int)k,
		.in.own_wrong = run->early_wrong,
	};
	code = iterate_model(run, row, k);
	if (code >= 0 && run->options->check)
		code = perf_exchange_timing(run, &row->in);
	if (code < 0)
		return code;
	/* The first row includes the wrong elements of the warm-up. */
	run->early_wrong = row == &warm ? row->in.own_wrong : 0;
	if (row != &warm)
		row_print(run, row);
	return 0;
}

/* ---- a run ---- */

/* Step after step, until there is none, or recovery fails. */
static int
take_steps(struct perf_run *run, int (*step)(struct perf_run *))
{
	int code = run->options->rejoins != 0 ? perf_agree(run) : 0;

	for (;;) {
		if (code == 0) {
			run->iteration = perf_iteration(run, run->step);
			code = step(run);
		}
		if (code == OVER)
			return 0;
		if (code < 0) {
			code = perf_recover(run, code);
			if (code < 0)
				return code;
			continue;
		}
		run->repeated += run->step < run->done;
		run->resumed = false;
		if (++run->step > run->done)
			run->done = run->step;
	}
}

int
perf_run_all(struct perf_run *run)
{
	int code = perf_plan(run->options, run->ranks, &run->series, &run->series_count);
	size_t most = 0, bytes; /* of the largest operation */

	run->sizes = perf_plan_sizes(run->options);
	run->samples_of = UINT64_MAX;
	if (code == -EINVAL)
		perf_message(
			run, "--root %u: the job has %u ranks", run->options->root, run->ranks);
	for (unsigned int i = 0; i < run->series_count; i++) {
		perf_plan_count(run->options, &run->series[i], run->ranks, run->sizes - 1, &bytes);
		most = bytes > most ? bytes : most;
	}
	if (run->shapes != NULL && code == 0)
		most = run->shapes->elements * weir_dtype_bytes(run->series[0].dtype);
	if (code == 0)
		code = perf_slots_create(run, most, run->shapes == NULL);
	if (code == 0)
		code = take_steps(run, run->shapes != NULL ? model_step : take_step);
	perf_slots_destroy(run);
	free(run->series);
	return code;
}
