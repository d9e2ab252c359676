/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <openssl/crypto.h>

#include "ctrl/config/files.h"
#include "ctrl/config/tree.h"
#include "ctrl/jobs/jobs_priv.h"

#define KEY_DIGITS (2 * WEIR_KEY_BYTES)

static int64_t
number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *
text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Free a text with keys in it. */
static void
erase(char *text, size_t length)
{
	OPENSSL_cleanse(text, length);
	free(text);
}

/* -- write the state as JSON */

static json_t *
members_json(const struct ctrl_job *job)
{
	json_t *list = json_array();

	for (unsigned int rank = 0; rank < WEIR_SOURCES_MAX; rank++) {
		const struct ctrl_member *member;

		if (!ctrl_job_has_member(job, rank))
			continue;
		member = &job->member[rank];
		if (member->state == CTRL_MEMBER_EXPECTED || member->state == CTRL_MEMBER_LEFT)
			continue;
		json_array_append_new(list,
			json_pack("{s:i, s:s, s:I, s:I, s:s}", "rank", (int)rank, "address",
				ctrl_address_text(member->address).text, "membership",
				(json_int_t)member->membership, "joined",
				(json_int_t)member->joined, "state",
				member->state == CTRL_MEMBER_JOINED ? "joined" : "expired"));
	}
	return list;
}

static void
put_key(json_t *object, const uint8_t key[WEIR_KEY_BYTES])
{
	struct ctrl_key_text digits = ctrl_key_text(key);

	json_object_set_new(object, "key", json_string(digits.text));
	OPENSSL_cleanse(&digits, sizeof(digits));
}

static void
put_tree(json_t *object, const struct ctrl_job *job)
{
	json_t *shown = json_deep_copy(job->shown), *parent;
	size_t p;

	json_array_foreach (json_object_get(json_object_get(shown, "tree"), "parents"), p, parent)
		if (job->job->parent[p].keyed)
			put_key(parent, job->job->parent[p].key);
	json_object_update(object, shown);
	json_decref(shown);
}

static json_t *
job_json(const struct ctrl_job *job)
{
	const struct ppe_job *shape = job->job;
	struct ctrl_job_spec spec = ctrl_job_settings(job);
	json_t *object = json_pack("{s:i, s:s, s:s, s:i, s:I, s:o}", "id", shape->id, "name",
		shape->name, "tenant", job->tenant == NULL ? "" : job->tenant->name, "size",
		shape->nb_sources, "created", (json_int_t)job->created, "members",
		members_json(job));

	ctrl_settings_put(object, &spec, false);
	put_key(object, shape->key);
	put_tree(object, job);
	return object;
}

/* Does the file have the job? */
static bool
outlives_restart(const struct ctrl_job *job)
{
	return !job->from_file && !job->temporary;
}

/* Does the job wait for a start at which it fits? */
static bool
is_aside(const json_t *job)
{
	return json_is_true(json_object_get(job, "set_aside"));
}

/* Since this job was set aside, has its owner or an administrator made a job of its name over the
 * API? */
static bool
is_replaced(const struct ctrl_running *running, const json_t *job)
{
	const struct ctrl_job *other = ctrl_running_find_job(running, text_of(job, "name"));

	return other != NULL && outlives_restart(other) &&
		(other->tenant == NULL || strcmp(other->tenant->name, text_of(job, "tenant")) == 0);
}

static json_t *
state_json(const struct ctrl_running *running)
{
	json_t *generations = json_array(), *jobs = json_array(), *aside;
	size_t i;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (running->reserved[id] != 0)
			json_array_append_new(generations,
				json_pack("{s:i, s:i}", "job", (int)id, "reserved",
					running->reserved[id]));
	CTRL_FOREACH_JOB (job, running)
		if (outlives_restart(job))
			json_array_append_new(jobs, job_json(job));
	json_array_foreach (running->set_aside, i, aside)
		if (!is_replaced(running, aside))
			json_array_append(jobs, aside);
	return json_pack("{s:i, s:s, s:I, s:I, s:o, s:o}", "weir_state", CTRL_STATE_VERSION,
		"switch", running->config->name, "saved", (json_int_t)ctrl_unix_time(), "instances",
		(json_int_t)running->instances, "generations", generations, "jobs", jobs);
}

char *
ctrl_state_text(const struct ctrl_running *running)
{
	json_t *root = state_json(running);
	char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));

	json_decref(root);
	return text;
}

/* -- save the file */

