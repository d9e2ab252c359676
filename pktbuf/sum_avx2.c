/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>

#include "pktbuf/sum_priv.h"

#define VECTOR 32

struct constants {
	__m256i bias, signs;
};

static inline __m256i
load(const uint8_t *bytes)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

/* The whole lanes of `length` bytes, at most 7, and zeros. Reads nothing beyond. */
static inline __m256i
load_lanes(const uint8_t *bytes, size_t length)
{
	const __m256i last = _mm256_setr_epi32(3, 7, 11, 15, 19, 23, 27, 31);

	return _mm256_maskload_epi32((const int *)(const void *)bytes,
		_mm256_cmpgt_epi32(_mm256_set1_epi32((int)length), last));
}

/* Add the pairs of words of a vector. */
static inline __m256i
add(__m256i sums, __m256i v, struct constants k)
{
	return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_xor_si256(v, k.bias), k.signs));
}

uint64_t
pktbuf_sum_avx2(const uint8_t *bytes, size_t length, uint64_t sum)
{
	const uint8_t *end = bytes + length / VECTOR * VECTOR;
	const uint8_t *fours = bytes + length / (4 * VECTOR) * (4 * VECTOR);
	__m256i sums = _mm256_set1_epi32((int)(length / VECTOR + 1) * 0xffff);
	struct constants k = {
		_mm256_set1_epi32(PKTBUF_SUM_BIAS), _mm256_set1_epi32(PKTBUF_SUM_SIGNS)};
	__m128i half;

	__asm__("" : "+x"(k.bias), "+x"(k.signs)); /* else gcc makes them again for each loop */
	sums = add(sums, load_lanes(end, length % VECTOR), k);
	if (length % 4 != 0)
		sum += pktbuf_sum_last(bytes + length, length % 4);
	for (; bytes < fours; bytes += 4 * VECTOR) {
		sums = add(sums, load(bytes), k);
		sums = add(sums, load(bytes + VECTOR), k);
		sums = add(sums, load(bytes + 2 * VECTOR), k);
		sums = add(sums, load(bytes + 3 * VECTOR), k);
	}
	for (; bytes < end; bytes += VECTOR)
		sums = add(sums, load(bytes), k);
	half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
	return sum + (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
}
