/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sampler: counts one packet in n by the port that received it, the eighth and later ports
 * together.
 *
 * values: n
 * counters: samples by port
 */
#include "ppe/filters/weir_filter.h"

WEIR_FILTER(struct weir_filter *f)
{
	if (++f->cell[0] >= f->value[0]) {
		f->cell[0] = 0;
		weir_count(f, f->port < 7 ? f->port : 7);
	}
	return WEIR_PASS;
}
