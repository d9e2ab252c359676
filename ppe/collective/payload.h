/* SPDX-License-Identifier: BSD-3-Clause */
/* A contribution's payload: started early, added late. Owner of the block's shard. */
#ifndef PPE_PROGRAMS_COLLECTIVE_PAYLOAD_H
#define PPE_PROGRAMS_COLLECTIVE_PAYLOAD_H

#include "pktbuf/cursor.h"
#include "ppe/collective/collective_priv.h"

/* Start lines [from, to) of the payload, as far as it goes. The device's prefetcher takes over from there;
 * all of a large payload at once would push out what other threads have started. */
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

/* The payload of a packet in several mbufs, segment by segment. An element that lies across a segment's
 * end is put together first. */
static __rte_noinline void
add_pieces(const struct rte_mbuf *packet, const struct contribution *c, const struct block *b,
	bool first)
{
	const struct rmw_reduction *reduction = b->reduction;
	uint8_t *to = rmw_buffer_data(b->buffer);
	size_t size = weir_dtype_bytes(b->dtype);
	/* Both begin and reduce. */
	rmw_reduce_fn add = first ? reduction->begin : reduction->reduce;
	struct pktbuf_cursor cursor;

	pktbuf_cursor_init(&cursor, packet, c->payload, c->bytes);
	for (uint32_t left = c->bytes; left > 0;) {
		uint8_t whole[8];
		uint32_t here;
		const uint8_t *from = pktbuf_cursor_span(&cursor, &here);
		uint32_t take = here - here % (uint32_t)size;

		if (likely(take > 0)) {
			pktbuf_cursor_advance(&cursor, take);
		} else {
			take = (uint32_t)size;
			pktbuf_cursor_copy(&cursor, whole, take);
			from = whole;
		}
		add(to, from, take / size);
		to += take / size * reduction->acc_bytes;
		left -= take;
	}
}

/* Reduce elements into the block's buffer, which the first ones begin. The block has a reduction. */
static inline void
add_elements(const struct block *b, const void *from, bool first)
{
	void *to = rmw_buffer_data(b->buffer);

	if (first)
		b->reduction->begin(to, from, b->grad_cnt);
	else
		b->reduction->reduce(to, from, b->grad_cnt);
}

/* The same of a payload. */
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

#endif
