/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of --shapes: all tensors of a model, in place, one call each. */
#include <errno.h>
#include <string.h>

#include "apps/perf/perf.h"

/*
 * One iteration over all tensors. Degraded tensors are checked at once, as the library knows what
 * is in them only until its next operation; the others when all are reduced, so that no rank waits
 * in the measurement while another checks.
 */
static int
iterate(struct perf_run *run, struct perf_row *row, unsigned int k)
{
	const struct perf_shapes *shapes = run->shapes;
	struct perf_slot *slot = &run->slots[0];
	size_t bytes = weir_dtype_bytes(run->current.dtype), first = 0;
	bool *checked = run->checked;
	uint64_t total = 0, begin;
	int code;

	memset(checked, 0, shapes->tensors * sizeof(*checked));
	perf_slots_prepare(run, shapes->elements, true, true);
	code = perf_wait_for_all(run);
	for (unsigned int t = 0; code >= 0 && t < shapes->tensors; first += shapes->counts[t++]) {
		begin = perf_now_ns();
		code = perf_operate_tensor(run, &row->in, first, shapes->counts[t]);
		total += perf_now_ns() - begin;
		perf_progress(run, row->bytes, k);
		checked[t] = code == WEIR_PARTIAL || !run->options->check;
	}
	first = 0;
	for (unsigned int t = 0; code >= 0 && t < shapes->tensors; first += shapes->counts[t++])
		if (!checked[t])
			row->in.own_wrong += perf_reference_wrong(&slot->reference, NULL, first,
				shapes->counts[t], slot->send + first * bytes);
	if (code < 0)
		return code;
	run->bytes += (double)row->bytes;
	row->in.ns = total;
	row->in.operations = 1;
	perf_rate(run, &row->in, row->bytes);
	return 0;
}

int
perf_model_step(struct perf_run *run)
{
	const struct perf_shapes *shapes = run->shapes;
	unsigned int warmup = run->options->warmup, k = 0;
	struct perf_row warm, *row = &warm;
	int code;

	if (run->step == perf_steps_per(run) - 1)
		return PERF_OVER;
	if (run->step >= warmup) {
		k = (unsigned int)(run->step - warmup);
		row = perf_row_of(run, k);
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
	code = iterate(run, row, k);
	if (code >= 0 && run->options->check)
		code = perf_exchange_timing(run, &row->in);
	if (code < 0)
		return code;
	/* What was wrong before the measurement began is told in its first row. */
	run->early_wrong = row == &warm ? row->in.own_wrong : 0;
	if (row != &warm)
		perf_row_print(run, row);
	return 0;
}
