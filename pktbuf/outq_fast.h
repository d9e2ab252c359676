/* SPDX-License-Identifier: BSD-3-Clause */
/* The hot half of the output queues. See pktbuf/outq.h. */
#ifndef PKTBUF_OUTQ_FAST_H
#define PKTBUF_OUTQ_FAST_H

#include <stdbool.h>

#include "pktbuf/outq.h"

/* pktbuf_outq_push() with room, of a longer packet, which may be copied or refused.
 * pktbuf/outq.c */
enum pktbuf_refusal pktbuf_outq_push_other(
	struct pktbuf_outq *outq, unsigned int priority, struct rte_mbuf *packet);

/* Queue a packet; the owner. If it is refused, the caller keeps the packet. */
static inline enum pktbuf_refusal
pktbuf_outq_push(struct pktbuf_outq *outq, unsigned int priority, struct rte_mbuf *packet)
{
	struct pktbuf_fifo *fifo = &outq->fifo[priority];

	if (unlikely(fifo->tail - fifo->head >= outq->limit))
		return PKTBUF_QUEUE_FULL;
	if (unlikely(packet->pkt_len > outq->bytes_free))
		return pktbuf_outq_push_other(outq, priority, packet);
	fifo->ring[fifo->tail++ & (outq->depth - 1)] = packet;
	return PKTBUF_QUEUED;
}

/* Packets waiting. Any thread; exact for the owner. */
static inline unsigned int
pktbuf_outq_depth(const struct pktbuf_outq *outq)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++)
		n += outq->fifo[p].tail - outq->fifo[p].head;
	return n;
}

/* Offer all queued packets to the device, results first. Out of line: pktbuf/outq.c. */
unsigned int pktbuf_outq_send(struct pktbuf_outq *outq, uint32_t *waiting);

/* Send queued packets, results first; the owner. Those that the device does not take stay, and are
 * added to *waiting. Returns how many it took. Cost if none are queued: one line. */
static inline unsigned int
pktbuf_outq_flush(struct pktbuf_outq *outq, uint32_t *waiting)
{
	return pktbuf_outq_depth(outq) == 0 ? 0 : pktbuf_outq_send(outq, waiting);
}

#endif
