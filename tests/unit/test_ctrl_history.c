/* SPDX-License-Identifier: BSD-3-Clause */
/* The history: rates by second, jobs that come and go, and whom blocks waited for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/stats/history.h"

static struct ctrl_history *history;
static double now;

static void
setup(void)
{
	now = 1000;
	history = ctrl_history_create(now);
	cr_assert_not_null(history);
}

static void
teardown(void)
{
	ctrl_history_destroy(history);
	ctrl_history_destroy(NULL);
}

TestSuite(ctrl_history, .init = setup, .fini = teardown, .timeout = 90);

static void
second(double elapsed)
{
	now += elapsed;
	cr_assert(ctrl_history_begin(history, now, now + 5000));
}

static struct ctrl_job_history *
place_of(const char *name, uint8_t id, uint32_t instance)
{
	struct ppe_job job = {.id = id, .instance = instance};

	snprintf(job.name, sizeof(job.name), "%s", name);
	return ctrl_history_job(history, &job, "vision");
}

Test(ctrl_history, rates)
{
	struct ctrl_series *rx = &history->rx[0];

	cr_assert_eq(ctrl_history_length(history), 0);
	second(1);
	ctrl_history_put(history, rx, 100);
	second(1);
	ctrl_history_put(history, rx, 350);
	cr_assert_eq(ctrl_history_length(history), 2);
	cr_assert_float_eq(ctrl_history_rate(history, rx, 0), 250, 1e-3);
	cr_assert_float_eq(ctrl_history_rate(history, rx, 1), 100, 1e-3);
	cr_assert_float_eq(history->time, 6002, 1e-6);
	cr_assert_not(ctrl_history_begin(history, now + 0.4, 0), "no second has passed");
	/* One that went back is another one's, that began at 0. */
	second(1);
	ctrl_history_put(history, rx, 7);
	cr_assert_float_eq(ctrl_history_rate(history, rx, 0), 7, 1e-3);
}

Test(ctrl_history, a_tick_that_comes_late)
{
	struct ctrl_series *rx = &history->rx[0];

	second(1);
	ctrl_history_put(history, rx, 100);
	second(3.1);
	ctrl_history_put(history, rx, 410);
	cr_assert_eq(ctrl_history_length(history), 4);
	for (unsigned int age = 0; age < 3; age++)
		cr_assert_float_eq(ctrl_history_rate(history, rx, age), 100, 1e-3);
	/* Far too late: all of the history is this one. */
	second(10000);
	ctrl_history_put(history, rx, 20410);
	cr_assert_eq(ctrl_history_length(history), CTRL_HISTORY_SAMPLES);
	cr_assert_float_eq(ctrl_history_rate(history, rx, CTRL_HISTORY_SAMPLES - 1), 2, 1e-3);
}

Test(ctrl_history, samples_are_a_ring)
{
	struct ctrl_series *rx = &history->rx[0];
	uint64_t counter = 0;

	for (unsigned int s = 1; s <= 2 * CTRL_HISTORY_SAMPLES + 17; s++) {
		second(1);
		ctrl_history_put(history, rx, counter += s);
	}
	cr_assert_eq(ctrl_history_length(history), CTRL_HISTORY_SAMPLES);
	for (unsigned int age = 0; age < CTRL_HISTORY_SAMPLES; age++)
		cr_assert_float_eq(ctrl_history_rate(history, rx, age),
			2 * CTRL_HISTORY_SAMPLES + 17 - age, 1e-3);
}

Test(ctrl_history, jobs_come_and_go)
{
	struct ctrl_job_history *place, *other;

	second(1);
	second(1);
	place = place_of("ring", 3, 1);
	ctrl_history_put(history, &place->blocks, 5);
	cr_assert_str_eq(place->tenant, "vision");
	cr_assert(isnan(ctrl_history_rate(history, &place->blocks, 1)), "it was not there yet");
	cr_assert_float_eq(ctrl_history_rate(history, &place->blocks, 0), 5, 1e-3);
	second(1);
	cr_assert_eq(place_of("ring", 3, 1), place);
	/* The same name and number, but another one. */
	second(1);
	other = place_of("ring", 3, 2);
	cr_assert_neq(other, place);
	ctrl_history_put(history, &other->blocks, 1);
	for (unsigned int s = 1; s < CTRL_HISTORY_SAMPLES - 1; s++)
		second(1);
	cr_assert(ctrl_history_has(history, place), "its last sample is in it");
	cr_assert(ctrl_history_has(history, other));
	second(1);
	cr_assert_not(ctrl_history_has(history, place));
	cr_assert(ctrl_history_has(history, other));
}

Test(ctrl_history, there_is_a_place_for_every_job)
{
	struct ctrl_job_history *place;

	for (uint32_t instance = 0; instance < 3; instance++) {
		second(1);
		for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
			place = place_of("j", (uint8_t)i, instance);
			ctrl_history_put(history, &place->blocks, 1);
		}
		for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
			place = &history->job[i];
			cr_assert_eq(
				place->instance, instance, "a job that is there lost its place");
			cr_assert_float_eq(ctrl_history_rate(history, &place->blocks, 0), 1, 1e-3);
		}
	}
}

/* All places are in use, and one job goes as another comes: whoever is there keeps its place. */
Test(ctrl_history, present_jobs_keep_their_places)
{
	struct ctrl_job_history *place[WEIR_JOBS_MAX];
	struct ppe_job job = {.name = "j"};

	second(1);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		place[i] = place_of("j", (uint8_t)i, 0);
	second(1);
	/* Job 200 has gone, and what comes now has a lower number than most. */
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		job.id = (uint8_t)i;
		if (i != 200)
			ctrl_history_keep(history, &job);
	}
	cr_assert_eq(place_of("new", 200, 1), place[200]);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		cr_assert_str_eq(place[i]->name, i == 200 ? "new" : "j", "%u", i);
}

Test(ctrl_history, waiting_is_of_the_last_five_minutes)
{
	uint64_t waited[WEIR_SOURCES_MAX] = {0};

	for (unsigned int s = 1; s <= 1000; s++) {
		struct ctrl_job_history *place;
		uint64_t before;

		second(1);
		place = place_of("ring", 3, 0);
		waited[255] = s;
		if (ctrl_history_step_due(history, place))
			ctrl_history_step(place, waited);
		before = ctrl_history_waited_before(place)[255];
		if (s <= 270)
			cr_assert_eq(before, 0, "%u s: %zu", s, (size_t)before);
		else if (before > 0)
			cr_assert(s - before >= 270 && s - before < 300, "%u s: %zu", s,
				(size_t)before);
		else
			cr_assert_lt(s, 300);
	}
}

/* A tick that was left out does not leave out a step. */
Test(ctrl_history, steps_are_not_missed)
{
	unsigned int due = 0;

	for (unsigned int s = 0; s < 300; s += 3) {
		second(3);
		due += ctrl_history_step_due(history, place_of("ring", 3, 0));
	}
	cr_assert_eq(due, 10);
}
