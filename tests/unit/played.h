/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines that are played, and the registry of jobs on them, for its tests. */
#ifndef TESTS_UNIT_PLAYED_H
#define TESTS_UNIT_PLAYED_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "ctrl/config/tree.h"
#include "ctrl/jobs/jobs.h"
#include "ppe/programs/programs.h"

#define SWITCH 0x0a4d00fe /* 10.77.0.254 */
#define HOST   0x0a4d0001

static struct ctrl_config config;
static struct ppe_job of_file = {.name = "file",
	.id = 1,
	.window = 64,
	.elements = 256,
	.nb_sources = 2,
	.dtype = WEIR_DTYPE_FP32,
	.timeout_ms = 1000,
	.members = {3},
	.address = {HOST, HOST + 1}};
static struct ctrl_tenant tenant = {.name = "vision"};
static struct ctrl_running *running;
static const char *const who = "uid=0";
static struct ctrl_refusal why;

/* The engines played: what they were given last, and what they say. */
static struct {
	struct ppe_jobs table;
	struct ppe_job job[WEIR_JOBS_MAX]; /* copies: the registry may free its own */
	unsigned int published;
	int rc;
	int stuck;
	unsigned int reaped;
	bool leaving[WEIR_JOBS_MAX];
	uint16_t generation[WEIR_JOBS_MAX]; /* that is next */
	uint16_t runs[WEIR_JOBS_MAX]; /* generations */
	double silent[WEIR_SOURCES_MAX];
	struct ppe_parent_stats parent[PPE_PARENTS_MAX];
	uint64_t piece, left; /* memory: the largest piece; all together */
	uint32_t records; /* free ones */
} played;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SAYS(type, name, value, ...)                                                               \
	static type name(__VA_ARGS__)                                                              \
	{                                                                                          \
		return value;                                                                      \
	}
SAYS(int, check, played.rc, struct ppe *ppe, const struct ppe_jobs *jobs)
SAYS(unsigned int, reap, (played.reaped++, 0), struct ppe *ppe)
SAYS(bool, is_leaving, played.leaving[id], const struct ppe *ppe, uint8_t id, uint32_t instance)
SAYS(uint16_t, generation_after, played.generation[id], struct ppe *ppe, uint8_t id)
SAYS(uint16_t, generation, played.runs[id], const struct ppe *ppe, uint8_t id)
SAYS(double, silent, played.silent[source], const struct ppe *ppe, uint8_t id, uint8_t source)
SAYS(int, stuck, played.stuck, struct ctrl_running *r)
SAYS(int, parent, (*stats = played.parent[number], 0), const struct ppe *ppe, uint8_t id,
	unsigned int number, struct ppe_parent_stats *stats)

static int
publish(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	if (played.rc < 0)
		return played.rc;
	played.published++;
	played.table = *jobs;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (jobs->by_id[i] != NULL)
			played.job[i] = *jobs->by_id[i];
	return 0;
}

static void
room(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *r)
{
	*r = (struct ppe_room){.memory_needed = 1000u * job->window,
		.memory_free = played.piece != 0 ? played.piece : 77,
		.memory_left = played.left,
		.records_needed = 2u * job->window,
		.records_free = played.records};
}
#pragma GCC diagnostic pop

static const struct ctrl_engine engine = {publish, check, room, reap, is_leaving, generation_after,
	generation, silent, stuck, parent};

static inline void
play_engines(void)
{
	memset(&played, 0, sizeof(played));
	played.stuck = -1;
	played.left = UINT32_MAX;
	played.records = UINT16_MAX;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		played.silent[s] = -1;
}

static inline void
setup(void)
{
	play_engines();
	memset(&config, 0, sizeof(config));
	memset(&tenant.quota, 0, sizeof(tenant.quota));
	config.ppe.programs = ppe_programs();
	config.ppe.workers = 1;
	config.ppe.identity.ip = SWITCH;
	config.ppe.packet_bytes = 2048;
	config.prefix = 24;
	config.nb_ports = 1;
	config.port_more[0].frame_max = 1982;
	config.nb_jobs = 1;
	config.job = &of_file;
	config.jobs.by_id[of_file.id] = &of_file;
	cr_assert_eq(ctrl_running_create(&config, NULL, &running), 0);
	running->engine = &engine;
}

static inline void
teardown(void)
{
	ctrl_running_destroy(running);
}

/* The same with another name. */
static inline struct ctrl_job_spec *
named(struct ctrl_job_spec *spec, const char *name)
{
	snprintf(spec->shape.name, sizeof(spec->shape.name), "%s", name);
	return spec;
}

static inline struct ctrl_job_spec
spec_of(const char *name)
{
	struct ctrl_job_spec spec = {.id = -1,
		.shape = {.window = 64,
			.elements = 256,
			.nb_sources = 4,
			.timeout_ms = 1000,
			.dtype = WEIR_DTYPE_FP32}};

	return *named(&spec, name);
}

