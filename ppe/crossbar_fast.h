/* SPDX-License-Identifier: BSD-3-Clause */
/* The crossbar's sending half, inline. See ppe/crossbar.h. */
#ifndef PPE_CROSSBAR_FAST_H
#define PPE_CROSSBAR_FAST_H

#include <assert.h>
#include <string.h>

#include "ppe/crossbar.h"
#include "ppe/worker_priv.h"

/* The content of a hopping mbuf's private area. A finished packet uses only the first 16 bytes,
 * which also fit a header mbuf's private area. */
struct crossbar_hop {
	ppe_segment segment; /* NULL: a finished packet for `port` */
	uint16_t port;
	uint8_t priority;
	uint8_t program;
	uint8_t certain; /* must not be dropped */
	uint8_t reserved[3];
	struct pktbuf_head head;
	uint8_t lmem[PPE_HOP_BYTES];
};
static_assert(sizeof(struct crossbar_hop) <= PKTBUF_PRIV_BYTES, "a hop fits the private area");
static_assert(offsetof(struct crossbar_hop, head) <= 16, "an output fits a header mbuf's area");

/* An entry is an mbuf with a hop in its private area; or, with the lowest bit of its address set, a
 * received packet, without a hop. */
static inline bool
crossbar_is_raw(const void *entry)
{
	return ((uintptr_t)entry & 1) != 0;
}

static inline struct rte_mbuf *
crossbar_mbuf(void *entry)
{
	return (struct rte_mbuf *)((uintptr_t)entry & ~(uintptr_t)1);
}

static inline void
crossbar_stage(struct ppe_worker *worker, uint16_t to, void *entry)
{
	struct ppe_peer *peer = &worker->peer[to];

	peer->stage[peer->staged++] = entry;
	if (unlikely(peer->staged >= worker->burst))
		crossbar_flush(worker, to);
}

/* Send a thread to `to`; its packet becomes the carrier. The caller returns PPE_END. */
static inline void
crossbar_send_thread(struct ppe_worker *worker, uint16_t to, struct ppe_thread *thread,
	ppe_segment segment, bool certain)
{
	struct rte_mbuf *packet = thread->packet;
	struct crossbar_hop *hop = pktbuf_priv(packet);

	hop->segment = segment;
	hop->port = thread->port;
	hop->program = thread->program;
	hop->certain = certain;
	hop->head = thread->head;
	memcpy(hop->lmem, thread->lmem, PPE_HOP_BYTES);
	thread->packet = NULL;
	worker->count.worker.hops_out++;
	worker->count.threads_out[thread->program]++;
	crossbar_stage(worker, to, packet);
}

/* Send a received packet, as if `to` had received it. job: its serial. */
static inline void
crossbar_send_raw(struct ppe_worker *worker, uint16_t to, struct rte_mbuf *packet, uint32_t job)
{
	packet->hash.usr = job;
	worker->count.worker.hops_out++;
	crossbar_stage(worker, to, (void *)((uintptr_t)packet | 1));
}

/* Send a finished packet to the worker that owns a queue of its port. */
static inline void
crossbar_send_output(struct ppe_worker *worker, uint16_t to, struct rte_mbuf *packet, uint16_t port,
	unsigned int priority)
{
	struct crossbar_hop *hop = pktbuf_priv(packet);

	hop->segment = NULL;
	hop->port = port;
	hop->priority = (uint8_t)priority;
	hop->certain = false;
	crossbar_stage(worker, to, packet);
}

#endif
