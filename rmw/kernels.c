/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmw/kernels.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <errno.h>
#include <string.h>

#include "rmw/kernels_priv.h"

static enum rmw_isa selected = RMW_ISA_AUTO; /* AUTO: rmw_kernels_select was not called yet */

#ifdef __x86_64__
/* clang 14 lacks __builtin_cpu_supports("f16c"). The check of AVX2 covers that the system saves the
 * registers. */
static bool
has_f16c(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

bool
rmw_isa_supported(enum rmw_isa isa)
{
	switch (isa) {
	case RMW_ISA_AUTO:
	case RMW_ISA_SCALAR: return true;
	/* The features that meson.build enables, on a system that saves the registers. */
	case RMW_ISA_AVX2:
#ifdef __x86_64__
		return __builtin_cpu_supports("avx2") && has_f16c();
#else
		return false;
#endif
	case RMW_ISA_AVX512:
#ifdef __x86_64__
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
		return false;
#endif
	default: return false;
	}
}

static enum rmw_isa
widest(enum rmw_isa limit)
{
	if (limit == RMW_ISA_AUTO || limit > RMW_ISA_AVX512)
		limit = RMW_ISA_AVX512;
	if (limit >= RMW_ISA_AVX512 && rmw_isa_supported(RMW_ISA_AVX512))
		return RMW_ISA_AVX512;
	if (limit >= RMW_ISA_AVX2 && rmw_isa_supported(RMW_ISA_AVX2))
		return RMW_ISA_AVX2;
	return RMW_ISA_SCALAR;
}

#define ROW(name, ...) [WEIR_DTYPE_##name] = RMW_ROW(name),
#define RMW_VARIANT    scalar
static const struct rmw_kernels scalar = {.row = {WEIR_DTYPE_LIST(ROW)}, .copy = rmw_scalar_copy};
#ifdef __x86_64__
#undef RMW_VARIANT
#define RMW_VARIANT avx2
static const struct rmw_kernels avx2 = {.row = {WEIR_DTYPE_LIST(ROW)}, .copy = rmw_avx2_copy};
#undef RMW_VARIANT
#define RMW_VARIANT avx512
static const struct rmw_kernels avx512 = {.row = {WEIR_DTYPE_LIST(ROW)}, .copy = rmw_avx512_copy};
#endif

static const struct rmw_kernels *
kernels_of(enum rmw_isa isa)
{
	if (isa == RMW_ISA_AUTO)
		isa = widest(RMW_ISA_AUTO);
	if (!rmw_isa_supported(isa))
		return NULL;
	switch (isa) {
	case RMW_ISA_SCALAR: return &scalar;
#ifdef __x86_64__
	case RMW_ISA_AVX2: return &avx2;
	case RMW_ISA_AVX512: return &avx512;
#else
	case RMW_ISA_AVX2:
	case RMW_ISA_AVX512:
#endif
	case RMW_ISA_AUTO:
	default: return NULL;
	}
}

enum rmw_isa
rmw_kernels_select(enum rmw_isa limit)
{
	selected = widest(limit);
	return selected;
}

const struct rmw_reduction *
rmw_reduction_of(enum rmw_isa isa, enum weir_dtype type, enum weir_op op)
{
	const struct rmw_kernels *kernels = kernels_of(isa);
	const struct rmw_reduction *reduction;

	if (kernels == NULL || (unsigned int)type >= WEIR_DTYPES || (unsigned int)op >= WEIR_OPS)
		return NULL;
	reduction = &kernels->row[type][op];
	return reduction->reduce == NULL ? NULL : reduction;
}

const struct rmw_reduction *
rmw_reduction(enum weir_dtype type, enum weir_op op)
{
	return rmw_reduction_of(selected, type, op);
}

bool
rmw_reduction_wide_of(
	enum rmw_isa isa, enum weir_dtype type, enum weir_op op, struct rmw_reduction *wide)
{
	/* Some variants have wide accumulators for other operations, too; those of the scalar one
	 * are in all. */
	const struct rmw_reduction *narrow = rmw_reduction_of(RMW_ISA_SCALAR, type, op);

	if (narrow == NULL || narrow->acc_bytes == weir_dtype_bytes(type) ||
		kernels_of(isa) == NULL)
		return false;
	*wide = *rmw_reduction_of(
		isa, weir_dtype_is_float(type) ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32, op);
	wide->finish = rmw_reduction_of(isa, type, op)->finish;
	return true;
}

bool
rmw_reduction_wide(enum weir_dtype type, enum weir_op op, struct rmw_reduction *wide)
{
	return rmw_reduction_wide_of(selected, type, op, wide);
}

rmw_copy_fn
rmw_kernel_copy_of(enum rmw_isa isa)
{
	const struct rmw_kernels *kernels = kernels_of(isa);

	return kernels == NULL ? NULL : kernels->copy;
}

rmw_copy_fn
rmw_kernel_copy(void)
{
	return rmw_kernel_copy_of(selected);
}

const char *
rmw_isa_name(enum rmw_isa isa)
{
	switch (isa) {
#define X(name, code, text)                                                                        \
	case code: return text;
		RMW_ISA_LIST(X)
#undef X
	default: return "?";
	}
}

int
rmw_isa_parse(const char *name)
{
#define X(id, code, text)                                                                          \
	if (strcmp(name, text) == 0)                                                               \
		return code;
	RMW_ISA_LIST(X)
#undef X
	return -EINVAL;
}
