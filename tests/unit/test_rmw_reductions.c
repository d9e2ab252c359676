/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every reduction (type, operation) of every instruction set against the model, bit by bit: short
 * lengths at all alignments, hard numbers, nothing beyond the end written or read; the roundings
 * and the divisions by themselves; sums of sums.
 */
#include "apps/verify/verify.h"
#include "tests/random.h"
#include "tests/unit/variants.h"

#define LENGTH_MAX   1100
#define GUARD        128 /* whole lines, more than any vector */
#define COUNT_MAX    256
#define TOGETHER_MAX 9

static uint64_t
load(const uint8_t *p, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, p, size);
	return bits;
}

/* A number of a format that has gone wrong somewhere before: ties, denormals, infinities, NaN. */
static uint64_t
hard_float(uint64_t *state, unsigned int width, unsigned int fraction_bits)
{
	uint64_t exponents = UINT64_C(1) << (width - 1 - fraction_bits), bias = exponents / 2 - 1;
	uint64_t half = UINT64_C(1) << (fraction_bits - 1), whole = 2 * half;
	const uint64_t exponent[] = {0, 1, 2, bias - 1, bias, bias, bias + 1, bias + 2,
		bias + fraction_bits, bias + fraction_bits + 1, exponents - 3, exponents - 2,
		exponents - 1, random_below(state, exponents)};
	const uint64_t fraction[] = {0, 0, 1, 2, 3, half - 1, half, half + 1, whole - 2, whole - 1,
		random_below(state, whole), random_below(state, whole)};

	return random_below(state, 2) << (width - 1) |
		exponent[random_below(state, sizeof(exponent) / 8)] << fraction_bits |
		fraction[random_below(state, sizeof(fraction) / 8)];
}

static uint64_t
hard_integer(uint64_t *state, unsigned int width)
{
	uint64_t sign = UINT64_C(1) << (width - 1);
	const uint64_t number[] = {
		0, 0, 1, 2, 3, ~UINT64_C(0), ~UINT64_C(1), sign, sign - 1, sign + 1, sign >> 1};

	return number[random_below(state, sizeof(number) / 8)];
}

static uint64_t
number(uint64_t *state, enum weir_dtype type)
{
	if (random_below(state, 3) == 0)
		return random_bits(state);
	if (weir_dtype_is_float(type))
		return hard_float(
			state, 8 * weir_dtype_bytes(type), weir_dtype_float(type).fraction_bits);
	return hard_integer(state, 8 * weir_dtype_bytes(type));
}

static void
fill(uint64_t *state, enum weir_dtype type, uint8_t *to, size_t n)
{
	size_t size = weir_dtype_bytes(type);

	for (size_t i = 0; i < n; i++) {
		uint64_t bits = number(state, type);

		memcpy(to + i * size, &bits, size);
	}
}

struct arena {
	uint8_t acc[8 * LENGTH_MAX + 64 + 2 * GUARD] __attribute__((aligned(64)));
	uint8_t before[8 * LENGTH_MAX + 64 + 2 * GUARD];
	uint8_t src[TOGETHER_MAX][8 * LENGTH_MAX + 64] __attribute__((aligned(64)));
	uint64_t contribution[LENGTH_MAX][COUNT_MAX];
};

static struct arena m;

static void
check_guards(enum weir_dtype type, enum weir_op op, const uint8_t *acc, size_t bytes)
{
	const uint8_t *end = acc + bytes;

	cr_assert(memcmp(m.acc, m.before, (size_t)(acc - m.acc)) == 0, "%s %s: before acc",
		weir_dtype_text(type), weir_op_text(op));
	cr_assert(memcmp(end, m.before + (end - m.acc), GUARD) == 0, "%s %s: beyond %zu bytes",
		weir_dtype_text(type), weir_op_text(op), bytes);
}

/* Contributions [c, c + k) at any alignment, in one pass. */
static void
add(uint64_t *state, rmw_reduce_fn reduce, enum weir_dtype type, uint8_t *acc, size_t n,
	unsigned int c, unsigned int k)
{
	size_t size = weir_dtype_bytes(type);
	const void *src[TOGETHER_MAX] = {NULL};

	for (unsigned int s = 0; s < k; s++) {
		uint8_t *from = m.src[s] + random_below(state, 64);

		fill(state, type, from, n);
		for (size_t i = 0; i < n; i++)
			m.contribution[i][c + s] = load(from + i * size, size);
		src[s] = from;
	}
	reduce(acc, src, k, n);
	for (unsigned int s = 0; s < k; s++)
		for (size_t i = 0; i < n; i++)
			cr_assert_eq(load((const uint8_t *)src[s] + i * size, size),
				m.contribution[i][c + s]);
}

