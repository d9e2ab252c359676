/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose request is served next, on a clock of this test. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/api/turns.h"

#define EPSILON 1e-6

static struct api_turns turns;
static struct api_owner a, b;
static double now = 1000;

static void
setup(void)
{
	api_turns_init(&turns);
	strcpy(a.tenant, "vision");
	b.network = 0x0100007f;
}

static void
teardown(void)
{
	api_turns_free(&turns);
}

TestSuite(ctrl_api_turns, .init = setup, .fini = teardown, .timeout = 90);

static void
begin(struct api_turn *turn, const struct api_owner *owner)
{
	cr_assert_eq(api_turns_begin(&turns, turn, owner, now), 0);
}

static void
must_follow(struct api_turn *turn)
{
	cr_assert_eq(api_turns_next(&turns, now), turn);
}

Test(ctrl_api_turns, administrators_come_first)
{
	struct api_turn of_a[2], of_b, admin[2];

	begin(&of_a[0], &a);
	begin(&of_b, &b);
	begin(&admin[0], NULL);
	must_follow(&admin[0]);
	must_follow(&of_a[0]);
	begin(&of_a[1], &a);
	begin(&admin[1], NULL);
	api_turns_again(&turns, &admin[0], now);
	must_follow(&admin[1]);
	must_follow(&admin[0]);
	must_follow(&of_b);
	must_follow(&of_a[1]);
	must_follow(NULL);
}

/* A caller with many requests gets no more turns than one with a single request. */
Test(ctrl_api_turns, callers_take_turns)
{
	struct api_turn of_a[3], of_b[2];

	for (unsigned int i = 0; i < 3; i++)
		begin(&of_a[i], &a);
	begin(&of_b[0], &b);
	must_follow(&of_a[0]);
	/* One that is not finished comes before its caller's others. */
	api_turns_again(&turns, &of_a[0], now);
	must_follow(&of_b[0]);
	must_follow(&of_a[0]);
	begin(&of_b[1], &b);
	must_follow(&of_b[1]);
	must_follow(&of_a[1]);
	must_follow(&of_a[2]);
}

Test(ctrl_api_turns, caller_in_debt_waits)
{
	struct api_turn first, second, other, admin;

	begin(&first, &a);
	must_follow(&first);
	api_turns_charge(&first, API_BURST_S + 0.1, now);
	api_turns_end(&turns, &first);
	begin(&second, &a);
	begin(&other, &b);
	begin(&admin, NULL);
	must_follow(&admin);
	api_turns_charge(&admin, 100, now);
	must_follow(&other);
	must_follow(NULL);
	cr_assert_float_eq(api_turns_wait(&turns, now), 0.1 / API_SHARE_OF_TIME, EPSILON);
	cr_assert_float_eq(api_turns_debt(&second, now), 0.1 / API_SHARE_OF_TIME, EPSILON);
	now += 0.1 / API_SHARE_OF_TIME + EPSILON;
	cr_assert_eq(api_turns_wait(&turns, now), 0);
	must_follow(&second);
	cr_assert_eq(api_turns_wait(&turns, now), INFINITY);
}

/* A caller that always has requests gets its share, however many callers come and go meanwhile. */
Test(ctrl_api_turns, the_share_in_the_long_run)
{
	struct api_owner passing = b;
	struct api_turn turn, others;
	double used = 0, began = now;

	for (; now < began + 1000; now += 0.001) {
		passing.network++;
		begin(&others, &passing);
		must_follow(&others);
		api_turns_charge(&others, 0.0001, now);
		api_turns_end(&turns, &others);
		begin(&turn, &a);
		if (api_turns_next(&turns, now) == &turn) {
			api_turns_charge(&turn, 0.001, now);
			used += 0.001;
		}
		api_turns_end(&turns, &turn);
	}
	cr_assert_float_eq(used, 1000 * API_SHARE_OF_TIME + API_BURST_S, 0.01);
}

Test(ctrl_api_turns, patience_ends)
{
	struct api_turn served, waits, young, other;

	begin(&served, &a);
	must_follow(&served);
	api_turns_charge(&served, API_BURST_S + 2, now);
	api_turns_again(&turns, &served, now);
	begin(&waits, &a);
	begin(&other, &b);
	now += 6;
	begin(&young, &a);
	/* Not what has begun, nor what waits for others without a debt of its own. */
	cr_assert_eq(api_turns_late(&turns, 5, now), &waits);
	cr_assert_null(api_turns_late(&turns, 5, now));
	cr_assert_gt(api_turns_debt(&waits, now), 3);
	must_follow(&other);
	must_follow(NULL);
	api_turns_end(&turns, &waits);
	now += 5;
	must_follow(&served);
	must_follow(&young);
}

/* Answers that nobody reads are no more than API_OPEN. */
Test(ctrl_api_turns, answers_that_are_not_read)
{
	struct api_turn open[API_OPEN + 1], other;

	for (unsigned int i = 0; i <= API_OPEN; i++)
		begin(&open[i], &a);
	for (unsigned int i = 0; i < API_OPEN; i++)
		must_follow(&open[i]);
	must_follow(NULL);
	cr_assert_eq(api_turns_wait(&turns, now), INFINITY);
	begin(&other, &b);
	must_follow(&other);
	/* One that has begun goes on. */
	api_turns_again(&turns, &open[3], now);
	must_follow(&open[3]);
	must_follow(NULL);
	cr_assert_eq(api_turns_late(&turns, 5, now + 6), &open[API_OPEN]);
	api_turns_again(&turns, &open[API_OPEN], now);
	api_turns_end(&turns, &open[0]);
	must_follow(&open[API_OPEN]);
}
