/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "apps/verify/verify.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* An integer's 64 bits, of which the type's low ones are used. */
static inline uint64_t
integer(enum weir_op op, uint64_t x)
{
	uint64_t y = mix(x);

	switch ((int)op) {
	case WEIR_OP_PROD: return x | 1;
	case WEIR_OP_BAND: return x | y;
	case WEIR_OP_BOR: return x & y;
	case WEIR_OP_LAND: return y % 8 != 0 ? x : 0;
	case WEIR_OP_LOR: return y % 8 == 0 ? x : 0;
	case WEIR_OP_LXOR: return y % 2 != 0 ? x : 0;
	default: return x;
	}
}

/*
 * A number of [-1, 1) in steps of 2^-digits; for a product instead +-(1 +- 1/4), in the same steps. Both are exact in a type
 * with digits + 1 bits of significand. For the minimum and the maximum it is sometimes one that is not like the others.
 */
static inline double
real(enum weir_op op, uint64_t x, int digits)
{
	static const double special[4] = {0.0, -0.0, NAN, -NAN};
	double step = ldexp(1, -digits);
	int64_t whole = (int64_t)x >> (63 - digits);

	if ((op == WEIR_OP_MIN || op == WEIR_OP_MAX) && mix(~x) % 64 == 0)
		return special[x % 4];
	if (op != WEIR_OP_PROD)
		return (double)whole * step;
	whole >>= 2; /* a quarter of the range */
	return ((x & 1) != 0 ? -1 : 1) * (1 + (double)whole * step);
}

/* The types of 8 and 16 bits. NaNs have any sign and fraction. */
static inline uint64_t
narrow(enum weir_dtype dtype, enum weir_op op, uint64_t x)
{
	const struct weir_float f = weir_dtype_float(dtype);
	double value = real(op, x, (int)f.fraction_bits);

	return isnan(value) ? f.infinity | 1 | x >> 48 : verify_bits(dtype, (long double)value);
}

void
verify_fill(const struct verify *v, unsigned int rank, size_t first, size_t count, void *to)
{
	const enum weir_dtype dtype = v->call.dtype;
	const enum weir_op op = v->call.op;
	const bool is_float = weir_dtype_is_float(dtype) != 0;
	/* Element i of the rank's stream of the iteration is mix(at + i * GOLDEN). */
	uint64_t at = mix(mix(mix(v->seed + GOLDEN) + rank * GOLDEN + 1) + v->iteration * GOLDEN) +
		(v->first + first) * GOLDEN;
	/* fp32 rounds 31 digits to its 24 bits, so that no sum of them is exact; a product's are exact. */
	const int fp32_digits = op == WEIR_OP_PROD ? 23 : 31;

#define FILL(type, of_real)                                                                        \
	do {                                                                                       \
		type *const element = to;                                                          \
                                                                                                   \
		for (size_t i = 0; i < count; i++) {                                               \
			uint64_t x = mix(at + i * GOLDEN);                                         \
                                                                                                   \
			element[i] = (type)(is_float ? (of_real) : integer(op, x));                \
		}                                                                                  \
	} while (0)
#define FILL_REAL(type, digits)                                                                    \
	do {                                                                                       \
		type *const element = to;                                                          \
                                                                                                   \
		for (size_t i = 0; i < count; i++)                                                 \
			element[i] = (type)real(op, mix(at + i * GOLDEN), digits);                 \
	} while (0)

	switch (weir_dtype_bytes(dtype)) {
	case 1: FILL(uint8_t, narrow(dtype, op, x)); break;
	case 2: FILL(uint16_t, narrow(dtype, op, x)); break;
	case 4:
		if (is_float)
			FILL_REAL(float, fp32_digits);
		else
			FILL(uint32_t, 0);
		break;
	default:
		if (is_float)
			FILL_REAL(double, 52);
		else
			FILL(uint64_t, 0);
	}
#undef FILL
#undef FILL_REAL
}
