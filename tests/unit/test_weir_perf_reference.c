/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-perf's reference, against the C of each type and operation written out, and against collectives
 * that are played by copying: what is right passes, and what is not doesn't.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/perf/data.h"

#define COUNT 2500 /* more than two chunks of the reference */
#define RANKS 5
#define FIRST 70

static uint64_t buffers[RANKS][COUNT], result[RANKS * COUNT];

static void
fill(const struct perf_data *d)
{
	for (unsigned int r = 0; r < d->ranks; r++)
		perf_data_fill(d, r, 3, FIRST, COUNT, buffers[r]);
}

static size_t
wrong(const struct perf_data *d, const uint8_t *present)
{
	const struct perf_reference r = {
		.data = *d,
		.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.count = FIRST + COUNT,
		.iteration = 3,
	};

	return perf_reference_wrong(&r, present, FIRST, COUNT, result);
}

/* The types' own arithmetic; unsigned, so that it wraps. wide: what sums of an average are kept in. */
#define REDUCE(type, utype, wide)                                                                  \
	static void reduce_##type(const struct perf_data *d)                                       \
	{                                                                                          \
		type *const to = (void *)result;                                                   \
                                                                                                   \
		for (unsigned int i = 0; i < COUNT; i++) {                                         \
			type acc = ((const type *)(const void *)buffers[0])[i];                    \
			wide total = acc;                                                          \
                                                                                                   \
			if (d->op >= WEIR_OP_LAND)                                                 \
				acc = acc != 0;                                                    \
			for (unsigned int r = 1; r < d->ranks; r++) {                              \
				type x = ((const type *)(const void *)buffers[r])[i];              \
                                                                                                   \
				total = (wide)((uint64_t)total + (uint64_t)x);                     \
				if (d->op == WEIR_OP_SUM)                                          \
					acc = (type)((utype)acc + (utype)x);                       \
				else if (d->op == WEIR_OP_PROD)                                    \
					acc = (type)((uint64_t)acc * (uint64_t)x);                 \
				else if (d->op == WEIR_OP_MIN)                                     \
					acc = x < acc ? x : acc;                                   \
				else if (d->op == WEIR_OP_MAX)                                     \
					acc = x > acc ? x : acc;                                   \
				else if (d->op == WEIR_OP_BAND)                                    \
					acc = (type)(acc & x);                                     \
				else if (d->op == WEIR_OP_BOR)                                     \
					acc = (type)(acc | x);                                     \
				else if (d->op == WEIR_OP_BXOR)                                    \
					acc = (type)(acc ^ x);                                     \
				else if (d->op == WEIR_OP_LAND)                                    \
					acc = acc && x;                                            \
				else if (d->op == WEIR_OP_LOR)                                     \
					acc = acc || x;                                            \
				else if (d->op == WEIR_OP_LXOR)                                    \
					acc = !acc != !x;                                          \
			}                                                                          \
			to[i] = d->op == WEIR_OP_AVG ? (type)(total / (wide)d->ranks) : acc;       \
		}                                                                                  \
	}

REDUCE(int8_t, uint8_t, int32_t)
REDUCE(uint8_t, uint8_t, uint32_t)
REDUCE(int16_t, uint16_t, int32_t)
REDUCE(uint16_t, uint16_t, uint32_t)
REDUCE(int32_t, uint32_t, int32_t)
REDUCE(uint32_t, uint32_t, uint32_t)
REDUCE(int64_t, uint64_t, int64_t)
REDUCE(uint64_t, uint64_t, uint64_t)

static void
reduce_integers(const struct perf_data *d)
{
	static void (*const by_type[])(const struct perf_data *) = {reduce_int8_t, reduce_uint8_t,
		reduce_int16_t, reduce_uint16_t, reduce_int32_t, reduce_uint32_t, reduce_int64_t,
		reduce_uint64_t};

	by_type[d->dtype](d);
}

static bool
all_equal(unsigned int bytes)
{
	const uint8_t *at = (const void *)result;

	for (unsigned int i = 1; i < COUNT; i++)
		if (memcmp(at, at + i * bytes, bytes) != 0)
			return false;
	return true;
}

