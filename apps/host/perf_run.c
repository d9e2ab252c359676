/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurements. A run is a sequence of steps, numbered alike on all ranks: an iteration each, or
 * the end of a row. What is done in a step depends on its number alone; so ranks of which one was started
 * anew, or is a step ahead, can agree on one and go on there.
 */
#include "apps/host/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPEAK_NS UINT64_C(3000000000)
#define OVER     2 /* what a step returns that does not exist */

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Tell people that a long run is alive. */
static void
progress(struct perf_run *run, size_t bytes, unsigned int iteration)
{
	uint64_t now = now_ns();

	if (run->spoke_ns == 0)
		run->spoke_ns = now;
	if (run->rank != 0 || now - run->spoke_ns < SPEAK_NS)
		return;
	run->spoke_ns = now;
	perf_say(run, "%zu bytes, iteration %u of %u", bytes, iteration + 1,
		run->options->iterations);
}

static int
failed(const struct perf_run *run, int code)
{
	perf_say(run, "%s", weir_last_error(run->weir));
	return code;
}

/*
 * What a ring AllReduce of so many bytes sends per host: 2(n-1)/n of them, in TCP segments that
 * make IP packets as large as a whole block's (Ethernet 14, IPv4 20, TCP 20).
 */
static double
ring_bytes(const struct perf_run *run, double bytes)
{
	double payload = bytes * 2 * (run->ranks - 1) / run->ranks;
	double packet = weir_elements(run->weir, run->options->dtype) * 4.0 + WEIR_EXT_BYTES + 28;

	return payload + payload / (packet > 41 ? packet - 40 : 1) * 54;
}

/* One AllReduce; WEIR_PARTIAL is counted and is no failure. */
static int
reduce(struct perf_run *run, const void *send, void *recv, size_t count)
{
	int code = weir_allreduce(run->weir, send, recv, count, run->options->dtype, WEIR_OP_SUM);

	if (code < 0)
		return failed(run, code);
	run->reduced_bytes += (double)count * 4;
	run->ring_wire_bytes += ring_bytes(run, (double)count * 4);
	return code;
}

static int
barrier(struct perf_run *run)
{
	int code = weir_barrier(run->weir);

	return code < 0 ? failed(run, code) : 0;
}

static struct perf_reference
reference_of(const struct perf_run *run, size_t count)
{
	return (struct perf_reference){
		.data = run->data,
		.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.rank = run->rank,
		.count = count,
		.iteration = run->iteration,
	};
}