static int
write_now(struct ctrl_running *running)
{
	char *text = ctrl_state_text(running);
	size_t length = text == NULL ? 0 : strlen(text);
	int rc = -ENOMEM;

	if (text != NULL) {
		text[length++] = '\n'; /* instead of the end, which the file does not have */
		rc = ctrl_replace_file(running->config->state_file, text, length);
		erase(text, length);
	}
	running->state_due = rc == 0 ? CTRL_STATE_CLEAN : CTRL_STATE_AT_TICK;
	return rc;
}

static void
save(struct ctrl_running *running)
{
	bool is_kept = running->config->state_file[0] != '\0' && running->state_is_loaded;
	int rc = is_kept ? write_now(running) : 0;

	if (rc < 0)
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_CTRL, RTE_LOG_ERR,
			"the state was not written: a restart would lose changes",
			"file=%s error=%s", ctrl_log_quote(running->config->state_file).text,
			ctrl_log_quote(strerror(-rc)).text);
	else if (running->state_has_failed)
		ctrl_log(CTRL_LOG_CTRL, RTE_LOG_NOTICE, "the state is written again", "");
	running->state_has_failed = rc < 0;
}

void
ctrl_state_changed(struct ctrl_running *running, bool temporary, bool now)
{
	if (now && !temporary)
		save(running);
	else if (!temporary || running->state_due != CTRL_STATE_CLEAN)
		running->state_due = CTRL_STATE_AT_TURN;
}

void
ctrl_state_settle(struct ctrl_running *running)
{
	/* After a failure only the tick tries again, once a second. */
	if (running->state_due == CTRL_STATE_AT_TURN && !running->state_has_failed)
		save(running);
}

/* -- read the state */

/* A job without a key is from a file of an earlier version, and gets one. */
static int
read_spec(const struct ctrl_config *config, const json_t *object, struct ctrl_job_spec *spec,
	struct ctrl_refusal *why)
{
	struct ctrl_error error = {0};
	const struct ctrl_tree_reading tree = {config, "", &error};
	const char *key = text_of(object, "key");

	*spec = ctrl_job_spec_default(false);
	ctrl_settings_read(object, spec);
	if (key != NULL)
		ctrl_parse_hex(key, spec->shape.key, sizeof(spec->shape.key));
	spec->id = (int)number(object, "id");
	spec->shape.nb_sources = (uint16_t)number(object, "size");
	strlcpy(spec->shape.name, text_of(object, "name"), sizeof(spec->shape.name));
	if (ctrl_tree_read_all(&tree, object, &spec->shape) < 0)
		return ctrl_deny(why, CTRL_REFUSED_RANGE, error.path.text, "%s: %s",
			error.path.text, error.text);
	spec->shown = ctrl_tree_shown(&spec->shape, object);
	return 0;
}

/* Give the job its members, in it and in its copy for the engines. */
static int
restore_members(const struct ctrl_config *config, const json_t *of, struct ctrl_job *job,
	struct ctrl_refusal *why)
{
	struct ctrl_reason reason;
	const json_t *object;
	size_t i;

	json_array_foreach (json_object_get(of, "members"), i, object) {
		unsigned int rank = (unsigned int)number(object, "rank");
		struct ctrl_member *member;

		if (!ctrl_job_has_member(job, rank))
			continue;
		member = &job->member[rank];
		ctrl_parse_address(text_of(object, "address"), &member->address);
		if (!ctrl_check_address(config, member->address, &reason))
			return ctrl_deny(why, CTRL_REFUSED_RANGE, "address", "%s", reason.text);
		member->membership = (uint64_t)number(object, "membership");
		member->joined = (double)number(object, "joined");
		member->last_join = ctrl_monotonic();
		member->state = CTRL_MEMBER_EXPIRED;
		if (strcmp(text_of(object, "state"), "joined") != 0)
			continue;
		member->state = CTRL_MEMBER_JOINED;
		ctrl_member_set(job->copy, rank, member->address, member->membership);
	}
	return 0;
}

