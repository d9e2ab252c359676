/* SPDX-License-Identifier: BSD-3-Clause */
/* The flow cache's comparison (flow_cache.c), for threads and for batches. */
#ifndef PPE_COLLECTIVE_FLOW_CACHE_FAST_H
#define PPE_COLLECTIVE_FLOW_CACHE_FAST_H

#ifdef __SSE4_1__
#include <smmintrin.h>
#endif

#include "ppe/collective/collective_priv.h"

/* Where the fields lie in a frame of Ethernet 14, IPv4 20 and UDP 8 bytes. */
#define FLOW_BYTES     64 /* bytes that are compared */
#define FLOW_JOB_AT    42
#define FLOW_BLOCK_AT  (FLOW_JOB_AT + 1)
#define FLOW_FLAGS_AT  (FLOW_JOB_AT + 5)
#define FLOW_SOURCE_AT (FLOW_JOB_AT + 6)

/* Does the frame at p match the entry's under the mask? */
static inline bool
flow_alike(const struct flow *flow, const uint8_t *p)
{
#ifdef __SSE4_1__
	const __m128i *mask = (const void *)flow->mask, *frame = (const void *)flow->frame;
	__m128i difference = _mm_setzero_si128();

	for (unsigned int i = 0; i < FLOW_BYTES / 16; i++) {
		__m128i found = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));

		difference = _mm_or_si128(
			difference, _mm_and_si128(_mm_xor_si128(found, frame[i]), mask[i]));
	}
	return _mm_testz_si128(difference, difference) != 0;
#else
	uint64_t difference = 0, word;

	for (unsigned int i = 0; i < FLOW_BYTES / 8; i++) {
		memcpy(&word, p + 8 * i, sizeof(word));
		difference |= (word ^ flow->frame[i]) & flow->mask[i];
	}
	return difference == 0;
#endif
}

/* The word of an mbuf with data_off, references, segments and port. */
static inline uint64_t
flow_mbuf(const struct rte_mbuf *packet)
{
	uint64_t word;

	memcpy(&word, &packet->rearm_data, sizeof(word));
	return word;
}

/* flow_mbuf() of an mbuf with one segment and one reference. */
static inline uint64_t
flow_mbuf_of(uint16_t port)
{
	const struct rte_mbuf one = {.refcnt = 1, .nb_segs = 1, .port = port};

	return flow_mbuf(&one);
}

/* Does the packet match the entry? If so, it has one segment, one reference and at least FLOW_BYTES
 * bytes. */
static inline bool
flow_matches(const struct flow *flow, const struct rte_mbuf *packet, const uint8_t *p)
{
	/* Without data_off, the first of the word's four parts. */
	const unsigned int first = RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN ? 0 : 48;
	const uint64_t others = ~(UINT64_C(0xffff) << first);

	return likely(((flow_mbuf(packet) ^ flow->mbuf) & others) == 0) &&
		likely(packet->data_len == flow->length) && likely(flow_alike(flow, p));
}

/* The number of the block in a frame whose headers match. */
static inline uint32_t
flow_block(const struct job_shard *js, const uint8_t *p)
{
	return weir_get32(p + FLOW_BLOCK_AT) & js->block_mask;
}

/* Are the fields where the cache expects them, if this is an aggregation packet? */
static inline bool
flow_cache_is_plain(const struct rte_mbuf *packet)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);

	return packet->data_len >= FLOW_JOB_AT + WEIR_BASE_BYTES && weir_get16(p + 12) == 0x0800 &&
		p[14] == 0x45 && (weir_get16(p + 20) & 0x3fff) == 0 && p[23] == 17;
}

#endif
