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

/* Sums and products wrap; averages are sums in a wider type. */
#define INTEGERS(X)                                                                                \
	X(INT8, s8, u8, s32)                                                                       \
	X(UINT8, u8, u8, u32)                                                                      \
	X(INT16, s16, u16, s32)                                                                    \
	X(UINT16, u16, u16, u32)                                                                   \
	X(INT32, s32, u32, u32)                                                                    \
	X(UINT32, u32, u32, u32)                                                                   \
	X(INT64, s64, u64, u64)                                                                    \
	X(UINT64, u64, u64, u64)

#define INTEGER(name, type, unsigned_type, wide)                                                   \
	LOOP(name##_sum, unsigned_type, unsigned_type, a + b)                                      \
	LOOP(name##_prod, unsigned_type, unsigned_type, 1u * a * b)                                \
	LOOP(name##_min, type, type, a < b ? a : b)                                                \
	LOOP(name##_max, type, type, a > b ? a : b)                                                \
	LOOP(name##_avg, wide, type, a + (wide)b)
INTEGERS(INTEGER)

/* widen: what turns the type into one that sums have. */
#define REAL(name, sum, type, widen)                                                               \
	LOOP(name##_sum, sum, type, a + widen(b))                                                  \
	LOOP(name##_prod, sum, type, widen(b) * a)                                                 \
	LOOP(name##_min, type, type, widen(a) < widen(b) ? a : b)                                  \
	LOOP(name##_max, type, type, widen(a) > widen(b) ? a : b)

static inline float
bf16_to_fp32(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}
REAL(BF16, f32, u16, bf16_to_fp32)
REAL(FP32, f32, f32, )
REAL(FP64, f64, f64, )

#ifdef __FLT16_MANT_DIG__
ANYWHERE(_Float16, f16);
REAL(FP16, f32, f16, (float))
#endif

#define OPS(name, avg)                                                                             \
	[WEIR_DTYPE_##name] = {[WEIR_OP_PROD] = name##_prod,                                       \
		[WEIR_OP_SUM] = name##_sum,                                                        \
		[WEIR_OP_MIN] = name##_min,                                                        \
		[WEIR_OP_MAX] = name##_max,                                                        \
		[WEIR_OP_AVG] = name##_##avg},
#define INTEGER_OPS(name, ...) OPS(name, avg)
static const kernels_loop_fn loops[WEIR_DTYPES][WEIR_OPS] = {INTEGERS(INTEGER_OPS)
#ifdef __FLT16_MANT_DIG__
		OPS(FP16, sum)
#endif
			OPS(BF16, sum) OPS(FP32, sum) OPS(FP64, sum)};

kernels_loop_fn
KERNELS_LOOP(enum weir_dtype type, enum weir_op op)
{
	if ((unsigned int)type >= WEIR_DTYPES || (unsigned int)op >= WEIR_OPS)
		return NULL;
	return loops[type][op];
}
