/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tenants, and clients without a token, use, and their quotas. A quota is checked when a job is created or changed;
 * a job keeps what it has got.
 */
#ifndef CTRL_JOBS_TENANTS_H
#define CTRL_JOBS_TENANTS_H

#include "ctrl/jobs/jobs.h"

/* Sums over a tenant's jobs. */
struct ctrl_use {
	uint32_t jobs;
	uint32_t members; /* that they may have */
	uint64_t memory; /* bytes, of all that they take (ppe_job_memory) */
	uint64_t blocks; /* that they may keep: twice their windows */
	uint64_t rate_mbit; /* promised; jobs without a limit count nothing */
};

/* The tenant of a name, or NULL. */
const struct ctrl_tenant *ctrl_tenant_find(const struct ctrl_api *api, const char *name);

/*
 * tenant: NULL for the jobs without a tenant. Jobs that are leaving count: they have their memory
 * until they are gone.
 */
void ctrl_tenant_use(
	const struct ctrl_running *running, const struct ctrl_tenant *tenant, struct ctrl_use *use);

/* May the tenant (NULL: everything) have a job of this shape beside its others? 0, or refused. */
int ctrl_tenant_check(const struct ctrl_running *running, const struct ctrl_tenant *tenant,
	const struct ppe_job *job, struct ctrl_refusal *why);

/* Bytes that jobs of clients without a token may still take: of what they have and of the `left` bytes, half. */
uint64_t ctrl_open_memory_left(const struct ctrl_running *running, uint64_t memory_left);

/*
 * May clients without a token have another job of this shape? Not more than api.open_jobs of them, those that are
 * leaving not counted; and all together get at most half of the memory and of the block records that other jobs leave.
 * 0, or refused.
 */
int ctrl_open_check(
	const struct ctrl_running *running, const struct ppe_job *job, struct ctrl_refusal *why);

/*
 * May the job's tenant have it with this rate? A lower one always, also when a reload has lowered the
 * quota under what there is. 0, or refused.
 */
int ctrl_tenant_check_rate(const struct ctrl_running *running, const struct ctrl_job *job,
	uint32_t rate_mbit, struct ctrl_refusal *why);

#endif
