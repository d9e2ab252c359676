/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled once for each instruction set, with its flags and KERNELS_LOOP. */
#include "apps/bench/kernels_loops.h"

#include <string.h>

#define LOOP(name, acc_type, src_type, expression)                                                 \
	static void name(void *restrict acc, const void *restrict src, size_t n)                   \
	{                                                                                          \
		acc_type *restrict to = acc;                                                       \
		const src_type *restrict from = src;                                               \
                                                                                                   \
		for (size_t i = 0; i < n; i++) {                                                   \
			acc_type a = to[i];                                                        \
			src_type b = from[i];                                                      \
                                                                                                   \
			to[i] = (acc_type)(expression);                                            \
		}                                                                                  \
	}

/* Payloads lie at any byte. */
#define ANYWHERE(type, name) typedef type name __attribute__((aligned(1), may_alias))
ANYWHERE(int8_t, s8);
ANYWHERE(uint8_t, u8);
ANYWHERE(int16_t, s16);
ANYWHERE(uint16_t, u16);
ANYWHERE(int32_t, s32);
ANYWHERE(uint32_t, u32);
ANYWHERE(int64_t, s64);
ANYWHERE(uint64_t, u64);
ANYWHERE(float, f32);
ANYWHERE(double, f64);

#define INTEGER(type, unsigned_type, wide)                                                         \
	LOOP(type##_sum, unsigned_type, unsigned_type, a + b)                                      \
	LOOP(type##_prod, unsigned_type, unsigned_type, 1u * a * b)                                \
	LOOP(type##_min, type, type, a < b ? a : b)                                                \
	LOOP(type##_max, type, type, a > b ? a : b)                                                \
	LOOP(type##_avg, wide, type, a + (wide)b)

#define FLOAT(type)                                                                                \
	LOOP(type##_sum, type, type, a + b)                                                        \
	LOOP(type##_prod, type, type, 1 * a * b)                                                   \
	LOOP(type##_min, type, type, a < b ? a : b)                                                \
	LOOP(type##_max, type, type, a > b ? a : b)

#define HALF(type, storage, widen)                                                                 \
	LOOP(type##_sum, f32, storage, a + widen(b))                                               \
	LOOP(type##_prod, f32, storage, widen(b) * a)                                              \
	LOOP(type##_min, storage, storage, widen(a) < widen(b) ? a : b)                            \
	LOOP(type##_max, storage, storage, widen(a) > widen(b) ? a : b)

#define INTEGER_OPS(type)                                                                          \
	[WEIR_OP_PROD] = type##_prod, [WEIR_OP_SUM] = type##_sum, [WEIR_OP_MIN] = type##_min,      \
	[WEIR_OP_MAX] = type##_max, [WEIR_OP_AVG] = type##_avg
#define FLOAT_OPS(type)                                                                            \
	[WEIR_OP_PROD] = type##_prod, [WEIR_OP_SUM] = type##_sum, [WEIR_OP_MIN] = type##_min,      \
	[WEIR_OP_MAX] = type##_max, [WEIR_OP_AVG] = type##_sum

INTEGER(s8, u8, s32)
INTEGER(u8, u8, u32)
INTEGER(s16, u16, s32)
INTEGER(u16, u16, u32)
INTEGER(s32, u32, u32)
INTEGER(u32, u32, u32)
INTEGER(s64, u64, u64)
INTEGER(u64, u64, u64)
FLOAT(f32)
FLOAT(f64)

static inline float
bf16_to_fp32(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}
HALF(bf16, u16, bf16_to_fp32)

#ifdef __FLT16_MANT_DIG__
ANYWHERE(_Float16, f16);
HALF(fp16, f16, (float))
#endif

static const kernels_loop_fn loops[WEIR_DTYPES][WEIR_OPS] = {
	[WEIR_DTYPE_INT8] = {INTEGER_OPS(s8)},
	[WEIR_DTYPE_UINT8] = {INTEGER_OPS(u8)},
	[WEIR_DTYPE_INT16] = {INTEGER_OPS(s16)},
	[WEIR_DTYPE_UINT16] = {INTEGER_OPS(u16)},
	[WEIR_DTYPE_INT32] = {INTEGER_OPS(s32)},
	[WEIR_DTYPE_UINT32] = {INTEGER_OPS(u32)},
	[WEIR_DTYPE_INT64] = {INTEGER_OPS(s64)},
	[WEIR_DTYPE_UINT64] = {INTEGER_OPS(u64)},
#ifdef __FLT16_MANT_DIG__
	[WEIR_DTYPE_FP16] = {FLOAT_OPS(fp16)},
#endif
	[WEIR_DTYPE_BF16] = {FLOAT_OPS(bf16)},
	[WEIR_DTYPE_FP32] = {FLOAT_OPS(f32)},
	[WEIR_DTYPE_FP64] = {FLOAT_OPS(f64)},
};

kernels_loop_fn
KERNELS_LOOP(enum weir_dtype type, enum weir_op op)
{
	if ((unsigned int)type >= WEIR_DTYPES || (unsigned int)op >= WEIR_OPS)
		return NULL;
	return loops[type][op];
}
