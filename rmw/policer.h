/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policer: does a packet conform to a rate and a burst? One of the RMW engines' operations.
 *
 * A token bucket. A token is a byte; the bucket gains `rate` per second and holds `burst`. A packet
 * conforms if there is a token for each of its bytes, and only then takes them. That is one bucket
 * of RFC 2697's three-color marker (color-blind, excess burst 0: green or red), with tokens that
 * arrive continuously.
 *
 * What can't be refused is charged (rmw_charge): it takes tokens that are not there yet, and
 * nothing conforms until they have come. The debt is at most another burst.
 *
 * DESIGN. Tokens must arrive exactly at the rate, over days, from 1 kbit/s to 400 Gbit/s, on a
 * clock of any frequency, so nothing may be rounded per packet. In bytes, the tokens of an interval
 * are ticks x rate / (8 x hz), a division whose remainder is lost or must be kept. Here the unit is
 * 1 / (8 x hz) of a byte: a tick brings `rate` units and a byte costs 8 x hz, both integers, so
 * there is no division and no drift. Both are divided by their greatest common divisor first. A
 * packet costs two multiplications of 64 bits. So a bucket must not exceed 2^62 units (-ERANGE at
 * init), and an interval that fills any bucket (`fill` ticks) fills it without multiplying.
 */
#ifndef RMW_POLICER_H
#define RMW_POLICER_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* One cache line. owner: rw; rmw_policer_init computes the first six fields, which then stay. */
struct rmw_policer {
	_Alignas(64) uint64_t per_tick; /* units per tick of the clock */
	uint64_t per_byte; /* units per byte */
	uint64_t full; /* units in a full bucket */
	uint64_t fill; /* ticks that fill an empty bucket, rounded up */
	uint32_t burst; /* bytes */
	uint32_t spare;
	int64_t units; /* in the bucket, [-full, full]; negative: debt */
	uint64_t last; /* the time of `units` */
};
static_assert(sizeof(struct rmw_policer) == 64, "one line");

/*
 * Set a policer up, its bucket full. Owner, or any thread before the owner uses it.
 * rate: bit/s of what is counted as `bytes` below, [1, 10^12]. burst: bytes, [1, 2^32); a packet
 * longer than it never conforms. hz: ticks per second of the clock, [1, 10^10]: 10^9 for ns, the
 * TSC's frequency for cycles. now: the clock.
 * 0; -EINVAL when a number is out of its range; -ERANGE when the bucket would have more than 2^62
 * units: burst x 8 x hz / gcd(rate, 8 x hz) > 2^62. A burst of 57 MB never has, at any rate and
 * clock; on a clock of nanoseconds and a rate in whole kbit/s, no burst has.
 */
int rmw_policer_init(
	struct rmw_policer *policer, uint64_t rate, uint32_t burst, uint64_t hz, uint64_t now);

/*
 * Change rate and burst. The bucket keeps its content or debt, in whole bytes, as far as there is
 * room, so that frequent changes grant no more than the rates and the largest burst. Ranges and
 * errors are those of rmw_policer_init(); on error nothing changes. Owner.
 */
int rmw_policer_change(
	struct rmw_policer *policer, uint64_t rate, uint32_t burst, uint64_t hz, uint64_t now);

/*
 * Returns whether a packet of `bytes` bytes, [0, 2^32), conforms at time `now`, and takes its
 * tokens if so. In any interval of t seconds at most burst + t x rate / 8 bytes conform. A packet
 * of 0 bytes conforms unless there is a debt. Owner. now: ticks, rising; a clock that jumps ahead
 * at most fills the bucket; one that jumps back adds nothing, and time continues from there.
 * Cost: the policer's line, two multiplications.
 */
static inline bool
rmw_police(struct rmw_policer *policer, uint64_t now, uint32_t bytes)
{
	uint64_t ticks = now - policer->last, cost;
	int64_t units = policer->units, full = (int64_t)policer->full;

	policer->last = now;
	if (units < 0 && ticks >= policer->fill && ticks <= INT64_MAX) {
		units += full;
		ticks -= policer->fill;
	}
	if (ticks < policer->fill)
		units += (int64_t)(ticks * policer->per_tick); /* < 2 x full */
	else if (ticks <= INT64_MAX)
		units = full;
	if (units > full)
		units = full;
	cost = bytes * policer->per_byte; /* no overflow when bytes <= burst */
	if (bytes > policer->burst || (int64_t)cost > units) {
		policer->units = units;
		return false;
	}
	policer->units = units - (int64_t)cost;
	return true;
}

/*
 * Take the tokens of `bytes` bytes at time `now`, whether they are there or not. At most a burst at
 * once, and the debt is at most a burst. Owner. now and cost: as rmw_police().
 */
static inline void
rmw_charge(struct rmw_policer *policer, uint64_t now, uint32_t bytes)
{
	uint64_t cost = (bytes < policer->burst ? bytes : policer->burst) * policer->per_byte;

	rmw_police(policer, now, 0);
	policer->units -= (int64_t)cost;
	if (policer->units < -(int64_t)policer->full)
		policer->units = -(int64_t)policer->full;
}

#endif
