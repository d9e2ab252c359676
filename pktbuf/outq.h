/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output queues: one per (port, transmit queue), with two FIFOs. Results always go before bulk traffic:
 * a training job must not wait behind a file copy, and the jobs' windows bound the results. Each FIFO is
 * bounded. A push to a full one fails, and the caller counts the drop.
 *
 * Only the owning lcore pushes and flushes; any thread may read the counters.
 */
#ifndef PKTBUF_OUTQ_H
#define PKTBUF_OUTQ_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "pktbuf/port.h"

enum pktbuf_priority { PKTBUF_PRIO_RESULT, PKTBUF_PRIO_BULK, PKTBUF_PRIOS };

/* A ring of mbufs and its counters. */
struct pktbuf_fifo {
	struct rte_mbuf **ring; /* depth entries */
	uint32_t head, tail; /* packets taken and put; tail - head are queued */
	uint64_t packets, bytes; /* sent */
};

struct pktbuf_outq {
	const struct pktbuf_port *port;
	uint16_t queue;
	uint32_t depth; /* a power of two */
	uint64_t sent_before; /* packets sent at the last pktbuf_outq_reclaim */
	struct pktbuf_fifo fifo[PKTBUF_PRIOS];
};

/* Make the queue of (port, queue), each FIFO `depth` deep, a power of two. Control thread. NULL
 * with rte_errno EINVAL or ENOMEM. The port must outlive it. */
struct pktbuf_outq *pktbuf_outq_create(
	const struct pktbuf_port *port, uint16_t queue, uint32_t depth, int socket);

/* Free the queue and its packets. NULL is fine. Control thread, workers stopped. */
void pktbuf_outq_destroy(struct pktbuf_outq *outq);

/* Bytes that pktbuf_outq_create allocates. */
size_t pktbuf_outq_bytes(uint32_t depth);

/*
 * Make a quiet device free the packets that it has sent. Drivers free them only when they get more, and
 * the payloads that they refer to would wait for that. The owner calls it periodically. Does nothing if
 * packets were sent since the last call. A driver that cannot free on demand is called with no packets,
 * which makes some of them free (net_memif without copies). Drivers that copy (net_af_packet, net_tap) or
 * pass on (net_ring) keep nothing. Cost: a line, and for a quiet queue a call of the driver.
 */
void pktbuf_outq_reclaim(struct pktbuf_outq *outq);

/* The hot half, pktbuf_outq_push, _flush and _depth, is in pktbuf/outq_fast.h. */

#endif
