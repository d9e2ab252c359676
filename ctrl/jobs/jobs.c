/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/jobs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "ctrl/config/tree.h"
#include "ctrl/jobs/jobs_priv.h"
#include "ctrl/jobs/state.h"

int
ctrl_deny(
	struct ctrl_refusal *why, enum ctrl_refused code, const char *key, const char *format, ...)
{
	va_list args;

	memset(why, 0, sizeof(*why));
	why->code = code;
	if (key != NULL)
		strlcpy(why->key, key, sizeof(why->key));
	va_start(args, format);
	vsnprintf(why->message, sizeof(why->message), format, args);
	va_end(args);
	return -EINVAL;
}

int
ctrl_deny_memory(struct ctrl_refusal *why)
{
	return ctrl_deny(why, CTRL_REFUSED_BUSY, NULL, "the switch is out of memory: ask again");
}

int
ctrl_jobs_refused(const struct ctrl_running *running, int rc, const char *who, const char *what,
	const char *job, const struct ctrl_refusal *why)
{
	static const char *const codes[] = {
#define X(name, code, status) code,
		CTRL_REFUSALS(X)
#undef X
	};

	/* Rate-limited: clients can cause this at will. */
	if (rc < 0 && !running->is_dry_run)
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_CTRL, RTE_LOG_NOTICE, "change refused",
			"%s change=%s job=%s code=%s reason=%s", who, what,
			ctrl_log_quote(job).text, codes[why->code],
			ctrl_log_quote(why->message).text);
	return rc;
}

/* Erases the keys. */
static void
free_shape(struct ppe_job *shape)
{
	if (shape != NULL)
		OPENSSL_cleanse(shape, sizeof(*shape));
	free(shape);
}

void
ctrl_job_free(struct ctrl_job *job)
{
	if (job == NULL)
		return;
	free_shape(job->copy);
	free_shape(job->next);
	free(job->member);
	json_decref(job->shown);
	free(job);
}

struct ctrl_job *
ctrl_job_new(const struct ppe_job *shape)
{
	struct ctrl_job *job = calloc(1, sizeof(*job));
	struct ppe_job *copy = malloc(sizeof(*copy));

	if (job == NULL || copy == NULL) {
		free(job);
		free(copy);
		return NULL;
	}
	*copy = *shape;
	job->job = job->copy = copy;
	job->created = ctrl_unix_time();
	job->created_monotonic = ctrl_monotonic();
	return job;
}

struct ppe_job *
ctrl_job_draft(struct ctrl_job *job)
{
	free_shape(job->next);
	job->next = malloc(sizeof(*job->next));
	if (job->next != NULL)
		*job->next = *job->job;
	return job->next;
}

struct ctrl_job_spec
ctrl_job_settings(const struct ctrl_job *job)
{
	struct ctrl_job_spec spec = ctrl_job_spec_of(job->job);

	spec.expire_s = job->expire_s;
	spec.temporary = job->temporary;
	return spec;
}

/* Explain why the engines refused. */
static void
deny_publish(
	struct ctrl_running *running, const struct ppe_job *asked, int rc, struct ctrl_refusal *why)
{
	struct ppe_room room = {0};

	if (rc == -ENOMEM || rc == -ENOSPC)
		running->engine->room(running->ppe, asked, &room);
	if (rc == -EBUSY)
		ctrl_deny(why, CTRL_REFUSED_BUSY, NULL,
			"a worker has not taken the change before this one yet: ask again");
	else if (rc == -ENOSPC)
		ctrl_deny(why, CTRL_REFUSED_MEMORY, "window",
			"a window of %u needs %u block records on each worker, and one has %u: a "
			"smaller window, fewer jobs, or more tables.blocks in the configuration",
			asked->window, room.records_needed, room.records_free);
	else if (rc == -ENOMEM)
		ctrl_deny(why, CTRL_REFUSED_MEMORY, NULL,
			"the job needs %.2f MiB, and the largest free piece has %.2f: a smaller "
			"window, fewer elements, fewer jobs, or more memory_mb in the "
			"configuration",
			(double)room.memory_needed / (1 << 20),
			(double)room.memory_free / (1 << 20));
	else
		ctrl_deny(why, CTRL_REFUSED_BUSY, NULL, "the engines did not take the change: %s",
			strerror(-rc));
	why->room = room;
}

void
ctrl_job_log(const struct ctrl_job *job, const char *who, const char *what,
	struct ctrl_log_limit *of_temporary)
{
	const struct ppe_job *shape = job->job;

