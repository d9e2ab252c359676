/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The running switch, as the control API and the event loop see it. The configuration describes its
 * start; this describes its current state.
 *
 * Thread safety: for the one control thread. Nothing here waits for longer than a loop turn of the
 * workers.
 */
#ifndef CTRL_RUNNING_H
#define CTRL_RUNNING_H

#include <stdbool.h>
#include <stdint.h>

#include "ctrl/config/config.h"
#include "ppe/ppe.h"

struct ctrl_engine; /* ctrl/jobs/jobs.h */
struct ctrl_history;
struct ctrl_program;

enum ctrl_member_state {
	CTRL_MEMBER_EXPECTED, /* it has not joined */
	CTRL_MEMBER_JOINED,
	CTRL_MEMBER_EXPIRED, /* it was silent for longer than the job allows */
	CTRL_MEMBER_LEFT,
};

/* A source of a job that hosts join over the control API. */
struct ctrl_member {
	enum ctrl_member_state state;
	uint32_t address; /* host order; not of expected ones */
	/* The last membership: a number unique in this switch, and the epoch of its key; 0: not
	 * known. */
	uint64_t membership;
	double joined; /* Unix time, s */
	double last_join; /* CLOCK_MONOTONIC, s */
	double stopped_s; /* time of its silence in which the switch or its machine was stopped */
	double gone_at; /* when it left or expired; CLOCK_MONOTONIC, s */
	/* Last packet of a member that is gone; CLOCK_MONOTONIC, s; 0: not known. */
	double last_heard;
};

/* What has been logged of a parent. */
struct ctrl_parent_logged {
	bool heard, serves, lost;
	uint32_t given_up; /* this and the following: as in struct ppe_parent_stats */
	uint8_t refused;
	uint32_t ours, theirs;
};

/* When to write changes to the state file. */
enum ctrl_state_due { CTRL_STATE_CLEAN, CTRL_STATE_AT_TICK, CTRL_STATE_AT_TURN };

/* A job that exists, or is leaving. */
struct ctrl_job {
	const struct ppe_job *job; /* as published, or to be published: `copy` */
	struct ppe_job *copy;
	struct ppe_job *next; /* to be published in place of `job`, while a change is made */
	const struct ctrl_tenant *tenant; /* the owner; NULL: none, as for jobs of administrators */
	bool from_file; /* the configuration has it, and its sources */
	double created; /* Unix time, s */
	uint32_t expire_s; /* a member silent for so long is expired; 0: never */
	bool temporary; /* it is deleted with its last member */
	bool open; /* made by a client that api.open_jobs admits */
	double created_monotonic; /* CLOCK_MONOTONIC, s */
	bool has_series; /* `series` is set */
	uint16_t series; /* its first ranks that have series of their own in /metrics */
	/* By rank, up to ctrl_job_rank_end; NULL: the configuration has the sources, or they are
	 * switches. */
	struct ctrl_member *member;
	struct ctrl_parent_logged parent[PPE_PARENTS_MAX];
	json_t *shown; /* ctrl_tree_shown; NULL: the job is in no tree */
	struct ctrl_job *leaving_next; /* in ctrl_running.leaving */
};

/* What a worker did in the last second. */
struct ctrl_pulse {
	uint64_t turns, busy_turns; /* at the last tick */
	uint64_t last_turns; /* turns at the last update */
	double changed_at; /* when last_turns last changed; CLOCK_MONOTONIC, s */
	double busy; /* [0, 1]: share of the turns of the last second that found work */
};

/* What a reload has done; a dry run: what it would do. */
struct ctrl_reloaded {
	unsigned int created, changed, replaced, deleted; /* jobs */
	unsigned int tenants; /* of the file */
	bool has_new_certificate;
};

/* Reloads, by number, and the outcome of the last one (ctrl/api/config.c). */
struct ctrl_reloading {
	uint32_t asked, done; /* they differ: the owner of the loop must reload */
	char who[112]; /* asks, for the log */
	struct ctrl_reloaded did;
	char refused[CTRL_ERROR_BYTES]; /* why the last one was refused; "": it was not */
};

