/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output queues: one per (port, transmit queue), with two FIFOs. Results go before bulk, strictly:
 * a training job must not wait behind a file copy, and results are bounded by the jobs' windows.
 * Each FIFO is bounded; a push to a full one is refused, and the caller counts the drop.
 *
 * Owner: one lcore, which alone pushes and flushes; any thread may read the counters.
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
	uint32_t head, tail; /* packets taken and put; the difference is the fill */
	uint64_t packets, bytes; /* sent */
};

struct pktbuf_outq {
	const struct pktbuf_port *port;
	uint16_t queue;
	uint32_t depth; /* a power of two */
	uint64_t looked; /* packets sent when pktbuf_outq_reclaim last looked */
	struct pktbuf_fifo fifo[PKTBUF_PRIOS];
};

/* Make the queue of (port, queue), each FIFO `depth` deep, a power of two. Control thread. NULL
 * with rte_errno EINVAL or ENOMEM. The port must outlive it. */
struct pktbuf_outq *pktbuf_outq_create(
	const struct pktbuf_port *port, uint16_t queue, uint32_t depth, int socket);

/* Free the queue and what waits in it. NULL is fine. Control thread, workers stopped. */
void pktbuf_outq_destroy(struct pktbuf_outq *outq);

/* Bytes that pktbuf_outq_create allocates. */
size_t pktbuf_outq_bytes(uint32_t depth);

/*
 * Take back what a device that has fallen quiet has sent but keeps: drivers free sent packets when
 * they are given more, and what those packets refer to would wait for that. Call it now and then;
 * the owner. Does nothing when packets were sent since the last call. A driver that can't free on
 * demand is called with no packets, which makes some look (net_memif without copies); those that
 * copy (net_af_packet, net_tap) or hand on (net_ring) keep nothing. Cost: a line, and of a quiet
 * queue a call of the driver.
 */
void pktbuf_outq_reclaim(struct pktbuf_outq *outq);

/* The hot half, pktbuf_outq_push, _flush and _depth, is in pktbuf/outq_fast.h. */

#endif
