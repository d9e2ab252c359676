/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of jobs on engines that are played: ids, instances, generations, members, quotas,
 * and that a change which fails has not happened. */
#include "tests/random.h"
#include "tests/unit/played.h"

TestSuite(ctrl_jobs, .init = setup, .fini = teardown, .timeout = 90);

Test(ctrl_jobs, the_lowest_free_id)
{
	struct ctrl_job_spec spec = spec_of("asked");
	struct ctrl_job *job, *zero = create("a");

	cr_assert_eq(ctrl_running_find_job(running, "file"), running->by_id[1]);
	cr_assert(running->by_id[1]->from_file);
	cr_assert_null(ctrl_running_find_job(running, "fil"));
	cr_assert_eq(zero->job->id, 0);
	cr_assert(zero->job->proved && !running->by_id[1]->job->proved,
		"joins to jobs of the API are proved");
	cr_assert_not(zero->job->authenticated);
	cr_assert_eq(create("b")->job->id, 2, "1 is the file's");
	spec.id = 200;
	job = make(&spec, NULL);
	cr_assert_eq(job->job->id, 200);
	create_refused(spec, NULL, CTRL_REFUSED_EXISTS, "name");
	named(&spec, "other");
	create_refused(spec, NULL, CTRL_REFUSED_EXISTS, "id");
	delete (zero);
	cr_assert_eq(create("c")->job->id, 0);
	expect_in_step();
}

Test(ctrl_jobs, all_ids_in_use)
{
	char name[16];

	for (unsigned int i = 1; i < WEIR_JOBS_MAX; i++) {
		snprintf(name, sizeof(name), "j%u", i);
		create(name);
	}
	create_refused(spec_of("more"), NULL, CTRL_REFUSED_FULL, "");
	played.leaving[77] = true;
	delete (running->by_id[77]);
	cr_assert_eq(create("more")->job->id, 77, "that of one which is leaving, if need be");
	expect_in_step();
}

/* An id comes back with another instance, and a generation that goes on. */
Test(ctrl_jobs, the_next_job_of_an_id)
{
	struct ctrl_job *job = create("a");
	uint32_t instance = job->job->instance;

	cr_assert_neq(instance, 0, "jobs of the file have 0");
	cr_assert_eq(job->job->first_generation, 0, "the switch's own");
	played.leaving[0] = true;
	cr_assert(delete (job));
	cr_assert_not_null(running->leaving);
	cr_assert(ctrl_job_is_leaving(running, running->leaving));
	cr_assert_null(ctrl_running_find_job(running, "a"));
	played.generation[2] = 4711;
	job = create("a");
	cr_assert_eq(job->job->id, 2, "ids of those that are leaving come last");
	cr_assert_eq(job->job->first_generation, 4711);
	cr_assert_neq(job->job->instance, instance);
	ctrl_jobs_tick(running);
	cr_assert_not_null(running->leaving);
	played.leaving[0] = false;
	ctrl_jobs_tick(running);
	cr_assert_null(running->leaving);
	cr_assert(!delete (job), "gone at once");
	cr_assert_null(running->leaving);
	expect_in_step();
}

Test(ctrl_jobs, failed_changes_change_nothing)
{
	struct ctrl_job *job = create("a");
	uint64_t membership;
	bool leaving;

	cr_assert_eq(join(job, 3, 4, HOST), 0);
	membership = job->member[3].membership;
	played.rc = -ENOMEM;
	played.records = 9;
	create_refused(spec_of("b"), NULL, CTRL_REFUSED_MEMORY, "");
	cr_assert_eq(why.room.memory_needed, 64000);
	cr_assert_eq(why.room.memory_free, 77);
	played.rc = -ENOSPC;
	create_refused(spec_of("b"), NULL, CTRL_REFUSED_MEMORY, "window");
	cr_assert_eq(why.room.records_needed, 128);
	cr_assert_eq(why.room.records_free, 9);
	cr_assert_null(running->by_id[2]);
	refused(change(job, "timeout_ms", 7), CTRL_REFUSED_MEMORY, "window");
	cr_assert_eq(job->job->timeout_ms, 1000);
	refused(ctrl_job_delete(running, job, who, &leaving, &why), CTRL_REFUSED_MEMORY, "window");
	refused(join(job, 0, 4, HOST), CTRL_REFUSED_MEMORY, "window");
	cr_assert_eq(job->member[0].state, CTRL_MEMBER_EXPECTED);
	refused(join(job, 3, 4, HOST), CTRL_REFUSED_MEMORY, "window");
	cr_assert_eq(job->member[3].membership, membership, "the rank is its former process's");
	cr_assert_eq(running->by_id[0], job);
	cr_assert_null(running->leaving);
	expect_in_step();
}

