/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector kernels' operations for AVX2 and F16C that differ from AVX-512; kernels_avx512.h has
 * the same names.
 */
#ifndef RMW_KERNELS_AVX2_H
#define RMW_KERNELS_AVX2_H

#if defined(__AVX2__) && !defined(__AVX512BW__)
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RMW_VARIANT       avx2
#define V_BYTES           32
#define V_WORDS           8 /* elements of 4 bytes */

#define V_INTRINSIC(name) _mm256_##name
#define V_SET1_EPI64      set1_epi64x
#define V_BITWISE(name)   name##_si256

typedef __m256i vector;
typedef __m256 vector_f32;
typedef __m256d vector_f64;

#include "rmw/kernels_simd.h"

static inline vector
v_load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline void
v_store(uint8_t *p, vector v)
{
	_mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* Load `bytes` bytes, [1, V_BYTES); the rest is 0. AVX2 has no byte masks. */
static inline vector
v_load_part(const uint8_t *p, size_t bytes)
{
	uint8_t whole[V_BYTES] __attribute__((aligned(V_BYTES))) = {0};

	memcpy(whole, p, bytes);
	return v_load(whole);
}

static inline void
v_store_part(uint8_t *p, vector v, size_t bytes)
{
	uint8_t whole[V_BYTES] __attribute__((aligned(V_BYTES)));

	v_store(whole, v);
	memcpy(p, whole, bytes);
}

/* All ones in negative elements, 0 in others. */
static inline vector
v_negative64(vector x)
{
	return _mm256_cmpgt_epi64(_mm256_setzero_si256(), x);
}

/* Multiplies even and odd bytes separately, as 16-bit numbers. */
static inline vector
v_multiply8(vector a, vector b)
{
	vector low = _mm256_set1_epi16(0xff);
	vector even = _mm256_mullo_epi16(a, b);
	vector odd = _mm256_mullo_epi16(_mm256_srli_epi16(a, 8), _mm256_andnot_si256(low, b));

	return _mm256_or_si256(odd, _mm256_and_si256(even, low));
}

/* a * b = 2^32 * (high * low + low * high) + low * low, modulo 2^64. */
static inline vector
v_multiply64(vector a, vector b)
{
	vector low = _mm256_mul_epu32(a, b);
	vector crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
		_mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));

	return _mm256_add_epi64(low, _mm256_slli_epi64(crossed, 32));
}

/* above ? a : b, bit by bit. */
static inline vector
v_choose(vector above, vector a, vector b)
{
	return _mm256_blendv_epi8(b, a, above);
}

static inline vector
v_min_s64(vector a, vector b)
{
	return v_choose(_mm256_cmpgt_epi64(a, b), b, a);
}

static inline vector
v_max_s64(vector a, vector b)
{
	return v_choose(_mm256_cmpgt_epi64(a, b), a, b);
}

/* AVX2 has only signed comparison, so the sign bits are flipped first. */
static inline vector
v_above_u64(vector a, vector b)
{
	vector sign = _mm256_set1_epi64x(INT64_MIN);

	return _mm256_cmpgt_epi64(_mm256_xor_si256(a, sign), _mm256_xor_si256(b, sign));
}

static inline vector
v_min_u64(vector a, vector b)
{
	return v_choose(v_above_u64(a, b), b, a);
}

static inline vector
v_max_u64(vector a, vector b)
{
	return v_choose(v_above_u64(a, b), a, b);
}

/*
 * If the operands are equal (-0 and 0 are) or one is NaN, vminps returns the second. The OR of both
 * orders has the sign of -0. max takes the AND.
 */