Test(weir_perf_reference, integers, .timeout = 90)
{
	uint8_t but_one[WEIR_BITMAP_BYTES] = {0x1e};

	for (unsigned int type = WEIR_DTYPE_INT8; type <= WEIR_DTYPE_UINT64; type++)
		for (unsigned int op = 0; op <= WEIR_OP_LXOR; op++) {
			struct perf_data d = {1, (enum weir_dtype)type, (enum weir_op)op, RANKS};
			unsigned int bytes = weir_dtype_bytes(type);

			cr_expect(weir_dtype_has_op(type, op));
			fill(&d);
			reduce_integers(&d);
			cr_expect_eq(wrong(&d, NULL), 0u, "type %u, operation %u", type, op);
			cr_expect_not(all_equal(bytes), "no test: type %u, operation %u", type, op);
			cr_expect_gt(wrong(&d, but_one), COUNT / 30,
				"without a rank: type %u, op %u", type, op);
			((uint8_t *)result)[1500 * bytes] ^= 2;
			cr_expect_eq(wrong(&d, NULL), 1u, "type %u, operation %u", type, op);
		}
}

/* fp32 and fp64 by the machine, in another order than the reference's. */
#define REDUCE_REAL(type)                                                                          \
	static void reduce_##type(const struct perf_data *d)                                       \
	{                                                                                          \
		type *const to = (void *)result;                                                   \
                                                                                                   \
		for (unsigned int i = 0; i < COUNT; i++) {                                         \
			type acc = ((const type *)(const void *)buffers[d->ranks - 1])[i];         \
                                                                                                   \
			for (unsigned int r = d->ranks - 1; r-- > 0;) {                            \
				type x = ((const type *)(const void *)buffers[r])[i];              \
                                                                                                   \
				acc = d->op == WEIR_OP_PROD ? acc * x : acc + x;                   \
			}                                                                          \
			to[i] = d->op == WEIR_OP_AVG ? acc / (type)d->ranks : acc;                 \
		}                                                                                  \
	}

REDUCE_REAL(float)
REDUCE_REAL(double)

static const enum weir_op rounded[] = {WEIR_OP_SUM, WEIR_OP_PROD, WEIR_OP_AVG};

Test(weir_perf_reference, rounded_reals, .timeout = 90)
{
	uint8_t but_one[WEIR_BITMAP_BYTES] = {0x1e};

	for (unsigned int k = 0; k < 2 * 3; k++) {
		struct perf_data d = {
			2, k % 2 ? WEIR_DTYPE_FP64 : WEIR_DTYPE_FP32, rounded[k / 2], RANKS};
		float *const single = (void *)result;
		double *const real = (void *)result;

		fill(&d);
		if (k % 2)
			reduce_double(&d);
		else
			reduce_float(&d);
		cr_expect_eq(wrong(&d, NULL), 0u, "%u", k);
		cr_expect_gt(wrong(&d, but_one), COUNT * 9 / 10, "%u", k);
		if (k % 2) {
			real[7] = nextafter(real[7], 9) + 0x1p-49;
			real[9] = NAN;
		} else {
			single[7] += 4e-6f;
			single[9] = NAN;
		}
		cr_expect_eq(wrong(&d, NULL), 2u, "%u", k);
	}
}

/* A finite number of a narrow type; infinite: none, which is less than e4m3 has. */
static double
decoded(enum weir_dtype dtype, unsigned int bits)
{
	const int fraction_bits = dtype == WEIR_DTYPE_FP16 ? 10
		: dtype == WEIR_DTYPE_BF16                 ? 7
		: dtype == WEIR_DTYPE_FP8_E4M3             ? 3
							   : 2;
	const int exponent_bits = (int)weir_dtype_bytes(dtype) * 8 - 1 - fraction_bits;
	const int top = (1 << exponent_bits) - 1, bias = top / 2, one = 1 << fraction_bits;
	const int exponent = (int)bits >> fraction_bits & top, fraction = (int)bits & (one - 1);
	double size = ldexp(fraction + (exponent != 0 ? one : 0),
		(exponent != 0 ? exponent : 1) - bias - fraction_bits);

	if (exponent == top)
		size = INFINITY;
	return bits >> (exponent_bits + fraction_bits) & 1 ? -size : size;
}

