/* SPDX-License-Identifier: BSD-3-Clause */
/* The state file: what is read of it and what is not, and that no crash leaves half of it. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctrl/config/files.h"
#include "ctrl/jobs/state.h"
#include "tests/unit/played.h"

static char folder[] = "/tmp/weir-state-XXXXXX";
static char path[64];

static void
state_setup(void)
{
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s.json", folder);
	play_engines();
	config = (struct ctrl_config){.name = "weir",
		.prefix = 24,
		.ppe = {.programs = ppe_programs(),
			.identity = {.ip = SWITCH},
			.packet_bytes = 9000,
			.first_generation = 65000},
		.api = {.nb_tenants = 1, .tenant = &tenant}};
	snprintf(config.state_file, sizeof(config.state_file), "%s", path);
}

static void
state_teardown(void)
{
	char command[128];

	ctrl_running_destroy(running);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(ctrl_state, .init = state_setup, .fini = state_teardown, .timeout = 90);

static void
restore(json_t *state)
{
	char error[CTRL_ERROR_BYTES];

	cr_assert_eq(ctrl_running_create(&config, NULL, &running), 0);
	running->engine = &engine;
	cr_assert_eq(ctrl_state_restore(running, state, error, sizeof(error)), 0, "%s", error);
	json_decref(state);
}

/* As at a start of the switch; one that ran was killed. */
static void
start(void)
{
	json_t *state;
	char error[CTRL_ERROR_BYTES];

	ctrl_running_destroy(running);
	cr_assert_eq(ctrl_state_load(path, "weir", &state, error, sizeof(error)), 0, "%s", error);
	restore(state);
}

static struct ctrl_job *
create_of(const char *name, const struct ctrl_tenant *whose)
{
	struct ctrl_job_spec spec = spec_of(name);

	spec.expire_s = 77;
	spec.shape.window = 16;
	spec.shape.elements = 100;
	spec.shape.timeout_ms = 250;
	spec.shape.policy = PPE_POLICY_PARTIAL;
	spec.shape.dtype = WEIR_DTYPE_INT16;
	spec.shape.op = WEIR_OP_BXOR;
	spec.shape.deterministic = whose == NULL;
	spec.shape.rate_mbit = whose == NULL ? 5 : 0;
	spec.shape.group = whose == NULL ? 0 : 0xef000005;
	return make(&spec, whose);
}

Test(ctrl_state, jobs_come_back_whole)
{
	struct ctrl_job *ring, *pair;
	struct ppe_job was[2];
	uint64_t membership;

	start();
	ring = create_of("ring", NULL);
	pair = create_of("pair", &tenant);
	cr_assert_eq(join(ring, 2, 4, 0x0a4d0003), 0);
	cr_assert_eq(running->state_due, CTRL_STATE_AT_TURN);
	ctrl_state_settle(running);
	cr_assert_eq(running->state_due, CTRL_STATE_CLEAN);
	membership = ring->member[2].membership;
	was[0] = *ring->job;
	was[1] = *pair->job;

	start();
	ring = running->by_id[0];
	pair = running->by_id[1];
	cr_assert_not_null(ring);
	cr_assert_not_null(pair);
	cr_assert_eq(pair->tenant, &tenant);
	cr_assert_null(ring->tenant);
	cr_assert(!ring->from_file && ring->expire_s == 77);
	cr_assert_eq(ring->member[2].state, CTRL_MEMBER_JOINED);
	cr_assert_eq(ring->member[2].address, 0x0a4d0003);
	cr_assert_eq(ring->member[2].membership, membership);
	cr_assert(ring->member[2].joined > 1e9 && ring->created > 1e9);
	cr_assert_eq(ring->member[0].state, CTRL_MEMBER_EXPECTED);
	/* No instance, and no generation, of the former run comes again; all else is as it was. */
	cr_assert_gt(ring->job->instance, was[1].instance);
	cr_assert_eq(ring->job->first_generation,
		ctrl_generation_add(config.ppe.first_generation, CTRL_GENERATIONS_AHEAD));
	for (int i = 0; i < 2; i++) {
		was[i].instance = running->by_id[i]->job->instance;
		was[i].first_generation = running->by_id[i]->job->first_generation;
		cr_assert_eq(memcmp(&was[i], running->by_id[i]->job, sizeof(was[i])), 0, "%d", i);
	}
}

#define KEY       "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"
#define OF_PARENT ", \"udp_port\": 12001, \"api\": \"http://s\""
#define CHILD     "[{\"id\": 0, \"address\": \"10.99.0.1\", \"ranks\": 8, \"name\": \"leaf0\"}]"

