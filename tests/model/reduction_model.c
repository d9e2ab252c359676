/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/reduction_model.h"

#include <math.h>
#include <string.h>

#define FP64_NAN UINT64_C(0x7ff8000000000000)
#define FP64_INF UINT64_C(0x7ff0000000000000)

/* The types that are rounded from fp32. infinity: of e4m3, which has none, the place of its NaN. */
struct narrow {
	bool is;
	int bits, fraction_bits, bias;
	unsigned int infinity;
};

static struct narrow
narrow_of(enum weir_dtype type)
{
	static const struct narrow narrow[] = {
		[WEIR_DTYPE_FP16] = {true, 16, 10, 15, 0x7c00},
		[WEIR_DTYPE_BF16] = {true, 16, 7, 127, 0x7f80},
		[WEIR_DTYPE_FP8_E4M3] = {true, 8, 3, 7, 0x7f},
		[WEIR_DTYPE_FP8_E5M2] = {true, 8, 2, 15, 0x7c},
	};

	return narrow[type];
}

static bool
is_signed(enum weir_dtype type)
{
	return type == WEIR_DTYPE_INT8 || type == WEIR_DTYPE_INT16 || type == WEIR_DTYPE_INT32 ||
		type == WEIR_DTYPE_INT64;
}

bool
reduction_model_has(enum weir_dtype type, enum weir_op op)
{
	return (unsigned int)type < WEIR_DTYPES &&
		(unsigned int)op < (weir_dtype_is_float(type) != 0 ? WEIR_OP_AVG + 1 : WEIR_OPS);
}

/* Integers */

static uint64_t
wrap(uint64_t bits, unsigned int width)
{
	return width == 64 ? bits : bits & ((UINT64_C(1) << width) - 1);
}

static __int128
value_of(enum weir_dtype type, uint64_t bits, unsigned int width)
{
	__int128 value = wrap(bits, width);

	if (is_signed(type) && value >> (width - 1) != 0)
		value -= (__int128)1 << width;
	return value;
}

