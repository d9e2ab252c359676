/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cursor over the bytes of a packet in a chain of mbufs. It returns contiguous spans, or copies
 * across segments. All functions are for the thread that owns the packet. They fail only at the
 * end, where `left` is 0.
 */
#ifndef PKTBUF_CURSOR_H
#define PKTBUF_CURSOR_H

#include <stdint.h>
#include <string.h>

#include <rte_mbuf.h>

struct pktbuf_cursor {
	const struct rte_mbuf *segment;
	uint32_t offset; /* within the segment, bytes */
	uint32_t left; /* bytes up to the end of the range */
};

/* Skip exhausted segments. */
static inline void
pktbuf_cursor_settle(struct pktbuf_cursor *cursor)
{
	while (unlikely(
		cursor->left > 0 && cursor->offset >= rte_pktmbuf_data_len(cursor->segment))) {
		cursor->offset -= rte_pktmbuf_data_len(cursor->segment);
		cursor->segment = cursor->segment->next;
		if (cursor->segment == NULL)
			cursor->left = 0;
	}
}

/* Start at `offset` of the packet for `length` bytes; both are limited to the packet's end. */
static inline void
pktbuf_cursor_init(struct pktbuf_cursor *cursor, const struct rte_mbuf *packet, uint32_t offset,
	uint32_t length)
{
	uint32_t all = rte_pktmbuf_pkt_len(packet);

	offset = RTE_MIN(offset, all);
	cursor->segment = packet;
	cursor->offset = offset;
	cursor->left = RTE_MIN(length, all - offset);
	pktbuf_cursor_settle(cursor);
}

/* Returns the contiguous bytes at the cursor and sets *length to their number; NULL and 0 at the
 * end. Does not move the cursor. */
static inline const uint8_t *
pktbuf_cursor_span(const struct pktbuf_cursor *cursor, uint32_t *length)
{
	if (unlikely(cursor->left == 0)) {
		*length = 0;
		return NULL;
	}
	*length = RTE_MIN(cursor->left, rte_pktmbuf_data_len(cursor->segment) - cursor->offset);
	return rte_pktmbuf_mtod_offset(cursor->segment, const uint8_t *, cursor->offset);
}

/* Move by n bytes; n: [0, left]. */
static inline void
pktbuf_cursor_advance(struct pktbuf_cursor *cursor, uint32_t n)
{
	cursor->offset += n;
	cursor->left -= n;
	pktbuf_cursor_settle(cursor);
}

/* Copy up to n bytes to `to` and move on. Returns how many, less than n only at the end. */
static inline uint32_t
pktbuf_cursor_copy(struct pktbuf_cursor *cursor, void *to, uint32_t n)
{
	uint32_t done = 0, here;
	const uint8_t *from;

	while (done < n && (from = pktbuf_cursor_span(cursor, &here)) != NULL) {
		here = RTE_MIN(here, n - done);
		memcpy((uint8_t *)to + done, from, here);
		pktbuf_cursor_advance(cursor, here);
		done += here;
	}
	return done;
}

#endif
