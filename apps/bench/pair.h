/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of measurements: the switch and testpmd, in alternating order; the pair in the middle
 * counts. The kernel counts how long the generator or the device waited for a CPU during a
 * measurement: a disturbed pair is measured again, some times.
 */
#ifndef APPS_BENCH_PAIR_H
#define APPS_BENCH_PAIR_H

#include "apps/bench/traffic.h"

/* Values of a measurement: the first PAIR_IDLE are the bench's own, by the first one pairs are
 * sorted. The others are preset, to a generator that has time and loses nothing. */
enum {
	PAIR_IDLE = 6, /* share of the generator's time without work */
	PAIR_GOOD, /* share of the time by which the rate was computed */
	PAIR_LOST, /* of the measurement; of a pair in the middle: of all that it was chosen from */
	PAIR_DISTURBED, /* the measurement's own judgement, share of the time */
	PAIR_VALUES
};

#define PAIR_LIMIT 0.03 /* a pair that is disturbed more is measured again */
#define PAIR_BUSY  0.05 /* a generator with less idle time is the limit, not the device */

struct pair {
	double value[2][PAIR_VALUES]; /* of the switch, of testpmd */
	double disturbed; /* share of the time in which a CPU was missing */
};

/* Measure once with device t, which is selected; fill values. 0, or not 0 after a line. */
typedef int pair_measure(void *context, unsigned int t, double value[PAIR_VALUES]);

/* Of bench_common.repeat undisturbed pairs, or of the least disturbed of twice as many, the one
 * whose ratio of first values is in the middle. 0, or 1. */
int pair_run(struct device device[2], pair_measure *measure, void *context, struct pair *middle);

/* Measure device t until it is undisturbed, `tries` times at most; *disturbed, may be NULL: the
 * last was. */
int pair_once(struct device *device, pair_measure *measure, void *context, unsigned int t,
	unsigned int tries, double value[PAIR_VALUES], bool *disturbed);

/* The marks of a row: * disturbed, ! lost, g limited by the generator. Valid until the next call. */
const char *pair_mark(const struct pair *pair);

/* Is the generator the limit? */
bool pair_busy(const struct pair *pair);

/* The last columns of a row: how far it can be trusted. */
#define PAIR_COLUMNS                                                                               \
	{.key = "lost", .title = "lost", .width = 5},                                              \
		{.key = "lost_testpmd", .title = "lost", .unit = "tp.", .width = 5},               \
		{.key = "good"}, {.key = "good_testpmd"}, {.key = "disturbed"},                    \
		{.key = "generator_bound"}, {.title = "", .left = true}, {.key = "over"},          \
	{                                                                                          \
		.key = "rx_checksum"                                                               \
	}
#define PAIR_CELLS(pair)                                                                           \
	TABLE_NUMBER((pair)->value[0][PAIR_LOST]), TABLE_NUMBER((pair)->value[1][PAIR_LOST]),      \
		TABLE_NUMBER((pair)->value[0][PAIR_GOOD]),                                         \
		TABLE_NUMBER((pair)->value[1][PAIR_GOOD]),                                         \
		TABLE_BOOL((pair)->disturbed > PAIR_LIMIT), TABLE_BOOL(pair_busy(pair)),           \
		TABLE_TEXT(pair_mark(pair)), TABLE_TEXT(device_over), TABLE_TEXT(device_checksum)

#endif
