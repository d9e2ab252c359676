/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest contribution there is: a header, no elements, as a frame of a job with a fixed generation. */
#ifndef APPS_BENCH_BARRIER_H
#define APPS_BENCH_BARRIER_H

#include <string.h>

#include <netinet/in.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/pktbuf.h"

#define BARRIER_HEADER (14 + 20 + 8)
#define BARRIER_FRAME  (BARRIER_HEADER + WEIR_BASE_BYTES)

/* Write one to the switch `to`. address: its source's, host order. No checksums. */
static inline void
barrier_write(uint8_t frame[BARRIER_FRAME], const struct pktbuf_identity *to, uint32_t address,
	const struct weir_header *header)
{
	struct rte_ether_hdr ether = {.ether_type = htons(RTE_ETHER_TYPE_IPV4)};
	struct rte_ipv4_hdr ip = {.version_ihl = RTE_IPV4_VHL_DEF,
		.total_length = htons(BARRIER_FRAME - 14),
		.time_to_live = 64,
		.next_proto_id = IPPROTO_UDP,
		.src_addr = htonl(address),
		.dst_addr = htonl(to->ip)};
	struct rte_udp_hdr udp = {.src_port = htons(40000),
		.dst_port = htons(to->port_base),
		.dgram_len = htons(8 + WEIR_BASE_BYTES)};

	memcpy(ether.dst_addr.addr_bytes, to->mac, RTE_ETHER_ADDR_LEN);
	ether.src_addr.addr_bytes[0] = 2;
	ether.src_addr.addr_bytes[5] = (uint8_t)address;
	memcpy(frame, &ether, sizeof(ether));
	memcpy(frame + 14, &ip, sizeof(ip));
	memcpy(frame + 34, &udp, sizeof(udp));
	weir_header_write(header, frame + BARRIER_HEADER);
}

#endif
