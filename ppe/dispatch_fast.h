/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch and reorder: choose a packet's program and thread, and keep the order of its flow.
 *
 * A flow is a pair of MAC addresses (coarser than a connection, so connections are never
 * reordered). A packet of an ordered program draws a ticket at its flow's slot on arrival, and may
 * leave when all earlier tickets have been returned. Flows in one slot wait for each other. The
 * oldest ticket's thread never waits, so there is always progress.
 */
#ifndef PPE_DISPATCH_FAST_H
#define PPE_DISPATCH_FAST_H

#include <rte_ether.h>
#include <rte_hash_crc.h>

#include "pktbuf/head_fast.h"
#include "ppe/program_fast.h"
#include "ppe/worker_priv.h"

/* Is the Ethernet destination the switch's address? */
static inline bool
dispatch_to_switch(const struct ppe_worker *worker, const struct pktbuf_head *head)
{
	return memcmp(head->bytes, worker->identity->mac, RTE_ETHER_ADDR_LEN) == 0;
}

/* Returns whether a packet with this head satisfies the match. */
static inline bool
dispatch_matches(const struct ppe_worker *worker, const struct ppe_match *match,
	const struct pktbuf_head *head, bool to_switch)
{
	uint16_t conditions = match->conditions;

	if ((conditions & PPE_MATCH_TO_SWITCH_MAC) && !to_switch)
		return false;
	if ((conditions & PPE_MATCH_ETHER_TYPE) &&
		((head->ether_type ^ match->ether_type) & ~match->ether_any) != 0)
		return false;
	if ((conditions & PPE_MATCH_TO_SWITCH_IP) &&
		(!(head->flags & PKTBUF_HEAD_IPV4) || head->ip_dst != worker->identity->ip))
		return false;
	if ((conditions & PPE_MATCH_IP_PROTO) &&
		(!(head->flags & PKTBUF_HEAD_IPV4) ||
			((head->ip_proto ^ match->ip_proto) & ~match->ip_proto_any) != 0))
		return false;
	if ((conditions & PPE_MATCH_IP_DST) &&
		(!(head->flags & PKTBUF_HEAD_IPV4) ||
			((head->ip_dst ^ match->ip_dst) & ~match->ip_any) != 0))
		return false;
	if ((conditions & PPE_MATCH_UDP_PORT) &&
		(!(head->flags & PKTBUF_HEAD_UDP) ||
			((head->udp_dst ^ match->udp_port) & ~match->udp_any) != 0))
		return false;
	if ((conditions & PPE_MATCH_FRAGMENT) && !(head->flags & PKTBUF_HEAD_FRAGMENT))
		return false;
	return true;
}

/* Draw a ticket for the packet's flow. */
static inline void
dispatch_ticket(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const uint8_t *mac = thread->head.bytes;
	uint64_t low;
	uint32_t high;

	memcpy(&low, mac, sizeof(low));
	memcpy(&high, mac + sizeof(low), sizeof(high));
	thread->flow = rte_hash_crc_8byte(low, rte_hash_crc_4byte(high, 0)) & (PPE_FLOWS - 1);
	thread->ticket = worker->flow[thread->flow].tail++;
	thread->ordered = 1;
}

/* Returns whether the thread's ticket is the next of its flow. Tickets are returned in order,
 * because a thread ends only after its turn, or waits for it. */
static inline bool
dispatch_my_turn(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	return worker->flow[thread->flow].head == thread->ticket;
}

/* dispatch_start for a packet without a shortcut: parse it and try the matches. */
static __rte_noinline bool
dispatch_match(struct ppe_worker *worker, struct ppe_thread *thread, struct rte_mbuf *packet)
{
	const struct ppe_match *match = worker->match;
	const struct ppe_match *end = match + worker->nb_matches;
	struct pktbuf_head *head = &thread->head;
	bool to_switch;

	thread->packet = packet;
	thread->port = packet->port;
	if (unlikely(!pktbuf_head_parse_udp(head, packet)))
		pktbuf_head_parse(head, packet, thread->scratch);
	if (unlikely(head->length < RTE_ETHER_HDR_LEN)) {
		ppe_drop(worker, thread, PPE_DROP_MALFORMED);
		return false;
	}
	to_switch = dispatch_to_switch(worker, head);
	if (unlikely((head->flags & PKTBUF_HEAD_BAD) != 0 && to_switch)) {
		ppe_drop(worker, thread, PPE_DROP_MALFORMED);
		return false;
	}
	for (; match < end; match++)
		if (dispatch_matches(worker, match, head, to_switch))
			break;
	if (unlikely(match == end)) {
		ppe_drop(worker, thread, PPE_DROP_NO_PROGRAM);
		return false;
	}
	thread->program = match->program;
	thread->next = PPE_RUN(worker->first[match->program]);
	if (worker->ordered[match->program])
		dispatch_ticket(worker, thread);
	return true;
}

/*
 * dispatch_start for a packet and the program that a filter has chosen for it. The kind of packet
 * that one of the program's matches asks for counts, so that its segments find what they rely on;
 * addresses and ports do not. False: it is of another kind; nothing has changed.
 */
static inline bool
dispatch_chosen(struct ppe_worker *worker, struct ppe_thread *thread, struct rte_mbuf *packet,
	uint8_t program)
{
	if (!pktbuf_head_parse_udp(&thread->head, packet))
		pktbuf_head_parse(&thread->head, packet, thread->scratch);
	if (thread->head.length < RTE_ETHER_HDR_LEN || (thread->head.flags & PKTBUF_HEAD_BAD) != 0)
		return false;
	for (unsigned int i = 0; i < worker->nb_matches; i++) {
		struct ppe_match kind = worker->match[i];

		kind.conditions &= (uint16_t) ~(
			PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP | PPE_MATCH_IP_DST);
		kind.udp_any = UINT16_MAX;
		if (kind.program != program ||
			!dispatch_matches(worker, &kind, &thread->head, false))
			continue;
		thread->packet = packet;
		thread->port = packet->port;
		thread->program = program;
		thread->next = PPE_RUN(worker->first[program]);
		thread->ordered = 0;
		if (worker->ordered[program])
			dispatch_ticket(worker, thread);
		worker->count.worker.threads_started++;
		return true;
	}
	return false;
}

/*
 * Put a packet into a free context. False: no program takes the packet; it is dropped and the
 * context is still free. packet->port is the switch port.
 */
static inline bool
dispatch_start(struct ppe_worker *worker, struct ppe_thread *thread, struct rte_mbuf *packet)
{
	thread->ordered = 0;
	if (likely(worker->recognize != NULL &&
		    worker->recognize(worker, worker->state[worker->recognizer], thread, packet)))
		thread->program = worker->recognizer;
	else if (!dispatch_match(worker, thread, packet))
		return false;
	worker->count.worker.threads_started++;
	return true;
}

#endif
