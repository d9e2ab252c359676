/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check of results, on collectives that are played by copying and reducing: what is right passes, and what is not
 * doesn't. Reductions of one element are checked against rmw's kernels (test_rmw_reductions.c), and by examples that a
 * person can check (tests/functional/test_reference.py).
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/verify/verify.h"

#define COUNT      2500 /* more than two chunks of the check */
#define RANKS      5
#define FIRST      70
#define TREE_RANKS 32

static uint64_t buffers[TREE_RANKS][COUNT], result[RANKS * COUNT];

/* An allreduce whose buffers begin with the data's element FIRST. */
static struct verify
call_of(enum weir_dtype dtype, enum weir_op op, unsigned int ranks)
{
	return (struct verify){
		.call = {.count = COUNT, .dtype = dtype, .op = op, .recv = result},
		.ranks = ranks,
		.seed = 1,
		.iteration = 3,
		.first = FIRST,
		.elements = 256,
	};
}

static uint64_t
get(enum weir_dtype dtype, const void *from, size_t i)
{
	uint64_t bits = 0;

	memcpy(&bits, (const uint8_t *)from + i * weir_dtype_bytes(dtype), weir_dtype_bytes(dtype));
	return bits;
}

static void
put(enum weir_dtype dtype, size_t i, uint64_t bits)
{
	memcpy((uint8_t *)result + i * weir_dtype_bytes(dtype), &bits, weir_dtype_bytes(dtype));
}

static void
flip(enum weir_dtype dtype, size_t i, uint64_t bits)
{
	put(dtype, i, get(dtype, result, i) ^ bits);
}

/* The ranks' data; and their reductions, in another order than the check's, of all ranks but one (of all: RANKS). */
static void
reduce(const struct verify *v, unsigned int but)
{
	const enum weir_dtype dtype = v->call.dtype;

	for (unsigned int r = 0; r < v->ranks; r++)
		verify_fill(v, r, 0, COUNT, buffers[r]);
	for (size_t i = 0; i < COUNT; i++) {
		uint64_t x[RANKS];
		unsigned int n = 0;

		for (unsigned int r = v->ranks; r-- > 0;)
			if (r != but)
				x[n++] = get(dtype, buffers[r], i);
		put(dtype, i, verify_reduce(dtype, v->call.op, x, n));
	}
}

static bool
all_equal(enum weir_dtype dtype)
{
	for (size_t i = 1; i < COUNT; i++)
		if (get(dtype, result, i) != get(dtype, result, 0))
			return false;
	return true;
}

Test(verify, every_type_and_operation, .timeout = 90)
{
	uint8_t but_one[WEIR_BITMAP_BYTES] = {0x1b};

	for (unsigned int t = 0; t < WEIR_DTYPES; t++)
		for (unsigned int o = 0; o < WEIR_OPS; o++) {
			const enum weir_dtype dtype = (enum weir_dtype)t;
			struct verify v = call_of(dtype, (enum weir_op)o, RANKS);
			unsigned int top = 8 * weir_dtype_bytes(dtype) - 2;

			if (!weir_dtype_has_op(t, o))
				continue;
			reduce(&v, RANKS);
			cr_expect_eq(verify_wrong(&v, NULL, 0), 0u, "type %u, op %u", t, o);
			cr_expect_not(all_equal(dtype), "no test: type %u, op %u", t, o);
			cr_expect_gt(verify_wrong_part(&v, but_one, 0, COUNT, result), COUNT / 30,
				"with a rank too many: type %u, op %u", t, o);
			flip(dtype, 1500, UINT64_C(1) << top);
			cr_expect_eq(verify_wrong(&v, NULL, 0), 1u, "type %u, op %u", t, o);
			v.iteration++;
			cr_expect_gt(verify_wrong(&v, NULL, 0), COUNT / 30, "type %u, op %u", t, o);
			v.iteration--;
			reduce(&v, 2);
			cr_expect_eq(verify_wrong_part(&v, but_one, 0, COUNT, result), 0u,
				"without a rank: type %u, op %u", t, o);
		}
}

