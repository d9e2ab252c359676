/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: called, timed, counted and checked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "apps/perf/perf.h"
#include "pktbuf/wire/collectives.h"

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
failed(const struct perf_run *run, int code)
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

/* Where the call reads and writes: weir.h's table of what is in place. */
static void
place(struct perf_slot *slot)
{
	const struct perf_reference *r = &slot->reference;
	size_t own = r->rank * r->count * weir_dtype_bytes(r->data.dtype);
	bool in_place = slot->in_place;
	bool divides = collective_table[r->collective].result == RESULT_SLICE;
	bool collects = collective_table[r->collective].contribution == CONTRIBUTION_SLICE;

	slot->from = slot->send + (in_place && collects ? own : 0);
	slot->to = in_place ? slot->send + (divides ? own : 0) : slot->recv;
	/* Buffers that this rank has no part in, but for Broadcast's in place, which are one. */
	if (perf_reference_sent(r) == 0 &&
		!(in_place && r->collective == WEIR_COLLECTIVE_BROADCAST))
		slot->from = NULL;
	if (perf_reference_received(r) == 0 &&
		!(in_place && r->collective == WEIR_COLLECTIVE_REDUCE))
		slot->to = NULL;
}

void
perf_slots_prepare(struct perf_run *run, size_t count, bool in_place, bool fill)
{
	const struct perf_series *s = &run->current;

	for (unsigned int i = 0; i < run->options->inflight; i++) {
		struct perf_slot *slot = &run->slots[i];
		struct perf_reference *r = &slot->reference;

		*r = (struct perf_reference){
			.data = {run->options->seed, s->dtype, s->op, run->ranks},
			.collective = s->collective,
			.rank = run->rank,
			.root = s->root,
			.count = count,
			.iteration = run->iteration * run->options->inflight + i,
			.levels = (unsigned int)run->options->levels,
			.switches = (unsigned int)run->options->switches,
		};
		slot->in_place = in_place;
		place(slot);
		if (!fill)
			continue;
		if (slot->to != NULL && !in_place)
			memset(slot->recv + perf_reference_received(r) * weir_dtype_bytes(s->dtype),
				GUARD_BYTE, GUARD);
		perf_data_fill(&r->data, run->rank, r->iteration, 0, perf_reference_sent(r),
			slot->from == NULL
				? NULL
				: slot->send + ((const uint8_t *)slot->from - slot->send));
	}
}

/* The calls of one form: `i` begins with a request as the last argument, nothing waits. */
#define CALLS(form, ...)                                                                           \
	switch (s->collective) {                                                                   \
	case WEIR_COLLECTIVE_ALLREDUCE:                                                            \
		return weir_##form##allreduce(w, from, to, n, s->dtype, s->op __VA_ARGS__);        \
	case WEIR_COLLECTIVE_REDUCE:                                                               \
		return weir_##form##reduce(w, from, to, n, s->dtype, s->op, s->root __VA_ARGS__);  \
	case WEIR_COLLECTIVE_REDUCESCATTER:                                                        \
		return weir_##form##reducescatter(w, from, to, n, s->dtype, s->op __VA_ARGS__);    \
	case WEIR_COLLECTIVE_BROADCAST:                                                            \
		return weir_##form##broadcast(w, from, to, n, s->dtype, s->root __VA_ARGS__);      \
	case WEIR_COLLECTIVE_SCATTER:                                                              \
		return weir_##form##scatter(w, from, to, n, s->dtype, s->root __VA_ARGS__);        \
	case WEIR_COLLECTIVE_GATHER:                                                               \
		return weir_##form##gather(w, from, to, n, s->dtype, s->root __VA_ARGS__);         \
	case WEIR_COLLECTIVE_ALLGATHER:                                                            \
		return weir_##form##allgather(w, from, to, n, s->dtype __VA_ARGS__);               \
	case WEIR_COLLECTIVE_ALLTOALL:                                                             \
		return weir_##form##alltoall(w, from, to, n, s->dtype __VA_ARGS__);                \
	case WEIR_COLLECTIVE_BARRIER: return weir_##form##barrier(w __VA_ARGS__);                  \
	case WEIR_COLLECTIVE_PROBE:                                                                \
	case WEIR_COLLECTIVE_ACKNOWLEDGE:                                                          \
	case WEIR_COLLECTIVE_JOIN:                                                                 \
	default: return -EINVAL;                                                                   \
	}

static int
call(struct weir *w, const struct perf_series *s, struct perf_slot *slot, bool waits)
{
	struct weir_request **request = &slot->request;
	const void *from = slot->from;
	size_t n = slot->reference.count;
	void *to = slot->to;

	if (waits)
		CALLS(, )
	CALLS(i, , request)
}

