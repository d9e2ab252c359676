/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exception program: packets to the switch itself, except aggregation packets, go to the kernel
 * through a TAP port with the switch's MAC and IP address. The kernel's answers enter by that port
 * and are forwarded like other frames.
 *
 * The TAP's MTU is 1500, and the hosts' may be larger. An IPv4 packet that is too long for the TAP
 * goes to the kernel in fragments, which the kernel reassembles (RFC 791, 3.2). Its DF bit is
 * ignored, because the packet has arrived.
 *
 * Neither the kernel nor the switch can use an aggregation packet with a VLAN tag; it has its own
 * drop reason.
 */
#include <errno.h>
#include <netinet/in.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_ip_frag.h>
#include <rte_udp.h>

#include "pktbuf/wire/wire.h"
#include "ppe/guard_fast.h"
#include "ppe/program_fast.h"
#include "ppe/programs/programs.h"
#include "ppe/simulate.h"

/* Of a packet of the longest MTU, 9600 bytes. */
#define FRAGMENTS_MAX 8

/* Send an IPv4 packet in fragments. 0, -ENOMEM, or another -errno: it cannot be cut. */
static int
send_fragments(struct ppe_worker *worker, struct ppe_thread *thread, uint32_t mtu)
{
	struct rte_mbuf *packet = thread->packet, *part[FRAGMENTS_MAX];
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packet, void *, RTE_ETHER_HDR_LEN);
	const struct rte_ether_hdr ether = *rte_pktmbuf_mtod(packet, struct rte_ether_hdr *);
	int n;

	if (packet->data_len < RTE_ETHER_HDR_LEN + rte_ipv4_hdr_len(ip) ||
		rte_ipv4_hdr_len(ip) < sizeof(*ip) ||
		rte_be_to_cpu_16(ip->total_length) != packet->pkt_len - RTE_ETHER_HDR_LEN)
		return -EINVAL;
	ip->fragment_offset &= ~RTE_BE16(RTE_IPV4_HDR_DF_FLAG);
	rte_pktmbuf_adj(packet, RTE_ETHER_HDR_LEN);
	/* The fragments refer to the packet, which the TAP's driver copies. */
	n = rte_ipv4_fragment_packet(packet, part, FRAGMENTS_MAX, (uint16_t)mtu,
		worker->pools->headers, worker->pools->attaches);
	rte_pktmbuf_prepend(packet, RTE_ETHER_HDR_LEN);
	if (n < 0)
		return n;
	worker->count.created += (unsigned int)n;
	for (int i = 0; i < n; i++) {
		ip = rte_pktmbuf_mtod(part[i], struct rte_ipv4_hdr *);
		ip->hdr_checksum = rte_ipv4_cksum(ip);
		memcpy(rte_pktmbuf_prepend(part[i], RTE_ETHER_HDR_LEN), &ether, sizeof(ether));
		ppe_output(worker, part[i], (uint16_t)worker->exception_port, PKTBUF_PRIO_BULK);
	}
	return 0;
}

static struct ppe_next
to_kernel(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct pktbuf_port *tap = worker->port[worker->exception_port];
	const uint32_t most = __atomic_load_n(&tap->frame_max, __ATOMIC_RELAXED);
	int rc = -EINVAL;

	if (unlikely(thread->packet->pkt_len > most) && most > 0 &&
		thread->head.ether_type == RTE_ETHER_TYPE_IPV4)
		rc = send_fragments(worker, thread, most - RTE_ETHER_HDR_LEN);
	if (unlikely(rc == 0))
		return ppe_consume(worker, thread);
	if (unlikely(rc == -ENOMEM))
		return ppe_drop(worker, thread, PPE_DROP_NO_MBUF);
	return ppe_send(worker, thread, (uint16_t)worker->exception_port, PKTBUF_PRIO_BULK);
}

static bool
is_tag(uint16_t ether_type)
{
	return ether_type == RTE_ETHER_TYPE_VLAN || ether_type == RTE_ETHER_TYPE_QINQ;
}