Test(verify, sums_of_integers_wrap, .timeout = 90)
{
	struct verify v = call_of(WEIR_DTYPE_INT32, WEIR_OP_SUM, RANKS);
	bool overflowed = false;
	int32_t x;

	for (size_t i = 0; i < 100; i++) {
		int64_t sum = 0;

		for (unsigned int r = 0; r < RANKS; r++) {
			verify_fill(&v, r, i, 1, &x);
			sum += x;
		}
		overflowed |= sum != (int32_t)sum;
	}
	cr_expect(overflowed, "the data must make them");
}

Test(verify, floats_pass_within_the_bound_alone, .timeout = 90)
{
	static const enum weir_op rounded[] = {WEIR_OP_SUM, WEIR_OP_PROD, WEIR_OP_AVG};
	float *const single = (void *)result;
	double *const real = (void *)result;

	for (unsigned int k = 0; k < 2 * 3; k++) {
		struct verify v =
			call_of(k % 2 ? WEIR_DTYPE_FP64 : WEIR_DTYPE_FP32, rounded[k / 2], RANKS);

		reduce(&v, RANKS);
		if (k % 2) {
			real[7] = nextafter(real[7], 9) + 0x1p-49;
			real[9] = NAN;
		} else {
			single[7] += 4e-6f;
			single[9] = NAN;
		}
		cr_expect_eq(verify_wrong(&v, NULL, 0), 2u, "%u", k);
	}
	/* The one nearest number, where no order rounds before: 16 + 1 + 1 in fp8 is 18. */
	for (unsigned int r = 0; r < 3; r++)
		*(uint8_t *)buffers[r] = (uint8_t)verify_bits(WEIR_DTYPE_FP8_E4M3, r == 0 ? 16 : 1);
	for (int off = -1; off <= 1; off++) {
		struct verify v = call_of(WEIR_DTYPE_FP8_E4M3, WEIR_OP_SUM, 3);
		uint8_t got = (uint8_t)(verify_bits(WEIR_DTYPE_FP8_E4M3, 18) + (uint64_t)off);

		cr_expect_eq(
			verify_wrong_reduced(&v,
				(const void *[]){buffers[0], buffers[1], buffers[2]}, 3, 1, &got),
			off != 0);
	}
}

/* A NaN must be the canonical one, and -0 is less than +0. */
Test(verify, minimum_and_maximum_of_ieee, .timeout = 90)
{
	for (unsigned int k = 0; k < 2; k++) {
		struct verify v = call_of(WEIR_DTYPE_FP32, k ? WEIR_OP_MAX : WEIR_OP_MIN, RANKS);
		float *const to = (void *)result;
		size_t nan = 0, zero = 0;

		reduce(&v, RANKS);
		while (!isnan(to[nan]))
			nan++;
		for (size_t i = 0; i < COUNT && zero == 0; i++)
			for (unsigned int r = 0; r < RANKS; r++)
				if (!isnan(to[i]) && get(WEIR_DTYPE_FP32, buffers[r], i) << 1 == 0)
					zero = i;
		cr_assert_neq(zero, 0u, "no test");
		for (unsigned int r = 0; r < RANKS; r++) /* of both signs */
			((float *)buffers[r])[0] = r % 2 ? -0.0f : 0.0f;
		to[0] = k ? 0.0f : -0.0f;
		cr_expect_eq(verify_wrong_reduced(
				     &v, (const void *[]){buffers[0], buffers[1]}, 2, 1, result),
			0u);
		to[0] = -to[0];
		cr_expect_eq(verify_wrong_reduced(
				     &v, (const void *[]){buffers[0], buffers[1]}, 2, 1, result),
			1u);
		reduce(&v, RANKS);
		to[nan] = -NAN;
		cr_expect_eq(verify_wrong(&v, NULL, 0), 1u);
	}
}

