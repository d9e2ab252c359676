/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The crossbar: how workers reach state of other workers.
 *
 * One single-producer single-consumer ring per ordered pair of workers carries mbufs: a thread in
 * its packet's private area, to be resumed at a segment; a received packet, which joins the other
 * worker's backlog; or a finished packet for a port whose queue the other worker owns. Entries are
 * staged per destination and enqueued once per loop turn or burst.
 *
 * A hop can't deadlock, because the sender never waits. A thread's state moves from its context to
 * its packet's private area. When the ring is full, the packet is dropped under crossbar_full,
 * which hosts repair like any loss. The few threads that must arrive (those that announce a
 * generation, its end or a source's new endpoint to all shards, at most one per job) stay staged
 * until there is room; the stage has room for all of them (PPE_STAGE >= 256 jobs + a burst of 256).
 *
 * A second ring per ordered pair returns payload buffers: when a worker's driver has sent a packet
 * whose payload is another worker's aggregation buffer, the hold returns to that worker. The ring
 * is as deep as the number of attach mbufs, so it can't be full. A thread that is not a worker (a
 * capture, a port made of rings) uses the owner's `foreign` ring, which takes many producers.
 *
 * Cost: a share of a ring line; for a thread also 3 lines written and read (private area).
 */
#ifndef PPE_CROSSBAR_H
#define PPE_CROSSBAR_H

#include <stddef.h>
#include <stdint.h>

#include "ppe/program.h"

struct ppe;
struct ppe_worker;

/*
 * Make the rings of all ordered pairs. Control thread, before start.
 * depth: packets per ring, a power of two; returns: payload buffers that can be under way.
 * 0 or -ENOMEM.
 */
int crossbar_create(struct ppe *ppe, uint32_t depth, uint32_t returns);

/* Free the rings and the packets in them; returns the number of packets. */
unsigned int crossbar_destroy(struct ppe *ppe);

/* Bytes that crossbar_create allocates. */
uint64_t crossbar_bytes(unsigned int workers, uint32_t depth, uint32_t returns);

/* Receive from other workers: start threads, append received packets to the backlog, queue outputs,
 * take back holds. Own worker only. Returns the number of entries. */
unsigned int crossbar_receive(struct ppe_worker *worker);

/*
 * Start a thread of the program at `segment` on every other worker, with `bytes` of `message`, at
 * most PPE_HOP_BYTES, at the start of its LMEM. The message is lost for workers whose ring is full,
 * or if there is no mbuf. Own worker only. Cost: an mbuf and a hop for each worker.
 */
void crossbar_tell_others(struct ppe_worker *worker, uint8_t program, ppe_segment segment,
	const void *message, size_t bytes);

/* Enqueue the entries staged for worker `to`. Own worker only. */
void crossbar_flush(struct ppe_worker *worker, uint16_t to);

/* Enqueue all staged entries. Own worker only. */
void crossbar_flush_all(struct ppe_worker *worker);

/* Packets staged and in the rings to others; approximate unless the workers rest. */
unsigned int crossbar_in_flight(const struct ppe_worker *worker);

/*
 * The release callback of result payloads (rte_mbuf_extbuf_free_callback_t): opaque is the
 * rmw_buffer, its user field the owning worker. Called by the thread that frees the attached mbuf.
 */
void crossbar_payload_released(void *address, void *opaque);

#endif
