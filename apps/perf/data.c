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

bool
perf_data_reduces(unsigned int dtype, unsigned int op)
{
	if (dtype > WEIR_DTYPE_FP64 || op > WEIR_OP_LXOR)
		return false;
	return dtype < WEIR_DTYPE_FP16 || op <= WEIR_OP_AVG;
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

/* The bits of a number that is 0, or normal in the type, and exact: those of its fp64, shifted. */
static inline uint16_t
half_bits(double value, unsigned int exponent_bits, unsigned int fraction_bits)
{
	uint64_t bits, exponent, bias = (1u << (exponent_bits - 1)) - 1;

	memcpy(&bits, &value, sizeof(bits));
	exponent = (bits >> 52 & 0x7ff) - 1023 + bias;
	if (value == 0)
		exponent = 0;
	return (uint16_t)(bits >> 63 << 15 | exponent << fraction_bits |
		(bits >> (52 - fraction_bits) & ((1u << fraction_bits) - 1)));
}

/* Does the minimum or maximum have a value here that is not like the others? */
static inline bool
is_special(const struct perf_data *data, uint64_t x)
{
	return (data->op == WEIR_OP_MIN || data->op == WEIR_OP_MAX) && mix(~x) % 64 == 0;
}

static inline double
special(uint64_t x)
{
	static const double values[4] = {0.0, -0.0, NAN, -NAN};

	return values[x % 4];
}

static inline double
value_of(const struct perf_data *data, uint64_t x, int digits)
{
	return is_special(data, x) ? special(x) : real(data->op, x, digits);
}

static inline uint16_t
fp16_of(const struct perf_data *data, uint64_t x)
{
	double value = value_of(data, x, 10);

	return isnan(value) ? (uint16_t)(0x7c01 | x >> 48) : half_bits(value, 5, 10);
}

static inline uint16_t
bf16_of(const struct perf_data *data, uint64_t x)
{
	double value = value_of(data, x, 7);

	return isnan(value) ? (uint16_t)(0x7f81 | x >> 48) : half_bits(value, 8, 7);
}

/* fp32 rounds 31 digits to its 24 bits, so that no sum of them is exact; a product's are exact. */
static inline float
fp32_of(const struct perf_data *data, uint64_t x)
{
	return (float)value_of(data, x, data->op == WEIR_OP_PROD ? 23 : 31);
}

void
perf_data_fill(const struct perf_data *data, unsigned int rank, uint64_t iteration, size_t first,
	size_t count, void *to)
{
	uint64_t start = stream(data, rank, iteration) + first * GOLDEN;

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
	case WEIR_DTYPE_FP16: FILL(uint16_t, fp16_of(data, x)); break;
	case WEIR_DTYPE_BF16: FILL(uint16_t, bf16_of(data, x)); break;
	case WEIR_DTYPE_FP32: FILL(float, fp32_of(data, x)); break;
	case WEIR_DTYPE_FP64: FILL(double, value_of(data, x, 52)); break;
	default: break;
	}
#undef FILL
}
