/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/result.h"

#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/checksum.h"

#define REPLY_BYTES_MAX 64

struct frame {
	struct rte_ether_hdr ether;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	uint8_t header[WEIR_EXT_BYTES + REPLY_BYTES_MAX];
} __rte_packed __rte_aligned(2);
static_assert(sizeof(struct frame) <= PKTBUF_HEADER_DATA_BYTES, "a header mbuf holds a frame");

/* Everything before the aggregation header; udp_bytes: header and payload behind UDP's own. */
static void
address(struct frame *f, const struct pktbuf_identity *from, const struct pktbuf_endpoint *to,
	bool extended, uint32_t udp_bytes)
{
	memcpy(&f->ether.dst_addr, to->mac, RTE_ETHER_ADDR_LEN);
	memcpy(&f->ether.src_addr, from->mac, RTE_ETHER_ADDR_LEN);
	f->ether.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	f->ip = (struct rte_ipv4_hdr){
		.version_ihl = RTE_IPV4_VHL_DEF,
		.total_length =
			rte_cpu_to_be_16((uint16_t)(sizeof(f->ip) + sizeof(f->udp) + udp_bytes)),
		.fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
		.time_to_live = 64,
		.next_proto_id = IPPROTO_UDP,
		.src_addr = rte_cpu_to_be_32(from->ip),
		.dst_addr = rte_cpu_to_be_32(to->ip),
	};
	f->udp = (struct rte_udp_hdr){
		.src_port = rte_cpu_to_be_16(extended ? from->port_ext : from->port_base),
		.dst_port = rte_cpu_to_be_16(to->udp),
		.dgram_len = rte_cpu_to_be_16((uint16_t)(sizeof(f->udp) + udp_bytes)),
	};
}

/* Both checksums; header_bytes of the aggregation header (and reply) are in the frame, and the
 * rest of the payload has the sum `rest`. */
static void
checksums(struct rte_mbuf *packet, struct frame *f, const struct pktbuf_port *port,
	unsigned int header_bytes, uint32_t rest)
{
	uint32_t sum;

	if (port->tx_checksum == PKTBUF_CHECKSUM_OFFLOAD) {
		packet->l2_len = sizeof(f->ether);
		packet->l3_len = sizeof(f->ip);
		packet->ol_flags |=
			RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
		f->udp.dgram_cksum = rte_ipv4_phdr_cksum(&f->ip, packet->ol_flags);
		return;
	}
	f->ip.hdr_checksum = rte_ipv4_cksum(&f->ip);
	if (port->tx_checksum == PKTBUF_CHECKSUM_OFF)
		return;
	sum = rte_ipv4_phdr_cksum(&f->ip, 0) +
		(uint32_t)rte_raw_cksum(&f->udp, sizeof(f->udp) + header_bytes) + rest;
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	/* A sum of 0 is sent as all ones: 0 would mean "not computed" (RFC 768). */
	f->udp.dgram_cksum = sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

struct rte_mbuf *
pktbuf_reply_build(const struct pktbuf_pools *pools, const struct pktbuf_port *port,
	const struct pktbuf_identity *identity, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(pools->headers);
	struct frame *f;
	unsigned int used;

	if (unlikely(packet == NULL))
		return NULL;
	f = rte_pktmbuf_mtod(packet, struct frame *);
	used = weir_header_write(header, f->header);
	if (bytes > 0)
		memcpy(f->header + used, payload, bytes);
	used += bytes;
	packet->data_len = (uint16_t)(offsetof(struct frame, header) + used);
	packet->pkt_len = packet->data_len;
	address(f, identity, to, header->extended, used);
	checksums(packet, f, port, used, 0);
	return packet;
}

struct rte_mbuf *
pktbuf_result_build(const struct pktbuf_pools *pools, const struct pktbuf_port *port,
	const struct pktbuf_identity *identity, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const struct pktbuf_payload *payload)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(pools->headers);
	struct rte_mbuf *attach = rte_pktmbuf_alloc(pools->attaches);
	struct rte_mbuf_ext_shared_info *count;
	struct frame *f;
	unsigned int used;

	if (unlikely(packet == NULL || attach == NULL)) {
		rte_pktmbuf_free(packet);
		rte_pktmbuf_free(attach);
		return NULL;
	}
	count = pktbuf_priv(attach);
	count->free_cb = payload->released;
	count->fcb_opaque = payload->opaque;
	rte_mbuf_ext_refcnt_set(count, 1);
	rte_pktmbuf_attach_extbuf(
		attach, payload->data, payload->iova, (uint16_t)payload->bytes, count);
	attach->data_off = 0;
	attach->data_len = (uint16_t)payload->bytes;
	attach->pkt_len = payload->bytes;

	f = rte_pktmbuf_mtod(packet, struct frame *);
	used = weir_header_write(header, f->header);
	packet->data_len = (uint16_t)(offsetof(struct frame, header) + used);
	packet->pkt_len = packet->data_len + payload->bytes;
	packet->next = attach;
	packet->nb_segs = 2;
	address(f, identity, to, header->extended, used + payload->bytes);
	checksums(packet, f, port, used, payload->sum);
	return packet;
}
