/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective program. A packet's path through it, top to bottom:
 *
 *   parse            read the aggregation header; find the room  collective.c
 *   block_entry      find the job, check the source, hop to the
 *                    owner of the block's shard                  block/admit.c
 *   block_admit      check generation, address, type, length     "
 *   block_find       search the block, or open it                block/contribution.c
 *   block_aggregate  verify the checksums, add the payload       "
 *   block_end        the last contribution fixes the result      block/block_fast.h
 *   block_emit       send the result to all sources              block/result.c
 *
 * Usual contributions skip the first three steps (block/flow_cache.c), or take no thread at all
 * (block/batch.c). Joins go to membership/, packets of parents to tree/.
 *
 * The program is three rooms. Each has one header, which says what state the room owns:
 *
 *   tree/        parents and children; a job without them never enters this room
 *   block/       the life of a block: admission, reduction, result, timeout
 *   membership/  sources of jobs: joins, generations, expulsion, keys; and what ends a packet
 *
 * A room calls the rooms below it in this list. A lower room calls a higher room only through
 * struct tree_ops and collective.forget_blocks (collective_priv.h).
 *
 * This file: the hooks of struct ppe_program. ppe/program.h says which thread calls each.
 */
#ifndef PPE_COLLECTIVE_COLLECTIVE_H
#define PPE_COLLECTIVE_COLLECTIVE_H

#include "ppe/collective/collective_priv.h"

/* jobs.c: the program's state on one worker, and a job's life in one shard. */
int collective_state_create(const struct ppe_setup *setup, void **state);
void collective_state_destroy(void *state, struct ppe_program_leaks *leaks);
void collective_memory(
	const struct ppe_config *config, const struct ppe_jobs *jobs, struct ppe_memory *memory);
int collective_job_create(
	const struct ppe_setup *setup, void *state, const struct ppe_job *job, void **shard);
void collective_job_take(void *state, uint8_t id, void *shard);
void collective_jobs_taken(void *state);
bool collective_job_idle(const void *shard);
void collective_job_destroy(void *shard, struct ppe_program_leaks *leaks);
void collective_job_memory(const struct ppe_job *job, unsigned int shard, unsigned int shards,
	struct ppe_memory *memory);
void collective_job_room(const void *state, const struct ppe_job *job, unsigned int shard,
	unsigned int shards, struct ppe_room *room);

/* statistics.c: what the control thread reads while the worker runs. */
bool collective_job_heard(const void *shard, uint8_t source, uint64_t now, uint32_t seconds);
void collective_job_stats(const void *shard, struct ppe_job_stats *stats);
void collective_job_source(const void *shard, uint8_t source, struct ppe_source_stats *stats);
void collective_job_parent(const void *shard, unsigned int parent, struct ppe_parent_stats *stats);
/* Copy a block. false: its record is being reused. */
bool collective_copy_block(const struct block *block, struct block *copy);
unsigned int collective_job_blocks(const void *shard, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max);

#endif
