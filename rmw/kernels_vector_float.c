/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector kernels of fp32 and fp64. */
#include "rmw/kernels_vector.h"

#define FLOAT(bits, type)                                                                          \
	static inline vector one_nan_f##bits(vector x)                                             \
	{                                                                                          \
		return v_min_f##bits(x, x);                                                        \
	}                                                                                          \
	V_REDUCE(sum_f##bits, bits, v_same, v_add_f##bits)                                         \
	V_REDUCE(prod_f##bits, bits, v_same, v_multiply_f##bits)                                   \
	V_REDUCE(min_f##bits, bits, one_nan_f##bits, v_min_f##bits)                                \
	V_REDUCE(max_f##bits, bits, one_nan_f##bits, v_max_f##bits)                                \
	static void average_f##bits(void *acc, size_t n, unsigned int count)                       \
	{                                                                                          \
		v_finish(acc, n *(bits / 8), v_set_f##bits((type)count), v_divide_f##bits);        \
	}

FLOAT(32, float)
FLOAT(64, double)

const rmw_row RMW_ROW(FP32) = {RMW_FLOAT_OPS(32)};
const rmw_row RMW_ROW(FP64) = {RMW_FLOAT_OPS(64)};
