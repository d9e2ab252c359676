/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the variants share. Their files are compiled with flags of their own: nothing that is
 * included there may define a function with external linkage, or the linker could take its AVX-512
 * copy for the whole program.
 */
#ifndef RMW_KERNELS_PRIV_H
#define RMW_KERNELS_PRIV_H

#include "rmw/kernels.h"

struct rmw_kernels {
	rmw_reduce_fn reduce[RMW_TYPE_COUNT][RMW_OP_COUNT]; /* NULL: not supported */
	rmw_copy_fn copy;
};

extern const struct rmw_kernels rmw_kernels_scalar;
extern const struct rmw_kernels rmw_kernels_avx2;
extern const struct rmw_kernels rmw_kernels_avx512;

/*
 * a + b of one fp32, a's NaN before b's. The instruction is spelled, because a compiler may take
 * a + b and _mm_add_ss(a, b) alike for b + a.
 */
static inline float
rmw_add_fp32(float a, float b)
{
#if defined(__AVX__)
	__asm__("vaddss %1, %0, %0" : "+x"(a) : "x"(b));
	return a;
#elif defined(__SSE__)
	__asm__("addss %1, %0" : "+x"(a) : "x"(b));
	return a;
#else
	return a + b; /* another machine's rules for NaN */
#endif
}

#endif
