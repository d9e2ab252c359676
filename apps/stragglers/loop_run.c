/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAYERS                                                                                     \
	25 /* of a pass: how often a host looks whether it is too late; ResNet-50 has twice as many */

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

/* Whether the others have gone on without this host: all sums of its next iteration are here. */
static bool
over(const struct loop_run *run)
{
	return run->options->catch_up && weir_ahead(run->weir) >= run->blocks;
}

/*
 * One pass over the model, layer by layer. What the processor has to do in earnest, to make the gradients,
 * is part of the backward one. False: the sums are there already, so there is nothing to compute for.
 */
static bool
pass(struct loop_run *run, enum loop_point point, unsigned int number)
{
	const struct loop_options *o = run->options;
	unsigned int forward = o->compute_us / 3; /* backward takes about twice as long */
	bool backward = point == LOOP_BEFORE_BACKWARD;
	uint64_t begin = now_us(), length = backward ? o->compute_us - forward : forward;

	if (backward)
		loop_data_fill(o->seed, run->rank, number, run->plan.elements, run->send);
	for (unsigned int layer = 1; layer <= LAYERS; layer++) {
		sleep_until(begin + length * layer / LAYERS);
		if (over(run))
			return false;
	}
	return true;
}

/*
 * The compute phase. A host that is so late that its iteration ends without it does not go on with it: its
 * gradients would miss the sums. It fetches these, and begins the next iteration when the others do. What
 * is drawn for a host it suffers in any case: with every policy the hosts stand still for as long.
 */
static void
compute(struct loop_run *run, unsigned int number, struct loop_slow slow, struct loop_iteration *it)
{
	it->slow_us = slow.us;
	for (enum loop_point p = LOOP_BEFORE_FORWARD; p < LOOP_POINTS; p++) {
		if (slow.us != 0 && slow.point == p)
			sleep_until(now_us() + slow.us);
		it->given_up = it->given_up || over(run);
		if (!it->given_up && p != LOOP_BEFORE_ALLREDUCE)
			it->given_up = !pass(run, p, number);
	}
}

static int
by_first(const void *a, const void *b)
{
	const struct weir_degraded *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Check the sums of one bucket: whole blocks against all ranks, partial ones against those in them. */
static int
check(struct loop_run *run, unsigned int number, size_t first, size_t count,
	struct loop_iteration *it)
{
	const struct weir_degraded *blocks;
	const uint64_t seed = run->options->seed;
	size_t n = weir_degraded(run->weir, &blocks), at = 0;
	struct weir_degraded *sorted = malloc((n + 1) * sizeof(*sorted));

	if (sorted == NULL)
		return -ENOMEM;
	memcpy(sorted, blocks, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_first);
	for (size_t i = 0; i <= n; i++) {
		const struct weir_degraded *d = &sorted[i];
		size_t whole = i < n ? d->first : count;

		run->wrong += loop_data_wrong(seed, run->ranks, NULL, number, first + at,
			whole - at, run->recv + first + at);
		if (i == n)
			break;
		run->wrong += loop_data_wrong(seed, run->ranks, d->present, number,
			first + d->first, d->count, run->recv + first + d->first);
		at = d->first + d->count;
		for (unsigned int r = 0; r < run->ranks; r++)
			run->contributions -= (d->present[r / 8] >> r % 8 & 1) == 0;
		it->missed = it->missed || (d->present[run->rank / 8] >> run->rank % 8 & 1) == 0;
	}
	it->partial_blocks += n;
	free(sorted);
	return 0;
}

static int
allreduce(struct loop_run *run, unsigned int number, struct loop_iteration *it)
{
	const struct loop_plan *plan = &run->plan;

	for (unsigned int b = 0; b < plan->buckets; b++) {
		size_t first = plan->first[b], count = plan->first[b + 1] - first;
		struct weir_result result;
		int code = weir_allreduce(run->weir, run->send + first, run->recv + first, count,
			WEIR_DTYPE_FP32, WEIR_OP_SUM);

		if (code < 0) {
			loop_say(run, "iteration %u: %s", number, weir_last_error(run->weir));
			return code;
		}
		weir_last_result(run->weir, &result);
		run->results += result.blocks;
		run->contributions += result.blocks * run->ranks;
		code = check(run, number, first, count, it);
		if (code < 0) {
			loop_say(run, "no memory to check what came");
			return code;
		}
	}
	return 0;
}

int
loop_run(struct loop_run *run)
{
	const struct loop_options *o = run->options;
	uint64_t began = now_us(), at = began;

	for (unsigned int k = 0; k < o->warmup + o->iterations; k++) {
		struct loop_iteration it = {0};
		struct loop_slow slow = {0};
		int code;

		/* Nobody is slowed while the hosts warm up: they shall begin together. */
		if (k >= o->warmup)
			slow = loop_slow(o, run->rank, k - o->warmup);
		compute(run, k, slow, &it);
		code = allreduce(run, k, &it);
		if (code < 0)
			return code;
		it.us = now_us() - at;
		at += it.us;
		if (k < o->warmup) {
			run->results = run->contributions = 0;
			began = at;
			continue;
		}
		run->iterations[run->done++] = it;
		run->us = at - began;
	}
	return 0;
}
