/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX-512: four vectors of 64 bytes per turn; a masked vector at the end, which touches
 * nothing beyond it. */
#include <immintrin.h>

#include "rmw/kernels_priv.h"

#define VECTOR 64

static inline __m512i
add_int32(__m512i a, __m512i b)
{
	return _mm512_add_epi32(a, b);
}

/* Spelled, so that a stays the first operand: _mm512_add_ps may be commuted. */
static inline __m512i
add_fp32(__m512i a, __m512i b)
{
	__m512 sum;

	__asm__("vaddps %2, %1, %0"
		: "=v"(sum)
		: "v"(_mm512_castsi512_ps(a)), "v"(_mm512_castsi512_ps(b)));
	return _mm512_castps_si512(sum);
}

static inline __m512i
load(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}

static inline void
store(uint8_t *p, __m512i v)
{
	_mm512_storeu_si512(p, v);
}

/* Elements of 4 bytes. `add` is inlined. */
static inline __attribute__((always_inline)) void
reduce4(uint8_t *restrict to, const uint8_t *restrict from, size_t n,
	__m512i (*add)(__m512i, __m512i))
{
	size_t bytes = 4 * n, i = 0;

	for (; i + 4 * VECTOR <= bytes; i += 4 * VECTOR) {
		__m512i s0 = add(load(to + i), load(from + i));
		__m512i s1 = add(load(to + i + VECTOR), load(from + i + VECTOR));
		__m512i s2 = add(load(to + i + 2 * VECTOR), load(from + i + 2 * VECTOR));
		__m512i s3 = add(load(to + i + 3 * VECTOR), load(from + i + 3 * VECTOR));

		store(to + i, s0);
		store(to + i + VECTOR, s1);
		store(to + i + 2 * VECTOR, s2);
		store(to + i + 3 * VECTOR, s3);
	}
	for (; i + VECTOR <= bytes; i += VECTOR)
		store(to + i, add(load(to + i), load(from + i)));
	if (i < bytes) {
		__mmask16 rest = (__mmask16)((1u << ((bytes - i) / 4)) - 1);
		__m512i a = _mm512_maskz_loadu_epi32(rest, to + i);
		__m512i b = _mm512_maskz_loadu_epi32(rest, from + i);

		_mm512_mask_storeu_epi32(to + i, rest, add(a, b));
	}
}

static void
sum_int32(void *restrict acc, const void *restrict src, size_t n)
{
	reduce4(acc, src, n, add_int32);
}

static void
sum_fp32(void *restrict acc, const void *restrict src, size_t n)
{
	reduce4(acc, src, n, add_fp32);
}

void
rmw_avx512_copy(void *restrict to, const void *restrict from, size_t bytes)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	size_t i = 0;

	for (; i + 4 * VECTOR <= bytes; i += 4 * VECTOR) {
		__m512i v0 = load(f + i), v1 = load(f + i + VECTOR);
		__m512i v2 = load(f + i + 2 * VECTOR), v3 = load(f + i + 3 * VECTOR);

		store(t + i, v0);
		store(t + i + VECTOR, v1);
		store(t + i + 2 * VECTOR, v2);
		store(t + i + 3 * VECTOR, v3);
	}
	for (; i < bytes; i += VECTOR) {
		size_t left = bytes - i;
		__mmask64 rest = left >= VECTOR ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;

		_mm512_mask_storeu_epi8(t + i, rest, _mm512_maskz_loadu_epi8(rest, f + i));
	}
}

static void
copy32(void *restrict acc, const void *restrict src, size_t n)
{
	rmw_avx512_copy(acc, src, 4 * n);
}

const rmw_row rmw_avx512_int32 = {[RMW_OP_SUM] = {copy32, sum_int32, NULL, 4}};
const rmw_row rmw_avx512_fp32 = {[RMW_OP_SUM] = {copy32, sum_fp32, NULL, 4}};
