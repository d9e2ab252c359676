/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector kernels' operations that AVX2 and AVX-512 share. kernels_avx2.h and kernels_avx512.h
 * say how the intrinsics are called there, include this file, and add the operations that differ,
 * under the same names. A name ends with the bits of an element, after s or u if the sign matters,
 * or f for floating point.
 */
#ifndef RMW_KERNELS_SIMD_H
#define RMW_KERNELS_SIMD_H

#ifdef V_BYTES

#define V_SET(name, intrinsic, type)                                                               \
	static inline vector name(type x)                                                          \
	{                                                                                          \
		return V_INTRINSIC(intrinsic)(x);                                                  \
	}
V_SET(v_set8, set1_epi8, char)
V_SET(v_set16, set1_epi16, short)
V_SET(v_set32, set1_epi32, int)
V_SET(v_set64, V_SET1_EPI64, long long)

#define V_OP(name, intrinsic)                                                                      \
	static inline vector name(vector a, vector b)                                              \
	{                                                                                          \
		return V_INTRINSIC(intrinsic)(a, b);                                               \
	}
V_OP(v_add8, add_epi8)
V_OP(v_add16, add_epi16)
V_OP(v_add32, add_epi32)
V_OP(v_add64, add_epi64)
V_OP(v_sub64, sub_epi64)
V_OP(v_multiply16, mullo_epi16)
V_OP(v_multiply32, mullo_epi32)
V_OP(v_multiply_low32, mul_epu32) /* 64-bit products of the low halves */
V_OP(v_min_s8, min_epi8)
V_OP(v_min_u8, min_epu8)
V_OP(v_max_s8, max_epi8)
V_OP(v_max_u8, max_epu8)
V_OP(v_min_s16, min_epi16)
V_OP(v_min_u16, min_epu16)
V_OP(v_max_s16, max_epi16)
V_OP(v_max_u16, max_epu16)
V_OP(v_min_s32, min_epi32)
V_OP(v_min_u32, min_epu32)
V_OP(v_max_s32, max_epi32)
V_OP(v_max_u32, max_epu32)
V_OP(v_and, V_BITWISE(and))
V_OP(v_or, V_BITWISE(or))
V_OP(v_xor, V_BITWISE(xor))

#define V_SHIFT(name, intrinsic)                                                                   \
	static inline vector name(vector x, unsigned int bits)                                     \
	{                                                                                          \
		return V_INTRINSIC(intrinsic)(x, bits);                                            \
	}
V_SHIFT(v_left32, slli_epi32)
V_SHIFT(v_right32, srli_epi32)
V_SHIFT(v_left64, slli_epi64)
V_SHIFT(v_right64, srli_epi64)

/* As asm, so that a stays the first operand, whose NaN is the result: compilers may swap the
 * operands of add_ps. */
#define V_SPELLED(name, instruction)                                                               \
	static inline vector name(vector a, vector b)                                              \
	{                                                                                          \
		vector result;                                                                     \
                                                                                                   \
		__asm__(instruction " %2, %1, %0" : "=v"(result) : "v"(a), "v"(b));                \
		return result;                                                                     \
	}
V_SPELLED(v_add_f32, "vaddps")
V_SPELLED(v_add_f64, "vaddpd")
V_SPELLED(v_multiply_f32, "vmulps")
V_SPELLED(v_multiply_f64, "vmulpd")
V_SPELLED(v_divide_f32, "vdivps")
V_SPELLED(v_divide_f64, "vdivpd")

static inline vector
v_set_f32(float x)
{
	return (vector)V_INTRINSIC(set1_ps)(x);
}

static inline vector
v_set_f64(double x)
{
	return (vector)V_INTRINSIC(set1_pd)(x);
}

static inline vector
v_s32_to_f32(vector x)
{
	return (vector)V_INTRINSIC(cvtepi32_ps)(x);
}

static inline vector
v_f32_to_s32(vector x)
{
	return V_INTRINSIC(cvttps_epi32)((vector_f32)x);
}

/* fp32 to fp16 in 32 bits, rounded towards zero. */
static inline vector
v_f32_to_fp16_cut(vector x)
{
	return V_INTRINSIC(cvtepu16_epi32)(
		V_INTRINSIC(cvtps_ph)((vector_f32)x, _MM_FROUND_TO_ZERO));
}

/*
 * A number that truncates to x / divisor, for integers |x| < 2^40 and a divisor in [1, 256]. x is
 * first moved by 0.5 away from zero, so the exact quotient is at least 1/512 from every integer.
 * The product with the reciprocal, which compilers compute outside the loop, errs by less than
 * 2^-11.
 */
static inline vector_f64
quotient(vector_f64 x, vector divisor)
{
	vector_f64 half = V_INTRINSIC(or_pd)(
		V_INTRINSIC(set1_pd)(0.5), V_INTRINSIC(and_pd)(x, V_INTRINSIC(set1_pd)(-0.0)));

	return V_INTRINSIC(mul_pd)(V_INTRINSIC(add_pd)(x, half),
		V_INTRINSIC(div_pd)(V_INTRINSIC(set1_pd)(1), (vector_f64)divisor));
}

#endif
#endif
