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

/* Put a job that is out of the table into ctrl_running.leaving. */
void ctrl_job_leaves(struct ctrl_running *running, struct ctrl_job *job);

/* Refuse a change while a worker is stuck: the change would wait for it. 0, or refused. */
int ctrl_jobs_check_workers(struct ctrl_running *running, struct ctrl_refusal *why);

/* A copy of the job to change and publish, in job->next. NULL: no memory. */
struct ppe_job *ctrl_job_draft(struct ctrl_job *job);

/* Publish the jobs of by_id, with their drafts (`next`) where they have one. 0: the drafts run now;
 * or refused, and the drafts are freed. asked: the job whose memory may be missing. In a dry run
 * the engines only check the jobs, and the drafts are freed. */
int ctrl_jobs_publish(
	struct ctrl_running *running, const struct ppe_job *asked, struct ctrl_refusal *why);

/* Adopt the drafts if they were published, otherwise free them. */
void ctrl_jobs_settle(struct ctrl_running *running, bool published);

/* Forget the jobs that have left. */
void ctrl_jobs_reap(struct ctrl_running *running);

/* Log the refusal of a change, unless rc is 0 or it is a dry run. Returns rc. */
int ctrl_jobs_refused(const struct ctrl_running *running, int rc, const char *who, const char *what,
	const char *job, const struct ctrl_refusal *why);

/* A number that no other membership has or had before a restart; 0 in a dry run.
 * ctrl/jobs/members.c */
uint64_t ctrl_membership_draw(const struct ctrl_running *running);

/* Set a member of a table's job: the rank's address (host order) and epoch, which is its
 * membership; both 0: the rank has none. ctrl/jobs/members.c */
void ctrl_member_set(struct ppe_job *job, unsigned int rank, uint32_t address, uint64_t epoch);

/* A rank was published with an address: record it as a member, and log it. ctrl/jobs/members.c */
void ctrl_member_begin(struct ctrl_job *job, unsigned int rank, const char *who);

/* Expire members that are silent for too long. ctrl/jobs/members.c */
void ctrl_members_tick(struct ctrl_running *running);

#endif
