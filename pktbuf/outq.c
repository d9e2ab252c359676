/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/outq.h"

#include <errno.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include "pktbuf/memif.h"
#include "pktbuf/outq_fast.h"
#include "pktbuf/pool.h"
#include "pktbuf/result.h"

#define BURST 64
/* Packets that a FIFO takes at least, however many others wait. */
#define LIMIT_LEAST 16
/* Mbufs of any chain: 9600 bytes in mbufs of 2048; a result with two payloads and an end. */
#define CHAIN_MOST 8
/* A device is not prompt if it keeps the watched packet during this many calls of pktbuf_outq_tend
 * while nothing is sent. */
#define QUIET 4
/* Results that are few, such as those of one block. */
#define FEW 16

size_t
pktbuf_outq_bytes(uint32_t depth)
{
	return sizeof(struct pktbuf_outq) + sizeof(struct rte_mbuf *) * PKTBUF_PRIOS * depth;
}

/* Must a packet that fits into one mbuf be sent as one? */
static bool
joins(const struct pktbuf_port *port)
{
	return !PKTBUF_MEMIF_CHAINS && strcmp(port->driver, PKTBUF_MEMIF) == 0;
}

/* Set which packets may be queued. */
static void
set_free(struct pktbuf_outq *outq, bool refers)
{
	outq->refers = refers;
	/* Shorter packets are no chains. */
	outq->bytes_free = refers && outq->port->segments_max >= CHAIN_MOST && !joins(outq->port)
		? outq->frame_max
		: RTE_MIN(outq->frame_max, (uint32_t)PKTBUF_COPY_BYTES);
}

struct pktbuf_outq *
pktbuf_outq_create(const struct pktbuf_port *port, uint16_t queue, uint32_t depth,
	struct rte_mempool *copies, uint32_t patience_ms, int socket)
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
	outq->depth = outq->limit = depth;
	outq->copies = copies;
	outq->patience = patience_ms * rte_get_tsc_hz() / 1000;
	outq->watches = true;
	outq->frame_max = port->frame_max;
	set_free(outq, false);
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++)
		outq->fifo[p].ring = (struct rte_mbuf **)(outq + 1) + p * depth;
	return outq;
}

/* Free packets up to `end`. Returns how many. */
static unsigned int
drop_until(const struct pktbuf_outq *outq, struct pktbuf_fifo *fifo, uint32_t end)
{
	unsigned int n = end - fifo->head;

	while (fifo->head != end)
		rte_pktmbuf_free(fifo->ring[fifo->head++ & (outq->depth - 1)]);
	return n;
}

/* The device may give its reference back on another lcore. What that lcore did with the packet
 * comes before the packet is free: DPDK reads the count without order. */
static uint16_t
references(const struct rte_mbuf *packet)
{
	return __atomic_load_n(&packet->refcnt, __ATOMIC_ACQUIRE);
}

static void
unwatch(struct pktbuf_outq *outq)
{
	if (outq->watched != NULL && references(outq->watched) > 0)
		rte_pktmbuf_free_seg(outq->watched);
	outq->watched = NULL;
}

void
pktbuf_outq_destroy(struct pktbuf_outq *outq)
{
	if (outq == NULL)
		return;
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++)
		(void)drop_until(outq, &outq->fifo[p], outq->fifo[p].tail);
	unwatch(outq);
	rte_free(outq);
}

/* IEEE 802.3, 3.2.7: a tag lengthens a frame. */
static bool
is_tagged(const struct rte_mbuf *packet)
{
	return rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *)->ether_type ==
		RTE_BE16(RTE_ETHER_TYPE_VLAN);
}

static void
enqueue(struct pktbuf_outq *outq, unsigned int priority, struct rte_mbuf *packet)
{
	struct pktbuf_fifo *fifo = &outq->fifo[priority];

	fifo->ring[fifo->tail++ & (outq->depth - 1)] = packet;
}

