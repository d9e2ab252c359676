/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps that the registry's files share. */
#ifndef CTRL_JOBS_PRIV_H
#define CTRL_JOBS_PRIV_H

#include "ctrl/jobs/jobs.h"

/* Write a refusal; key: NULL for none. Returns -EINVAL. */
int ctrl_deny(struct ctrl_refusal *why, enum ctrl_refused code, const char *key, const char *format,
	...) __attribute__((format(printf, 4, 5)));

/* The refusal for a process without memory. Returns -EINVAL. */
int ctrl_deny_memory(struct ctrl_refusal *why);

/* A job with a copy of this shape, created now, without members. For ctrl_job_free; NULL: no
 * memory. */
struct ctrl_job *ctrl_job_new(const struct ppe_job *shape);

/*
 * A change of the table: put jobs into by_id, take others out, draft changes of those that stay,
 * and publish all of it, or undo it.
 *
 * Check a new job of a tenant (NULL: no quota). 0, with its number of elements set; or refused.
 */
int ctrl_job_check(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why);

/* Put a job that passed the check into by_id, without members. NULL: refused, no memory. */
struct ctrl_job *ctrl_job_put(struct ctrl_running *running, const struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, struct ctrl_refusal *why);

/* Do the job's frames fit the ports, their links and the packet buffers, if they are larger than
 * those of the job that it `was` (NULL: none)? False: no, and the reason. */
bool ctrl_job_fits(const struct ctrl_config *config, const struct ppe_job *shape,
	const struct ppe_job *was, struct ctrl_reason *reason);

/* A copy of the job to change and publish, in job->next. NULL: no memory. */
struct ppe_job *ctrl_job_draft(struct ctrl_job *job);

/*
 * Publish by_id, with drafts. 0: all of it runs now; new jobs have their instances and reserved
 * generations, and those that were there before are leaving. Or refused and undone, as while a
 * worker is stuck, because the change would wait for it. who: for the log of new, replaced and
 * deleted jobs; NULL: the caller logs. asked: the job whose memory may be missing. In a dry run the
 * engines only check the jobs, and all is undone.
 */
int ctrl_jobs_publish(struct ctrl_running *running, const char *who, const struct ppe_job *asked,
	struct ctrl_refusal *why);

/* Log what has become of a job. of_temporary: the limit for temporary ones. */
void ctrl_job_log(const struct ctrl_job *job, const char *who, const char *what,
	struct ctrl_log_limit *of_temporary);

/* Forget the jobs that have left. */
void ctrl_jobs_reap(struct ctrl_running *running);

/* Log the refusal of a change, unless rc is 0 or it is a dry run. Returns rc. */
int ctrl_jobs_refused(const struct ctrl_running *running, int rc, const char *who, const char *what,
	const char *job, const struct ctrl_refusal *why);

/* -- ctrl/jobs/members.c and parents.c */

/* A number that no other membership has or had before a restart; 0 in a dry run. */
uint64_t ctrl_membership_draw(const struct ctrl_running *running);

/* Set a member of a table's job: the rank's address (host order) and epoch, which is its
 * membership; both 0: the rank has none. */
void ctrl_member_set(struct ppe_job *job, unsigned int rank, uint32_t address, uint64_t epoch);

/* A rank was published with an address: record it as a member, and log it. */
void ctrl_member_begin(struct ctrl_job *job, unsigned int rank, const char *who);

/* Each second: expire members that are silent for too long; log what has changed of parents. */
void ctrl_members_tick(struct ctrl_running *running);
void ctrl_parents_tick(struct ctrl_running *running);

/* -- ctrl/jobs/tenants.c */

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
