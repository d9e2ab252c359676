/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/reduce.h"

#include <math.h>
#include <string.h>

bool
reduce_served(unsigned int dtype, unsigned int op)
{
	return dtype < WEIR_DTYPES &&
		op < (weir_dtype_is_float(dtype) != 0 ? WEIR_OP_AVG + 1 : WEIR_OPS);
}

static uint64_t
bits_at(const uint8_t *payload, unsigned int element, unsigned int size)
{
	uint64_t bits = 0;

	memcpy(&bits, payload + element * size, size);
	return bits;
}

/* ---- integers ---- */

static bool
is_signed(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_INT8 || dtype == WEIR_DTYPE_INT16 || dtype == WEIR_DTYPE_INT32 ||
		dtype == WEIR_DTYPE_INT64;
}

/* The lowest so many bytes, as a number of 64 bits. */
static uint64_t
wrap(uint64_t value, unsigned int size, bool sign)
{
	unsigned int unused = 64 - 8 * size;

	return sign ? (uint64_t)((int64_t)(value << unused) >> unused) : value << unused >> unused;
}

static uint64_t
combine(enum weir_op op, bool sign, uint64_t a, uint64_t b)
{
	bool less = sign ? (int64_t)a < (int64_t)b : a < b;

	switch (op) {
	case WEIR_OP_PROD: return a * b;
	case WEIR_OP_MIN: return less ? a : b;
	case WEIR_OP_MAX: return less ? b : a;
	case WEIR_OP_BAND: return a & b;
	case WEIR_OP_BOR: return a | b;
	case WEIR_OP_BXOR: return a ^ b;
	case WEIR_OP_LAND: return a && b;
	case WEIR_OP_LOR: return a || b;
	case WEIR_OP_LXOR: return !a != !b;
	case WEIR_OP_SUM:
	case WEIR_OP_AVG:
	default: return a + b;
	}
}

static uint64_t
reduce_integer(enum weir_dtype dtype, enum weir_op op, const uint8_t *const *from, unsigned int n,
	unsigned int element)
{
	unsigned int size = weir_dtype_bytes(dtype);
	/* An average is accumulated in 32 bits at least. */
	unsigned int wide = op == WEIR_OP_AVG && size < 4 ? 4 : size;
	bool sign = is_signed(dtype);
	uint64_t result = wrap(bits_at(from[0], element, size), size, sign);

	if (op >= WEIR_OP_LAND)
		result = result != 0;
	for (unsigned int i = 1; i < n; i++)
		result = wrap(combine(op, sign, result,
				      wrap(bits_at(from[i], element, size), size, sign)),
			wide, sign);
	if (op != WEIR_OP_AVG)
		return result;
	return sign ? (uint64_t)((int64_t)result / (int64_t)n) : result / n;
}

/* ---- floating point ---- */

/* A type of 8 or 16 bits: exponent bits, fraction bits, and whether it has infinities. */
struct half {
	int exponent, fraction;
	bool infinite;
};

static struct half
half_of(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_FP16        ? (struct half){5, 10, true}
		: dtype == WEIR_DTYPE_BF16     ? (struct half){8, 7, true}
		: dtype == WEIR_DTYPE_FP8_E5M2 ? (struct half){5, 2, true}
					       : (struct half){4, 3, false};
}

static float
half_value(struct half h, uint64_t bits)
{
	int all = (1 << h.exponent) - 1, bias = all / 2;
	int exponent = (int)(bits >> h.fraction) & all;
	int fraction = (int)bits & ((1 << h.fraction) - 1);
	double value;

	if (exponent == all && (h.infinite || fraction == 7))
		value = fraction != 0 ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		value = ldexp(fraction, 1 - bias - h.fraction);
	else
		value = ldexp(fraction + (1 << h.fraction), exponent - bias - h.fraction);
	return (float)((bits >> (h.exponent + h.fraction) & 1) != 0 ? -value : value);
}

