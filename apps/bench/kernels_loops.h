/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain loops in C, as the compiler vectorises them: what the kernels are compared with. */
#ifndef APPS_BENCH_KERNELS_LOOPS_H
#define APPS_BENCH_KERNELS_LOOPS_H

#include "rmw/kernels.h"

/*
 * The loop that does what rmw's reduce does, except that of two numbers one of which is NaN, and of
 * -0 and 0, it takes any for the lesser. Compiled for that instruction set; NULL: there is none, or the
 * compiler doesn't know the type. acc[i] = acc[i] OP src[i], i in [0, n).
 */
typedef void (*kernels_loop_fn)(void *restrict acc, const void *restrict src, size_t n);

kernels_loop_fn kernels_loop_scalar(enum weir_dtype type, enum weir_op op);
kernels_loop_fn kernels_loop_avx2(enum weir_dtype type, enum weir_op op);
kernels_loop_fn kernels_loop_avx512(enum weir_dtype type, enum weir_op op);

#endif
