/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of measurements: the switch and testpmd, who begins taking turns, and the pair in the
 * middle counts. The kernel tells how long the generator or the device had to wait for a CPU while
 * one was measured: a pair that others disturbed is measured again, some times.
 */
#ifndef APPS_BENCH_PAIR_H
#define APPS_BENCH_PAIR_H

#include "apps/bench/closed_loop.h"
#include "apps/bench/target.h"

/* Values of a measurement: the first PAIR_IDLE are the bench's own, by the first one pairs are
 * sorted. The others are preset, to a generator that has time and loses nothing. */
enum {
	PAIR_IDLE = 6, /* share of the generator's time without work */
	PAIR_GOOD, /* share of the time by which the rate was computed */
	PAIR_LOST, /* of the measurement; of a pair in the middle: of all that it was chosen from */
	PAIR_DISTURBED, /* the measurement's own judgement, share of the time */
	PAIR_VALUES
};

#define PAIR_LIMIT 0.03 /* what is disturbed more counts less */
#define PAIR_BUSY  0.05 /* a generator with less idle time is the limit, not the device */

struct pair {
	double value[2][PAIR_VALUES]; /* of the switch, of testpmd */
	double disturbed; /* share of the time in which a CPU was missing */
};

/* Measure once with target t, which is selected; fill values. 0, or not 0 after a line. */
typedef int pair_measure(void *context, unsigned int t, double value[PAIR_VALUES]);

/* Of bench_common.repeat undisturbed pairs, or of the least disturbed of twice as many, the one
 * whose ratio of first values is in the middle. 0, or 1. */
int pair_run(struct target target[2], pair_measure *measure, void *context, struct pair *middle);

/* Measure target t once, disturbed or not. */
int pair_try(struct target *target, pair_measure *measure, void *context, unsigned int t,
	double value[PAIR_VALUES], bool *disturbed);

/* The same until it is undisturbed, 6 times at most. */
int pair_once(struct target *target, pair_measure *measure, void *context, unsigned int t,
	double value[PAIR_VALUES]);

/* Nanoseconds, so far, that the device and the generator were ready and had no CPU. */
uint64_t pair_waited_ns(const struct target *target);

/* Fill the values from a closed loop: [0] is the rate. */
void pair_closed_loop(const struct closed_loop *loop, double value[PAIR_VALUES]);

/* Behind a row's values: marks of what was disturbed, lost, limited by the generator; pair_note
 * explains those that were given. Valid until the next call. */
const char *pair_mark(const struct pair *pair);

/* The same beside the records that follow (bench_observe), with losses and shares. */
void pair_observe(struct bench_report *report, const struct pair *pair);

/* At the end of a table: what its marks mean, and how many measurements were disturbed. */
void pair_note(FILE *out);

#endif