static int
restore_job(struct ctrl_running *running, const json_t *object, struct ctrl_refusal *why)
{
	const char *who = "by=weir why=restart";
	const char *owner = text_of(object, "tenant");
	const struct ctrl_tenant *tenant = ctrl_tenant_find(&running->config->api, owner);
	struct ctrl_job *job = NULL;
	struct ctrl_job_spec spec;

	/* The job's quota was checked when it was created. */
	if (read_spec(running->config, object, &spec, why) == 0 &&
		ctrl_job_check(running, &spec, NULL, why) == 0)
		job = ctrl_job_put(running, &spec, tenant, why);
	OPENSSL_cleanse(spec.shape.key, sizeof(spec.shape.key));
	OPENSSL_cleanse(spec.shape.parent, sizeof(spec.shape.parent));
	json_decref(spec.shown);
	if (job == NULL || restore_members(running->config, object, job, why) < 0 ||
		ctrl_jobs_publish(running, NULL, job->job, why) < 0) {
		ctrl_jobs_undo(running);
		return -EINVAL;
	}
	job->created = (double)number(object, "created");
	ctrl_log_change(who, "job restored", "job=%s id=%d tenant=%s joined=%u size=%u",
		ctrl_log_quote(spec.shape.name).text, spec.id,
		ctrl_log_quote(tenant == NULL ? "" : owner).text, ctrl_job_joined(job),
		spec.shape.nb_sources);
	if (owner[0] != '\0' && tenant == NULL)
		ctrl_log_change(who, "job has no tenant any more", "job=%s tenant=%s",
			ctrl_log_quote(spec.shape.name).text, ctrl_log_quote(owner).text);
	return 0;
}

/* The job does not fit: keep it for the next start. False: no memory. */
static bool
set_aside(struct ctrl_running *running, const json_t *object, const struct ctrl_refusal *why)
{
	const char *who = "by=weir why=restart";
	/* A copy: a mark in `object` would have it tried again, with those set aside before. */
	json_t *aside = json_copy((json_t *)(uintptr_t)object);

	ctrl_log_change(who, "job set aside: it does not fit this configuration",
		"job=%s id=%d reason=%s", ctrl_log_quote(text_of(object, "name")).text,
		(int)number(object, "id"), ctrl_log_quote(why->message).text);
	if (running->set_aside == NULL)
		running->set_aside = json_array();
	return json_object_set_new(aside, "set_aside", json_true()) == 0 &&
		json_array_append_new(running->set_aside, aside) == 0;
}

/* Bring back the jobs that were, or were not, set aside before. False: no memory. */
static bool
restore_jobs(struct ctrl_running *running, const json_t *jobs, bool were_aside)
{
	struct ctrl_refusal why;
	const json_t *object;
	size_t i;

	json_array_foreach (jobs, i, object)
		if (is_aside(object) == were_aside && restore_job(running, object, &why) < 0 &&
			!set_aside(running, object, &why))
			return false;
	return true;
}

int
ctrl_state_restore(struct ctrl_running *running, const json_t *state, char *error, size_t size)
{
	const json_t *jobs = json_object_get(state, "jobs"), *generation;
	const char *file = running->config->state_file;
	size_t i;
	int rc;

	running->instances = (uint32_t)number(state, "instances");
	json_array_foreach (json_object_get(state, "generations"), i, generation) {
		uint16_t *reserved = &running->reserved[number(generation, "job")];

		if (*reserved == 0)
			*reserved = (uint16_t)number(generation, "reserved");
	}
	if (!restore_jobs(running, jobs, false) || !restore_jobs(running, jobs, true)) {
		snprintf(error, size, "%s: %s", file, strerror(ENOMEM));
		return -ENOMEM;
	}
	running->state_is_loaded = true;
	rc = file[0] != '\0' ? write_now(running) : 0;
	if (rc < 0)
		snprintf(error, size,
			"state.file: %s can't be written: %s: does its folder exist, "
			"and is it writable?",
			file, strerror(-rc));
	return rc;
}

#define WHAT_TO_DO                                                                                 \
	": mend the file, put a copy of it in its place, or start once with --forget-state, "      \
	"which lays it aside and loses the jobs made over the API"

#define TIME_MAX (INT64_C(1) << 40)

/* clang-format off */
#define NUMBER(path, min, most) {path, CTRL_INTEGER, "", NULL, min, .max = most}
#define LIST(path, most) \
	{path, CTRL_ARRAY, "", NULL, .max = most}, {path "[]", CTRL_OBJECT, "", .fallback = ""}

