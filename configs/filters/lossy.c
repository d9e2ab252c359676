/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lossy path: drops UDP packets to a port at random. Each worker draws its own numbers from the
 * seed, so one worker drops the same packets again.
 *
 * values: UDP port, loss in parts per million, seed
 * counters: 0 packets dropped, 1 packets to the port
 */
#include "ppe/filters/weir_filter.h"

WEIR_FILTER(struct weir_filter *f)
{
	uint64_t x = f->cell[0];

	if (!weir_is_udp(f) || weir_swap16(f->udp_dst) != f->value[0])
		return WEIR_PASS;
	f->counter[1]++;
	if (x == 0)
		x = weir_hash(f->value[2] * 16 + f->worker) | 1;
	/* Marsaglia, "Xorshift RNGs", 2003 */
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	f->cell[0] = x;
	if ((x >> 32) % 1000000 >= f->value[1])
		return WEIR_PASS;
	f->counter[0]++;
	return WEIR_DROP;
}
