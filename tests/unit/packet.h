/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets for the tests of pktbuf: right frames made by the plainest code, and chains whose
 * segments each end right before a page that can't be read, so that reading beyond one kills the
 * test in any build. One such chain at a time; others, of any length, have memory of exactly their
 * size.
 */
#ifndef TESTS_UNIT_PACKET_H
#define TESTS_UNIT_PACKET_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <criterion/criterion.h>
#include <rte_mbuf.h>

#include "pktbuf/wire/wire.h"
#include "tests/random.h"

#define PACKET_SEGMENTS 512
#define PACKET_PAGE     4096u

#define PACKET_ETHER    14
#define PACKET_IPV4     20
#define PACKET_UDP      8

static uint64_t seed;

/* Of a suite. */
static inline void
packet_begin(void)
{
	seed = random_seed();
}

/* RFC 1071, byte pair by byte pair, on top of `sum`: big-endian words, folded, not inverted. */
static inline uint16_t
packet_sum(uint32_t sum, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		sum += (i & 1) != 0 ? p[i] : (uint32_t)p[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* Set both checksums of a frame whose lengths are right. */
static inline void
packet_fix(uint8_t *f)
{
	size_t l4 = PACKET_ETHER + (f[PACKET_ETHER] & 0xfu) * 4u;
	uint32_t udp = weir_get16(f + l4 + 4);
	uint16_t sum;

	weir_put16(f + PACKET_ETHER + 10, 0);
	weir_put16(f + PACKET_ETHER + 10,
		(uint16_t)~packet_sum(0, f + PACKET_ETHER, l4 - PACKET_ETHER));
	weir_put16(f + l4 + 6, 0);
	sum = packet_sum(17 + udp, f + PACKET_ETHER + 12, 8);
	sum = packet_sum(sum, f + l4, udp);
	weir_put16(f + l4 + 6, sum == 0xffff ? 0xffff : (uint16_t)~sum);
}

/* A right frame of Ethernet, IPv4 with `options` words of options, UDP and a random payload.
 * Returns its length. */
static inline unsigned int
packet_frame(uint8_t *f, unsigned int options, unsigned int payload, uint64_t *random)
{
	unsigned int l4 = PACKET_ETHER + PACKET_IPV4 + 4 * options, udp = PACKET_UDP + payload;

	memset(f, 0, l4 + PACKET_UDP);
	for (uint8_t i = 0; i < 12; i++)
		f[i] = (uint8_t)(2 + i);
	weir_put16(f + 12, 0x0800);
	f[14] = (uint8_t)(0x45 + options);
	weir_put16(f + 16, (uint16_t)(l4 - PACKET_ETHER + udp));
	weir_put16(f + 20, 0x4000);
	f[22] = 64;
	f[23] = 17;
	weir_put32(f + 26, 0x0a4d0001);
	weir_put32(f + 30, 0x0a4d00fe);
	memset(f + 34, 1, (size_t)4 * options); /* no operation */
	weir_put16(f + l4, 40000);
	weir_put16(f + l4 + 2, WEIR_PORT_EXT);
	weir_put16(f + l4 + 4, (uint16_t)udp);
	for (unsigned int i = 0; i < payload; i++)
		f[l4 + PACKET_UDP + i] = (uint8_t)random_bits(random);
	packet_fix(f);
	return l4 + udp;
}

/* Sizes of segments for `length` bytes: single bytes and empty segments among them, at any place.
 * Returns how many. */
static inline unsigned int
packet_split(uint32_t length, uint16_t sizes[PACKET_SEGMENTS], uint64_t *random)
{
	unsigned int n = 0, fine = (unsigned int)(random_bits(random) % 3);

	while (length > 0 && n < PACKET_SEGMENTS - 1) {
		unsigned int dice = (unsigned int)(random_bits(random) % 8);
		uint32_t most = fine == 0 && length > 8 ? 8 : length;

		sizes[n] = (uint16_t)(1 + random_bits(random) % most);
		if (dice < 2)
			sizes[n] = (uint16_t)dice;
		length -= sizes[n++];
	}
	if (length > 0 || n == 0 || random_bits(random) % 4 == 0)
		sizes[n++] = (uint16_t)length;
	return n;
}

/* The chain of these bytes in segments of these sizes. Valid until the next call. */
static inline struct rte_mbuf *
packet_guarded(const uint8_t *bytes, const uint16_t *sizes, unsigned int n)
{
	static struct rte_mbuf segments[PACKET_SEGMENTS];
	static uint8_t *pages;
	static unsigned int used;

	if (pages == NULL) {
		pages = mmap(NULL, (size_t)2 * PACKET_PAGE * PACKET_SEGMENTS,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED)
			abort();
		for (unsigned int s = 0; s < PACKET_SEGMENTS; s++)
			if (mprotect(pages + (size_t)(2 * s + 1) * PACKET_PAGE, PACKET_PAGE,
				    PROT_NONE) < 0)
				abort();
	}
	memset(segments, 0, sizeof(segments[0]) * (n > used ? n : used));
	used = n;
	for (unsigned int s = 0; s < n; s++) {
		struct rte_mbuf *m = &segments[s];

		m->buf_addr = pages + (size_t)(2 * s + 1) * PACKET_PAGE - sizes[s];
		if (sizes[s] > 0)
			memcpy(m->buf_addr, bytes, sizes[s]);
		bytes += sizes[s];
		m->buf_len = sizes[s];
		m->data_len = sizes[s];
		m->nb_segs = 1;
		rte_mbuf_refcnt_set(m, 1);
		segments[0].pkt_len += sizes[s];
		if (s > 0)
			segments[s - 1].next = m;
	}
	segments[0].nb_segs = (uint16_t)n;
	return segments;
}

/* The chain of these bytes: one segment, or split at random when `random` is given. */
static inline struct rte_mbuf *
packet_make(const uint8_t *bytes, uint32_t length, uint64_t *random)
{
	uint16_t sizes[PACKET_SEGMENTS] = {(uint16_t)length};

	return packet_guarded(
		bytes, sizes, random == NULL ? 1 : packet_split(length, sizes, random));
}

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