static const struct ctrl_key keys[] = {
	NUMBER("weir_state", CTRL_STATE_VERSION, CTRL_STATE_VERSION),
	{"switch", CTRL_NAME, "", NULL, .min = 1, .max = CTRL_NAME_BYTES - 1},
	NUMBER("saved", 0, TIME_MAX),
	NUMBER("instances", 0, UINT32_MAX),
	LIST("generations", WEIR_JOBS_MAX),
	NUMBER("generations[].job", 0, WEIR_JOBS_MAX - 1),
	NUMBER("generations[].reserved", 1, UINT16_MAX),
	LIST("jobs", INT32_MAX), /* any number may be set aside */
	CTRL_JOB_IDENTITY("jobs[].", NULL, NULL, NULL)
	CTRL_TREE_API_KEYS("jobs[].")
	{"jobs[].set_aside", CTRL_BOOLEAN, "", .fallback = "false"},
	{"jobs[].tenant", CTRL_TEXT, "", NULL, .max = CTRL_NAME_BYTES - 1},
	/* A file of an earlier version may lack settings. */
#define X(key, where, change, needs, tree, kind, field, ...) \
	CTRL_API_##where({.path = "jobs[]." #key, CTRL_##kind, __VA_ARGS__},)
	CTRL_JOB_SETTINGS(X)
#undef X
	/* Absent in files of earlier versions. */
	{"jobs[].key", CTRL_TEXT, "", .fallback = "", .min = KEY_DIGITS, .max = KEY_DIGITS},
	NUMBER("jobs[].created", 0, TIME_MAX),
	LIST("jobs[].members", WEIR_SOURCES_MAX),
	NUMBER("jobs[].members[].rank", 0, WEIR_SOURCES_MAX - 1),
	{"jobs[].members[].address", CTRL_ADDRESS, "", .fallback = NULL},
	/* Absent in files of earlier versions. */
	{"jobs[].members[].membership", CTRL_INTEGER, "", "0", .max = INT64_C(1) << 53},
	NUMBER("jobs[].members[].joined", 0, TIME_MAX),
	{"jobs[].members[].state", CTRL_WORD, "", NULL, .words = "joined|expired"},
};
/* clang-format on */

static const struct ctrl_schema schema = {keys, RTE_DIM(keys)};

/* Refuse an entry of the list `at` that has the same value as an earlier one. Names and ids of jobs
 * that were set aside may be in use. */
static int
check_once(struct ctrl_error *error, const char *at, const json_t *list, size_t i, const char *key)
{
	const json_t *object = json_array_get(list, i), *value = json_object_get(object, key),
		     *other;
	char text[64];
	size_t j;

	json_array_foreach (list, j, other)
		if (j < i && !is_aside(object) && !is_aside(other) &&
			json_equal(value, json_object_get(other, key)))
			return ctrl_refuse(error, ctrl_path("%s[%zu].%s", at, i, key),
				"%.*s is there twice",
				(int)RTE_MIN(json_dumpb(value, text, sizeof(text), JSON_ENCODE_ANY),
					sizeof(text)),
				text);
	return 0;
}

static int
check_members(struct ctrl_error *error, const char *at, const json_t *object)
{
	const json_t *list = json_object_get(object, "members"), *member;
	int64_t from = number(json_object_get(object, "tree"), "first_rank");
	size_t i;

	json_array_foreach (list, i, member) {
		int64_t rank = number(member, "rank");

		if (rank < from || rank >= from + number(object, "size"))
			return ctrl_refuse(error, ctrl_path("%s[%zu].rank", at, i),
				"%d in a job of %d", (int)rank, (int)number(object, "size"));
		if (check_once(error, at, list, i, "rank") < 0)
			return -EINVAL;
	}
	return 0;
}

static int
check_key(struct ctrl_error *error, size_t job, const json_t *object)
{
	const char *key = text_of(object, "key");
	uint8_t bytes[WEIR_KEY_BYTES];
	bool good = key == NULL || ctrl_parse_hex(key, bytes, sizeof(bytes));

	OPENSSL_cleanse(bytes, sizeof(bytes));
	return good ? 0
		    : ctrl_refuse(error, ctrl_path("jobs[%zu].key", job),
			      "a key is %d hexadecimal digits", KEY_DIGITS);
}

/* Check what the schema does not. A later version is refused by its number, before its new keys are
 * reported as unknown. */
static int
check_state(struct ctrl_error *error, json_t *root, const char *name)
{
	const json_t *version = json_object_get(root, "weir_state"), *list, *object;
	int rc = 0;
	size_t i;

	if (json_is_integer(version) && json_integer_value(version) > CTRL_STATE_VERSION)
		return ctrl_refuse(error, ctrl_path("weir_state"),
			"version %d was written by a later Weir, and this one knows %d",
			(int)json_integer_value(version), CTRL_STATE_VERSION);
	if (ctrl_schema_check(&schema, "", root, error) < 0)
		return -EINVAL;
	if (strcmp(text_of(root, "switch"), name) != 0)
		return ctrl_refuse(error, ctrl_path("switch"),
			"it is the state of switch \"%.31s\", and this one is \"%.31s\": was "
			"state.file copied, or switch.name changed?",
			text_of(root, "switch"), name);
	list = json_object_get(root, "generations");
	for (i = 0; rc == 0 && i < json_array_size(list); i++)
		rc = check_once(error, "generations", list, i, "job");
	list = json_object_get(root, "jobs");
	json_array_foreach (list, i, object)
		if (rc < 0 || check_once(error, "jobs", list, i, "id") < 0 ||
			check_once(error, "jobs", list, i, "name") < 0 ||
			check_key(error, i, object) < 0 ||
			check_members(error, ctrl_path("jobs[%zu].members", i).text, object) < 0)
			return -EINVAL;
	return rc;
}

