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
undivided(vector x, vector divisor)
{
	(void)divisor;
	return x;
}

/* Without their signs the numbers are ordered as integers are, NaN above infinity. */
#define MINIMUM(name, op, infinity, nan)                                                           \
	static inline vector name##_op(vector a, vector b)                                         \
	{                                                                                          \
		vector magnitude = v_set16(0x7fff), inf = v_set16(infinity);                       \
		vector larger = v_max_u16(v_and(a, magnitude), v_and(b, magnitude));               \
		vector result = v_order16(op(v_order16(a), v_order16(b)));                         \
                                                                                                   \
		return v_choose_above16(larger, inf, v_set16(nan), result);                        \
	}                                                                                          \
	V_REDUCE(name, 16, name##_op)

#define HALF(type, infinity, nan)                                                                  \
	static inline vector one_nan_##type(vector x)                                              \
	{                                                                                          \
		vector magnitude = v_and(x, v_set16(0x7fff));                                      \
                                                                                                   \
		return v_choose_above16(magnitude, v_set16(infinity), v_set16(nan), x);            \
	}                                                                                          \
	V_WIDE(widen_##type, 2, v_widen_##type)                                                    \
	V_REDUCE_WIDE(sum_wide_##type, 2, v_widen_##type, v_add_f32)                               \
	V_REDUCE_WIDE(prod_wide_##type, 2, v_widen_##type, v_multiply_f32)                         \
	V_MAP(canonical_##type, 16, one_nan_##type)                                                \
	MINIMUM(min_##type, v_min_s16, infinity, nan)                                              \
	MINIMUM(max_##type, v_max_s16, infinity, nan)                                              \
	static void narrow_##type(void *acc, size_t n, unsigned int count)                         \
	{                                                                                          \
		(void)count;                                                                       \
		v_narrow(acc, n, 2, v_set32(0), undivided, v_store_##type);                        \
	}                                                                                          \
	static void average_##type(void *acc, size_t n, unsigned int count)                        \
	{                                                                                          \
		v_narrow(acc, n, 2, v_set_f32((float)count), v_divide_f32, v_store_##type);        \
	}

HALF(fp16, 0x7c00, 0x7e00)
HALF(bf16, 0x7f80, 0x7fc0)

const rmw_row RMW_ROW(fp16) = {RMW_HALF_OPS(fp16)};
const rmw_row RMW_ROW(bf16) = {RMW_HALF_OPS(bf16)};
