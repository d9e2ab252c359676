/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPEAK_NS UINT64_C(3000000000)

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
	perf_say(run, "%s", weir_error(run->weir));
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

	if (n != 0) {
		sorted = malloc(n * sizeof(*sorted));
		if (sorted == NULL)
			return -ENOMEM;
		memcpy(sorted, blocks, n * sizeof(*sorted));
		qsort(sorted, n, sizeof(*sorted), by_first);
	}
	for (size_t i = 0; i < n; i++) {
		const struct weir_degraded *d = &sorted[i];

		timing->own_wrong += perf_data_wrong(
			&run->data, NULL, run->iteration, first + at, d->first - at, got + at * 4);
		timing->own_wrong += perf_data_wrong(&run->data, d->present, run->iteration,
			first + d->first, d->count, got + d->first * 4);
		at = d->first + d->count;
	}
	timing->own_wrong += perf_data_wrong(
		&run->data, NULL, run->iteration, first + at, count - at, got + at * 4);
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
rate(const struct perf_run *run, struct perf_timing *timing, size_t bytes, double us)
{
	timing->measured = true;
	timing->us = us;
	timing->algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
	timing->busbw = timing->algbw * 2 * (run->ranks - 1) / run->ranks;
}

/* The iterations of one size and one way. */
static int
measure(struct perf_run *run, uint8_t *send, uint8_t *recv, size_t count,
	struct perf_timing *timing)
{
	const struct perf_options *o = run->options;
	uint64_t total = 0, begin = 0;
	int code = 0;

	for (unsigned int k = 0; k < o->warmup + o->iterations; k++) {
		bool warm = k < o->warmup;

		/* Without checks the calls follow each other, as nccl-tests' do. */
		if (o->check || k == 0) {
			perf_data_fill(&run->data, run->rank, run->iteration, 0, count, send);
			/* Have none wait in the measurement for another's data. */
			code = barrier(run);
		}
		if (code < 0)
			return code;
		progress(run, count * 4, warm ? 0 : k - o->warmup);
		begin = now_ns();
		code = reduce(run, send, recv, count);
		if (code < 0)
			return code;
		if (!warm)
			total += now_ns() - begin;
		count_degraded(run, timing);
		if (o->check && check(run, timing, 0, count, recv) < 0)
			return -ENOMEM;
		run->iteration++;
	}
	rate(run, timing, count * 4, (double)total / 1e3 / o->iterations);
	return gather_wrong(run, timing);
}

static struct perf_row *
new_row(struct perf_run *run)
{
	struct perf_row *more = reallocarray(run->rows, run->row_count + 1, sizeof(*more));

	if (more == NULL) {
		perf_say(run, "out of memory");
		return NULL;
	}
	run->rows = more;
	more += run->row_count++;
	*more = (struct perf_row){.tensors = 1, .iteration = -1};
	return more;
}

int
perf_run_sizes(struct perf_run *run)
{
	const struct perf_options *o = run->options;
	size_t room = o->max_bytes / 4 * 4 + 4, next;
	uint8_t *send = malloc(room), *recv = malloc(room);
	int code = send == NULL || recv == NULL ? -ENOMEM : 0;

	if (code < 0)
		perf_say(run, "no memory for two buffers of %zu bytes", room);
	for (size_t bytes = o->min_bytes; code >= 0 && bytes <= o->max_bytes; bytes = next) {
		struct perf_row *row = new_row(run);

		if (row == NULL) {
			code = -ENOMEM;
			break;
		}
		row->count = bytes / 4;
		row->bytes = row->count * 4;
		code = measure(run, send, recv, row->count, &row->out);
		if (code >= 0)
			code = measure(run, send, send, row->count, &row->in);
		if (code >= 0)
			perf_report_row(run, row);
		next = o->step_bytes ? bytes + o->step_bytes
				     : (size_t)((double)bytes * o->step_factor);
		if (next <= bytes)
			break;
	}
	free(send);
	free(recv);
	return code < 0 ? code : 0;
}

int
perf_run_barrier(struct perf_run *run)
{
	const struct perf_options *o = run->options;
	struct perf_row *row = new_row(run);
	uint64_t begin = 0;

	if (row == NULL)
		return -ENOMEM;
	for (unsigned int k = 0; k < o->warmup + o->iterations; k++) {
		int code;

		if (k == o->warmup)
			begin = now_ns();
		code = barrier(run);
		if (code < 0)
			return code;
		count_degraded(run, &row->in);
		progress(run, 0, k < o->warmup ? 0 : k - o->warmup);
	}
	rate(run, &row->in, 0, (double)(now_ns() - begin) / 1e3 / o->iterations);
	perf_report_row(run, row);
	return 0;
}

/*
 * One iteration over all tensors. Degraded tensors are checked at once, as the library knows what
 * is in them only until its next operation; the others when all are reduced, so that no rank waits
 * in the measurement while another checks. checked: one per tensor.
 */
static int
iterate_shapes(struct perf_run *run, const struct perf_shapes *shapes, uint8_t *data, bool *checked,
	struct perf_row *row, unsigned int k)
{
	uint64_t total = 0, begin;
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
			row->in.own_wrong += perf_data_wrong(&run->data, NULL, run->iteration,
				first, shapes->counts[t], data + first * 4);
	if (code < 0)
		return code;
	rate(run, &row->in, row->bytes, (double)total / 1e3);
	return 0;
}

int
perf_run_shapes(struct perf_run *run, const struct perf_shapes *shapes)
{
	const struct perf_options *o = run->options;
	uint8_t *data = malloc(shapes->elements * 4);
	bool *checked = malloc(shapes->tensors * sizeof(*checked));
	int code = data == NULL || checked == NULL ? -ENOMEM : 0;
	uint64_t early_wrong = 0;

	if (code < 0)
		perf_say(run, "no memory for %zu elements", shapes->elements);
	for (unsigned int k = 0; code >= 0 && k < o->warmup + o->iterations; k++) {
		struct perf_row warm, *row = &warm;

		if (k >= o->warmup && (row = new_row(run)) == NULL) {
			code = -ENOMEM;
			break;
		}
		*row = (struct perf_row){
			.count = shapes->elements,
			.bytes = shapes->elements * 4,
			.tensors = shapes->tensors,
			.iteration = (int)(k - o->warmup),
			.in.own_wrong = early_wrong,
		};
		code = iterate_shapes(
			run, shapes, data, checked, row, k < o->warmup ? 0 : k - o->warmup);
		if (code >= 0)
			code = gather_wrong(run, &row->in);
		/* What was wrong before the measurement began is told in its first row. */
		early_wrong = k < o->warmup ? row->in.own_wrong : 0;
		if (code >= 0 && k >= o->warmup)
			perf_report_row(run, row);
		run->iteration++;
	}
	free(data);
	free(checked);
	return code < 0 ? code : 0;
}