/* An element of the ranks [first, first + count) as a tree of so many levels gives it, in which a switch has two sources. */
static double
rounded_by_tree(const struct verify *v, size_t i, unsigned int levels, unsigned int first,
	unsigned int count)
{
	const enum weir_dtype dtype = v->call.dtype;
	unsigned int half = count / 2;
	bool product = v->call.op == WEIR_OP_PROD;
	double value = product, x;

	for (unsigned int r = first; levels == 0 && r < first + count; r++) {
		x = verify_value(dtype, get(dtype, buffers[r], i));
		value = product ? value * x : value + x;
	}
	if (levels == 0)
		return value;
	value = rounded_by_tree(v, i, levels - 1, first, half);
	x = rounded_by_tree(v, i, levels - 1, first + half, half);
	value = product ? value * x : value + x;
	return verify_value(dtype, verify_bits(dtype, (long double)value));
}

/* Results of a `narrow` job on a tree of so many levels. Returns how many are wrong: to one switch, to the tree, and to the
 * tree after an element was changed. */
static void
judge_tree(struct verify *v, unsigned int levels, size_t found[3])
{
	const enum weir_dtype dtype = v->call.dtype;
	double largest = 0;
	size_t most = 0;

	for (unsigned int r = 0; r < v->ranks; r++)
		verify_fill(v, r, 0, COUNT, buffers[r]);
	for (size_t i = 0; i < COUNT; i++) {
		double value = rounded_by_tree(v, i, levels, 0, v->ranks);

		put(dtype, i, verify_bits(dtype, (long double)value));
		if (fabs(value) > largest) {
			largest = fabs(value);
			most = i;
		}
	}
	found[0] = verify_wrong(v, NULL, 0);
	v->levels = levels;
	v->switches = (1u << levels) - 1;
	found[1] = verify_wrong(v, NULL, 0);
	flip(dtype, most, UINT64_C(1) << (8 * weir_dtype_bytes(dtype) - 1));
	found[2] = verify_wrong(v, NULL, 0);
}

Test(verify, narrow_floats_are_rounded_on_each_level_of_a_tree, .timeout = 90)
{
	size_t found[3], others = 0;

	for (unsigned int t = 0; t < WEIR_DTYPES; t++)
		for (unsigned int k = 0; k < 2 * 2; k++) {
			struct verify v = call_of((enum weir_dtype)t,
				k % 2 ? WEIR_OP_PROD : WEIR_OP_SUM, k / 2 ? 8 : 4);

			if (!weir_dtype_is_float(t) || weir_dtype_bytes(t) > 2)
				continue;
			judge_tree(&v, 2 + k / 2, found);
			others += found[0] > 0;
			cr_expect_eq(
				found[1], 0u, "type %u, %u: %zu of right ones", t, k, found[1]);
			cr_expect_eq(found[2], 1u, "type %u, %u: %zu", t, k, found[2]);
		}
	cr_expect_gt(others, 8u, "no test: %zu", others);
}

/* Factors that are denormal have fewer digits. */
Test(verify, denormal_factors_of_a_tree, .timeout = 90)
{
	struct verify v = call_of(WEIR_DTYPE_FP8_E4M3, WEIR_OP_PROD, TREE_RANKS);
	size_t found[3];

	v.seed = 9;
	judge_tree(&v, 2, found);
	cr_expect_gt(found[0], 0u);
	cr_expect_eq(found[1], 0u, "%zu", found[1]);
}

/* Which rank's element is at i of what `rank` gets, where nothing is reduced. */
static unsigned int
whose(const struct verify *v, size_t i, size_t *element)
{
	const struct collective_row *row = &collective_table[v->call.collective];
	size_t own = row->result == RESULT_SLICE || row->result == RESULT_COLUMN
		? v->rank * v->call.count
		: 0;

	*element = own + i % v->call.count;
	return row->contribution == CONTRIBUTION_ROOT ? v->call.root
						      : (unsigned int)(i / v->call.count);
}

