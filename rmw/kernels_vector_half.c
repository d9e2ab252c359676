/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector kernels of fp16 and bf16. */
#include "rmw/kernels_vector.h"

static inline vector
v_widen_bf16(const uint8_t *p, size_t n)
{
	return v_left32(v_widen_u16(p, n), 16);
}

/* To nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static inline void
v_store_bf16(uint8_t *p, vector x, size_t n)
{
	vector upper = v_right32(x, 16);
	vector odd = v_and(upper, v_set32(1));
	vector rounded = v_right32(v_add32(x, v_add32(odd, v_set32(0x7fff))), 16);

	v_store_low16(p, v_choose_nan_f32(x, v_or(upper, v_set32(0x40)), rounded), n);
}

static inline vector
undivided(vector x, vector unused)
{
	(void)unused;
	return x;
}

#define HALF(type)                                                                                 \
	V_WIDE(widen_##type, 2, v_widen_##type)                                                    \
	V_REDUCE_WIDE(sum_wide_##type, 2, v_widen_##type, v_add_f32)                               \
	V_REDUCE_WIDE(prod_wide_##type, 2, v_widen_##type, v_multiply_f32)                         \
	static void narrow_##type(void *acc, size_t n, unsigned int count)                         \
	{                                                                                          \
		(void)count;                                                                       \
		v_narrow(acc, n, 2, v_set32(0), undivided, v_store_##type);                        \
	}                                                                                          \
	static void average_##type(void *acc, size_t n, unsigned int count)                        \
	{                                                                                          \
		v_narrow(acc, n, 2, v_set_f32((float)count), v_divide_f32, v_store_##type);        \
	}

HALF(fp16)
HALF(bf16)

/*
 * min and max accumulate places in the order of all numbers, which v_order16 gives and undoes: from
 * -inf, at ~infinity, to infinity, at its own bits, with negative NaNs before and positive ones
 * behind. Moved by as many places as there are NaNs of a sign they are all before -inf, for min, or all
 * behind infinity, for max: where 16 bits wrap. So a NaN wins, and finish makes it canonical.
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
	V_MAP(name##_begin, 16, name##_place)                                                      \
	V_REDUCE(name, 16, name##_op)                                                              \
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
	[WEIR_OP_MIN] = {min_##type##_begin, min_##type, min_##type##_finish, 2},                  \
	[WEIR_OP_MAX] = {max_##type##_begin, max_##type, max_##type##_finish, 2}

const rmw_row RMW_ROW(FP16) = {RMW_HALF_OPS(fp16), EXTREMES(fp16)};
const rmw_row RMW_ROW(BF16) = {RMW_HALF_OPS(bf16), EXTREMES(bf16)};
