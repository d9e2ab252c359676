/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of jobs that change: they are created, changed and deleted, and their members join,
 * leave and expire, while the switch runs. Every change builds a whole new job table and publishes
 * it (ppe_publish_jobs); the workers go over to it between two packets.
 *
 * A change happens whole, or not at all: then it says why, and everything is as it was. Both are
 * logged with who asked (ctrl/log.h). Each costs a loop turn of the slowest worker.
 *
 * A job that is deleted is out of the table at once, and its packets are unknown_job. Its memory
 * comes back when the last result that lies in it has been sent; until then it is *leaving*
 * ("draining"). Its name and id are free at once, unless the configuration has them: that job is
 * back at the next start. A new job of an id begins with the generation after the last one that the
 * id had, so that packets which still fly are stale in it.
 *
 * A *temporary* job is deleted when its last member leaves or expires, and when none has joined for expire_s after its
 * creation. Clients without a token may make them, and delete those that such clients have made, as api.open_jobs
 * allows: these jobs are *open*.
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
	char key[CTRL_PATH_MAX]; /* what is wrong, in the words of the API; "": nothing single */
	char message[320]; /* what is wrong and what to do */
	struct ppe_room room; /* of CTRL_REFUSED_MEMORY */
};

/* The settings of a running job. */
struct ctrl_job_spec ctrl_job_settings(const struct ctrl_job *job);

/*
 * All of these: who: for the log. 0; or -EINVAL and *why: refused, nothing has changed.
 *
 * Create a job for a tenant (NULL: for none); *job is it. 0 elements become as many as fit (ctrl_fit_elements),
 * and CTRL_ALLTOALL_FIT becomes one of the others.
 */
int ctrl_job_create(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, const struct ctrl_log_who *who, struct ctrl_job **job,
	struct ctrl_refusal *why);

/*
 * Bring a job back that a former run made, with its id, members (WEIR_SOURCES_MAX, by rank) and when it was created
 * (Unix time). Its quota was checked when it was created. The caller logs.
 */
int ctrl_job_adopt(struct ctrl_running *running, struct ctrl_job_spec *spec,
	const struct ctrl_tenant *tenant, const struct ctrl_member *member, double created,
	struct ctrl_refusal *why);

/*
 * Change the settings of a job that differ in `next`, whose others are the job's own. Does not disturb
 * blocks in flight. If none differs, nothing is done or logged.
 */
int ctrl_job_change(struct ctrl_running *running, struct ctrl_job *job,
	const struct ctrl_job_spec *next, const struct ctrl_log_who *who, struct ctrl_refusal *why);

/* Delete a job; `job` is gone on success. *leaving: its last results are on their way. */
int ctrl_job_delete(struct ctrl_running *running, struct ctrl_job *job,
	const struct ctrl_log_who *who, bool *leaving, struct ctrl_refusal *why);

/* Delete the jobs of a set of ids, at least one, with one publication: bit i is job i, which exists. All or none.
 * *leaving: how many have last results on their way. */
#define CTRL_IDS_WORDS (WEIR_JOBS_MAX / 64)
int ctrl_jobs_delete(struct ctrl_running *running, const uint64_t ids[CTRL_IDS_WORDS],
	const struct ctrl_log_who *who, unsigned int *leaving, struct ctrl_refusal *why);

/*
 * A host joins with a rank, for a job of this size: of a tree, its ranks. Each join is another membership, whose number is the epoch of
 * the member's key: a former process of this rank can't join the generations any more. In a job of the configuration,
 * the file lists the hosts, and nothing changes. A host can't join a job whose sources are switches.
 */
int ctrl_member_join(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank,
	unsigned int size, uint32_t address, const struct ctrl_log_who *who,
	struct ctrl_refusal *why);

/* May a host at this address have this rank of a job of this size, which hosts join? 0, or refused. */
int ctrl_member_check(const struct ctrl_running *running, unsigned int rank, unsigned int size,
	uint32_t address, struct ctrl_refusal *why);

/*
 * May the process that joined with this number (ctrl_member.membership) remove the member of this rank? Not if
 * another process has joined in its place since.
 */
bool ctrl_member_is(const struct ctrl_job *job, unsigned int rank, uint64_t membership);

/* A member leaves. Those of a job of the configuration stay its sources. `job` is gone if it is temporary and this was its
 * last member. */
int ctrl_member_leave(struct ctrl_running *running, struct ctrl_job *job, unsigned int rank,
	const struct ctrl_log_who *who, struct ctrl_refusal *why);

/* Each second: jobs that have left are forgotten, members that were silent too long expire, and temporary jobs without
 * members are deleted. */
void ctrl_jobs_tick(struct ctrl_running *running);

/* Members that are in now; of a job of the configuration, its sources. */
unsigned int ctrl_job_joined(const struct ctrl_job *job);

/* Free what a job has, and it. NULL is fine. */
void ctrl_job_free(struct ctrl_job *job);

/* The engines, as the registry uses them. Tests put others in their place. */
struct ctrl_engine {
	int (*publish)(struct ppe *ppe, const struct ppe_jobs *jobs);
	void (*room)(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *room);
	unsigned int (*reap)(struct ppe *ppe);
	bool (*is_leaving)(const struct ppe *ppe, uint8_t id, uint32_t instance);
	uint16_t (*generation_after)(struct ppe *ppe, uint8_t id);
	/* The generation that a job runs in; 0: none yet. */
	uint16_t (*generation)(const struct ppe *ppe, uint8_t id);
	/* Seconds since a packet came from a source; negative: none yet. */
	double (*silent)(const struct ppe *ppe, uint8_t id, uint8_t source);
	/* A stuck worker, which a change would wait for; -1: none. */
	int (*stuck)(struct ctrl_running *running);
	/* A parent of a job; zeros where there is none. */
	int (*parent)(const struct ppe *ppe, uint8_t id, unsigned int parent,
		struct ppe_parent_stats *stats);
};

extern const struct ctrl_engine ctrl_engine_ppe;

#endif