/* A job of a tree as the control API makes it. */
static struct ctrl_job *
create_in_tree(const char *name, const char *text)
{
	struct ctrl_job_spec spec = ctrl_job_spec_default(false);
	struct ctrl_job *job;

	spec.shape.nb_sources = 2;
	spec.shape.authenticated = true;
	spec.shape.narrow = true;
	read_tree(&spec, text);
	job = make(named(&spec, name), NULL);
	return job;
}

static void
expect_shown(const struct ctrl_job *job, const char *text)
{
	json_t *right = json_loads(text, 0, NULL);

	cr_assert_not_null(right, "%s", text);
	cr_expect(json_equal(job->shown, right), "%s", json_dumps(job->shown, 0));
	json_decref(right);
}

/* Its place, its parents' keys, its children and its members. */
Test(ctrl_state, jobs_of_trees_come_back_whole)
{
	struct ctrl_job *leaf;
	struct ppe_job was[2];

	config.nb_ports = 1;
	start();
	leaf = create_in_tree(
		"leaf", TREE(PARENT("s", "10.78.0.254", OF_PARENT ", \"key\": \"" KEY "\"")));
	was[1] = *create_in_tree("root", "{\"sources\": " CHILD "}")->job;
	cr_assert_lt(join(leaf, 3, 8, 0x0a4d0003), 0);
	cr_assert_str_eq(why.key, "rank");
	cr_assert_lt(join(leaf, 5, 2, 0x0a4d0003), 0);
	cr_assert_str_eq(why.key, "size");
	cr_assert_eq(join(leaf, 5, 8, 0x0a4d0003), 0);
	ctrl_state_settle(running);
	was[0] = *leaf->job;
	cr_assert(was[0].proved && was[1].proved && was[1].children);
	cr_assert_eq(was[0].parent[0].key[31], 31);

	start();
	cr_assert_null(running->set_aside);
	for (int i = 0; i < 2; i++) {
		const struct ppe_job *is = running->by_id[i]->job;

		was[i].instance = is->instance;
		was[i].first_generation = is->first_generation;
		cr_assert_eq(memcmp(&was[i], is, sizeof(was[i])), 0, "%d", i);
	}
	leaf = running->by_id[0];
	cr_assert_eq(leaf->member[5].state, CTRL_MEMBER_JOINED);
	cr_assert_null(running->by_id[1]->member);
	expect_shown(leaf, TREE(PARENT("s", "10.78.0.254", OF_PARENT)));
	expect_shown(running->by_id[1], "{\"sources\": " CHILD "}");

	/* Without its port, it waits for a start at which it fits. */
	config.nb_ports = 0;
	start();
	cr_assert_eq(json_array_size(running->set_aside), 1);
	cr_assert_null(running->by_id[0]);
	config.nb_ports = 1;
	start();
	cr_assert_not_null(running->by_id[0]);
	cr_assert_eq(running->by_id[0]->job->parent[0].key[31], 31);
}

Test(ctrl_state, a_crash_before_anything_is_written_uses_up_what_was_reserved)
{
	uint16_t first[3];

	start();
	create_of("ring", NULL);
	for (int i = 0; i < 3; i++) {
		start();
		first[i] = running->by_id[0]->job->first_generation;
	}
	cr_assert_eq(first[1], ctrl_generation_add(first[0], CTRL_GENERATIONS_AHEAD));
	cr_assert_eq(first[2], ctrl_generation_add(first[1], CTRL_GENERATIONS_AHEAD));
}

Test(ctrl_state, generations_are_a_ring)
{
	cr_assert_eq(ctrl_generation_add(1, 0), 1);
	cr_assert_eq(ctrl_generation_add(65535, 1), 1);
	cr_assert_eq(ctrl_generation_add(65000, 1024), 489);
	cr_assert_eq(ctrl_generation_ahead(65000, 489), 1024);
	cr_assert_eq(ctrl_generation_ahead(1, 65535), 65534);
	cr_assert_eq(ctrl_generation_ahead(7, 7), 0);
}

