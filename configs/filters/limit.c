/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limit: drops what an IPv4 source sends beyond so many packets per second and worker (the packets
 * of a port are one worker's, unless it has several queues). A source has a token bucket of that
 * size, in a cell that a hash of its address finds; sources with equal hashes share one.
 *
 * values: packets per second, 1 to 1000000
 * counters: 0 packets dropped
 */
#include "ppe/filters/weir_filter.h"

/* A cell: the time, in us, when the bucket was last empty; packets move it on. */
WEIR_FILTER(struct weir_filter *f)
{
	uint64_t *empty_at, each;

	if (!weir_is_ipv4(f) || f->value[0] == 0)
		return WEIR_PASS;
	each = 1000000 / f->value[0];
	empty_at = weir_cell(f, weir_hash(f->ip_src));
	/* A full bucket is a second's worth. */
	if (*empty_at + 1000000 < f->now_us)
		*empty_at = f->now_us - 1000000;
	if (*empty_at + each > f->now_us) {
		f->counter[0]++;
		return WEIR_DROP;
	}
	*empty_at += each;
	return WEIR_PASS;
}
