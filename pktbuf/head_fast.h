/* SPDX-License-Identifier: BSD-3-Clause */
/* The head of common packets, inline. See pktbuf/head.h. */
#ifndef PKTBUF_HEAD_FAST_H
#define PKTBUF_HEAD_FAST_H

#include "pktbuf/head.h"
#include "pktbuf/wire/wire.h"

/*
 * Parse a common frame: first bytes contiguous, Ethernet, IPv4 without options, no fragment, UDP,
 * consistent lengths. false: it is another frame, and *head is undefined; call pktbuf_head_parse().
 * On true, *head is as that would have set it.
 * Cost: the mbuf's first line and one line of the packet.
 */
static inline bool
pktbuf_head_parse_udp(struct pktbuf_head *head, const struct rte_mbuf *packet)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	uint32_t here = rte_pktmbuf_data_len(packet), length = rte_pktmbuf_pkt_len(packet);
	uint32_t total, udp;

	/* 42: up to the end of the UDP header. */
	if (unlikely(here < 42 || (here < PKTBUF_HEAD_BYTES && here != length)))
		return false;
	total = weir_get16(p + 16);
	udp = weir_get16(p + 38);
	/* 0x0800, version 4 and 5 words; no offset, no more fragments; UDP */
	if (unlikely(weir_get16(p + 12) != 0x0800 || p[14] != 0x45 ||
		    (weir_get16(p + 20) & 0x3fff) != 0 || p[23] != 17 || total < 28 ||
		    total + 14 > length || udp < 8 || udp > total - 20))
		return false;
	*head = (struct pktbuf_head){
		.bytes = p,
		.length = length,
		.ip_src = weir_get32(p + 26),
		.ip_dst = weir_get32(p + 30),
		.ether_type = 0x0800,
		.udp_src = weir_get16(p + 34),
		.udp_dst = weir_get16(p + 36),
		.payload = 42,
		.payload_length = (uint16_t)(udp - 8),
		.l3 = 14,
		.l4 = 34,
		.ip_proto = 17,
		.flags = PKTBUF_HEAD_IPV4 | PKTBUF_HEAD_UDP,
	};
	return true;
}

#endif
