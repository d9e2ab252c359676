/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of all variants of the kernels: a case of each, and memory behind which nothing may
 * be touched. */
#ifndef TESTS_UNIT_VARIANTS_H
#define TESTS_UNIT_VARIANTS_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "rmw/kernels.h"

static const enum rmw_isa all[] = {RMW_ISA_SCALAR, RMW_ISA_AVX2, RMW_ISA_AVX512};

/* What is checked, a statement, with `isa`; of a variant, and of all three. */
#define TEST_OF_VARIANT(suite, name, variant, ...)                                                 \
	Test(suite, name, .timeout = 120)                                                          \
	{                                                                                          \
		const enum rmw_isa isa = variant;                                                  \
                                                                                                   \
		if (!rmw_isa_supported(isa))                                                       \
			cr_skip_test("this CPU has no %s", rmw_isa_name(isa));                     \
		__VA_ARGS__;                                                                       \
	}
#define TESTS_OF_VARIANTS(suite, name, ...)                                                        \
	TEST_OF_VARIANT(suite, scalar_##name, RMW_ISA_SCALAR, __VA_ARGS__)                         \
	TEST_OF_VARIANT(suite, avx2_##name, RMW_ISA_AVX2, __VA_ARGS__)                             \
	TEST_OF_VARIANT(suite, avx512_##name, RMW_ISA_AVX512, __VA_ARGS__)

/* The end of a page of zeros, before one that can't be read. Never freed. */
static inline uint8_t *
page_end(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(mprotect(p + page, page, PROT_NONE), 0);
	return p + page;
}

#endif
