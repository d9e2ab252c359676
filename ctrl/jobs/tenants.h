/* SPDX-License-Identifier: BSD-3-Clause */
/* What tenants, and clients without a token, use, and their quotas. A quota is checked when a job
 * is created or changed; a job keeps what it has. */
#ifndef CTRL_JOBS_TENANTS_H
#define CTRL_JOBS_TENANTS_H

#include "ctrl/jobs/jobs.h"

/* Sums over a tenant's jobs. */
struct ctrl_use {
	uint32_t jobs;
	uint32_t members; /* that the jobs may have */
	uint64_t memory; /* bytes that they take (ppe_job_memory) */
	uint64_t blocks; /* that the jobs may keep: twice their windows */
	uint64_t rate_mbit; /* promised; jobs without a limit count nothing */
};

/* The tenant of a name, or NULL. */
const struct ctrl_tenant *ctrl_tenant_find(const struct ctrl_api *api, const char *name);

/* Sum what a tenant's jobs use; NULL: the jobs without a tenant. Leaving jobs count, because they
 * have their memory until they are gone. */
void ctrl_tenant_use(
	const struct ctrl_running *running, const struct ctrl_tenant *tenant, struct ctrl_use *use);

/* May the tenant (NULL: no quota) have a job of this shape beside its others? 0, or refused. */
int ctrl_tenant_check(const struct ctrl_running *running, const struct ctrl_tenant *tenant,
	const struct ppe_job *job, struct ctrl_refusal *why);

/* Bytes that jobs of clients without a token may still take. In all they may have half of what they
 * have and of `memory_left` together. */
uint64_t ctrl_open_memory_left(const struct ctrl_running *running, uint64_t memory_left);

/*
 * May clients without a token have another job of this shape? At most api.open_jobs of them,
 * without leaving ones; and all together get at most half of the memory and of the block records
 * that other jobs leave. 0, or refused.
 */
int ctrl_open_check(
	const struct ctrl_running *running, const struct ppe_job *job, struct ctrl_refusal *why);

/* May the job's tenant have it with this rate? A lower rate is always allowed, even if a reload has
 * lowered the quota below the current sum. 0, or refused. */
int ctrl_tenant_check_rate(const struct ctrl_running *running, const struct ctrl_job *job,
	uint32_t rate_mbit, struct ctrl_refusal *why);

#endif