/* The nearest number of a narrow type by trying all, so as to share no code with what is tested. */
static uint16_t
nearest(enum weir_dtype dtype, double value)
{
	uint16_t least = 0;
	double off = INFINITY;

	for (unsigned int bits = 0; bits < 1u << 8 * weir_dtype_bytes(dtype); bits++) {
		double d = fabs(decoded(dtype, bits) - value);

		if (d < off || (d <= off && bits % 2 == 0)) {
			off = d;
			least = (uint16_t)bits;
		}
	}
	return least;
}

static unsigned int
narrow_at(enum weir_dtype dtype, const void *raw, unsigned int i)
{
	return weir_dtype_bytes(dtype) == 1 ? ((const uint8_t *)raw)[i]
					    : ((const uint16_t *)raw)[i];
}

Test(weir_perf_reference, halves_accumulate_in_fp32_and_round_once, .timeout = 90)
{
	for (unsigned int k = 0; k < 2 * 3; k++) {
		struct perf_data d = {
			3, k % 2 ? WEIR_DTYPE_FP16 : WEIR_DTYPE_BF16, rounded[k / 2], RANKS};
		struct perf_reference r = {.data = d,
			.collective = WEIR_COLLECTIVE_ALLREDUCE,
			.count = FIRST + 60,
			.iteration = 3};
		uint16_t *const to = (void *)result;

		fill(&d);
		for (unsigned int i = 0; i < 60; i++) {
			float acc = (float)decoded(d.dtype, ((uint16_t *)buffers[0])[i]);

			for (unsigned int s = 1; s < RANKS; s++) {
				float x = (float)decoded(d.dtype, ((uint16_t *)buffers[s])[i]);

				acc = d.op == WEIR_OP_PROD ? acc * x : acc + x;
			}
			to[i] = nearest(d.dtype, (double)(d.op == WEIR_OP_AVG ? acc / RANKS : acc));
		}
		cr_expect_eq(perf_reference_wrong(&r, NULL, FIRST, 60, to), 0u, "%u", k);
		to[5] ^= 2;
		to[9] ^= 0x8000;
		cr_expect_eq(perf_reference_wrong(&r, NULL, FIRST, 60, to), 2u, "%u", k);
	}
}

#define TREE_RANKS 32

/* An element of the ranks [first, first + count) as a tree of so many levels gives it, in which a switch has two sources. */
static double
rounded_by_tree(const struct perf_data *d, const void *const *sent, unsigned int i,
	unsigned int levels, unsigned int first, unsigned int count)
{
	unsigned int half = count / 2;
	double value;

	if (levels == 0) {
		value = decoded(d->dtype, narrow_at(d->dtype, sent[first], i));
		for (unsigned int r = first + 1; r < first + count; r++) {
			double x = decoded(d->dtype, narrow_at(d->dtype, sent[r], i));

			value = d->op == WEIR_OP_PROD ? value * x : value + x;
		}
		return value;
	}
	value = rounded_by_tree(d, sent, i, levels - 1, first, half);
	if (d->op == WEIR_OP_PROD)
		value *= rounded_by_tree(d, sent, i, levels - 1, first + half, half);
	else
		value += rounded_by_tree(d, sent, i, levels - 1, first + half, half);
	return decoded(d->dtype, nearest(d->dtype, value));
}

/* Results of a `narrow` job on a tree of so many levels. Returns how many are wrong: to one switch, to the tree, and to the
 * tree after an element was changed. */
static void
judge_tree(const struct perf_data *d, unsigned int levels, unsigned int count, size_t found[3])
{
	static uint64_t raw[TREE_RANKS][COUNT];
	const void *sent[TREE_RANKS];
	struct perf_reference r = {
		.data = *d, .collective = WEIR_COLLECTIVE_ALLREDUCE, .count = count};
	unsigned int bytes = weir_dtype_bytes(d->dtype), most = 0;
	double largest = 0;

	for (unsigned int s = 0; s < d->ranks; s++) {
		perf_data_fill(d, s, 0, 0, count, raw[s]);
		sent[s] = raw[s];
	}
	for (unsigned int i = 0; i < count; i++) {
		double value = rounded_by_tree(d, sent, i, levels, 0, d->ranks);
		uint16_t bits = nearest(d->dtype, value);

		memcpy((uint8_t *)result + i * bytes, &bits, bytes);
		if (fabs(value) > largest) {
			largest = fabs(value);
			most = i;
		}
	}
	found[0] = perf_reference_wrong(&r, NULL, 0, count, result);
	r.levels = levels;
	r.switches = (1u << levels) - 1;
	found[1] = perf_reference_wrong(&r, NULL, 0, count, result);
	((uint8_t *)result)[most * bytes + bytes - 1] ^= 0x80;
	found[2] = perf_reference_wrong(&r, NULL, 0, count, result);
}

