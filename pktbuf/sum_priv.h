/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internet sums over contiguous bytes: one function per instruction set, each in a file compiled
 * with its own flags. Without DPDK, whose flags contain -march=corei7.
 *
 * 2^16 is 1 modulo 2^16 - 1, so wider words have the same sum there, and the carries are folded at
 * the end (RFC 1071, 2: "parallel summation", "deferred carries").
 *
 * The vector functions add both words of a 32-bit lane to the lane of the sums, in three
 * instructions (AVX2: vpxor, vpmaddwd, vpaddd) or two (VNNI: vpxor, vpdpwssd). Zero-extending the
 * words takes five. The multiplications are signed. So the bias makes the lower word w - 2^15 and
 * the upper one 2^15 - 1 - w, and the latter is multiplied by -1. Together they give the sum of the
 * words, less 0xffff. The sums begin with 0xffff for each vector, so they are exact. 65,535 bytes
 * do not overflow them.
 */
#ifndef PKTBUF_SUM_PRIV_H
#define PKTBUF_SUM_PRIV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PKTBUF_SUM_BIAS  0x7fff8000
#define PKTBUF_SUM_SIGNS (-0xffff) /* words 1 and -1 */

/* `sum` plus the sum of the bytes, padded with zeros; not folded. 0 only if all are 0. */
typedef uint64_t (*pktbuf_sum_fn)(const uint8_t *bytes, size_t length, uint64_t sum);

uint64_t pktbuf_sum_scalar(const uint8_t *bytes, size_t length, uint64_t sum);
uint64_t pktbuf_sum_avx2(const uint8_t *bytes, size_t length, uint64_t sum);
uint64_t pktbuf_sum_avx512(const uint8_t *bytes, size_t length, uint64_t sum);

/* Folded to 16 bits: the upper half of this addition is both halves of `sum`, with the carry from
 * the lower one. */
static inline uint16_t
pktbuf_sum_fold(uint32_t sum)
{
	return (uint16_t)((sum + (sum >> 16 | sum << 16)) >> 16);
}

static inline uint64_t
pktbuf_sum_word(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* The last n bytes before `end`; n: [0, 3]. */
static inline uint64_t
pktbuf_sum_last(const uint8_t *end, size_t n)
{
	uint64_t sum = 0;

	if (n % 2 != 0)
		memcpy(&sum, end - 1, 1);
	if (n >= 2) {
		uint16_t word;

		memcpy(&word, end - n, sizeof(word));
		sum += word;
	}
	return sum;
}

#endif
