/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: called, timed, counted and checked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "apps/perf/perf.h"

#define GUARD      64 /* bytes behind each receive buffer, which must not change */
#define GUARD_BYTE 0xa5
#define ALIGNED    64

uint64_t
perf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int
by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void
perf_sort(uint64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_size);
}

uint64_t
perf_quantile(const uint64_t *sorted, size_t n, unsigned int per_mille)
{
	size_t rank = (n * per_mille + 999) / 1000;

	return n == 0 ? 0 : sorted[rank == 0 ? 0 : rank - 1];
}

int
perf_failed(const struct perf_run *run, int code)
{
	perf_message(run, "%s", weir_last_error(run->weir));
	return code;
}

static uint8_t *
buffer(size_t bytes)
{
	return aligned_alloc(ALIGNED, (bytes + GUARD + ALIGNED - 1) / ALIGNED * ALIGNED);
}

int
perf_slots_create(struct perf_run *run, size_t bytes, bool out_of_place)
{
	const struct perf_options *o = run->options;

	run->slots = calloc(o->inflight, sizeof(*run->slots));
	run->samples = calloc((size_t)o->iterations * o->inflight, sizeof(*run->samples));
	for (unsigned int i = 0; run->slots != NULL && i < o->inflight; i++) {
		run->slots[i].send = buffer(bytes);
		run->slots[i].recv = out_of_place ? buffer(bytes) : NULL;
		if (run->slots[i].send == NULL || (out_of_place && run->slots[i].recv == NULL))
			break;
		if (i + 1 == o->inflight && run->samples != NULL)
			return 0;
	}
	perf_message(run, "no memory for buffers of %zu bytes", bytes);
	return -ENOMEM;
}

void
perf_slots_destroy(struct perf_run *run)
{
	for (unsigned int i = 0; run->slots != NULL && i < run->options->inflight; i++) {
		free(run->slots[i].send);
		free(run->slots[i].recv);
		free(run->slots[i].degraded);
	}
	free(run->slots);
	free(run->samples);
	run->slots = NULL;
	run->samples = NULL;
}

void
perf_slots_prepare(struct perf_run *run, size_t count, bool in_place, bool fill)
{
	const struct perf_options *o = run->options;
	size_t bytes = weir_dtype_bytes(run->current.dtype);

	for (unsigned int i = 0; i < o->inflight; i++) {
		struct perf_slot *slot = &run->slots[i];
		struct verify *v = &slot->what;
		void *send;

		*v = (struct verify){
			.call = run->current,
			.rank = run->rank,
			.ranks = run->ranks,
			.seed = o->seed,
			.iteration = run->iteration * o->inflight + i,
			.elements = weir_elements(run->weir, run->current.dtype),
			.levels = (unsigned int)o->levels,
			.switches = (unsigned int)o->switches,
		};
		v->call.count = count;
		slot->in_place = in_place;
		slot->degraded_count = 0;
		send = verify_place(v, slot->send, in_place ? NULL : slot->recv);
		if (!fill)
			continue;
		if (v->call.recv != NULL && !in_place)
			memset(slot->recv + verify_received(v) * bytes, GUARD_BYTE, GUARD);
		verify_fill(v, run->rank, 0, verify_sent(v), send);
	}
}

/* Add what is degraded in the operation that has just ended, of elements from `first` on: the
 * library forgets it with the next. */