/* One block of n elements from `count` contributions, in groups: the model takes them one by
 * one. */
static void
check_block(uint64_t *state, enum rmw_isa isa, enum weir_dtype type, enum weir_op op, size_t n,
	unsigned int count)
{
	const struct rmw_reduction *r = rmw_reduction_of(isa, type, op);
	size_t size = weir_dtype_bytes(type);
	uint8_t *acc = m.acc + GUARD + (random_below(state, 2) == 0 ? 0 : random_below(state, 64));
	size_t around = GUARD + 64 + n * r->acc_bytes + GUARD;

	for (size_t i = 0; i < around; i++)
		m.before[i] = (uint8_t)random_bits(state);
	memcpy(m.acc, m.before, around);
	for (unsigned int c = 0, k; c < count; c += k) {
		k = 1 + (unsigned int)random_below(state, TOGETHER_MAX);
		k = k < count - c ? k : count - c;
		add(state, c == 0 ? r->begin : r->reduce, type, acc, n, c, k);
	}
	check_guards(type, op, acc, n * r->acc_bytes);
	if (r->finish != NULL)
		r->finish(acc, n, count);
	check_guards(type, op, acc, n * r->acc_bytes);
	for (size_t i = 0; i < n; i++) {
		uint64_t result = load(acc + i * size, size);
		uint64_t expected = verify_reduce(type, op, m.contribution[i], count);

		cr_assert_eq(result, expected,
			"%s %s %s of %u: element %zu of %zu is %#lx, not %#lx (%#lx, %#lx, ...)",
			rmw_isa_name(isa), weir_dtype_text(type), weir_op_text(op), count, i, n,
			result, expected, m.contribution[i][0], m.contribution[i][1]);
	}
}

#define FOR_EACH_REDUCTION(type, op)                                                               \
	for (enum weir_dtype type = 0; (int)type < WEIR_DTYPES; type++)                            \
		for (enum weir_op op = 0; op <= WEIR_OP_LXOR; op++)                                \
			if (weir_dtype_has_op(type, op))

static void
check_blocks(enum rmw_isa isa)
{
	uint64_t state = random_seed();

	FOR_EACH_REDUCTION(type, op)
	{
		for (size_t n = 0; n <= 130; n++)
			check_block(&state, isa, type, op, n,
				1 + (unsigned int)random_below(&state, 12));
		for (unsigned int i = 0; i < 4; i++)
			check_block(&state, isa, type, op, LENGTH_MAX - random_below(&state, 130),
				2 + i);
		check_block(&state, isa, type, op, 33, COUNT_MAX);
	}
}

static void
check_end(enum rmw_isa isa)
{
	uint8_t *acc = page_end(), *src = page_end();

	FOR_EACH_REDUCTION(type, op)
	{
		const struct rmw_reduction *r = rmw_reduction_of(isa, type, op);

		for (size_t n = 0; n <= 130; n++) {
			uint8_t *to = acc - n * r->acc_bytes;
			const void *from = src - n * weir_dtype_bytes(type);

			r->begin(to, (const void *[]){from, from}, 2, n);
			r->reduce(to, (const void *[]){from, from}, 2, n);
			if (r->finish != NULL)
				r->finish(to, n, 4);
		}
	}
}

/* Accumulators that finish is given by themselves, and how many wait. */
static struct {
	uint64_t sum[4096];
	size_t n;
} pending;

static void
flush(enum rmw_isa isa, enum weir_dtype type, enum weir_op op, unsigned int count)
{
	const struct rmw_reduction *r = rmw_reduction_of(isa, type, op);
	size_t size = weir_dtype_bytes(type);
	static uint8_t acc[sizeof(pending.sum)] __attribute__((aligned(64)));

	for (size_t i = 0; i < pending.n; i++)
		memcpy(acc + i * r->acc_bytes, &pending.sum[i], r->acc_bytes);
	r->finish(acc, pending.n, count);
	for (size_t i = 0; i < pending.n; i++) {
		uint64_t result = load(acc + i * size, size), expected;

		if (op == WEIR_OP_AVG)
			expected = verify_average(type, pending.sum[i], count);
		else
			expected = verify_round(type, (uint32_t)pending.sum[i]);
		cr_assert_eq(result, expected, "%s %s %s: %#lx by %u is %#lx, not %#lx",
			rmw_isa_name(isa), weir_dtype_text(type), weir_op_text(op), pending.sum[i],
			count, result, expected);
	}
	pending.n = 0;
}

static void
finish_one(
	enum rmw_isa isa, enum weir_dtype type, enum weir_op op, uint64_t sum, unsigned int count)
{
	pending.sum[pending.n++] = sum;
	if (pending.n == sizeof(pending.sum) / 8)
		flush(isa, type, op, count);
}

