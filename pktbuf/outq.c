/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/outq.h"

#include <errno.h>

#include <rte_errno.h>
#include <rte_malloc.h>

#include "pktbuf/outq_fast.h"

#define BURST 64
/* Such as the results of one block. */
#define FEW 16

size_t
pktbuf_outq_bytes(uint32_t depth)
{
	return sizeof(struct pktbuf_outq) + sizeof(struct rte_mbuf *) * PKTBUF_PRIOS * depth;
}

struct pktbuf_outq *
pktbuf_outq_create(const struct pktbuf_port *port, uint16_t queue, uint32_t depth, int socket)
{
	struct pktbuf_outq *outq;

	if (!rte_is_power_of_2(depth)) {
		rte_errno = EINVAL;
		return NULL;
	}
	outq = rte_zmalloc_socket(
		"weir_outq", pktbuf_outq_bytes(depth), RTE_CACHE_LINE_SIZE, socket);
	if (outq == NULL) {
		rte_errno = ENOMEM;
		return NULL;
	}
	outq->port = port;
	outq->queue = queue;
	outq->depth = depth;
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++)
		outq->fifo[p].ring = (struct rte_mbuf **)(outq + 1) + p * depth;
	return outq;
}

void
pktbuf_outq_destroy(struct pktbuf_outq *outq)
{
	if (outq == NULL)
		return;
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) {
		struct pktbuf_fifo *fifo = &outq->fifo[p];

		while (fifo->head != fifo->tail)
			rte_pktmbuf_free(fifo->ring[fifo->head++ & (outq->depth - 1)]);
	}
	rte_free(outq);
}

/* One burst of a FIFO: its packets up to the end of the ring. False: the device is full, or the FIFO empty. */
static bool
burst(struct pktbuf_outq *outq, struct pktbuf_fifo *fifo, unsigned int *sent)
{
	uint32_t at = fifo->head & (outq->depth - 1), waiting = fifo->tail - fifo->head;
	/* Few results: send the first alone, so that it does not wait for the copies of the others. */
	bool alone = fifo == &outq->fifo[0] && *sent == 0 && waiting <= FEW;
	uint32_t n = alone ? 1 : RTE_MIN(waiting, outq->depth - at);
	uint64_t bytes = 0;
	uint16_t taken;

	n = RTE_MIN(n, (uint32_t)BURST);
	if (waiting == 0)
		return false;
	/* Read lengths first: the device may free a packet that it takes. */
	for (uint32_t i = 0; i < n; i++)
		bytes += fifo->ring[at + i]->pkt_len;
	taken = rte_eth_tx_burst(outq->port->id, outq->queue, &fifo->ring[at], (uint16_t)n);
	for (uint32_t i = taken; i < n; i++)
		bytes -= fifo->ring[at + i]->pkt_len;
	fifo->bytes += bytes;
	fifo->packets += taken;
	fifo->head += taken;
	*sent += taken;
	return taken == n;
}

unsigned int
pktbuf_outq_send(struct pktbuf_outq *outq)
{
	unsigned int sent = 0;

	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) {
		while (burst(outq, &outq->fifo[p], &sent))
			;
		/* Strict priority: send bulk only if no result waits. */
		if (outq->fifo[p].head != outq->fifo[p].tail)
			break;
	}
	return sent;
}

void
pktbuf_outq_reclaim(struct pktbuf_outq *outq)
{
	uint64_t sent =
		outq->fifo[PKTBUF_PRIO_RESULT].packets + outq->fifo[PKTBUF_PRIO_BULK].packets;
	struct rte_mbuf *none = NULL;

	if (sent != outq->sent_before) {
		outq->sent_before = sent;
		return;
	}
	/* Each time: for some drivers the answer depends on the configuration. */
	if (rte_eth_tx_done_cleanup(outq->port->id, outq->queue, 0) == -ENOTSUP)
		(void)rte_eth_tx_burst(outq->port->id, outq->queue, &none, 0);
}
