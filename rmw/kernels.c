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
/* clang 14 knows no __builtin_cpu_supports("f16c"); that AVX registers are saved is asked beside. */
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
	/* What the compiler was allowed (meson.build), and the operating system saves. */
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

#define KERNELS(variant)                                                                           \
	{                                                                                          \
		.row =                                                                             \
			{                                                                          \
				[RMW_TYPE_INT8] = rmw_##variant##_int8,                            \
				[RMW_TYPE_UINT8] = rmw_##variant##_uint8,                          \
				[RMW_TYPE_INT16] = rmw_##variant##_int16,                          \
				[RMW_TYPE_UINT16] = rmw_##variant##_uint16,                        \
				[RMW_TYPE_INT32] = rmw_##variant##_int32,                          \
				[RMW_TYPE_UINT32] = rmw_##variant##_uint32,                        \
				[RMW_TYPE_INT64] = rmw_##variant##_int64,                          \
				[RMW_TYPE_UINT64] = rmw_##variant##_uint64,                        \
				[RMW_TYPE_FP16] = rmw_##variant##_fp16,                            \
				[RMW_TYPE_BF16] = rmw_##variant##_bf16,                            \
				[RMW_TYPE_FP32] = rmw_##variant##_fp32,                            \
				[RMW_TYPE_FP64] = rmw_##variant##_fp64,                            \
			},                                                                         \
		.copy = rmw_##variant##_copy,                                                      \
	}

static const struct rmw_kernels scalar = KERNELS(scalar);
#ifdef __x86_64__
static const struct rmw_kernels avx2 = KERNELS(avx2);
static const struct rmw_kernels avx512 = KERNELS(avx512);
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
rmw_reduction_of(enum rmw_isa isa, enum rmw_type type, enum rmw_op op)
{
	const struct rmw_kernels *kernels = kernels_of(isa);
	const struct rmw_reduction *reduction;

	if (kernels == NULL || (unsigned int)type >= RMW_TYPE_COUNT ||
		(unsigned int)op >= RMW_OP_COUNT)
		return NULL;
	reduction = &kernels->row[type][op];
	return reduction->reduce == NULL ? NULL : reduction;
}

const struct rmw_reduction *
rmw_reduction(enum rmw_type type, enum rmw_op op)
{
	return rmw_reduction_of(selected, type, op);
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

unsigned int
rmw_type_size(enum rmw_type type)
{
	switch (type) {
#define X(name, code, text, bytes)                                                                 \
	case code: return bytes;
		RMW_TYPE_LIST(X)
#undef X
	default: return 0;
	}
}

const char *
rmw_type_name(enum rmw_type type)
{
	switch (type) {
#define X(name, code, text, bytes)                                                                 \
	case code: return text;
		RMW_TYPE_LIST(X)
#undef X
	default: return "?";
	}
}

#define X(name, code, text)                                                                        \
	case code: return text;

const char *
rmw_op_name(enum rmw_op op)
{
	switch (op) {
		RMW_OP_LIST(X)
	default: return "?";
	}
}

const char *
rmw_isa_name(enum rmw_isa isa)
{
	switch (isa) {
		RMW_ISA_LIST(X)
	default: return "?";
	}
}
#undef X

#define X(id, code, text, ...)                                                                     \
	if (strcmp(name, text) == 0)                                                               \
		return code;

int
rmw_type_parse(const char *name)
{
	RMW_TYPE_LIST(X)
	return -EINVAL;
}

int
rmw_op_parse(const char *name)
{
	RMW_OP_LIST(X)
	return -EINVAL;
}

int
rmw_isa_parse(const char *name)
{
	RMW_ISA_LIST(X)
	return -EINVAL;
}
#undef X
