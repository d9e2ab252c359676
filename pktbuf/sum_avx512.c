/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#include "pktbuf/sum_priv.h"

#define VECTOR 64

struct constants {
	__m512i bias, signs;
};

/* Add the pairs of words of a vector. */
static inline __m512i
add(__m512i sums, __m512i v, struct constants k)
{
	return _mm512_dpwssd_epi32(sums, _mm512_xor_si512(v, k.bias), k.signs);
}

uint64_t
pktbuf_sum_avx512(const uint8_t *bytes, size_t length, uint64_t sum)
{
	const uint8_t *end = bytes + length / VECTOR * VECTOR;
	const uint8_t *fours = bytes + length / (4 * VECTOR) * (4 * VECTOR);
	__m512i a = _mm512_set1_epi32((int)(length / VECTOR + 1) * 0xffff);
	__m512i b = _mm512_setzero_si512(), c = b, d = b;
	struct constants k = {
		_mm512_set1_epi32(PKTBUF_SUM_BIAS), _mm512_set1_epi32(PKTBUF_SUM_SIGNS)};

	__asm__("" : "+v"(k.bias), "+v"(k.signs)); /* else gcc makes them again for each loop */
	/* A masked load reads nothing beyond. */
	a = add(a, _mm512_maskz_loadu_epi8((UINT64_C(1) << length % VECTOR) - 1, end), k);
	/* Four chains, because an instruction's result takes several cycles. */
	for (; bytes < fours; bytes += 4 * VECTOR) {
		a = add(a, _mm512_loadu_si512(bytes), k);
		b = add(b, _mm512_loadu_si512(bytes + VECTOR), k);
		c = add(c, _mm512_loadu_si512(bytes + 2 * VECTOR), k);
		d = add(d, _mm512_loadu_si512(bytes + 3 * VECTOR), k);
	}
	for (; bytes < end; bytes += VECTOR)
		b = add(b, _mm512_loadu_si512(bytes), k);
	a = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
	return sum + (uint32_t)_mm512_reduce_add_epi32(a);
}
