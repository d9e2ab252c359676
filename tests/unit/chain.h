/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-built mbuf chains for tests without EAL: each segment has memory of exactly its size, so
 * that a sanitizer sees every read beyond it. */
#ifndef TESTS_UNIT_CHAIN_H
#define TESTS_UNIT_CHAIN_H

#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "tests/random.h"

/* One segment that holds n bytes of `from`. */
static inline struct rte_mbuf *
chain_segment(const uint8_t *from, uint16_t n)
{
	struct rte_mbuf *m = aligned_alloc(64, sizeof(*m));

	memset(m, 0, sizeof(*m));
	m->buf_addr = malloc(n > 0 ? n : 1);
	if (n > 0)
		memcpy(m->buf_addr, from, n);
	m->buf_len = n;
	m->data_len = n;
	m->pkt_len = n;
	m->nb_segs = 1;
	rte_mbuf_refcnt_set(m, 1);
	return m;
}

/* A packet of these bytes. random NULL: one segment; else split at random places, empty segments
 * and single bytes among them (never an empty first one, which drivers do not make). */
static inline struct rte_mbuf *
chain_make(const uint8_t *bytes, uint32_t length, uint64_t *random)
{
	struct rte_mbuf *first = NULL, *last = NULL;

	do {
		uint32_t take = length;
		struct rte_mbuf *m;

		if (random != NULL && length > 0) {
			uint64_t dice = random_bits(random) % 8;

			take = dice == 0 ? 1
				: dice == 1 && first != NULL
				? 0
				: 1 + (uint32_t)(random_bits(random) % length);
		}
		m = chain_segment(bytes, (uint16_t)take);
		bytes += take;
		length -= take;
		if (first == NULL) {
			first = last = m;
			continue;
		}
		last->next = m;
		last = m;
		first->nb_segs++;
		first->pkt_len += take;
	} while (length > 0);
	return first;
}

static inline void
chain_free(struct rte_mbuf *m)
{
	while (m != NULL) {
		struct rte_mbuf *next = m->next;

		free(m->buf_addr);
		free(m);
		m = next;
	}
}

#endif