static void
expect_dry_create(void)
{
	struct ctrl_job_spec spec = spec_of("b");
	struct ctrl_job *made = NULL;
	int rc = ctrl_job_create(running, &spec, NULL, who, &made, &why);

	cr_expect_eq(rc, played.rc < 0 ? -EINVAL : 0);
	cr_expect_eq(made == NULL, played.rc < 0);
	cr_expect(made == NULL || (made->job->id == 3 && running->by_id[3] == made));
	ctrl_jobs_undo(running);
}

/* Each change as a dry run: refused as the change is, or 0. */
static void
expect_dry(struct ctrl_job *job, struct ctrl_job *last, enum ctrl_refused code)
{
	bool leaving = true;
	int rc[] = {
		change(job, "timeout_ms", 7),
		played.rc < 0 ? -EINVAL : change(job, "expire_s", 9),
		join(job, 3, 4, HOST),
		join(job, 0, 4, HOST),
		leave(job, 3),
		leave(last, 0),
		ctrl_job_delete(running, job, who, &leaving, &why),
	};

	for (unsigned int i = 0; i < RTE_DIM(rc); i++)
		cr_expect_eq(rc[i], played.rc < 0 ? -EINVAL : 0, "%u: %d", i, rc[i]);
	cr_expect(played.rc == 0 || why.code == code, "%s", why.message);
	cr_expect(!leaving);
	refused(change(job, "expire_s", 0), CTRL_REFUSED_RANGE, "expire_s");
	refused(join(job, 4, 4, HOST), CTRL_REFUSED_RANGE, "rank");
}

Test(ctrl_jobs, dry_runs_change_nothing)
{
	struct ctrl_job_spec spec = spec_of("a");
	struct ctrl_job *job, *last;
	struct ctrl_running before;
	struct ctrl_member members[4];
	struct ppe_job shape;
	unsigned int published;

	spec.temporary = true;
	spec.expire_s = 30;
	job = make(&spec, NULL);
	named(&spec, "last");
	last = make(&spec, NULL);
	cr_assert_eq(join(job, 3, 4, HOST), 0);
	cr_assert_eq(join(job, 2, 4, HOST + 1), 0);
	cr_assert_eq(join(last, 0, 4, HOST), 0);
	before = *running;
	shape = *job->job;
	memcpy(members, job->member, sizeof(members));
	published = played.published;
	hear_log();
	running->is_dry_run = true;
	expect_dry(job, last, 0);
	expect_dry_create();
	played.rc = -ENOMEM;
	expect_dry_create();
	expect_dry(job, last, CTRL_REFUSED_MEMORY);
	played.rc = 0;
	running->is_dry_run = false;
	cr_expect_str_eq(logged(), "");
	cr_expect_arr_eq(running, &before, sizeof(before));
	cr_expect_arr_eq(job->job, &shape, sizeof(shape));
	cr_expect_arr_eq(job->member, members, sizeof(members));
	cr_expect_eq(played.published, published);
	cr_expect_eq(create("b")->job->id, 3);
	expect_in_step();
}