int
ctrl_state_parse(const char *text, size_t length, const char *path, const char *name,
	json_t **state, char *error, size_t size)
{
	json_t *root = ctrl_json_parse(path, text, length, error, size);
	struct ctrl_error why = {0};

	*state = NULL;
	if (root != NULL && check_state(&why, root, name) == 0) {
		*state = root;
		return 0;
	}
	if (root != NULL)
		ctrl_error_print(&why, path, text, length, error, size);
	strlcat(error, WHAT_TO_DO, size);
	json_decref(root);
	return -EINVAL;
}

int
ctrl_state_load(const char *path, const char *name, json_t **state, char *error, size_t size)
{
	const char *why;
	size_t length;
	char *text = path[0] == '\0' ? NULL : ctrl_read_file(path, &length, &why);
	int rc;

	*state = NULL;
	if (path[0] == '\0' || (text == NULL && errno == ENOENT)) {
		*state = json_object();
		return *state == NULL ? -ENOMEM : 0;
	}
	if (text == NULL) {
		rc = -errno;
		snprintf(error, size, "%s: %s", path, why);
		return rc;
	}
	rc = ctrl_state_parse(text, length, path, name, state, error, size);
	erase(text, length);
	return rc;
}

void
ctrl_state_begin(const json_t *state, struct ctrl_config *config)
{
	const json_t *generation;
	size_t i;

	json_array_foreach (json_object_get(state, "generations"), i, generation)
		for (unsigned int j = 0; j < config->nb_jobs; j++)
			if (config->job[j].id == number(generation, "job") &&
				config->job[j].fixed_generation == 0)
				config->job[j].first_generation = ctrl_generation_add(
					(uint16_t)number(generation, "reserved"), 1);
}

int
ctrl_state_forget(const char *path)
{
	char aside[CTRL_FILE_BYTES + 16];

	snprintf(aside, sizeof(aside), "%s.forgotten", path);
	return rename(path, aside) < 0 ? -errno : 0;
}

#define RING 65535u /* generations; 0 is none */

uint16_t
ctrl_generation_add(uint16_t g, unsigned int n)
{
	return (uint16_t)((g - 1u + n) % RING + 1);
}

unsigned int
ctrl_generation_ahead(uint16_t from, uint16_t to)
{
	return (to + RING - from) % RING;
}

void
ctrl_generations_reserve(struct ctrl_running *running, uint8_t id, uint16_t first)
{
	uint16_t *reserved = &running->reserved[id];
	unsigned int ahead = ctrl_generation_ahead(first, *reserved);

	/* Enough are reserved. A reservation behind `first` does not count. */
	if (*reserved != 0 && ahead >= CTRL_GENERATIONS_AHEAD / 2 && ahead < RING / 2)
		return;
	*reserved = ctrl_generation_add(first, CTRL_GENERATIONS_AHEAD - 1);
	if (running->state_due == CTRL_STATE_CLEAN)
		running->state_due = CTRL_STATE_AT_TICK;
}

uint16_t
ctrl_generations_next(const struct ctrl_running *running, uint8_t id)
{
	uint16_t first = running->engine->generation_after(running->ppe, id);

	/*
	 * The engines know neither jobs from before the start nor jobs that have begun no
	 * generation. A running job that is being replaced may still use the generations that are
	 * reserved for it.
	 */
	if ((first == 0 || running->published[id] != NULL) && running->reserved[id] != 0)
		first = ctrl_generation_add(running->reserved[id], 1);
	return first;
}

void
ctrl_generations_begin(struct ctrl_running *running, const struct ppe_job *job)
{
	uint16_t drawn = running->config->ppe.first_generation;
	uint16_t first = job->first_generation != 0 ? job->first_generation : drawn;

	if (job->fixed_generation == 0 && first != 0)
		ctrl_generations_reserve(running, job->id, first);
}

void
ctrl_state_tick(struct ctrl_running *running)
{
	/* Reserve for jobs that have nearly reached what is reserved. */
	CTRL_FOREACH_JOB (job, running) {
		uint16_t g = running->engine->generation(running->ppe, job->job->id);

		if (job->job->fixed_generation == 0 && g != 0)
			ctrl_generations_reserve(running, job->job->id, g);
	}
	if (running->state_due != CTRL_STATE_CLEAN)
		save(running);
}
