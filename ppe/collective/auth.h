/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication: the keys of a job in a shard, tags that are verified, and tags that are written
 * (collective_auth.c; the primitives are pktbuf/tag.h's). By the owner of the shard, unless it says so.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_AUTH_H
#define PPE_PROGRAMS_COLLECTIVE_AUTH_H

#include "ppe/collective/collective_priv.h"

/* The keys of a job in a shard, with room for sources [0, source_end); NULL: no memory. Control thread. */
struct job_keys *job_keys_create(const struct ppe_job *job, uint16_t source_end, int socket);
size_t job_keys_bytes(uint16_t source_end);

/* Draw what the job's challenges are made with. Control thread. -EIO: the system has no random bytes. */
int job_challenges_create(struct job_home *home);

/* Put the next challenge in home->challenge: none twice, and none that can be foreseen. */
void job_challenge_next(struct job_home *home);

/* Begin a generation: js->generation is still the former one. */
void job_keys_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES]);

/* Is the contribution (or the join) its source's? It then ends before its tag. false: it has been
 * dropped. After checksums_hold(). */
bool authentic(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);
bool authentic_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Write the tag of a finished block's result behind its payload; returns the tag's bytes. */
uint32_t tag_result(
	const struct job_shard *job, const struct block *block, void *payload, uint32_t bytes);

/* The same of a part, which is payload, then end; the tag is written behind that. */
uint32_t tag_part(const struct job_shard *job, const struct emission *emission, unsigned int rank,
	const void *payload, uint32_t bytes, void *end, uint32_t end_bytes);

/* The block's number in its generation, without wrapping. */
uint64_t block_number(const struct job_shard *job, uint32_t block);

/* Write the tag of a reply behind its payload: answered are the bytes that tie it to what it answers.
 * Returns the tag's bytes. */
uint8_t tag_reply(struct collective *state, const struct job_shard *job,
	const struct weir_header *header, const uint8_t answered[WEIR_TAG_BYTES], void *payload,
	uint8_t bytes);

#endif
