/* SPDX-License-Identifier: BSD-3-Clause */
/* Scalar kernels of fp32 and fp64. */
#include "rmw/kernels_scalar.h"

RMW_SCALAR_FIRST_NAN(add32, float, "addss", +)
RMW_SCALAR_FIRST_NAN(multiply32, float, "mulss", *)
RMW_SCALAR_FIRST_NAN(add64, double, "addsd", +)
RMW_SCALAR_FIRST_NAN(multiply64, double, "mulsd", *)

#define FLOAT(bits, type)                                                                          \
	RMW_SCALAR_REDUCE(sum_f##bits, type, type, b, add##bits(a, b))                             \
	RMW_SCALAR_REDUCE(prod_f##bits, type, type, b, multiply##bits(a, b))                       \
	RMW_SCALAR_FINISH(average_f##bits, type, type, a / (type)count)

FLOAT(32, float)
FLOAT(64, double)
RMW_SCALAR_MINIMUM(f32, 32, 0x7f800000, 0x7fc00000)
RMW_SCALAR_MINIMUM(f64, 64, UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff8000000000000))

const rmw_row RMW_ROW(FP32) = {RMW_FLOAT_OPS(32)};
const rmw_row RMW_ROW(FP64) = {RMW_FLOAT_OPS(64)};
