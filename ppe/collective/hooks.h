/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's contract with the engine, struct ppe_program, but for its segments: its life on a worker, and
 * a job's life in a shard; and what these need of collective_refuse.c and collective_age.c. Threads are those that
 * ppe/program.h names.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_HOOKS_H
#define PPE_PROGRAMS_COLLECTIVE_HOOKS_H

#include "ppe/collective/collective_priv.h"

/* The program's life on one worker: collective_state.c. */
int collective_state_create(const struct ppe_setup *setup, void **state);
void collective_state_destroy(void *state, struct ppe_program_leaks *leaks);
void collective_stats(const void *state, struct ppe_stats *stats);

/* Set up how many strangers a worker answers, `per_second`: collective_refuse.c. 0 or -errno. */
int refusals_init(struct collective *state, uint32_t per_second);

/* A job's life in one shard: collective_job.c. */
int collective_job_create(
	const struct ppe_setup *setup, void *state, const struct ppe_job *job, void **shard);
void collective_job_take(void *state, uint8_t id, void *shard);
void collective_jobs_taken(void *state);
bool collective_job_idle(const void *shard);
void collective_job_destroy(void *shard, struct ppe_program_leaks *leaks);
void collective_job_stats(const void *shard, struct ppe_job_stats *stats);
void collective_job_source(const void *shard, uint8_t source, struct ppe_source_stats *stats);
unsigned int collective_job_blocks(const void *shard, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max);

/* The job has another timeout or policy: look at its open blocks anew. */
void age_anew(struct collective *state, const struct job_shard *job);

/* When there is something to do for it: struct ppe_timer. */
uint64_t age_earliest(const void *state);

#endif
