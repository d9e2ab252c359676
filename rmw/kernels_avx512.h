/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector kernels' operations for AVX-512 F, BW, DQ and VL that differ from AVX2; kernels_simd.h
 * explains the names.
 */
#ifndef RMW_KERNELS_AVX512_H
#define RMW_KERNELS_AVX512_H

#ifdef __AVX512BW__
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define RMW_VARIANT       avx512
#define V_BYTES           64
#define V_WORDS           16

#define V_INTRINSIC(name) _mm512_##name
#define V_SET1_EPI64      set1_epi64
#define V_BITWISE(name)   name##_si512

typedef __m512i vector;
typedef __m512 vector_f32;
typedef __m512d vector_f64;

#include "rmw/kernels_simd.h"

static inline vector
v_load(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}

static inline void
v_store(uint8_t *p, vector v)
{
	_mm512_storeu_si512(p, v);
}

/* Masked bytes are neither read nor written. */
static inline vector
v_load_part(const uint8_t *p, size_t bytes)
{
	return _mm512_maskz_loadu_epi8((UINT64_C(1) << bytes) - 1, p);
}

static inline void
v_store_part(uint8_t *p, vector v, size_t bytes)
{
	_mm512_mask_storeu_epi8(p, (UINT64_C(1) << bytes) - 1, v);
}

V_OP(v_multiply64, mullo_epi64)
V_OP(v_min_s64, min_epi64)
V_OP(v_min_u64, min_epu64)
V_OP(v_max_s64, max_epi64)
V_OP(v_max_u64, max_epu64)

static inline vector
v_negative64(vector x)
{
	return _mm512_srai_epi64(x, 63);
}

static inline vector
v_multiply8(vector a, vector b)
{
	vector even = _mm512_mullo_epi16(a, b);
	vector odd = _mm512_mullo_epi16(
		_mm512_srli_epi16(a, 8), _mm512_andnot_si512(_mm512_set1_epi16(0xff), b));

	return _mm512_mask_mov_epi8(odd, UINT64_C(0x5555555555555555), even);
}

/* vrangeps distinguishes -0 from 0. 4 selects the lesser, 5 the greater, with its own sign. */
#define V_RANGE(name, bits, type, ps, pd, select, nan)                                             \
	static inline vector name(vector a, vector b)                                              \
	{                                                                                          \
		__m512##pd x = _mm512_castsi512_##ps(a), y = _mm512_castsi512_##ps(b);             \
		__mmask##type unordered = _mm512_cmp_##ps##_mask(x, y, _CMP_UNORD_Q);              \
		vector range = _mm512_cast##ps##_si512(_mm512_range_##ps(x, y, select));           \
                                                                                                   \
		return _mm512_mask_mov_epi##bits(range, unordered, v_set##bits(nan));              \
	}
V_RANGE(v_min_f32, 32, 16, ps, , 4, 0x7fc00000)
V_RANGE(v_max_f32, 32, 16, ps, , 5, 0x7fc00000)
V_RANGE(v_min_f64, 64, 8, pd, d, 4, 0x7ff8000000000000)
V_RANGE(v_max_f64, 64, 8, pd, d, 5, 0x7ff8000000000000)

static inline vector
v_order16(vector x)
{
	/* x ^ (sign & 0x7fff) */
	return _mm512_ternarylogic_epi32(
		x, _mm512_srai_epi16(x, 15), _mm512_set1_epi16(0x7fff), 0x78);
}

static inline vector
v_choose_above16(vector x, vector limit, vector a, vector b)
{
	return _mm512_mask_mov_epi16(b, _mm512_cmpgt_epu16_mask(x, limit), a);
}

/* A mask of the n lowest of V_WORDS lanes. */
static inline __mmask16
lanes(size_t n)
{
	return (__mmask16)((1u << n) - 1);
}

static inline __m128i
load8(const uint8_t *p, size_t n)
{
	if (n == V_WORDS)
		return _mm_loadu_si128((const __m128i *)(const void *)p);
	return _mm_maskz_loadu_epi8(lanes(n), p);
}

static inline __m256i
load16(const uint8_t *p, size_t n)
{
	if (n == V_WORDS)
		return _mm256_loadu_si256((const __m256i *)(const void *)p);
	return _mm256_maskz_loadu_epi16(lanes(n), p);
}

#define V_WIDEN(name, intrinsic, load)                                                             \
	static inline vector name(const uint8_t *p, size_t n)                                      \
	{                                                                                          \
		return intrinsic(load(p, n));                                                      \
	}
V_WIDEN(v_widen_s8, _mm512_cvtepi8_epi32, load8)
V_WIDEN(v_widen_u8, _mm512_cvtepu8_epi32, load8)
V_WIDEN(v_widen_s16, _mm512_cvtepi16_epi32, load16)
V_WIDEN(v_widen_u16, _mm512_cvtepu16_epi32, load16)
#define FP16_TO_FP32(x) _mm512_castps_si512(_mm512_cvtph_ps(x))
V_WIDEN(v_widen_fp16, FP16_TO_FP32, load16)

static inline void
v_store_low8(uint8_t *p, vector v, size_t n)
{
	_mm_mask_storeu_epi8(p, lanes(n), _mm512_cvtepi32_epi8(v));
}

static inline void
v_store_low16(uint8_t *p, vector v, size_t n)
{
	_mm256_mask_storeu_epi16(p, lanes(n), _mm512_cvtepi32_epi16(v));
}

static inline void
v_store_fp16(uint8_t *p, vector v, size_t n)
{
	_mm256_mask_storeu_epi16(
		p, lanes(n), _mm512_cvtps_ph(_mm512_castsi512_ps(v), _MM_FROUND_TO_NEAREST_INT));
}

static inline vector
v_fp16_to_f32(vector x)
{
	return FP16_TO_FP32(_mm512_cvtepi32_epi16(x));
}

static inline vector
v_choose_nan_f32(vector x, vector a, vector b)
{
	__m512 number = _mm512_castsi512_ps(x);

	return _mm512_mask_mov_epi32(b, _mm512_cmp_ps_mask(number, number, _CMP_UNORD_Q), a);
}

static inline vector
v_f64_to_u32(vector x)
{
	return _mm512_cvttpd_epu64(_mm512_castsi512_pd(x));
}

#define V_DIVIDE(name, to_f64, from_f64)                                                           \
	static inline vector name(vector x, vector divisor)                                        \
	{                                                                                          \
		__m512d low = to_f64(_mm512_castsi512_si256(x));                                   \
		__m512d high = to_f64(_mm512_extracti64x4_epi64(x, 1));                            \
                                                                                                   \
		return _mm512_inserti64x4(                                                         \
			_mm512_castsi256_si512(from_f64(quotient(low, divisor))),                  \
			from_f64(quotient(high, divisor)), 1);                                     \
	}
V_DIVIDE(v_divide_s32, _mm512_cvtepi32_pd, _mm512_cvttpd_epi32)
V_DIVIDE(v_divide_u32, _mm512_cvtepu32_pd, _mm512_cvttpd_epu32)

static inline vector
v_divide_u40(vector x, vector divisor)
{
	return _mm512_cvttpd_epu64(quotient(_mm512_cvtepu64_pd(x), divisor));
}

#endif
#endif
