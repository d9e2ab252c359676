/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output queues: one per (port, transmit queue), with two FIFOs. Results always go before bulk
 * traffic: a training job must not wait behind a file copy, and the jobs' windows bound the
 * results.
 *
 * A PORT THAT TAKES NOTHING (host dead, paused or slow, link down) costs others nothing:
 *
 *   frames  A FIFO takes `limit` packets. That is `depth` while the device takes all that it is
 *           offered. What waits comes from pools that all ports share, so a queue that fills gets
 *           less as less is free: dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on
 *           Networking 6(2), 1998), with alpha 1. n such queues get 1/(n+1) of the worker's share
 *           each, and 1/(n+1) of it stays free.
 *   time    Packets that have waited for `patience` are dropped, at the latest after twice as long.
 *   link    While the link is down, nothing is queued.
 *
 * WHAT A DEVICE CAN SEND is known before a packet is queued. A frame that is too long is refused. A
 * chain of mbufs is copied into one mbuf if the driver takes no chains.
 *
 * DRIVERS THAT KEEP PAYLOADS. A result refers to the aggregation buffer. Some drivers free a sent
 * mbuf only when its place in the ring is used again, perhaps never (virtio, e1000, ixgbe below a
 * threshold), and the buffer would not return. No property of a device tells, so the queue finds
 * out: about once per millisecond it *watches* the last packet that it sends, with a reference of
 * its own. The device is *prompt* if it gives the packet back without being given others. Until
 * that has been seen, and while the queue stands still, results are copied into packet mbufs, which
 * the device may keep. VPP leaves its buffers with the driver, and OVS copies what others own; the
 * watch chooses between the two.
 *
 * Only the owning lcore pushes, flushes and tends; any thread may read the counters.
 */
#ifndef PKTBUF_OUTQ_H
#define PKTBUF_OUTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "pktbuf/port.h"

enum pktbuf_priority { PKTBUF_PRIO_RESULT, PKTBUF_PRIO_BULK, PKTBUF_PRIOS };

/* Why a packet was not queued. */
enum pktbuf_refusal {
	PKTBUF_QUEUED,
	PKTBUF_QUEUE_FULL,
	PKTBUF_PORT_STALLED, /* the link is down */
	PKTBUF_TOO_LONG, /* for the port */
	PKTBUF_NO_MBUF, /* for a copy */
};

/* A ring of mbufs and its counters. */
struct pktbuf_fifo {
	struct rte_mbuf **ring; /* depth entries */
	uint32_t head, tail; /* packets taken and put; tail - head are queued */
	/* `tail` at marked_at: packets before it have waited since then, or longer */
	uint32_t mark;
	uint64_t marked_at; /* TSC */
	uint64_t packets, bytes; /* sent */
};

struct pktbuf_outq {
	const struct pktbuf_port *port;
	uint16_t queue;
	bool refers; /* packets may refer to payloads of others */
	uint32_t bytes_free; /* pktbuf_outq_push_other checks longer packets */
	uint32_t frame_max; /* bytes of the longest frame that may be queued; 0: none */
	uint32_t depth; /* entries of a ring, a power of two */
	uint32_t limit; /* packets that a FIFO takes now: [1, depth] */
	struct pktbuf_fifo fifo[PKTBUF_PRIOS];
	/* cold */
	struct rte_mempool *copies; /* mbufs for what the device must not keep, or cannot take */
	uint64_t patience; /* TSC cycles */
	uint64_t sent_before; /* packets sent at the last pktbuf_outq_tend */
	struct rte_mbuf *watched; /* sent, with a reference of this queue; or NULL */
	uint64_t watched_at; /* packets sent then */
	uint8_t quiet; /* calls of pktbuf_outq_tend since then in which nothing was sent */
	bool watches; /* the next burst */
	bool is_prompt;
	bool is_stalled; /* the link is up, packets were dropped, and none was sent since */
};

/*
 * Make the queue of (port, queue), each FIFO `depth` deep, a power of two. copies: a pool of mbufs
 * as long as frames. patience_ms: how long a packet may wait. Control thread. NULL with rte_errno
 * EINVAL or ENOMEM. The port and the pool must outlive it.
 */
struct pktbuf_outq *pktbuf_outq_create(const struct pktbuf_port *port, uint16_t queue,
	uint32_t depth, struct rte_mempool *copies, uint32_t patience_ms, int socket);

/* Free the queue and its packets. NULL is fine. Control thread, workers stopped. */
void pktbuf_outq_destroy(struct pktbuf_outq *outq);

/* Bytes that pktbuf_outq_create allocates. */
size_t pktbuf_outq_bytes(uint32_t depth);

/*
 * Tend the queue. The owner calls this about once per millisecond. now: TSC. draining: a stop waits
 * for the queue, and packets wait 100 ms at most. Drops packets that have waited too long, and all
 * packets if the link is down; returns the number of dropped packets. Decides whether the device is
 * prompt. Makes a quiet device free its sent packets, because drivers free them only when they get
 * more, and the payloads would be kept until then. Cost: a line, and for a quiet queue a call of
 * the driver.
 */
unsigned int pktbuf_outq_tend(struct pktbuf_outq *outq, uint64_t now, bool draining);

/* Set `limit` after a flush. room: packets that may still be added to those that wait in the
 * worker's queues. Owner. */
void pktbuf_outq_limit(struct pktbuf_outq *outq, uint32_t room);

/* Milliseconds that the oldest packet has waited at least: up to `patience` less than it has. now:
 * TSC. Any thread. */
uint32_t pktbuf_outq_age_ms(const struct pktbuf_outq *outq, uint64_t now);

/* The hot half, pktbuf_outq_push, _flush and _depth, is in pktbuf/outq_fast.h. */

#endif