/* Every number of the narrow types, and beside and between each two of them. */
static void
check_roundings(enum rmw_isa isa)
{
	for (enum weir_dtype type = 0; (int)type < WEIR_DTYPES; type++) {
		if (weir_dtype_is_float(type) == 0 || weir_dtype_bytes(type) > 2)
			continue;
		for (uint32_t half = 0; half >> 8 * weir_dtype_bytes(type) == 0; half++) {
			uint32_t x = verify_widen(type, (uint16_t)half);
			uint32_t next = verify_widen(type, (uint16_t)(half + 1));
			uint32_t tie = x / 2 + next / 2 + (x & next & 1);
			const uint32_t sums[] = {x - 1, x, x + 1, tie - 1, tie, tie + 1};

			for (size_t i = 0; i < sizeof(sums) / 4; i++)
				finish_one(isa, type, WEIR_OP_SUM, sums[i], 1);
		}
		flush(isa, type, WEIR_OP_SUM, 1);
	}
}

/* Every sum that 256 contributions of 8 bits can have; of the others, round about multiples. */
static void
check_divisions(enum rmw_isa isa)
{
	uint64_t state = random_seed();

	for (unsigned int count = 1; count <= COUNT_MAX; count++) {
		for (int sum = -128 * (int)count; sum <= 127 * (int)count; sum++)
			finish_one(isa, WEIR_DTYPE_INT8, WEIR_OP_AVG, (uint32_t)sum, count);
		flush(isa, WEIR_DTYPE_INT8, WEIR_OP_AVG, count);
		for (unsigned int sum = 0; sum <= 255 * count; sum++)
			finish_one(isa, WEIR_DTYPE_UINT8, WEIR_OP_AVG, sum, count);
		flush(isa, WEIR_DTYPE_UINT8, WEIR_OP_AVG, count);
		for (enum weir_dtype type = WEIR_DTYPE_INT16; type <= WEIR_DTYPE_UINT64; type++) {
			for (unsigned int i = 0; i < 400; i++) {
				uint64_t element = number(&state, type), sum;

				if (type == WEIR_DTYPE_INT16)
					sum = (uint64_t)((int16_t)element * (int64_t)count);
				else if (type == WEIR_DTYPE_UINT16)
					sum = (uint16_t)element * count;
				else
					sum = element * (i % 2 == 0 ? 1 : count);
				finish_one(isa, type, WEIR_OP_AVG, sum, count);
				if ((int16_t)element > 0) /* or it is more than there can be */
					finish_one(isa, type, WEIR_OP_AVG, sum - 1, count);
			}
			flush(isa, type, WEIR_OP_AVG, count);
		}
	}
}

/* The result of sums of sums: `per` contributions in each but the last one. */
static uint64_t
wide_model(enum weir_dtype type, enum weir_op op, const uint64_t *x, unsigned int count,
	unsigned int per)
{
	const enum weir_dtype acc = weir_dtype_is_float(type) ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32;
	const enum weir_op sum = op == WEIR_OP_AVG ? WEIR_OP_SUM : op;
	uint64_t wide[COUNT_MAX], sums[COUNT_MAX] = {0}, result;
	unsigned int n = 0;

	for (unsigned int c = 0; c < count; c++) {
		if (acc == WEIR_DTYPE_FP32)
			wide[c] = verify_widen(type, (uint16_t)x[c]);
		else if (type == WEIR_DTYPE_INT8)
			wide[c] = (uint32_t)(int8_t)x[c];
		else if (type == WEIR_DTYPE_INT16)
			wide[c] = (uint32_t)(int16_t)x[c];
		else
			wide[c] = x[c];
	}
	for (unsigned int c = 0; c < count; c += per)
		sums[n++] = verify_reduce(acc, sum, wide + c, per < count - c ? per : count - c);
	result = verify_reduce(acc, sum, sums, n);
	return op == WEIR_OP_AVG ? verify_average(type, result, count)
				 : verify_round(type, (uint32_t)result);
}