Test(verify, collectives_that_copy, .timeout = 90)
{
	uint8_t but_one[WEIR_BITMAP_BYTES] = {0x1d};

	for (unsigned int k = 0; k < 16 * RANKS; k++) {
		struct verify v = call_of(WEIR_DTYPE_INT16, WEIR_OP_SUM, RANKS);
		bool by_source;
		int16_t *const got = (void *)result;
		size_t n, element;

		v.call.collective = (enum weir_collective)(k / RANKS);
		v.call.count = 1999;
		v.rank = v.call.root = k % RANKS; /* so that it is given everything */
		if (verify_reduces(v.call.collective) || verify_received(&v) == 0)
			continue;
		by_source = verify_gathers(v.call.collective);
		n = verify_received(&v);
		cr_expect_eq(n, by_source ? RANKS * v.call.count : v.call.count);
		for (size_t i = 0; i < n; i++) {
			unsigned int from = whose(&v, i, &element);

			verify_fill(&v, from, element, 1, &got[i]);
		}
		cr_expect_eq(verify_wrong(&v, NULL, 0), 0u, "%u", k);
		/* In pieces, as blocks are. */
		cr_expect_eq(verify_wrong_part(&v, NULL, 500, n - 500, got + 500), 0u, "%u", k);
		got[n - 1] ^= 1;
		cr_expect_eq(verify_wrong(&v, NULL, 0), 1u, "%u", k);
		got[n - 1] ^= 1;
		if (!by_source)
			continue;
		memset(got + v.call.count, 0, v.call.count * 2); /* rank 1 is missing */
		cr_expect_eq(verify_wrong_part(&v, but_one, 0, n, got), 0u, "%u", k);
		cr_expect_gt(verify_wrong(&v, NULL, 0), v.call.count - 9, "%u", k);
	}
}

Test(verify, a_slice_of_what_is_reduced, .timeout = 90)
{
	struct verify v = call_of(WEIR_DTYPE_UINT64, WEIR_OP_MAX, RANKS);

	reduce(&v, RANKS);
	v.call.collective = WEIR_COLLECTIVE_REDUCESCATTER;
	v.call.count = COUNT / RANKS;
	for (v.rank = 0; v.rank < RANKS; v.rank++) {
		v.call.recv = result + v.rank * v.call.count;
		cr_expect_eq(verify_wrong(&v, NULL, 0), 0u);
	}
	v.rank = 0; /* has the last rank's slice */
	cr_expect_eq(verify_wrong(&v, NULL, 0), v.call.count);
	cr_expect_eq(verify_sent(&v), COUNT);
	cr_expect_eq(verify_received(&v), v.call.count);
}

/* Degraded blocks come in any order, and lie alike in each slice. */
Test(verify, degraded_blocks, .timeout = 90)
{
	struct verify v = call_of(WEIR_DTYPE_INT32, WEIR_OP_SUM, RANKS);
	struct weir_degraded blocks[] = {{512, 256, {0x1b}}, {0, 256, {0x1b}}};
	static int32_t part[COUNT];

	reduce(&v, 2);
	memcpy(part, result, sizeof(part));
	reduce(&v, RANKS);
	memcpy(result, part, 256 * 4);
	memcpy((int32_t *)(void *)result + 512, part + 512, 256 * 4);
	cr_expect_eq(verify_wrong(&v, blocks, 2), 0u);
	cr_expect_gt(verify_wrong(&v, blocks, 1), 250u);
	v.call.collective = WEIR_COLLECTIVE_ALLGATHER;
	v.call.count = COUNT / 2;
	for (unsigned int r = 0; r < RANKS; r++) {
		int32_t *slice = (int32_t *)(void *)result + r * v.call.count;

		verify_fill(&v, r, 0, v.call.count, slice);
		for (unsigned int b = 0; r == 2 && b < 2; b++)
			memset(slice + blocks[b].first, 0, 256 * 4);
	}
	cr_expect_eq(verify_wrong(&v, blocks, 2), 0u);
	/* An alltoall that is made of scatters has the root's data whole. */
	v.call.collective = WEIR_COLLECTIVE_ALLTOALL;
	cr_expect_not(verify_is_whole(&v));
	v.elements = RANKS * RANKS - 1;
	cr_expect(verify_is_whole(&v));
	/* Degraded blocks are sorted also where nothing is missing: hosts compare the list. */
	v.call.collective = WEIR_COLLECTIVE_BROADCAST;
	blocks[0].first = 512;
	blocks[1].first = 0;
	verify_wrong(&v, blocks, 2);
	cr_expect_eq(blocks[0].first, 0u);
}