Test(weir_perf_reference, narrow_floats_are_rounded_on_each_level_of_a_tree, .timeout = 90)
{
	static const enum weir_dtype types[] = {
		WEIR_DTYPE_FP16, WEIR_DTYPE_BF16, WEIR_DTYPE_FP8_E4M3, WEIR_DTYPE_FP8_E5M2};
	size_t found[3], others = 0;

	for (unsigned int k = 0; k < 4 * 2 * 2; k++) {
		enum weir_op op = k / 4 % 2 ? WEIR_OP_PROD : WEIR_OP_SUM;
		struct perf_data d = {8, types[k % 4], op, k / 8 ? 8 : 4};
		unsigned int levels = 2 + k / 8;

		judge_tree(&d, levels, weir_dtype_bytes(d.dtype) == 1 ? COUNT : 40, found);
		others += found[0] > 0;
		cr_expect_eq(found[1], 0u, "type %u, op %u: %zu of right ones", types[k % 4], op,
			found[1]);
		cr_expect_eq(found[2], 1u, "type %u, op %u: %zu", types[k % 4], op, found[2]);
	}
	cr_expect_gt(others, 8u, "no test: %zu", others);
}

/* Factors that are denormal have fewer digits. */
Test(weir_perf_reference, denormal_factors_of_a_tree, .timeout = 90)
{
	struct perf_data d = {9, WEIR_DTYPE_FP8_E4M3, WEIR_OP_PROD, TREE_RANKS};
	size_t found[3];

	judge_tree(&d, 2, COUNT, found);
	cr_expect_gt(found[0], 0u);
	cr_expect_eq(found[1], 0u, "%zu", found[1]);
}

Test(weir_perf_reference, minimum_and_maximum_of_ieee, .timeout = 90)
{
	for (unsigned int k = 0; k < 2; k++) {
		struct perf_data d = {4, WEIR_DTYPE_FP32, k ? WEIR_OP_MAX : WEIR_OP_MIN, RANKS};
		float *const to = (void *)result;
		unsigned int nans = 0, other;

		fill(&d);
		for (unsigned int i = 0; i < COUNT; i++) {
			to[i] = ((float *)buffers[0])[i];
			for (unsigned int s = 1; s < RANKS; s++) {
				float x = ((float *)buffers[s])[i];
				bool zeros = x == 0 && to[i] == 0;

				if (isnan(x) || isnan(to[i]))
					to[i] = NAN;
				else if (zeros      ? !signbit(x) == (k != 0)
						: k ? x > to[i]
						    : x < to[i])
					to[i] = x;
			}
			if (isnan(to[i])) {
				to[i] = NAN;
				nans++;
			}
		}
		cr_expect_gt(nans, 10u);
		cr_expect_eq(wrong(&d, NULL), 0u);
		for (other = 0; !isnan(to[other]); other++)
			;
		to[other] = -NAN;
		to[other > 5 ? 0 : 9] += 1;
		cr_expect_eq(wrong(&d, NULL), 2u);
	}
}

/* Which rank's element is at i of what `rank` gets, where nothing is reduced. */
static unsigned int
whose(const struct perf_reference *r, size_t i, size_t *element)
{
	switch ((int)r->collective) {
	case WEIR_COLLECTIVE_BROADCAST: *element = i; return r->root;
	case WEIR_COLLECTIVE_SCATTER: *element = r->rank * r->count + i; return r->root;
	case WEIR_COLLECTIVE_ALLTOALL:
		*element = r->rank * r->count + i % r->count;
		return (unsigned int)(i / r->count);
	default: *element = i % r->count; return (unsigned int)(i / r->count);
	}
}

