/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "ctrl/jobs/generations.h"
#include "ctrl/jobs/jobs_priv.h"
#include "ctrl/log.h"
#include "ctrl/config/files.h"
#include "ctrl/jobs/state_priv.h"

/* -- what runs, as text */

static void
put(json_t *object, const char *key, double value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void
put_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, json_string(text));
}

static json_t *
members_json(const struct ctrl_job *job)
{
	json_t *list = json_array();

	for (unsigned int rank = 0; rank < job->job->nb_sources; rank++) {
		const struct ctrl_member *member = &job->member[rank];
		json_t *object;

		if (member->state == CTRL_MEMBER_EXPECTED || member->state == CTRL_MEMBER_LEFT)
			continue;
		object = json_object();
		put(object, "rank", rank);
		put_text(object, "address", ctrl_address_text(member->address).text);
		put(object, "membership", (double)member->membership);
		put(object, "joined", member->joined);
		put_text(object, "state",
			member->state == CTRL_MEMBER_JOINED ? "joined" : "expired");
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *
job_json(const struct ctrl_job *job)
{
	const struct ppe_job *shape = job->job;
	struct ctrl_job_spec spec = ctrl_job_spec_of(shape, job->expire_s);
	json_t *object = json_object();

	put(object, "id", shape->id);
	put_text(object, "name", shape->name);
	put_text(object, "tenant", job->tenant == NULL ? "" : job->tenant->name);
	put(object, "size", shape->nb_sources);
	ctrl_settings_put(object, &spec);
	put(object, "created", job->created);
	json_object_set_new(object, "members", members_json(job));
	return object;
}

static json_t *
state_json(const struct ctrl_running *running)
{
	json_t *root = json_object(), *generations = json_array(), *jobs = json_array();

	put(root, "weir_state", CTRL_STATE_VERSION);
	put_text(root, "switch", running->config->name);
	put(root, "saved", ctrl_unix_time());
	put(root, "instances", running->instances);
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		json_t *object;

		if (running->reserved[id] == 0)
			continue;
		object = json_object();
		put(object, "job", id);
		put(object, "reserved", running->reserved[id]);
		json_array_append_new(generations, object);
	}
	json_object_set_new(root, "generations", generations);
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (running->by_id[id] != NULL && !running->by_id[id]->from_file)
			json_array_append_new(jobs, job_json(running->by_id[id]));
	json_object_set_new(root, "jobs", jobs);
	return root;
}

char *
ctrl_state_text(const struct ctrl_running *running, size_t *length)
{
	json_t *root = state_json(running);
	char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1)), *whole = NULL;

	json_decref(root);
	if (text != NULL && asprintf(&whole, "%s\n", text) < 0)
		whole = NULL;
	free(text);
	*length = whole == NULL ? 0 : strlen(whole);
	return whole;
}

/* -- when it is written */

static int
write_now(struct ctrl_running *running)
{
	size_t length;
	char *text = ctrl_state_text(running, &length);
	int rc = -ENOMEM;

	if (text != NULL)
		rc = ctrl_replace_file(running->config->state_file, text, length);
	free(text);
	running->state_due = rc == 0 ? CTRL_STATE_CLEAN : CTRL_STATE_AT_TICK;
	return rc;
}

static bool
is_kept(const struct ctrl_running *running)
{
	return running->config->state_file[0] != '\0' && running->state_open;
}

void
ctrl_state_save(struct ctrl_running *running)
{
	int rc = is_kept(running) ? write_now(running) : 0;

	if (rc < 0)
		CTRL_LOG_LIMITED(CTRL_LOG_CTRL, CTRL_LOG_ERROR,
			"the state was not written: a restart would lose changes",
			"file=%s error=%s", ctrl_log_quote(running->config->state_file).text,
			ctrl_log_quote(strerror(-rc)).text);
	else if (running->state_failed)
		ctrl_log_say(CTRL_LOG_CTRL, CTRL_LOG_NOTICE, "the state is written again");
	running->state_failed = rc < 0;
}

void
ctrl_state_note(struct ctrl_running *running)
{
	if (running->state_due == CTRL_STATE_CLEAN)
		running->state_due = CTRL_STATE_AT_TICK;
}

void
ctrl_state_note_soon(struct ctrl_running *running)
{
	running->state_due = CTRL_STATE_AT_TURN;
}