/* Two kinds of a change that a caller asks for. */
enum { CTRL_REAL, CTRL_DRY, CTRL_KINDS };

struct ctrl_running {
	const struct ctrl_config *config; /* not owned; a reload replaces it */
	uint32_t reloads; /* how often a reload has replaced it */
	struct ctrl_reloading reloading[CTRL_KINDS]; /* CTRL_DRY: files that are only checked */
	/* The change that is being made is a dry run: the registry checks it as any other, and then
	 * does nothing. Set by the owner of the loop while it makes one such change. */
	bool is_dry_run;
	struct ppe *ppe; /* not owned */
	double started; /* CLOCK_MONOTONIC, s */
	double started_at; /* Unix time, s */
	double ticked; /* the last tick; one is due each second */
	bool is_ready; /* packets flow; set by the owner of the loop */
	struct ctrl_job *by_id[WEIR_JOBS_MAX]; /* NULL where there is none */
	/* by_id as published; they differ only while a change is made (ctrl/jobs/jobs_priv.h). */
	struct ctrl_job *published[WEIR_JOBS_MAX];
	struct ctrl_program *programs; /* that are loaded (ctrl/programs/programs.h) */
	struct ctrl_job *leaving; /* deleted jobs with results still to be sent: "draining" */
	const struct ctrl_engine *engine; /* how a change reaches `ppe` */
	/* Number of jobs made over the API; distinguishes jobs of the same id. */
	uint32_t instances;
	uint16_t reserved[WEIR_JOBS_MAX]; /* generations, by id; 0: none yet (ctrl/jobs/state.h) */
	/* When the state file is to be written (ctrl/jobs/state.h). */
	enum ctrl_state_due state_due;
	bool state_is_loaded; /* the state file has been read, and may be written */
	bool state_has_failed; /* the last write failed */
	json_t *set_aside; /* jobs of the state that did not fit, as in the state; or NULL */
	struct ppe_stats stats; /* of the last ctrl_running_read */
	struct ctrl_pulse pulse[PPE_WORKERS_MAX];
	bool link_is_down[PPE_PORTS_MAX]; /* at the last tick */
	bool link_was_up[PPE_PORTS_MAX]; /* at some tick */
	bool port_is_stalled[PPE_PORTS_MAX]; /* at the last tick */
	uint64_t spoofed[PPE_PORTS_MAX]; /* the ports' counters at the last tick */
	bool guard_is_full; /* it has been logged */
	struct ctrl_history *history; /* not owned; NULL: none is kept (ctrl/stats/history.h) */
};

/*
 * Describe a built switch, with the jobs of its configuration. 0, or -ENOMEM. The configuration
 * must outlive the result. ctrl_running_destroy (NULL is fine) frees jobs that the switch may run
 * on: destroy that first.
 */
int ctrl_running_create(
	const struct ctrl_config *config, struct ppe *ppe, struct ctrl_running **running);
void ctrl_running_destroy(struct ctrl_running *running);

/* Call once a second: measure rates. */
void ctrl_running_tick(struct ctrl_running *running);

/* Renew running->stats. Cost: reads every counter of every worker, and the devices' own. */
void ctrl_running_read(struct ctrl_running *running);

/*
 * The first worker that is stuck: its counter `turns` in running->stats has stood still for more
 * than a second.
 * -1: none. Call ctrl_running_read first.
 */
int ctrl_running_stuck_worker(struct ctrl_running *running);

/* The job of a name, or NULL; those that are leaving have none. */
struct ctrl_job *ctrl_running_find_job(const struct ctrl_running *running, const char *name);

/* The job with the lowest id from this one on, or NULL. */
struct ctrl_job *ctrl_running_next_job(const struct ctrl_running *running, unsigned int id);

