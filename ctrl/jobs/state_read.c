/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/files.h"
#include "ctrl/config/job.h"
#include "ctrl/jobs/generations.h"
#include "ctrl/jobs/state_priv.h"

#define WHAT_TO_DO                                                                                 \
	": mend the file, put a copy of it in its place, or start once with --forget-state, "      \
	"which lays it aside and loses the jobs made over the API"

#define TIME_MAX (INT64_C(1) << 40)

/* clang-format off */
#define NUMBER(path, min, max) {path, CTRL_INTEGER, "", NULL, min, max, NULL, ""}
#define LIST(path, most) {path, CTRL_ARRAY, "", NULL, 0, most, NULL, ""}, {path "[]", CTRL_OBJECT, "", "", 0, 0, NULL, ""}

static const struct ctrl_key keys[] = {
	NUMBER("weir_state", CTRL_STATE_VERSION, CTRL_STATE_VERSION),
	{"switch", CTRL_NAME, "", NULL, 1, CTRL_NAME_BYTES - 1, NULL, ""},
	NUMBER("saved", 0, TIME_MAX),
	NUMBER("instances", 0, UINT32_MAX),
	LIST("generations", WEIR_JOBS_MAX),
	NUMBER("generations[].job", 0, WEIR_JOBS_MAX - 1),
	NUMBER("generations[].reserved", 1, UINT16_MAX),
	LIST("jobs", WEIR_JOBS_MAX),
	CTRL_JOB_IDENTITY("jobs[].", NULL, NULL)
	{"jobs[].tenant", CTRL_TEXT, "", NULL, 0, CTRL_NAME_BYTES - 1, NULL, ""},
	/* A file of an earlier version may lack settings. */
#define X(key, where, change, kind, field, ...) CTRL_API_##where({"jobs[]." #key, CTRL_##kind, __VA_ARGS__},)
	CTRL_JOB_SETTINGS(X)
#undef X
	NUMBER("jobs[].created", 0, TIME_MAX),
	LIST("jobs[].members", WEIR_SOURCES_MAX),
	NUMBER("jobs[].members[].rank", 0, WEIR_SOURCES_MAX - 1),
	{"jobs[].members[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL, ""},
	/* Files of Weir before it had memberships lack it. */
	{"jobs[].members[].membership", CTRL_INTEGER, "", "0", 0, INT64_C(1) << 53, NULL, ""},
	NUMBER("jobs[].members[].joined", 0, TIME_MAX),
	{"jobs[].members[].state", CTRL_WORD, "", NULL, 0, 0, "joined|expired", ""},
};
/* clang-format on */

static const struct ctrl_schema schema = {keys, RTE_DIM(keys)};

static int64_t
number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static int
read_generations(struct ctrl_error *error, struct ctrl_state *state)
{
	const json_t *list = json_object_get(state->root, "generations");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *object = json_array_get(list, i);
		uint16_t *reserved = &state->reserved[number(object, "job")];

		if (*reserved != 0)
			return ctrl_refuse(error, ctrl_path("generations[%zu].job", i),
				"%d is there twice", (int)number(object, "job"));
		*reserved = (uint16_t)number(object, "reserved");
	}
	return 0;
}

static int
check_members(struct ctrl_error *error, size_t job, const json_t *object)
{
	const json_t *list = json_object_get(object, "members");
	bool seen[WEIR_SOURCES_MAX] = {false};

	for (size_t i = 0; i < json_array_size(list); i++) {
		int64_t rank = number(json_array_get(list, i), "rank");
		struct ctrl_path path = ctrl_path("jobs[%zu].members[%zu].rank", job, i);

		if (rank >= number(object, "size"))
			return ctrl_refuse(error, path, "%d in a job of %d", (int)rank,
				(int)number(object, "size"));
		if (seen[rank])
			return ctrl_refuse(error, path, "%d is there twice", (int)rank);
		seen[rank] = true;
	}
	return 0;
}

