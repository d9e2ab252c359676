/* SPDX-License-Identifier: BSD-3-Clause */
/* How a worker without work rests, beside a scheduler and a clock of the test's own. */
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "ppe/ppe_priv.h"

#define HZ UINT64_C(1000000000) /* a cycle is 1 ns */

static uint64_t clock_ns, yield_ns, next_timer;
static unsigned int yields, sleeps;

static int
yield_of_test(void)
{
	yields++;
	clock_ns += yield_ns;
	return 0;
}

static int
nanosleep_of_test(const struct timespec *t)
{
	sleeps++;
	clock_ns += (uint64_t)t->tv_nsec;
	return 0;
}

uint64_t
ppe_timer_wake(const struct ppe_worker *worker)
{
	(void)worker;
	return next_timer;
}

#define ppe_clock()        clock_ns
#define rte_get_tsc_hz()   HZ
#define sched_yield()      yield_of_test()
#define nanosleep(t, left) nanosleep_of_test(t)
#include "ppe/idle.c"

static struct ppe ppe = {.config = {.idle = PPE_IDLE_SLEEP, .idle_sleep_us = 50}};
static struct ppe_worker worker = {.ppe = &ppe};

static void
begin(uint64_t yield_takes)
{
	clock_ns = 0;
	yield_ns = yield_takes;
	next_timer = UINT64_MAX;
	yields = sleeps = 0;
}

/* Turns without work, after one with work. */
static void
turns(unsigned int n)
{
	for (worker.empty_turns = 1; worker.empty_turns <= n; worker.empty_turns++)
		ppe_idle_turn(&worker);
}

Test(ppe_idle, yields_in_a_gap_and_then_sleeps)
{
	begin(10000);
	turns(YIELDS - 1);
	cr_assert_eq(yields, YIELDS - 1);
	cr_assert_eq(sleeps, 0);
	turns(YIELDS + 9);
	cr_assert_eq(yields, 2 * (YIELDS - 1));
	cr_assert_eq(sleeps, 10);
}

Test(ppe_idle, does_not_yield_where_other_programs_compute)
{
	begin(20000000); /* a scheduler's slices */
	turns(5);
	cr_assert_eq(yields, 1);
	cr_assert_eq(sleeps, 4);
	while (clock_ns < 100 * HZ)
		turns(5);
	cr_assert_leq(yields * yield_ns, clock_ns / 50, "%u yields", yields);
	cr_assert_geq(yields, BACKOFF_MOST + 2);
}

/* One long yield says little: the other program may have ended. */
Test(ppe_idle, yields_again_soon_after_one_long_yield)
{
	begin(20000000);
	turns(1);
	clock_ns += 20000000;
	yield_ns = 1000;
	turns(5);
	cr_assert_eq(yields, 6);
	cr_assert_eq(sleeps, 0);
	cr_assert_eq(worker.long_yields, 0);
}

Test(ppe_idle, sleeps_until_the_next_timer_and_not_past_it)
{
	begin(0);
	next_timer = 20000;
	worker.empty_turns = YIELDS;
	ppe_idle_turn(&worker);
	cr_assert_eq(clock_ns, 20000);
	ppe_idle_turn(&worker);
	cr_assert_eq(sleeps, 1, "a timer is due");
}
