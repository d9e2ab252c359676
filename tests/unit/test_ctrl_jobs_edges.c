/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry at its edges: what a restart would find, what is refused and may leave nothing behind,
 * what the engines know and it does not. On engines that are played. */
#include <criterion/criterion.h>

#include "tests/unit/played.h"

TestSuite(ctrl_jobs_edges, .init = setup, .fini = teardown, .timeout = 20);

/* The file has it at the next start: a job in its place would keep the switch from starting. */
Test(ctrl_jobs_edges, a_deleted_job_of_the_file_keeps_its_place)
{
	struct ctrl_job_wish wish = wish_of("other");

	create("zero");
	delete (running->by_id[1]);
	cr_assert_eq(create("next")->job->id, 2);
	wish.id = 1;
	create_refused(wish, NULL, CTRL_REFUSED_EXISTS, "id");
	create_refused(wish_of("file"), NULL, CTRL_REFUSED_EXISTS, "name");
	wish = wish_of("file");
	wish.id = 1;
	create_refused(wish, NULL, CTRL_REFUSED_EXISTS, "name");
	/* A reload that takes it out of the file. */
	config.jobs.by_id[1] = NULL;
	cr_assert_eq(create("file")->job->id, 1);
	expect_in_step();
}

/* A table that a worker took late leaves shards that the registry does not wait for. */
Test(ctrl_jobs_edges, the_engines_are_always_asked_to_reap)
{
	cr_assert_null(running->leaving);
	ctrl_jobs_tick(running);
	cr_assert_eq(played.reaped, 1);
}
