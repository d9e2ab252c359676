/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/result.h"

#include <errno.h>

#include "pktbuf/checksum.h"
#include "pktbuf/result_fast.h"

void
pktbuf_header_template_write(struct pktbuf_header_template *out,
	const struct pktbuf_identity *identity, const struct pktbuf_endpoint *to, uint8_t source)
{
	struct pktbuf_frame f = {
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
	shared->constant = pktbuf_sum_parts(word[1]) + 2 * (uint32_t)shared->udp_length;
	shared->sum = shared->constant + pktbuf_sum_parts(word[0]) + payload->sum;
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

struct rte_mbuf *
pktbuf_supply_refill(struct pktbuf_supply *supply)
{
	supply->n = take(supply->pool, supply->mbuf,
		RTE_MIN(RTE_MAX(supply->wanted, 1u), (unsigned int)PKTBUF_SUPPLY_MAX));
	return supply->n == 0 ? NULL : supply->mbuf[--supply->n];
}

bool
pktbuf_result_add(
	struct pktbuf_results *results, struct rte_mbuf *result, const struct pktbuf_payload *more)
{
	struct rte_mbuf *attach = pktbuf_supply_take(&results->attaches);

	if (attach == NULL)
		return false;
	pktbuf_refer(result->next, attach, more);
	result->nb_segs++;
	result->pkt_len += more->bytes;
	return true;
}

int
pktbuf_result_end(
	const struct pktbuf_pools *pools, struct rte_mbuf *result, const void *end, uint32_t bytes)
{
	struct rte_mbuf *last = result;

	static_assert(sizeof(struct pktbuf_frame) + 64 <= PKTBUF_HEADER_DATA_BYTES, "and an end");
	if (result->nb_segs > 1) {
		if (take(pools->headers, &last, 1) == 0)
			return -ENOMEM;
		pktbuf_mbuf_init(last, RTE_PKTMBUF_HEADROOM, 1, 0, 0);
		rte_pktmbuf_lastseg(result)->next = last;
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
	struct pktbuf_endpoint there = *to;
	struct pktbuf_shared_header shared[2];
	struct pktbuf_results results;

	there.extended = header->extended;
	pktbuf_header_template_write(&headers, identity, &there, header->src_id);
	pktbuf_shared_header_write(&shared[header->extended], header, &small);
	pktbuf_results_begin(&results, pools, port, 1);
	return pktbuf_result_build(&results, shared, &small, &headers);
}
