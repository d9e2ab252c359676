/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A closed loop on a machine with other work: time is cut in slices of half a millisecond, and a slice
 * counts when the generator turned and frames arrived all along. In a saturated loop both are
 * microseconds apart; a gap of a fifth of a millisecond is the scheduler's. For one thread.
 */
#ifndef APPS_BENCH_SLICE_H
#define APPS_BENCH_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_cycles.h>

struct slices {
	uint64_t length, gap; /* cycles */
	uint64_t begin, first; /* of all; of this slice: TSC */
	uint64_t turn, received; /* TSC of the last */
	uint64_t units; /* when this slice began */
	bool bad;
	uint64_t good_cycles, good_units; /* of slices that count */
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
		.received = now,
		.units = units,
		.begin_units = units};
}

static inline void
slices_turn(struct slices *s, uint64_t now, bool received, uint64_t units)
{
	if (now - s->turn > s->gap || now - s->received > s->gap)
		s->bad = true;
	s->turn = now;
	if (received)
		s->received = now;
	if (now - s->first < s->length)
		return;
	if (!s->bad) {
		s->good_cycles += now - s->first;
		s->good_units += units - s->units;
	}
	s->first = now;
	s->units = units;
	s->bad = false;
}

/* Units per second, by the slices that count; by all, and *disturbed is their share, when they are
 * less than a quarter. */
static inline double
slices_rate(const struct slices *s, uint64_t units, double *disturbed)
{
	double hz = (double)rte_get_tsc_hz(), all = (double)(s->turn - s->begin);

	*disturbed = 0;
	if (s->good_cycles >= 4 * s->length || (double)s->good_cycles >= all / 10)
		return (double)s->good_units * hz / (double)s->good_cycles;
	*disturbed = 1 - (double)s->good_cycles / all;
	return (double)(units - s->begin_units) * hz / all;
}

#endif
