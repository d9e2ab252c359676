/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each rank contributes to a collective, and whether a result is right: for weir-perf, weir-faults, `make compare`
 * and the tests.
 *
 *	data.c       the data: a function of seed, rank, iteration and place alone
 *	reduce.c     the reference: reductions of one element, bit by bit, and what its types mean
 *	verify.c     results, computed again from the data
 *
 * What a call sends and receives follows from its row in pktbuf/wire/collectives.h, and what elements are from
 * pktbuf/wire/types.h. The reference shares these tables with the library and the switch, and nothing else: neither their
 * kernels nor how they cut an operation into blocks. Every function is pure, and any thread may call it.
 */
#ifndef APPS_VERIFY_VERIFY_H
#define APPS_VERIFY_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/weir.h"
#include "pktbuf/wire/collectives.h"
#include "pktbuf/wire/wire.h"

/* A call of a collective with data, on one rank. */
struct verify {
	struct weir_call call; /* op: SUM where nothing is reduced */
	unsigned int rank, ranks; /* of the caller; [1, 256] */
	uint64_t seed, iteration; /* they name the data */
	size_t first; /* of a rank's data, the element with which its buffer begins */
	unsigned int elements; /* of a block, as weir_elements() says; 0: no result is partial */
	/* Of a tree's `narrow` job, whose switches each round; otherwise 0. */
	unsigned int levels;
	unsigned int switches; /* that one block passes, of all levels; 0: unknown */
};

static inline bool
verify_reduces(enum weir_collective collective)
{
	return collective_table[collective].contribution == CONTRIBUTION_REDUCE;
}

/* Is its result made of a slice from each rank? */
static inline bool
verify_gathers(enum weir_collective collective)
{
	const struct collective_row *row = &collective_table[collective];

	return row->contribution == CONTRIBUTION_SLICE || row->contribution == CONTRIBUTION_ROW;
}

/* Does `count` of the call mean one slice? */
static inline bool
verify_has_slices(enum weir_collective collective)
{
	return verify_gathers(collective) || collective_table[collective].result == RESULT_SLICE;
}

/* Do all ranks get the same result? */
static inline bool
verify_is_same(enum weir_collective collective)
{
	const struct collective_row *row = &collective_table[collective];

	return row->result == RESULT_WHOLE && row->to == TO_ALL;
}

/* Has only the root data? Then results are whole, whichever other sources are missing. */
bool verify_is_whole(const struct verify *v);

/* Elements of the buffers of the call; 0: this rank has no part in it. */
size_t verify_sent(const struct verify *v);
size_t verify_received(const struct verify *v);

/* Set the buffers of the call: NULL where this rank has no part. recv NULL: in place, in `send`, which has room for the
 * larger of the two. Returns call.send. */
void *verify_place(struct verify *v, void *send, void *recv);

/*
 * Write elements [first, first + count) of what a rank sends to `to`, aligned as the type.
 *
 * Integers are all values of the type, so that sums overflow and must wrap; odd for products, whose low bits would otherwise
 * be 0; with more ones for `band` and fewer for `bor`; and 0 or not with chances that leave the logical operations both
 * results. Floating point is spread over [-1, 1) in steps that the type has (fp32 rounds to them); for products 1 +- 1/4
 * with either sign, so that 256 of them stay in range; and for the minimum and the maximum with some NaN, and zeros of
 * both signs.
 */
void verify_fill(const struct verify *v, unsigned int rank, size_t first, size_t count, void *to);

/*
 * How many elements of the result in call.recv are wrong. blocks: the n degraded ones, as weir_degraded() tells them; they
 * get sorted. Where elements are a missing rank's own (Gather, AllGather, AlltoAll) they have to be zero bytes.
 */
size_t verify_wrong(const struct verify *v, struct weir_degraded *blocks, size_t n);

/* The same of elements [first, first + count) of the result, which lie at `got`. present: a bitmap of the ranks in them, as
 * on the wire; NULL: all. */
size_t verify_wrong_part(const struct verify *v, const uint8_t *present, size_t first, size_t count,
	const void *got);

/* How many elements of call.send are not what this rank sends. */
size_t verify_changed(const struct verify *v);

/*
 * How many of the `count` elements at `got` are not the reductions of those at from[n].
 *
 * Integers are compared exactly, and so are minimum and maximum. Other floating point is compared with a sum or product
 * that is worked out in the compiler's long double, within VERIFY_BOUND, rounded to the type: k = n - 1 roundings of fp32
 * (of fp64 for fp64), or none where no order of the sum rounds. It is Higham, Accuracy and Stability of Numerical
 * Algorithms, 2nd ed., eq. 4.4 for sums and eq. 3.4 for products, for every order of the ranks; 1 + 2^-10 covers the terms
 * of second order up to 256 ranks and the reference's own error, and a step of the type's denormal numbers what is
 * rounded there. In a tree's `narrow` job fp16, bf16 and fp8 are rounded once on each level of a sum, and at each switch
 * of a product.
 */
size_t verify_wrong_reduced(const struct verify *v, const void *const *from, unsigned int n,
	size_t count, const void *got);
#define VERIFY_BOUND       "|got - reference| <= (n-1) u (1+2^-10) sum|x|"

#define VERIFY_FINGERPRINT UINT64_C(0xcbf29ce484222325) /* of nothing */
/* The fingerprint of more bytes. */
uint64_t verify_fingerprint(uint64_t before, const void *data, size_t bytes);

/* A number of a floating-point type, and the nearest one's bits, ties to even. fp16, bf16 and fp8 are rounded from fp32, as
 * their sums are. */
double verify_value(enum weir_dtype dtype, uint64_t bits);
uint64_t verify_bits(enum weir_dtype dtype, long double value);

/* The bits of a reduction of one element; x: the contributions' bits, in the order in which they came; count: [1, 256].
 * dtype has op. NaNs are those that rmw/kernels.h promises. */
uint64_t verify_reduce(
	enum weir_dtype dtype, enum weir_op op, const uint64_t *x, unsigned int count);

/* The average's bits of a sum that lies in the accumulator, which has 32 bits for types of fewer. */
uint64_t verify_average(enum weir_dtype dtype, uint64_t sum, unsigned int count);

/* fp16, bf16 or fp8 to fp32 and back. */
uint32_t verify_widen(enum weir_dtype dtype, uint16_t narrow);
uint16_t verify_round(enum weir_dtype dtype, uint32_t fp32);

#endif
