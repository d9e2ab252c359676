/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For writers of filters: eBPF that the switch runs on received packets. docs/filters.md
 *
 *	#include "ppe/filters/weir_filter.h"
 *
 *	WEIR_FILTER(struct weir_filter *f)
 *	{
 *		return f->ip_ttl == 1 && weir_is_ipv4(f) ? WEIR_DROP : WEIR_PASS;
 *	}
 *
 *	clang --target=bpf -ffreestanding -O2 -I/usr/include/weir-program -c ttl.c -o ttl.o
 *
 * A filter sees a copy of the packet's first bytes, so it can neither change a packet nor read
 * beyond it. All its memory is this structure, of which each worker has one per filter: no other
 * thread writes it, and `counter` and `cell` keep their values from packet to packet. DPDK's
 * verifier checks all accesses when the filter is loaded; it takes no loops (unroll them), no calls
 * of functions that are not inline, and no variables outside functions. It follows indices that are
 * not constant only in the form of weir_byte(), weir_16(), weir_cell() and weir_count().
 */
#ifndef WEIR_FILTER_H
#define WEIR_FILTER_H

#include <stdint.h>

#define WEIR_FILTER_BYTES    128
#define WEIR_FILTER_VALUES   8
#define WEIR_FILTER_COUNTERS 8
#define WEIR_FILTER_CELLS    4096

/* Results. After anything but a pass, the next filters do not see the packet. */
#define WEIR_PASS 0
#define WEIR_DROP 1
/* Give the packet to program n of the filter's list `programs`, [0, 8), whatever its address and
 * port are; it passes if it is none of that program's kind (Ethernet type, IP protocol, UDP). */
#define WEIR_PROGRAM(n) (2 | (uint64_t)(n) << 8)
/* Give the packet to worker w: [0, workers). Other numbers are a pass. */
#define WEIR_QUEUE(w) (3 | (uint64_t)(w) << 8)

struct weir_filter {
	uint32_t length; /* of the frame, without FCS */
	uint16_t port; /* of the switch, that received it; in the configuration's order */
	/* The first WEIR_FILTER_BYTES, then zeros: Ethernet, IPv4 without options, UDP. In network
	 * byte order, and something else in other packets: weir_is_ipv4(), weir_is_udp(). */
	uint8_t eth_dst[6], eth_src[6];
	uint16_t eth_type;
	uint8_t ip_version, ip_tos;
	uint16_t ip_length, ip_id, ip_fragment;
	uint8_t ip_ttl, ip_proto;
	uint16_t ip_checksum;
	uint32_t ip_src, ip_dst;
	uint16_t udp_src, udp_dst, udp_length, udp_checksum;
	uint8_t payload[86];
	uint8_t reserved[2];
	uint64_t now_us; /* monotonic; of the worker's turn */
	uint32_t worker, workers; /* this one, [0, workers) */
	uint64_t value[WEIR_FILTER_VALUES]; /* `values` of the configuration, then zeros */
	uint64_t counter[WEIR_FILTER_COUNTERS]; /* the switch shows their sums over the workers */
	uint64_t cell[WEIR_FILTER_CELLS]; /* zero at first */
};

#ifdef __bpf__
#define WEIR_FILTER(parameter)                                                                     \
	uint64_t weir_run(parameter);                                                              \
	__attribute__((section("weir"))) uint64_t weir_run(parameter)

#define WEIR_INLINE static inline __attribute__((always_inline, unused))

/* Between network and host byte order. */
WEIR_INLINE uint16_t
weir_swap16(uint16_t x)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(x) : x;
}

WEIR_INLINE uint32_t
weir_swap32(uint32_t x)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(x) : x;
}

/* Is it IPv4 without options? */
WEIR_INLINE int
weir_is_ipv4(const struct weir_filter *f)
{
	return f->eth_type == weir_swap16(0x0800) && f->ip_version == 0x45 && f->length >= 34;
}

/* Is it UDP in IPv4 without options, and no fragment? */
WEIR_INLINE int
weir_is_udp(const struct weir_filter *f)
{
	return weir_is_ipv4(f) && f->ip_proto == 17 && f->length >= 42 &&
		(f->ip_fragment & weir_swap16(0x3fff)) == 0;
}

/* The byte of the frame at `at`, modulo WEIR_FILTER_BYTES. */
WEIR_INLINE uint8_t
weir_byte(const struct weir_filter *f, uint64_t at)
{
	const uint8_t *byte = f->eth_dst;

	__asm__("%1 &= 127\n%0 += %1" : "+r"(byte), "+r"(at));
	return *byte;
}

/* The 16 bits of the frame at `at`, an even number modulo WEIR_FILTER_BYTES, in host order. */
WEIR_INLINE uint16_t
weir_16(const struct weir_filter *f, uint64_t at)
{
	const uint8_t *bytes = f->eth_dst;

	__asm__("%1 &= 126\n%0 += %1" : "+r"(bytes), "+r"(at));
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

/* The cell of this number, modulo WEIR_FILTER_CELLS. */
WEIR_INLINE uint64_t *
weir_cell(struct weir_filter *f, uint64_t number)
{
	uint64_t *cell = f->cell;

	__asm__("%1 &= 4095\n%1 <<= 3\n%0 += %1" : "+r"(cell), "+r"(number));
	return cell;
}

/* Add 1 to the counter of this number, modulo WEIR_FILTER_COUNTERS. */
WEIR_INLINE void
weir_count(struct weir_filter *f, uint64_t number)
{
	uint64_t *counter = f->counter;

	__asm__("%1 &= 7\n%1 <<= 3\n%0 += %1" : "+r"(counter), "+r"(number));
	++*counter;
}

/* A hash of x, for weir_cell(): its low bits are as good as the others. */
WEIR_INLINE uint64_t
weir_hash(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15;
	return x >> 32 ^ x >> 17;
}
#endif

#endif
