/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/head.h"

#include <string.h>

#include <netinet/in.h>

#include "pktbuf/wire/wire.h"

#define ETHER         14
#define IPV4          20
#define UDP           8
#define IPV4_FRAGMENT 0x3fff /* more fragments, or an offset */

/* The UDP header at head->l4, with `room` bytes of IPv4 payload. */
static void
parse_udp(struct pktbuf_head *head, unsigned int room)
{
	const uint8_t *udp = head->bytes + head->l4;
	unsigned int length;

	if (room < UDP) {
		head->flags |= PKTBUF_HEAD_BAD;
		return;
	}
	head->udp_src = weir_get16(udp);
	head->udp_dst = weir_get16(udp + 2);
	length = weir_get16(udp + 4);
	if (length < UDP || length > room) {
		head->flags |= PKTBUF_HEAD_BAD;
		return;
	}
	head->payload = (uint16_t)(head->l4 + UDP);
	head->payload_length = (uint16_t)(length - UDP);
	head->flags |= PKTBUF_HEAD_UDP;
}

static void
parse_ipv4(struct pktbuf_head *head)
{
	const uint8_t *ip = head->bytes + ETHER;
	unsigned int header, total;

	if (head->length < ETHER + IPV4) {
		head->flags |= PKTBUF_HEAD_BAD;
		return;
	}
	header = (ip[0] & 0xfu) * 4;
	total = weir_get16(ip + 2);
	/* The header with all its options is within the 192 bytes: 14 + 60. */
	if (ip[0] >> 4 != 4 || header < IPV4 || total < header || ETHER + total > head->length) {
		head->flags |= PKTBUF_HEAD_BAD;
		return;
	}
	head->l3 = ETHER;
	head->l4 = (uint8_t)(ETHER + header);
	head->ip_proto = ip[9];
	head->ip_src = weir_get32(ip + 12);
	head->ip_dst = weir_get32(ip + 16);
	head->flags |= PKTBUF_HEAD_IPV4;
	if (header > IPV4)
		head->flags |= PKTBUF_HEAD_OPTIONS;
	if ((weir_get16(ip + 6) & IPV4_FRAGMENT) != 0)
		head->flags |= PKTBUF_HEAD_FRAGMENT;
	else if (head->ip_proto == IPPROTO_UDP)
		parse_udp(head, total - header);
}

void
pktbuf_head_parse(
	struct pktbuf_head *head, const struct rte_mbuf *packet, uint8_t scratch[PKTBUF_HEAD_BYTES])
{
	uint32_t length = rte_pktmbuf_pkt_len(packet);
	uint32_t here = RTE_MIN(length, (uint32_t)PKTBUF_HEAD_BYTES);

	memset(head, 0, sizeof(*head));
	head->length = length;
	if (likely(rte_pktmbuf_data_len(packet) >= here))
		head->bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
	else
		head->bytes = rte_pktmbuf_read(packet, 0, here, scratch);
	if (unlikely(length < ETHER))
		return;
	head->ether_type = weir_get16(head->bytes + 12);
	if (likely(head->ether_type == 0x0800))
		parse_ipv4(head);
}
