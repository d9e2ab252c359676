/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exception program: packets to the switch itself, except aggregation packets, go to the kernel through a TAP port
 * with the switch's MAC and IP address. The kernel's answers enter by that port and are forwarded like other frames.
 *
 * Neither the kernel nor the switch can use an aggregation packet with a VLAN tag; it has its own drop reason.
 */
#include <netinet/in.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/wire/wire.h"
#include "ppe/guard_fast.h"
#include "ppe/program_fast.h"
#include "ppe/programs/programs.h"

static struct ppe_next
to_kernel(struct ppe_worker *worker, struct ppe_thread *thread)
{
	ppe_send(worker, thread, (uint16_t)worker->exception_port, PKTBUF_PRIO_BULK);
	return PPE_END;
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
	if (unlikely(
		    is_tag(thread->head.ether_type) && tagged_aggregation(worker, &thread->head))) {
		ppe_drop(worker, thread, PPE_DROP_VLAN_TAG);
		return PPE_END;
	}
	if (unlikely(worker->exception_port < 0)) {
		ppe_drop(worker, thread, PPE_DROP_NO_EXCEPTION_PORT);
		return PPE_END;
	}
	if (unlikely(thread->port == worker->exception_port)) {
		ppe_drop(worker, thread, PPE_DROP_SAME_PORT);
		return PPE_END;
	}
	if (!guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	if (!guard_conforms(worker, thread->port, GUARD_EXCEPTION)) {
		ppe_drop(worker, thread, PPE_DROP_POLICED_PORT);
		return PPE_END;
	}
	return ppe_in_order(worker, thread, to_kernel);
}

static int
create(const struct ppe_setup *setup, void **state __rte_unused)
{
	const struct ppe_match match = {.conditions = PPE_MATCH_TO_SWITCH_MAC};

	return ppe_match_add(setup, &match);
}

static const struct ppe_segment_name segments[] = {
	{classify, "classify"},
	{to_kernel, "to_kernel"},
	{NULL, NULL},
};

const struct ppe_program exception_program = {
	.name = "exception",
	.first = classify,
	.ordered = true,
	.create = create,
	.segments = {segments},
};
