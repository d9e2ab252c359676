/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector kernels of fp16, bf16 and fp8. */
#include "rmw/kernels_vector.h"

static inline vector
v_widen_bf16(const uint8_t *p, size_t n)
{
	return v_left32(v_widen_u16(p, n), 16);
}

/* Rounds to nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static inline void
v_store_bf16(uint8_t *p, vector x, size_t n)
{
	vector upper = v_right32(x, 16);
	vector odd = v_and(upper, v_set32(1));
	vector rounded = v_right32(v_add32(x, v_add32(odd, v_set32(0x7fff))), 16);

	v_store_low16(p, v_choose_nan_f32(x, v_or(upper, v_set32(0x40)), rounded), n);
}

/*
 * fp8 is converted through fp16, whose conversions handle denormals at full speed. e5m2 is fp16's
 * upper byte. The bits of e4m3 in fp16's places mean its value / 2^8; its NaN gives 480 and is
 * handled separately.
 */
static inline vector
v_widen_fp8_e5m2(const uint8_t *p, size_t n)
{
	return v_fp16_to_f32(v_left32(v_widen_u8(p, n), 8));
}

static inline vector
v_widen_fp8_e4m3(const uint8_t *p, size_t n)
{
	vector x = v_widen_u8(p, n), magnitude = v_and(x, v_set32(0x7f));
	vector nan = v_right32(v_add32(magnitude, v_set32(1)), 7); /* 0 or 1 */
	vector half = v_or(v_left32(v_and(x, v_set32(0x80)), 8), v_left32(magnitude, 7));

	return v_or(v_multiply_f32(v_fp16_to_f32(half), v_set_f32(256)),
		v_multiply32(nan, v_set32(0x7fc00000)));
}

/* Round to fp16 by "round to odd": towards zero, with the last bit set if that was inexact. A
 * second rounding, to fewer bits, then gives the correctly rounded result. */
static inline vector
fp16_to_odd(vector x)
{
	vector half = v_f32_to_fp16_cut(x);

	return v_or(half, v_min_u32(v_xor(v_fp16_to_f32(half), x), v_set32(1)));
}

/* x / 2^bits, to nearest, ties to even. */
static inline vector
round_half(vector x, int bits)
{
	vector odd = v_and(v_right32(x, bits), v_set32(1));

	return v_right32(v_add32(x, v_add32(odd, v_set32((1 << (bits - 1)) - 1))), bits);
}

static inline void
v_store_fp8_e5m2(uint8_t *p, vector x, size_t n)
{
	vector half = fp16_to_odd(x);

	v_store_low8(p, v_choose_nan_f32(x, v_right32(half, 8), round_half(half, 8)), n);
}

/* An overflow becomes NaN. */
static inline void
v_store_fp8_e4m3(uint8_t *p, vector x, size_t n)
{
	vector half = fp16_to_odd(v_multiply_f32(x, v_set_f32(1.0f / 256)));
	vector number = round_half(v_and(half, v_set32(0x7fff)), 7);

	v_store_low8(p,
		v_or(v_right32(v_and(half, v_set32(0x8000)), 8), v_min_u32(number, v_set32(0x7f))),
		n);
}

static inline vector
undivided(vector x, vector unused)
{
	(void)unused;
	return x;
}

