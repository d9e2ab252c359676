/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector kernels of every instruction set against plain references, bit by bit: all short
 * lengths at all alignments, hard numbers, and nothing beyond the end written or read.
 */
#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>

#include "pktbuf/wire/wire.h"
#include "rmw/kernels.h"
#include "tests/random.h"
#include "tests/unit/page_end.h"

#define LENGTH_MAX 130
#define GUARD      128 /* whole lines, more than any vector */
#define BYTES_MAX  (4 * 4095)

static const enum rmw_isa all[] = {RMW_ISA_SCALAR, RMW_ISA_AVX2, RMW_ISA_AVX512};
static const size_t acc_offsets[] = {0, 1, 4, 17, 32, 60, 63};

/* Numbers of fp32 that have gone wrong somewhere before; as int32 they overflow. */
static const uint32_t hard[] = {
	0x00000000, 0x80000000, /* 0, -0 */
	0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00400000, /* denormals */
	0x00800000, 0x80800000, 0x00800001, 0x80ffffff, /* the smallest normal numbers */
	0x3f800000, 0xbf800000, 0x33800000, 0x33800001, 0x34000000,
	0x4b800000, /* ties at 1, 2^24 */
	0x7f7fffff, 0xff7fffff, 0x73800000, /* the largest, and half its last place */
	0x7f800000, 0xff800000, /* infinities */
	0x7fc00000, 0xffc00000, 0x7fc12345, 0xffdabcde, /* quiet NaN */
	0x7f800001, 0xff800001, 0x7fa54321, 0xffbfffff, /* signalling NaN */
	0x7fffffff, 0xffffffff, /* NaN; int32: the largest, -1 */
};

static bool
is_nan(uint32_t bits)
{
	return (bits & 0x7fffffff) > 0x7f800000;
}

static uint32_t
reference_int32(uint32_t a, uint32_t b)
{
	return (uint32_t)(((uint64_t)a + b) % (UINT64_C(1) << 32));
}

/* What kernels.h promises, written down without the instruction. */
static uint32_t
reference_fp32(uint32_t a, uint32_t b)
{
	volatile float sum;
	float x, y;
	uint32_t bits;

	if (is_nan(a))
		return a | 0x00400000;
	if (is_nan(b))
		return b | 0x00400000;
	if ((a & 0x7fffffff) == 0x7f800000 && (b ^ a) == 0x80000000)
		return 0xffc00000;
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	sum = x + y;
	x = sum;
	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

typedef uint32_t (*reference_fn)(uint32_t, uint32_t);

static void
fill(uint64_t *state, uint8_t *to, size_t bytes, bool whole_elements)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)random_bits(state);
	for (size_t i = 0; whole_elements && i + 4 <= bytes; i += 4)
		if (random_below(state, 2) == 0)
			memcpy(to + i, &hard[random_below(state, sizeof(hard) / 4)], 4);
}

static void
apply(reference_fn reference, uint8_t *acc, const uint8_t *src, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t a, b;

		memcpy(&a, acc + 4 * i, 4);
		memcpy(&b, src + 4 * i, 4);
		a = reference(a, b);
		memcpy(acc + 4 * i, &a, 4);
	}
}

struct arena {
	uint8_t acc[BYTES_MAX + 64 + 2 * GUARD] __attribute__((aligned(64)));
	uint8_t expected[BYTES_MAX + 64 + 2 * GUARD] __attribute__((aligned(64)));
	uint8_t src[BYTES_MAX + 64] __attribute__((aligned(64)));
	uint8_t src_before[BYTES_MAX + 64];
};

static struct arena m;

static void
check_one(uint64_t *state, rmw_reduce_fn kernel, reference_fn reference, size_t acc_offset,
	size_t src_offset, size_t n)
{
	size_t whole = acc_offset + 4 * n + 2 * GUARD;
	uint8_t *acc = m.acc + GUARD + acc_offset;

	fill(state, m.acc, whole, false);
	fill(state, acc, 4 * n, true);
	memcpy(m.expected, m.acc, whole);
	fill(state, m.src + src_offset, 4 * n, true);
	memcpy(m.src_before, m.src, 64 + 4 * n);
	apply(reference, m.expected + (acc - m.acc), m.src + src_offset, n);
	kernel(acc, (const void *[]){m.src + src_offset}, 1, n);
	if (memcmp(m.acc, m.expected, whole) == 0 && memcmp(m.src, m.src_before, 64 + 4 * n) == 0)
		return;
	for (size_t i = 0; i < whole; i++)
		cr_assert_eq(m.acc[i], m.expected[i],
			"n %zu, acc at %zu, src at %zu: byte %td is %02x, not %02x", n, acc_offset,
			src_offset, &m.acc[i] - acc, m.acc[i], m.expected[i]);
	cr_assert_fail("src was written");
}

