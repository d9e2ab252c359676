/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Templates of the scalar kernels: loops over elements of any alignment (memcpy), one contribution
 * after the other. In the expressions `a` is the element of acc and `b` that of a source.
 */
#ifndef RMW_KERNELS_SCALAR_H
#define RMW_KERNELS_SCALAR_H

#include <string.h>

#include "rmw/kernels_priv.h"

#define RMW_VARIANT scalar

/*
 * A pair of functions, name##_begin and name. acc of acc_type, sources of src_type. first: what
 * becomes of `b` in begin; expression: the new `a`.
 */
#define RMW_SCALAR_REDUCE(name, acc_type, src_type, first, expression)                             \
	static inline void name##_one(                                                             \
		uint8_t *restrict to, const uint8_t *restrict from, size_t n, bool begin)          \
	{                                                                                          \
		for (size_t i = 0; i < n; i++) {                                                   \
			acc_type a = 0;                                                            \
			src_type b;                                                                \
                                                                                                   \
			if (!begin)                                                                \
				memcpy(&a, to + i * sizeof(a), sizeof(a));                         \
			memcpy(&b, from + i * sizeof(b), sizeof(b));                               \
			a = begin ? (acc_type)(first) : (acc_type)(expression);                    \
			memcpy(to + i * sizeof(a), &a, sizeof(a));                                 \
		}                                                                                  \
	}                                                                                          \
	static void name(                                                                          \
		void *restrict acc, const void *const src[], unsigned int n_src, size_t n)         \
	{                                                                                          \
		for (unsigned int s = 0; s < n_src; s++)                                           \
			name##_one(acc, src[s], n, false);                                         \
	}                                                                                          \
	static void name##_begin(                                                                  \
		void *restrict acc, const void *const src[], unsigned int n_src, size_t n)         \
	{                                                                                          \
		name##_one(acc, src[0], n, true);                                                  \
		name(acc, src + 1, n_src - 1, n);                                                  \
	}

/* In place, in ascending order: a result is never wider than its accumulator. */
#define RMW_SCALAR_FINISH(name, acc_type, result_type, expression)                                 \
	static void name(void *acc, size_t n, unsigned int count)                                  \
	{                                                                                          \
		uint8_t *to = acc;                                                                 \
                                                                                                   \
		(void)count;                                                                       \
		for (size_t i = 0; i < n; i++) {                                                   \
			acc_type a;                                                                \
			result_type result;                                                        \
                                                                                                   \
			memcpy(&a, to + i * sizeof(a), sizeof(a));                                 \
			result = (result_type)(expression);                                        \
			memcpy(to + i * sizeof(result), &result, sizeof(result));                  \
		}                                                                                  \
	}

/*
 * a OP b; if both are NaN, the result is a's. As asm, because compilers may swap the operands of a
 * + b and of _mm_add_ss(a, b).
 */
#if defined(__SSE2__)
#define RMW_SCALAR_FIRST_NAN(name, type, instruction, operator)                                    \
	static inline type name(type a, type b)                                                    \
	{                                                                                          \
		__asm__(instruction " %1, %0" : "+x"(a) : "x"(b));                                 \
		return a;                                                                          \
	}
#else /* NaN as this machine has it */
#define RMW_SCALAR_FIRST_NAN(name, type, instruction, operator)                                    \
	static inline type name(type a, type b)                                                    \
	{                                                                                          \
		return a operator b;                                                               \
	}
#endif

/*
 * minimum and maximum of IEEE 754-2019, on integers: with the bits below the sign flipped in
 * negative numbers, the bits of all numbers are ordered as integers, -0 just below 0. infinity,
 * nan: the bits of +infinity and of the canonical quiet NaN.
 */
#define RMW_SCALAR_MINIMUM(type, bits, infinity, nan)                                              \
	static inline int##bits##_t key_##type(uint##bits##_t x)                                   \
	{                                                                                          \
		return (int##bits##_t)(x >> (bits - 1) ? x ^ (UINT##bits##_MAX >> 1) : x);         \
	}                                                                                          \
                                                                                                   \
	static inline uint##bits##_t minimum_##type(uint##bits##_t a, uint##bits##_t b, bool max)  \
	{                                                                                          \
		uint##bits##_t mask = UINT##bits##_MAX >> 1;                                       \
                                                                                                   \
		if ((a & mask) > (infinity) || (b & mask) > (infinity))                            \
			return nan;                                                                \
		return (key_##type(a) < key_##type(b)) != max ? a : b;                             \
	}                                                                                          \
                                                                                                   \
	RMW_SCALAR_REDUCE(min_##type, uint##bits##_t, uint##bits##_t, minimum_##type(b, b, false), \
		minimum_##type(a, b, false))                                                       \
	RMW_SCALAR_REDUCE(max_##type, uint##bits##_t, uint##bits##_t, minimum_##type(b, b, true),  \
		minimum_##type(a, b, true))

#endif