/* Sums of `per` contributions each, and their sum: of n elements. */
static void
check_sums(uint64_t *state, enum rmw_isa isa, enum weir_dtype type, enum weir_op op, size_t n,
	unsigned int count, unsigned int per)
{
	static uint8_t part[TOGETHER_MAX][4 * LENGTH_MAX + 64];
	const struct rmw_reduction *r = rmw_reduction_of(isa, type, op);
	size_t size = weir_dtype_bytes(type);
	uint8_t *acc = m.acc + GUARD + random_below(state, 64);
	struct rmw_reduction wide;
	const void *src[TOGETHER_MAX] = {NULL};
	unsigned int parts = 0;

	cr_assert(rmw_reduction_wide_of(isa, type, op, &wide));
	cr_assert_eq(wide.acc_bytes, 4);
	for (unsigned int c = 0; c < count; c += per, parts++) {
		uint8_t *to = part[parts] + random_below(state, 64);

		add(state, r->begin, type, to, n, c, per < count - c ? per : count - c);
		src[parts] = to;
	}
	wide.begin(acc, src, 1, n);
	if (parts > 1)
		wide.reduce(acc, src + 1, parts - 1, n);
	wide.finish(acc, n, count);
	for (size_t i = 0; i < n; i++) {
		uint64_t result = load(acc + i * size, size);
		uint64_t expected = wide_model(type, op, m.contribution[i], count, per);

		cr_assert_eq(result, expected,
			"%s %s %s of %u by %u: element %zu of %zu is %#lx, not %#lx",
			rmw_isa_name(isa), weir_dtype_text(type), weir_op_text(op), count, per, i,
			n, result, expected);
	}
}

static bool
is_wide(enum weir_dtype type, enum weir_op op)
{
	bool small = weir_dtype_bytes(type) < 4, real = weir_dtype_is_float(type) != 0;

	return small && (op == WEIR_OP_AVG || (real && (op == WEIR_OP_SUM || op == WEIR_OP_PROD)));
}

static void
check_wide(enum rmw_isa isa)
{
	uint64_t state = random_seed();
	struct rmw_reduction wide;

	for (unsigned int type = 0; type < 20; type++)
		for (unsigned int op = 0; op < 20; op++) {
			if (type >= WEIR_DTYPES || !is_wide(type, op)) {
				cr_assert_not(rmw_reduction_wide_of(isa, type, op, &wide), "%u %u",
					type, op);
				continue;
			}
			for (unsigned int run = 0; run < 60; run++) {
				unsigned int per =
					1 + (unsigned int)random_below(&state, TOGETHER_MAX);

				check_sums(&state, isa, type, op, random_below(&state, 130),
					1 + (unsigned int)random_below(&state, TOGETHER_MAX * per),
					per);
			}
		}
}

TESTS_OF_VARIANTS(rmw_reductions, blocks, check_blocks(isa))
TESTS_OF_VARIANTS(rmw_reductions, end, check_end(isa))
TESTS_OF_VARIANTS(rmw_reductions, roundings, check_roundings(isa))
TESTS_OF_VARIANTS(rmw_reductions, wide, check_wide(isa))
TESTS_OF_VARIANTS(rmw_reductions, divisions, check_divisions(isa))

/* Every variant serves the same cells, or a result would depend on the machine. */
Test(rmw_reductions, same_cells_in_every_variant, .timeout = 90)
{
	struct rmw_reduction wide;

	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(rmw_reduction_wide_of(all[i], WEIR_DTYPE_FP16, WEIR_OP_SUM, &wide),
			rmw_isa_supported(all[i]));
	for (unsigned int t = 0; t < 20; t++) {
		for (unsigned int o = 0; o < 20; o++) {
			enum weir_dtype type = (enum weir_dtype)t;
			enum weir_op op = (enum weir_op)o;

			for (size_t i = 0; i < 3; i++) {
				const struct rmw_reduction *r = rmw_reduction_of(all[i], type, op);

				cr_assert_eq(r != NULL,
					weir_dtype_has_op(type, op) && rmw_isa_supported(all[i]),
					"%s %s %s", rmw_isa_name(all[i]), weir_dtype_text(type),
					weir_op_text(op));
				if (r == NULL)
					continue;
				cr_assert(r->begin != NULL && r->reduce != NULL);
				cr_assert(r->acc_bytes == weir_dtype_bytes(type) ||
					(r->acc_bytes == 4 && r->finish != NULL));
			}
		}
	}
}

Test(rmw_reductions, selected, .timeout = 90)
{
	cr_assert_eq(rmw_reduction(WEIR_DTYPE_BF16, WEIR_OP_AVG),
		rmw_reduction_of(RMW_ISA_AUTO, WEIR_DTYPE_BF16, WEIR_OP_AVG));
	rmw_kernels_select(RMW_ISA_SCALAR);
	cr_assert_eq(rmw_reduction(WEIR_DTYPE_BF16, WEIR_OP_AVG),
		rmw_reduction_of(RMW_ISA_SCALAR, WEIR_DTYPE_BF16, WEIR_OP_AVG));
	cr_assert_null(rmw_reduction(WEIR_DTYPE_FP16, WEIR_OP_BXOR));
	cr_assert_null(rmw_reduction((enum weir_dtype)WEIR_DTYPES, WEIR_OP_SUM));
	cr_assert_null(rmw_reduction(WEIR_DTYPE_INT8, (enum weir_op)11));
	cr_assert_null(rmw_reduction((enum weir_dtype) - 1, (enum weir_op) - 1));
}
