/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2: four vectors of 32 bytes per turn, the last elements one by one. */
#include <immintrin.h>
#include <string.h>

#include "rmw/kernels_priv.h"

#define VECTOR 32

static inline __m256i
add_int32(__m256i a, __m256i b)
{
	return _mm256_add_epi32(a, b);
}

/* Spelled, so that a stays the first operand: _mm256_add_ps may be commuted. */
static inline __m256i
add_fp32(__m256i a, __m256i b)
{
	__m256 sum;

	__asm__("vaddps %2, %1, %0"
		: "=x"(sum)
		: "x"(_mm256_castsi256_ps(a)), "x"(_mm256_castsi256_ps(b)));
	return _mm256_castps_si256(sum);
}

static inline __m256i
load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline void
store(uint8_t *p, __m256i v)
{
	_mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* The whole vectors of `bytes` bytes; returns how many bytes these are. `add` is inlined. */
static inline __attribute__((always_inline)) size_t
whole_vectors(uint8_t *restrict to, const uint8_t *restrict from, size_t bytes,
	__m256i (*add)(__m256i, __m256i))
{
	size_t i = 0;

	for (; i + 4 * VECTOR <= bytes; i += 4 * VECTOR) {
		__m256i s0 = add(load(to + i), load(from + i));
		__m256i s1 = add(load(to + i + VECTOR), load(from + i + VECTOR));
		__m256i s2 = add(load(to + i + 2 * VECTOR), load(from + i + 2 * VECTOR));
		__m256i s3 = add(load(to + i + 3 * VECTOR), load(from + i + 3 * VECTOR));

		store(to + i, s0);
		store(to + i + VECTOR, s1);
		store(to + i + 2 * VECTOR, s2);
		store(to + i + 3 * VECTOR, s3);
	}
	for (; i + VECTOR <= bytes; i += VECTOR)
		store(to + i, add(load(to + i), load(from + i)));
	return i;
}

static void
sum_int32(void *restrict acc, const void *restrict src, size_t n)
{
	uint8_t *to = acc;
	const uint8_t *from = src;

	for (size_t i = whole_vectors(to, from, 4 * n, add_int32); i < 4 * n; i += 4) {
		uint32_t a, b;

		memcpy(&a, to + i, sizeof(a));
		memcpy(&b, from + i, sizeof(b));
		a += b;
		memcpy(to + i, &a, sizeof(a));
	}
}

static void
sum_fp32(void *restrict acc, const void *restrict src, size_t n)
{
	uint8_t *to = acc;
	const uint8_t *from = src;

	for (size_t i = whole_vectors(to, from, 4 * n, add_fp32); i < 4 * n; i += 4) {
		float a, b;

		memcpy(&a, to + i, sizeof(a));
		memcpy(&b, from + i, sizeof(b));
		__asm__("vaddss %1, %0, %0" : "+x"(a) : "x"(b));
		memcpy(to + i, &a, sizeof(a));
	}
}

void
rmw_avx2_copy(void *restrict to, const void *restrict from, size_t bytes)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	size_t i = 0;

	for (; i + 4 * VECTOR <= bytes; i += 4 * VECTOR) {
		__m256i v0 = load(f + i), v1 = load(f + i + VECTOR);
		__m256i v2 = load(f + i + 2 * VECTOR), v3 = load(f + i + 3 * VECTOR);

		store(t + i, v0);
		store(t + i + VECTOR, v1);
		store(t + i + 2 * VECTOR, v2);
		store(t + i + 3 * VECTOR, v3);
	}
	memcpy(t + i, f + i, bytes - i);
}

static void
copy32(void *restrict acc, const void *restrict src, size_t n)
{
	rmw_avx2_copy(acc, src, 4 * n);
}

const rmw_row rmw_avx2_int32 = {[RMW_OP_SUM] = {copy32, sum_int32, NULL, 4}};
const rmw_row rmw_avx2_fp32 = {[RMW_OP_SUM] = {copy32, sum_fp32, NULL, 4}};
