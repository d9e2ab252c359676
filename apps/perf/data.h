/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each rank of weir-perf contributes, and whether a result is right.
 *
 *	data.c       the data: a function of seed, rank, iteration and place alone
 *	reference.c  results computed again from it, in plain code
 *
 * The reference shares nothing with the library and the switch: neither their kernels nor how they
 * cut an operation into blocks. Every function is pure, and any thread may call it.
 */
#ifndef APPS_PERF_DATA_H
#define APPS_PERF_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/wire/wire.h"

struct perf_data {
	uint64_t seed;
	enum weir_dtype dtype;
	enum weir_op op; /* SUM where nothing is reduced */
	unsigned int ranks; /* [1, 256] */
};

/*
 * Write elements [first, first + count) of a rank to `to`, aligned as the type.
 *
 * Integers are all values of the type, so that sums overflow and must wrap; odd for products, whose
 * low bits would else be 0; with more ones for `band` and fewer for `bor`; and 0 or not with chances
 * that leave the logical operations both results. Floating point is spread over [-1, 1) in steps
 * that the type has (fp32 rounds to them); for products 1 +- 1/4 with either sign, so that 256 of
 * them stay in range; and for the minimum and the maximum with some NaN, and zeros of both signs.
 */
void perf_data_fill(const struct perf_data *data, unsigned int rank, uint64_t iteration,
	size_t first, size_t count, void *to);

/* The bits of a number that is 0, or normal in the floating-point type, and exact there. */
uint64_t perf_float_bits(enum weir_dtype dtype, double value);

/* What a result is to be compared with. */
struct perf_reference {
	struct perf_data data;
	enum weir_collective collective; /* of those with data */
	unsigned int rank, root; /* of the receiver; root: of collectives that have one */
	size_t count; /* as in the call: elements, or elements of a slice */
	uint64_t iteration;
	/* Of a tree's `narrow` job, whose switches each round; otherwise 0. */
	unsigned int levels;
	unsigned int switches; /* that one block passes, of all levels; 0: unknown */
};

/* Does the collective reduce? */
static inline bool
perf_reduces(enum weir_collective collective)
{
	return collective_table[collective].contribution == CONTRIBUTION_REDUCE;
}

/* Is its result made of a slice from each rank? */
static inline bool
perf_gathers(enum weir_collective collective)
{
	const struct collective_row *row = &collective_table[collective];

	return row->contribution == CONTRIBUTION_SLICE || row->contribution == CONTRIBUTION_ROW;
}

/* Is `count` of the call that of one slice? */
static inline bool
perf_has_slices(enum weir_collective collective)
{
	return perf_gathers(collective) || collective_table[collective].result == RESULT_SLICE;
}

/* Elements of the buffers of a call with this count. */
size_t perf_reference_sent(const struct perf_reference *reference);
size_t perf_reference_received(const struct perf_reference *reference);

/*
 * How many of the elements [first, first + count) of the result are wrong, which lie at `got`.
 * present: a bitmap of the ranks in these elements, as on the wire; NULL: all. Where elements are a
 * missing rank's own (Gather, AllGather, AlltoAll) they have to be zero bytes.
 *
 * Integers are compared exactly, and so is what is copied, and minimum and maximum: a NaN must be the
 * canonical quiet one, and -0 is less than +0. Integers' sums and products are modulo 2^bits; an
 * average is the sum, of 8 and 16 bits in 32, divided towards zero.
 *
 * Other floating point is compared with a sum or product that is worked out in the compiler's long
 * double, within PERF_BOUND: k = n - 1 roundings of fp32 (of fp64 for fp64), two
 * more for an average, and for fp16, bf16 and fp8 the one of the result. It is Higham, Accuracy and
 * Stability of Numerical Algorithms, 2nd ed., eq. 4.4 for sums and eq. 3.4 for products, for every
 * order of the ranks; 1 + 2^-10 covers the terms of second order up to 256 ranks and the
 * reference's own error, and a step of the type's denormal numbers what is rounded there. In a tree's
 * `narrow` job fp16, bf16 and fp8 are rounded once on each level of a sum, and at each switch of a product.
 */
size_t perf_reference_wrong(const struct perf_reference *reference, const uint8_t *present,
	size_t first, size_t count, const void *got);
#define PERF_BOUND "|got - reference| <= (n-1) u (1+2^-10) sum|x|"

/* How many of the elements at `sent`, the rank's own send buffer, are not what it was filled with. */
size_t perf_reference_changed(const struct perf_reference *reference, const void *sent);

#endif