	ctrl_log_change_limited(job->temporary ? of_temporary : NULL, who, what,
		"job=%s id=%u tenant=%s size=%u window=%u elements=%u timeout_ms=%u",
		ctrl_log_quote(shape->name).text, shape->id,
		ctrl_log_quote(job->tenant == NULL ? "" : job->tenant->name).text,
		shape->nb_sources, shape->window, shape->elements, shape->timeout_ms);
}

/* A draft that is published replaces the job's shape, which no worker reads any more. A new job
 * reserves generations, and one that is no longer there is leaving. */
static void
adopt(struct ctrl_running *running, const char *who)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		struct ctrl_job *was = running->published[id], *is = running->by_id[id];

		if (is != NULL && is->next != NULL) {
			free_shape(is->copy);
			is->job = is->copy = is->next;
			is->next = NULL;
		}
		if (was == is)
			continue;
		running->published[id] = is;
		if (was != NULL) {
			was->leaving_next = running->leaving;
			running->leaving = was;
		}
		if (is != NULL) {
			running->instances++;
			ctrl_generations_begin(running, is->job);
		}
		if (is == NULL)
			ctrl_job_log(was, who, "job deleted", CTRL_LOG_SITE);
		else if (who != NULL)
			ctrl_job_log(is, who, was == NULL ? "job created" : "job replaced",
				CTRL_LOG_SITE);
	}
}

void
ctrl_jobs_undo(struct ctrl_running *running)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		if (running->by_id[id] != running->published[id])
			ctrl_job_free(running->by_id[id]);
		running->by_id[id] = running->published[id];
		if (running->by_id[id] != NULL) {
			free_shape(running->by_id[id]->next);
			running->by_id[id]->next = NULL;
		}
	}
}

/* As ctrl_jobs_publish, but a refusal, and a dry run, leave by_id as it is. */
static int
publish(struct ctrl_running *running, const char *who, const struct ppe_job *asked,
	struct ctrl_refusal *why)
{
	const struct ctrl_engine *engine = running->engine;
	uint32_t instance = running->instances;
	struct ppe_jobs jobs = {0};
	int rc = engine->stuck(running);

	if (rc >= 0)
		return ctrl_deny(why, CTRL_REFUSED_BUSY, NULL,
			"worker %d is stuck, and a change of jobs would wait for it: is its CPU "
			"taken by something else?",
			rc);
	CTRL_FOREACH_JOB (job, running) {
		uint8_t id = job->job->id;

		if (job != running->published[id]) {
			job->copy->instance = ++instance;
			if (job->copy->fixed_generation == 0)
				job->copy->first_generation = ctrl_generations_next(running, id);
		}
		jobs.by_id[id] = job->next != NULL ? job->next : job->job;
	}
	rc = (running->is_dry_run ? engine->check : engine->publish)(running->ppe, &jobs);
	if (rc < 0) {
		deny_publish(running, asked, rc, why);
		return -EINVAL;
	}
	if (!running->is_dry_run)
		adopt(running, who);
	return 0;
}

int
ctrl_jobs_publish(struct ctrl_running *running, const char *who, const struct ppe_job *asked,
	struct ctrl_refusal *why)
{
	int rc = publish(running, who, asked, why);

	if (rc < 0 || running->is_dry_run)
		ctrl_jobs_undo(running);
	return rc;
}

bool
ctrl_job_fits(const struct ctrl_config *config, const struct ppe_job *shape,
	const struct ppe_job *was, struct ctrl_reason *reason)
{
	return (was != NULL && ctrl_job_frame_bytes(shape) <= ctrl_job_frame_bytes(was)) ||
		(ctrl_check_frames(config, shape, reason) &&
			ctrl_check_links(config, shape, reason) &&
			ctrl_check_buffers(config, shape, reason));
}

/* -- a job that is to be created: checks, and the choice of its id */

static bool
id_is_leaving(const struct ctrl_running *running, unsigned int id)
{
	for (const struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		if (job->job->id == id)
			return true;
	return false;
}

/* The id of the next job; -1: all are in use. Ids of the configuration's jobs stay taken when these
 * are deleted, because they return at the next start. Prefer ids that no leaving job has, to avoid
 * confusing people. */
static int
free_id(const struct ctrl_running *running)
{
	int of_leaving = -1;

	for (int id = 0; id < WEIR_JOBS_MAX; id++) {
		if (running->by_id[id] != NULL || running->config->jobs.by_id[id] != NULL)
			continue;
		if (!id_is_leaving(running, (unsigned int)id))
			return id;
		of_leaving = of_leaving < 0 ? id : of_leaving;
	}
	return of_leaving;
}

/* Refuse the name and id of a deleted job of the configuration. */
static int
check_deleted(const struct ctrl_running *running, const struct ctrl_job_spec *spec,
	struct ctrl_refusal *why)
{
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		const struct ppe_job *job = running->config->jobs.by_id[i];
		bool same_name = job != NULL && strcmp(job->name, spec->shape.name) == 0;

		if (same_name || (job != NULL && spec->id == (int)i))
			return ctrl_deny(why, CTRL_REFUSED_EXISTS, same_name ? "name" : "id",
				"job \"%s\" with the id %u was deleted, but is in the "
				"configuration "
				"file, and back at the next start: take another %s, or remove it "
				"there and reload",
				job->name, i, same_name ? "name" : "id");
	}
	return 0;
}