/* For each job, by id; not those that are leaving. The body may free no job. */
#define CTRL_FOREACH_JOB(at, running)                                                              \
	for (struct ctrl_job *at = ctrl_running_next_job(running, 0); at != NULL;                  \
		at = ctrl_running_next_job(running, at->job->id + 1u))

/* One more than the highest rank of a job that hosts join over the control API. The lowest rank is
 * its first_rank. */
static inline unsigned int
ctrl_job_rank_end(const struct ctrl_job *job)
{
	return job->job->first_rank + job->job->nb_sources;
}

/* Does the job have this rank, for a host that joins over the control API? */
static inline bool
ctrl_job_has_member(const struct ctrl_job *job, unsigned int rank)
{
	return job->member != NULL && rank >= job->job->first_rank && rank < ctrl_job_rank_end(job);
}

/* ctrl_tree_shown of the job of this id in a configuration. */
json_t *ctrl_running_shown(const struct ctrl_config *config, unsigned int id);

/* Is the job deleted, with results still to be sent? */
bool ctrl_job_is_leaving(const struct ctrl_running *running, const struct ctrl_job *job);

/* A job's counters; all zero if the engines do not have the job. */
void ctrl_running_job_stats(const struct ctrl_running *running, const struct ctrl_job *job,
	struct ppe_job_stats *stats);

/*
 * -- which sources are in a job, and the state of the job that follows, for all views of a job
 *
 * A job runs while a generation is alive: all its sources are in it, none has left, expired or
 * asked to join the next one, which a host that was started again does. A source that asks has
 * given up the running generation; from then on the job waits for the others to ask, too.
 */

enum ctrl_job_state {
	CTRL_JOB_JOINING, /* it waits for sources */
	CTRL_JOB_RUNNING,
	CTRL_JOB_IDLE, /* it has run, and all its sources have left */
	CTRL_JOB_DRAINING, /* it is deleted, and its last results are still to be sent */
};

struct ctrl_membership {
	enum ctrl_job_state state;
	uint64_t in[WEIR_SOURCES_MAX / 64]; /* bit s: source s is in; of a joining job, asks */
	unsigned int joined; /* the number of sources in `in` */
	bool is_join_requested; /* some source asks for the next generation */
	bool is_abandoned; /* ctrl_job_is_abandoned */
};

/* Are all sources that contributed to the job's blocks gone, so that no host waits for results? */
bool ctrl_job_is_abandoned(const struct ctrl_job *job, const struct ppe_job_stats *stats);

/* stats: the job's, as just read (ctrl_running_job_stats). Control thread. */
void ctrl_membership_of(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ppe_job_stats *stats, struct ctrl_membership *membership);

static inline bool
ctrl_membership_has(const struct ctrl_membership *membership, unsigned int rank)
{
	return (membership->in[rank / 64] >> (rank % 64) & 1) != 0;
}

/* "joining", ...: of the API. A literal. */
const char *ctrl_job_state_text(enum ctrl_job_state state);

/* -- parents of a job in a tree. Any thread. */

/* What a job and its parent's job differ in, and what must hold, for people. setting: as in struct
 * ppe_parent_stats, not PPE_PARENT_AGREES. */
struct ctrl_parent_words {
	const char *setting, *rule;
};
struct ctrl_parent_words ctrl_parent_words(unsigned int setting);

/* Why a parent does not accept this switch's joins, for people: "window 32 here, 64 there: must be
 * equal". */
struct ctrl_refusal_text {
	char text[192];
};
struct ctrl_refusal_text ctrl_parent_refusal(const struct ppe_parent_stats *stats);

/* -- clocks and workers */

/* CLOCK_MONOTONIC and Unix time, in s. */
double ctrl_monotonic(void);
double ctrl_unix_time(void);

/* Update a worker's pulse at time `now` from its counters. tick: a second is over, renew `busy`.
 * Pure. */
void ctrl_pulse_update(
	struct ctrl_pulse *pulse, const struct ppe_worker_stats *worker, double now, bool tick);

#endif
