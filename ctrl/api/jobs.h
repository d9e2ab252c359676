/* SPDX-License-Identifier: BSD-3-Clause */
/* What the resources of jobs and members share. */
#ifndef CTRL_API_JOBS_H
#define CTRL_API_JOBS_H

#include <stdbool.h>

#include <jansson.h>

#include "ctrl/jobs/jobs.h"
#include "ctrl/jobs/membership.h"

struct api_call;

/* The job of parameter[0], if the caller may see it; else NULL, and 404 is answered. */
struct ctrl_job *api_find_job(struct api_call *call);

/* Likewise one that is leaving; NULL: none, and nothing is answered. */
const struct ctrl_job *api_find_leaving(const struct api_call *call);

/* A job, with its members (whole) or without. New, or NULL. */
json_t *api_job_json(const struct ctrl_running *running, const struct ctrl_job *job, bool whole);

/*
 * Is there a member of this rank, whether it has joined or not? Ranks of a job of the configuration
 * are its sources' ids, which need not follow each other.
 */
bool api_has_rank(const struct ctrl_job *job, unsigned int rank);

/* Who a member is and what it does: rank, address, last_heard, state, gone, asks, contested. */
void api_put_presence(json_t *object, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank,
	const struct ppe_source_stats *source);

/* A member of a job; waits_us: how long blocks wait for it now. New, or NULL. */
json_t *api_member_json(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ctrl_membership *membership, unsigned int rank, uint64_t waits_us);

/* How long open blocks wait for each source now; 0 where none does. waits_us: zeros. Cost: the job's
 * window, and 256 bits each. */
void api_read_waits(const struct ctrl_running *running, const struct ctrl_job *job,
	uint64_t waits_us[WEIR_SOURCES_MAX]);

/* Seconds since a source was heard, also of one that has left or expired since. false: it never was. */
bool api_silence(const struct ctrl_job *job, unsigned int rank,
	const struct ppe_source_stats *source, double *silent);

/* Has it left or expired? */
bool api_is_gone(const struct ctrl_job *job, unsigned int rank);

/* Answer a refusal. prefix: the key's place in the body, such as "create", or NULL. */
void api_answer_refusal(struct api_call *call, const struct ctrl_refusal *why, const char *prefix);

/* The caller, for the log. */
struct ctrl_log_who api_who(const struct api_call *call);

/*
 * May the caller choose the id that the object has, if it has one? Administrators alone: ids are on
 * the wire, and what still flies for a job that was another's would find them. prefix: as above.
 * False: answered.
 */
bool api_may_id(struct api_call *call, const json_t *object, const char *prefix);

/* Read a new job that passed its check. name, size: if the object has none. */
struct ctrl_job_spec api_read_spec(const json_t *object, const char *name, unsigned int size);

#endif
