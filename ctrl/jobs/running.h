/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch as it runs: what the control API and the event loop know of it. The configuration
 * says how it began; this says how it is.
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
	/* Its last one: a number unique in this switch, and the epoch of its key; 0: not known. */
	uint64_t membership;
	double joined; /* Unix time, s */
	double last_join; /* its last join; CLOCK_MONOTONIC, s */
	double stopped_s; /* s of its silence in which the switch or its machine was stopped */
	double gone_at; /* when it left or expired; likewise */
	double last_heard; /* its last packet, of one that is gone; likewise. 0: none that is known of */
};

/* What the log has told of a parent. */
struct ctrl_parent_logged {
	bool heard, serves, lost;
	uint32_t given_up; /* as of struct ppe_parent_stats, as the next ones */
	uint8_t refused;
	uint32_t ours, theirs;
};

/* When what has changed is written. */
enum ctrl_state_due { CTRL_STATE_CLEAN, CTRL_STATE_AT_TICK, CTRL_STATE_AT_TURN };

/* A job that exists now, or has just ceased to. */
struct ctrl_job {
	const struct ppe_job *job; /* as published, or to be: `copy` */
	struct ppe_job *copy;
	struct ppe_job *next; /* to be published in place of `job`, while a change is made */
	const struct ctrl_tenant
		*tenant; /* the owner; NULL: none, as of the administrator's jobs */
	bool from_file; /* the configuration has it, and its sources */
	double created; /* Unix time, s */
	uint32_t expire_s; /* a member silent for so long is expired; 0: never */
	bool temporary; /* it ends with its last member */
	bool open; /* made by a client that api.open_jobs admits */
	double created_monotonic; /* CLOCK_MONOTONIC, s: it was made */
	bool has_series; /* a scrape has set: */
	uint16_t series; /* sources below this rank have series of their own (ctrl/api/metrics.c) */
	struct ctrl_member
		*member; /* by rank, up to ctrl_job_rank_end; NULL: the sources are given, by the
				       configuration or as switches */
	struct ctrl_parent_logged parent[PPE_PARENTS_MAX];
	json_t *shown; /* ctrl_tree_shown; NULL: the job is in no tree */
	struct ctrl_job *leaving_next; /* in ctrl_running.leaving */
};

/* What a worker did in the last second. */
struct ctrl_pulse {
	uint64_t turns, busy_turns; /* at the last tick */
	uint64_t last_turns; /* turns at the last look */
	double changed_at; /* when `last_turns` was last found changed; CLOCK_MONOTONIC, s */
	double busy; /* [0, 1]: share of the turns of the last second that found work */
};

/* What a reload has done. */
struct ctrl_reloaded {
	unsigned int created, changed, replaced, deleted; /* jobs */
	bool has_new_certificate; /* there is another one */
};

/* Reloads, by number, and the outcome of the last one (ctrl/api/config.c). */
struct ctrl_reloading {
	uint32_t asked, done; /* they differ: the owner of the loop has to do one */
	struct ctrl_log_who who; /* asks */
	struct ctrl_reloaded did;
	char refused[CTRL_ERROR_BYTES]; /* why nothing was done; "": it was */
};

struct ctrl_running {
	const struct ctrl_config *config; /* not owned; a reload puts another one there */
	uint32_t reloads; /* how often it has */
	struct ctrl_reloading reloading;
	struct ppe *ppe; /* not owned */
	double started; /* CLOCK_MONOTONIC, s */
	double started_at; /* Unix time, s */
	double ticked; /* the last tick; one is due each second */
	bool is_ready; /* packets flow; set by the owner of the loop */
	struct ctrl_job *by_id[WEIR_JOBS_MAX]; /* NULL where there is none */
	struct ctrl_job *leaving; /* deleted jobs whose last results are on their way: "draining" */
	const struct ctrl_engine *engine; /* how a change reaches `ppe` */
	uint32_t instances; /* of jobs made over the API: tells one from the next of its id */
	uint16_t reserved[WEIR_JOBS_MAX]; /* generations, by id; 0: none yet (ctrl/jobs/state.h) */
	enum ctrl_state_due
		state_due; /* when the state file is to be written (ctrl/jobs/state.h) */
	bool state_is_loaded; /* it has been read: it may be written */
	bool state_has_failed; /* it could not be */
	json_t *set_aside; /* jobs of the state that did not fit, as they are in it; or NULL */
	struct ppe_stats stats; /* of the last ctrl_running_read */
	struct ctrl_pulse pulse[PPE_WORKERS_MAX];
	bool link_is_down[PPE_PORTS_MAX]; /* at the last tick */
	bool link_was_up[PPE_PORTS_MAX]; /* at some tick */
	bool port_is_stalled[PPE_PORTS_MAX]; /* at the last tick */
	uint64_t spoofed[PPE_PORTS_MAX]; /* the ports' counters; likewise */
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

/* Call it once a second: measures what is told per second. */
void ctrl_running_tick(struct ctrl_running *running);

/* Seconds since it started. */
double ctrl_running_uptime(const struct ctrl_running *running);

/* Renew running->stats. Cost: reads every counter of every worker, and the devices' own. */
void ctrl_running_read(struct ctrl_running *running);

/*
 * The first worker that is stuck: its counter `turns` in running->stats has stood still for more than a second.
 * -1: none. Call ctrl_running_read first.
 */
int ctrl_running_stuck_worker(struct ctrl_running *running);

/* The job of a name, or NULL; those that are leaving have none. */
struct ctrl_job *ctrl_running_find_job(struct ctrl_running *running, const char *name);

/* One more than the highest rank of a job that hosts join over the control API. Its lowest is its first_rank. */
static inline unsigned int
ctrl_job_rank_end(const struct ctrl_job *job)
{
	return job->job->first_rank + job->job->nb_sources;
}

/* Has the job the rank of a host that joins over the control API? */
static inline bool
ctrl_job_has_member(const struct ctrl_job *job, unsigned int rank)
{
	return job->member != NULL && rank >= job->job->first_rank && rank < ctrl_job_rank_end(job);
}

/* What is shown of the tree of a job of this id in a configuration. New, or NULL as of ctrl_tree_shown. */
json_t *ctrl_running_shown(const struct ctrl_config *config, unsigned int id);

/* Is the job deleted, with its last results on their way? */
bool ctrl_job_is_leaving(const struct ctrl_running *running, const struct ctrl_job *job);

/* A job's counters; all zero if the engines do not have the job. */
void ctrl_running_job_stats(const struct ctrl_running *running, const struct ctrl_job *job,
	struct ppe_job_stats *stats);

/* The clocks of this page, in s. */
double ctrl_monotonic(void);
double ctrl_unix_time(void);

/*
 * One worker's pulse at time `now`, from its counters: notes a change of turns. tick: a second is
 * over, renew `busy`. Pure.
 */
void ctrl_pulse_update(
	struct ctrl_pulse *pulse, const struct ppe_worker_stats *worker, double now, bool tick);

#endif
