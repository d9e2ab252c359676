/* SPDX-License-Identifier: BSD-3-Clause */
/* Scalar kernels of fp16, bf16 and fp8: conversions from the bits alone, arithmetic in fp32. */
#include "rmw/kernels_scalar.h"

/*
 * Convert to fp32, exactly, a number with e bits of exponent and f of fraction. infinity: the least
 * magnitude that is no finite number. A NaN keeps its fraction and becomes quiet, as with F16C.
 */
static inline uint32_t
widen(uint32_t x, unsigned int e, unsigned int f, uint32_t infinity)
{
	uint32_t sign = (x >> (e + f) & 1) << 31, magnitude = x & ((UINT32_C(1) << (e + f)) - 1),
		 left;
	uint32_t bias = (UINT32_C(1) << (e - 1)) - 1, most = (UINT32_C(1) << f) - 1;
	uint32_t exponent = magnitude >> f, fraction = magnitude & most;

	if (magnitude >= infinity)
		return sign | 0x7f800000 | (fraction != 0 ? 0x00400000 | fraction << (23 - f) : 0);
	if (exponent != 0)
		return sign | (exponent + 127 - bias) << 23 | fraction << (23 - f);
	if (fraction == 0)
		return sign;
	/* A denormal becomes normal in fp32. */
	left = (uint32_t)__builtin_clz(fraction) - (31 - f);
	return sign | (127 - bias + 1 - left) << 23 | (fraction << left & most) << (23 - f);
}

/* x / 2^right, to nearest, ties to even. right: [1, 31]. */
static inline uint32_t
round_right(uint32_t x, uint32_t right)
{
	return (x + (UINT32_C(1) << (right - 1)) - 1 + (x >> right & 1)) >> right;
}

/* Convert back: to nearest, ties to even; an overflow gives `infinity`, which is the NaN of types
 * without an infinity. A NaN keeps the upper bits of its fraction and becomes quiet. */
static inline uint32_t
narrow(uint32_t x, unsigned int e, unsigned int f, uint32_t infinity)
{
	uint32_t sign = (x >> 31) << (e + f), magnitude = x & 0x7fffffff,
		 exponent = magnitude >> 23;
	uint32_t bias = (UINT32_C(1) << (e - 1)) - 1, result;

	if (magnitude > 0x7f800000)
		return sign | infinity | UINT32_C(1) << (f - 1) |
			(magnitude >> (23 - f) & ((UINT32_C(1) << f) - 1));
	if (exponent < 127 - bias - f)
		return sign;
	if (exponent <= 127 - bias) /* denormal */
		result = round_right((magnitude & 0x7fffff) | 0x800000, 151 - bias - f - exponent);
	else /* rounding may carry into the exponent */
		result = round_right(magnitude - ((127 - bias) << 23), 23 - f);
	return sign | (result < infinity ? result : infinity);
}

#define CONVERSIONS(type, bits, e, f, infinity)                                                    \
	static inline uint32_t type##_to_fp32(uint##bits##_t x)                                    \
	{                                                                                          \
		return widen(x, e, f, infinity);                                                   \
	}                                                                                          \
	static inline uint##bits##_t fp32_to_##type(uint32_t x)                                    \
	{                                                                                          \
		return (uint##bits##_t)narrow(x, e, f, infinity);                                  \
	}
CONVERSIONS(fp16, 16, 5, 10, 0x7c00)
CONVERSIONS(fp8_e4m3, 8, 4, 3, 0x7f)
CONVERSIONS(fp8_e5m2, 8, 5, 2, 0x7c)

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

#define NARROW(type, bits, infinity, nan)                                                          \
	RMW_SCALAR_REDUCE(sum_wide_##type, uint32_t, uint##bits##_t, type##_to_fp32(b),            \
		add(a, type##_to_fp32(b)))                                                         \
	RMW_SCALAR_REDUCE(prod_wide_##type, uint32_t, uint##bits##_t, type##_to_fp32(b),           \
		multiply(a, type##_to_fp32(b)))                                                    \
	RMW_SCALAR_FINISH(narrow_##type, uint32_t, uint##bits##_t, fp32_to_##type(a))              \
	RMW_SCALAR_FINISH(                                                                         \
		average_##type, uint32_t, uint##bits##_t, fp32_to_##type(divide(a, count)))        \
	RMW_SCALAR_MINIMUM(type, bits, infinity, nan)

NARROW(fp16, 16, 0x7c00, 0x7e00)
NARROW(bf16, 16, 0x7f80, 0x7fc0)
NARROW(fp8_e4m3, 8, 0x7e, 0x7f) /* no infinity: an overflow is NaN */
NARROW(fp8_e5m2, 8, 0x7c, 0x7e)

#define EXTREMES(type, bytes)                                                                      \
	[WEIR_OP_MIN] = RMW_CELL(min_##type, NULL, bytes),                                         \
	[WEIR_OP_MAX] = RMW_CELL(max_##type, NULL, bytes)

const rmw_row RMW_ROW(FP16) = {RMW_NARROW_OPS(fp16), EXTREMES(fp16, 2)};
const rmw_row RMW_ROW(BF16) = {RMW_NARROW_OPS(bf16), EXTREMES(bf16, 2)};
const rmw_row RMW_ROW(FP8_E4M3) = {RMW_NARROW_OPS(fp8_e4m3), EXTREMES(fp8_e4m3, 1)};
const rmw_row RMW_ROW(FP8_E5M2) = {RMW_NARROW_OPS(fp8_e5m2), EXTREMES(fp8_e5m2, 1)};
