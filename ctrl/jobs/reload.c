/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <jansson.h>

#include "ctrl/config/error.h"
#include "ctrl/config/tree.h"
#include "ctrl/jobs/jobs_priv.h"
#include "ctrl/jobs/state.h"

const char *const ctrl_reload_keys[] = {"comment", "log", "api.names", "api.open_read",
	"api.open_jobs", "api.tls", "api.tenants", "faults", "jobs", NULL};

/* The list of keys that differ and can't be reloaded. */
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

static void
compare(struct differences *found, struct ctrl_path path, const json_t *now, const json_t *next)
{
	/* A reload may change the certificate, but not turn TLS on or off. */
	bool tls = strcmp(path.text, "api.tls") == 0 && (now == NULL || next == NULL);
	const char *dot = path.text[0] == '\0' ? "" : ".", *name;
	json_t *both, *value;
	size_t i;

	if ((now != NULL && next != NULL && json_equal(now, next)) ||
		(is_reloadable(path.text) && !tls))
		return;
	if (json_is_object(now) && json_is_object(next)) {
		both = json_copy((json_t *)(uintptr_t)now);
		json_object_update_missing(both, (json_t *)(uintptr_t)next);
		json_object_foreach (both, name, value)
			compare(found, ctrl_path("%s%s%s", path.text, dot, name),
				json_object_get(now, name), json_object_get(next, name));
		json_decref(both);
	} else if (json_is_array(now) && json_is_array(next) &&
		json_array_size(now) == json_array_size(next)) {
		json_array_foreach (now, i, value)
			compare(found, ctrl_path("%s[%zu]", path.text, i), value,
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

/* A reload in progress. */
struct plan {
	struct ctrl_running *running;
	const struct ctrl_config *next;
	bool changed[WEIR_JOBS_MAX]; /* jobs that stay, by id */
	const struct ppe_job *made; /* a new job, or NULL */
	struct ctrl_reloaded *done;
	struct ctrl_refusal *why;
};

/* A running job can't change its fixed settings, nor get a source id that it has no memory for:
 * another job replaces it. */
static bool
same_shape(const struct ppe_job *a, const struct ppe_job *b)
{
	struct ctrl_job_spec of_a = ctrl_job_spec_of(a), of_b = ctrl_job_spec_of(b);

	return ctrl_settings_same(&of_a, &of_b, true) && strcmp(a->name, b->name) == 0 &&
		ppe_job_source_end(b) <= ppe_job_source_end(a) && a->nb_sources == b->nb_sources &&
		a->block_shift == b->block_shift && ctrl_tree_same(a, b) &&
		memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

static bool
same(const struct ppe_job *a, const struct ppe_job *b)
{
	struct ctrl_job_spec of_a = ctrl_job_spec_of(a), of_b = ctrl_job_spec_of(b);

	return same_shape(a, b) && memcmp(a->members, b->members, sizeof(a->members)) == 0 &&
		memcmp(a->address, b->address, sizeof(a->address)) == 0 &&
		ctrl_settings_same(&of_a, &of_b, false);
}

/* Draft the changes of the file, and no others: the API may have changed the job, too. */
static int
change(struct plan *plan, struct ctrl_job *job, const struct ppe_job *was,
	const struct ppe_job *shape)
{
	struct ppe_job *next = ctrl_job_draft(job);
	struct ctrl_job_spec spec, before, after;

	if (next == NULL)
		return ctrl_deny_memory(plan->why);
	spec = ctrl_job_spec_of(next);
	before = ctrl_job_spec_of(was);
	after = ctrl_job_spec_of(shape);
	ctrl_settings_change(&spec, &before, &after);
	*next = spec.shape;
	memcpy(next->members, shape->members, sizeof(next->members));
	memcpy(next->address, shape->address, sizeof(next->address));
	return 0;
}

static int
plan_id(struct plan *plan, unsigned int id)
{
	const struct ppe_job *was = plan->running->config->jobs.by_id[id];
	const struct ppe_job *shape = plan->next->jobs.by_id[id];
	struct ctrl_job *job = plan->running->by_id[id];
	struct ctrl_reloaded *done = plan->done;
	struct ctrl_reason reason;

	if (shape == NULL) {
		if (job != NULL && job->from_file) {
			plan->running->by_id[id] = NULL;
			done->deleted++;
		}
		return 0;
	}
	if (was != NULL && same(was, shape))
		return 0;
	if (job != NULL && !job->from_file)
		return ctrl_deny(plan->why, CTRL_REFUSED_EXISTS, "jobs",
			"job %s of the file has the id %u, which job %s has that was made over the "
			"API",
			shape->name, id, job->job->name);
	plan->changed[id] = job != NULL && was != NULL && same_shape(was, shape);
	if (!ctrl_job_fits(plan->next, shape, plan->changed[id] ? job->job : NULL, &reason))
		return ctrl_deny(plan->why, CTRL_REFUSED_RANGE, "jobs", "job %s: %s", shape->name,
			reason.text);
	done->changed += plan->changed[id];
	done->created += job == NULL;
	done->replaced += job != NULL && !plan->changed[id];
	if (plan->changed[id])
		return change(plan, job, was, shape);
	job = ctrl_job_new(shape);
	if (job == NULL)
		return ctrl_deny_memory(plan->why);
	job->from_file = true;
	plan->made = job->copy;
	plan->running->by_id[id] = job;
	return 0;
}

static int
reload_jobs(struct ctrl_running *running, const struct ctrl_config *next, const char *who,
	struct ctrl_reloaded *done, struct ctrl_refusal *why)
{
	static const struct ppe_job none = {.window = 1, .elements = 1, .nb_sources = 1};
	struct plan plan = {.running = running, .next = next, .done = done, .why = why};
	char by[128];
	int rc = 0;

	snprintf(by, sizeof(by), "%s by=reload", who);
	*done = (struct ctrl_reloaded){0};
	for (unsigned int id = 0; rc == 0 && id < WEIR_JOBS_MAX; id++)
		rc = plan_id(&plan, id);
	CTRL_FOREACH_JOB (job, running)
		if (rc == 0 && ctrl_running_find_job(running, job->job->name) != job)
			rc = ctrl_deny(why, CTRL_REFUSED_EXISTS, "jobs",
				"a job is called %s in the file, and another was made over the API",
				job->job->name);
	if (rc < 0)
		ctrl_jobs_undo(running);
	else /* Even without changes: the engines' first table points into the configuration. */
		rc = ctrl_jobs_publish(running, by, plan.made != NULL ? plan.made : &none, why);
	CTRL_FOREACH_JOB (job, running)
		if (rc == 0 && !running->is_dry_run && plan.changed[job->job->id])
			ctrl_job_log(job, by, "job changed", NULL);
	ctrl_jobs_reap(running);
	return rc;
}

/* Set the job's tenant to the one of the same name in the next configuration. */
static void
move_tenant(const struct ctrl_running *running, struct ctrl_job *job,
	const struct ctrl_config *next, const char *who)
{
	const struct ctrl_tenant *former = job->tenant;

	if (former == NULL)
		return;
	job->tenant = ctrl_tenant_find(&next->api, former->name);
	if (job->tenant == NULL && !ctrl_job_is_leaving(running, job))
		ctrl_log_change(who, "job has no tenant any more", "job=%s tenant=%s",
			ctrl_log_quote(job->job->name).text, ctrl_log_quote(former->name).text);
}

static int
publish_faults(
	struct ctrl_running *running, const struct ppe_faults *faults, struct ctrl_refusal *why)
{
	int rc =
		(running->is_dry_run ? ppe_check_faults : ppe_publish_faults)(running->ppe, faults);

	if (rc == 0)
		return 0;
	ctrl_deny(why, rc == -EBUSY ? CTRL_REFUSED_BUSY : CTRL_REFUSED_MEMORY, NULL,
		"the faults can't be set: %s", rc == -EBUSY ? "a worker is stuck" : strerror(-rc));
	return rc;
}

/* any: there were faults before the change. */
static void
log_faults(const struct ctrl_running *running, const struct ppe_faults *faults, bool any,
	const char *who)
{
	if (running->is_dry_run)
		return;
	if (faults->nb_rules > 0)
		ctrl_log_change(who, "faults set", "rules=%u seed=%" PRIu64 " held=%u",
			faults->nb_rules, faults->seed, faults->held);
	else if (any)
		ctrl_log_change(who, "faults cleared", "rules=0");
}

int
ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults, const char *who,
	struct ctrl_refusal *why)
{
	bool any = ppe_faults_of(running->ppe) != NULL;
	int rc = publish_faults(running, faults, why);

	if (rc == 0)
		log_faults(running, faults, any, who);
	return rc;
}

/* Apply the file's changes of faults and jobs. If the jobs are refused, the former faults are set
 * again, but count their packets from 1. */
static int
reload_faults_and_jobs(struct ctrl_running *running, const struct ctrl_config *next,
	const char *who, struct ctrl_reloaded *done, struct ctrl_refusal *why)
{
	const struct ppe_faults *set = ppe_faults_of(running->ppe);
	struct ppe_faults before = {0};
	const bool any = set != NULL;
	struct ctrl_refusal undone;
	int rc;

	/* Both come from zeroed memory and one reader: padding is zero, too. */
	if (memcmp(&running->config->faults, &next->faults, sizeof(next->faults)) == 0)
		return reload_jobs(running, next, who, done, why);
	if (any)
		before = *set;
	rc = publish_faults(running, &next->faults, why);
	if (rc < 0)
		return rc;
	rc = reload_jobs(running, next, who, done, why);
	if (rc == 0)
		log_faults(running, &next->faults, any, who);
	else if (publish_faults(running, &before, &undone) < 0)
		ctrl_log(CTRL_LOG_CTRL, RTE_LOG_ERR, "faults are the refused file's", "reason=%s",
			ctrl_log_quote(undone.message).text);
	return rc;
}

int
ctrl_reload_apply(struct ctrl_running *running, struct ctrl_config *next, const char *who,
	struct ctrl_reloaded *done, struct ctrl_refusal *why)
{
	int rc;

	/* Keep values drawn or computed at the start: they do not depend on later jobs. */
	next->ppe = running->config->ppe;
	next->memory = running->config->memory;
	rc = reload_faults_and_jobs(running, next, who, done, why);
	if (rc < 0 || running->is_dry_run)
		return rc;
	CTRL_FOREACH_JOB (job, running) {
		move_tenant(running, job, next, who);
		if (job->from_file) {
			json_decref(job->shown);
			job->shown = ctrl_running_shown(next, job->job->id);
		}
	}
	for (struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		move_tenant(running, job, next, who);
	running->config = next;
	running->reloads++;
	ctrl_state_changed(running, false, true);
	return 0;
}