/* To what is so already: no table is published, and no line is logged. */
Test(ctrl_jobs, equal_settings_publish_nothing)
{
	struct ctrl_job *job = create("a");
	const struct ppe_job *shape = job->job;
	unsigned int published = played.published;

	hear_log();
	cr_assert_eq(change(job, "timeout_ms", 1000), 0);
	cr_assert_eq(change(job, "policy", PPE_POLICY_WAIT), 0);
	cr_assert_eq(change(job, "rate_mbit", 0), 0);
	cr_assert_eq(change(job, "expire_s", 0), 0);
	cr_assert_eq(played.published, published);
	cr_assert_eq(job->job, shape);
	cr_assert_str_eq(logged(), "");
	cr_assert_eq(change(job, "expire_s", 3), 0);
	cr_assert_str_neq(logged(), "");
	cr_assert_eq(played.published, published, "members' times are no engine's business");
	cr_assert_eq(job->expire_s, 3);
	cr_assert_eq(change(job, "timeout_ms", 1001), 0);
	cr_assert_eq(played.published, published + 1);
	expect_in_step();
}

#define CHILDREN                                                                                   \
	"{\"sources\": [{\"id\": 0, \"address\": \"10.99.0.1\", \"ranks\": 2}, {\"id\": 2, "       \
	"\"address\": \"10.99.0.2\", \"ranks\": 3}]}"

/* A job of 4, or of sources, that this JSON places in a tree. */
static struct ctrl_job_spec
spec_in_tree(const char *name, const char *text)
{
	struct ctrl_job_spec spec = spec_of(name);

	read_tree(&spec, text);
	return spec;
}

/* Hosts of a leaf join by their ranks in the tree. */
Test(ctrl_jobs, members_of_a_leaf)
{
	struct ctrl_job_spec spec = spec_in_tree("leaf", TREE(PARENT("s", "10.78.0.254", "")));
	struct ctrl_job *leaf;

	leaf = make(&spec, NULL);
	cr_assert(leaf->job->proved, "hosts prove their joins");
	refused(join(leaf, 3, 8, HOST), CTRL_REFUSED_RANGE, "rank");
	refused(join(leaf, 8, 8, HOST), CTRL_REFUSED_RANGE, "rank");
	refused(join(leaf, 4, 4, HOST), CTRL_REFUSED_CONFLICT, "size");
	cr_assert_eq(join(leaf, 4, 8, HOST), 0);
	cr_assert_eq(join(leaf, 7, 8, HOST + 3), 0);
	cr_assert_eq(leaf->job->members[0], 0x90);
	cr_assert_eq(leaf->job->address[7], HOST + 3);
	refused(leave(leaf, 3), CTRL_REFUSED_MEMBER, "");
	cr_assert_eq(leave(leaf, 7), 0);
	cr_assert_eq(leaf->member[7].state, CTRL_MEMBER_LEFT);
	/* Silent ones expire by the same ranks. */
	cr_assert_eq(change(leaf, "expire_s", 1), 0);
	leaf->member[4].last_join -= 5;
	ctrl_jobs_tick(running);
	cr_assert_eq(leaf->member[4].state, CTRL_MEMBER_EXPIRED);
	cr_assert_eq(leaf->job->members[0], 0);
	/* A change can't take the job out of what a tree needs. */
	refused(change(leaf, "rejoin", 0), CTRL_REFUSED_RANGE, "rejoin");
	spec = spec_in_tree("other", TREE(PARENT("s", "10.78.0.254", "")));
	create_refused(spec, NULL, CTRL_REFUSED_CONFLICT, "tree.parents");
	spec = spec_in_tree("other", TREE(PARENT("s", "10.78.0.253", "")));
	leaf = make(&spec, NULL);
}

