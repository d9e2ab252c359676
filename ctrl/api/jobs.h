/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and their members, for the resources that name them. */
#ifndef CTRL_API_JOBS_H
#define CTRL_API_JOBS_H

#include <stdbool.h>

#include <jansson.h>

#include "ctrl/api/call.h"
#include "ctrl/jobs/jobs.h"

/* May the caller, admitted by API_READ or more, see this job? False if job is NULL. */
bool api_may_see(const struct api_call *call, const struct ctrl_job *job);

/* Does the job have a member of this rank, joined or not? Ranks of a job of the configuration are
 * its sources' ids, which may have gaps. */
bool api_has_rank(const struct ctrl_job *job, unsigned int rank);

/* A source that others wait for is likely dead after this time without a packet: a living host
 * repeats its contributions many times meanwhile. */
#define API_SILENT_US UINT64_C(3000000)

/* Put a member's rank, address, last_heard, silent, state, gone, asks and contested; of a switch,
 * ranks, name and api too. The job's snapshot has its detail. */
void api_put_presence(json_t *object, const struct ctrl_job_snapshot *job, unsigned int rank);

/* Seconds from a source's last packet to the snapshot, also if it has left or expired since. False:
 * it was never heard. */
bool api_silence(const struct ctrl_job_snapshot *job, unsigned int rank, double *silent);

/* Has the member left or expired? */
bool api_is_gone(const struct ctrl_job *job, unsigned int rank);

/* The job of parameter[0], on the control thread; NULL: the caller may see no such job, and 404 is
 * answered. A tenant does not see other tenants' jobs. */
struct ctrl_job *api_find_job(struct api_call *call);

/* Read a new job from an object that passed its check. name, size: used if the object has none. */
struct ctrl_job_spec api_read_spec(const json_t *object, const char *name, unsigned int size);

/*
 * May the caller choose the id that the object has, if it has one? Only administrators: packets on
 * the wire name the id, and late packets of another tenant's former job would find the new one.
 * prefix: the object's place in the body, such as "create", or NULL. False: the error is answered.
 */
bool api_may_id(struct api_call *call, const json_t *object, const char *prefix);

/* May the caller make this job? Without a token, it makes open ones. prefix: as for api_may_id.
 * False: the error is answered. */
bool api_may_make(struct api_call *call, struct ctrl_job_spec *spec, const char *prefix);

/* The keys and tokens of an authenticated job need a private connection. False: the error is
 * answered. */
bool api_check_private(struct api_call *call, const struct ppe_job *shape);

/* Answer that a change is refused. prefix: as for api_may_id. */
void api_answer_refusal(struct api_call *call, const struct ctrl_refusal *why, const char *prefix);

/* Make a list's entry for a job. A new object. */
typedef json_t *(*api_job_maker)(
	const struct ctrl_config *config, const struct ctrl_job_snapshot *job);

/* A new list of the jobs that the caller may see, by id. */
json_t *api_jobs(const struct api_call *call, api_job_maker make);

#endif
