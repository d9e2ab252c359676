/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which sources are in a job, and the state of the job that follows. All views of a job use it.
 *
 * A job runs while a generation is alive: all its sources are in it, none has left, expired or
 * asked to join the next one, which a host that was started again does. A source that asks has
 * given up the running generation; from then on the job waits for the others to ask, too.
 */
#ifndef CTRL_MEMBERSHIP_H
#define CTRL_MEMBERSHIP_H

#include "ctrl/jobs/running.h"

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

#endif
