/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internet sums over contiguous bytes: one function per instruction set, each in a file compiled with its
 * own flags. Without DPDK, whose flags contain -march=corei7.
 *
 * The sum of 16-bit words modulo 2^16 - 1 is that of 32-bit words modulo 2^16 - 1 (RFC 1071, 2:
 * "parallel summation"), because 2^16 = 1 there. So each 64-bit word adds its two halves to 64-bit
 * sums, which 65,535 bytes can't overflow, and the carries are folded at the end.
 */
#ifndef PKTBUF_SUM_PRIV_H
#define PKTBUF_SUM_PRIV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Sum of the bytes as little-endian 32-bit words, the last one padded with zeros; not folded. */
typedef uint64_t (*pktbuf_sum_fn)(const uint8_t *bytes, size_t length);

uint64_t pktbuf_sum_scalar(const uint8_t *bytes, size_t length);
uint64_t pktbuf_sum_avx2(const uint8_t *bytes, size_t length);
uint64_t pktbuf_sum_avx512(const uint8_t *bytes, size_t length);

/* The same for up to 63 bytes: a header, or the end of a payload. */
static inline uint64_t
pktbuf_sum_rest(const uint8_t *bytes, size_t length)
{
	uint64_t sum = 0, word;

	for (; length >= 8; length -= 8, bytes += 8) {
		memcpy(&word, bytes, 8);
		sum += (word & 0xffffffff) + (word >> 32);
	}
	if (length == 0)
		return sum;
	word = 0;
	memcpy(&word, bytes, length);
	return sum + (word & 0xffffffff) + (word >> 32);
}

#endif
