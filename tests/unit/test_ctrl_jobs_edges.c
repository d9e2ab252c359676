/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry at its edges: what a restart would find, what is refused and may leave nothing behind,
 * what the engines know and it does not. On engines that are played. */
#include <string.h>

#include <criterion/criterion.h>

#include "tests/unit/played.h"

TestSuite(ctrl_jobs_edges, .init = setup, .fini = teardown, .timeout = 90);

/* The file has it at the next start: a job in its place would keep the switch from starting. */
Test(ctrl_jobs_edges, a_deleted_job_of_the_file_keeps_its_place)
{
	struct ctrl_job_spec spec = spec_of("other");

	played.left = UINT32_MAX;
	played.records = UINT16_MAX;
	create("zero");
	delete (running->by_id[1]);
	cr_assert_eq(create("next")->job->id, 2);
	spec.id = 1;
	create_refused(spec, NULL, CTRL_REFUSED_EXISTS, "id");
	create_refused(spec_of("file"), NULL, CTRL_REFUSED_EXISTS, "name");
	spec = spec_of("file");
	spec.id = 1;
	create_refused(spec, NULL, CTRL_REFUSED_EXISTS, "name");
	/* A reload that takes it out of the file. */
	config.jobs.by_id[1] = NULL;
	cr_assert_eq(create("file")->job->id, 1);
	expect_in_step();
}

Test(ctrl_jobs_edges, operation_of_another_type_is_refused)
{
	struct ctrl_job_spec spec = spec_of("bits");

	spec.shape.op = WEIR_OP_BAND;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "op");
	spec.shape.dtype = WEIR_DTYPE_BF16;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "op");
	cr_assert_str_eq(why.message, "band is for integers only, and bf16 is none");
}

/* A table that a worker took late leaves shards that the registry does not wait for. */
Test(ctrl_jobs_edges, each_tick_reaps_the_engines_jobs)
{
	cr_assert_null(running->leaving);
	ctrl_jobs_tick(running);
	cr_assert_eq(played.reaped, 1);
}

/* Neither numbers of instances nor generations, which would be asked from a ring until it is round. */
Test(ctrl_jobs_edges, refused_job_uses_no_instance_or_generation)
{
	struct ctrl_job *job;
	uint16_t reserved[WEIR_JOBS_MAX];
	uint32_t instances;

	config.ppe.first_generation = 700;
	delete (create("a"));
	instances = running->instances;
	memcpy(reserved, running->reserved, sizeof(reserved));
	cr_assert_neq(reserved[0], 0);
	played.rc = -ENOMEM;
	for (unsigned int i = 0; i < 100; i++)
		create_refused(spec_of("b"), NULL, CTRL_REFUSED_MEMORY, "");
	cr_assert_eq(running->instances, instances);
	cr_assert_arr_eq(running->reserved, reserved, sizeof(reserved));
	played.rc = 0;
	job = create("b");
	cr_assert_eq(job->job->instance, instances + 1);
	cr_assert_eq(running->instances, instances + 1);
	cr_assert_neq(running->reserved[0], reserved[0]);
}

/* A job with its first member is one change: there is no moment when it has none. */
Test(ctrl_jobs_edges, job_is_created_with_its_first_member)
{
	struct ctrl_job_spec spec = spec_of("a");
	struct ctrl_job *job;
	unsigned int published = played.published;

	spec.member_rank = 2;
	spec.member_address = HOST;
	job = make(&spec, NULL);
	cr_assert_eq(played.published, published + 1);
	cr_assert_eq(played.job[0].members[0], 1u << 2);
	cr_assert_eq(played.job[0].address[2], HOST);
	cr_assert_eq(job->member[2].state, CTRL_MEMBER_JOINED);
	cr_assert_eq(job->member[2].address, HOST);
	cr_assert_neq(job->member[2].membership, 0);
	cr_assert_eq(played.job[0].epoch[2], job->member[2].membership);
	cr_assert_eq(ctrl_job_joined(job), 1);
	spec = spec_of("b");
	spec.member_rank = 4;
	spec.member_address = HOST;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "rank");
	spec.member_rank = 3;
	spec.member_address = SWITCH;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "address");
	expect_in_step();
}

/* A reload lowers the quota under what there is: then the way down is open, and the way up is not. */
Test(ctrl_jobs_edges, rates_over_a_lowered_quota_go_down)
{
	struct ctrl_job_spec spec = spec_of("a");
	struct ctrl_job *job;

	spec.shape.rate_mbit = 500;
	job = make(&spec, &tenant);
	snprintf(spec.shape.name, sizeof(spec.shape.name), "b");
	job = make(&spec, &tenant);
	tenant.quota =
		(struct ctrl_quota){.jobs = 1, .memory_mb = 1, .blocks = 1, .rate_mbit = 600};
	cr_assert_eq(change(job, "rate_mbit", 400), 0, "%s", why.message);
	refused(change(job, "rate_mbit", 401), CTRL_REFUSED_QUOTA, "rate_mbit");
	refused(change(job, "rate_mbit", 0), CTRL_REFUSED_QUOTA, "rate_mbit");
	cr_assert_eq(change(job, "rate_mbit", 100), 0);
	refused(change(job, "rate_mbit", 101), CTRL_REFUSED_QUOTA, "rate_mbit");
	tenant.quota.rate_mbit = 601;
	cr_assert_eq(change(job, "rate_mbit", 101), 0, "jobs and memory are not what it raises");
	/* One without a limit may get one, also one that the quota does not have. */
	tenant.quota = (struct ctrl_quota){0};
	cr_assert_eq(change(job, "rate_mbit", 0), 0);
	tenant.quota.rate_mbit = 1;
	cr_assert_eq(change(job, "rate_mbit", 700), 0);
	tenant.quota = (struct ctrl_quota){.jobs = 1};
	snprintf(spec.shape.name, sizeof(spec.shape.name), "c");
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "");
	cr_assert_not_null(strstr(why.message, "has 2 jobs"), "%s", why.message);
	cr_assert_not_null(strstr(why.message, "may have 1"), "%s", why.message);
}

/* A source id may lie above the number of sources. */
Test(ctrl_jobs_edges, the_room_for_source_ids)
{
	struct ppe_job job = {.nb_sources = 2};

	cr_assert_eq(ppe_job_source_end(&job), 2);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		job.members[s / 64] |= UINT64_C(1) << (s % 64);
		cr_assert_eq(ppe_job_source_end(&job), s < 2 ? 2 : s + 1);
	}
}
