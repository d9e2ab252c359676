/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What leaves: results, to all or to each its own (collective_emit.c, collective_parts.c), and replies to one
 * packet. Where sources are is noted here, too, because envelopes are written then. By the owner of the
 * shard; replies by any worker.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_EMIT_H
#define PPE_PROGRAMS_COLLECTIVE_EMIT_H

#include "ppe/collective/collective_priv.h"

/* The header that all copies of the finished block's result share. */
struct weir_header result_header(const struct block *block, const struct job_shard *job);

/* Where the packet came from, as an address to answer to. */
void endpoint_of(const struct ppe_thread *thread, bool extended, struct pktbuf_endpoint *endpoint);

/* Note where a source is: endpoint and envelope. */
void source_is_at(struct ppe_worker *worker, struct job_shard *job, uint8_t source,
	const struct pktbuf_endpoint *endpoint);

/* Send a small packet to an endpoint, counted as created. payload: at most 64 bytes. */
void send_small(struct ppe_worker *worker, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes);

/* Answer the packet's sender with a status, now: `asked` with that status and no elements. payload:
 * at most 64 bytes, may be NULL. */
void reply_status(struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *asked, enum weir_status status, const void *payload,
	uint8_t bytes);

/* Prepare the emission of its parts; send one, to this source, which has an endpoint: collective_parts.c. */
void enclose_parts(struct emission *emission, const struct job_shard *job, struct block *block);
void send_part(struct ppe_worker *worker, const struct collective *state, struct emission *emission,
	struct job_shard *job, uint8_t source);

/* Prepare the emission of a finished block's result: to `only`, or to all when negative. */
void emit_block(struct ppe_worker *worker, struct ppe_thread *thread, struct block *block, int only,
	ppe_segment then);

/* The segment that sends an emission, a few packets per step. */
struct ppe_next emit(struct ppe_worker *worker, struct ppe_thread *thread);

#endif
