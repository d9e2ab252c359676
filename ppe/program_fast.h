/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of a segment: the hot half of the program contract. All are for the worker that
 * runs the thread, inside a segment. None allocates, logs, reads a clock or waits.
 */
#ifndef PPE_PROGRAM_FAST_H
#define PPE_PROGRAM_FAST_H

#include <assert.h>
#include <string.h>

#include "ppe/crossbar_fast.h"
#include "ppe/program.h"
#include "ppe/worker_priv.h"

/* This worker's state of the thread's program, as create() made it. */
static inline void *
ppe_state(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	return worker->state[thread->program];
}

/* End of the packet: its bytes went into an aggregation buffer, a table or the kernel. It is freed
 * with others, by the end of the turn. */
static inline void
ppe_consume_packet(struct ppe_worker *worker, struct rte_mbuf *packet)
{
	worker->consumed[worker->nb_consumed++] = packet;
	worker->count.consumed++;
	if (unlikely(worker->nb_consumed == PPE_CONSUMED))
		ppe_free_consumed(worker);
}

static inline struct ppe_next
ppe_consume(struct ppe_worker *worker, struct ppe_thread *thread)
{
	ppe_consume_packet(worker, thread->packet);
	thread->packet = NULL;
	return PPE_END;
}

/* End of the packet: dropped and counted under `reason`. Frees it. */
static inline struct ppe_next
ppe_drop(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason)
{
	rte_pktmbuf_free(thread->packet);
	thread->packet = NULL;
	worker->count.drops[reason]++;
	return PPE_END;
}

/* Drop a packet that an output queue has refused. Out of line: barrel.c. */
void ppe_output_refused(struct ppe_worker *worker, const struct pktbuf_outq *outq,
	struct rte_mbuf *packet, unsigned int priority, enum pktbuf_refusal refusal);

/* Queue a packet in an output queue of this worker, or drop it. */
static inline void
ppe_output_own(struct ppe_worker *worker, struct pktbuf_outq *outq, struct rte_mbuf *packet,
	unsigned int priority)
{
	enum pktbuf_refusal refusal = pktbuf_outq_push(outq, priority, packet);

	if (unlikely(refusal != PKTBUF_QUEUED))
		ppe_output_refused(worker, outq, packet, priority, refusal);
}

/*
 * Send a packet that this thread made (a result, a reply, a copy) to the output queue of a port:
 * directly if this worker owns a queue of the port, else over the crossbar. Always takes the mbuf;
 * a packet that the queue refuses is a drop. The caller has counted the packet as created.
 * port: [0, nb_ports). priority: enum pktbuf_priority.
 */
static inline void
ppe_output(struct ppe_worker *worker, struct rte_mbuf *packet, uint16_t port, unsigned int priority)
{
	const struct ppe_route *route = &worker->route[port];

	if (likely(route->queue != NULL))
		ppe_output_own(worker, route->queue, packet, priority);
	else
		crossbar_send_output(worker, route->owner, packet, port, priority);
}

/* End of the packet: send it to the output queue of a port. */
static inline struct ppe_next
ppe_send(struct ppe_worker *worker, struct ppe_thread *thread, uint16_t port, unsigned int priority)
{
	struct rte_mbuf *packet = thread->packet;

	thread->packet = NULL;
	ppe_output(worker, packet, port, priority);
	return PPE_END;
}

/*
 * Continue with `segment` on worker `to`: [0, workers). On the same worker, runs it at once.
 * Otherwise the packet, the parsed head, port and the first PPE_HOP_BYTES of LMEM go there, and
 * this context becomes free; the thread gives up its turn within its flow. A full ring drops the
 * packet (crossbar_full).
 */
static inline struct ppe_next
ppe_hop(struct ppe_worker *worker, struct ppe_thread *thread, uint16_t to, ppe_segment segment)
{
	if (to == worker->id)
		return segment(worker, thread);
	crossbar_send_thread(worker, to, thread, segment, false);
	return PPE_END;
}

/* For batch segments: give a packet of the backlog to another worker, as if that had received it. A
 * worker without the job (`hopped` in struct ppe_program) drops it, and a full ring
 * (crossbar_full). */
static inline void
ppe_hop_packet(struct ppe_worker *worker, uint16_t to, struct rte_mbuf *packet, uint32_t job)
{
	crossbar_send_raw(worker, to, packet, job);
}

/* The same for a program without jobs: `to` dispatches the packet like one that it received. */
static inline void
ppe_hop_received(struct ppe_worker *worker, uint16_t to, struct rte_mbuf *packet)
{
	crossbar_send_raw(worker, to, packet, 0);
}

/* ppe_hop for a thread that must arrive: it waits for room in the ring. At most one per job. */
static inline struct ppe_next
ppe_hop_certain(
	struct ppe_worker *worker, struct ppe_thread *thread, uint16_t to, ppe_segment segment)
{
	if (to == worker->id)
		return PPE_RUN(segment);
	crossbar_send_thread(worker, to, thread, segment, true);
	return PPE_END;
}

/* Wait for the thread's turn in its flow, then run thread->turn. */
struct ppe_next ppe_wait_turn(struct ppe_worker *worker, struct ppe_thread *thread);

/*
 * Continue with `segment` when all earlier packets of the flow have ended or been sent; at once if
 * the program is not `ordered`.
 */
static inline struct ppe_next
ppe_in_order(struct ppe_worker *worker, struct ppe_thread *thread, ppe_segment segment)
{
	if (likely(!thread->ordered || worker->flow[thread->flow].head == thread->ticket))
		return PPE_RUN(segment);
	thread->turn = segment;
	return PPE_RUN(ppe_wait_turn);
}

/*
 * Pass the packet to another program of this switch, at its first segment. index: from
 * ppe_program_find. LMEM then belongs to the next program. A program that passes packets to an
 * `ordered` one must be ordered, because tickets are drawn at dispatch.
 */
static inline struct ppe_next
ppe_pass(struct ppe_worker *worker, struct ppe_thread *thread, uint8_t index)
{
	thread->program = index;
	return PPE_RUN(worker->first[index]);
}

/*
 * Pass the packet to the next program that matches it, as if this program had not matched. For a
 * program that only looks at packets. It must be `ordered`, because forward is. Cost: the matches
 * that are left.
 */
struct ppe_next ppe_pass_on(struct ppe_worker *worker, struct ppe_thread *thread);

/* Allocate a packet mbuf for a message or a copy, counted as created. NULL: none (no_mbuf). */
static inline struct rte_mbuf *
ppe_packet_alloc(struct ppe_worker *worker)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(worker->pools->packets);

	/* A failed allocation counts as created and dropped, so that the totals balance. */
	worker->count.created++;
	if (unlikely(packet == NULL))
		worker->count.drops[PPE_DROP_NO_MBUF]++;
	return packet;
}

#endif
