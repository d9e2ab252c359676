/* SPDX-License-Identifier: BSD-3-Clause */
/* Scalar kernels of fp16 and bf16: conversions from the bits alone, arithmetic in fp32. */
#include "rmw/kernels_scalar.h"

/* As F16C converts. Exact, but that a NaN becomes quiet. */
static inline uint32_t
fp16_to_fp32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, left;
	uint32_t fraction = h & 0x3ff;

	if (exponent == 0x1f)
		return sign | 0x7f800000 | (fraction != 0 ? 0x00400000 | fraction << 13 : 0);
	if (exponent != 0)
		return sign | (exponent + 127 - 15) << 23 | fraction << 13;
	if (fraction == 0)
		return sign;
	/* A denormal, fraction * 2^-24, is normal in fp32: its highest bit becomes the hidden one. */
	left = (uint32_t)__builtin_clz(fraction) - 21;
	return sign | (127 - 14 - left) << 23 | (fraction << left & 0x3ff) << 13;
}

/* x / 2^right, to nearest, ties to even. right: [1, 31]. */
static inline uint32_t
round_right(uint32_t x, uint32_t right)
{
	return (x + (UINT32_C(1) << (right - 1)) - 1 + (x >> right & 1)) >> right;
}

/* As F16C converts: to nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static inline uint16_t
fp32_to_fp16(uint32_t x)
{
	uint32_t sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff, exponent = magnitude >> 23;

	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (exponent >= 127 + 16)
		return (uint16_t)(sign | 0x7c00);
	if (exponent >= 127 - 14) /* a carry goes on into the exponent, up to infinity */
		return (uint16_t)(sign | round_right(magnitude - ((127 - 15) << 23), 13));
	if (exponent < 127 - 25)
		return (uint16_t)sign;
	return (uint16_t)(sign | round_right((magnitude & 0x7fffff) | 0x800000, 126 - exponent));
}

static inline uint32_t
bf16_to_fp32(uint16_t h)
{
	return (uint32_t)h << 16;
}

/* To nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static inline uint16_t
fp32_to_bf16(uint32_t x)
{
	if ((x & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(x >> 16 | 0x40);
	return (uint16_t)round_right(x, 16);
}

static inline float
as_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint32_t
as_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

RMW_SCALAR_FIRST_NAN(add_floats, float, "addss", +)
RMW_SCALAR_FIRST_NAN(multiply_floats, float, "mulss", *)

static inline uint32_t
add(uint32_t a, uint32_t b)
{
	return as_bits(add_floats(as_float(a), as_float(b)));
}

static inline uint32_t
multiply(uint32_t a, uint32_t b)
{
	return as_bits(multiply_floats(as_float(a), as_float(b)));
}

static inline uint32_t
divide(uint32_t a, unsigned int count)
{
	return as_bits(as_float(a) / (float)count);
}

#define HALF(type)                                                                                 \
	RMW_SCALAR_BEGIN(widen_##type, uint32_t, uint16_t, type##_to_fp32(b))                      \
	RMW_SCALAR_REDUCE(sum_wide_##type, uint32_t, uint16_t, add(a, type##_to_fp32(b)))          \
	RMW_SCALAR_REDUCE(prod_wide_##type, uint32_t, uint16_t, multiply(a, type##_to_fp32(b)))    \
	RMW_SCALAR_FINISH(narrow_##type, uint32_t, uint16_t, fp32_to_##type(a))                    \
	RMW_SCALAR_FINISH(average_##type, uint32_t, uint16_t, fp32_to_##type(divide(a, count)))

HALF(fp16)
HALF(bf16)
RMW_SCALAR_MINIMUM(fp16, 16, 0x7c00, 0x7e00)
RMW_SCALAR_MINIMUM(bf16, 16, 0x7f80, 0x7fc0)

#define EXTREMES(type)                                                                             \
	[WEIR_OP_MIN] = {canonical_##type, min_##type, NULL, 2},                                   \
	[WEIR_OP_MAX] = {canonical_##type, max_##type, NULL, 2}

const rmw_row RMW_ROW(FP16) = {RMW_HALF_OPS(fp16), EXTREMES(fp16)};
const rmw_row RMW_ROW(BF16) = {RMW_HALF_OPS(bf16), EXTREMES(bf16)};