enum pktbuf_refusal
pktbuf_outq_push_other(struct pktbuf_outq *outq, unsigned int priority, struct rte_mbuf *packet)
{
	const struct pktbuf_port *port = outq->port;
	uint32_t room = rte_pktmbuf_data_room_size(outq->copies) - RTE_PKTMBUF_HEADROOM;
	struct rte_mbuf *copy;

	if (outq->frame_max == 0)
		return PKTBUF_PORT_STALLED;
	if (packet->pkt_len > outq->frame_max &&
		packet->pkt_len - outq->frame_max > (is_tagged(packet) ? RTE_VLAN_HLEN : 0u))
		return PKTBUF_TOO_LONG;
	/* Chains of packet mbufs, as received, may stay with the device. */
	if (packet->nb_segs == 1 ||
		(packet->nb_segs <= port->segments_max &&
			(outq->refers || !RTE_MBUF_HAS_EXTBUF(packet->next)) &&
			!(joins(port) && packet->pkt_len <= room))) {
		enqueue(outq, priority, packet);
		return PKTBUF_QUEUED;
	}
	copy = rte_pktmbuf_copy(packet, outq->copies, 0, UINT32_MAX);
	if (copy == NULL)
		return PKTBUF_NO_MBUF;
	if (copy->nb_segs > port->segments_max) {
		rte_pktmbuf_free(copy);
		return PKTBUF_TOO_LONG;
	}
	rte_pktmbuf_free(packet);
	enqueue(outq, priority, copy);
	return PKTBUF_QUEUED;
}

static uint64_t
sent_packets(const struct pktbuf_outq *outq)
{
	return outq->fifo[PKTBUF_PRIO_RESULT].packets + outq->fifo[PKTBUF_PRIO_BULK].packets;
}

/* Note whether the device has given the watched packet back, before it got others. */
static void
look(struct pktbuf_outq *outq)
{
	if (references(outq->watched) > 1)
		return;
	outq->is_prompt |= sent_packets(outq) == outq->watched_at;
	unwatch(outq);
}

/* Give n packets to the device. last: the FIFO has no others. */
static uint16_t
offer(struct pktbuf_outq *outq, struct rte_mbuf **packets, uint16_t n, bool last)
{
	bool watches = last && outq->watches;
	struct rte_mbuf *packet = packets[n - 1];
	uint16_t taken;

	if (unlikely(watches))
		rte_mbuf_refcnt_update(packet, 1);
	taken = rte_eth_tx_burst(outq->port->id, outq->queue, packets, n);
	if (likely(!watches))
		return taken;
	if (taken < n) {
		rte_mbuf_refcnt_update(packet, -1);
		return taken;
	}
	outq->watches = false;
	outq->watched = packet;
	outq->watched_at = sent_packets(outq) + n;
	outq->quiet = 0;
	if (references(packet) == 1) { /* it copies */
		outq->is_prompt = true;
		unwatch(outq);
	}
	return taken;
}

/* Send a burst: packets up to the ring's end. False: the device is full, or the FIFO empty. */
static bool
burst(struct pktbuf_outq *outq, struct pktbuf_fifo *fifo, unsigned int *sent)
{
	uint32_t at = fifo->head & (outq->depth - 1), waiting = fifo->tail - fifo->head;
	/* Few results: send the first alone, so that it does not wait for copies of the others. */
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
	taken = offer(outq, &fifo->ring[at], (uint16_t)n, n == waiting);
	for (uint32_t i = taken; i < n; i++)
		bytes -= fifo->ring[at + i]->pkt_len;
	fifo->bytes += bytes;
	fifo->packets += taken;
	fifo->head += taken;
	*sent += taken;
	return taken == n;
}

