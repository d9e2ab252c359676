/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/perf/data.h"

#include <math.h>
#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The start of a rank's stream of one iteration: element i is mix(start + i * GOLDEN). */
static uint64_t
stream(const struct perf_data *data, unsigned int rank, uint64_t iteration)
{
	return mix(mix(mix(data->seed + GOLDEN) + rank * GOLDEN + 1) + iteration * GOLDEN);
}

/* An integer's 64 bits, of which the type's low ones are used. */
static inline uint64_t
integer(enum weir_op op, uint64_t x)
{
	uint64_t y = mix(x);

	switch (op) {
	case WEIR_OP_PROD: return x | 1;
	case WEIR_OP_BAND: return x | y;
	case WEIR_OP_BOR: return x & y;
	case WEIR_OP_LAND: return y % 8 != 0 ? x : 0;
	case WEIR_OP_LOR: return y % 8 == 0 ? x : 0;
	case WEIR_OP_LXOR: return y % 2 != 0 ? x : 0;
	case WEIR_OP_SUM:
	case WEIR_OP_MIN:
	case WEIR_OP_MAX:
	case WEIR_OP_AVG:
	case WEIR_OP_BXOR:
	default: return x;
	}
}

/*
 * A number of [-1, 1) in steps of 2^-digits; for a product instead +-(1 +- 1/4), in the same steps.
 * Both are exact in a type with digits + 1 bits of significand.
 */
static inline double
real(enum weir_op op, uint64_t x, int digits)
{
	double step = ldexp(1, -digits);
	int64_t whole = (int64_t)x >> (63 - digits);

	if (op != WEIR_OP_PROD)
		return (double)whole * step;
	whole >>= 2; /* a quarter of the range */
	return ((x & 1) != 0 ? -1 : 1) * (1 + (double)whole * step);
}

uint64_t
perf_float_bits(enum weir_dtype dtype, double value)
{
	const struct weir_float f = weir_dtype_float(dtype);
	uint64_t bits, exponent, bias = (1u << (f.exponent_bits - 1)) - 1;

	memcpy(&bits, &value, sizeof(bits));
	exponent = (bits >> 52 & 0x7ff) - 1023 + bias;
	if (value == 0)
		exponent = 0;
	return bits >> 63 << (f.exponent_bits + f.fraction_bits) | exponent << f.fraction_bits |
		(bits >> (52 - f.fraction_bits) & ((UINT64_C(1) << f.fraction_bits) - 1));
}

/* A number; for the minimum and the maximum sometimes one that is not like the others. */
static inline double
value_of(const struct perf_data *data, uint64_t x, int digits)
{
	static const double special[4] = {0.0, -0.0, NAN, -NAN};
	bool extreme = data->op == WEIR_OP_MIN || data->op == WEIR_OP_MAX;

	return extreme && mix(~x) % 64 == 0 ? special[x % 4] : real(data->op, x, digits);
}

/* The types of 8 and 16 bits. NaNs have any sign and fraction. */
static inline uint64_t
narrow_of(const struct perf_data *data, uint64_t x)
{
	const struct weir_float f = weir_dtype_float(data->dtype);
	double value = value_of(data, x, (int)f.fraction_bits);

	return isnan(value) ? f.infinity | 1 | x >> 48 : perf_float_bits(data->dtype, value);
}

void
perf_data_fill(const struct perf_data *data, unsigned int rank, uint64_t iteration, size_t first,
	size_t count, void *to)
{
	uint64_t start = stream(data, rank, iteration) + first * GOLDEN;
	/* fp32 rounds 31 digits to its 24 bits, so that no sum of them is exact; a product's are exact. */
	int fp32_digits = data->op == WEIR_OP_PROD ? 23 : 31;

#define FILL(type, expression)                                                                     \
	do {                                                                                       \
		type *const at = to;                                                               \
                                                                                                   \
		for (size_t i = 0; i < count; i++) {                                               \
			uint64_t x = mix(start + i * GOLDEN);                                      \
                                                                                                   \
			at[i] = (expression);                                                      \
		}                                                                                  \
	} while (0)

	switch (data->dtype) {
	case WEIR_DTYPE_INT8:
	case WEIR_DTYPE_UINT8: FILL(uint8_t, (uint8_t)integer(data->op, x)); break;
	case WEIR_DTYPE_INT16:
	case WEIR_DTYPE_UINT16: FILL(uint16_t, (uint16_t)integer(data->op, x)); break;
	case WEIR_DTYPE_INT32:
	case WEIR_DTYPE_UINT32: FILL(uint32_t, (uint32_t)integer(data->op, x)); break;
	case WEIR_DTYPE_INT64:
	case WEIR_DTYPE_UINT64: FILL(uint64_t, integer(data->op, x)); break;
	case WEIR_DTYPE_FP16:
	case WEIR_DTYPE_BF16: FILL(uint16_t, (uint16_t)narrow_of(data, x)); break;
	case WEIR_DTYPE_FP8_E4M3:
	case WEIR_DTYPE_FP8_E5M2: FILL(uint8_t, (uint8_t)narrow_of(data, x)); break;
	case WEIR_DTYPE_FP32: FILL(float, (float)value_of(data, x, fp32_digits)); break;
	case WEIR_DTYPE_FP64: FILL(double, value_of(data, x, 52)); break;
	default: break;
	}
#undef FILL
}