/* The sources of a parent's job are given: none joins or leaves over the API, and none expires. */
Test(ctrl_jobs, switches_as_sources)
{
	struct ctrl_job_spec spec = spec_in_tree("root", CHILDREN);
	struct ctrl_job *root;

	spec.temporary = true;
	spec.expire_s = 30;
	create_refused(spec, NULL, CTRL_REFUSED_CONFLICT, "temporary");
	spec.temporary = false;
	create_refused(spec, NULL, CTRL_REFUSED_CONFLICT, "expire_s");
	spec.expire_s = 0;
	root = make(&spec, NULL);
	cr_assert_null(root->member);
	cr_assert_eq(root->job->nb_sources, 2);
	cr_assert_eq(root->job->members[0], 5);
	cr_assert_eq(root->job->address[2], 0x0a630002u);
	cr_assert_eq(root->job->epoch[2], 0);
	cr_assert_not(
		root->job->proved, "without authenticate, switches are known by their addresses");
	refused(join(root, 0, 5, 0x0a630001), CTRL_REFUSED_CONFLICT, "rank");
	refused(change(root, "expire_s", 7), CTRL_REFUSED_CONFLICT, "expire_s");
	cr_assert_eq(leave(root, 0), 0);
	ctrl_jobs_tick(running);
	cr_assert_eq(root->job->members[0], 5);
	named(&spec, "keyed");
	spec.shape.authenticated = true;
	root = make(&spec, NULL);
	cr_assert(root->job->proved);
	expect_in_step();
}

/* Results that two tenants share would be read by both, and so those of an administrator and of a
 * client without a token. */
Test(ctrl_jobs, a_group_is_one_owners)
{
	struct ctrl_job_spec spec = spec_of("a");

	config.api.open_jobs = 9;
	spec.shape.group = 0xef010101;
	make(&spec, &tenant);
	create_refused(*named(&spec, "b"), NULL, CTRL_REFUSED_CONFLICT, "results");
	make(&spec, &tenant);
	spec.shape.group++;
	make(named(&spec, "c"), NULL);
	spec.open = true;
	create_refused(*named(&spec, "d"), NULL, CTRL_REFUSED_CONFLICT, "results");
	spec.shape.group++;
	make(&spec, NULL);
}

/* A job keeps its memory until its last results have left: making and deleting gets no more. */
Test(ctrl_jobs, leaving_job_counts_for_the_quota)
{
	struct ctrl_job_spec spec = spec_of("a");
	struct ctrl_job *job;

	tenant.quota.jobs = 1;
	job = make(&spec, &tenant);
	played.leaving[job->job->id] = true;
	cr_assert(delete (job));
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "");
	memset(played.leaving, 0, sizeof(played.leaving));
	ctrl_jobs_tick(running);
	job = make(&spec, &tenant);
}

/* They come back at the next start, and before what the API has made. */
Test(ctrl_jobs, what_deleted_jobs_of_the_file_need_stays_free)
{
	struct ctrl_job_spec spec = spec_of("a");
	const uint64_t needed = 1000u * of_file.window; /* played.h */

	played.leaving[1] = true;
	cr_assert(delete (running->by_id[1]));
	create("while_it_leaves");
	played.leaving[1] = false;
	ctrl_jobs_tick(running);
	played.left = 64000 + needed;
	played.records = 2 * 128 - 1;
	create_refused(spec, NULL, CTRL_REFUSED_MEMORY, "window");
	cr_assert_not_null(strstr(why.message, "\"file\""), "%s", why.message);
	cr_assert_eq(why.room.records_needed, 2 * 128);
	played.records++;
	played.left--;
	create_refused(spec, NULL, CTRL_REFUSED_MEMORY, "");
	cr_assert_eq(why.room.memory_needed, 64000 + needed);
	played.left++;
	make(&spec, NULL);
}

/* No change waits for a stuck worker. */
Test(ctrl_jobs, a_stuck_worker)
{
	struct ctrl_job *job = create("a");
	bool leaving;

	cr_assert_eq(join(job, 0, 4, HOST), 0);
	job->expire_s = 1;
	job->member[0].last_join -= 5;
	played.stuck = 3;
	create_refused(spec_of("b"), NULL, CTRL_REFUSED_BUSY, "");
	refused(change(job, "timeout_ms", 7), CTRL_REFUSED_BUSY, "");
	refused(ctrl_job_delete(running, job, who, &leaving, &why), CTRL_REFUSED_BUSY, "");
	refused(join(job, 1, 4, HOST), CTRL_REFUSED_BUSY, "");
	refused(leave(job, 0), CTRL_REFUSED_BUSY, "");
	ctrl_jobs_tick(running);
	cr_assert_eq(job->member[0].state, CTRL_MEMBER_JOINED);
	expect_in_step();
	played.stuck = -1;
	ctrl_jobs_tick(running);
	cr_assert_eq(job->member[0].state, CTRL_MEMBER_EXPIRED);
	expect_in_step();
}

