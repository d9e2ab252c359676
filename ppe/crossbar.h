/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The crossbar: how workers reach what another one owns.
 *
 * One single-producer single-consumer ring per ordered pair of workers carries mbufs: either a
 * thread in its packet's private area (resume at a segment), or a finished packet for a port
 * whose queue the other worker owns. Entries are staged per destination and enqueued once per
 * loop turn or per burst.
 *
 * Why a hop can't deadlock: the sender never waits. A thread's state leaves its context for its
 * packet's private area; when the ring is full the packet is dropped under crossbar_full, which
 * hosts repair as any loss. The few threads that must arrive (a generation's walk over all
 * shards, at most one per job) stay staged until there is room; the stage has room for all of
 * them (PPE_STAGE >= 256 jobs + a burst of 256).
 *
 * A second ring per ordered pair returns payload buffers: when a worker's driver has sent a packet
 * whose payload is another worker's aggregation buffer, the hold goes home. It is as deep as there
 * are attach mbufs, so it can't be full. A thread that is no worker (a capture, a port made of
 * rings) returns payloads through the owner's `foreign` ring, which takes many producers.
 *
 * Cost of a hop: 3 lines written and read (private area), a share of a ring line.
 */
#ifndef PPE_CROSSBAR_H
#define PPE_CROSSBAR_H

#include <stdint.h>

struct ppe;
struct ppe_worker;

/*
 * Make the rings of all ordered pairs. Control thread, before start.
 * depth: packets per ring, a power of two; returns: payload buffers that can be under way.
 * 0 or -ENOMEM.
 */
int crossbar_create(struct ppe *ppe, uint32_t depth, uint32_t returns);

/* Free the rings and what is left in them; returns how many packets that was. */
unsigned int crossbar_destroy(struct ppe *ppe);

/* Bytes that crossbar_create allocates. */
uint64_t crossbar_bytes(unsigned int workers, uint32_t depth, uint32_t returns);

/* Take what others sent: starts threads, queues outputs, takes holds back. Own worker only.
 * Returns how many entries were taken. */
unsigned int crossbar_receive(struct ppe_worker *worker);

/* Enqueue what is staged for worker `to`. Own worker only. */
void crossbar_flush(struct ppe_worker *worker, uint16_t to);

/* Enqueue all that is staged. Own worker only. */
void crossbar_flush_all(struct ppe_worker *worker);

/* Packets staged and in the rings towards others; racy unless the workers rest. */
unsigned int crossbar_in_flight(const struct ppe_worker *worker);

/*
 * The release callback of result payloads (rte_mbuf_extbuf_free_callback_t): opaque is the
 * rmw_buffer, its user field the owning worker. Called by whatever thread frees the attached mbuf.
 */
void crossbar_payload_released(void *address, void *opaque);

#endif
