/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exact accumulator of fp32 numbers: a fixed-point number as wide as their range, in limbs that carry
 * into each other only when the result is wanted (R. M. Neal, "Fast exact summation using small and large
 * superaccumulators", 2015). Its sum is the same in every order, and rounded once. A candidate that
 * weir-bench order measures, for finite numbers alone.
 */
#ifndef APPS_BENCH_EXACT_H
#define APPS_BENCH_EXACT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 32 bits each of a number whose last bit is 2^-149; above them room for 2^31 additions. The highest bit
 * of fp32 is 2^127, and 256 numbers carry 8 bits beyond: 285 bits. */
#define EXACT_LIMBS 9

struct exact {
	int64_t limb[EXACT_LIMBS];
};

static inline void
exact_add(struct exact *sum, uint32_t bits)
{
	uint32_t exponent = bits >> 23 & 0xff;
	uint64_t mantissa = (bits & 0x7fffff) | (uint32_t)(exponent != 0) << 23;
	uint32_t at = exponent - (exponent != 0);
	uint64_t shifted = mantissa << (at & 31);
	int64_t sign = -(int64_t)(bits >> 31);

	sum->limb[at >> 5] += ((int64_t)(shifted & UINT32_MAX) ^ sign) - sign;
	sum->limb[(at >> 5) + 1] += ((int64_t)(shifted >> 32) ^ sign) - sign;
}

static inline void
exact_carry(struct exact *sum)
{
	for (unsigned int i = 0; i + 1 < EXACT_LIMBS; i++) {
		sum->limb[i + 1] += sum->limb[i] >> 32;
		sum->limb[i] &= UINT32_MAX;
	}
}

/* The sum, rounded once, to nearest, ties to even. Spoils it. */
static inline float
exact_result(struct exact *sum)
{
	unsigned int top = EXACT_LIMBS - 1, bits, drop;
	uint64_t word, rest = 0;
	int negative;

	exact_carry(sum);
	negative = sum->limb[top] < 0;
	if (negative) {
		for (unsigned int i = 0; i < EXACT_LIMBS; i++)
			sum->limb[i] = -sum->limb[i];
		exact_carry(sum);
	}
	while (top > 0 && sum->limb[top] == 0)
		top--;
	if (top == 0) {
		float small = ldexpf((float)sum->limb[0], -149);

		return negative ? -small : small;
	}
	/* Two limbs have the 24 bits that count, the next one, and more; of all others matters whether
	 * they are 0. */
	word = (uint64_t)sum->limb[top] << 32 | (uint64_t)sum->limb[top - 1];
	for (unsigned int i = 0; i + 1 < top; i++)
		rest |= (uint64_t)sum->limb[i];
	bits = 64 - (unsigned int)__builtin_clzll(word);
	drop = bits - 24;
	rest |= word & ((UINT64_C(1) << drop >> 1) - 1);
	word = (word >> drop) + ((word >> (drop - 1) & 1) & ((rest != 0) | (word >> drop & 1)));
	return ldexpf(negative ? -(float)word : (float)word, (int)(32 * (top - 1) + drop) - 149);
}

#endif
