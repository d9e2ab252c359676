/* SPDX-License-Identifier: BSD-3-Clause */
/* Inline operations for each contribution. Functions that change a shard or a block are for its owner; the others
 * are for any thread. */
#ifndef PPE_COLLECTIVE_COLLECTIVE_FAST_H
#define PPE_COLLECTIVE_COLLECTIVE_FAST_H

#include "ppe/collective/collective.h"

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

/* Set the bit; returns whether it was set. */
static inline bool
mask_test_and_set(uint64_t mask[MASK_WORDS], uint8_t source)
{
	uint64_t *word = &mask[source / 64], bit = UINT64_C(1) << (source % 64);
	bool was = (*word & bit) != 0;

	*word |= bit;
	return was;
}

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

/* Packets for the job were made: its rate pays for them. */
static inline void
charge(const struct ppe_worker *worker, struct job_shard *js, uint32_t packets, uint32_t bytes)
{
	if (unlikely(js->rate_mbit != 0))
		rmw_charge(&js->sent, worker->now, packets * bytes);
}

/* Has the switch sent more for the job than its rate allows? */
static inline bool
in_debt(const struct ppe_worker *worker, struct job_shard *js)
{
	return unlikely(js->rate_mbit != 0) && !rmw_police(&js->sent, worker->now, 0);
}

/* Have all sources that are not expelled contributed to the block? */
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

/* A block that is complete, timed out or failed ends here. True: its result is to be sent. In a job with parents what was
 * collected goes up, and there is no result yet. */
static inline bool
block_end(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status)
{
	if (unlikely(job->special))
		return block_end_special(state, job, block, status);
	block_finish(state, job, block, status);
	return true;
}

/* Is the packet from a switch to its parent? */
static inline bool
is_from_child(const struct weir_header *header)
{
	return (header->flags & WEIR_FLAG_UP) != 0;
}

/* Do the job's sources send accumulators of this type and operation as they are? */
static inline bool
comes_wide(const struct collective *state, const struct job_shard *job, uint8_t dtype, uint8_t op)
{
	return job->children && !job->narrow && state->wide[dtype][op].reduce != NULL;
}

/* Is the packet's Ethernet source a group address? An answer to it would be flooded. */
static inline bool
from_group(const struct ppe_thread *thread)
{
	return (thread->head.bytes[RTE_ETHER_ADDR_LEN] & RTE_ETHER_GROUP_ADDR) != 0;
}

/* Does the result of this done block differ by receiver? A failed block's does not. */
static inline bool
block_result_differs(const struct block *block)
{
	return unlikely(block->per_receiver) &&
		(block->status == WEIR_STATUS_OK || block->status == WEIR_STATUS_PARTIAL);
}

/* Prefetch the bucket of an admitted contribution, for find_block. */
static inline void
start_bucket(struct collective *state, struct job_shard *js, struct contribution *c)
{
	hash_begin(
		state->blocks, block_key(js->generation, js->job, c->header.block_id), &c->probe);
	rte_prefetch0(&js->slot[c->header.block_id & (js->window - 1u)]);
}

/* The time as struct flow has it: a tick is about a millisecond, 0 is never. */
#define HEARD_SHIFT 22

static inline uint32_t
heard_now(uint64_t tsc)
{
	return (uint32_t)(tsc >> HEARD_SHIFT) | 1;
}

/* The source is alive. Only after its endpoint and, in an authenticated job, its tag have been checked. */
static inline void
note_heard(const struct ppe_worker *worker, struct job_shard *js, uint8_t source)
{
	js->flow[source].heard = heard_now(worker->now);
}

/* Ticks since `tick`. Another worker's clock may be a tick or two ahead. */
static inline uint32_t
ticks_since(uint32_t tick, uint32_t now)
{
	return tick - now <= 4 ? 0 : now - tick;
}

/*
 * Verify the packet's IPv4 and UDP checksums. Software reads the whole payload for it, so call this just before the
 * payload is added, which then reads it from L1, and before anything is changed or answered. Inline, because mostly the
 * device has verified them.
 */
static __rte_always_inline enum pktbuf_verdict
checksums_verdict(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct pktbuf_port *port = worker->port[thread->port];

	return likely(port->rx_checksum == PKTBUF_CHECKSUM_OFF)
		? PKTBUF_CHECKSUM_GOOD
		: pktbuf_checksum_verify(port, thread->packet, &thread->head);
}

/* The same; a packet with wrong ones is dropped, and false returned. */
static __rte_always_inline bool
checksums_hold(struct ppe_worker *worker, struct ppe_thread *thread)
{
	enum pktbuf_verdict verdict = checksums_verdict(worker, thread);

	if (likely(verdict == PKTBUF_CHECKSUM_GOOD))
		return true;
	ppe_drop(worker, thread,
		verdict == PKTBUF_CHECKSUM_BAD_IP ? PPE_DROP_IP_CHECKSUM : PPE_DROP_UDP_CHECKSUM);
	return false;
}

/* The same, and the CRC, if the job's packets have one. */
static __rte_always_inline bool
is_undamaged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job)
{
	return checksums_hold(worker, thread) &&
		(likely(job->crc_bytes == 0) || crc_holds(worker, thread, job));
}

/* Prefetch lines [from, to) of the payload, as far as it goes; the hardware prefetcher continues. A whole large
 * payload would evict what other threads have prefetched. */
static inline void
start_payload(
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
agreement_of(const struct weir_header *h, bool final)
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

/* A source completed a block that had waited for it since then. */
static inline void
source_was_last(struct source_late *late, uint64_t since, uint64_t now)
{
	late->last++;
	if ((int64_t)(late->until - since) > 0)
		since = late->until;
	late->waited += now - since;
	late->until = now;
}

/* Reduce elements into the buffer of a block that has a reduction; the first ones initialize it. */
static inline void
add_elements(const struct block *b, const void *from, bool first)
{
	void *to = rmw_buffer_data(b->buffer);

	(first ? b->reduction->begin : b->reduction->reduce)(to, &from, 1, b->grad_cnt);
}

static inline void
add_payload(const struct rte_mbuf *packet, const struct contribution *c, const struct block *b,
	bool first)
{
	if (unlikely(packet->data_len < c->payload + c->bytes))
		add_pieces(packet, c, b, first);
	else
		add_elements(
			b, rte_pktmbuf_mtod_offset(packet, const uint8_t *, c->payload), first);
}

/* Has the source not repeated its join for too long? Any thread. */
static inline bool
join_has_expired(const struct job_home *home, unsigned int source, uint32_t now, uint64_t hz)
{
	return ticks_since(home->request[source].last, now) > (home->kept_s * hz) >> HEARD_SHIFT;
}

#endif