/* Refuse a job that takes memory that deleted jobs of the configuration need at the next start. A
 * leaving job's memory is not free yet. */
static int
check_returning(struct ctrl_running *running, const struct ppe_job *shape, struct ctrl_refusal *why)
{
	const struct ppe_job *returning = NULL;
	struct ppe_room room, needs;
	bool records;

	running->engine->room(running->ppe, shape, &room);
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *job = running->config->jobs.by_id[id];

		if (job == NULL || running->by_id[id] != NULL || id_is_leaving(running, id))
			continue;
		running->engine->room(running->ppe, job, &needs);
		room.memory_needed += needs.memory_needed;
		room.records_needed += needs.records_needed;
		returning = job;
	}
	records = room.records_needed > room.records_free;
	if (returning == NULL || (!records && room.memory_needed <= room.memory_left))
		return 0;
	ctrl_deny(why, CTRL_REFUSED_MEMORY, records ? "window" : NULL,
		"the job takes %s that deleted jobs of the configuration, such as \"%s\", need at "
		"the next start: a smaller window or fewer elements take less, or remove those "
		"jobs from the file and reload",
		records ? "block records" : "memory", returning->name);
	why->room = room;
	return -EINVAL;
}

/* Refuse a multicast group of another owner's job: each would get the other's results. */
static int
check_group(const struct ctrl_running *running, const struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why)
{
	uint32_t group = spec->shape.group;

	CTRL_FOREACH_JOB (job, running)
		if (group != 0 && job->job->group == group &&
			(job->tenant != tenant || job->open != spec->open))
			return ctrl_deny(why, CTRL_REFUSED_CONFLICT, "results",
				"another owner's job sends its results to this group: choose "
				"another group, or unicast");
	return 0;
}

static int
check_use(const struct ctrl_running *running, const struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why)
{
	return spec->open ? ctrl_open_check(running, &spec->shape, why)
			  : ctrl_tenant_check(running, tenant, &spec->shape, why);
}

/* Full blocks of AlltoAll, if the job may have them, and all jobs with them take at most a quarter
 * of the memory. The rest is for programs with many communicators. */
static void
fit_alltoall(const struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant)
{
	uint64_t full = 0, memory_left; /* bytes of all jobs with full blocks */
	struct ctrl_refusal ignored;
	struct ppe_room room;

	CTRL_FOREACH_JOB (job, running) {
		running->engine->room(running->ppe, job->job, &room);
		full += job->job->alltoall == PPE_ALLTOALL_FULL ? room.memory_needed : 0;
	}
	spec->shape.alltoall = PPE_ALLTOALL_FULL;
	running->engine->room(running->ppe, &spec->shape, &room);
	memory_left =
		spec->open ? ctrl_open_memory_left(running, room.memory_left) : room.memory_left;
	if (ctrl_job_in_tree(&spec->shape) || room.memory_needed > room.memory_free ||
		full + room.memory_needed > (full + memory_left) / 4 ||
		check_use(running, spec, tenant, &ignored) < 0)
		spec->shape.alltoall = PPE_ALLTOALL_SHORT;
}

#define EXPIRES "members of a temporary job have to expire: give it 1 or more"

