/* SPDX-License-Identifier: BSD-3-Clause */
/* Inline operations of the block room, for each contribution. Functions that change a shard or a
 * block are for its owner; the others are for any thread. */
#ifndef PPE_COLLECTIVE_BLOCK_BLOCK_FAST_H
#define PPE_COLLECTIVE_BLOCK_BLOCK_FAST_H

#include "ppe/collective/block/block.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/membership/membership.h"

static inline bool
slot_source_has(const struct slot *slot, const struct block *block, uint8_t source)
{
	if (mask_test(block->received, source))
		return true;
	return block != slot->current &&
		(mask_test(slot->current->heard, source) ||
			mask_test(slot->current->received, source));
}

static inline uint64_t
block_key(uint16_t generation, uint8_t job, uint32_t block)
{
	return (uint64_t)generation << 40 | (uint64_t)job << 32 | block;
}

/* Is this pointer from an earlier segment still the block of that key? */
static inline bool
block_is(const struct block *block, uint64_t key)
{
	return block->hash.live && block->hash.key == key;
}

/* Have all sources that are not expelled contributed to the block? */
static inline bool
block_is_full(const struct job_shard *job, const struct block *block)
{
	uint64_t all[MASK_WORDS];

	if (block->heard_count < job->target)
		return false;
	if (likely(job->target == job->nb_sources))
		return true;
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		all[i] = block->heard[i] | job->expelled[i];
	return mask_count(all) >= job->nb_sources;
}

/* End a block that is complete, timed out or failed. Returns whether its result is to be sent. In a
 * job with parents the sum goes to a parent, and there is no result yet. */
static inline bool
block_end(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status)
{
	if (unlikely(job->special))
		return block_end_special(state, job, block, status);
	block_finish(state, job, block, status);
	return true;
}

/* Do the job's sources send accumulators of this type and operation as they are? */
static inline bool
block_comes_wide(
	const struct collective *state, const struct job_shard *job, uint8_t dtype, uint8_t op)
{
	return job->children && !job->narrow && state->wide[dtype][op].reduce != NULL;
}

/* Does the result of this done block differ by receiver? A failed block's does not. */
static inline bool
block_result_differs(const struct block *block)
{
	return unlikely(block->per_receiver) &&
		(block->status == WEIR_STATUS_OK || block->status == WEIR_STATUS_PARTIAL);
}

/* Prefetch the bucket of an admitted contribution, for block_find. */
static inline void
block_start_bucket(struct collective *state, struct job_shard *js, struct contribution *c)
{
	hash_begin(state->blocks, block_key(js->hop.generation, js->job, c->header.block_id),
		&c->probe);
	rte_prefetch0(&js->slot[c->header.block_id & (js->window - 1u)]);
}

/* Verify the checksums, and the CRC if packets have it. false: the packet has been dropped. */
static __rte_always_inline bool
block_is_undamaged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job)
{
	return checksums_hold(worker, thread) &&
		(likely(job->crc_bytes == 0) || hop_crc_holds(worker, thread, job));
}

/* The reason why block_is_undamaged() would drop the packet; PPE_DROP_COUNT: it would not. Only
 * reads. */
static inline enum ppe_drop
block_damage(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct job_shard *job)
{
	enum ppe_drop reason = checksums_damage(worker, thread);

	return reason == PPE_DROP_COUNT && job->crc_bytes != 0 && !hop_crc_is_right(thread)
		? PPE_DROP_CRC
		: reason;
}

/* Complete a source's header from its job, which has the source. Returns the worker of the block's
 * shard. */
static inline uint16_t
block_complete_header(
	const struct ppe_worker *worker, const struct ppe_job *j, struct weir_header *h)
{
	if (!h->extended) {
		h->collective =
			h->grad_cnt != 0 ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER;
		h->dtype = j->dtype;
		h->op = j->op;
	}
	h->block_id = ppe_job_block(j, h->block_id);
	return (uint16_t)ppe_job_shard(j, h->block_id, worker->workers);
}

/* Prefetch lines [from, to) of the payload, as far as it goes; the hardware prefetcher continues. A
 * whole large payload would evict what other threads have prefetched. */
static inline void
block_start_payload(
	const struct ppe_thread *thread, const struct contribution *c, uint32_t from, uint32_t to)
{
	const uint8_t *payload =
		rte_pktmbuf_mtod_offset(thread->packet, const uint8_t *, c->payload);
	uint32_t end = RTE_MIN(to * RTE_CACHE_LINE_SIZE, c->bytes);

	for (uint32_t at = from * RTE_CACHE_LINE_SIZE; at < end; at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(payload + at);
}

/* struct block.agreement of the open block to which a contribution belongs. */
static inline uint64_t
block_agreement(const struct weir_header *h, bool final)
{
	const struct block b = {.grad_cnt = h->grad_cnt,
		.state = BLOCK_OPEN,
		.final = final,
		.collective = h->collective,
		.op = h->op,
		.dtype = h->dtype,
		.root = h->root};

	return b.agreement;
}

/* Note that a source completed a block that had waited since `since`. */
static inline void
block_was_last(struct source_late *late, uint64_t since, uint64_t now)
{
	late->last++;
	if ((int64_t)(late->until - since) > 0)
		since = late->until;
	late->waited += now - since;
	late->until = now;
}

/* Reduce elements into the buffer of a block that has a reduction; the first ones initialize it. */
static inline void
block_add_elements(const struct block *b, const void *from, bool first)
{
	void *to = rmw_buffer_data(b->buffer);

	(first ? b->reduction->begin : b->reduction->reduce)(to, &from, 1, b->grad_cnt);
}

static inline void
block_add_payload(const struct rte_mbuf *packet, const struct contribution *c,
	const struct block *b, bool first)
{
	if (unlikely(packet->data_len < c->payload + c->bytes))
		block_add_pieces(packet, c, b, first);
	else
		block_add_elements(
			b, rte_pktmbuf_mtod_offset(packet, const uint8_t *, c->payload), first);
}

#endif
