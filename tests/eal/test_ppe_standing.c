/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of jobs while a worker stands: how long they take, and that no generation is used twice. */
#include <errno.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/one_rig.h"

#define JOBS   40
#define FIRST  10 /* the id of the first of them */
#define HALF_S 500.0 /* ms */

static void
start(void)
{
	struct rig_config config = {
		.workers = 2, .threads = 4, .ports = 4, .jobs = 1, .first_generation = 100};

	config.job[0] = rig_job(1, 3, 4, 16);
	rig_start(&rig, &config);
}

static double
publish(const struct ppe_jobs *jobs)
{
	uint64_t began = ppe_tsc();

	cr_assert_eq(ppe_publish_jobs(rig.ppe, jobs), 0);
	return (double)(ppe_tsc() - began) * 1e3 / (double)rte_get_tsc_hz();
}

/* The rig's job, and more. */
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
	double ms;

	start();
	table = many();
	rig.standing = 1;
	ms = publish(&table);
	cr_expect(ms >= HALF_S && ms < HALF_S + 1, "%.1f ms", ms);
	cr_expect_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), -EBUSY);
	rig.standing = 0;
	cr_assert(rig_turns(&rig, 3)); /* it takes the table */
	publish(&rig.jobs);
	stop();
}

Test(ppe_standing, leaving_jobs_share_one_wait, .timeout = 90)
{
	struct ppe_jobs table;
	uint64_t began;
	double ms;

	start();
	table = many();
	publish(&table);
	rig.standing = 1;
	publish(&rig.jobs);
	/* Now it takes the table, and stands again before anybody looks. */
	rig.standing = 0;
	cr_assert(rig_turns(&rig, 3));
	rig.standing = 1;
	began = ppe_tsc();
	cr_expect_eq(ppe_jobs_leaving(rig.ppe), JOBS);
	ms = (double)(ppe_tsc() - began) * 1e3 / (double)rte_get_tsc_hz();
	cr_expect_lt(ms, HALF_S + 1, "%.1f ms", ms);
	cr_expect(ppe_job_is_leaving(rig.ppe, FIRST, 1));
	rig.standing = 0;
	cr_assert(rig_turns(&rig, 3));
	cr_expect_eq(ppe_jobs_leaving(rig.ppe), 0);
	stop();
}

/* What a new job of the id begins with is behind all that the former ones began. */
Test(ppe_standing, no_generation_twice, .timeout = 90)
{
	const struct ppe_jobs none = {0};
	uint16_t first, second;

	start();
	first = rig_join(&rig, 0, false);
	cr_assert_eq(first, 100);
	publish(&none);
	rig.job[0].instance = 2;
	rig.job[0].first_generation = ppe_generation_after(rig.ppe, 1);
	publish(&rig.jobs);
	second = rig_join(&rig, 0, false);
	cr_assert_eq(second, 101);
	rig.standing = 1;
	publish(&none);
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 0, "who knows?");
	rig.standing = 0;
	cr_assert(rig_turns(&rig, 3));
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 102);
	stop();
}