static int
by_first(const void *a, const void *b)
{
	const struct weir_degraded *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/*
 * Check the last operation's result, elements [first, ...) of the iteration: whole blocks against
 * the sum of all ranks, degraded ones against the sum of those that are in them.
 */
static int
check(struct perf_run *run, struct perf_timing *timing, size_t first, size_t count,
	const uint8_t *got)
{
	const struct weir_degraded *blocks;
	size_t n = weir_degraded(run->weir, &blocks), at = 0;
	struct weir_degraded *sorted = NULL;
	const struct perf_reference reference = reference_of(run, first + count);

	if (n != 0) {
		sorted = malloc(n * sizeof(*sorted));
		if (sorted == NULL)
			return -ENOMEM;
		memcpy(sorted, blocks, n * sizeof(*sorted));
		qsort(sorted, n, sizeof(*sorted), by_first);
	}
	for (size_t i = 0; i < n; i++) {
		const struct weir_degraded *d = &sorted[i];

		timing->own_wrong += perf_reference_wrong(
			&reference, NULL, first + at, d->first - at, got + at * 4);
		timing->own_wrong += perf_reference_wrong(
			&reference, d->present, first + d->first, d->count, got + d->first * 4);
		at = d->first + d->count;
	}
	timing->own_wrong +=
		perf_reference_wrong(&reference, NULL, first + at, count - at, got + at * 4);
	free(sorted);
	return 0;
}

static void
count_degraded(struct perf_run *run, struct perf_timing *timing)
{
	struct weir_result result;

	weir_last_result(run->weir, &result);
	timing->degraded += result.degraded;
	run->degraded += result.degraded;
}

/* All ranks' wrong elements: one more AllReduce, of one element of the type in use. */
static int
gather_wrong(struct perf_run *run, struct perf_timing *timing)
{
	/* Each rank's count is capped so that the sum is exact: in fp32 below 2^24. */
	uint64_t most = (1u << 24) / run->ranks - 1;
	uint32_t own = (uint32_t)(timing->own_wrong < most ? timing->own_wrong : most);
	float f = (float)own;
	int code;

	timing->wrong = timing->own_wrong;
	if (!run->options->check)
		return 0;
	if (run->options->dtype == WEIR_DTYPE_INT32) {
		code = reduce(run, &own, &own, 1);
	} else {
		code = reduce(run, &f, &f, 1);
		own = (uint32_t)f;
	}
	if (code < 0)
		return code;
	count_degraded(run, timing);
	if (own > timing->wrong)
		timing->wrong = own;
	return 0;
}

static void
rate(const struct perf_run *run, struct perf_timing *timing, size_t bytes)
{
	double us = timing->operations != 0 ? (double)timing->ns / 1e3 / timing->operations : 0;

	timing->measured = timing->operations != 0;
	timing->us = us;
	timing->algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
	timing->busbw = timing->algbw * 2 * (run->ranks - 1) / run->ranks;
}

/* A row that this rank works at: the last one, or the one before when the ranks go a step back. */
static struct perf_row *
row_of(struct perf_run *run, unsigned int number)
{
	struct perf_row *more;

	for (unsigned int i = run->row_count; i-- > 0 && run->rows[i].number >= number;)
		if (run->rows[i].number == number)
			return &run->rows[i];
	more = reallocarray(run->rows, run->row_count + 1, sizeof(*more));
	if (more == NULL) {
		perf_say(run, "out of memory");
		return NULL;
	}
	run->rows = more;
	more += run->row_count++;
	*more = (struct perf_row){.number = number, .tensors = 1, .iteration = -1};
	return more;
}

static void
print_once(struct perf_run *run, struct perf_row *row)
{
	if (!row->printed)
		perf_report_row(run, row);
	row->printed = true;
}

/* Time is measured at the first time: what is taken again may be warmer, or colder. */
static void
add_time(const struct perf_run *run, struct perf_timing *timing, uint64_t ns)
{
	if (run->step < run->done)
		return;
	timing->ns += ns;
	timing->operations++;
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

	return run->options->barrier || run->shapes != NULL ? step
							    : step / per * (per - 1) + step % per;
}

/* An iteration of one size and one way. */
static int
iterate(struct perf_run *run, uint8_t *recv, size_t count, struct perf_timing *timing,
	unsigned int k)
{
	const struct perf_options *o = run->options;
	uint64_t begin;
	int code;

	/* Without checks the calls follow each other, as nccl-tests' do. */
	if (o->check || k == 0 || run->anew) {
		perf_data_fill(&run->data, run->rank, run->iteration, 0, count, run->send);
		/* Have none wait in the measurement for another's data. */
		code = barrier(run);
		if (code < 0)
			return code;
	}
	progress(run, count * 4, k < o->warmup ? 0 : k - o->warmup);
	begin = now_ns();
	code = reduce(run, run->send, recv, count);
	if (code < 0)
		return code;
	if (k >= o->warmup)
		add_time(run, timing, now_ns() - begin);
	count_degraded(run, timing);
	return o->check ? check(run, timing, 0, count, recv) : 0;
}

/* The size of a row; 0 and more bytes, or false: there is no such row. */
static bool
size_of(const struct perf_options *o, unsigned int row, size_t *bytes)
{
	*bytes = o->min_bytes;
	for (unsigned int i = 0; i < row; i++) {
		size_t next = o->step_bytes ? *bytes + o->step_bytes
					    : (size_t)((double)*bytes * o->step_factor);

		if (next <= *bytes || next > o->max_bytes)
			return false;
		*bytes = next;
	}
	return true;
}

static int
step_sizes(struct perf_run *run)
{
	uint64_t per = steps_per(run), measurement = run->step / per;
	unsigned int k = (unsigned int)(run->step % per);
	bool in_place = measurement % 2 != 0;
	struct perf_timing *timing;
	struct perf_row *row;
	size_t bytes;
	int code;

	if (!size_of(run->options, (unsigned int)(measurement / 2), &bytes))
		return OVER;
	row = row_of(run, (unsigned int)(measurement / 2));
	if (row == NULL)
		return -ENOMEM;
	row->count = bytes / 4;
	row->bytes = row->count * 4;
	timing = in_place ? &row->in : &row->out;
	if (k + 1 < per)
		return iterate(run, in_place ? run->send : run->recv, row->count, timing, k);
	rate(run, timing, row->bytes);
	code = gather_wrong(run, timing);
	if (code >= 0 && in_place)
		print_once(run, row);
	return code < 0 ? code : 0;
}

static int
step_barrier(struct perf_run *run)
{
	const struct perf_options *o = run->options;
	struct perf_row *row = row_of(run, 0);
	uint64_t begin = now_ns();
	int code;

	if (row == NULL)
		return -ENOMEM;
	if (run->step == steps_per(run) - 1) {
		rate(run, &row->in, 0);
		print_once(run, row);
		return OVER;
	}
	code = barrier(run);
	if (code < 0)
		return code;
	if (run->step >= o->warmup)
		add_time(run, &row->in, now_ns() - begin);
	count_degraded(run, &row->in);
	progress(run, 0, run->step < o->warmup ? 0 : (unsigned int)(run->step - o->warmup));
	return 0;
}

/*
 * One iteration over all tensors. Degraded tensors are checked at once, as the library knows what
 * is in them only until its next operation; the others when all are reduced, so that no rank waits
 * in the measurement while another checks.
 */
static int
iterate_shapes(struct perf_run *run, struct perf_row *row, unsigned int k)
{
	const struct perf_shapes *shapes = run->shapes;
	const struct perf_reference reference = reference_of(run, shapes->elements);
	uint64_t total = 0, begin;
	bool *checked = run->checked;
	uint8_t *data = run->send;
	size_t first = 0;
	int code;

	memset(checked, 0, shapes->tensors * sizeof(*checked));
	perf_data_fill(&run->data, run->rank, run->iteration, 0, shapes->elements, data);
	code = barrier(run);
	for (unsigned int t = 0; code >= 0 && t < shapes->tensors; first += shapes->counts[t++]) {
		uint8_t *tensor = data + first * 4;

		begin = now_ns();
		code = reduce(run, tensor, tensor, shapes->counts[t]);
		total += now_ns() - begin;
		progress(run, row->bytes, k);
		count_degraded(run, &row->in);
		checked[t] = code == WEIR_PARTIAL || !run->options->check;
		if (code == WEIR_PARTIAL && run->options->check)
			code = check(run, &row->in, first, shapes->counts[t], tensor);
	}
	first = 0;
	for (unsigned int t = 0; code >= 0 && t < shapes->tensors; first += shapes->counts[t++])
		if (!checked[t])
			row->in.own_wrong += perf_reference_wrong(
				&reference, NULL, first, shapes->counts[t], data + first * 4);
	if (code < 0)
		return code;
	row->in.ns = total;
	row->in.operations = 1;
	rate(run, &row->in, row->bytes);
	return 0;
}

static int
step_shapes(struct perf_run *run)
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
	*row = (struct perf_row){
		.number = k,
		.printed = row != &warm && row->printed,
		.count = shapes->elements,
		.bytes = shapes->elements * 4,
		.tensors = shapes->tensors,
		.iteration = (int)k,
		.in.own_wrong = run->early_wrong,
	};
	code = iterate_shapes(run, row, k);
	if (code >= 0)
		code = gather_wrong(run, &row->in);
	if (code < 0)
		return code;
	/* What was wrong before the measurement began is told in its first row. */
	run->early_wrong = row == &warm ? row->in.own_wrong : 0;
	if (row != &warm)
		print_once(run, row);
	return 0;
}

static int
create_buffers(struct perf_run *run)
{
	const struct perf_shapes *shapes = run->shapes;
	size_t room = shapes != NULL ? shapes->elements * 4 : run->options->max_bytes / 4 * 4 + 4;

	if (run->options->barrier)
		return 0;
	run->send = malloc(room);
	if (shapes == NULL)
		run->recv = malloc(room);
	else
		run->checked = malloc(shapes->tensors * sizeof(*run->checked));
	if (run->send != NULL && (shapes == NULL ? run->recv != NULL : run->checked != NULL))
		return 0;
	perf_say(run, "no memory for buffers of %zu bytes", room);
	return -ENOMEM;
}

/* Step after step, until there is none or a failure can't be mended. */
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
		run->anew = false;
		if (++run->step > run->done)
			run->done = run->step;
	}
}

int
perf_run_all(struct perf_run *run)
{
	int code = create_buffers(run);

	if (code == 0)
		code = take_steps(run,
			run->options->barrier         ? step_barrier
				: run->shapes != NULL ? step_shapes
						      : step_sizes);
	free(run->send);
	free(run->recv);
	free(run->checked);
	return code;
}
