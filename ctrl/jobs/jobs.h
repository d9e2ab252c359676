/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of jobs that change: they are created, changed and deleted, and their members join,
 * leave and expire, while the switch runs. Every change builds a whole new job table and publishes
 * it (ppe_publish_jobs); the workers switch to it between two packets.
 *
 * A change is made as a whole, or refused with a reason; then nothing has changed. Both are logged
 * with the caller (ctrl/log.h). Each change waits for a loop turn of the slowest worker.
 *
 * A dry run (ctrl_running.is_dry_run) is refused as the change would be, or returns 0. It takes the
 * same way up to ctrl_jobs_publish, which asks the engines whether they would take the table;
 * nothing changes, and nothing is logged.
 *
 * A deleted job is out of the table at once, and its packets are dropped as unknown_job. Its memory
 * is freed when the last result in it has been sent; until then the job is *leaving* ("draining").
 * Its name and id are free at once, unless the configuration has them: that job is back at the next
 * start. A new job of an id begins with the generation after the last one of the id, so that
 * packets in flight are stale in it.
 *
 * A *temporary* job is deleted when its last member leaves or expires, and when no member has
 * joined for expire_s after its creation. Clients without a token may make them, and delete those
 * that such clients have made, as api.open_jobs allows: these jobs are *open*.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_JOBS_H
#define CTRL_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "ctrl/config/job.h"
#include "ctrl/log.h"
#include "ctrl/jobs/running.h"

/* Reasons to refuse a change: name, code of the control API, HTTP's status. */
#define CTRL_REFUSALS(X)                                                                           \
	X(RANGE, "out_of_range", 400)                                                              \
	X(QUOTA, "quota", 403)                                                                     \
	X(MEMBER, "unknown_member", 404)                                                           \
	X(EXISTS, "exists", 409)                                                                   \
	X(CONFLICT, "conflict", 409)                                                               \
	X(BUSY, "busy", 503)                                                                       \
	X(FULL, "no_free_job", 507)                                                                \
	X(MEMORY, "no_memory", 507)

enum ctrl_refused {
#define X(name, code, status) CTRL_REFUSED_##name,
	CTRL_REFUSALS(X)
#undef X
};

/* Why a change was refused. */
struct ctrl_refusal {
	enum ctrl_refused code;
	char key[CTRL_PATH_MAX]; /* the wrong key, as in the API; "": not a single key */
	char message[320]; /* what is wrong and what to do */
	struct ppe_room room; /* of CTRL_REFUSED_MEMORY */
};

/* The settings of a running job. */
struct ctrl_job_spec ctrl_job_settings(const struct ctrl_job *job);

/*
 * All functions with `who`: who is the caller, for the log. They return 0; or -EINVAL and *why: the
 * change is refused, and nothing has changed.
 *
 * Create a job for a tenant (NULL: for none); *job is it. In a dry run it is there until the caller
 * has answered, and calls ctrl_jobs_undo. 0 elements become as many as fit (ctrl_fit_elements), and
 * CTRL_ALLTOALL_FIT becomes one of the others.
 */
int ctrl_job_create(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, const char *who, struct ctrl_job **job,
	struct ctrl_refusal *why);

/* Forget all that has not been published: drafts, and new and deleted jobs. */
void ctrl_jobs_undo(struct ctrl_running *running);

/* Change the settings of a job that differ in `next`. Does not disturb blocks in flight. If no
 * setting differs, nothing is done or logged. */
int ctrl_job_change(struct ctrl_running *running, struct ctrl_job *job,
	const struct ctrl_job_spec *next, const char *who, struct ctrl_refusal *why);

/* Delete a job; `job` is gone on success. *leaving: its last results are still to be sent. */
int ctrl_job_delete(struct ctrl_running *running, struct ctrl_job *job, const char *who,
	bool *leaving, struct ctrl_refusal *why);

/* Delete the jobs of these ids, if any, with one publication: all of them, or none. *leaving: how
 * many still have results to send. */
int ctrl_jobs_delete(struct ctrl_running *running, const bool ids[WEIR_JOBS_MAX], const char *who,
	unsigned int *leaving, struct ctrl_refusal *why);