#define NARROW(type, bytes)                                                                        \
	V_REDUCE_WIDE(sum_wide_##type, bytes, v_widen_##type, v_widen_##type, v_add_f32)           \
	V_REDUCE_WIDE(prod_wide_##type, bytes, v_widen_##type, v_widen_##type, v_multiply_f32)     \
	static void narrow_##type(void *acc, size_t n, unsigned int count)                         \
	{                                                                                          \
		(void)count;                                                                       \
		v_narrow(acc, n, bytes, v_set32(0), undivided, v_store_##type);                    \
	}                                                                                          \
	static void average_##type(void *acc, size_t n, unsigned int count)                        \
	{                                                                                          \
		v_narrow(acc, n, bytes, v_set_f32((float)count), v_divide_f32, v_store_##type);    \
	}

NARROW(fp16, 2)
NARROW(bf16, 2)
NARROW(fp8_e4m3, 1)
NARROW(fp8_e5m2, 1)

/*
 * min and max accumulate ranks in the order of all numbers, which v_order16 computes and undoes:
 * negative NaNs, -inf (at ~infinity) to +inf (at its own bits), positive NaNs. An offset by the
 * number of NaNs of one sign wraps in 16 bits and moves all NaNs below -inf for min, or above +inf
 * for max. So a NaN wins, and finish makes it canonical.
 */
#define EXTREME(name, op, sign, infinity, nan)                                                     \
	static inline vector name##_place(vector x)                                                \
	{                                                                                          \
		return v_add16(v_order16(x), v_set16(sign(0x7fff - infinity)));                    \
	}                                                                                          \
	static inline vector name##_op(vector a, vector b)                                         \
	{                                                                                          \
		return op(a, name##_place(b));                                                     \
	}                                                                                          \
	static inline vector name##_number(vector place, vector unused)                            \
	{                                                                                          \
		vector x = v_order16(v_add16(place, v_set16(-sign(0x7fff - infinity))));           \
                                                                                                   \
		(void)unused;                                                                      \
		return v_choose_above16(                                                           \
			v_and(x, v_set16(0x7fff)), v_set16(infinity), v_set16(nan), x);            \
	}                                                                                          \
	V_REDUCE(name, 16, name##_place, name##_op)                                                \
	static void name##_finish(void *acc, size_t n, unsigned int count)                         \
	{                                                                                          \
		(void)count;                                                                       \
		v_finish(acc, 2 * n, v_set16(0), name##_number);                                   \
	}

EXTREME(min_fp16, v_min_s16, +, 0x7c00, 0x7e00)
EXTREME(max_fp16, v_max_s16, -, 0x7c00, 0x7e00)
EXTREME(min_bf16, v_min_s16, +, 0x7f80, 0x7fc0)
EXTREME(max_bf16, v_max_s16, -, 0x7f80, 0x7fc0)

#define EXTREMES(type)                                                                             \
	[WEIR_OP_MIN] = RMW_CELL(min_##type, min_##type##_finish, 2),                              \
	[WEIR_OP_MAX] = RMW_CELL(max_##type, max_##type##_finish, 2)

const rmw_row RMW_ROW(FP16) = {RMW_NARROW_OPS(fp16), EXTREMES(fp16)};
const rmw_row RMW_ROW(BF16) = {RMW_NARROW_OPS(bf16), EXTREMES(bf16)};

/* min and max of fp8 accumulate in fp32, because AVX2 and AVX-512 have few operations on bytes. */
#define WIDE_EXTREMES(type)                                                                        \
	static inline vector canonical_##type(const uint8_t *p, size_t n)                          \
	{                                                                                          \
		vector x = v_widen_##type(p, n);                                                   \
                                                                                                   \
		return v_min_f32(x, x);                                                            \
	}                                                                                          \
	V_REDUCE_WIDE(min_##type, 1, canonical_##type, v_widen_##type, v_min_f32)                  \
	V_REDUCE_WIDE(max_##type, 1, canonical_##type, v_widen_##type, v_max_f32)

WIDE_EXTREMES(fp8_e4m3)
WIDE_EXTREMES(fp8_e5m2)

#define WIDE_EXTREMES_OPS(type)                                                                    \
	[WEIR_OP_MIN] = RMW_CELL(min_##type, narrow_##type, 4),                                    \
	[WEIR_OP_MAX] = RMW_CELL(max_##type, narrow_##type, 4)

const rmw_row RMW_ROW(FP8_E4M3) = {RMW_NARROW_OPS(fp8_e4m3), WIDE_EXTREMES_OPS(fp8_e4m3)};
const rmw_row RMW_ROW(FP8_E5M2) = {RMW_NARROW_OPS(fp8_e5m2), WIDE_EXTREMES_OPS(fp8_e5m2)};
