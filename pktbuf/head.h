/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The head of a packet: its first bytes, contiguous, and its parsed Ethernet, IPv4 and UDP headers.
 * It is parsed once, at dispatch. VLAN-tagged frames are not parsed further.
 */
#ifndef PKTBUF_HEAD_H
#define PKTBUF_HEAD_H

#include <stdint.h>

#include <rte_mbuf.h>

#define PKTBUF_HEAD_BYTES 192 /* Trio hands 192 bytes to the thread */

/* struct pktbuf_head.flags */
#define PKTBUF_HEAD_IPV4     0x01 /* a sane IPv4 header: l3, l4, ip_* are valid */
#define PKTBUF_HEAD_UDP      0x02 /* a sane UDP header, no fragment: udp_*, payload* are valid */
#define PKTBUF_HEAD_OPTIONS  0x04 /* the IPv4 header has options */
#define PKTBUF_HEAD_FRAGMENT 0x08 /* an IPv4 fragment, first or later */
#define PKTBUF_HEAD_BAD      0x10 /* IPv4 or UDP lengths contradict the frame or each other */

/* All numbers in host order. Valid as long as the packet's first bytes (or the scratch) are. */
struct pktbuf_head {
	const uint8_t *bytes; /* min(length, 192) contiguous bytes of the frame */
	uint32_t length; /* of the whole packet, bytes */
	uint32_t ip_src, ip_dst; /* valid with IPV4 */
	uint16_t ether_type; /* 0 when the frame is shorter than 14 bytes */
	uint16_t udp_src, udp_dst;
	uint16_t payload; /* offset of the UDP payload in the frame */
	uint16_t payload_length; /* of the UDP payload, from the UDP length */
	uint8_t l3, l4; /* offsets of the IPv4 header and of the next one */
	uint8_t ip_proto;
	uint8_t flags; /* PKTBUF_HEAD_* */
};
static_assert(sizeof(struct pktbuf_head) <= 40, "the head travels in a hop");

/*
 * Parse. packet: any frame of any length in any segmentation; never reads beyond it. scratch:
 * PKTBUF_HEAD_BYTES, used when the first bytes are not contiguous; must live as long as *head.
 * Cost: one cache line of the packet, two when there are IPv4 options.
 */
void pktbuf_head_parse(struct pktbuf_head *head, const struct rte_mbuf *packet,
	uint8_t scratch[PKTBUF_HEAD_BYTES]);

#endif
