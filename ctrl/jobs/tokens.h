/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank tokens. The bearer of a token joins and leaves as one rank of one job, and has no other
 * right (ctrl/api/auth.h). A launcher gives each host its own, so that no host can take another's
 * rank.
 *
 * A token is "JOB~RANK~MAC": the MAC is HMAC-SHA256 of the rank under the job's key, in hexadecimal
 * digits. So the switch stores nothing for it, and it is valid as long as its job exists. A job
 * made later under the same name has another key. Jobs of the configuration have no rank tokens:
 * their hosts have addresses or a key file.
 *
 * Any thread that may read the job.
 */
#ifndef CTRL_JOBS_TOKENS_H
#define CTRL_JOBS_TOKENS_H

#include "ctrl/jobs/running.h"

struct ctrl_rank_token {
	char text[PPE_JOB_NAME_MAX + sizeof("~255~") + 2 * WEIR_KEY_BYTES];
};

/* Make the token of a rank [0, size) of a job with members. False: no memory. Erase the token after
 * use. */
bool ctrl_rank_token(const struct ctrl_job *job, unsigned int rank, struct ctrl_rank_token *token);

/* The name of the job in a token. False: it is none. */
bool ctrl_rank_token_job(const char *text, char name[PPE_JOB_NAME_MAX]);

/* Is this a token of the job (NULL: no)? Sets its rank. The MAC is compared in constant time. Cost:
 * an HMAC. */
bool ctrl_rank_token_is(const struct ctrl_job *job, const char *text, unsigned int *rank);

#endif