Test(ctrl_state, reservations_move_on_in_time)
{
	static struct ctrl_running some = {.engine = &engine, .config = &config};
	struct ppe_job job = {.id = 3};

	cr_assert_eq(ctrl_generations_next(&some, 3), 0); /* the switch's own */
	cr_assert_eq(some.reserved[3], 0, "it does not run yet");
	ctrl_generations_begin(&some, &job);
	cr_assert_eq(some.reserved[3], ctrl_generation_add(65000, 1023));
	ctrl_generations_reserve(&some, 3, ctrl_generation_add(65000, 500));
	cr_assert_eq(some.reserved[3], ctrl_generation_add(65000, 1023), "too early");
	ctrl_generations_reserve(&some, 3, ctrl_generation_add(65000, 512));
	cr_assert_eq(some.reserved[3], ctrl_generation_add(65000, 512 + 1023));
	/* A joined one has left: the engines know its last generation. */
	played.generation[3] = ctrl_generation_add(65000, 601);
	job.first_generation = ctrl_generations_next(&some, 3);
	cr_assert_eq(job.first_generation, ctrl_generation_add(65000, 601));
	ctrl_generations_begin(&some, &job);
	cr_assert_eq(some.reserved[3], ctrl_generation_add(65000, 512 + 1023));
}

/* What only counts is written by the tick, and only when it is due. */
Test(ctrl_state, tick_writes_only_due_changes)
{
	struct stat before, after;

	start();
	create_of("ring", NULL);
	played.runs[0] = 65010;
	cr_assert_eq(stat(path, &before), 0);
	ctrl_state_tick(running);
	cr_assert_eq(stat(path, &after), 0);
	cr_assert_eq(before.st_ino, after.st_ino, "written for nothing");
	played.runs[0] = ctrl_generation_add(65010, 900);
	ctrl_state_tick(running);
	start();
	cr_assert_eq(running->by_id[0]->job->first_generation,
		ctrl_generation_add(65010, 900 + CTRL_GENERATIONS_AHEAD));
}

/* -- reading */

#define DIGITS                                                                                     \
	"000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0" /* of a key, but one */
#define JOB                                                                                        \
	"{\"id\": 0, \"name\": \"ring\", \"tenant\": \"\", \"size\": 2, \"window\": 64, "          \
	"\"elements\": 256, \"type\": \"fp32\", \"op\": \"sum\", \"policy\": \"wait\", "           \
	"\"timeout_ms\": 1000, \"results\": \"unicast\", \"rate_mbit\": 0, \"expire_s\": 0, "      \
	"\"authenticate\": false, \"created\": 1, \"members\": [{\"rank\": 1, "                    \
	"\"address\": \"10.77.0.2\", \"joined\": 2, \"state\": \"joined\"}]}"
/* Names and ids of those that were set aside may be in use. */
#define ASIDE                                                                                      \
	"{\"set_aside\": true, \"id\": 0, \"name\": \"ring\", \"tenant\": \"\", \"size\": 2, "     \
	"\"created\": 1, \"members\": []}"
#define STATE(jobs)                                                                                \
	"{\"weir_state\": 1, \"switch\": \"weir\", \"saved\": 1, \"instances\": 1,\n"              \
	"\"generations\": [{\"job\": 0, \"reserved\": 9}],\n\"jobs\": [" jobs "]}"

static int
parse(const char *text, char *error)
{
	json_t *state;
	int rc = ctrl_state_parse(text, strlen(text), "s.json", "weir", &state, error, 1024);

	json_decref(state);
	return rc;
}

/* One piece of the good text replaced. */
static void
expect_refused(const char *from, const char *to, const char *reason)
{
	const char *good = STATE(JOB), *at = strstr(good, from);
	char text[2048], error[1024];

	cr_assert_not_null(at, "%s", from);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
	cr_expect_lt(parse(text, error), 0, "%s is taken", to);
	cr_expect_not_null(strstr(error, reason), "%s: %s", to, error);
	cr_expect_not_null(strstr(error, "--forget-state"), "what to do: %s", error);
	cr_expect_not_null(strstr(error, "s.json:"), "the file: %s", error);
}