static int
check_jobs(struct ctrl_error *error, const struct ctrl_state *state)
{
	const json_t *list = json_object_get(state->root, "jobs"), *other;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		const json_t *object = json_array_get(list, i);

		for (size_t j = 0; j < i; j++) {
			other = json_array_get(list, j);
			if (number(other, "id") == number(object, "id"))
				return ctrl_refuse(error, ctrl_path("jobs[%zu].id", i),
					"%d is there twice", (int)number(object, "id"));
			if (json_equal(json_object_get(other, "name"),
				    json_object_get(object, "name")))
				return ctrl_refuse(
					error, ctrl_path("jobs[%zu].name", i), "it is there twice");
		}
		rc = check_members(error, i, object);
	}
	return rc;
}

/* Another version has other keys: say that, and not that they are unknown. */
static int
check_version(struct ctrl_error *error, const json_t *root)
{
	const json_t *version = json_object_get(root, "weir_state");

	if (json_is_integer(version) && json_integer_value(version) > CTRL_STATE_VERSION)
		return ctrl_refuse(error, ctrl_path("weir_state"),
			"version %d was written by a later Weir, and this one knows %d",
			(int)json_integer_value(version), CTRL_STATE_VERSION);
	return 0;
}

static int
check_name(struct ctrl_error *error, const json_t *root, const char *name)
{
	const char *found = json_string_value(json_object_get(root, "switch"));

	if (strcmp(found, name) == 0)
		return 0;
	return ctrl_refuse(error, ctrl_path("switch"),
		"it is the state of switch \"%.31s\", and this one is \"%.31s\": was state.file "
		"copied, or switch.name changed?",
		found, name);
}

static int
read_root(struct ctrl_error *error, const char *name, struct ctrl_state *state)
{
	int rc = check_version(error, state->root);

	if (rc == 0)
		rc = ctrl_schema_check(&schema, "", state->root, error);
	if (rc == 0)
		rc = check_name(error, state->root, name);
	if (rc == 0)
		rc = read_generations(error, state);
	if (rc == 0)
		rc = check_jobs(error, state);
	if (rc == 0)
		state->instances = (uint32_t)number(state->root, "instances");
	return rc;
}

static struct ctrl_state *
make(const char *path)
{
	struct ctrl_state *state = calloc(1, sizeof(*state));

	if (state != NULL)
		strlcpy(state->path, path, sizeof(state->path));
	return state;
}

int
ctrl_state_parse(const char *text, size_t length, const char *path, const char *name,
	struct ctrl_state **out, char *error, size_t size)
{
	struct ctrl_state *state = make(path);
	struct ctrl_error why = {0};
	int rc = -EINVAL;

	*out = NULL;
	if (state == NULL) {
		snprintf(error, size, "%s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	state->root = ctrl_json_parse(path, text, length, error, size);
	if (state->root != NULL)
		rc = read_root(&why, name, state);
	if (rc == 0) {
		*out = state;
		return 0;
	}
	if (state->root != NULL)
		ctrl_error_print(&why, path, text, length, error, size);
	strlcat(error, WHAT_TO_DO, size);
	ctrl_state_destroy(state);
	return rc;
}

int
ctrl_state_load(
	const char *path, const char *name, struct ctrl_state **state, char *error, size_t size)
{
	const char *why;
	size_t length;
	char *text = path[0] == '\0' ? NULL : ctrl_read_file(path, &length, &why);
	int rc;

	*state = NULL;
	if (path[0] == '\0' || (text == NULL && errno == ENOENT)) {
		*state = make(path);
		return *state == NULL ? -ENOMEM : 0;
	}
	if (text == NULL) {
		rc = -errno;
		snprintf(error, size, "%s: %s", path, why);
		return rc;
	}
	rc = ctrl_state_parse(text, length, path, name, state, error, size);
	free(text);
	return rc;
}

void
ctrl_state_destroy(struct ctrl_state *state)
{
	if (state == NULL)
		return;
	json_decref(state->root);
	free(state);
}

void
ctrl_state_begin(const struct ctrl_state *state, struct ctrl_config *config)
{
	for (unsigned int i = 0; i < config->nb_jobs; i++) {
		struct ppe_job *job = &config->job[i];
		uint16_t reserved = state->reserved[job->id];

		if (job->fixed_generation == 0 && reserved != 0)
			job->first_generation = ctrl_generation_add(reserved, 1);
	}
}

int
ctrl_state_forget(const char *path)
{
	char aside[CTRL_FILE_BYTES + 16];

	snprintf(aside, sizeof(aside), "%s.forgotten", path);
	return rename(path, aside) < 0 ? -errno : 0;
}
