/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/result.h"

#include <errno.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "pktbuf/checksum.h"
#include "pktbuf/sum_priv.h"

struct frame {
	struct rte_ether_hdr ether;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	uint8_t header[WEIR_EXT_BYTES];
	uint8_t payload[PKTBUF_COPY_BYTES];
} __rte_packed __rte_aligned(2);
static_assert(offsetof(struct frame, header) == sizeof(((struct pktbuf_header_template *)0)->frame),
	"a header template is a frame up to the aggregation header");
static_assert(sizeof(struct frame) <= PKTBUF_HEADER_DATA_BYTES, "a header mbuf holds a frame");

void
pktbuf_header_template_write(struct pktbuf_header_template *out,
	const struct pktbuf_identity *identity, const struct pktbuf_endpoint *to, uint8_t source)
{
	struct frame f = {
		.ether.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4),
		.ip = {.version_ihl = RTE_IPV4_VHL_DEF,
			.fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
			.time_to_live = 64,
			.next_proto_id = IPPROTO_UDP,
			.src_addr = rte_cpu_to_be_32(identity->ip),
			.dst_addr = rte_cpu_to_be_32(to->ip)},
		.udp = {.src_port = rte_cpu_to_be_16(
				to->extended ? identity->port_ext : identity->port_base),
			.dst_port = rte_cpu_to_be_16(to->udp)},
	};

	memcpy(&f.ether.dst_addr, to->mac, RTE_ETHER_ADDR_LEN);
	memcpy(&f.ether.src_addr, identity->mac, RTE_ETHER_ADDR_LEN);
	*out = (struct pktbuf_header_template){
		.port = to->port,
		.ip_sum = rte_raw_cksum(&f.ip, sizeof(f.ip)),
		.pseudo_sum = (uint32_t)rte_raw_cksum(&f.ip.src_addr, 8) + RTE_BE16(IPPROTO_UDP),
		.extended = to->extended,
		.source = source,
	};
	out->udp_sum = out->pseudo_sum + rte_raw_cksum(&f.udp, 4);
	memcpy(out->frame, &f, sizeof(out->frame));
}

/* The aggregation header as two words: loads of words that were stored as bytes stall. */
static inline void
header_words(const struct weir_header *h, uint64_t word[2])
{
	uint8_t flags = (uint8_t)(h->status << WEIR_AGE_SHIFT | (h->final ? WEIR_FINAL : 0) |
		(h->degraded ? WEIR_DEGRADED : 0));

	word[0] = (uint64_t)h->job_id << 56 | (uint64_t)h->block_id << 24 | (uint64_t)flags << 16 |
		h->src_cnt; /* src_id is 0 here */
	word[1] = (uint64_t)h->gen_id << 48 | (uint64_t)(h->grad_cnt & WEIR_ELEMENTS_MAX) << 32;
	if (h->extended)
		word[1] |= (uint64_t)(h->collective << 4 | (h->op & 0xf)) << 24 |
			(uint64_t)(h->dtype << 4 | (h->flags & 0xf)) << 16 |
			(uint64_t)h->root << 8 | h->status;
	word[0] = rte_cpu_to_be_64(word[0]);
	word[1] = rte_cpu_to_be_64(word[1]);
}

/* The sum of a word's four 16-bit parts. */
static inline uint32_t
sum_word(uint64_t word)
{
	word = (word & UINT64_C(0xffff0000ffff)) + (word >> 16 & UINT64_C(0xffff0000ffff));
	return (uint32_t)word + (uint32_t)(word >> 32);
}

void
pktbuf_shared_header_write(struct pktbuf_shared_header *shared, const struct weir_header *header,
	const struct pktbuf_payload *payload)
{
	uint64_t word[2];
	uint32_t udp;

	header_words(header, word);
	memcpy(shared->header, word, sizeof(word));
	shared->header_bytes = (uint8_t)weir_header_bytes(header->extended);
	udp = (uint32_t)sizeof(struct rte_udp_hdr) + shared->header_bytes + payload->bytes;
	shared->udp_length = rte_cpu_to_be_16((uint16_t)udp);
	shared->ip_length = rte_cpu_to_be_16((uint16_t)(sizeof(struct rte_ipv4_hdr) + udp));
	shared->sum = sum_word(word[0]) + sum_word(word[1]) + 2 * (uint32_t)shared->udp_length +
		payload->sum;
}

/* Reset a new mbuf as rte_pktmbuf_reset() does, in few stores: data_off, refcnt, nb_segs and port are one word. */
static inline void
init(struct rte_mbuf *m, uint16_t data_off, uint16_t segments, uint32_t bytes, uint32_t all)
{
	const uint16_t rearm[4] = {data_off, 1, segments, RTE_MBUF_PORT_INVALID};

	memcpy(&m->rearm_data, rearm, sizeof(rearm));
	m->ol_flags = 0;
	m->packet_type = 0;
	m->pkt_len = all;
	m->data_len = (uint16_t)bytes;
	m->vlan_tci = 0;
	m->vlan_tci_outer = 0;
	m->tx_offload = 0;
}

