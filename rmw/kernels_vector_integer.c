/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector kernels of the integer types, and the copy. */
#include "rmw/kernels_vector.h"

/* The logical operations: accumulators and results are 0 or 1. */
#define LOGICAL(bits)                                                                              \
	static inline vector to_bool##bits(vector x)                                               \
	{                                                                                          \
		return v_min_u##bits(x, v_set##bits(1));                                           \
	}                                                                                          \
	static inline vector lor_op##bits(vector a, vector b)                                      \
	{                                                                                          \
		return to_bool##bits(v_or(a, b));                                                  \
	}                                                                                          \
	static inline vector lxor_op##bits(vector a, vector b)                                     \
	{                                                                                          \
		return v_xor(a, to_bool##bits(b));                                                 \
	}                                                                                          \
	V_REDUCE(land##bits, bits, to_bool##bits, v_min_u##bits)                                   \
	V_REDUCE(lor##bits, bits, to_bool##bits, lor_op##bits)                                     \
	V_REDUCE(lxor##bits, bits, to_bool##bits, lxor_op##bits)

#define INTEGER(bits)                                                                              \
	LOGICAL(bits)                                                                              \
	V_REDUCE(sum##bits, bits, v_same, v_add##bits)                                             \
	V_REDUCE(prod##bits, bits, v_same, v_multiply##bits)                                       \
	V_REDUCE(band##bits, bits, v_same, v_and)                                                  \
	V_REDUCE(bor##bits, bits, v_same, v_or)                                                    \
	V_REDUCE(bxor##bits, bits, v_same, v_xor)                                                  \
	V_REDUCE(min_s##bits, bits, v_same, v_min_s##bits)                                         \
	V_REDUCE(max_s##bits, bits, v_same, v_max_s##bits)                                         \
	V_REDUCE(min_u##bits, bits, v_same, v_min_u##bits)                                         \
	V_REDUCE(max_u##bits, bits, v_same, v_max_u##bits)

INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)

/* trunc(x / divisor), the divisor in fp32. |x| <= 256 * 65535 < 2^24, so a quotient that is no
 * integer is at least 1/256 from the next one, which is more than its rounding error. */
static inline vector
divide_small(vector x, vector divisor)
{
	return v_f32_to_s32(v_divide_f32(v_s32_to_f32(x), divisor));
}

#define WIDE_AVERAGE(name, size, store)                                                            \
	V_REDUCE_WIDE(sum_wide_##name, size, v_widen_##name, v_widen_##name, v_add32)              \
	static void average_##name(void *acc, size_t n, unsigned int count)                        \
	{                                                                                          \
		v_narrow(acc, n, size, v_set_f32((float)count), divide_small, store);              \
	}

WIDE_AVERAGE(s8, 1, v_store_low8)
WIDE_AVERAGE(u8, 1, v_store_low8)
WIDE_AVERAGE(s16, 2, v_store_low16)
WIDE_AVERAGE(u16, 2, v_store_low16)

/*
 * Division of 64 bits in two digits of 32. The second dividend is r * 2^32 + low, where r < count
 * is the remainder of high / count, so it is below 2^40.
 */
static inline vector
divide_u64(vector x, vector divisor)
{
	vector high = v_right64(x, 32);
	vector quotient = v_divide_u40(high, divisor);
	vector rest = v_sub64(high, v_multiply_low32(quotient, v_f64_to_u32(divisor)));
	vector low = v_xor(x, v_left64(high, 32));

	return v_or(v_left64(quotient, 32), v_divide_u40(v_or(v_left64(rest, 32), low), divisor));
}

/* Divides the magnitude. */
static inline vector
divide_s64(vector x, vector divisor)
{
	vector sign = v_negative64(x);
	vector magnitude = v_sub64(v_xor(x, sign), sign);

	return v_sub64(v_xor(divide_u64(magnitude, divisor), sign), sign);
}

#define LONG_AVERAGE(name, bits, op)                                                               \
	static void average_##name(void *acc, size_t n, unsigned int count)                        \
	{                                                                                          \
		v_finish(acc, n *(bits / 8), v_set_f64((double)count), op);                        \
	}

LONG_AVERAGE(s32, 32, v_divide_s32)
LONG_AVERAGE(u32, 32, v_divide_u32)
LONG_AVERAGE(s64, 64, divide_s64)
LONG_AVERAGE(u64, 64, divide_u64)

const rmw_row RMW_ROW(INT8) = {RMW_SHORT_OPS(s, 8)};
const rmw_row RMW_ROW(UINT8) = {RMW_SHORT_OPS(u, 8)};
const rmw_row RMW_ROW(INT16) = {RMW_SHORT_OPS(s, 16)};
const rmw_row RMW_ROW(UINT16) = {RMW_SHORT_OPS(u, 16)};
const rmw_row RMW_ROW(INT32) = {RMW_LONG_OPS(s, 32)};
const rmw_row RMW_ROW(UINT32) = {RMW_LONG_OPS(u, 32)};
const rmw_row RMW_ROW(INT64) = {RMW_LONG_OPS(s, 64)};
const rmw_row RMW_ROW(UINT64) = {RMW_LONG_OPS(u, 64)};

void
RMW_ROW(copy)(void *restrict to, const void *restrict from, size_t bytes)
{
	sum8_begin(to, (const void *[]){from}, 1, bytes);
}