Test(ctrl_state, wrong_values_are_refused_with_their_place)
{
	char error[1024];

	cr_assert_eq(parse(STATE(JOB), error), 0, "%s", error);
	cr_assert_eq(parse(STATE(""), error), 0, "%s", error);
	cr_assert_lt(parse(STATE(JOB "," JOB), error), 0);
	cr_assert_eq(parse(STATE(JOB "," ASIDE "," ASIDE), error), 0, "%s", error);
	expect_refused("\"window\": 64", "\"window\": 63", "jobs[0].window: 63 is not a power");
	expect_refused("\"size\": 2, ", "", "jobs[0].size: this key is required");
	expect_refused("\"window\"", "\"windov\"", "jobs[0].windov: unknown key");
	expect_refused("\"weir_state\": 1", "\"weir_state\": 2", "a later Weir");
	expect_refused("\"weir_state\": 1", "\"weir_state\": 0", "weir_state: 0 is not in");
	expect_refused("\"switch\": \"weir\"", "\"switch\": \"rack\"", "the state of switch");
	expect_refused("\"reserved\": 9", "\"reserved\": 0", "generations[0].reserved: 0");
	expect_refused("\"rank\": 1", "\"rank\": 2", "jobs[0].members[0].rank: 2 in a job of 2");
	expect_refused("\"10.77.0.2\"", "\"10.77.0\"", "jobs[0].members[0].address");
	expect_refused("\"policy\": \"wait\"", "\"policy\": \"hope\"", "jobs[0].policy");
	expect_refused("\"saved\": 1", "\"saved\": true", "saved: a boolean");
	expect_refused("[{\"job\"", "[{\"job\": 0, \"reserved\": 1}, {\"job\"", "there twice");
	expect_refused("[{\"id\"", "[" JOB ", {\"id\"", "jobs[1].id: 0 is there twice");
	expect_refused("\"size\": 2", "\"size\": 2, \"key\": \"07\"", "jobs[0].key");
	expect_refused("\"size\": 2", "\"size\": 2, \"key\": \"" DIGITS "x\"", "jobs[0].key");
	expect_refused("\"joined\"}", "\"joined\"", "");
}

Test(ctrl_state, a_job_of_an_earlier_version_gets_a_key)
{
	static const uint8_t none[WEIR_KEY_BYTES];
	const char *text = STATE(JOB);
	json_t *state;
	char error[1024];

	cr_assert_eq(
		ctrl_state_parse(text, strlen(text), "s.json", "weir", &state, error, 1024), 0);
	restore(state);
	cr_assert_arr_neq(running->by_id[0]->job->key, none, sizeof(none));
}

/* A file that was cut off anywhere is no state. */
Test(ctrl_state, a_part_is_refused)
{
	const char *whole = STATE(JOB);
	char error[1024];

	for (size_t length = 0; length < strlen(whole); length++) {
		json_t *state;

		cr_expect_lt(ctrl_state_parse(whole, length, "s.json", "weir", &state, error, 1024),
			0, "%zu bytes", length);
		cr_expect_null(state);
	}
}

/* -- writing */

static int steps, dies_at;

static void
count_steps(const char *call)
{
	(void)call;
	if (++steps == dies_at)
		kill(getpid(), SIGKILL);
}

static char *
contents(void)
{
	const char *reason;
	size_t length;

	return ctrl_read_file(path, &length, &reason);
}

Test(ctrl_state, death_at_any_step_leaves_the_old_or_the_new)
{
	static char old[20000], new[30000];
	int total, seen_old = 0, seen_new = 0, status;
	struct stat found;

	memset(old, 'o', sizeof(old) - 1);
	memset(new, 'n', sizeof(new) - 1);
	ctrl_replace_step = count_steps;
	cr_assert_eq(ctrl_replace_file(path, new, sizeof(new) - 1), 0);
	total = steps;
	cr_assert_geq(total, 12);
	cr_assert_eq(stat(path, &found), 0);
	cr_assert_eq(found.st_mode & 0777, 0600);
	for (dies_at = 1; dies_at <= total; dies_at++) {
		char *text;
		pid_t pid;

		ctrl_replace_step = NULL;
		cr_assert_eq(ctrl_replace_file(path, old, sizeof(old) - 1), 0);
		ctrl_replace_step = count_steps;
		steps = 0;
		pid = fork();
		if (pid == 0) {
			ctrl_replace_file(path, new, sizeof(new) - 1);
			_exit(9);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status), "step %d did not die", dies_at);
		text = contents();
		cr_assert_not_null(text);
		cr_assert(strcmp(text, old) == 0 || strcmp(text, new) == 0, "at step %d: %zu bytes",
			dies_at, strlen(text));
		seen_old += strcmp(text, old) == 0;
		seen_new += strcmp(text, new) == 0;
		free(text);
	}
	cr_assert(seen_old > 0 && seen_new > 0, "%d old, %d new", seen_old, seen_new);
}

Test(ctrl_state, failed_write_keeps_the_old_file)
{
	char *text;

	cr_assert_eq(ctrl_replace_file(path, "old", 3), 0);
	cr_assert_eq(ctrl_replace_file("/nowhere/at/s.json", "new", 3), -ENOENT);
	cr_assert_eq(ctrl_replace_file("s.json", "new", 3), -EINVAL);
	text = contents();
	cr_assert_str_eq(text, "old");
	free(text);
}
