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

#include "ctrl/config.h"
#include "ppe/ppe.h"

/* A job that exists now. */
struct ctrl_job {
	const struct ppe_job *job; /* as published */
	const struct ctrl_tenant *tenant; /* whose it is; NULL: nobody's, the administrator's */
	bool from_file; /* the configuration has it */
	double created; /* Unix time, s */
};

/* What a worker did in the last second. */
struct ctrl_pulse {
	uint64_t turns, busy_turns; /* at the last tick */
	uint64_t seen; /* turns at the last look */
	double changed; /* when `seen` was last found changed; CLOCK_MONOTONIC, s */
	double busy; /* [0, 1]: share of the turns of the last second that found work */
};

struct ctrl_running {
	const struct ctrl_config *config; /* not owned */
	struct ppe *ppe; /* not owned */
	double started; /* CLOCK_MONOTONIC, s */
	double started_at; /* Unix time, s */
	bool ready; /* packets flow; set by the owner of the loop */
	struct ctrl_job *by_id[WEIR_JOBS_MAX]; /* NULL where there is none */
	struct ppe_stats stats; /* of the last ctrl_running_read */
	struct ctrl_pulse pulse[PPE_WORKERS_MAX];
};

/*
 * Take over a built switch with the jobs of its configuration. 0, or -ENOMEM. Both must outlive
 * the result; ctrl_running_destroy (NULL is fine) leaves them as they are.
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
 * The first worker that has not turned for more than a second, by the counters of running->stats;
 * -1: all turn. Call ctrl_running_read first.
 */
int ctrl_running_stuck_worker(struct ctrl_running *running);

/* The job of a name, or NULL. */
struct ctrl_job *ctrl_running_find_job(struct ctrl_running *running, const char *name);

/* A job's counters; all zero when the engines do not know it. */
void ctrl_running_job_stats(const struct ctrl_running *running, const struct ctrl_job *job,
	struct ppe_job_stats *stats);

/* The clocks of this page, in s. */
double ctrl_monotonic(void);
double ctrl_unix_time(void);

/*
 * One worker's pulse at time `now`, from its counters: notes a change of turns. tick: a second is
 * over, renew `busy`. Pure.
 */
void ctrl_pulse_feel(
	struct ctrl_pulse *pulse, const struct ppe_worker_stats *worker, double now, bool tick);

#endif