/*
 * A host joins with a rank, for a job of this size (in a tree: its number of ranks). Each join
 * makes a new membership, whose number is the epoch of the member's key: a former process of this
 * rank can no longer join generations. In a job of the configuration, the file lists the hosts, and
 * nothing changes. A host can't join a job whose sources are switches.
 */
int ctrl_member_join(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank,
	unsigned int size, uint32_t address, const char *who, struct ctrl_refusal *why);

/* May a host at this address join a job of this size with this rank? 0, or refused. */
int ctrl_member_check(const struct ctrl_running *running, unsigned int rank, unsigned int size,
	uint32_t address, struct ctrl_refusal *why);

/* May the process that joined with this number (ctrl_member.membership) remove the member of this
 * rank? Not if another process has joined in its place since. */
bool ctrl_member_is(const struct ctrl_job *job, unsigned int rank, uint64_t membership);

/* A member leaves. Members of a job of the configuration stay its sources. `job` is freed if it is
 * temporary and this was its last member. */
int ctrl_member_leave(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank,
	const char *who, struct ctrl_refusal *why);

/* Each second: forget jobs that have left, expire members that were silent too long, and delete
 * temporary jobs without members. */
void ctrl_jobs_tick(struct ctrl_running *running);

/* The number of members now; for a job of the configuration, of its sources. */
unsigned int ctrl_job_joined(const struct ctrl_job *job);

/* Free a job and all that it owns. NULL is fine. */
void ctrl_job_free(struct ctrl_job *job);

/*
 * -- a reload: a new configuration for a running switch, applied as a whole or refused as a whole
 *
 * Only the differences between the former file and the next one are applied. A job that is the same
 * in both stays as it is, with all that the API has changed in it.
 */

/* Keys that a reload may change, with all keys below them; NULL-terminated. */
extern const char *const ctrl_reload_keys[];

/* 0; or -EINVAL, and `error` names all changed keys that can't change at run time. Pure. */
int ctrl_reload_check(const struct ctrl_config *now, const struct ctrl_config *next, char *error,
	size_t error_size);

/*
 * Replace running->config by a configuration that passed the check, with its jobs and tenants. A
 * job with another shape is replaced: the former job leaves, and the next one begins after its
 * generations. 0: running->config is `next`, with the sizes that the switch was built with, and
 * nothing points into the former one. -EINVAL and *why: nothing has changed. Waits for a loop turn
 * of the slowest worker.
 */
int ctrl_reload_apply(struct ctrl_running *running, struct ctrl_config *next, const char *who,
	struct ctrl_reloaded *done, struct ctrl_refusal *why);

/*
 * Replace the faults of the running switch, and log it; no rules: no faults. 0; or -errno of
 * ppe_publish_faults with *why, and nothing has changed. Waits for a loop turn of the slowest
 * worker.
 */
int ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults, const char *who,
	struct ctrl_refusal *why);

/*
 * -- what tenants, and clients without a token, use
 *
 * A quota is checked when a job is created or changed; a job keeps what it has.
 */

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

/* The engines, as the registry uses them. Tests replace them. */
struct ctrl_engine {
	int (*publish)(struct ppe *ppe, const struct ppe_jobs *jobs);
	int (*check)(struct ppe *ppe, const struct ppe_jobs *jobs); /* what publish would return */
	void (*room)(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *room);
	unsigned int (*reap)(struct ppe *ppe);
	bool (*is_leaving)(const struct ppe *ppe, uint8_t id, uint32_t instance);
	uint16_t (*generation_after)(struct ppe *ppe, uint8_t id);
	/* The generation that a job runs in; 0: none yet. */
	uint16_t (*generation)(const struct ppe *ppe, uint8_t id);
	/* Seconds since the last packet of a source; negative: none yet. */
	double (*silent)(const struct ppe *ppe, uint8_t id, uint8_t source);
	/* A stuck worker, which a change would wait for; -1: none. */
	int (*stuck)(struct ctrl_running *running);
	/* A parent of a job; zeros where there is none. */
	int (*parent)(const struct ppe *ppe, uint8_t id, unsigned int parent,
		struct ppe_parent_stats *stats);
};

extern const struct ctrl_engine ctrl_engine_ppe;

#endif
