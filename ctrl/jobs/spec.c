/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a job to be created, and the choice of its id. */
#include <string.h>

#include "ctrl/config/job.h"
#include "ctrl/jobs/jobs_priv.h"
#include "ctrl/jobs/tenants.h"

static bool
id_is_leaving(const struct ctrl_running *running, unsigned int id)
{
	for (const struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		if (job->job->id == id)
			return true;
	return false;
}

/* Ids of the configuration's jobs stay taken when these are deleted, because they return at the next start. */
static bool
id_is_free(const struct ctrl_running *running, unsigned int id)
{
	return running->by_id[id] == NULL && running->config->jobs.by_id[id] == NULL;
}

/* Prefer ids that no leaving job has, to avoid confusing people. */
int
ctrl_spec_free_id(const struct ctrl_running *running)
{
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (id_is_free(running, i) && !id_is_leaving(running, i))
			return (int)i;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		if (id_is_free(running, i))
			return (int)i;
	return -1;
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

int
ctrl_spec_check_group(const struct ctrl_running *running, uint32_t group,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why)
{
	for (unsigned int i = 0; group != 0 && i < WEIR_JOBS_MAX; i++) {
		const struct ctrl_job *job = running->by_id[i];

		if (job != NULL && job->job->group == group && job->tenant != tenant)
			return ctrl_deny(why, CTRL_REFUSED_CONFLICT, "results",
				"another tenant's job sends its results to this group: choose "
				"another group, or unicast");
	}
	return 0;
}

int
ctrl_spec_check(struct ctrl_running *running, const struct ctrl_job_spec *spec,
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
	if (ctrl_spec_free_id(running) < 0)
		return ctrl_deny(why, CTRL_REFUSED_CONFLICT, NULL,
			"all %d ids are in use: delete a job", WEIR_JOBS_MAX);
	if (!ctrl_check_reduction(shape, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "op", "%s", reason.text);
	if (!ctrl_check_frames(running->config, shape, &reason) ||
		!ctrl_check_links(running->config, shape, &reason) ||
		!ctrl_check_buffers(running->config, shape, &reason))
		return ctrl_deny(why, CTRL_REFUSED_RANGE, "elements", "%s", reason.text);
	return ctrl_tenant_check(running, tenant, shape, why);
}
