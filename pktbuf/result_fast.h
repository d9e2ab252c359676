/* SPDX-License-Identifier: BSD-3-Clause */
/* Building results, inline. See pktbuf/result.h. */
#ifndef PKTBUF_RESULT_FAST_H
#define PKTBUF_RESULT_FAST_H

#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/result.h"
#include "pktbuf/sum_priv.h"

struct pktbuf_frame {
	struct rte_ether_hdr ether;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	uint8_t header[WEIR_EXT_BYTES];
	uint8_t payload[PKTBUF_COPY_BYTES];
} __rte_packed __rte_aligned(2);
static_assert(offsetof(struct pktbuf_frame, header) ==
		sizeof(((struct pktbuf_header_template *)0)->frame),
	"a header template is a frame up to the aggregation header");
static_assert(
	sizeof(struct pktbuf_frame) <= PKTBUF_HEADER_DATA_BYTES, "a header mbuf holds a frame");

/* The sum of a word's four 16-bit parts. */
static inline uint32_t
pktbuf_sum_parts(uint64_t word)
{
	word = (word & UINT64_C(0xffff0000ffff)) + (word >> 16 & UINT64_C(0xffff0000ffff));
	return (uint32_t)word + (uint32_t)(word >> 32);
}

/* Change the shared header to that of another block, whose header differs only in the number and
 * whose payload is as long. */
static inline void
pktbuf_shared_header_renumber(
	struct pktbuf_shared_header *shared, uint32_t block_id, uint32_t payload_sum)
{
	const rte_be32_t number = rte_cpu_to_be_32(block_id);
	uint64_t word;

	memcpy(shared->header + offsetof(struct weir_base, block_id), &number, sizeof(number));
	memcpy(&word, shared->header, sizeof(word));
	shared->sum = shared->constant + pktbuf_sum_parts(word) + payload_sum;
}

/* Reset a new mbuf as rte_pktmbuf_reset() does, in few stores: data_off, refcnt, nb_segs and port
 * are one word. */
static inline void
pktbuf_mbuf_init(
	struct rte_mbuf *m, uint16_t data_off, uint16_t segments, uint32_t bytes, uint32_t all)
{
	const struct rte_mbuf fresh = {.data_off = data_off,
		.refcnt = 1,
		.nb_segs = segments,
		.port = RTE_MBUF_PORT_INVALID};

	memcpy(&m->rearm_data, &fresh.rearm_data, sizeof(uint64_t));
	m->ol_flags = 0;
	m->packet_type = 0;
	m->pkt_len = all;
	m->data_len = (uint16_t)bytes;
	m->vlan_tci = 0;
	m->vlan_tci_outer = 0;
	m->tx_offload = 0;
}

