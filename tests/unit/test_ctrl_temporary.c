/* SPDX-License-Identifier: BSD-3-Clause */
/* Temporary jobs, and those of clients without a token, on engines that are played. */
#include <rte_common.h>

#include "ctrl/config/job.h"
#include "ctrl/jobs/state.h"
#include "tests/unit/played.h"

TestSuite(ctrl_temporary, .init = setup, .fini = teardown, .timeout = 60);

static struct ctrl_job_spec
temporary(const char *name)
{
	struct ctrl_job_spec spec = spec_of(name);

	spec.temporary = true;
	spec.expire_s = CTRL_TEMPORARY_EXPIRE_S;
	return spec;
}

/* Without defaults of its own, a temporary job would never expire. */
Test(ctrl_temporary, defaults)
{
	struct ctrl_job_spec spec = ctrl_job_spec_default(true);

	cr_assert_eq(spec.expire_s, 30);
	cr_assert_eq(ctrl_job_spec_default(false).expire_s, 0);
	spec = temporary("t");
	spec.expire_s = 0;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "expire_s");
	spec.expire_s = 1;
	refused(change(make(&spec, NULL), "expire_s", 0), CTRL_REFUSED_RANGE, "expire_s");
}

/* Frames of 58 bytes and 4 for each element, within the least of what ports and packet buffers
 * take. */
Test(ctrl_temporary, as_many_elements_as_fit)
{
	static const struct {
		uint32_t frame, packet, elements;
	} fits[] = {{1514, 2048, 320}, {58 + 320 * 4, 2048, 320}, {58 + 320 * 4 - 1, 2048, 256},
		{9014, 9216, 2048}, {0, 2048, 448}, {0, 65408, 2048}, {9014, 58 + 8 + 64 * 4, 64},
		{58 + 63 * 4, 2048, 63}};

	cr_assert_eq(ctrl_job_spec_default(true).shape.elements, 0);
	for (unsigned int i = 0; i < RTE_DIM(fits); i++) {
		struct ctrl_job_spec spec = temporary("t");

		config.port_more[0].frame_max = fits[i].frame;
		config.ppe.packet_bytes = fits[i].packet;
		config.ppe.exception_port = -1;
		spec.shape.elements = 0;
		delete (make(&spec, NULL));
		cr_expect_eq(
			spec.shape.elements, fits[i].elements, "%u: %u", i, spec.shape.elements);
	}
}

/* Full blocks of AlltoAll, if jobs with them take at most a quarter of the memory, and there is
 * a piece of that size. */
Test(ctrl_temporary, full_alltoall_if_it_fits)
{
	static const struct {
		uint64_t piece, left;
		bool tree, full;
	} fits[] = {{64000, 256000, false, true}, {63999, 256000, false, false},
		{64000, 255999, false, false}, {64000, 256000, true, false},
		/* Beside another one. */
		{64000, 448000, false, true}, {64000, 447999, false, false}};
	struct ctrl_job_spec other = temporary("other");

	for (unsigned int i = 0; i < RTE_DIM(fits); i++) {
		struct ctrl_job_spec spec = temporary("t");

		if (i == 4) {
			other.shape.alltoall = PPE_ALLTOALL_FULL;
			make(&other, NULL);
		}
		played.piece = fits[i].piece;
		played.left = fits[i].left;
		spec.shape.alltoall = CTRL_ALLTOALL_FIT;
		spec.shape.nb_parents = fits[i].tree;
		spec.shape.tree_ranks = spec.shape.nb_sources;
		delete (make(&spec, NULL));
		cr_expect_eq(spec.shape.alltoall,
			fits[i].full ? PPE_ALLTOALL_FULL : PPE_ALLTOALL_SHORT, "%u", i);
	}
}

Test(ctrl_temporary, ends_with_its_last_member)
{
	struct ctrl_job_spec spec = temporary("t");
	struct ctrl_job *job, *other = create("other");
	unsigned int published;

	spec.member_address = HOST + 5;
	job = make(&spec, NULL);
	cr_assert_eq(join(job, 3, 4, HOST), 0);
	cr_assert_eq(leave(job, 0), 0);
	cr_assert_eq(ctrl_running_find_job(running, "t"), job);
	/* Another process has its rank since: the job goes on. */
	cr_assert_eq(join(job, 3, 4, HOST), 0);
	played.rc = -EBUSY;
	refused(leave(job, 3), CTRL_REFUSED_BUSY, "");
	cr_assert_eq(ctrl_running_find_job(running, "t"), job);
	cr_assert_eq(job->member[3].state, CTRL_MEMBER_JOINED);
	played.rc = 0;
	published = played.published;
	cr_assert_eq(leave(job, 3), 0);
	cr_assert_null(ctrl_running_find_job(running, "t"));
	cr_assert_eq(played.published, published + 1, "one turn of the workers");
	expect_in_step();
	/* Others stay. */
	cr_assert_eq(join(other, 0, 4, HOST), 0);
	cr_assert_eq(leave(other, 0), 0);
	cr_assert_eq(ctrl_running_find_job(running, "other"), other);
}

Test(ctrl_temporary, ends_when_its_members_expire)
{
	struct ctrl_job_spec spec = temporary("t");
	struct ctrl_job *job;

	spec.member_address = HOST;
	job = make(&spec, NULL);
	cr_assert_eq(join(job, 1, 4, HOST + 1), 0);
	job->member[0].last_join -= CTRL_TEMPORARY_EXPIRE_S + 1;
	ctrl_jobs_tick(running);
	cr_assert_eq(ctrl_running_find_job(running, "t"), job);
	cr_assert_eq(job->member[0].state, CTRL_MEMBER_EXPIRED);
	job->member[1].last_join -= CTRL_TEMPORARY_EXPIRE_S + 1;
	ctrl_jobs_tick(running);
	cr_assert_null(ctrl_running_find_job(running, "t"));
	expect_in_step();
}

