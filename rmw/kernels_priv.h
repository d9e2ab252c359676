/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of the variants. Each variant's files have compiler flags of their own, so the headers
 * that they include must not define functions with external linkage: the linker could use an
 * AVX-512 copy in the whole program.
 *
 * A file serves a family of types and exports one row per type, rmw_<variant>_<type>. The rows are
 * the same macros in all variants. They use functions that the file defines under these names:
 *
 *   sumB prodB bandB borB bxorB landB lorB lxorB     B: bits; the sign does not matter
 *   min_T max_T                                      T: s8, u16, ..., f32, fp16, ...
 *   sum_wide_T prod_wide_T                           an accumulator of 4 bytes
 *   narrow_T, average_T                              from the accumulator to the result
 *
 * Each of the first three is a pair: NAME is reduce, NAME_begin is begin.
 */
#ifndef RMW_KERNELS_PRIV_H
#define RMW_KERNELS_PRIV_H

#include "rmw/kernels.h"

typedef struct rmw_reduction rmw_row[WEIR_OPS];

struct rmw_kernels {
	const struct rmw_reduction *row[WEIR_DTYPES]; /* each of WEIR_OPS */
	rmw_copy_fn copy;
};

#define RMW_ROW_AS(variant, type) rmw_##variant##_##type
#define RMW_ROW_OF(variant, type) RMW_ROW_AS(variant, type)
#define RMW_ROW(type)             RMW_ROW_OF(RMW_VARIANT, type)

/* The rows and copies of all variants. */
#define X(name, ...) extern const rmw_row rmw_scalar_##name, rmw_avx2_##name, rmw_avx512_##name;
WEIR_DTYPE_LIST(X)
#undef X
void rmw_scalar_copy(void *restrict to, const void *restrict from, size_t bytes);
void rmw_avx2_copy(void *restrict to, const void *restrict from, size_t bytes);
void rmw_avx512_copy(void *restrict to, const void *restrict from, size_t bytes);

/* A cell: its pair of functions, finish, bytes of an element of the accumulator. */
#define RMW_CELL(name, finish, bytes)                                                              \
	{                                                                                          \
		name##_begin, name, finish, bytes                                                  \
	}

#define RMW_INTEGER_OPS(sign, bits)                                                                \
	[WEIR_OP_SUM] = RMW_CELL(sum##bits, NULL, bits / 8),                                       \
	[WEIR_OP_PROD] = RMW_CELL(prod##bits, NULL, bits / 8),                                     \
	[WEIR_OP_MIN] = RMW_CELL(min_##sign##bits, NULL, bits / 8),                                \
	[WEIR_OP_MAX] = RMW_CELL(max_##sign##bits, NULL, bits / 8),                                \
	[WEIR_OP_BAND] = RMW_CELL(band##bits, NULL, bits / 8),                                     \
	[WEIR_OP_BOR] = RMW_CELL(bor##bits, NULL, bits / 8),                                       \
	[WEIR_OP_BXOR] = RMW_CELL(bxor##bits, NULL, bits / 8),                                     \
	[WEIR_OP_LAND] = RMW_CELL(land##bits, NULL, bits / 8),                                     \
	[WEIR_OP_LOR] = RMW_CELL(lor##bits, NULL, bits / 8),                                       \
	[WEIR_OP_LXOR] = RMW_CELL(lxor##bits, NULL, bits / 8)

/* int8, int16: avg accumulates in 32 bits, because the sum of 256 elements needs 8 bits more. */
#define RMW_SHORT_OPS(sign, bits)                                                                  \
	RMW_INTEGER_OPS(sign, bits),                                                               \
		[WEIR_OP_AVG] = RMW_CELL(sum_wide_##sign##bits, average_##sign##bits, 4)

#define RMW_LONG_OPS(sign, bits)                                                                   \
	RMW_INTEGER_OPS(sign, bits),                                                               \
		[WEIR_OP_AVG] = RMW_CELL(sum##bits, average_##sign##bits, bits / 8)

/* fp32, fp64 */
#define RMW_FLOAT_OPS(bits)                                                                        \
	[WEIR_OP_SUM] = RMW_CELL(sum_f##bits, NULL, bits / 8),                                     \
	[WEIR_OP_PROD] = RMW_CELL(prod_f##bits, NULL, bits / 8),                                   \
	[WEIR_OP_MIN] = RMW_CELL(min_f##bits, NULL, bits / 8),                                     \
	[WEIR_OP_MAX] = RMW_CELL(max_f##bits, NULL, bits / 8),                                     \
	[WEIR_OP_AVG] = RMW_CELL(sum_f##bits, average_f##bits, bits / 8)

/* fp16, bf16, fp8: operations that round accumulate in fp32. min and max are separate. */
#define RMW_NARROW_OPS(type)                                                                       \
	[WEIR_OP_SUM] = RMW_CELL(sum_wide_##type, narrow_##type, 4),                               \
	[WEIR_OP_PROD] = RMW_CELL(prod_wide_##type, narrow_##type, 4),                             \
	[WEIR_OP_AVG] = RMW_CELL(sum_wide_##type, average_##type, 4)

#endif