static __int128
integer_op(enum weir_op op, __int128 a, __int128 b)
{
	switch (op) {
	case WEIR_OP_SUM:
	case WEIR_OP_AVG: return a + b;
	/* Unsigned: what is beyond 128 bits is beyond the type, too. */
	case WEIR_OP_PROD: return (__int128)((unsigned __int128)a * (unsigned __int128)b);
	case WEIR_OP_MIN: return a < b ? a : b;
	case WEIR_OP_MAX: return a > b ? a : b;
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
integer_reduction(enum weir_dtype type, enum weir_op op, const uint64_t *x, unsigned int count)
{
	unsigned int bits = 8 * weir_dtype_bytes(type);
	unsigned int width = op == WEIR_OP_AVG && bits < 32 ? 32 : bits;
	bool logical = op >= WEIR_OP_LAND;
	__int128 acc = value_of(type, x[0], bits);

	if (logical)
		acc = acc != 0;
	for (unsigned int i = 1; i < count; i++)
		acc = value_of(
			type, (uint64_t)integer_op(op, acc, value_of(type, x[i], bits)), width);
	if (op == WEIR_OP_AVG)
		return reduction_model_average(type, (uint64_t)acc, count);
	return wrap((uint64_t)acc, bits);
}

/* Floating point */

static double
fp64_of(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static float
fp32_of(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float x;

	memcpy(&x, &low, sizeof(x));
	return x;
}

static uint64_t
bits_of(bool wide, __float128 x)
{
	double fp64 = (double)x;
	float fp32 = (float)x;
	uint64_t bits = 0;

	if (wide)
		memcpy(&bits, &fp64, sizeof(fp64));
	else
		memcpy(&bits, &fp32, sizeof(fp32));
	return bits;
}

static __float128
quad_of(bool wide, uint64_t bits)
{
	return wide ? (__float128)fp64_of(bits) : (__float128)fp32_of(bits);
}

static bool
is_nan(bool wide, uint64_t bits)
{
	return wide ? (bits & INT64_MAX) > FP64_INF : (bits & INT32_MAX) > 0x7f800000;
}

/* fp32 or fp64: a OP b, as kernels.h promises it. */
static uint64_t
float_op(bool wide, bool product, uint64_t a, uint64_t b)
{
	uint64_t quiet = wide ? UINT64_C(1) << 51 : 1 << 22;
	uint64_t invalid = wide ? ~(quiet - 1) : (uint32_t) ~(quiet - 1);
	__float128 x, y;

	if (is_nan(wide, a))
		return a | quiet;
	if (is_nan(wide, b))
		return b | quiet;
	x = quad_of(wide, a), y = quad_of(wide, b);
	if (product && ((isinf((double)x) && y == 0) || (x == 0 && isinf((double)y))))
		return invalid;
	if (!product && isinf((double)x) && isinf((double)y) && a != b)
		return invalid;
	return bits_of(wide, product ? x * y : x + y);
}

/* A number's place among those of its type, from the least one, -0 below 0. */
static __int128
rank_of(uint64_t bits, unsigned int width)
{
	__int128 sign = (__int128)1 << (width - 1);

	return bits < (uint64_t)sign ? (__int128)bits : sign - 1 - (__int128)bits;
}

static uint64_t
extreme(enum weir_dtype type, bool max, uint64_t a, uint64_t b)
{
	static const uint64_t infinity[] = {0x7c00, 0x7f80, 0x7f800000, FP64_INF, 0x7e, 0x7c};
	static const uint64_t nan[] = {0x7e00, 0x7fc0, 0x7fc00000, FP64_NAN, 0x7f, 0x7e};
	unsigned int t = type - WEIR_DTYPE_FP16, width = 8 * weir_dtype_bytes(type);
	uint64_t magnitude = (UINT64_C(1) << (width - 1)) - 1;

	if ((a & magnitude) > infinity[t] || (b & magnitude) > infinity[t])
		return nan[t];
	return (rank_of(a, width) > rank_of(b, width)) == max ? a : b;
}

/* A magnitude of a narrow type; what follows the last number has the bits of infinity, or of e4m3's NaN. */
static double
half_value(enum weir_dtype type, unsigned int bits)
{
	int fraction_bits = narrow_of(type).fraction_bits, bias = narrow_of(type).bias;
	int exponent = (int)(bits >> fraction_bits);
	int fraction = (int)bits & ((1 << fraction_bits) - 1);

	if (exponent == 0)
		return ldexp(fraction, 1 - bias - fraction_bits);
	return ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

uint32_t
reduction_model_widen(enum weir_dtype type, uint16_t half)
{
	unsigned int top = 1u << (narrow_of(type).bits - 1);
	uint32_t sign = half & top ? UINT32_C(1) << 31 : 0, magnitude = half & (top - 1);

	if (type == WEIR_DTYPE_FP16 && magnitude > 0x7c00)
		return sign | 0x7fc00000 | (magnitude & 0x1ff) << 13;
	if (type == WEIR_DTYPE_BF16 && magnitude > 0x7f80)
		return sign | magnitude << 16;
	if (type == WEIR_DTYPE_FP8_E4M3 && magnitude == 0x7f)
		return sign | 0x7ff00000;
	if (type == WEIR_DTYPE_FP8_E5M2 && magnitude > 0x7c)
		return sign | 0x7fc00000 | (magnitude & 1) << 21;
	if (magnitude == narrow_of(type).infinity)
		return sign | 0x7f800000;
	return sign | (uint32_t)bits_of(false, half_value(type, magnitude));
}

uint16_t
reduction_model_round(enum weir_dtype type, uint32_t fp32)
{
	unsigned int infinity = narrow_of(type).infinity, below = 0, above;
	unsigned int sign = fp32 >> 31 << (narrow_of(type).bits - 1);
	double x = fabs((double)fp32_of(fp32)), down, up;

	if (is_nan(false, fp32) && type == WEIR_DTYPE_FP16)
		return (uint16_t)(sign | 0x7e00 | (fp32 >> 13 & 0x1ff));
	if (is_nan(false, fp32) && type == WEIR_DTYPE_FP8_E4M3)
		return (uint16_t)(sign | 0x7f);
	if (is_nan(false, fp32) && type == WEIR_DTYPE_FP8_E5M2)
		return (uint16_t)(sign | 0x7e | (fp32 >> 21 & 1));
	if (is_nan(false, fp32))
		return (uint16_t)(fp32 >> 16 | 0x40);
	if (x >= half_value(type, infinity))
		return (uint16_t)(sign | infinity);
	above = infinity;
	while (above - below > 1) {
		unsigned int middle = (below + above) / 2;

		if (half_value(type, middle) <= x)
			below = middle;
		else
			above = middle;
	}
	down = x - half_value(type, below), up = half_value(type, above) - x;
	if (down < up || (down == up && below % 2 == 0))
		return (uint16_t)(sign | below);
	return (uint16_t)(sign | above);
}

uint64_t
reduction_model_average(enum weir_dtype type, uint64_t sum, unsigned int count)
{
	unsigned int bits = 8 * weir_dtype_bytes(type);
	bool wide = type == WEIR_DTYPE_FP64;
	uint64_t quotient;

	if (weir_dtype_is_float(type) == 0)
		return wrap(
			(uint64_t)(value_of(type, sum, bits < 32 ? 32 : bits) / (int)count), bits);
	if (is_nan(wide, sum))
		quotient = sum | (wide ? UINT64_C(1) << 51 : 1 << 22);
	else
		quotient = bits_of(wide, quad_of(wide, sum) / count);
	return narrow_of(type).is ? reduction_model_round(type, (uint32_t)quotient) : quotient;
}

static uint64_t
float_reduction(enum weir_dtype type, enum weir_op op, const uint64_t *x, unsigned int count)
{
	bool extremes = op == WEIR_OP_MIN || op == WEIR_OP_MAX;
	bool widened = narrow_of(type).is && !extremes;
	uint64_t acc = widened ? reduction_model_widen(type, (uint16_t)x[0]) : x[0];

	if (extremes) /* one is canonical too */
		acc = extreme(type, op == WEIR_OP_MAX, acc, acc);
	for (unsigned int i = 1; i < count; i++) {
		if (extremes)
			acc = extreme(type, op == WEIR_OP_MAX, acc, x[i]);
		else
			acc = float_op(type == WEIR_DTYPE_FP64, op == WEIR_OP_PROD, acc,
				widened ? reduction_model_widen(type, (uint16_t)x[i]) : x[i]);
	}
	if (op == WEIR_OP_AVG)
		return reduction_model_average(type, acc, count);
	return widened ? reduction_model_round(type, (uint32_t)acc) : acc;
}

uint64_t
reduction_model(enum weir_dtype type, enum weir_op op, const uint64_t *x, unsigned int count)
{
	return weir_dtype_is_float(type) != 0 ? float_reduction(type, op, x, count)
					      : integer_reduction(type, op, x, count);
}