Test(ctrl_jobs, a_change)
{
	struct ctrl_job *job = create("a"), *file = running->by_id[1];
	struct ctrl_job_spec spec = spec_of("large");

	cr_assert_eq(change(job, "timeout_ms", 7), 0);
	cr_assert_eq(played.job[0].timeout_ms, 7);
	cr_assert_eq(change(file, "timeout_ms", 7), 0);
	cr_assert_eq(played.job[1].timeout_ms, 7);
	cr_assert_eq(of_file.timeout_ms, 1000, "the configuration stays");
	cr_assert_eq(played.job[1].instance, 0, "the same job");
	cr_assert_eq(change(job, "expire_s", 5), 0);
	cr_assert_eq(job->expire_s, 5);
	refused(change(file, "expire_s", 5), CTRL_REFUSED_CONFLICT, "expire_s");
	/* 1982 = 58 + 4 x 481; a partial result needs 32 bytes more. */
	spec.shape.elements = 482;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "elements");
	spec.shape.elements = 481;
	job = make(&spec, NULL);
	refused(change(job, "policy", PPE_POLICY_PARTIAL), CTRL_REFUSED_RANGE, "policy");
	/* Buffers were made for less than the ports could carry. */
	config.ppe.packet_bytes = 1024;
	spec = spec_of("small");
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "elements");
	expect_in_step();
}

Test(ctrl_jobs, quotas)
{
	struct ctrl_job_spec spec = spec_of("a");
	struct ctrl_job *job;
	struct ppe_memory memory;
	struct ctrl_use use;

	tenant.quota =
		(struct ctrl_quota){.jobs = 2, .memory_mb = 1, .blocks = 256, .rate_mbit = 100};
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "rate_mbit");
	spec.shape.rate_mbit = 101;
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "rate_mbit");
	spec.shape.rate_mbit = 60;
	spec.shape.window = 256;
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "window");
	spec.shape.window = 128;
	job = make(&spec, &tenant);
	ctrl_tenant_use(running, &tenant, &use);
	cr_assert_eq(use.jobs, 1);
	cr_assert_eq(use.blocks, 256);
	cr_assert_eq(use.rate_mbit, 60);
	ppe_job_memory(&config.ppe, job->job, &memory);
	cr_assert_eq(use.memory, memory.total);
	cr_assert_geq(memory.data_memory, 256 * (1024 + 64 + 64),
		"payload and bitmap in lines, and a header");
	cr_assert_geq(memory.block_tables, 64 * 1024, "and what the engines know of 256 sources");
	refused(change(job, "rate_mbit", 101), CTRL_REFUSED_QUOTA, "rate_mbit");
	cr_assert_eq(change(job, "rate_mbit", 100), 0); /* itself does not count twice */
	cr_assert_eq(change(job, "rate_mbit", 99), 0);
	spec = spec_of("b");
	spec.shape.rate_mbit = 1;
	spec.shape.window = 1;
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "window");
	tenant.quota.blocks = 258;
	job = make(&spec, &tenant);
	spec = spec_of("c");
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "");
	delete (job);
	tenant.quota = (struct ctrl_quota){.memory_mb = 1};
	spec.shape.window = 512;
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "window");
	job = make(&spec, NULL);
	expect_in_step();
}

