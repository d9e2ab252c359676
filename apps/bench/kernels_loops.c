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
	LOOP(type##_avg, wide, type, a + (wide)b)                                                  \
	LOOP(type##_band, type, type, (a) & (b))                                                   \
	LOOP(type##_bor, type, type, a | b)                                                        \
	LOOP(type##_bxor, type, type, a ^ b)                                                       \
	LOOP(type##_land, type, type, (a) && (b))                                                  \
	LOOP(type##_lor, type, type, a || b)                                                       \
	LOOP(type##_lxor, type, type, !a != !b)

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
	[RMW_OP_PROD] = type##_prod, [RMW_OP_SUM] = type##_sum, [RMW_OP_MIN] = type##_min,         \
	[RMW_OP_MAX] = type##_max, [RMW_OP_AVG] = type##_avg, [RMW_OP_BAND] = type##_band,         \
	[RMW_OP_BOR] = type##_bor, [RMW_OP_BXOR] = type##_bxor, [RMW_OP_LAND] = type##_land,       \
	[RMW_OP_LOR] = type##_lor, [RMW_OP_LXOR] = type##_lxor
#define FLOAT_OPS(type)                                                                            \
	[RMW_OP_PROD] = type##_prod, [RMW_OP_SUM] = type##_sum, [RMW_OP_MIN] = type##_min,         \
	[RMW_OP_MAX] = type##_max, [RMW_OP_AVG] = type##_sum

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

static const rmw_reduce_fn loops[RMW_TYPE_COUNT][RMW_OP_COUNT] = {
	[RMW_TYPE_INT8] = {INTEGER_OPS(s8)},
	[RMW_TYPE_UINT8] = {INTEGER_OPS(u8)},
	[RMW_TYPE_INT16] = {INTEGER_OPS(s16)},
	[RMW_TYPE_UINT16] = {INTEGER_OPS(u16)},
	[RMW_TYPE_INT32] = {INTEGER_OPS(s32)},
	[RMW_TYPE_UINT32] = {INTEGER_OPS(u32)},
	[RMW_TYPE_INT64] = {INTEGER_OPS(s64)},
	[RMW_TYPE_UINT64] = {INTEGER_OPS(u64)},
#ifdef __FLT16_MANT_DIG__
	[RMW_TYPE_FP16] = {FLOAT_OPS(fp16)},
#endif
	[RMW_TYPE_BF16] = {FLOAT_OPS(bf16)},
	[RMW_TYPE_FP32] = {FLOAT_OPS(f32)},
	[RMW_TYPE_FP64] = {FLOAT_OPS(f64)},
};

rmw_reduce_fn
KERNELS_LOOP(enum rmw_type type, enum rmw_op op)
{
	if ((unsigned int)type >= RMW_TYPE_COUNT || (unsigned int)op >= RMW_OP_COUNT)
		return NULL;
	return loops[type][op];
}
