/* SPDX-License-Identifier: BSD-3-Clause */
/* What a closed loop found, be it of contributions or of ordinary frames. */
#ifndef APPS_BENCH_CLOSED_LOOP_H
#define APPS_BENCH_CLOSED_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct closed_loop {
	double rate; /* received per second, by the slices that count (slice.h) */
	double whole; /* of the whole time, with the slices that do not count */
	double idle; /* share of the time, [0, 1], in which the generator had nothing to do */
	double good; /* share of the time in slices that count */
	bool enough; /* those suffice; if not, the rate is that of the whole time */
	uint64_t lost; /* what did not come back, of the whole run with its first and last part */
};

#endif