Test(ctrl_jobs, members)
{
	struct ctrl_job *job = create("a");
	uint64_t first;

	cr_assert_eq(join(job, 3, 4, HOST), 0);
	cr_assert_eq(played.job[0].members[0], 1u << 3);
	cr_assert_eq(played.job[0].address[3], HOST);
	first = job->member[3].membership;
	cr_assert(first > 0 && first < UINT64_C(1) << 53);
	cr_assert_eq(played.job[0].epoch[3], first);
	cr_assert_eq(join(job, 3, 4, HOST), 0);
	cr_assert(job->member[3].membership > first, "from now on it is the later one's");
	cr_assert_eq(played.job[0].epoch[3], job->member[3].membership);
	cr_assert_not(ctrl_member_is(job, 3, first));
	cr_assert(ctrl_member_is(job, 3, job->member[3].membership));
	cr_assert(ctrl_member_is(job, 4, first) && ctrl_member_is(job, 0, first), "nobody's");
	cr_assert_eq(ctrl_job_joined(job), 1);
	refused(join(job, 3, 4, HOST + 1), CTRL_REFUSED_CONFLICT, "address");
	refused(join(job, 4, 4, HOST), CTRL_REFUSED_RANGE, "rank");
	refused(join(job, 1, 5, HOST), CTRL_REFUSED_CONFLICT, "size");
	refused(join(job, 1, 4, SWITCH), CTRL_REFUSED_RANGE, "address");
	refused(join(job, 1, 4, HOST + 256), CTRL_REFUSED_RANGE, "address");
	refused(leave(job, 1), CTRL_REFUSED_MEMBER, "");
	refused(leave(job, 4), CTRL_REFUSED_MEMBER, "");
	cr_assert_eq(leave(job, 3), 0);
	cr_assert_eq(played.job[0].members[0], 0);
	cr_assert_eq(played.job[0].epoch[3], 0);
	first = job->member[3].membership;
	cr_assert_eq(join(job, 3, 4, HOST + 1), 0);
	cr_assert(played.job[0].epoch[3] > first);
	cr_assert_eq(played.job[0].epoch[3], job->member[3].membership);
	expect_in_step();
}

Test(ctrl_jobs, members_of_the_file)
{
	struct ctrl_job *job = running->by_id[1];

	cr_assert_eq(join(job, 1, 2, HOST + 1), 0);
	refused(join(job, 1, 2, HOST), CTRL_REFUSED_CONFLICT, "address");
	refused(join(job, 255, 2, HOST), CTRL_REFUSED_CONFLICT, "rank");
	cr_assert_eq(leave(job, 1), 0);
	refused(leave(job, 2), CTRL_REFUSED_MEMBER, "");
	cr_assert_eq(ctrl_job_joined(job), 2);
	cr_assert_eq(played.published, 0);
}

/* All that are due at once go in one table; who sends packets stays. */
Test(ctrl_jobs, expiry)
{
	struct ctrl_job *job = create("a"), *other = create("b");

	for (unsigned int rank = 0; rank < 4; rank++) {
		cr_assert_eq(join(job, rank, 4, HOST + rank), 0);
		cr_assert_eq(join(other, rank, 4, HOST + rank), 0);
		job->member[rank].last_join -= 100;
		other->member[rank].last_join -= 100;
	}
	played.published = 0;
	ctrl_jobs_tick(running);
	cr_assert_eq(played.published, 0, "without expire_s nobody expires");
	/* A table that a worker took late leaves shards that the registry does not wait for. */
	cr_assert_eq(played.reaped, 1);
	job->expire_s = 10;
	played.silent[1] = 9;
	played.silent[2] = 11;
	job->member[3].last_join = ctrl_monotonic();
	played.silent[3] = 99;
	ctrl_jobs_tick(running);
	cr_assert_eq(played.published, 1);
	cr_assert_eq(played.job[0].members[0], 0xa);
	cr_assert_eq(played.job[0].epoch[0], 0);
	cr_assert_eq(played.job[0].epoch[1], job->member[1].membership);
	cr_assert_eq(job->member[0].state, CTRL_MEMBER_EXPIRED);
	cr_assert_eq(job->member[0].address, HOST, "for people");
	cr_assert_eq(job->member[2].state, CTRL_MEMBER_EXPIRED);
	cr_assert_eq(ctrl_job_joined(other), 4);
	ctrl_jobs_tick(running);
	cr_assert_eq(played.published, 1, "once");
	cr_assert_eq(join(job, 0, 4, HOST + 9), 0);
	cr_assert_eq(leave(job, 2), 0, "an expired one may leave");
	cr_assert_eq(job->member[2].state, CTRL_MEMBER_LEFT);
	cr_assert(job->member[2].gone_at > 0, "and when it went is known");
	expect_in_step();
}

