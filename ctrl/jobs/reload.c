/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/reload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>
#include <jansson.h>

#include "ctrl/config/config.h"
#include "ctrl/faults.h"
#include "ctrl/config/error.h"
#include "ctrl/jobs/state.h"

const char *const ctrl_reload_keys[] = {"comment", "log", "api.names", "api.open_read", "api.tls",
	"api.tenants", "faults", "jobs", NULL};

/* Keys that differ and can't be reloaded, as a list in a buffer. */
struct differences {
	char *text;
	size_t size;
	unsigned int count;
};

static void
note(struct differences *found, const char *path)
{
	if (found->count++ > 0)
		strlcat(found->text, ", ", found->size);
	strlcat(found->text, path, found->size);
}

static bool
is_reloadable(const char *path)
{
	for (unsigned int i = 0; ctrl_reload_keys[i] != NULL; i++) {
		size_t length = strlen(ctrl_reload_keys[i]);

		if (strncmp(path, ctrl_reload_keys[i], length) == 0 &&
			(path[length] == '\0' || path[length] == '.' || path[length] == '['))
			return true;
	}
	return false;
}

static void compare(
	struct differences *found, struct ctrl_path path, const json_t *now, const json_t *next);

static void
compare_objects(
	struct differences *found, struct ctrl_path path, const json_t *now, const json_t *next)
{
	const char *dot = path.text[0] == '\0' ? "" : ".";
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)now, name, value) {
		compare(found, ctrl_path("%s%s%s", path.text, dot, name), value,
			json_object_get(next, name));
	}
	json_object_foreach ((json_t *)(uintptr_t)next, name, value) {
		if (json_object_get(now, name) == NULL)
			compare(found, ctrl_path("%s%s%s", path.text, dot, name), NULL, value);
	}
}

static void
compare(struct differences *found, struct ctrl_path path, const json_t *now, const json_t *next)
{
	/* Listeners speak TLS or not from the start; only with which certificate may change. */
	bool tls = strcmp(path.text, "api.tls") == 0 && (now == NULL || next == NULL);

	if ((now != NULL && next != NULL && json_equal(now, next)) ||
		(is_reloadable(path.text) && !tls))
		return;
	if (json_is_object(now) && json_is_object(next)) {
		compare_objects(found, path, now, next);
	} else if (json_is_array(now) && json_is_array(next) &&
		json_array_size(now) == json_array_size(next)) {
		for (size_t i = 0; i < json_array_size(now); i++)
			compare(found, ctrl_path("%s[%zu]", path.text, i), json_array_get(now, i),
				json_array_get(next, i));
	} else {
		note(found, path.text);
	}
}

int
ctrl_reload_check(const struct ctrl_config *now, const struct ctrl_config *next, char *error,
	size_t error_size)
{
	struct differences found = {error, error_size, 0};
	json_t *a = ctrl_config_json(now), *b = ctrl_config_json(next);

	strlcpy(error, "these keys change at a restart only: ", error_size);
	if (a != NULL && b != NULL)
		compare(&found, ctrl_path("%s", ""), a, b);
	else
		note(&found, "(out of memory)");
	json_decref(a);
	json_decref(b);
	return found.count == 0 ? 0 : -EINVAL;
}

static const struct ctrl_tenant *
find_tenant(const struct ctrl_config *config, const struct ctrl_tenant *former)
{
	for (unsigned int i = 0; former != NULL && i < config->api.nb_tenants; i++)
		if (strcmp(config->api.tenant[i].name, former->name) == 0)
			return &config->api.tenant[i];
	return NULL;
}

/* A job stays its tenant's, as the next configuration has it. */
static void
move_tenant(struct ctrl_job *job, const struct ctrl_config *next, const struct ctrl_log_who *who)
{
	const struct ctrl_tenant *former = job->tenant;

	job->tenant = find_tenant(next, former);
	if (former != NULL && job->tenant == NULL)
		ctrl_log_change(who, "job is nobody's now: its tenant is gone", "job=%s tenant=%s",
			ctrl_log_quote(job->job->name).text, ctrl_log_quote(former->name).text);
}

/* What the file says anew of faults, and jobs; where jobs are refused, what was set before, by whomever,
 * is set again: only its packets are counted from 1. */
static int
reload_faults_and_jobs(struct ctrl_running *running, const struct ctrl_config *next,
	const struct ctrl_log_who *who, struct ctrl_reloaded *done, struct ctrl_refusal *why)
{
	const struct ppe_faults *set = ppe_faults_of(running->ppe);
	struct ppe_faults before = {0};
	const bool any = set != NULL;
	struct ctrl_refusal undone;
	int rc;

	if (ctrl_faults_equal(&running->config->faults, &next->faults))
		return ctrl_reload_jobs(running, next, who, done, why);
	if (any)
		before = *set;
	rc = ctrl_faults_publish(running, &next->faults, why);
	if (rc < 0)
		return rc;
	rc = ctrl_reload_jobs(running, next, who, done, why);
	if (rc == 0)
		ctrl_faults_tell(&next->faults, any, who);
	else if (ctrl_faults_publish(running, &before, &undone) < 0)
		ctrl_log(CTRL_LOG_CTRL, CTRL_LOG_ERROR, "faults are the refused file's",
			"reason=%s", ctrl_log_quote(undone.message).text);
	return rc;
}

int
ctrl_reload_apply(struct ctrl_running *running, struct ctrl_config *next,
	const struct ctrl_log_who *who, struct ctrl_reloaded *done, struct ctrl_refusal *why)
{
	int rc;

	/* What was drawn at random, and what was computed: jobs of later have no part in it. */
	next->ppe = running->config->ppe;
	next->memory = running->config->memory;
	rc = reload_faults_and_jobs(running, next, who, done, why);
	if (rc < 0)
		return rc;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (running->by_id[i] != NULL)
			move_tenant(running->by_id[i], next, who);
	for (struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		job->tenant = find_tenant(next, job->tenant);
	running->config = next;
	running->reloads++;
	ctrl_state_note(running);
	ctrl_state_save(running);
	return 0;
}