/* weir.h's table of buffers. */
Test(verify, places, .timeout = 90)
{
	static const struct {
		enum weir_collective collective;
		size_t sent, received; /* by the root or where there is none, with a count of 10 */
		long send, recv; /* places in one buffer, in elements; -1: NULL at other ranks */
		bool other_sends, other_receives;
	} rows[] = {
		{WEIR_COLLECTIVE_ALLREDUCE, 10, 10, 0, 0, true, true},
		{WEIR_COLLECTIVE_REDUCE, 10, 10, 0, 0, true, false},
		{WEIR_COLLECTIVE_REDUCESCATTER, 50, 10, 0, 20, true, true},
		{WEIR_COLLECTIVE_BROADCAST, 10, 10, 0, 0, false, true},
		{WEIR_COLLECTIVE_SCATTER, 50, 10, 0, 20, false, true},
		{WEIR_COLLECTIVE_GATHER, 10, 50, 20, 0, true, false},
		{WEIR_COLLECTIVE_ALLGATHER, 10, 50, 20, 0, true, true},
		{WEIR_COLLECTIVE_ALLTOALL, 50, 50, 0, 0, true, true},
	};
	int32_t *const one = (void *)buffers[0], *const two = (void *)buffers[1];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verify v = call_of(WEIR_DTYPE_INT32, WEIR_OP_SUM, RANKS);

		v.call.collective = rows[i].collective;
		v.call.count = 10;
		v.rank = v.call.root = 2;
		cr_expect_eq(verify_sent(&v), rows[i].sent, "%zu", i);
		cr_expect_eq(verify_received(&v), rows[i].received, "%zu", i);
		cr_expect_eq(verify_place(&v, one, NULL), one + rows[i].send, "%zu", i);
		cr_expect_eq(v.call.recv, one + rows[i].recv, "%zu", i);
		cr_expect_eq(verify_place(&v, one, two), one, "%zu", i);
		cr_expect_eq(v.call.recv, two, "%zu", i);
		v.call.root = 0;
		cr_expect_eq(verify_sent(&v) != 0, rows[i].other_sends, "%zu", i);
		cr_expect_eq(verify_received(&v) != 0, rows[i].other_receives, "%zu", i);
		cr_expect_eq(verify_place(&v, one, two), rows[i].other_sends ? one : NULL);
		cr_expect_eq(v.call.recv, rows[i].other_receives ? two : NULL, "%zu", i);
	}
}

Test(verify, changed_send_buffer_is_counted, .timeout = 90)
{
	struct verify v = call_of(WEIR_DTYPE_UINT8, WEIR_OP_SUM, RANKS);
	uint8_t *const sent = (void *)result;

	v.call.collective = WEIR_COLLECTIVE_ALLTOALL;
	v.call.count = 700;
	v.call.send = sent;
	v.rank = 4;
	verify_fill(&v, 4, 0, RANKS * 700, sent);
	cr_expect_eq(verify_changed(&v), 0u);
	sent[RANKS * 700 - 1] ^= 4;
	sent[0] ^= 1;
	cr_expect_eq(verify_changed(&v), 2u);
	v.call.collective = WEIR_COLLECTIVE_BROADCAST; /* of which it is not the root */
	cr_expect_eq(verify_changed(&v), 0u);
}
