/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#include "pktbuf/wire/crc32c.h"
#include "pktbuf/wire/crc32c_priv.h"

#define VECTOR 64

/* To multiply lanes of 128 bits by x^d: R(d + 31) for the first 8 bytes, R(d - 33) for the rest. */
#define BY(first, others) _mm_set_epi64x(others, first)
#define BY_2048           BY(0xdcb17aa4, 0xb9e02b86)
#define BY_1536           BY(0xa87ab8a8, 0xab7aff2a)
#define BY_1024           BY(0x6992cea2, 0x0d3b6092)
#define BY_512            BY(0x740eef02, 0x9e4addf8)
#define BY_384            BY(0x1c291d04, 0xddc0152b)
#define BY_256            BY(0x3da6d0cb, 0xba4fc28e)
#define BY_128            BY(0xf20c0dfe, 0x493c7d27)

static inline __m512i
load(const uint8_t *bytes)
{
	return _mm512_loadu_si512((const void *)bytes);
}

static inline __m512i
multiply(__m512i v, __m512i by)
{
	return _mm512_xor_si512(
		_mm512_clmulepi64_epi128(v, by, 0x00), _mm512_clmulepi64_epi128(v, by, 0x11));
}

/* The product plus another number. */
static inline __m512i
fold(__m512i v, __m128i lane, __m512i more)
{
	const __m512i by = _mm512_broadcast_i32x4(lane);

	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, by, 0x00),
		_mm512_clmulepi64_epi128(v, by, 0x11), more, 0x96);
}

/* The register after these bytes, from 0. */
static inline uint32_t
reduce(__m512i v)
{
	/* The last lane stays. */
	const __m512i by = _mm512_inserti32x4(
		_mm512_inserti32x4(
			_mm512_inserti32x4(_mm512_setzero_si512(), BY_384, 0), BY_256, 1),
		BY_128, 2);
	const __m512i folded = _mm512_mask_blend_epi64(0xc0, multiply(v, by), v);
	const __m256i half = _mm256_xor_si256(
		_mm512_castsi512_si256(folded), _mm512_extracti64x4_epi64(folded, 1));
	const __m128i lane =
		_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));

	return (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane)),
		(uint64_t)_mm_extract_epi64(lane, 1));
}

uint32_t
weir_crc32c_avx512(uint32_t crc, const uint8_t *bytes, size_t length)
{
	const uint8_t *end = bytes + length;
	__m512i a, b, c, d;

	/* The bytes that fill no vector come first, where they need no multiplication. */
	crc = crc32c_serial(crc, bytes, length % VECTOR);
	bytes += length % VECTOR;
	if (bytes == end)
		return crc;
	a = _mm512_xor_si512(load(bytes), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	bytes += VECTOR;
	if (end - bytes >= 3 * VECTOR) {
		b = load(bytes);
		c = load(bytes + VECTOR);
		d = load(bytes + 2 * VECTOR);
		for (bytes += 3 * VECTOR; end - bytes >= 4 * VECTOR; bytes += 4 * VECTOR) {
			a = fold(a, BY_2048, load(bytes));
			b = fold(b, BY_2048, load(bytes + VECTOR));
			c = fold(c, BY_2048, load(bytes + 2 * VECTOR));
			d = fold(d, BY_2048, load(bytes + 3 * VECTOR));
		}
		a = fold(a, BY_1536, fold(b, BY_1024, fold(c, BY_512, d)));
	}
	for (; bytes < end; bytes += VECTOR)
		a = fold(a, BY_512, load(bytes));
	return reduce(a);
}

/*
 * A CRC is linear: the register of a sum, without carries, of multiples of messages is the sum of
 * the multiples of their registers. So one CRC serves all messages. Message i is shifted by i
 * lanes, because a fault on the way may flip the same bits of each.
 */
#define LANE       16
#define AFTER_LAST 2 /* vectors that shifted messages are longer */

/* By the number of messages: the register, if all end with their CRCs. */
static uint32_t right[WEIR_CRC32C_TOGETHER + 1];

static __attribute__((constructor)) void
fill(void)
{
	if (!__builtin_cpu_supports("sse4.2"))
		return;
	for (unsigned int i = 0; i < WEIR_CRC32C_TOGETHER; i++) {
		uint64_t state = (uint32_t)~WEIR_CRC32C_RESIDUE;

		for (unsigned int at = i * LANE; at < AFTER_LAST * VECTOR; at += 8)
			state = _mm_crc32_u64(state, 0);
		right[i + 1] = right[i] ^ (uint32_t)state;
	}
}

/* The part of a vector of message i, shifted, that lies in its [0, length). */
static inline __m512i
load_part(const uint8_t *message, unsigned int i, size_t at, size_t length)
{
	const long before = (long)(i * LANE) - (long)at, after = -before + VECTOR - (long)length;
	__mmask8 mask = 0xff;

	if (before >= VECTOR || after >= VECTOR)
		return _mm512_setzero_si512();
	if (before > 0)
		mask = (__mmask8)(mask << before / 8);
	if (after > 0)
		mask = (__mmask8)(mask & 0xff >> after / 8);
	return _mm512_maskz_loadu_epi64(mask, message - before);
}

static inline __m512i
add_parts(__m512i sum, const uint8_t *const message[], unsigned int n, size_t at, size_t length)
{
	for (unsigned int i = 0; i < n; i++)
		sum = _mm512_xor_si512(sum, load_part(message[i], i, at, length));
	return sum;
}

/* add_parts() where all parts lie in the messages. */
static inline __m512i
add_all(const uint8_t *const message[], unsigned int n, size_t at)
{
	__m512i sum = load(message[0] + at);

	for (unsigned int i = 1; i < n; i++)
		sum = _mm512_xor_si512(sum, load(message[i] + at - i * LANE));
	return sum;
}

bool
weir_crc32c_avx512_hold(const uint8_t *const message[], unsigned int n, size_t length)
{
	const uint8_t *whole[WEIR_CRC32C_TOGETHER];
	uint32_t head[AFTER_LAST * VECTOR / 4] = {0};
	const size_t vectors = length / VECTOR * VECTOR;
	size_t at = AFTER_LAST * VECTOR;
	__m512i a, b;

	for (unsigned int i = 0; i < n; i++) {
		head[i * LANE / 4] = crc32c_serial(~0u, message[i], length % VECTOR);
		whole[i] = message[i] + length % VECTOR;
	}
	a = add_parts(load((const uint8_t *)head), whole, n, 0, vectors);
	b = add_parts(load((const uint8_t *)head + VECTOR), whole, n, VECTOR, vectors);
	for (; at + VECTOR < vectors; at += 2 * VECTOR) {
		a = fold(a, BY_1024, add_all(whole, n, at));
		b = fold(b, BY_1024, add_all(whole, n, at + VECTOR));
	}
	a = fold(a, BY_512, b);
	for (; at < vectors + AFTER_LAST * VECTOR; at += VECTOR)
		a = fold(a, BY_512, add_parts(_mm512_setzero_si512(), whole, n, at, vectors));
	return reduce(a) == right[n];
}
