/* SPDX-License-Identifier: BSD-3-Clause */
/* The policer: exact rates, long packets, debts, changes, and an exact model. */
#include <errno.h>

#include <criterion/criterion.h>

#include "rmw/policer.h"
#include "tests/random.h"

#define GHZ UINT64_C(1000000000)
#define TSC UINT64_C(2099997703) /* a prime: nothing cancels */

static const uint64_t clocks[] = {1, 1000, 1000000, GHZ, TSC, 5 * GHZ};

Test(rmw_policer, below_the_rate_everything_conforms, .timeout = 90)
{
	struct rmw_policer p;

	/* 1500 bytes in 12 us are exactly 1 Gbit/s */
	cr_assert_eq(rmw_policer_init(&p, GHZ, 1500, GHZ, 0), 0);
	for (uint64_t i = 0; i < 1000000; i++)
		cr_assert(rmw_police(&p, i * 12000, 1500), "packet %lu", i);
	cr_assert_not(rmw_police(&p, UINT64_C(999999) * 12000 + 11999, 1500), "a tick too early");
	cr_assert(rmw_police(&p, UINT64_C(1000000) * 12000, 1500));
}

/* The cost of a packet longer than the burst may not fit 64 bits: it must not come out small. */
Test(rmw_policer, long_packets, .timeout = 90)
{
	struct rmw_policer p;

	cr_assert_eq(rmw_policer_init(&p, 1, 57000000, 10 * GHZ, 0), 0);
	for (uint64_t bytes = 57000001; bytes <= UINT32_MAX; bytes += 9999991)
		cr_assert_not(rmw_police(&p, 0, (uint32_t)bytes), "%lu bytes", bytes);
	cr_assert(rmw_police(&p, 0, 57000000));
}

Test(rmw_policer, refuses_wrong_numbers, .timeout = 90)
{
	struct rmw_policer p;

	cr_assert_eq(rmw_policer_init(&p, 0, 1, 1, 0), -EINVAL);
	cr_assert_eq(rmw_policer_init(&p, 1000 * GHZ + 1, 1, 1, 0), -EINVAL);
	cr_assert_eq(rmw_policer_init(&p, 1, 0, 1, 0), -EINVAL);
	cr_assert_eq(rmw_policer_init(&p, 1, 1, 0, 0), -EINVAL);
	cr_assert_eq(rmw_policer_init(&p, 1, 1, 10 * GHZ + 1, 0), -EINVAL);
	/* what policer.h says of the range */
	cr_assert_eq(rmw_policer_init(&p, 1, 57000000, 10 * GHZ, 0), 0);
	cr_assert_eq(rmw_policer_init(&p, 1, 58000000, 10 * GHZ, 0), -ERANGE);
	cr_assert_eq(rmw_policer_init(&p, 1000, UINT32_MAX, GHZ, 0), 0);
	cr_assert_eq(rmw_policer_init(&p, 399999999 * UINT64_C(1000), UINT32_MAX, GHZ, 0), 0);
	cr_assert_eq(rmw_policer_init(&p, 1000 * GHZ, 1, 1, 0), 0);
	cr_assert_eq(rmw_policer_init(&p, 1, 1, 10 * GHZ, 0), 0);
}

/* Tokens as an exact fraction: units of 1 / (8 hz) byte in 128 bits, nothing divided. */
struct model {
	__int128 units, full;
	uint64_t rate, hz, last;
};

static bool
model_police(struct model *m, uint64_t now, uint32_t bytes)
{
	__int128 cost = (__int128)bytes * 8 * m->hz;

	if ((int64_t)(now - m->last) > 0)
		m->units += (__int128)(now - m->last) * m->rate;
	if (m->units > m->full)
		m->units = m->full;
	m->last = now;
	if (cost > m->units)
		return false;
	m->units -= cost;
	return true;
}

static void
model_charge(struct model *m, uint64_t now, uint32_t bytes)
{
	model_police(m, now, 0);
	m->units -= (__int128)bytes * 8 * m->hz;
	if (m->units < -m->full)
		m->units = -m->full;
}

static uint64_t
interval(uint64_t *state, uint64_t packet_ticks)
{
	switch (random_below(state, 64)) {
	case 0: return random_bits(state) >> 1; /* far ahead */
	case 1: return (uint64_t) - (int64_t)random_below(state, 4 * packet_ticks + 2); /* back */
	case 2: return (uint64_t) - (int64_t)(random_bits(state) >> 2);
	default: return random_below(state, packet_ticks + 2);
	}
}

Test(rmw_policer, random_against_a_model, .timeout = 90)
{
	uint64_t state = random_seed(), passed = 0, calls = 0;

	for (unsigned int run = 0; run < 2000; run++) {
		uint64_t hz = clocks[random_below(&state, 6)], now = random_bits(&state);
		uint64_t rate = 1 + (random_bits(&state) >> (25 + random_below(&state, 39)));
		uint32_t burst =
			1 + (uint32_t)(random_bits(&state) >> (38 + random_below(&state, 26)));
		uint64_t ticks = (uint64_t)((double)burst * 8 / 4 * (double)hz / (double)rate);
		struct model m = {.rate = rate, .hz = hz, .last = now};
		struct rmw_policer p;

		if (rate > 1000 * GHZ)
			rate = m.rate = 1000 * GHZ;
		m.units = m.full = (__int128)burst * 8 * hz;
		cr_assert_eq(rmw_policer_init(&p, rate, burst, hz, now), 0);
		for (unsigned int i = 0; i < 500; i++) {
			uint32_t bytes = (uint32_t)random_below(&state, burst / 2 + 2);
			bool conforms = model_police(&m, now, bytes);

			cr_assert_eq(rmw_police(&p, now, bytes), conforms,
				"rate %lu, burst %u, clock %lu, call %u", rate, burst, hz, i);
			passed += conforms;
			calls++;
			now += interval(&state, ticks);
		}
	}
	cr_assert(passed > calls / 10 && passed < calls * 9 / 10);
}

