/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cursor over the bytes of a packet that lie in a chain of mbufs: hands out contiguous spans, or
 * copies across segment boundaries. All functions: any thread that owns the packet; no error but
 * the end, which is `left` 0.
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

/* Step over segments that are used up. */
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

/* Start at `offset` of the packet for `length` bytes; both are cut to the packet's end. */
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

/* The contiguous bytes at the cursor: their address and, in *length, their number; NULL and 0 at
 * the end. The cursor stays. */
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

/* Go on by n bytes; n: [0, left]. */
static inline void
pktbuf_cursor_advance(struct pktbuf_cursor *cursor, uint32_t n)
{
	cursor->offset += n;
	cursor->left -= n;
	pktbuf_cursor_settle(cursor);
}

/* Copy up to n bytes to `to` and go on; returns how many, less than n only at the end. */
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
