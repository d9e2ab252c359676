/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#include "pktbuf/sum_priv.h"

#define VECTOR 32

uint64_t
pktbuf_sum_avx2(const uint8_t *bytes, size_t length)
{
	const __m256i half = _mm256_set1_epi64x(0xffffffff);
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
	uint64_t lane[4];
	size_t i = 0;

	for (; i + 2 * VECTOR <= length; i += 2 * VECTOR) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + i));
		__m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + i + VECTOR));

		a = _mm256_add_epi64(a, _mm256_and_si256(v, half));
		b = _mm256_add_epi64(b, _mm256_srli_epi64(v, 32));
		c = _mm256_add_epi64(c, _mm256_and_si256(w, half));
		d = _mm256_add_epi64(d, _mm256_srli_epi64(w, 32));
	}
	a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
	_mm256_storeu_si256((__m256i *)(void *)lane, a);
	return lane[0] + lane[1] + lane[2] + lane[3] + pktbuf_sum_rest(bytes + i, length - i);
}
