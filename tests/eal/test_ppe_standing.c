/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of jobs while a worker stands: how long they take, and that no generation is used twice. */
#include <errno.h>

#include "tests/eal/bench.h"

#define JOBS    40
#define FIRST   10 /* the id of the first of them */
#define HALF_US 500000

static void
from_100(struct rig_config *config)
{
	config->first_generation = 100;
}

/* Returns the us that it took. */
static uint64_t
publish_all(const struct ppe_jobs *jobs)
{
	uint64_t began = now_us();

	cr_assert_eq(ppe_publish_jobs(rig.ppe, jobs), 0);
	return now_us() - began;
}

/* The bench's job, and more. */
static struct ppe_jobs
many(void)
{
	static struct ppe_job job[JOBS];
	struct ppe_jobs table = rig.jobs;

	for (unsigned int i = 0; i < JOBS; i++) {
		job[i] = rig_job((uint8_t)(FIRST + i), 2, 4, 16);
		job[i].instance = i + 1;
		table.by_id[job[i].id] = &job[i];
	}
	return table;
}

Test(ppe_standing, a_change_waits_half_a_second, .timeout = 90)
{
	struct ppe_jobs table;
	uint64_t us;

	start();
	table = many();
	rig.standing = 1;
	us = publish_all(&table);
	cr_expect(us >= HALF_US && us < HALF_US + 1000, "%lu us", us);
	cr_expect_eq(ppe_check_jobs(rig.ppe, &rig.jobs), -EBUSY);
	cr_expect_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), -EBUSY);
	rig.standing = 0;
	rig_turns(&rig, 3); /* it takes the table */
	publish_all(&rig.jobs);
	stop();
}

Test(ppe_standing, a_check_waits_for_no_worker_and_takes_nothing, .timeout = 90)
{
	struct ppe_room before, after;
	struct ppe_jobs table;
	struct ppe_job huge;
	int rc;

	start();
	table = many();
	ppe_job_room(rig.ppe, table.by_id[FIRST], &before);
	rig.standing = 1;
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_eq(ppe_check_jobs(rig.ppe, &table), 0);
	huge = rig_job(FIRST + JOBS, 2, 4096, 16);
	huge.instance = JOBS + 1;
	table.by_id[huge.id] = &huge;
	rc = ppe_check_jobs(rig.ppe, &table);
	cr_expect(rc == -ENOSPC || rc == -ENOMEM, "%d", rc);
	ppe_job_room(rig.ppe, table.by_id[FIRST], &after);
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(ppe_publish_jobs(rig.ppe, &table), rc);
	rig.standing = 0;
	stop();
}

Test(ppe_standing, leaving_jobs_share_one_wait, .timeout = 90)
{
	struct ppe_jobs table;
	uint64_t us;

	start();
	table = many();
	publish_all(&table);
	rig.standing = 1;
	publish_all(&rig.jobs);
	/* Now it takes the table, and stands again before anybody looks. */
	rig.standing = 0;
	rig_turns(&rig, 3);
	rig.standing = 1;
	us = now_us();
	cr_expect_eq(ppe_jobs_leaving(rig.ppe), JOBS);
	us = now_us() - us;
	cr_expect_lt(us, HALF_US + 1000, "%lu us", us);
	cr_expect(ppe_job_is_leaving(rig.ppe, FIRST, 1));
	rig.standing = 0;
	rig_turns(&rig, 3);
	cr_expect_eq(ppe_jobs_leaving(rig.ppe), 0);
	stop();
}

/* What a new job of the id begins with is behind all that the former ones began. */
Test(ppe_standing, no_generation_twice, .timeout = 90)
{
	start(.change = from_100);
	cr_assert_eq(generation, 100);
	publish(NULL);
	rig.job[0].instance = 2;
	rig.job[0].first_generation = ppe_generation_after(rig.ppe, 1);
	publish(&rig.job[0]);
	cr_assert_eq(rig_join(&rig, 0, false), 101);
	rig.standing = 1;
	publish(NULL);
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 0, "who knows?");
	rig.standing = 0;
	rig_turns(&rig, 3);
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 102);
	stop();
}
