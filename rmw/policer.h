/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policer: does a packet conform to a rate and a burst? One of the RMW engines' operations.
 *
 * A token bucket: a byte is a token, `rate` of them come per second, the bucket holds `burst`, a
 * packet conforms when there is a token for each of its bytes, and takes them only then. That is
 * one bucket of RFC 2697's three-colour marker (colour-blind, excess burst 0: green or red), with
 * tokens that come continuously and not in steps.
 *
 * DESIGN. Tokens must come exactly at the rate, over days, from 1 kbit/s to 400 Gbit/s, on a clock
 * of any frequency: so nothing may be rounded per packet. In bytes, the tokens of an interval are
 * ticks x rate / (8 x hz), a division with a remainder that is lost or must be kept. Here the unit
 * is 1 / (8 x hz) of a byte instead: a tick brings `rate` units, a byte costs 8 x hz, both whole
 * numbers: no division, no remainder, no drift. Both are divided by their greatest common divisor
 * first, so that most buckets count in small units. One multiplication per packet for the tokens,
 * one for the cost, in 64 bits: a bucket must not exceed 2^62 units, which is -ERANGE at init (see
 * there), and an interval that would fill any bucket (`fill` ticks) fills it without multiplying.
 */
#ifndef RMW_POLICER_H
#define RMW_POLICER_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* One line. owner: rw; the upper six fields are computed by rmw_policer_init and then constant. */
struct rmw_policer {
	_Alignas(64) uint64_t per_tick; /* units that a tick of the clock brings */
	uint64_t per_byte; /* units that a byte costs */
	uint64_t full; /* units in a full bucket */
	uint64_t fill; /* ticks that fill an empty bucket, rounded up */
	uint32_t burst; /* bytes */
	uint32_t spare;
	uint64_t units; /* in the bucket, [0, full] */
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
 * Another rate and burst from now on. What is in the bucket stays, in whole bytes, as far as it has room:
 * however often it is changed, nobody gets more than the rates and the largest burst. Ranges and errors
 * are those of rmw_policer_init(), and then nothing has changed. Owner.
 */
int rmw_policer_change(
	struct rmw_policer *policer, uint64_t rate, uint32_t burst, uint64_t hz, uint64_t now);

/*
 * Does a packet of `bytes` bytes, [0, 2^32), conform at time `now`? true: its tokens are taken.
 * false: none are. Over any interval of t seconds, the bytes that conform are at most
 * burst + t x rate / 8. Owner. now: ticks, counting up; a clock that jumps ahead fills the bucket
 * at most; one that jumps back brings nothing, and time goes on from there.
 * Cost: the policer's line, two multiplications.
 */
static inline bool
rmw_police(struct rmw_policer *policer, uint64_t now, uint32_t bytes)
{
	uint64_t ticks = now - policer->last, units = policer->units, cost;

	policer->last = now;
	if (ticks < policer->fill)
		units += ticks * policer->per_tick; /* < 2 x full */
	else if (ticks <= INT64_MAX)
		units = policer->full;
	if (units > policer->full)
		units = policer->full;
	cost = bytes * policer->per_byte; /* no overflow when bytes <= burst */
	if (bytes > policer->burst || cost > units) {
		policer->units = units;
		return false;
	}
	policer->units = units - cost;
	return true;
}

#endif
