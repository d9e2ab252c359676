/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C: a function per instruction set, each in a file compiled with its own flags. They continue
 * the register, which is the complement of the CRC.
 *
 * The methods are those of V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction" and "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction"
 * (both Intel). Bytes that are followed by d bits are multiplied by x^d modulo the polynomial
 * instead, without carries, so that parts are computed side by side. Bits are reflected: bit 31 of
 * a constant is x^0. A product of reflected numbers is one bit short, so R(e), which is x^e modulo
 * the polynomial, is taken of e - 1; and as R has 32 bits in a register of 64, of e - 33.
 */
#ifndef PKTBUF_WIRE_CRC32C_PRIV_H
#define PKTBUF_WIRE_CRC32C_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t (*weir_crc32c_fn)(uint32_t crc, const uint8_t *bytes, size_t length);

uint32_t weir_crc32c_table(uint32_t crc, const uint8_t *bytes, size_t length);
uint32_t weir_crc32c_sse42(uint32_t crc, const uint8_t *bytes, size_t length);
uint32_t weir_crc32c_avx512(uint32_t crc, const uint8_t *bytes, size_t length);

/* As weir_crc32c_hold(). */
bool weir_crc32c_avx512_hold(const uint8_t *const message[], unsigned int n, size_t length);

#ifdef __SSE4_2__
#include <nmmintrin.h>

/* Whole words of 8 bytes, then up to 7 bytes. */
static inline uint32_t
crc32c_serial(uint32_t crc, const uint8_t *bytes, size_t length)
{
	uint64_t state = crc, word = 0;
	uint32_t half;

	for (; length >= sizeof(word); length -= sizeof(word), bytes += sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		state = _mm_crc32_u64(state, word);
	}
	crc = (uint32_t)state;
	if (length >= sizeof(half)) {
		memcpy(&half, bytes, sizeof(half));
		crc = _mm_crc32_u32(crc, half);
		bytes += sizeof(half);
		length -= sizeof(half);
	}
	while (length-- > 0)
		crc = _mm_crc32_u8(crc, *bytes++);
	return crc;
}
#endif

#endif