/* Anything in any order, engines that fail at times: the registry and what runs stay in step. */
Test(ctrl_jobs, any_order)
{
	struct ctrl_job *job;
	char name[16];

	srandom((unsigned int)random_seed());
	create("first"); /* the played table is known from now on */
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int id = (unsigned int)random() % 8, rank = (unsigned int)random() % 5;
		struct ctrl_job_spec spec;
		bool leaving;

		played.rc = random() % 4 == 0 ? random() % 2 == 0 ? -ENOMEM : -ENOSPC : 0;
		played.stuck = random() % 16 == 0 ? 0 : -1;
		played.leaving[random() % 8] = random() % 2 == 0;
		job = running->by_id[id];
		snprintf(name, sizeof(name), "j%u", (unsigned int)random() % 8);
		spec = spec_of(name);
		spec.id = (int)id - 1;
		if (job == NULL || random() % 8 == 0)
			ctrl_job_create(running, &spec, NULL, who, &job, &why);
		else if (random() % 8 == 0)
			ctrl_job_delete(running, job, who, &leaving, &why);
		else if (random() % 3 == 0)
			change(job, "timeout_ms", 1 + (unsigned int)random() % 60000);
		else if (random() % 3 == 0)
			leave(job, rank);
		else
			join(job, rank, 4, HOST + (uint32_t)random() % 4);
		if (random() % 16 == 0)
			ctrl_jobs_tick(running);
		expect_in_step();
	}
}

/* The file has it at the next start: a job in its place would keep the switch from starting. */
Test(ctrl_jobs, a_deleted_job_of_the_file_keeps_its_place)
{
	struct ctrl_job_spec spec = spec_of("other");

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

Test(ctrl_jobs, operation_of_another_type_is_refused)
{
	struct ctrl_job_spec spec = spec_of("bits");

	spec.shape.op = WEIR_OP_BAND;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "op");
	spec.shape.dtype = WEIR_DTYPE_BF16;
	create_refused(spec, NULL, CTRL_REFUSED_RANGE, "op");
	cr_assert_str_eq(why.message, "band is for integers only, and bf16 is none");
}

/* Neither numbers of instances nor generations, which would be asked from a ring until it is
 * round. */
Test(ctrl_jobs, refused_job_uses_no_instance_or_generation)
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
Test(ctrl_jobs, job_is_created_with_its_first_member)
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

/* A reload lowers the quota under what there is: then the way down is open, and the way up is
 * not. */
Test(ctrl_jobs, rates_over_a_lowered_quota_go_down)
{
	struct ctrl_job_spec spec = spec_of("a");
	struct ctrl_job *job;

	spec.shape.rate_mbit = 500;
	job = make(&spec, &tenant);
	named(&spec, "b");
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
	named(&spec, "c");
	create_refused(spec, &tenant, CTRL_REFUSED_QUOTA, "");
	cr_assert_not_null(strstr(why.message, "has 2 jobs"), "%s", why.message);
	cr_assert_not_null(strstr(why.message, "may have 1"), "%s", why.message);
}

/* A source id may lie above the number of sources. */
Test(ctrl_jobs, the_room_for_source_ids)
{
	struct ppe_job job = {.nb_sources = 2};

	cr_assert_eq(ppe_job_source_end(&job), 2);
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		job.members[s / 64] |= UINT64_C(1) << (s % 64);
		cr_assert_eq(ppe_job_source_end(&job), s < 2 ? 2 : s + 1);
	}
}