Test(weir_perf_reference, collectives_that_copy, .timeout = 90)
{
	static const enum weir_collective all[] = {WEIR_COLLECTIVE_BROADCAST,
		WEIR_COLLECTIVE_SCATTER, WEIR_COLLECTIVE_GATHER, WEIR_COLLECTIVE_ALLGATHER,
		WEIR_COLLECTIVE_ALLTOALL};
	uint8_t but_one[WEIR_BITMAP_BYTES] = {0x1d};

	for (unsigned int k = 0; k < 5 * RANKS; k++) {
		struct perf_reference r = {.data = {5, WEIR_DTYPE_INT16, WEIR_OP_SUM, RANKS},
			.collective = all[k / RANKS],
			.rank = k % RANKS,
			.root = k % RANKS, /* so that it is given everything */
			.count = 1999,
			.iteration = 8};
		bool by_source = r.collective >= WEIR_COLLECTIVE_GATHER;
		int16_t *const got = (void *)result;
		size_t n = perf_reference_received(&r), element;

		cr_expect_eq(n, by_source ? RANKS * r.count : r.count);
		for (size_t i = 0; i < n; i++) {
			unsigned int from = whose(&r, i, &element);

			perf_data_fill(&r.data, from, 8, element, 1, &got[i]);
		}
		cr_expect_eq(perf_reference_wrong(&r, NULL, 0, n, got), 0u, "%u", k);
		/* In pieces, as blocks are. */
		cr_expect_eq(perf_reference_wrong(&r, NULL, 500, n - 500, got + 500), 0u, "%u", k);
		got[n - 1] ^= 1;
		cr_expect_eq(perf_reference_wrong(&r, NULL, 0, n, got), 1u, "%u", k);
		got[n - 1] ^= 1;
		if (!by_source)
			continue;
		memset(got + r.count, 0, r.count * 2); /* rank 1 is missing */
		cr_expect_eq(perf_reference_wrong(&r, but_one, 0, n, got), 0u, "%u", k);
		cr_expect_gt(perf_reference_wrong(&r, NULL, 0, n, got), r.count - 9, "%u", k);
	}
}

Test(weir_perf_reference, a_slice_of_what_is_reduced, .timeout = 90)
{
	struct perf_reference r = {.data = {6, WEIR_DTYPE_UINT64, WEIR_OP_MAX, RANKS},
		.collective = WEIR_COLLECTIVE_REDUCESCATTER,
		.rank = 3,
		.count = 100};
	uint64_t x;

	for (size_t i = 0; i < 100; i++)
		for (unsigned int s = 0; s < RANKS; s++) {
			perf_data_fill(&r.data, s, 0, 300 + i, 1, &x);
			result[i] = s == 0 || x > result[i] ? x : result[i];
		}
	cr_expect_eq(perf_reference_wrong(&r, NULL, 0, 100, result), 0u);
	r.rank = 2;
	cr_expect_eq(perf_reference_wrong(&r, NULL, 0, 100, result), 100u);
	cr_expect_eq(perf_reference_sent(&r), 500u);
	cr_expect_eq(perf_reference_received(&r), 100u);
}

Test(weir_perf_reference, changed_send_buffer_is_counted, .timeout = 90)
{
	struct perf_reference r = {.data = {7, WEIR_DTYPE_UINT8, WEIR_OP_SUM, RANKS},
		.collective = WEIR_COLLECTIVE_ALLTOALL,
		.rank = 4,
		.count = 700};
	uint8_t *const sent = (void *)result;

	perf_data_fill(&r.data, 4, 0, 0, RANKS * 700, sent);
	cr_expect_eq(perf_reference_changed(&r, sent), 0u);
	sent[RANKS * 700 - 1] ^= 4;
	sent[0] ^= 1;
	cr_expect_eq(perf_reference_changed(&r, sent), 2u);
	r.collective = WEIR_COLLECTIVE_BROADCAST; /* of which it is not the root */
	cr_expect_eq(perf_reference_changed(&r, NULL), 0u);
}

Test(weir_perf_reference, types_without_operations, .timeout = 90)
{
	cr_expect_not(weir_dtype_has_op(WEIR_DTYPE_FP16, WEIR_OP_BAND));
	cr_expect_not(weir_dtype_has_op(WEIR_DTYPE_FP64, WEIR_OP_LXOR));
	cr_expect_not(weir_dtype_has_op(WEIR_DTYPES, WEIR_OP_SUM));
	cr_expect_not(weir_dtype_has_op(WEIR_DTYPE_INT8, 11));
	cr_expect(weir_dtype_has_op(WEIR_DTYPE_BF16, WEIR_OP_AVG));
}