static inline struct ctrl_job *
make(struct ctrl_job_spec *spec, const struct ctrl_tenant *whose)
{
	struct ctrl_job *job = NULL;

	cr_assert_eq(ctrl_job_create(running, spec, whose, who, &job, &why), 0, "%s: %s",
		spec->shape.name, why.message);
	return job;
}

static inline struct ctrl_job *
create(const char *name)
{
	struct ctrl_job_spec spec = spec_of(name);

	return make(&spec, NULL);
}

/* A leaf of a tree of 8 ranks, with these parents. */
#define TREE(parents) "{\"tree\": {\"ranks\": 8, \"first_rank\": 4, \"parents\": [" parents "]}}"
#define PARENT(name, address, more)                                                                \
	"{\"name\": \"" name "\", \"address\": \"" address                                         \
	"\", \"mac\": \"02:57:45:49:53:00\", \"port\": \"up\", \"job\": 9" more "}"

/* A job that this JSON places in a tree, behind or before the port "up". What is shown of it stays
 * until the test ends. */
static inline void
read_tree(struct ctrl_job_spec *spec, const char *text)
{
	struct ctrl_error error = {0};
	const struct ctrl_tree_reading tree = {&config, "", &error};
	static json_t *all_shown;
	json_t *object = json_loads(text, 0, NULL);

	cr_assert_not_null(object, "%s", text);
	strcpy(config.port[0].name, "up");
	config.ppe.exception_port = -1;
	spec->shape.revoke = true;
	cr_assert_eq(ctrl_tree_read_all(&tree, object, &spec->shape), 0, "%s", error.text);
	spec->shown = ctrl_tree_shown(&spec->shape, object);
	all_shown = all_shown == NULL ? json_array() : all_shown;
	json_array_append_new(all_shown, spec->shown);
	json_decref(object);
}

/* Change one setting; a word by its index. */
static inline int
change(struct ctrl_job *job, const char *key, unsigned int value)
{
	struct ctrl_job_spec next = ctrl_job_settings(job);
	json_t *object = json_pack("{s:I}", key, (json_int_t)value);
	int rc;

	cr_assert_not_null(object);
	ctrl_settings_read(object, &next);
	rc = ctrl_job_change(running, job, &next, who, &why);
	json_decref(object);
	return rc;
}

/* The log is heard from now on. */
static int from_log;

static inline void
hear_log(void)
{
	int fd[2];

	cr_assert_eq(pipe2(fd, O_NONBLOCK), 0);
	from_log = fd[0];
	ctrl_log_to(fd[1], true);
}

/* What has been logged since the last call; "": nothing. */
static inline const char *
logged(void)
{
	static char text[4096];
	ssize_t n = read(from_log, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static inline bool delete (struct ctrl_job *job)
{
	bool leaving;

	cr_assert_eq(ctrl_job_delete(running, job, who, &leaving, &why), 0);
	return leaving;
}

static inline void
refused(int rc, enum ctrl_refused code, const char *key)
{
	cr_assert_eq(rc, -EINVAL);
	cr_assert_eq(why.code, code, "code %d, not %d: %s", why.code, code, why.message);
	cr_assert_str_eq(why.key, key);
	cr_assert_gt(strlen(why.message), 10);
}

static inline void
create_refused(struct ctrl_job_spec spec, const struct ctrl_tenant *whose, enum ctrl_refused code,
	const char *key)
{
	unsigned int before = played.published;
	struct ctrl_job *job = NULL;

	refused(ctrl_job_create(running, &spec, whose, who, &job, &why), code, key);
	cr_assert_eq(played.published, before);
	cr_assert_null(job);
}

/* Member `rank` of `size` joins from this address, or leaves. */
static inline int
join(struct ctrl_job *job, unsigned int rank, unsigned int size, uint32_t address)
{
	return ctrl_member_join(running, job, rank, size, address, who, &why);
}

static inline int
leave(struct ctrl_job *job, unsigned int rank)
{
	return ctrl_member_leave(running, job, rank, who, &why);
}

/* What runs is what the registry says, and no draft is left. */
static inline void
expect_in_step(void)
{
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		cr_assert_eq(job, running->published[i], "job %u", i);
		cr_assert_eq(job == NULL, played.table.by_id[i] == NULL, "job %u", i);
		if (job == NULL)
			continue;
		cr_assert_null(job->next);
		cr_assert_eq(job->job, played.table.by_id[i]);
		cr_assert_arr_eq(job->job, &played.job[i], sizeof(*job->job));
		cr_assert_eq(job->job->id, i);
		/* A member's epoch is its membership, and nobody else has one. */
		for (unsigned int s = 0; job->member != NULL && s < job->job->nb_sources; s++)
			cr_assert_eq(job->job->epoch[s],
				job->member[s].state == CTRL_MEMBER_JOINED
					? job->member[s].membership
					: 0);
	}
}

#endif
