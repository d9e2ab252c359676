/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done for each contribution, inline: sets of sources, a block's key and state, the time at which a
 * source was heard, checksums. What changes a shard or a block is its owner's; what only looks at a packet, a set
 * or a time, anybody's.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_FAST_H
#define PPE_PROGRAMS_COLLECTIVE_FAST_H

#include "ppe/collective/collective_priv.h"

static inline bool
mask_test(const uint64_t mask[MASK_WORDS], uint8_t source)
{
	return (mask[source / 64] >> (source % 64) & 1) != 0;
}

static inline void
mask_clear(uint64_t mask[MASK_WORDS], uint8_t source)
{
	mask[source / 64] &= ~(UINT64_C(1) << (source % 64));
}

static inline void
mask_set(uint64_t mask[MASK_WORDS], uint8_t source)
{
	mask[source / 64] |= UINT64_C(1) << (source % 64);
}

/* Is the source known to have the result of the block, one of the slot's two: has it sent for the next
 * one, or said so? */
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

/* Is this pointer, kept over a segment's end, still the block of that key? */
static inline bool
block_is(const struct block *block, uint64_t key)
{
	return block->hash.live && block->hash.key == key;
}

/* Have all live sources contributed to the block? */
static inline bool
block_is_full(const struct job_shard *job, const struct block *block)
{
	unsigned int count = 0;

	if (block->heard_count < job->target)
		return false;
	if (likely(job->target == job->nb_sources))
		return true;
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		count += (unsigned int)__builtin_popcountll(block->heard[i] | job->expelled[i]);
	return count >= job->nb_sources;
}

/* Is the packet from an Ethernet address that many have? Nothing is ever sent there: one answer would be
 * many. As bytes, because a frame may begin at an odd address. */
static inline bool
from_group(const struct ppe_thread *thread)
{
	return (thread->head.bytes[RTE_ETHER_ADDR_LEN] & RTE_ETHER_GROUP_ADDR) != 0;
}

/* Do receivers get different parts of this result? A failed block's do not. Once it is done. */
static inline bool
block_has_parts(const struct block *block)
{
	return unlikely(block->apart) &&
		(block->status == WEIR_STATUS_OK || block->status == WEIR_STATUS_PARTIAL);
}

/* Start the bucket of an admitted contribution; find_block is next. */
static inline void
start_bucket(struct collective *state, struct job_shard *js, struct contribution *c)
{
	hash_begin(
		state->blocks, block_key(js->generation, js->job, c->header.block_id), &c->probe);
	rte_prefetch0(&js->slot[c->header.block_id & (js->window - 1u)]);
}

/* The time as source_seen has it: a tick is about a millisecond, 0 is never. */
#define HEARD_SHIFT 22

static inline uint32_t
heard_now(uint64_t tsc)
{
	return (uint32_t)(tsc >> HEARD_SHIFT) | 1;
}

/* The source lives. On its block's owner, once the packet is from where the source sends, and under its
 * tag where there are tags: what others send in its name tells nothing. */
static inline void
note_heard(const struct ppe_worker *worker, struct job_shard *js, uint8_t source)
{
	js->seen[source].heard = heard_now(worker->now);
}

/* Ticks since then. A worker's clock may be a tick or two ahead. */
static inline uint32_t
ticks_since(uint32_t tick, uint32_t now)
{
	return tick - now <= 4 ? 0 : now - tick;
}

/* What admission depends on beside the packet, as a number: neither count ever goes back, so while
 * the sum is the same, nothing has changed. Never 0, which is no pass. */
static inline uint32_t
pass_now(const struct ppe_worker *worker, const struct job_shard *js)
{
	uint32_t sum = js->version + worker->jobs->version + 1;

	return unlikely(sum == 0) ? 1 : sum;
}

/*
 * Check the packet's IPv4 and UDP checksums; false: it has been dropped. In software that reads the
 * whole payload, so it is put off until just before the payload is added, which then reads it from
 * L1; but nothing may change, and nobody may be answered, before. Inline wherever it is asked: most often
 * the device has verified them, and the answer is a comparison.
 */
static __rte_always_inline bool
checksums_hold(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct pktbuf_port *port = worker->port[thread->port];
	enum pktbuf_verdict verdict = PKTBUF_CHECKSUM_GOOD;

	if (port->rx_checksum != PKTBUF_CHECKSUM_OFF)
		verdict = pktbuf_checksum_verify(port, thread->packet, &thread->head);

	if (likely(verdict == PKTBUF_CHECKSUM_GOOD))
		return true;
	ppe_drop(worker, thread,
		verdict == PKTBUF_CHECKSUM_BAD_IP ? PPE_DROP_IP_CHECKSUM : PPE_DROP_UDP_CHECKSUM);
	return false;
}

#endif
