/* SPDX-License-Identifier: BSD-3-Clause */
/* Members in answers: of a job, and of blocks that wait for them. Control thread. */
#ifndef CTRL_API_MEMBER_H
#define CTRL_API_MEMBER_H

#include <jansson.h>

#include "ctrl/jobs/membership.h"

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

#endif