/* Half of the packets can't be refused. A byte per tick: what fills an empty bucket is then a
 * whole number of ticks, and pays exactly that much of a debt. */
Test(rmw_policer, random_charges_against_a_model, .timeout = 90)
{
	uint64_t state = random_seed(), passed = 0, calls = 0;

	for (unsigned int run = 0; run < 2000; run++) {
		uint32_t burst = 1 + (uint32_t)(random_bits(&state) >> 40);
		uint64_t hz = clocks[random_below(&state, 6)], now = random_bits(&state);
		struct model m = {.rate = 8 * hz, .hz = hz, .last = now};
		struct rmw_policer p;

		m.units = m.full = (__int128)burst * 8 * hz;
		cr_assert_eq(rmw_policer_init(&p, 8 * hz, burst, hz, now), 0);
		for (unsigned int i = 0; i < 500; i++) {
			uint32_t bytes = (uint32_t)random_below(&state, burst + 1ul);

			if (random_below(&state, 2) == 0) {
				model_charge(&m, now, bytes);
				rmw_charge(&p, now, bytes);
			} else {
				bool conforms = model_police(&m, now, bytes);

				cr_assert_eq(rmw_police(&p, now, bytes), conforms,
					"burst %u, clock %lu, call %u", burst, hz, i);
				passed += conforms;
				calls++;
			}
			now += interval(&state, burst);
		}
	}
	cr_assert(passed > calls / 10 && passed < calls * 9 / 10, "%lu of %lu", passed, calls);
}

Test(rmw_policer, a_debt_is_paid_first, .timeout = 90)
{
	struct rmw_policer p;

	cr_assert_eq(rmw_policer_init(&p, 8000, 1000, 1000, 0), 0); /* a byte per tick */
	rmw_charge(&p, 0, 300);
	cr_expect_not(rmw_police(&p, 0, 701));
	rmw_charge(&p, 0, 900);
	cr_expect_not(rmw_police(&p, 0, 0), "200 are owed");
	cr_expect_not(rmw_police(&p, 199, 0));
	cr_expect(rmw_police(&p, 200, 0));
	cr_expect_not(rmw_police(&p, 200, 1));
	cr_expect(rmw_police(&p, 201, 1));
	/* At most a burst is owed, however much was sent, and an idle second does not forgive it. */
	for (unsigned int i = 0; i < 100; i++)
		rmw_charge(&p, 201, UINT32_MAX);
	cr_expect_not(rmw_police(&p, 1200, 0));
	cr_expect(rmw_police(&p, 1201, 0));
	cr_expect_not(rmw_police(&p, 1201, 1));
	rmw_charge(&p, 1201, 1000);
	cr_expect_not(rmw_police(&p, 2701, 501));
	cr_expect(rmw_police(&p, 2701, 500));
	/* A clock that jumps back pays nothing. */
	rmw_charge(&p, 2701, 500);
	cr_expect_not(rmw_police(&p, 7, 0));
	cr_expect_not(rmw_police(&p, 506, 0));
	cr_expect(rmw_police(&p, 507, 0));
}

Test(rmw_policer, a_change_keeps_what_is_in_the_bucket, .timeout = 90)
{
	struct rmw_policer p;

	cr_assert_eq(rmw_policer_init(&p, 8000, 1000, GHZ, 0), 0); /* 1000 bytes a second */
	cr_assert(rmw_police(&p, 0, 900));
	/* 100 are left, and half a second brings 500. */
	cr_assert_eq(rmw_policer_change(&p, 16000, 5000, TSC, GHZ / 2), 0);
	cr_expect_not(rmw_police(&p, GHZ / 2, 601));
	cr_expect(rmw_police(&p, GHZ / 2, 600));
	/* The new rate, on the new clock: 2000 in a second. */
	cr_expect_not(rmw_police(&p, GHZ / 2 + TSC, 2001));
	cr_expect(rmw_police(&p, GHZ / 2 + TSC, 2000));
	/* Into a smaller bucket goes what it holds. */
	cr_assert_eq(rmw_policer_init(&p, 8000, 1000, GHZ, 0), 0);
	cr_assert_eq(rmw_policer_change(&p, 8000, 10, GHZ, 0), 0);
	cr_expect_not(rmw_police(&p, 0, 11));
	cr_expect(rmw_police(&p, 0, 10));
	/* And so much of a debt. */
	rmw_charge(&p, 0, 5);
	cr_assert_eq(rmw_policer_change(&p, 8000, 1000, GHZ, 0), 0);
	cr_expect_not(rmw_police(&p, GHZ / 1000 * 4, 0));
	cr_expect(rmw_police(&p, GHZ / 1000 * 5, 0));
	rmw_charge(&p, GHZ / 1000 * 5, 1000);
	cr_assert_eq(rmw_policer_change(&p, 8000, 10, GHZ, GHZ / 1000 * 5), 0);
	cr_expect_not(rmw_police(&p, GHZ / 1000 * 14, 0));
	cr_expect(rmw_police(&p, GHZ / 1000 * 15, 0));
	/* What can't be leaves it as it was. */
	cr_expect_eq(rmw_policer_change(&p, 0, 10, GHZ, 0), -EINVAL);
	cr_expect(rmw_police(&p, GHZ, 10));
}