static int
by_first(const void *a, const void *b)
{
	const struct weir_degraded *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Keep what is degraded in the operation that has just ended: the library forgets it with the next. */
static int
keep_degraded(struct perf_run *run, struct perf_slot *slot, struct perf_timing *timing, int code)
{
	const struct weir_degraded *blocks;
	struct weir_result result;
	struct weir_degraded *more;

	slot->degraded_count = 0;
	if (code != WEIR_PARTIAL)
		return code;
	weir_last_result(run->weir, &result);
	timing->degraded += result.degraded;
	run->degraded += result.degraded;
	slot->degraded_count = weir_degraded(run->weir, &blocks);
	more = reallocarray(slot->degraded, slot->degraded_count + 1, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	slot->degraded = more;
	memcpy(more, blocks, slot->degraded_count * sizeof(*more));
	qsort(more, slot->degraded_count, sizeof(*more), by_first);
	return code;
}

/* Wrong elements of [begin, end) of a slice: of those that are from `base` on, or of all, with base 0. */
static size_t
wrong_slice(const struct perf_slot *slot, size_t base, size_t begin, size_t end)
{
	const struct perf_reference *r = &slot->reference;
	size_t bytes = weir_dtype_bytes(r->data.dtype), at = base + begin, wrong = 0;

	for (size_t i = 0; i < slot->degraded_count; i++) {
		const struct weir_degraded *d = &slot->degraded[i];
		size_t first = base + d->first;

		wrong += perf_reference_wrong(r, NULL, at, first - at, slot->to + at * bytes);
		wrong += perf_reference_wrong(
			r, d->present, first, d->count, slot->to + first * bytes);
		at = first + d->count;
	}
	return wrong + perf_reference_wrong(r, NULL, at, base + end - at, slot->to + at * bytes);
}

static bool
wrote_too_much(const struct perf_slot *slot, size_t bytes)
{
	for (unsigned int i = 0; !slot->in_place && i < GUARD; i++)
		if (slot->recv[bytes + i] != GUARD_BYTE)
			return true;
	return false;
}

/* Elements of the slot's result that are wrong, and of what was sent that have changed. */
static size_t
wrong_in(struct perf_run *run, struct perf_slot *slot)
{
	const struct perf_reference *r = &slot->reference;
	size_t count = perf_reference_received(r), wrong = 0;
	size_t bytes = weir_dtype_bytes(r->data.dtype);

	if (!slot->in_place && slot->from != NULL)
		wrong = perf_reference_changed(r, slot->from);
	if (count == 0)
		return wrong;
	if (run->options->spoil) /* an exponent's bit, or an integer's */
		slot->to[count / 2 * bytes + bytes - 1] ^= 0x40;
	if (!perf_gathers(r->collective))
		wrong += wrong_slice(slot, 0, 0, count);
	else
		for (unsigned int s = 0; s < run->ranks; s++)
			wrong += wrong_slice(slot, s * r->count, 0, r->count);
	return wrong + wrote_too_much(slot, count * bytes);
}

static void
add_sample(struct perf_run *run, uint64_t ns)
{
	if (run->sample_count < run->options->iterations * run->options->inflight)
		run->samples[run->sample_count++] = ns;
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
		code = call(run->weir, &run->current, slot, false);
		if (code < 0)
			(void)failed(run, code);
	}
	for (unsigned int i = 0; i < begun; i++) {
		struct perf_slot *slot = &run->slots[i];
		int end = keep_degraded(run, slot, timing, weir_wait(&slot->request));

		if (end < 0 && code == 0)
			code = failed(run, end);
		if (end >= 0 && counts)
			add_sample(run, perf_now_ns() - slot->begun_ns);
	}
	return code;
}

static int
operate_one(struct perf_run *run, struct perf_timing *timing)
{
	struct perf_slot *slot = &run->slots[0];
	int code = call(run->weir, &run->current, slot, true);

	return code < 0 ? failed(run, code) : keep_degraded(run, slot, timing, code);
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
	code = n > 1 ? operate_many(run, timing, counts) : operate_one(run, timing);
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
	if (run->options->check && run->current.collective != WEIR_COLLECTIVE_BARRIER)
		for (unsigned int i = 0; i < n; i++)
			timing->own_wrong += wrong_in(run, &run->slots[i]);
	return 0;
}

int
perf_operate_tensor(struct perf_run *run, struct perf_timing *timing, size_t first, size_t count)
{
	struct perf_slot *slot = &run->slots[0];
	size_t bytes = weir_dtype_bytes(run->current.dtype);
	uint8_t *tensor = slot->send + first * bytes;
	int code = weir_allreduce(
		run->weir, tensor, tensor, count, run->current.dtype, run->current.op);

	if (code < 0)
		return failed(run, code);
	code = keep_degraded(run, slot, timing, code);
	for (size_t i = 0; i < slot->degraded_count; i++)
		slot->degraded[i].first += first;
	if (code == WEIR_PARTIAL && run->options->check)
		timing->own_wrong += wrong_slice(slot, 0, first, first + count);
	return code;
}

int
perf_wait_for_all(struct perf_run *run)
{
	int code = weir_barrier(run->weir);

	return code < 0 ? failed(run, code) : 0;
}
