/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP datagrams to and from the switch itself, for programs with a protocol of their own. All are
 * for the worker, inside a segment.
 */
#ifndef PPE_DATAGRAM_FAST_H
#define PPE_DATAGRAM_FAST_H

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/sum_priv.h"
#include "ppe/guard_fast.h"
#include "ppe/program_fast.h"
#include "ppe/simulate.h"

/* Bytes in front of the payload of a datagram that the switch makes. */
#define DATAGRAM_HEADERS                                                                           \
	(sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr))

/* Match datagrams to the switch's addresses and this UDP port (create() only). 0 or -ENOSPC. */
static inline int
datagram_match(const struct ppe_setup *setup, uint16_t udp)
{
	const struct ppe_match match = {
		.conditions = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP | PPE_MATCH_UDP_PORT,
		.udp_port = udp};

	return ppe_match_add(setup, &match);
}

/* Where datagram_passes() leads to, in a segment's `leads_to`. */
#define DATAGRAM_LEADS_TO GUARD_LEADS_TO " drop:ip_checksum drop:udp_checksum"

/* The reason why the packet's checksums are wrong; PPE_DROP_COUNT: they are right. */
static inline enum ppe_drop
datagram_checksums(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct pktbuf_port *port = worker->port[thread->port];
	enum pktbuf_verdict verdict = PKTBUF_CHECKSUM_GOOD;

	if (port->rx_checksum != PKTBUF_CHECKSUM_OFF)
		verdict = pktbuf_checksum_verify(port, thread->packet, &thread->head);
	if (likely(verdict == PKTBUF_CHECKSUM_GOOD))
		return PPE_DROP_COUNT;
	return verdict == PKTBUF_CHECKSUM_BAD_IP ? PPE_DROP_IP_CHECKSUM : PPE_DROP_UDP_CHECKSUM;
}

/* Returns whether the port may carry the sender's addresses, and the checksums are right; otherwise
 * drops the packet. Cost: as guard_passes and pktbuf_checksum_verify. */
static inline bool
datagram_passes(struct ppe_worker *worker, struct ppe_thread *thread)
{
	enum ppe_drop reason;

	/* An answer to a group address would be flooded. */
	if (unlikely((thread->head.bytes[RTE_ETHER_ADDR_LEN] & 1) != 0)) {
		ppe_drop(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
		return false;
	}
	if (!guard_passes(worker, thread, GUARD_NO_JOB))
		return false;
	reason = datagram_checksums(worker, thread);
	if (likely(reason == PPE_DROP_COUNT))
		return true;
	ppe_drop(worker, thread, reason);
	return false;
}

/* For explain(): is the packet neither dropped by datagram_passes() nor by the program, which finds
 * it `wrong`? Otherwise says so. Control thread. */
static inline bool
datagram_explain(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const char *wrong, struct ppe_explanation *explanation)
{
	enum ppe_drop reason = guard_verdict(worker, thread, GUARD_NO_JOB);

	if (reason == PPE_DROP_COUNT)
		reason = datagram_checksums(worker, thread);
	if (reason != PPE_DROP_COUNT)
		ppe_explain_drop(explanation, reason);
	else if (wrong != NULL)
		ppe_explain_end(explanation, "drop:program", "%s", wrong);
	return reason == PPE_DROP_COUNT && wrong == NULL;
}

/* The payload: at least its first 100 bytes, if it has so many, are contiguous. */
static inline const uint8_t *
datagram_payload(const struct ppe_thread *thread)
{
	return thread->head.bytes + thread->head.payload;
}

/* Where the packet came from, to answer it. */
static inline struct pktbuf_endpoint
datagram_sender(const struct ppe_thread *thread)
{
	struct pktbuf_endpoint sender = {.port = thread->port,
		.ip = thread->head.ip_src,
		.udp = thread->head.udp_src,
		.valid = 1};

	memcpy(sender.mac, thread->head.bytes + RTE_ETHER_ADDR_LEN, RTE_ETHER_ADDR_LEN);
	return sender;
}

/* The payload of a datagram that was begun, contiguous. */
static inline void *
datagram_data(struct rte_mbuf *packet)
{
	return rte_pktmbuf_mtod_offset(packet, void *, DATAGRAM_HEADERS);
}

/*
 * Begin a datagram of `bytes` bytes from the switch's UDP port `from` to an endpoint. The caller
 * writes datagram_data(), then calls datagram_send(). NULL: no mbuf, or it is too short; counted as
 * a drop.
 */
static inline struct rte_mbuf *
datagram_begin(
	struct ppe_worker *worker, const struct pktbuf_endpoint *to, uint16_t from, uint16_t bytes)
{
	struct rte_mbuf *packet = ppe_packet_alloc(worker);
	struct rte_ether_hdr *ether;
	struct rte_ipv4_hdr *ip;
	struct rte_udp_hdr *udp;

	if (unlikely(packet == NULL))
		return NULL;
	ether = (void *)rte_pktmbuf_append(packet, (uint16_t)(DATAGRAM_HEADERS + bytes));
	if (unlikely(ether == NULL)) {
		worker->count.drops[PPE_DROP_TOO_LONG]++;
		rte_pktmbuf_free(packet);
		return NULL;
	}
	ip = (struct rte_ipv4_hdr *)(ether + 1);
	udp = (struct rte_udp_hdr *)(ip + 1);
	memcpy(&ether->dst_addr, to->mac, RTE_ETHER_ADDR_LEN);
	memcpy(&ether->src_addr, worker->identity->mac, RTE_ETHER_ADDR_LEN);
	ether->ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	*ip = (struct rte_ipv4_hdr){.version_ihl = RTE_IPV4_VHL_DEF,
		.total_length = rte_cpu_to_be_16((uint16_t)(sizeof(*ip) + sizeof(*udp) + bytes)),
		.fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
		.time_to_live = 64,
		.next_proto_id = IPPROTO_UDP,
		.src_addr = rte_cpu_to_be_32(worker->identity->ip),
		.dst_addr = rte_cpu_to_be_32(to->ip)};
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	*udp = (struct rte_udp_hdr){.src_port = rte_cpu_to_be_16(from),
		.dst_port = rte_cpu_to_be_16(to->udp),
		.dgram_len = rte_cpu_to_be_16((uint16_t)(sizeof(*udp) + bytes))};
	return packet;
}

/* Write the UDP checksum and send. Consumes the packet. */
static inline void
datagram_send(struct ppe_worker *worker, struct rte_mbuf *packet, uint16_t port)
{
	const size_t at = DATAGRAM_HEADERS - sizeof(struct rte_udp_hdr);
	struct rte_udp_hdr *udp = rte_pktmbuf_mtod_offset(packet, void *, at);
	uint32_t sum = rte_ipv4_phdr_cksum(
		rte_pktmbuf_mtod_offset(packet, void *, sizeof(struct rte_ether_hdr)), 0);
	uint16_t folded =
		pktbuf_sum_fold(sum + pktbuf_sum_bytes(udp, rte_be_to_cpu_16(udp->dgram_len)));

	/* 0 would mean "not computed" (RFC 768). */
	udp->dgram_cksum = folded == 0xffff ? 0xffff : (uint16_t)~folded;
	ppe_output(worker, packet, port, PKTBUF_PRIO_RESULT);
}

#endif