int
ctrl_job_check(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why)
{
	const struct ppe_job *shape = &spec->shape;
	struct ctrl_reason reason;
	int rc;

	if (ctrl_running_find_job(running, shape->name) != NULL)
		return ctrl_deny(why, CTRL_REFUSED_EXISTS, "name",
			"a job is called \"%s\" already: names are unique", shape->name);
	if (spec->id >= 0 && running->by_id[spec->id] != NULL)
		return ctrl_deny(why, CTRL_REFUSED_EXISTS, "id",
			"a job has the id %d already: leave \"id\" out for the lowest free one",
			spec->id);
	rc = check_deleted(running, spec, why);
	if (rc < 0)
		return rc;
	if (free_id(running) < 0)
		return ctrl_deny(why, CTRL_REFUSED_FULL, NULL,
			"no free job id: all %d are in use: delete a job", WEIR_JOBS_MAX);
	if (spec->temporary && spec->expire_s == 0)
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "expire_s", EXPIRES);
	/* Sources that are switches do not join over the API: their memberships do not end. */
	if (shape->children && (spec->temporary || spec->expire_s > 0))
		return ctrl_deny(why, CTRL_REFUSED_CONFLICT,
			spec->temporary ? "temporary" : "expire_s",
			"the sources of job %s are switches, which do not expire: leave this out",
			shape->name);
	CTRL_FOREACH_JOB (job, running)
		if (ctrl_tree_collides(job->job, shape))
			return ctrl_deny(why, CTRL_REFUSED_CONFLICT, "tree.parents",
				"job %s contributes to the same job of a parent already: delete "
				"it, or name another parents[].job",
				job->job->name);
	ctrl_fit_elements(running->config, &spec->shape);
	if (!ctrl_check_reduction(shape, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "op", "%s", reason.text);
	if (!ctrl_check_integrity(shape, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "integrity", "%s", reason.text);
	if (!ctrl_job_fits(running->config, shape, NULL, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "elements", "%s", reason.text);
	if (shape->alltoall == CTRL_ALLTOALL_FIT)
		fit_alltoall(running, spec, tenant);
	return check_use(running, spec, tenant, why);
}

struct ctrl_job *
ctrl_job_put(struct ctrl_running *running, const struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why)
{
	static const uint8_t no_key[WEIR_KEY_BYTES];
	struct ctrl_job *job = ctrl_job_new(&spec->shape);
	struct ppe_job *copy = job == NULL ? NULL : job->copy;

	if (job != NULL && !copy->children)
		job->member = calloc(ctrl_job_rank_end(job), sizeof(*job->member));
	if (job == NULL || (job->member == NULL && !copy->children) ||
		(memcmp(copy->key, no_key, sizeof(no_key)) == 0 &&
			RAND_bytes(copy->key, sizeof(copy->key)) != 1)) {
		ctrl_job_free(job);
		ctrl_deny_memory(why);
		return NULL;
	}
	copy->id = (uint8_t)(spec->id >= 0 ? spec->id : free_id(running));
	/* Switches get their keys when the job is made, and only for an authenticated job. */
	copy->proved = !copy->children || copy->authenticated;
	memset(copy->epoch, 0, sizeof(copy->epoch));
	if (!copy->children) {
		memset(copy->members, 0, sizeof(copy->members));
		memset(copy->address, 0, sizeof(copy->address));
	}
	job->shown = json_incref(spec->shown);
	job->tenant = tenant;
	job->expire_s = spec->expire_s;
	job->temporary = spec->temporary;
	job->open = spec->open;
	return running->by_id[copy->id] = job;
}

/* Check a new job that is asked for now, with its first member. */
static int
check_asked(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why)
{
	int rc = ctrl_job_check(running, spec, tenant, why);

	if (rc == 0)
		rc = check_group(running, spec, tenant, why);
	if (rc == 0 && spec->member_address != 0)
		rc = ctrl_member_check(running, spec->member_rank, spec->shape.nb_sources,
			spec->member_address, why);
	return rc == 0 ? check_returning(running, &spec->shape, why) : rc;
}

int
ctrl_job_create(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, const char *who, struct ctrl_job **out,
	struct ctrl_refusal *why)
{
	struct ctrl_job *job;
	int rc;

	/* Jobs that have left meanwhile make room. */
	if (running->leaving != NULL)
		ctrl_jobs_reap(running);
	rc = check_asked(running, spec, tenant, why);
	job = rc == 0 ? ctrl_job_put(running, spec, tenant, why) : NULL;
	if (job != NULL && spec->member_address != 0)
		ctrl_member_set(job->copy, spec->member_rank, spec->member_address,
			ctrl_membership_draw(running));
	if (job == NULL || publish(running, who, job->job, why) < 0) {
		ctrl_jobs_undo(running);
		return ctrl_jobs_refused(running, -EINVAL, who, "create", spec->shape.name, why);
	}
	*out = job;
	if (running->is_dry_run)
		return 0;
	if (spec->member_address != 0)
		ctrl_member_begin(job, spec->member_rank, who);
	ctrl_state_changed(running, spec->temporary, true);
	return 0;
}

static int
check_change(struct ctrl_running *running, const struct ctrl_job *job,
	const struct ctrl_job_spec *next, struct ctrl_refusal *why)
{
	struct ctrl_error error = {0};
	const struct ctrl_tree_reading tree = {running->config, "", &error};
	struct ctrl_reason reason;

	if (ctrl_tree_check(&tree, &next->shape) < 0)
		return ctrl_deny(why, CTRL_REFUSED_RANGE, error.path.text, "%s", error.text);
	/* Policy partial needs larger frames, for the bitmap. */
	if (!ctrl_job_fits(running->config, &next->shape, job->job, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "policy", "%s", reason.text);
	if (next->expire_s > 0 && job->member == NULL)
		return ctrl_deny(why, CTRL_REFUSED_CONFLICT, "expire_s",
			"the job's sources are the configuration's, or switches, and do not "
			"expire");
	if (next->expire_s == 0 && job->temporary)
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "expire_s", EXPIRES);
	return ctrl_tenant_check_rate(running, job, next->shape.rate_mbit, why);
}

int
ctrl_job_change(struct ctrl_running *running, struct ctrl_job *job,
	const struct ctrl_job_spec *next, const char *who, struct ctrl_refusal *why)
{
	struct ctrl_job_spec now = ctrl_job_settings(job);
	int rc;

	if (ctrl_settings_same(&now, next, false))
		return 0;
	rc = check_change(running, job, next, why);
	/* expire_s concerns only the control thread: the engines need no change for it. */
	now.expire_s = next->expire_s;
	if (rc == 0 && !ctrl_settings_same(&now, next, false)) {
		struct ppe_job *draft = ctrl_job_draft(job);

		if (draft == NULL)
			return ctrl_deny_memory(why);
		*draft = next->shape;
		rc = ctrl_jobs_publish(running, who, job->job, why);
	}
	if (rc < 0 || running->is_dry_run)
		return ctrl_jobs_refused(running, rc, who, "set", job->job->name, why);
	job->expire_s = next->expire_s;
	ctrl_log_change(who, "job changed", "job=%s id=%u%s", ctrl_log_quote(job->job->name).text,
		job->job->id, ctrl_settings_text(next).text);
	ctrl_state_changed(running, job->temporary, true);
	return 0;
}

void
ctrl_jobs_reap(struct ctrl_running *running)
{
	struct ctrl_job **link = &running->leaving;

	/* The engines may hold more than this list: a table that a worker has acknowledged late. */
	running->engine->reap(running->ppe);
	while (*link != NULL) {
		struct ctrl_job *job = *link;

		if (running->engine->is_leaving(running->ppe, job->job->id, job->job->instance)) {
			link = &job->leaving_next;
			continue;
		}
		*link = job->leaving_next;
		ctrl_log(CTRL_LOG_CTRL, RTE_LOG_INFO, "job gone", "job=%s id=%u",
			ctrl_log_quote(job->job->name).text, job->job->id);
		ctrl_job_free(job);
	}
}

int
ctrl_jobs_delete(struct ctrl_running *running, const bool ids[WEIR_JOBS_MAX], const char *who,
	unsigned int *leaving, struct ctrl_refusal *why)
{
	struct ctrl_job *gone[WEIR_JOBS_MAX] = {NULL}, *last = NULL;
	bool temporary = true;
	int rc;

	*leaving = 0;
	CTRL_FOREACH_JOB (job, running) {
		if (!ids[job->job->id])
			continue;
		last = gone[job->job->id] = job;
		running->by_id[job->job->id] = NULL;
		temporary &= job->temporary;
	}
	if (last == NULL)
		return 0;
	rc = ctrl_jobs_publish(running, who, last->job, why);
	if (rc < 0 || running->is_dry_run)
		return ctrl_jobs_refused(running, rc, who, "delete", last->job->name, why);
	ctrl_state_changed(running, temporary, true);
	ctrl_jobs_reap(running);
	for (const struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		*leaving += job == gone[job->job->id];
	return 0;
}

int
ctrl_job_delete(struct ctrl_running *running, struct ctrl_job *job, const char *who, bool *leaving,
	struct ctrl_refusal *why)
{
	bool ids[WEIR_JOBS_MAX] = {false};
	unsigned int n = 0;
	int rc;

	ids[job->job->id] = true;
	rc = ctrl_jobs_delete(running, ids, who, &n, why);
	*leaving = n > 0;
	return rc;
}

void
ctrl_jobs_tick(struct ctrl_running *running)
{
	ctrl_jobs_reap(running);
	ctrl_members_tick(running);
	ctrl_parents_tick(running);
	ctrl_state_tick(running);
}
