/* SPDX-License-Identifier: BSD-3-Clause */
/* Inline operations that all rooms of the collective program use. Functions that change a shard are
 * for its owner; the others are for any thread. */
#ifndef PPE_COLLECTIVE_COLLECTIVE_FAST_H
#define PPE_COLLECTIVE_COLLECTIVE_FAST_H

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

/* Set the bits [first, first + count). */
static inline void
mask_set_range(uint64_t mask[MASK_WORDS], unsigned int first, unsigned int count)
{
	for (unsigned int end = first + count; first < end;) {
		unsigned int n = RTE_MIN(end, (first / 64 + 1) * 64) - first;

		mask[first / 64] |= UINT64_MAX >> (64 - n) << first % 64;
		first += n;
	}
}

static inline unsigned int
mask_count(const uint64_t mask[MASK_WORDS])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MASK_WORDS; i++)
		n += (unsigned int)__builtin_popcountll(mask[i]);
	return n;
}

static inline struct slot *
slot_of(const struct job_shard *job, uint32_t block)
{
	return &job->slot[block & (job->window - 1u)];
}

/* The block's number in its generation, without wrapping. The residue's next block is less than
 * 2^31 away. */
static inline uint64_t
slot_number(const struct job_shard *js, uint32_t block)
{
	uint64_t next = slot_of(js, block)->next;

	return next + (uint64_t)(int64_t)weir_block_diff(block, (uint32_t)next);
}

/* Charge the job's rate for packets that were made for it. */
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

static inline bool
is_from_child(const struct weir_header *header)
{
	return (header->flags & WEIR_FLAG_UP) != 0;
}

/* Does the packet come from the address of its source in the job (NULL: there is none)? */
static inline bool
is_source(const struct ppe_job *j, struct ppe_thread *thread)
{
	uint8_t source = lmem(thread)->c.header.src_id;

	return j != NULL && ppe_job_has(j, source) && j->address[source] == thread->head.ip_src;
}

/* Is the packet's Ethernet source a group address? An answer to it would be flooded. */
static inline bool
from_group(const struct ppe_thread *thread)
{
	return (thread->head.bytes[RTE_ETHER_ADDR_LEN] & RTE_ETHER_GROUP_ADDR) != 0;
}

/* The time in struct flow: a tick is about a millisecond; 0: never. */
#define HEARD_SHIFT 22

static inline uint32_t
heard_now(uint64_t tsc)
{
	return (uint32_t)(tsc >> HEARD_SHIFT) | 1;
}

/* Note that the source is alive. Call this after the checks of its endpoint and, in an
 * authenticated job, its tag. */
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

/* Verify the packet's IPv4 and UDP checksums. Software reads the whole payload, so call this just
 * before the payload is added, which then reads it from L1, and before any change or reply. Inline,
 * because the device has usually verified them. */
static __rte_always_inline enum pktbuf_verdict
checksums_verdict(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct pktbuf_port *port = worker->port[thread->port];

	return likely(port->rx_checksum == PKTBUF_CHECKSUM_OFF)
		? PKTBUF_CHECKSUM_GOOD
		: pktbuf_checksum_verify(port, thread->packet, &thread->head);
}

/* The reason why checksums_hold() would drop the packet; PPE_DROP_COUNT: it would not. Only
 * reads. */
static inline enum ppe_drop
checksums_damage(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	switch (checksums_verdict(worker, thread)) {
	case PKTBUF_CHECKSUM_BAD_IP: return PPE_DROP_IP_CHECKSUM;
	case PKTBUF_CHECKSUM_BAD_UDP: return PPE_DROP_UDP_CHECKSUM;
	case PKTBUF_CHECKSUM_GOOD: break;
	}
	return PPE_DROP_COUNT;
}

/* Where checksums_hold() may lead, and block_is_undamaged(): of struct ppe_segment_name. */
#define CHECKSUMS_LEAD_TO " drop:ip_checksum drop:udp_checksum"
#define DAMAGE_LEADS_TO   CHECKSUMS_LEAD_TO " drop:crc"

/* Verify the checksums. false: they are wrong, and the packet has been dropped. */
static __rte_always_inline bool
checksums_hold(struct ppe_worker *worker, struct ppe_thread *thread)
{
	enum ppe_drop reason = checksums_damage(worker, thread);

	if (likely(reason == PPE_DROP_COUNT))
		return true;
	ppe_drop(worker, thread, reason);
	return false;
}

#endif
