/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A closed loop on a machine with other work: time is cut in slices of half a millisecond, and a
 * slice counts when the generator turned all along. Its turns are microseconds apart; a gap of a
 * fifth of a millisecond is the scheduler's. A gap in what arrives excludes nothing: it may be the
 * device that lost frames or stood still. For one thread.
 */
#ifndef APPS_BENCH_SLICE_H
#define APPS_BENCH_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>
#include <rte_cycles.h>

struct slices {
	uint64_t length, gap; /* cycles */
	uint64_t begin, first; /* of all; of this slice: TSC */
	uint64_t turn; /* TSC of the last */
	uint64_t units; /* when this slice began */
	bool bad;
	uint64_t good, good_cycles, good_units; /* slices that count */
	uint64_t begin_units;
};

/* units: done so far. */
static inline void
slices_begin(struct slices *s, uint64_t now, uint64_t units)
{
	uint64_t hz = rte_get_tsc_hz();

	*s = (struct slices){.length = hz / 2000,
		.gap = hz / 5000,
		.begin = now,
		.first = now,
		.turn = now,
		.units = units,
		.begin_units = units};
}

static inline void
slices_turn(struct slices *s, uint64_t now, uint64_t units)
{
	if (now - s->turn > s->gap)
		s->bad = true;
	s->turn = now;
	if (now - s->first < s->length)
		return;
	if (!s->bad) {
		s->good++;
		s->good_cycles += now - s->first;
		s->good_units += units - s->units;
	}
	s->first = now;
	s->units = units;
	s->bad = false;
}

/* Share of the time, [0, 1], in slices that count. */
static inline double
slices_good(const struct slices *s)
{
	double all = (double)(s->turn - s->begin);

	return all > 0 ? RTE_MIN((double)s->good_cycles / all, 1.0) : 0;
}

/* Do the slices that count suffice for a rate: four, and a quarter of the time? A measurement of
 * less than four slices needs all that fit. What came only in the others is not to be nothing. */
static inline bool
slices_suffice(const struct slices *s)
{
	uint64_t fit = (s->turn - s->begin) / s->length;

	return s->good_units > 0 && s->good >= RTE_MIN(fit, UINT64_C(4)) && slices_good(s) >= 0.25;
}

/* Units per second of the whole time. */
static inline double
slices_whole_rate(const struct slices *s, uint64_t units)
{
	double hz = (double)rte_get_tsc_hz(), all = (double)(s->turn - s->begin);

	return all > 0 ? (double)(units - s->begin_units) * hz / all : 0;
}

/* Units per second, by the slices that count; by all when those do not suffice. */
static inline double
slices_rate(const struct slices *s, uint64_t units)
{
	if (slices_suffice(s))
		return (double)s->good_units * (double)rte_get_tsc_hz() / (double)s->good_cycles;
	return slices_whole_rate(s, units);
}

#endif
