/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "apps/verify/verify.h"

/* Integers lie in 64 bits, extended by their sign if the type has one. */

static bool
is_signed(enum weir_dtype dtype)
{
	enum { SIGNED, UNSIGNED, FLOAT, FINITE };
#define X(name, code, text, bytes, kind, ...) [code] = kind == SIGNED,
	static const bool signs[WEIR_DTYPES] = {WEIR_DTYPE_LIST(X)};
#undef X

	return signs[dtype];
}

static uint64_t
extended(enum weir_dtype dtype, uint64_t bits)
{
	unsigned int unused = 64 - 8 * weir_dtype_bytes(dtype);

	return is_signed(dtype) ? (uint64_t)((int64_t)(bits << unused) >> unused)
				: bits << unused >> unused;
}

static uint64_t
cut(enum weir_dtype dtype, uint64_t value)
{
	return value & UINT64_MAX >> (64 - 8 * weir_dtype_bytes(dtype));
}

static uint64_t
integer_op(enum weir_op op, bool sign, uint64_t a, uint64_t b)
{
	bool less = sign ? (int64_t)a < (int64_t)b : a < b;

	switch (op) {
	case WEIR_OP_SUM:
	case WEIR_OP_AVG: return a + b;
	case WEIR_OP_PROD: return a * b;
	case WEIR_OP_MIN: return less ? a : b;
	case WEIR_OP_MAX: return less ? b : a;
	case WEIR_OP_BAND: return a & b;
	case WEIR_OP_BOR: return a | b;
	case WEIR_OP_BXOR: return a ^ b;
	case WEIR_OP_LAND: return a != 0 && b != 0;
	case WEIR_OP_LOR: return a != 0 || b != 0;
	case WEIR_OP_LXOR: return (a != 0) != (b != 0);
	default: return 0;
	}
}

static uint64_t
integer_reduction(enum weir_dtype dtype, enum weir_op op, const uint64_t *x, unsigned int count)
{
	uint64_t acc = extended(dtype, x[0]);

	if (op >= WEIR_OP_LAND)
		acc = acc != 0;
	/* What is beyond the type is cut off at the end, and changes nothing below. */
	for (unsigned int i = 1; i < count; i++)
		acc = integer_op(op, is_signed(dtype), acc, extended(dtype, x[i]));
	return op == WEIR_OP_AVG ? verify_average(dtype, acc, count) : cut(dtype, acc);
}

/* Floating point */

static bool
is_narrow(enum weir_dtype dtype)
{
	return weir_dtype_is_float(dtype) && weir_dtype_bytes(dtype) <= 2;
}

double
verify_value(enum weir_dtype dtype, uint64_t bits)
{
	const struct weir_float f = weir_dtype_float(dtype);
	uint64_t one = UINT64_C(1) << f.fraction_bits,
		 magnitude = bits & ((one << f.exponent_bits) - 1);
	uint64_t exponent = magnitude >> f.fraction_bits, fraction = magnitude & (one - 1);
	uint64_t bias = (UINT64_C(1) << (f.exponent_bits - 1)) - 1;
	uint32_t low = (uint32_t)bits;
	double value;
	float single;

	if (dtype == WEIR_DTYPE_FP32) {
		memcpy(&single, &low, sizeof(single));
		return (double)single;
	}
	if (dtype == WEIR_DTYPE_FP64) {
		memcpy(&value, &bits, sizeof(value));
		return value;
	}
	if (magnitude >= f.infinity)
		value = fraction != 0 ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		value = ldexp((double)fraction, 1 - (int)bias - (int)f.fraction_bits);
	else {
		fraction = (exponent + 1023 - bias) << 52 | fraction << (52 - f.fraction_bits);
		memcpy(&value, &fraction, sizeof(value));
	}
	return (bits & one << f.exponent_bits) != 0 ? -value : value;
}

static uint32_t
fp32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

uint64_t
verify_bits(enum weir_dtype dtype, long double value)
{
	double wide = (double)value;
	uint64_t bits;

	if (is_narrow(dtype))
		return verify_round(dtype, fp32_bits((float)value));
	if (dtype == WEIR_DTYPE_FP32)
		return fp32_bits((float)value);
	memcpy(&bits, &wide, sizeof(bits));
	return bits;
}

uint32_t
verify_widen(enum weir_dtype dtype, uint16_t narrow)
{
	const struct weir_float f = weir_dtype_float(dtype);
	uint32_t fraction = narrow & ((1u << f.fraction_bits) - 1);
	uint32_t sign = (uint32_t)narrow >> (f.exponent_bits + f.fraction_bits) & 1;
	double value = verify_value(dtype, narrow);

	if (!isnan(value))
		return fp32_bits((float)value);
	return sign << 31 | 0x7f800000 | fraction << (23 - f.fraction_bits) |
		(dtype == WEIR_DTYPE_BF16 ? 0 : 1u << 22);
}