unsigned int
pktbuf_outq_send(struct pktbuf_outq *outq, uint32_t *waiting)
{
	unsigned int sent = 0;

	if (unlikely(outq->watched != NULL))
		look(outq);
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) {
		while (burst(outq, &outq->fifo[p], &sent))
			;
		/* Strict priority: send bulk only if no result waits. */
		if (outq->fifo[p].head != outq->fifo[p].tail)
			break;
	}
	*waiting += pktbuf_outq_depth(outq);
	return sent;
}

void
pktbuf_outq_limit(struct pktbuf_outq *outq, uint32_t room)
{
	outq->limit = outq->depth;
	if (pktbuf_outq_depth(outq) > 0)
		outq->limit = RTE_MIN(outq->depth, RTE_MAX(room, (uint32_t)LIMIT_LEAST));
}

/* Make a quiet device free its sent packets. Ask each time, because the answer of some drivers
 * depends on the configuration. A driver that cannot free on demand gets a burst of no packets,
 * which makes some drivers free (net_memif without copies). With copies, net_memif of DPDK 24.11
 * reads the pool of the first packet even then. */
static void
reclaim(const struct pktbuf_outq *outq)
{
	struct rte_mbuf unsent = {.pool = outq->copies}, *none = &unsent;

	if (rte_eth_tx_done_cleanup(outq->port->id, outq->queue, 0) == -ENOTSUP)
		(void)rte_eth_tx_burst(outq->port->id, outq->queue, &none, 0);
}

/* A quiet device that keeps the watched packet is not prompt. */
static void
judge(struct pktbuf_outq *outq)
{
	if (outq->watched == NULL) {
		outq->watches = true;
		return;
	}
	outq->quiet = sent_packets(outq) == outq->watched_at ? RTE_MIN(outq->quiet + 1, QUIET) : 0;
	if (outq->quiet == QUIET && references(outq->watched) > 1)
		outq->is_prompt = false;
	look(outq);
}

/* Drop packets that have waited too long. The mark moves on when the packets before it are gone. */
static unsigned int
expire(const struct pktbuf_outq *outq, struct pktbuf_fifo *fifo, uint64_t now, uint64_t patience)
{
	unsigned int n = 0;

	if ((int32_t)(fifo->mark - fifo->head) > 0) {
		if (now - fifo->marked_at < patience)
			return 0;
		n = drop_until(outq, fifo, fifo->mark);
	}
	fifo->mark = fifo->tail;
	fifo->marked_at = now;
	return n;
}

uint32_t
pktbuf_outq_age_ms(const struct pktbuf_outq *outq, uint64_t now)
{
	uint64_t oldest = now;

	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++) {
		const struct pktbuf_fifo *fifo = &outq->fifo[p];

		if ((int32_t)(fifo->mark - fifo->head) > 0)
			oldest = RTE_MIN(oldest, fifo->marked_at);
	}
	return (uint32_t)((now - oldest) * 1000 / rte_get_tsc_hz());
}

unsigned int
pktbuf_outq_tend(struct pktbuf_outq *outq, uint64_t now, bool draining)
{
	bool moves = sent_packets(outq) != outq->sent_before;
	uint64_t patience =
		draining ? RTE_MIN(outq->patience, rte_get_tsc_hz() / 10) : outq->patience;
	unsigned int dropped = 0;

	outq->frame_max = __atomic_load_n(&outq->port->frame_max, __ATOMIC_RELAXED);
	for (unsigned int p = 0; p < PKTBUF_PRIOS; p++)
		dropped += outq->frame_max > 0
			? expire(outq, &outq->fifo[p], now, patience)
			: drop_until(outq, &outq->fifo[p], outq->fifo[p].tail);
	if (!moves)
		reclaim(outq);
	judge(outq);
	outq->sent_before = sent_packets(outq);
	outq->is_stalled = outq->frame_max > 0 && !moves && (outq->is_stalled || dropped > 0);
	set_free(outq, outq->is_prompt && (moves || pktbuf_outq_depth(outq) == 0));
	return dropped;
}