static inline void
checksums(struct rte_mbuf *packet, struct frame *f, enum pktbuf_checksum mode,
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
static inline void
write_frame(struct rte_mbuf *packet, const struct pktbuf_port *port,
	const struct pktbuf_header_template *to, const struct pktbuf_shared_header *shared,
	const struct pktbuf_payload *payload)
{
	uint32_t own = (uint32_t)offsetof(struct frame, header) + shared->header_bytes;
	bool copied = !pktbuf_payload_referred(payload);
	struct frame *f;

	init(packet, RTE_PKTMBUF_HEADROOM, copied ? 1 : 2, copied ? own + payload->bytes : own,
		own + payload->bytes);
	f = rte_pktmbuf_mtod(packet, struct frame *);
	memcpy(f, to->frame, sizeof(to->frame));
	f->ip.total_length = shared->ip_length;
	f->udp.dgram_len = shared->udp_length;
	memcpy(f->header, shared->header, sizeof(shared->header));
	f->header[offsetof(struct weir_base, src_id)] = to->source;
	if (copied && payload->bytes > 0)
		memcpy(f->header + shared->header_bytes, payload->data, payload->bytes);
	checksums(packet, f, port->tx_checksum, to, shared);
}

/* Make the packet a chain whose second mbuf refers to the payload. */
static inline void
refer(struct rte_mbuf *packet, struct rte_mbuf *attach, const struct pktbuf_payload *payload)
{
	struct rte_mbuf_ext_shared_info *count = pktbuf_priv(attach);

	count->free_cb = payload->released;
	count->fcb_opaque = payload->opaque;
	count->refcnt = 1;
	init(attach, 0, 1, payload->bytes, payload->bytes);
	attach->buf_addr = payload->data;
	rte_mbuf_iova_set(attach, payload->iova);
	attach->buf_len = (uint16_t)payload->bytes;
	attach->ol_flags = RTE_MBUF_F_EXTERNAL;
	attach->shinfo = count;
	packet->next = attach;
}

static unsigned int
take(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	unsigned int got = 0;

	if (likely(rte_mempool_get_bulk(pool, (void **)mbufs, n) == 0))
		return n;
	while (got < n && rte_mempool_get(pool, (void **)&mbufs[got]) == 0)
		got++;
	return got;
}

unsigned int
pktbuf_results_build(const struct pktbuf_pools *pools, const struct pktbuf_port *const *port,
	const struct pktbuf_shared_header shared[2], const struct pktbuf_payload *payload,
	const struct pktbuf_header_template *const *to, struct rte_mbuf **packets, unsigned int n)
{
	struct rte_mbuf *attach[PKTBUF_RESULTS_MAX];
	unsigned int built = take(pools->headers, packets, RTE_MIN(n, (unsigned int)PKTBUF_RESULTS_MAX));

	if (pktbuf_payload_referred(payload)) {
		unsigned int got = take(pools->attaches, attach, built);

		if (unlikely(got < built))
			rte_mempool_put_bulk(pools->headers, (void **)&packets[got], built - got);
		built = got;
	}
	for (unsigned int i = 0; i < built; i++)
		write_frame(
			packets[i], port[to[i]->port], to[i], &shared[to[i]->extended], payload);
	for (unsigned int i = 0; pktbuf_payload_referred(payload) && i < built; i++)
		refer(packets[i], attach[i], payload);
	return built;
}

int
pktbuf_result_end(
	const struct pktbuf_pools *pools, struct rte_mbuf *result, const void *end, uint32_t bytes)
{
	struct rte_mbuf *last = result;

	static_assert(sizeof(struct frame) + 64 <= PKTBUF_HEADER_DATA_BYTES, "and an end");
	if (result->nb_segs > 1) {
		if (take(pools->headers, &last, 1) == 0)
			return -ENOMEM;
		init(last, RTE_PKTMBUF_HEADROOM, 1, 0, 0);
		result->next->next = last;
		result->nb_segs++;
	}
	memcpy(rte_pktmbuf_mtod_offset(last, void *, last->data_len), end, bytes);
	last->data_len = (uint16_t)(last->data_len + bytes);
	result->pkt_len += bytes;
	return 0;
}

struct rte_mbuf *
pktbuf_reply_build(const struct pktbuf_pools *pools, const struct pktbuf_port *const *port,
	const struct pktbuf_identity *identity, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes)
{
	const struct pktbuf_payload small = {.data = (void *)(uintptr_t)payload,
		.bytes = bytes,
		.sum = bytes == 0 ? 0 : pktbuf_sum_bytes(payload, bytes)};
	struct pktbuf_header_template headers;
	const struct pktbuf_header_template *only = &headers;
	struct pktbuf_endpoint there = *to;
	struct pktbuf_shared_header shared[2];
	struct rte_mbuf *packet;

	there.extended = header->extended;
	pktbuf_header_template_write(&headers, identity, &there, header->src_id);
	pktbuf_shared_header_write(&shared[header->extended], header, &small);
	if (pktbuf_results_build(pools, port, shared, &small, &only, &packet, 1) == 0)
		return NULL;
	return packet;
}