/* Rounded to the nearest one, ties to even. */
static uint64_t
half_bits(struct half h, float value)
{
	int all = (1 << h.exponent) - 1, bias = all / 2, exponent = 0;
	uint64_t sign =
		(uint64_t)signbit(value) != 0 ? UINT64_C(1) << (h.exponent + h.fraction) : 0;
	double size = fabs((double)value), steps;

	/* The only NaN of a type without infinities, which has all bits set, is also all that is too large. */
	if (!h.infinite && (isnan(value) || isinf(value)))
		return isnan(value) ? 0x7f : sign | 0x7f;
	if (isnan(value))
		return (uint64_t)all << h.fraction | UINT64_C(1) << (h.fraction - 1);
	if (isinf(value))
		return sign | (uint64_t)all << h.fraction;
	if (size != 0) {
		(void)frexp(size, &exponent);
		exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
		steps = nearbyint(ldexp(size, h.fraction - exponent));
		/* With its leading bit, which counts in the exponent. */
		size = steps + ldexp(exponent + bias - 1, h.fraction);
	}
	if (size >= ldexp(all, h.fraction) + (h.infinite ? 0 : 7))
		size = ldexp(all, h.fraction) + (h.infinite ? 0 : 7);
	return sign | (uint64_t)size;
}

/* The first contribution to a minimum or maximum, too, has the one NaN. */
#define REDUCE(type, op, at)                                                                       \
	do {                                                                                       \
		type result = at(0);                                                               \
                                                                                                   \
		/* A NaN is the canonical one also when it is alone. */                            \
		if (((op) == WEIR_OP_MIN || (op) == WEIR_OP_MAX) && isnan(result))                 \
			result = (type)NAN;                                                        \
                                                                                                   \
		for (unsigned int i = 1; i < n; i++) {                                             \
			type next = at(i);                                                         \
                                                                                                   \
			result = (op) == WEIR_OP_PROD ? result * next                              \
				: (op) == WEIR_OP_MIN ? (type)least((double)result, (double)next)  \
				: (op) == WEIR_OP_MAX ? (type)most((double)result, (double)next)   \
						      : result + next;                             \
		}                                                                                  \
		return (op) == WEIR_OP_AVG ? result / (type)n : result;                            \
	} while (0)

/* IEEE 754-2019, minimum and maximum. */
static double
least(double a, double b)
{
	if (isnan(a) || isnan(b))
		return (double)NAN;
	if (a == b)
		return signbit(a) ? a : b;
	return a < b ? a : b;
}

static double
most(double a, double b)
{
	if (isnan(a) || isnan(b))
		return (double)NAN;
	return -least(-a, -b);
}

static float
reduce_single(enum weir_dtype dtype, enum weir_op op, const uint8_t *const *from, unsigned int n,
	unsigned int element)
{
	float value[256] = {0};

	for (unsigned int i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)bits_at(from[i], element, weir_dtype_bytes(dtype));

		memcpy(&value[i], &bits, 4);
		if (dtype != WEIR_DTYPE_FP32)
			value[i] = half_value(half_of(dtype), bits);
	}
#define AT(i) value[i]
	REDUCE(float, op, AT);
}

static double
reduce_double(enum weir_op op, const uint8_t *const *from, unsigned int n, unsigned int element)
{
	double value[256] = {0};

	for (unsigned int i = 0; i < n; i++)
		memcpy(&value[i], from[i] + element * 8, 8);
	REDUCE(double, op, AT);
}

void
reduce_element(enum weir_dtype dtype, enum weir_op op, const uint8_t *const *from, unsigned int n,
	unsigned int element, uint8_t *result)
{
	unsigned int size = weir_dtype_bytes(dtype);
	uint64_t bits = 0;
	double wide;
	float single;

	if (weir_dtype_is_float(dtype) == 0) {
		bits = reduce_integer(dtype, op, from, n, element);
	} else if (dtype == WEIR_DTYPE_FP64) {
		wide = reduce_double(op, from, n, element);
		memcpy(&bits, &wide, 8);
	} else {
		single = reduce_single(dtype, op, from, n, element);
		if (dtype == WEIR_DTYPE_FP32)
			memcpy(&bits, &single, 4);
		else
			bits = half_bits(half_of(dtype), single);
	}
	memcpy(result + element * size, &bits, size);
}