uint16_t
verify_round(enum weir_dtype dtype, uint32_t fp32)
{
	const struct weir_float f = weir_dtype_float(dtype);
	int fraction_bits = (int)f.fraction_bits, bias = (1 << (f.exponent_bits - 1)) - 1, exponent;
	uint64_t sign = (uint64_t)fp32 >> 31 << (f.exponent_bits + f.fraction_bits);
	double size = fabs(verify_value(WEIR_DTYPE_FP32, fp32)), magnitude;

	if (isnan(size))
		return (uint16_t)(sign | f.infinity | UINT64_C(1) << (fraction_bits - 1) |
			(fp32 & 0x7fffff) >> (23 - fraction_bits));
	if (isinf(size) || !(size > 0))
		return (uint16_t)(sign | (size > 0 ? f.infinity : 0));
	(void)frexp(size, &exponent);
	exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
	/* The nearest multiple of a step; its leading bit counts in the exponent. */
	magnitude = nearbyint(ldexp(size, fraction_bits - exponent)) +
		ldexp(exponent + bias - 1, fraction_bits);
	return (uint16_t)(sign |
		(magnitude < (double)f.infinity ? (uint64_t)magnitude : f.infinity));
}

/* fp32 or fp64: a OP b, as rmw/kernels.h promises it. */
static uint64_t
float_op(enum weir_dtype dtype, enum weir_op op, uint64_t a, uint64_t b)
{
	const struct weir_float f = weir_dtype_float(dtype);
	uint64_t quiet = UINT64_C(1) << (f.fraction_bits - 1);
	double x = verify_value(dtype, a), y = verify_value(dtype, b), wide;
	float single;

	if (isnan(x))
		return a | quiet;
	if (isnan(y))
		return b | quiet;
	single = op == WEIR_OP_PROD ? (float)x * (float)y : (float)x + (float)y;
	wide = op == WEIR_OP_PROD ? x * y : x + y;
	if (dtype == WEIR_DTYPE_FP32)
		wide = (double)single;
	if (isnan(wide))
		return f.nan | UINT64_C(1) << (f.exponent_bits + f.fraction_bits);
	return verify_bits(dtype, (long double)wide);
}

/* The minimum and the maximum of IEEE 754-2019: -0 < +0, and a NaN is the canonical one. */
static uint64_t
extreme(enum weir_dtype dtype, enum weir_op op, uint64_t a, uint64_t b)
{
	double x = verify_value(dtype, a), y = verify_value(dtype, b);
	bool less = x < y || (x <= y && signbit(x) != 0);

	if (isnan(x) || isnan(y))
		return weir_dtype_float(dtype).nan;
	return less == (op == WEIR_OP_MIN) ? a : b;
}

uint64_t
verify_average(enum weir_dtype dtype, uint64_t sum, unsigned int count)
{
	enum weir_dtype wide = is_narrow(dtype) ? WEIR_DTYPE_FP32 : dtype;
	double x;

	if (!weir_dtype_is_float(dtype)) {
		if (weir_dtype_bytes(dtype) < 4)
			wide = is_signed(dtype) ? WEIR_DTYPE_INT32 : WEIR_DTYPE_UINT32;
		sum = extended(wide, sum);
		return cut(dtype,
			is_signed(dtype) ? (uint64_t)((int64_t)sum / (int64_t)count) : sum / count);
	}
	x = verify_value(wide, sum);
	if (isnan(x))
		sum |= UINT64_C(1) << (weir_dtype_float(wide).fraction_bits - 1);
	else /* fp32: a quotient that fp64 has rounded is rounded once more, which changes nothing */
		sum = verify_bits(wide, (long double)(x / count));
	return wide != dtype ? verify_round(dtype, (uint32_t)sum) : sum;
}

static uint64_t
float_reduction(enum weir_dtype dtype, enum weir_op op, const uint64_t *x, unsigned int count)
{
	bool extremes = op == WEIR_OP_MIN || op == WEIR_OP_MAX,
	     widened = is_narrow(dtype) && !extremes;
	enum weir_dtype wide = widened ? WEIR_DTYPE_FP32 : dtype;
	uint64_t acc = widened ? verify_widen(dtype, (uint16_t)x[0]) : x[0];

	if (extremes)
		acc = extreme(dtype, op, acc, acc);
	for (unsigned int i = 1; i < count; i++)
		acc = extremes ? extreme(dtype, op, acc, x[i])
			       : float_op(wide, op, acc,
					 widened ? verify_widen(dtype, (uint16_t)x[i]) : x[i]);
	if (op == WEIR_OP_AVG)
		return verify_average(dtype, acc, count);
	return widened ? verify_round(dtype, (uint32_t)acc) : acc;
}

uint64_t
verify_reduce(enum weir_dtype dtype, enum weir_op op, const uint64_t *x, unsigned int count)
{
	return weir_dtype_is_float(dtype) ? float_reduction(dtype, op, x, count)
					  : integer_reduction(dtype, op, x, count);
}
