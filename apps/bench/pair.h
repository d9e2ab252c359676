/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of measurements: the switch, then testpmd, again and again, and the pair in the middle
 * counts. The kernel tells how long the generator or the device had to wait for a CPU while one was
 * measured: a pair that others disturbed is measured again, some times.
 */
#ifndef APPS_BENCH_PAIR_H
#define APPS_BENCH_PAIR_H

#include "apps/bench/target.h"

#define PAIR_VALUES    6
#define PAIR_DISTURBED 5 /* the last: a measurement's own judgement, share of the time */

#define PAIR_LIMIT     0.03 /* what is disturbed more counts less */

struct pair {
	double value
		[2][PAIR_VALUES]; /* of the switch, of testpmd; by the first one pairs are sorted */
	double disturbed; /* share of the time in which a CPU was missing */
};

/* Measure once with target t, which is selected; fill values, of PAIR_DISTURBED only if it can judge itself. 0, or
 * not 0 after a line. */
typedef int pair_measure(void *context, unsigned int t, double value[PAIR_VALUES]);

/* Of bench_common.repeat undisturbed pairs, or of the least disturbed of twice as many, the one whose ratio of
 * first values is in the middle. 0, or 1. */
int pair_run(struct target target[2], pair_measure *measure, void *context, struct pair *middle);

/* Measure target t once, disturbed or not. */
int pair_try(struct target *target, pair_measure *measure, void *context, unsigned int t,
	double value[PAIR_VALUES], bool *disturbed);

/* The same until it is undisturbed, 6 times at most. */
int pair_once(struct target *target, pair_measure *measure, void *context, unsigned int t,
	double value[PAIR_VALUES]);

/* Nanoseconds, so far, that the device and the generator were ready and had no CPU. */
uint64_t pair_waited_ns(const struct target *target);

/* Behind a row's values: a mark when the pair was disturbed; see pair_note. */
static inline const char *
pair_mark(const struct pair *pair)
{
	return pair->disturbed > PAIR_LIMIT ? " *" : "";
}

/* At the end of a table: how many measurements were disturbed, when any was. */
void pair_note(FILE *out);

#endif
