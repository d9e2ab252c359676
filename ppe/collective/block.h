/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a block, as others than collective_block.c have a part in it: who opens, finishes and releases
 * one, and what a job that changes does to all of them. By the owner of the block's shard.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_BLOCK_H
#define PPE_PROGRAMS_COLLECTIVE_BLOCK_H

#include "ppe/collective/collective_priv.h"

/*
 * Open the block of a first contribution: collective_block.c. On success *block is listed, empty,
 * with its buffer; else the answer is the drop reason, and *status what to tell the source
 * (WEIR_STATUS_OK: nothing).
 */
enum ppe_drop block_open(struct collective *state, struct job_shard *job,
	struct contribution *contribution, uint64_t now, struct block **block,
	enum weir_status *status);

/* The block's last contribution is in, or its time is up, or it failed: fix the result. */
void block_finish(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* Release the block before this one, which is done, when every source is known to have its result. */
void block_release_previous(struct collective *state, struct job_shard *job, struct block *block);

/*
 * The source has the result of the slot's `current` or `previous`, and thus of all before it: it will
 * never send for it again. True: that was not known.
 */
bool acknowledge(struct collective *state, struct job_shard *job, struct slot *slot,
	struct block *block, uint8_t source);

/* How far the block is ahead of the one that its residue opens next, in windows' sense: 0 is that one. */
int32_t block_ahead(const struct job_shard *job, const struct slot *slot, uint32_t block);

/*
 * A contribution is held back, because not everybody has been heard in the slot's current block, which
 * is done. Expel those for whom the others wait for too long, and release what was kept for them:
 * collective_expel.c.
 */
void expel(struct collective *state, struct job_shard *job, struct slot *slot, uint64_t now);

/* Forget all blocks of the job in this shard. The next ones are the first again; or, to count on, those
 * that would have been. */
void job_shard_clear(struct collective *state, struct job_shard *job, bool count_on);

/* Sources of a job without joins have left, and others may have come: ranks are others, too. Forget the
 * blocks that depend on them; those that were open, and what is open with a contribution of who left,
 * are the next ones of their residues again. */
void job_shard_regroup(
	struct collective *state, struct job_shard *job, const uint64_t left[MASK_WORDS]);

/* Begin a generation in this shard: forget the former one's blocks, pin the endpoints of those who
 * joined. false: one of them is no member here, or from elsewhere: home and shard have different
 * tables. */
bool job_shard_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const struct job_home *home);

/* End the generation in this shard: forget its blocks, and take nothing of its sources any more. Its
 * number, its keys and how far its blocks have come stay, to answer them with. */
void job_shard_revoke(struct collective *state, struct job_shard *job);

/* Note the ranks of the generation's sources: those of the mask. collective_job.c. */
void rank_sources(struct job_shard *job, const uint64_t sources[MASK_WORDS]);

/*
 * What is not reduced: collective_place.c.
 *
 * Put a contribution's payload where its row says, once it is admitted.
 */
void place_payload(const struct job_shard *job, const struct rte_mbuf *packet,
	const struct contribution *contribution, struct block *block);

/* Does the length of a contribution that is not reduced fit its part, and the job? size: of an element. */
bool part_fits(const struct job_shard *job, const struct ppe_job *table,
	const struct contribution *contribution, uint32_t size);

/* Of a partial result: zeros in place of what is missing. Owner of the block's shard. */
void clear_missing(const struct job_shard *job, struct block *block);

/* Is what all others wait for, the root's, missing? */
bool root_is_missing(const struct job_shard *job, const struct block *block);

#endif
