/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of jobs, for the resources that name them. Control thread. */
#ifndef CTRL_API_JOBS_H
#define CTRL_API_JOBS_H

#include <stdbool.h>

#include <jansson.h>

#include "ctrl/jobs/jobs.h"
#include "ctrl/jobs/membership.h"

struct api_call;

/* May the caller, admitted by API_READ or more, see this job? Not if there is none (NULL). */
bool api_may_see(const struct api_call *call, const struct ctrl_job *job);

/*
 * Does the job have a member of this rank, joined or not? Ranks of a job of the configuration are its sources'
 * ids, which may have gaps.
 */
bool api_has_rank(const struct ctrl_job *job, unsigned int rank);

/* Put a member's rank, address, last_heard, state, gone, asks and contested. */
void api_put_presence(json_t *object, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank,
	const struct ppe_source_stats *source);

/* Seconds since a source was heard, also if it has left or expired since. False: it was never heard. */
bool api_silence(const struct ctrl_job *job, unsigned int rank,
	const struct ppe_source_stats *source, double *silent);

/* Has it left or expired? */
bool api_is_gone(const struct ctrl_job *job, unsigned int rank);

#endif