/* As on a machine that was suspended. */
Test(ctrl_temporary, a_switch_that_was_stopped_expires_no_member)
{
	struct ctrl_job_spec spec = temporary("t"), empty = temporary("empty");
	struct ctrl_job *job;

	spec.member_address = HOST;
	job = make(&spec, NULL);
	make(&empty, NULL)->created_monotonic -= CTRL_TEMPORARY_EXPIRE_S + 9;
	job->member[0].last_join -= CTRL_TEMPORARY_EXPIRE_S + 9;
	running->ticked -= 10;
	ctrl_jobs_tick(running);
	ctrl_jobs_tick(running);
	cr_assert_eq(job->member[0].state, CTRL_MEMBER_JOINED);
	cr_assert_not_null(ctrl_running_find_job(running, "empty"));
	/* The member speaks, and is then silent: the stop counts no more. */
	job->member[0].last_join = ctrl_monotonic();
	ctrl_jobs_tick(running);
	job->member[0].last_join -= CTRL_TEMPORARY_EXPIRE_S + 1;
	ctrl_jobs_tick(running);
	cr_assert_null(ctrl_running_find_job(running, "t"));
	expect_in_step();
}

Test(ctrl_temporary, job_without_members_expires)
{
	struct ctrl_job_spec spec = temporary("t"), stays = temporary("stays");
	struct ctrl_job *job = make(&spec, NULL);

	stays.temporary = false;
	make(&stays, NULL)->created_monotonic -= 1000;
	job->created_monotonic -= CTRL_TEMPORARY_EXPIRE_S - 1;
	ctrl_jobs_tick(running);
	cr_assert_eq(ctrl_running_find_job(running, "t"), job);
	job->created_monotonic -= 2;
	ctrl_jobs_tick(running);
	cr_assert_null(ctrl_running_find_job(running, "t"));
	cr_assert_not_null(ctrl_running_find_job(running, "stays"));
	expect_in_step();
}

/* Results of the last ones are on their way: their ids are given again, and they do not count. */
Test(ctrl_temporary, three_hundred_in_a_row)
{
	struct ctrl_job_spec spec = temporary("t");

	spec.open = true;
	spec.member_address = HOST;
	config.api.open_jobs = 2;
	memset(played.leaving, true, sizeof(played.leaving));
	for (unsigned int i = 0; i < 300; i++)
		cr_assert_eq(leave(make(&spec, NULL), 0), 0);
	memset(played.leaving, 0, sizeof(played.leaving));
	make(&spec, NULL);
	cr_assert_null(running->leaving, "what has left is forgotten when another one comes");
	expect_in_step();
}

/* Neither such a job nor its name is in the state file. */
Test(ctrl_temporary, does_not_outlive_a_restart)
{
	struct ctrl_job_spec spec = temporary("t");
	json_t *aside = json_pack("[{s:s,s:s,s:b}]", "name", "t", "tenant", "", "set_aside", 1);
	json_t *root, *jobs;
	char *text;

	create("stays");
	make(&spec, NULL);
	running->set_aside = aside;
	text = ctrl_state_text(running);
	root = json_loads(text, 0, NULL);
	jobs = json_object_get(root, "jobs");
	cr_assert_eq(json_array_size(jobs), 2, "%s", text);
	cr_assert_str_eq(
		json_string_value(json_object_get(json_array_get(jobs, 0), "name")), "stays");
	cr_assert(json_is_true(json_object_get(json_array_get(jobs, 1), "set_aside")),
		"a temporary job of its name replaces none that was set aside");
	json_decref(root);
	free(text);
}

/* -- jobs of clients without a token */

Test(ctrl_temporary, open_jobs_are_counted)
{
	struct ctrl_job_spec spec = temporary("a"), more = temporary("b");

	spec.open = more.open = true;
	create_refused(spec, NULL, CTRL_REFUSED_FULL, "");
	config.api.open_jobs = 1;
	make(&spec, NULL);
	create_refused(more, NULL, CTRL_REFUSED_FULL, "");
	more.open = false;
	make(&more, NULL);
}

/* They get half of what others leave: here 1000 bytes for each block of the window, and 2
 * records. */
Test(ctrl_temporary, open_jobs_leave_half_of_the_memory)
{
	struct ctrl_job_spec spec = temporary("a");
	struct ppe_memory memory;
	struct ctrl_job *job;

	config.api.open_jobs = 3;
	spec.open = true;
	played.left = 2 * 64000;
	played.records = 2 * 128;
	job = make(&spec, NULL);
	ppe_job_memory(&config.ppe, job->job, &memory);
	named(&spec, "b");
	/* The played engines do not take anything away. */
	played.left = memory.total + 2 * 64000;
	played.records = 128 + 2 * 128 - 1;
	create_refused(spec, NULL, CTRL_REFUSED_MEMORY, "window");
	played.records += 1;
	played.left -= 1;
	create_refused(spec, NULL, CTRL_REFUSED_MEMORY, "");
	played.left += 1;
	make(&spec, NULL);
	spec.open = false;
	named(&spec, "c");
	played.left = 0;
	make(&spec, NULL);
}
