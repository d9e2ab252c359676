/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which variant of the kernels is selected, their names, and the copy of every instruction set: all
 * short lengths, and nothing beyond the end written or read. (Reductions: test_rmw_reductions.c.)
 */
#include <errno.h>

#include "pktbuf/wire/wire.h"
#include "tests/random.h"
#include "tests/unit/variants.h"

#define LENGTH_MAX 600
#define AROUND     128 /* whole lines, more than any vector; on each side */

static void
check_copy(enum rmw_isa isa)
{
	uint64_t state = random_seed();
	uint8_t to[LENGTH_MAX + 64 + 2 * AROUND], expected[sizeof(to)], from[LENGTH_MAX + 64];

	for (size_t n = 0; n <= LENGTH_MAX; n++) {
		size_t source = random_below(&state, 64), target = random_below(&state, 64);

		for (size_t i = 0; i < sizeof(to); i++)
			to[i] = (uint8_t)random_bits(&state);
		for (size_t i = 0; i < sizeof(from); i++)
			from[i] = (uint8_t)random_bits(&state);
		memcpy(expected, to, sizeof(to));
		memcpy(expected + AROUND + target, from + source, n);
		rmw_kernel_copy_of(isa)(to + AROUND + target, from + source, n);
		cr_assert_eq(memcmp(to, expected, sizeof(to)), 0, "%zu bytes, %zu to %zu", n,
			source, target);
	}
}

static void
check_end(enum rmw_isa isa)
{
	uint8_t *to = page_end(), *from = page_end();

	for (size_t n = 0; n <= LENGTH_MAX; n++)
		rmw_kernel_copy_of(isa)(to - n, from - n, n);
}

TESTS_OF_VARIANTS(rmw_kernels, copy, check_copy(isa))
TESTS_OF_VARIANTS(rmw_kernels, end, check_end(isa))

Test(rmw_kernels, selects_the_widest_below_the_limit, .timeout = 90)
{
	enum rmw_isa best = RMW_ISA_SCALAR;

	for (size_t i = 0; i < 3; i++) {
		if (rmw_isa_supported(all[i]))
			best = all[i];
		cr_assert_eq(rmw_kernels_select(all[i]), best);
		cr_assert_eq(rmw_reduction(WEIR_DTYPE_INT32, WEIR_OP_SUM),
			rmw_reduction_of(best, WEIR_DTYPE_INT32, WEIR_OP_SUM));
		cr_assert_eq(rmw_kernel_copy(), rmw_kernel_copy_of(best));
	}
	cr_assert_eq(rmw_kernels_select(RMW_ISA_AUTO), best);
	cr_assert_eq(rmw_kernels_select((enum rmw_isa)99), best);
	cr_assert_eq(rmw_kernels_select((enum rmw_isa) - 1), best);
	cr_assert_eq(rmw_reduction_of(RMW_ISA_AUTO, WEIR_DTYPE_FP32, WEIR_OP_SUM),
		rmw_reduction_of(best, WEIR_DTYPE_FP32, WEIR_OP_SUM));
	cr_assert_null(rmw_reduction_of((enum rmw_isa)99, WEIR_DTYPE_FP32, WEIR_OP_SUM));
	cr_assert_not(rmw_isa_supported((enum rmw_isa)99));
}

Test(rmw_kernels, names, .timeout = 90)
{
	for (unsigned int i = 0; i < WEIR_DTYPES; i++) {
		cr_assert_eq(weir_dtype_parse(weir_dtype_text((enum weir_dtype)i)), (int)i);
		cr_assert_eq(weir_dtype_bytes((enum weir_dtype)i), weir_dtype_bytes(i));
	}
	for (unsigned int i = 0; i < WEIR_OPS; i++)
		cr_assert_eq(weir_op_parse(weir_op_text((enum weir_op)i)), (int)i);
	for (unsigned int i = 0; i < RMW_ISA_COUNT; i++)
		cr_assert_eq(rmw_isa_parse(rmw_isa_name((enum rmw_isa)i)), (int)i);
	cr_assert_str_eq(weir_dtype_text(WEIR_DTYPE_BF16), "bf16");
	cr_assert_str_eq(weir_op_text(WEIR_OP_LXOR), "lxor");
	cr_assert_str_eq(weir_dtype_text((enum weir_dtype)WEIR_DTYPES), "?");
	cr_assert_str_eq(weir_op_text((enum weir_op)11), "?");
	cr_assert_str_eq(rmw_isa_name((enum rmw_isa)4), "?");
	cr_assert_eq(weir_dtype_bytes((enum weir_dtype)WEIR_DTYPES), 0);
	cr_assert_eq(weir_dtype_parse("float"), -EINVAL);
	cr_assert_eq(weir_op_parse(""), -EINVAL);
	cr_assert_eq(rmw_isa_parse("AVX2"), -EINVAL);
}
