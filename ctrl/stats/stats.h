/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics, for people and for programs. Keys are those of the X-macro lists (ppe/drops.h,
 * PPE_JOB_COUNTERS), so that counters, names and docs/counters.md can't part.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_STATS_H
#define CTRL_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ctrl/config/config.h"
#include "ctrl/jobs/running.h"
#include "ppe/ppe.h"

/* A job's, with what tells it from others: it may be gone when this is told. */
struct ctrl_stats_job {
	char name[PPE_JOB_NAME_MAX];
	uint8_t id;
	struct ppe_job_stats count;
};

/* Everything there is to tell, read at one moment. Some 200 KiB: not for the stack. */
struct ctrl_stats {
	const struct ctrl_config *config; /* not owned; for names */
	struct ppe_stats total;
	unsigned int nb_jobs;
	struct ctrl_stats_job job[WEIR_JOBS_MAX]; /* that exist now, by id */
	bool stopped; /* the switch is destroyed, and `leaks` is what it left */
	struct ppe_leaks leaks;
};

/* Read the counters of a switch that runs, or is stopped and not destroyed. */
void ctrl_stats_read(struct ctrl_stats *stats, const struct ctrl_running *running);

/* Sum of the drops of all reasons. */
uint64_t ctrl_stats_dropped(const struct ppe_stats *total);

/*
 * received + created less sent + consumed + dropped + in flight: 0 when the books balance.
 * Exact only when traffic is at rest or the switch is stopped.
 */
int64_t ctrl_stats_off_by(const struct ppe_stats *total);

/* True if nothing is missing. */
bool ctrl_leaks_none(const struct ppe_leaks *leaks);

/* Print ports, drops that happened, jobs, workers and the books. */
void ctrl_stats_print(const struct ctrl_stats *stats, FILE *out);

/*
 * Write the same as JSON to a file, whole or not at all: beside it first, then renamed. 0 or
 * -errno, the old file is untouched then.
 */
int ctrl_stats_write(const struct ctrl_stats *stats, const char *path);

#endif