#define V_MINIMUM(bits, ps, pd, si, nan)                                                           \
	static inline vector v_min_f##bits(vector a, vector b)                                     \
	{                                                                                          \
		__m256##pd x = _mm256_castsi256_##ps(a), y = _mm256_castsi256_##ps(b);             \
		__m256##pd both = _mm256_or_##ps(_mm256_min_##ps(x, y), _mm256_min_##ps(y, x));    \
		__m256##pd unordered = _mm256_cmp_##ps(x, y, _CMP_UNORD_Q);                        \
                                                                                                   \
		return v_choose(si(unordered), v_set##bits(nan), si(both));                        \
	}                                                                                          \
                                                                                                   \
	static inline vector v_max_f##bits(vector a, vector b)                                     \
	{                                                                                          \
		__m256##pd x = _mm256_castsi256_##ps(a), y = _mm256_castsi256_##ps(b);             \
		__m256##pd both = _mm256_and_##ps(_mm256_max_##ps(x, y), _mm256_max_##ps(y, x));   \
		__m256##pd unordered = _mm256_cmp_##ps(x, y, _CMP_UNORD_Q);                        \
                                                                                                   \
		return v_choose(si(unordered), v_set##bits(nan), si(both));                        \
	}
V_MINIMUM(32, ps, , _mm256_castps_si256, 0x7fc00000)
V_MINIMUM(64, pd, d, _mm256_castpd_si256, 0x7ff8000000000000)

/* Flips all bits below the sign in negative elements, so that they are ordered as integers. */
static inline vector
v_order16(vector x)
{
	return _mm256_xor_si256(x, _mm256_srli_epi16(_mm256_srai_epi16(x, 15), 1));
}

/* x > limit ? a : b, for numbers below 0x8000. */
static inline vector
v_choose_above16(vector x, vector limit, vector a, vector b)
{
	return v_choose(_mm256_cmpgt_epi16(x, limit), a, b);
}

/* Load n elements, [1, V_WORDS], of 1 or 2 bytes. */
static inline __m128i
load_short(const uint8_t *p, size_t n, size_t size)
{
	uint8_t whole[16] __attribute__((aligned(16))) = {0};

	if (n == V_WORDS)
		return size == 2 ? _mm_loadu_si128((const __m128i *)(const void *)p)
				 : _mm_loadl_epi64((const __m128i *)(const void *)p);
	memcpy(whole, p, n * size);
	return _mm_load_si128((const __m128i *)(const void *)whole);
}

static inline void
store_short(uint8_t *p, __m128i v, size_t n, size_t size)
{
	uint8_t whole[16] __attribute__((aligned(16)));

	_mm_store_si128((__m128i *)(void *)whole, v);
	if (n == V_WORDS)
		memcpy(p, whole, V_WORDS * size);
	else
		memcpy(p, whole, n * size);
}

/* Load n elements, [1, V_WORDS], and extend each to 32 bits. */
#define V_WIDEN(name, intrinsic, size)                                                             \
	static inline vector name(const uint8_t *p, size_t n)                                      \
	{                                                                                          \
		return intrinsic(load_short(p, n, size));                                          \
	}
V_WIDEN(v_widen_s8, _mm256_cvtepi8_epi32, 1)
V_WIDEN(v_widen_u8, _mm256_cvtepu8_epi32, 1)
V_WIDEN(v_widen_s16, _mm256_cvtepi16_epi32, 2)
V_WIDEN(v_widen_u16, _mm256_cvtepu16_epi32, 2)
#define FP16_TO_FP32(x) _mm256_castps_si256(_mm256_cvtph_ps(x))
V_WIDEN(v_widen_fp16, FP16_TO_FP32, 2)

/* Store the low bits of n elements. */
static inline __m128i
low_halves(vector v)
{
	vector low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));

	return _mm256_castsi256_si128(
		_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), _MM_SHUFFLE(3, 1, 2, 0)));
}

static inline void
v_store_low16(uint8_t *p, vector v, size_t n)
{
	store_short(p, low_halves(v), n, 2);
}

static inline void
v_store_low8(uint8_t *p, vector v, size_t n)
{
	__m128i halves = low_halves(_mm256_and_si256(v, _mm256_set1_epi32(0xff)));

	store_short(p, _mm_packus_epi16(halves, halves), n, 1);
}

static inline void
v_store_fp16(uint8_t *p, vector v, size_t n)
{
	store_short(p, _mm256_cvtps_ph(_mm256_castsi256_ps(v), _MM_FROUND_TO_NEAREST_INT), n, 2);
}

/* fp16 in the low bits of 32 to fp32. */
static inline vector
v_fp16_to_f32(vector x)
{
	return FP16_TO_FP32(low_halves(x));
}

/* fp32: NaN ? a : b */
static inline vector
v_choose_nan_f32(vector x, vector a, vector b)
{
	__m256 number = _mm256_castsi256_ps(x);

	return v_choose(_mm256_castps_si256(_mm256_cmp_ps(number, number, _CMP_UNORD_Q)), a, b);
}

/* fp64 integers below 2^31 to 64-bit integers. */
static inline vector
v_f64_to_u32(vector x)
{
	return _mm256_cvtepi32_epi64(_mm256_cvttpd_epi32(_mm256_castsi256_pd(x)));
}

/* The divisor is fp64 here and below. */
static inline vector
v_divide_s32(vector x, vector divisor)
{
	__m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(x));
	__m256d high = _mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1));

	return _mm256_set_m128i(_mm256_cvttpd_epi32(quotient(high, divisor)),
		_mm256_cvttpd_epi32(quotient(low, divisor)));
}

/* AVX2 converts only signed numbers, so both conversions are offset by 2^31. */
static inline __m128i
divide_half_u32(__m128i x, vector divisor)
{
	__m128i sign = _mm_set1_epi32(INT32_MIN);
	__m256d offset = _mm256_set1_pd(2147483648.0);
	__m256d number = _mm256_add_pd(_mm256_cvtepi32_pd(_mm_xor_si128(x, sign)), offset);
	__m256d whole = _mm256_floor_pd(quotient(number, divisor));

	return _mm_xor_si128(_mm256_cvttpd_epi32(_mm256_sub_pd(whole, offset)), sign);
}

static inline vector
v_divide_u32(vector x, vector divisor)
{
	__m128i low = divide_half_u32(_mm256_castsi256_si128(x), divisor);
	__m128i high = divide_half_u32(_mm256_extracti128_si256(x, 1), divisor);

	return _mm256_set_m128i(high, low);
}

/* x < 2^40, in 64 bits. Converts to fp64 and back by 2^52 + x, whose fraction is x. */
static inline vector
v_divide_u40(vector x, vector divisor)
{
	__m256d big = _mm256_set1_pd(4503599627370496.0);
	vector exponent = _mm256_castpd_si256(big);
	__m256d number = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, exponent)), big);
	__m256d whole = _mm256_floor_pd(quotient(number, divisor));

	return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(whole, big)), exponent);
}

#endif
#endif
