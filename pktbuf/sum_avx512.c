/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#include "pktbuf/sum_priv.h"

#define VECTOR 64

static inline __m512i
low(__m512i v)
{
	return _mm512_maskz_mov_epi32(0x5555, v);
}

/* A masked vector at the end reads nothing beyond it. */
uint64_t
pktbuf_sum_avx512(const uint8_t *bytes, size_t length)
{
	__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
	size_t i = 0;

	for (; i + 2 * VECTOR <= length; i += 2 * VECTOR) {
		__m512i v = _mm512_loadu_si512(bytes + i);
		__m512i w = _mm512_loadu_si512(bytes + i + VECTOR);

		a = _mm512_add_epi64(a, low(v));
		b = _mm512_add_epi64(b, _mm512_srli_epi64(v, 32));
		c = _mm512_add_epi64(c, low(w));
		d = _mm512_add_epi64(d, _mm512_srli_epi64(w, 32));
	}
	for (; i < length; i += VECTOR) {
		size_t left = length - i;
		__mmask64 rest = left >= VECTOR ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
		__m512i v = _mm512_maskz_loadu_epi8(rest, bytes + i);

		a = _mm512_add_epi64(a, low(v));
		b = _mm512_add_epi64(b, _mm512_srli_epi64(v, 32));
	}
	a = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
	return (uint64_t)_mm512_reduce_add_epi64(a);
}