static void
check_reduce(enum rmw_isa isa, enum weir_dtype type, reference_fn reference)
{
	rmw_reduce_fn kernel =
		rmw_isa_supported(isa) ? rmw_reduction_of(isa, type, WEIR_OP_SUM)->reduce : NULL;
	uint64_t state = random_seed();

	if (!rmw_isa_supported(isa)) {
		cr_assert_null(kernel);
		cr_skip_test("this CPU has no %s", rmw_isa_name(isa));
	}
	cr_assert_not_null(kernel);
	for (size_t a = 0; a < sizeof(acc_offsets) / sizeof(size_t); a++)
		for (size_t n = 0; n <= LENGTH_MAX; n++)
			for (size_t src = 0; src < 64; src++)
				check_one(&state, kernel, reference, acc_offsets[a], src, n);
	for (unsigned int i = 0; i < 64; i++) {
		check_one(&state, kernel, reference, 0, i, 1024);
		check_one(&state, kernel, reference, i, 63 - i, 4095);
	}
}

/* Each pair of hard numbers, at every place of a vector. */
static void
check_pairs(enum rmw_isa isa, enum weir_dtype type, reference_fn reference)
{
	enum { COUNT = sizeof(hard) / sizeof(hard[0]) };
	rmw_reduce_fn kernel =
		rmw_isa_supported(isa) ? rmw_reduction_of(isa, type, WEIR_OP_SUM)->reduce : NULL;
	uint32_t acc[COUNT + 16], src[COUNT + 16], expected[COUNT + 16];

	if (!rmw_isa_supported(isa))
		cr_skip_test("this CPU has no %s", rmw_isa_name(isa));
	for (size_t shift = 0; shift < COUNT; shift++) {
		for (size_t i = 0; i < COUNT; i++) {
			acc[i] = hard[i];
			src[i] = hard[(i + shift) % COUNT];
			expected[i] = reference(acc[i], src[i]);
		}
		kernel(acc, (const void *[]){src}, 1, COUNT);
		for (size_t i = 0; i < COUNT; i++)
			cr_assert_eq(acc[i], expected[i], "%08x + %08x = %08x, not %08x", hard[i],
				src[i], acc[i], expected[i]);
	}
}

static void
check_end(enum rmw_isa isa)
{
	uint8_t *acc = page_end(), *src = page_end();

	if (!rmw_isa_supported(isa))
		cr_skip_test("this CPU has no %s", rmw_isa_name(isa));
	for (size_t n = 0; n <= LENGTH_MAX; n++) {
		rmw_reduction_of(isa, WEIR_DTYPE_INT32, WEIR_OP_SUM)
			->reduce(acc - 4 * n, (const void *[]){src - 4 * n}, 1, n);
		rmw_reduction_of(isa, WEIR_DTYPE_FP32, WEIR_OP_SUM)
			->reduce(acc - 4 * n, (const void *[]){src - 4 * n}, 1, n);
		rmw_kernel_copy_of(isa)(acc - n, src - n, n);
	}
}

static void
check_copy(enum rmw_isa isa)
{
	uint64_t state = random_seed();

	if (!rmw_isa_supported(isa))
		cr_skip_test("this CPU has no %s", rmw_isa_name(isa));
	for (size_t n = 0; n <= 600; n++) {
		size_t from = random_below(&state, 64), to = random_below(&state, 64);

		fill(&state, m.acc, n + 64 + 2 * GUARD, false);
		fill(&state, m.src, n + 64, false);
		memcpy(m.expected, m.acc, sizeof(m.acc));
		memcpy(m.expected + GUARD + to, m.src + from, n);
		rmw_kernel_copy_of(isa)(m.acc + GUARD + to, m.src + from, n);
		cr_assert_eq(memcmp(m.acc, m.expected, sizeof(m.acc)), 0, "%zu bytes, %zu to %zu",
			n, from, to);
	}
}

#define TESTS_OF(isa, name)                                                                        \
	Test(rmw_kernels, name##_int32_sum, .timeout = 90)                                         \
	{                                                                                          \
		check_reduce(isa, WEIR_DTYPE_INT32, reference_int32);                              \
		check_pairs(isa, WEIR_DTYPE_INT32, reference_int32);                               \
	}                                                                                          \
	Test(rmw_kernels, name##_fp32_sum, .timeout = 90)                                          \
	{                                                                                          \
		check_reduce(isa, WEIR_DTYPE_FP32, reference_fp32);                                \
		check_pairs(isa, WEIR_DTYPE_FP32, reference_fp32);                                 \
	}                                                                                          \
	Test(rmw_kernels, name##_end, .timeout = 90)                                               \
	{                                                                                          \
		check_end(isa);                                                                    \
	}                                                                                          \
	Test(rmw_kernels, name##_copy, .timeout = 90)                                              \
	{                                                                                          \
		check_copy(isa);                                                                   \
	}

TESTS_OF(RMW_ISA_SCALAR, scalar)
TESTS_OF(RMW_ISA_AVX2, avx2)
TESTS_OF(RMW_ISA_AVX512, avx512)

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

Test(rmw_kernels, widest_is_the_default, .timeout = 90)
{
	cr_assert_not_null(rmw_reduction(WEIR_DTYPE_FP32, WEIR_OP_SUM));
	cr_assert_eq(rmw_reduction(WEIR_DTYPE_FP32, WEIR_OP_SUM),
		rmw_reduction_of(RMW_ISA_AUTO, WEIR_DTYPE_FP32, WEIR_OP_SUM));
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
