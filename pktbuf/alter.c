/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/alter.h"

#include <rte_ip.h>
#include <rte_udp.h>

/* Write the checksums that were left to the device. */
static void
finish_checksums(struct rte_mbuf *packet)
{
	struct rte_ipv4_hdr *ip =
		rte_pktmbuf_mtod_offset(packet, struct rte_ipv4_hdr *, packet->l2_len);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)((uint8_t *)ip + packet->l3_len);

	if (packet->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) {
		ip->hdr_checksum = 0;
		ip->hdr_checksum = rte_ipv4_cksum(ip);
	}
	if ((packet->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_UDP_CKSUM) {
		udp->dgram_cksum = 0;
		udp->dgram_cksum = rte_ipv4_udptcp_cksum(ip, udp);
	}
}

struct rte_mbuf *
pktbuf_bare_copy(const struct rte_mbuf *packet, struct rte_mempool *pool)
{
	struct rte_mbuf *copy = rte_pktmbuf_copy(packet, pool, 0, UINT32_MAX);

	if (copy == NULL)
		return NULL;
	if (copy->nb_segs > 1) {
		rte_pktmbuf_free(copy);
		return NULL;
	}
	finish_checksums(copy);
	copy->ol_flags &= ~(RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK |
		RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IPV4);
	return copy;
}

void
pktbuf_flip_bit(struct rte_mbuf *packet, uint32_t bit)
{
	uint8_t *byte = rte_pktmbuf_mtod_offset(packet, uint8_t *, bit / 8);

	*byte ^= (uint8_t)(1u << (bit % 8));
}