void
ctrl_state_settle(struct ctrl_running *running)
{
	/* A disk that fails is asked once a second, and not at each turn. */
	if (running->state_due == CTRL_STATE_AT_TURN && !running->state_failed)
		ctrl_state_save(running);
}

void
ctrl_state_tick(struct ctrl_running *running)
{
	ctrl_generations_tick(running);
	if (running->state_due != CTRL_STATE_CLEAN)
		ctrl_state_save(running);
}

/* -- a state, as what runs */

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

/* The key of an authenticated job is drawn anew: it is in no file, and no generation comes twice under it. */
static struct ctrl_job_spec
read_spec(const json_t *object)
{
	struct ctrl_job_spec spec = ctrl_job_spec_default();

	ctrl_settings_read(object, &spec);
	spec.id = (int)number(object, "id");
	spec.shape.nb_sources = (uint16_t)number(object, "size");
	strlcpy(spec.shape.name, text_of(object, "name"), sizeof(spec.shape.name));
	return spec;
}

static void
read_members(const json_t *list, struct ctrl_member member[WEIR_SOURCES_MAX])
{
	memset(member, 0, WEIR_SOURCES_MAX * sizeof(*member));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *object = json_array_get(list, i);
		struct ctrl_member *one = &member[number(object, "rank")];

		ctrl_parse_address(text_of(object, "address"), &one->address);
		one->membership = (uint64_t)number(object, "membership");
		one->joined = (double)number(object, "joined");
		one->seen = ctrl_monotonic();
		one->state = strcmp(text_of(object, "state"), "joined") == 0 ? CTRL_MEMBER_JOINED
									     : CTRL_MEMBER_EXPIRED;
	}
}

static const struct ctrl_tenant *
find_tenant(const struct ctrl_api *api, const char *name)
{
	for (unsigned int i = 0; i < api->nb_tenants; i++)
		if (strcmp(api->tenant[i].name, name) == 0)
			return &api->tenant[i];
	return NULL;
}

static int
restore_job(struct ctrl_running *running, const json_t *object, struct ctrl_refusal *why)
{
	struct ctrl_log_who who = ctrl_log_who_itself("restart");
	const char *owner = text_of(object, "tenant");
	const struct ctrl_tenant *tenant = find_tenant(&running->config->api, owner);
	struct ctrl_member member[WEIR_SOURCES_MAX];
	struct ctrl_job_spec spec = read_spec(object);
	int rc;

	read_members(json_object_get(object, "members"), member);
	rc = ctrl_job_adopt(running, &spec, tenant, member, (double)number(object, "created"), why);
	if (rc < 0)
		return rc;
	ctrl_log_change(&who, "job restored", "job=%s id=%d tenant=%s joined=%u size=%u",
		ctrl_log_quote(spec.shape.name).text, spec.id,
		ctrl_log_quote(tenant == NULL ? "" : owner).text,
		ctrl_job_joined(running->by_id[spec.id]), spec.shape.nb_sources);
	if (owner[0] != '\0' && tenant == NULL)
		ctrl_log_change(&who, "job is nobody's now: its tenant is gone", "job=%s tenant=%s",
			ctrl_log_quote(spec.shape.name).text, ctrl_log_quote(owner).text);
	return 0;
}

int
ctrl_state_restore(
	struct ctrl_running *running, const struct ctrl_state *state, char *error, size_t size)
{
	const json_t *jobs = json_object_get(state->root, "jobs");
	struct ctrl_refusal why;
	int rc;

	running->instances = state->instances;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (running->reserved[id] == 0)
			running->reserved[id] = state->reserved[id];
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *object = json_array_get(jobs, i);

		if (restore_job(running, object, &why) == 0)
			continue;
		snprintf(error, size,
			"%s: job \"%s\" was made over the API, and does not fit this "
			"configuration: "
			"%s. Change the configuration, or start once with --forget-state, which "
			"lays the file aside and loses all such jobs",
			state->path, text_of(object, "name"), why.message);
		return -EINVAL;
	}
	running->state_open = true;
	rc = running->config->state_file[0] != '\0' ? write_now(running) : 0;
	if (rc < 0)
		snprintf(error, size,
			"state.file: %s can't be written: %s: does its folder exist, "
			"and is it writable?",
			running->config->state_file, strerror(-rc));
	return rc;
}
