/* SPDX-License-Identifier: BSD-3-Clause */
/* The pulse of workers: who turns, and how busy it was. */
#include <criterion/criterion.h>

#include "ctrl/jobs/running.h"

static struct ctrl_pulse pulse;
static struct ppe_worker_stats worker;

TestSuite(ctrl_running, .timeout = 90);

Test(ctrl_running, busy_is_of_the_last_second)
{
	worker.turns = 1000;
	worker.busy_turns = 250;
	ctrl_pulse_update(&pulse, &worker, 1, true);
	cr_assert_float_eq(pulse.busy, 0.25, 1e-9);
	worker.turns = 1100;
	worker.busy_turns = 350;
	ctrl_pulse_update(&pulse, &worker, 1.5, false);
	cr_assert_float_eq(pulse.busy, 0.25, 1e-9, "between ticks it stays");
	worker.turns = 1200;
	ctrl_pulse_update(&pulse, &worker, 2, true);
	cr_assert_float_eq(pulse.busy, 0.5, 1e-9);
	ctrl_pulse_update(&pulse, &worker, 3, true);
	cr_assert_float_eq(pulse.busy, 0, 1e-9, "no turn at all");
}

/* Once after a tick is not for ever: each look counts from the last one. */
Test(ctrl_running, a_worker_that_stops_is_noticed)
{
	worker.turns = 10;
	ctrl_pulse_update(&pulse, &worker, 1, true);
	cr_assert_float_eq(pulse.changed_at, 1, 1e-9);
	worker.turns = 11;
	ctrl_pulse_update(&pulse, &worker, 1.2, false);
	cr_assert_float_eq(pulse.changed_at, 1.2, 1e-9);
	ctrl_pulse_update(&pulse, &worker, 1.9, false);
	cr_assert_float_eq(pulse.changed_at, 1.2, 1e-9);
	ctrl_pulse_update(&pulse, &worker, 2, true);
	cr_assert_float_eq(pulse.changed_at, 1.2, 1e-9);
	worker.turns = 12;
	ctrl_pulse_update(&pulse, &worker, 9, false);
	cr_assert_float_eq(pulse.changed_at, 9, 1e-9);
}

Test(ctrl_running, jobs_of_the_configuration)
{
	struct ppe_job jobs[] = {{.name = "ring", .id = 7}, {.name = "pair", .id = 0}};
	struct ctrl_config config = {.nb_jobs = 2, .job = jobs};
	struct ctrl_running *running;

	cr_assert_eq(ctrl_running_create(&config, NULL, &running), 0);
	cr_assert_eq(ctrl_running_find_job(running, "ring")->job->id, 7);
	cr_assert_eq(ctrl_running_find_job(running, "pair"), running->by_id[0]);
	cr_assert(running->by_id[0]->from_file);
	cr_assert_null(ctrl_running_find_job(running, "rin"));
	ctrl_running_destroy(running);
	ctrl_running_destroy(NULL);
}