/* Do one or two tags precede IPv4 and UDP to one of the switch's ports? Heads are long enough. */
static bool
tagged_aggregation(const struct ppe_worker *worker, const struct pktbuf_head *head)
{
	const struct pktbuf_identity *identity = worker->identity;
	uint32_t have = RTE_MIN(head->length, (uint32_t)PKTBUF_HEAD_BYTES), at = RTE_ETHER_HDR_LEN;
	uint16_t type = head->ether_type, port;
	const uint8_t *ip;

	for (unsigned int tags = 0; tags < 2 && is_tag(type); tags++) {
		at += RTE_VLAN_HLEN;
		if (have < at)
			return false;
		type = weir_get16(head->bytes + at - 2);
	}
	ip = head->bytes + at;
	if (type != RTE_ETHER_TYPE_IPV4 || have < at + sizeof(struct rte_ipv4_hdr))
		return false;
	at += (ip[0] & RTE_IPV4_HDR_IHL_MASK) * RTE_IPV4_IHL_MULTIPLIER;
	if (ip[offsetof(struct rte_ipv4_hdr, next_proto_id)] != IPPROTO_UDP ||
		weir_get32(ip + offsetof(struct rte_ipv4_hdr, dst_addr)) != identity->ip ||
		have < at + sizeof(struct rte_udp_hdr))
		return false;
	port = weir_get16(head->bytes + at + offsetof(struct rte_udp_hdr, dst_port));
	return pktbuf_port_is(identity, port, identity->port_base) ||
		pktbuf_port_is(identity, port, identity->port_ext);
}

static struct ppe_next
classify(struct ppe_worker *worker, struct ppe_thread *thread)
{
	if (unlikely(is_tag(thread->head.ether_type) && tagged_aggregation(worker, &thread->head)))
		return ppe_drop(worker, thread, PPE_DROP_VLAN_TAG);
	if (!guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	if (unlikely(worker->exception_port < 0))
		return ppe_drop(worker, thread, PPE_DROP_NO_EXCEPTION_PORT);
	if (unlikely(thread->port == worker->exception_port))
		return ppe_drop(worker, thread, PPE_DROP_SAME_PORT);
	if (!guard_conforms(worker, thread->port, GUARD_EXCEPTION))
		return ppe_drop(worker, thread, PPE_DROP_POLICED_PORT);
	return ppe_in_order(worker, thread, to_kernel);
}

static void
explain(const struct ppe_worker *worker, const void *const *states __rte_unused,
	const struct ppe_thread *thread, struct ppe_explanation *explanation)
{
	enum ppe_drop reason = guard_verdict(worker, thread, GUARD_NO_JOB);

	ppe_explain(explanation, "classify", "a frame to the switch itself");
	if (is_tag(thread->head.ether_type) && tagged_aggregation(worker, &thread->head))
		reason = PPE_DROP_VLAN_TAG;
	else if (reason == PPE_DROP_COUNT && worker->exception_port < 0)
		reason = PPE_DROP_NO_EXCEPTION_PORT;
	else if (reason == PPE_DROP_COUNT && thread->port == worker->exception_port)
		reason = PPE_DROP_SAME_PORT;
	if (reason != PPE_DROP_COUNT) {
		ppe_explain_drop(explanation, reason);
		return;
	}
	ppe_explain(explanation, "to_kernel", "after earlier frames of its two stations");
	ppe_explain_end(explanation, "send", "to the kernel, by port %s",
		worker->port[worker->exception_port]->name);
}

static int
create(const struct ppe_setup *setup, void **state __rte_unused)
{
	const struct ppe_match match = {.conditions = PPE_MATCH_TO_SWITCH_MAC};

	return ppe_match_add(setup, &match);
}

static const struct ppe_segment_name segments[] = {
	{classify, "classify",
		"to_kernel output drop:vlan_tag drop:no_exception_port drop:same_port "
		"drop:policed_port" GUARD_LEADS_TO},
	{to_kernel, "to_kernel", "send consume output drop:no_mbuf"},
	{0},
};

const struct ppe_program exception_program = {
	.name = "exception",
	.help = "hands packets for the switch itself to the kernel",
	.first = classify,
	.ordered = true,
	.explain = explain,
	.create = create,
	.segments = {segments},
};
