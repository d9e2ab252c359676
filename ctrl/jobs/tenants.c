/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <string.h>

#include "ctrl/jobs/jobs_priv.h"

const struct ctrl_tenant *
ctrl_tenant_find(const struct ctrl_api *api, const char *name)
{
	for (unsigned int i = 0; i < api->nb_tenants; i++)
		if (strcmp(api->tenant[i].name, name) == 0)
			return &api->tenant[i];
	return NULL;
}

static void
add(const struct ctrl_running *running, struct ctrl_use *use, const struct ppe_job *job)
{
	struct ppe_memory memory;

	ppe_job_memory(&running->config->ppe, job, &memory);
	use->jobs++;
	use->members += job->nb_sources;
	use->memory += memory.total;
	use->blocks += 2ul * job->window;
	use->rate_mbit += job->rate_mbit;
}

/* What this tenant's jobs take. Without a tenant: the jobs that are open, or those that are not. */
static void
sum(const struct ctrl_running *running, const struct ctrl_tenant *tenant, bool open,
	const struct ctrl_job *but, struct ctrl_use *use)
{
	memset(use, 0, sizeof(*use));
	CTRL_FOREACH_JOB (job, running)
		if (job != but && job->tenant == tenant && job->open == open)
			add(running, use, job->job);
	for (const struct ctrl_job *job = running->leaving; job != NULL; job = job->leaving_next)
		if (job->tenant == tenant && job->open == open)
			add(running, use, job->job);
}

void
ctrl_tenant_use(
	const struct ctrl_running *running, const struct ctrl_tenant *tenant, struct ctrl_use *use)
{
	sum(running, tenant, false, NULL, use);
}

static int
check_rate(const struct ctrl_tenant *tenant, const struct ppe_job *job, const struct ctrl_use *use,
	struct ctrl_refusal *why)
{
	const struct ctrl_quota *quota = &tenant->quota;

	if (quota->rate_mbit > 0 && job->rate_mbit == 0)
		return ctrl_deny(why, CTRL_REFUSED_QUOTA, "rate_mbit",
			"tenant %s has %u Mbit/s for all its jobs: each needs a rate_mbit of it",
			tenant->name, quota->rate_mbit);
	if (quota->rate_mbit > 0 && use->rate_mbit > quota->rate_mbit)
		return ctrl_deny(why, CTRL_REFUSED_QUOTA, "rate_mbit",
			"%u Mbit/s make %" PRIu64 " for tenant %s, and it may have %u",
			job->rate_mbit, use->rate_mbit, tenant->name, quota->rate_mbit);
	return 0;
}

int
ctrl_tenant_check_rate(const struct ctrl_running *running, const struct ctrl_job *job,
	uint32_t rate_mbit, struct ctrl_refusal *why)
{
	struct ppe_job next = *job->job;
	struct ctrl_use use;

	/* A rate of 0 means no limit, so it is the highest. */
	if (job->tenant == NULL || rate_mbit == next.rate_mbit || next.rate_mbit == 0 ||
		(rate_mbit != 0 && rate_mbit < next.rate_mbit))
		return 0;
	next.rate_mbit = rate_mbit;
	sum(running, job->tenant, false, job, &use);
	add(running, &use, &next);
	return check_rate(job->tenant, &next, &use, why);
}

int
ctrl_tenant_check(const struct ctrl_running *running, const struct ctrl_tenant *tenant,
	const struct ppe_job *job, struct ctrl_refusal *why)
{
	struct ctrl_use use;
	const struct ctrl_quota *quota;
	uint64_t before;

	if (tenant == NULL)
		return 0;
	quota = &tenant->quota;
	sum(running, tenant, false, NULL, &use);
	before = use.memory;
	add(running, &use, job);
	if (quota->jobs > 0 && use.jobs > quota->jobs)
		return ctrl_deny(why, CTRL_REFUSED_QUOTA, NULL,
			"tenant %s has %u jobs, those that drain included, and may have %u: delete "
			"one",
			tenant->name, use.jobs - 1, quota->jobs);
	if (quota->members > 0 && use.members > quota->members)
		return ctrl_deny(why, CTRL_REFUSED_QUOTA, "size",
			"a size of %u makes %u members for tenant %s, and it may have %u: delete a "
			"job, or take a smaller size",
			job->nb_sources, use.members, tenant->name, quota->members);
	if (quota->memory_mb > 0 && use.memory > (uint64_t)quota->memory_mb << 20)
		return ctrl_deny(why, CTRL_REFUSED_QUOTA, "window",
			"the job takes %.2f MiB, which makes %.2f for tenant %s, and it may have "
			"%u: a smaller window or fewer elements take less",
			(double)(use.memory - before) / (1 << 20), (double)use.memory / (1 << 20),
			tenant->name, quota->memory_mb);
	if (quota->blocks > 0 && use.blocks > quota->blocks)
		return ctrl_deny(why, CTRL_REFUSED_QUOTA, "window",
			"a window of %u takes %u blocks, which makes %" PRIu64
			" for tenant %s, and it may have %u: a smaller window takes less",
			job->window, 2u * job->window, use.blocks, tenant->name, quota->blocks);
	return check_rate(tenant, job, &use, why);
}

uint64_t
ctrl_open_memory_left(const struct ctrl_running *running, uint64_t memory_left)
{
	struct ctrl_use use;

	sum(running, NULL, true, NULL, &use);
	return memory_left > use.memory ? (memory_left - use.memory) / 2 : 0;
}

int
ctrl_open_check(
	const struct ctrl_running *running, const struct ppe_job *job, struct ctrl_refusal *why)
{
	const unsigned int workers = running->config->ppe.workers;
	unsigned int open = 0;
	struct ppe_room room;
	struct ctrl_use use;
	bool records;

	CTRL_FOREACH_JOB (other, running)
		open += other->open;
	if (open >= running->config->api.open_jobs)
		return ctrl_deny(why, CTRL_REFUSED_FULL, NULL,
			"no free job: clients without a token have made the %u temporary jobs that "
			"api.open_jobs allows",
			running->config->api.open_jobs);
	sum(running, NULL, true, NULL, &use);
	running->engine->room(running->ppe, job, &room);
	/* Half of the sum of what these jobs have and what is free. */
	records = (use.blocks / workers + room.records_free) / 2 <
		use.blocks / workers + room.records_needed;
	if (!records && room.memory_needed <= ctrl_open_memory_left(running, room.memory_left))
		return 0;
	ctrl_deny(why, CTRL_REFUSED_MEMORY, records ? "window" : NULL,
		"jobs of clients without a token get at most half of the %s: close some, take a "
		"smaller window or fewer elements, or raise %s in the configuration",
		records ? "block records" : "memory", records ? "tables.blocks" : "memory_mb");
	why->room = room;
	return -EINVAL;
}