static inline void
pktbuf_frame_checksums(struct rte_mbuf *packet, struct pktbuf_frame *f, enum pktbuf_checksum mode,
	const struct pktbuf_header_template *to, const struct pktbuf_shared_header *shared)
{
	uint16_t sum;

	if (mode == PKTBUF_CHECKSUM_OFFLOAD) {
		packet->l2_len = sizeof(f->ether);
		packet->l3_len = sizeof(f->ip);
		packet->ol_flags =
			RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
		f->udp.dgram_cksum = pktbuf_sum_fold(to->pseudo_sum + shared->udp_length);
		return;
	}
	f->ip.hdr_checksum = (uint16_t)~pktbuf_sum_fold(to->ip_sum + shared->ip_length);
	if (mode == PKTBUF_CHECKSUM_OFF)
		return;
	/* src_id is the low byte of its pair. */
	sum = pktbuf_sum_fold(to->udp_sum + shared->sum + rte_cpu_to_le_16(to->source));
	/* A sum of 0 is sent as all ones: 0 would mean "not computed" (RFC 768). */
	f->udp.dgram_cksum = sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

/* Write the headers and, if it is copied, the payload. */
static __rte_always_inline void
pktbuf_frame_write(struct rte_mbuf *packet, const struct pktbuf_port *port,
	const struct pktbuf_header_template *to, const struct pktbuf_shared_header *shared,
	const struct pktbuf_payload *payload, const bool referred)
{
	uint32_t own = (uint32_t)offsetof(struct pktbuf_frame, header) + shared->header_bytes;
	uint32_t all = own + payload->bytes;
	struct pktbuf_frame *f;

	pktbuf_mbuf_init(packet, RTE_PKTMBUF_HEADROOM, referred ? 2 : 1, referred ? own : all, all);
	f = rte_pktmbuf_mtod(packet, struct pktbuf_frame *);
	memcpy(f, to->frame, sizeof(to->frame));
	f->ip.total_length = shared->ip_length;
	f->udp.dgram_len = shared->udp_length;
	memcpy(f->header, shared->header, sizeof(shared->header));
	f->header[offsetof(struct weir_base, src_id)] = to->source;
	if (!referred && payload->bytes > 0)
		memcpy(f->header + shared->header_bytes, payload->data, payload->bytes);
	pktbuf_frame_checksums(packet, f, port->tx_checksum, to, shared);
}

/* Make the packet a chain whose second mbuf refers to the payload. */
static inline void
pktbuf_refer(struct rte_mbuf *packet, struct rte_mbuf *attach, const struct pktbuf_payload *payload)
{
	struct rte_mbuf_ext_shared_info *count = pktbuf_priv(attach);

	count->free_cb = payload->released;
	count->fcb_opaque = payload->opaque;
	count->refcnt = 1;
	pktbuf_mbuf_init(attach, 0, 1, payload->bytes, payload->bytes);
	attach->buf_addr = payload->data;
	rte_mbuf_iova_set(attach, payload->iova);
	attach->buf_len = (uint16_t)payload->bytes;
	attach->ol_flags = RTE_MBUF_F_EXTERNAL;
	attach->shinfo = count;
	packet->next = attach;
}

/* Prepare to build about `wanted` results. */
static inline void
pktbuf_results_begin(struct pktbuf_results *results, const struct pktbuf_pools *pools,
	const struct pktbuf_port *const *port, unsigned int wanted)
{
	results->port = port;
	results->headers.pool = pools->headers;
	results->attaches.pool = pools->attaches;
	results->headers.n = results->attaches.n = 0;
	results->headers.wanted = results->attaches.wanted = wanted;
}

/* The next mbuf; NULL: the pool is empty. */
static inline struct rte_mbuf *
pktbuf_supply_take(struct pktbuf_supply *supply)
{
	struct rte_mbuf *next =
		likely(supply->n > 0) ? supply->mbuf[--supply->n] : pktbuf_supply_refill(supply);

	supply->wanted--;
	return next;
}

/*
 * Build the result for a destination: to->extended chooses between shared[0] (base form) and
 * shared[1] (extended); the mode of port[to->port] chooses how checksums are computed. referred:
 * pktbuf_payload_referred(payload). NULL: a pool is empty. The packet is the caller's, and holds a
 * referred payload. Worker. Cost: 3 lines written and the copied payload, or 6 lines when it is
 * referred to.
 */
static __rte_always_inline struct rte_mbuf *
pktbuf_result_build_as(struct pktbuf_results *results, const struct pktbuf_shared_header shared[2],
	const struct pktbuf_payload *payload, const struct pktbuf_header_template *to,
	const bool referred)
{
	struct rte_mbuf *packet = pktbuf_supply_take(&results->headers), *attach;

	if (unlikely(packet == NULL))
		return NULL;
	if (referred) {
		attach = pktbuf_supply_take(&results->attaches);
		if (unlikely(attach == NULL)) {
			rte_mempool_put(results->headers.pool, packet);
			return NULL;
		}
		pktbuf_refer(packet, attach, payload);
	}
	pktbuf_frame_write(
		packet, results->port[to->port], to, &shared[to->extended], payload, referred);
	return packet;
}

static inline struct rte_mbuf *
pktbuf_result_build(struct pktbuf_results *results, const struct pktbuf_shared_header shared[2],
	const struct pktbuf_payload *payload, const struct pktbuf_header_template *to)
{
	return pktbuf_payload_referred(payload)
		? pktbuf_result_build_as(results, shared, payload, to, true)
		: pktbuf_result_build_as(results, shared, payload, to, false);
}

/* Return the unused mbufs. */
static inline void
pktbuf_results_end(struct pktbuf_results *results)
{
	if (unlikely(results->headers.n > 0))
		rte_mempool_put_bulk(
			results->headers.pool, (void **)results->headers.mbuf, results->headers.n);
	if (unlikely(results->attaches.n > 0))
		rte_mempool_put_bulk(results->attaches.pool, (void **)results->attaches.mbuf,
			results->attaches.n);
}

#endif
