/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open loop: units leave on a fixed schedule, whether or not the device keeps up. A unit that could
 * not leave in time leaves late, and its latency counts from when it was due: what waits in the
 * generator is not forgotten ("coordinated omission"). For one thread.
 */
#ifndef APPS_BENCH_OPEN_LOOP_H
#define APPS_BENCH_OPEN_LOOP_H

#include <stddef.h>
#include <stdint.h>

/* Latencies in TSC cycles; those after the last place are not kept. */
struct samples {
	double *value;
	size_t count, most;
};

struct open_loop_load {
	void *context;
	/* Send up to n units, the first due at `due` (TSC), the others `step` cycles apart. Returns
	 * how many were dealt with; the rest is offered again. */
	unsigned int (*send)(void *context, unsigned int n, double due, double step);
	/* Receive; returns the units that are done by that. */
	unsigned int (*poll)(void *context);
	unsigned int group; /* units are done in groups of so many: whole groups are sent */
};

struct open_loop {
	uint64_t sent, done; /* units */
	double rate; /* at which they were sent, per second */
	uint64_t cycles; /* all of it, with the wait for what was under way */
};

/* 0, or -ENOMEM. */
int samples_create(struct samples *samples, size_t most);
void samples_destroy(struct samples *samples);

static inline void
samples_add(struct samples *samples, uint64_t cycles)
{
	if (samples->count < samples->most)
		samples->value[samples->count++] = (double)cycles;
}

/* What never came took as long as it was waited for. Such a sample has its place always. */
static inline void
samples_add_lost(struct samples *samples, uint64_t cycles)
{
	if (samples->count == samples->most)
		samples->count--;
	samples_add(samples, cycles);
}

/* Offer `rate` units per second for `ms`, then wait until all are done, 20 ms without any at
 * most. */
void open_loop_run(
	const struct open_loop_load *load, double rate, uint64_t ms, struct open_loop *result);

#endif