static int
keep_degraded(struct perf_run *run, struct perf_slot *slot, struct perf_timing *timing, int code,
	size_t first)
{
	const struct weir_degraded *blocks;
	struct weir_result result;
	struct weir_degraded *more;
	size_t n;

	if (code != WEIR_PARTIAL)
		return code;
	weir_last_result(run->weir, &result);
	timing->degraded += result.degraded;
	run->degraded += result.degraded;
	n = weir_degraded(run->weir, &blocks);
	more = reallocarray(slot->degraded, slot->degraded_count + n, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	slot->degraded = more;
	for (size_t i = 0; i < n; i++) {
		more[slot->degraded_count] = blocks[i];
		more[slot->degraded_count++].first += first;
	}
	return code;
}

static void
add_sample(struct perf_run *run, uint64_t ns)
{
	if (run->sample_count < run->options->iterations * run->options->inflight)
		run->samples[run->sample_count++] = ns;
}

/* A blocking call, of elements from `first` on. */
static int
operate_one(struct perf_run *run, struct perf_timing *timing, const struct weir_call *call,
	size_t first)
{
	int code = weir_collective(run->weir, call, NULL);

	return code < 0 ? perf_failed(run, code)
			: keep_degraded(run, &run->slots[0], timing, code, first);
}

/* Begin all, then wait for all, also when one of them has failed. */
static int
operate_many(struct perf_run *run, struct perf_timing *timing, bool counts)
{
	unsigned int begun = 0;
	int code = 0;

	for (; begun < run->options->inflight && code == 0; begun += code == 0) {
		struct perf_slot *slot = &run->slots[begun];

		slot->begun_ns = perf_now_ns();
		code = weir_collective(run->weir, &slot->what.call, &slot->request);
		if (code < 0)
			(void)perf_failed(run, code);
	}
	for (unsigned int i = 0; i < begun; i++) {
		struct perf_slot *slot = &run->slots[i];
		int end = keep_degraded(run, slot, timing, weir_wait(&slot->request), 0);

		if (end < 0 && code == 0)
			code = perf_failed(run, end);
		if (end >= 0 && counts)
			add_sample(run, perf_now_ns() - slot->begun_ns);
	}
	return code;
}

/* CPU time from one reading to the next one, us. */
static double
cpu_us(const struct timeval *from, const struct timeval *to)
{
	return (double)(to->tv_sec - from->tv_sec) * 1e6 + (double)(to->tv_usec - from->tv_usec);
}

int
perf_operate(struct perf_run *run, struct perf_timing *timing, bool counts)
{
	unsigned int n = run->options->inflight;
	struct weir_stats before, after;
	struct rusage from, to;
	uint64_t begin_ns, ns;
	int code;

	weir_stats(run->weir, &before);
	getrusage(RUSAGE_SELF, &from);
	begin_ns = perf_now_ns();
	code = n > 1 ? operate_many(run, timing, counts)
		     : operate_one(run, timing, &run->slots[0].what.call, 0);
	ns = perf_now_ns() - begin_ns;
	getrusage(RUSAGE_SELF, &to);
	if (code < 0)
		return code;
	weir_stats(run->weir, &after);
	if (counts) {
		timing->ns += ns;
		timing->operations += n;
		timing->sent += after.wire_sent - before.wire_sent;
		timing->received += after.wire_received - before.wire_received;
		timing->user_us += cpu_us(&from.ru_utime, &to.ru_utime);
		timing->system_us += cpu_us(&from.ru_stime, &to.ru_stime);
		if (n == 1)
			add_sample(run, ns);
	}
	for (unsigned int i = 0; i < n; i++)
		timing->own_wrong += perf_wrong(run, &run->slots[i]);
	return 0;
}

int
perf_operate_tensor(struct perf_run *run, struct perf_timing *timing, size_t first, size_t count)
{
	const struct perf_slot *slot = &run->slots[0];
	struct verify v = slot->what;

	v.call.count = count;
	verify_place(&v, slot->send + first * weir_dtype_bytes(v.call.dtype), NULL);
	return operate_one(run, timing, &v.call, first);
}

size_t
perf_wrong(struct perf_run *run, struct perf_slot *slot)
{
	static const uint8_t guard[GUARD] = {[0 ... GUARD - 1] = GUARD_BYTE};
	const struct verify *v = &slot->what;
	size_t count = verify_received(v), bytes = weir_dtype_bytes(v->call.dtype), wrong = 0;

	if (!run->options->check)
		return 0;
	if (!slot->in_place)
		wrong = verify_changed(v);
	if (count == 0)
		return wrong;
	if (run->options->spoil) /* an exponent's bit, or an integer's */
		((uint8_t *)v->call.recv)[count / 2 * bytes + bytes - 1] ^= 0x40;
	if (!slot->in_place) /* was more written? */
		wrong += memcmp(slot->recv + count * bytes, guard, GUARD) != 0;
	return wrong + verify_wrong(v, slot->degraded, slot->degraded_count);
}

int
perf_wait_for_all(struct perf_run *run)
{
	int code = weir_barrier(run->weir);

	return code < 0 ? perf_failed(run, code) : 0;
}
