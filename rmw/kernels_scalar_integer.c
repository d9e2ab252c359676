/* SPDX-License-Identifier: BSD-3-Clause */
/* Scalar kernels of the integer types, and the copy. */
#include "rmw/kernels_scalar.h"

/* Unsigned, so that they wrap. Products are computed in 64 bits, because narrow factors would be
 * promoted to int. */
#define INTEGER(bits)                                                                              \
	RMW_SCALAR_REDUCE(sum##bits, uint##bits##_t, uint##bits##_t, b, a + b)                     \
	RMW_SCALAR_REDUCE(prod##bits, uint##bits##_t, uint##bits##_t, b, 1ull * a * b)             \
	RMW_SCALAR_REDUCE(band##bits, uint##bits##_t, uint##bits##_t, b, (a) & (b))                \
	RMW_SCALAR_REDUCE(bor##bits, uint##bits##_t, uint##bits##_t, b, a | b)                     \
	RMW_SCALAR_REDUCE(bxor##bits, uint##bits##_t, uint##bits##_t, b, a ^ b)                    \
	RMW_SCALAR_REDUCE(land##bits, uint##bits##_t, uint##bits##_t, b != 0, (a) & (b != 0))      \
	RMW_SCALAR_REDUCE(lor##bits, uint##bits##_t, uint##bits##_t, b != 0, a | (b != 0))         \
	RMW_SCALAR_REDUCE(lxor##bits, uint##bits##_t, uint##bits##_t, b != 0, a ^ (b != 0))        \
	RMW_SCALAR_REDUCE(min_s##bits, int##bits##_t, int##bits##_t, b, a < b ? a : b)             \
	RMW_SCALAR_REDUCE(max_s##bits, int##bits##_t, int##bits##_t, b, a > b ? a : b)             \
	RMW_SCALAR_REDUCE(min_u##bits, uint##bits##_t, uint##bits##_t, b, a < b ? a : b)           \
	RMW_SCALAR_REDUCE(max_u##bits, uint##bits##_t, uint##bits##_t, b, a > b ? a : b)

INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)

#define WIDE_AVERAGE(name, wide, narrow)                                                           \
	RMW_SCALAR_REDUCE(sum_wide_##name, wide, narrow, b, a + b)                                 \
	RMW_SCALAR_FINISH(average_##name, wide, narrow, a / (wide)count)

WIDE_AVERAGE(s8, int32_t, int8_t)
WIDE_AVERAGE(u8, uint32_t, uint8_t)
WIDE_AVERAGE(s16, int32_t, int16_t)
WIDE_AVERAGE(u16, uint32_t, uint16_t)

RMW_SCALAR_FINISH(average_s32, int32_t, int32_t, a / (int32_t)count)
RMW_SCALAR_FINISH(average_u32, uint32_t, uint32_t, a / count)
RMW_SCALAR_FINISH(average_s64, int64_t, int64_t, a / (int64_t)count)
RMW_SCALAR_FINISH(average_u64, uint64_t, uint64_t, a / count)

const rmw_row RMW_ROW(INT8) = {RMW_SHORT_OPS(s, 8)};
const rmw_row RMW_ROW(UINT8) = {RMW_SHORT_OPS(u, 8)};
const rmw_row RMW_ROW(INT16) = {RMW_SHORT_OPS(s, 16)};
const rmw_row RMW_ROW(UINT16) = {RMW_SHORT_OPS(u, 16)};
const rmw_row RMW_ROW(INT32) = {RMW_LONG_OPS(s, 32)};
const rmw_row RMW_ROW(UINT32) = {RMW_LONG_OPS(u, 32)};
const rmw_row RMW_ROW(INT64) = {RMW_LONG_OPS(s, 64)};
const rmw_row RMW_ROW(UINT64) = {RMW_LONG_OPS(u, 64)};

void
rmw_scalar_copy(void *restrict to, const void *restrict from, size_t bytes)
{
	memcpy(to, from, bytes);
}
