/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/verify/verify.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 64 /* elements that are computed again at a time */

static const struct collective_row *
row_of(const struct verify *v)
{
	return &collective_table[v->call.collective];
}

size_t
verify_sent(const struct verify *v)
{
	const struct collective_row *row = row_of(v);

	if (row->contribution == CONTRIBUTION_NOTHING ||
		(row->contribution == CONTRIBUTION_ROOT && v->rank != v->call.root))
		return 0;
	return row->result == RESULT_SLICE || row->contribution == CONTRIBUTION_ROW
		? v->call.count * v->ranks
		: v->call.count;
}

size_t
verify_received(const struct verify *v)
{
	const struct collective_row *row = row_of(v);

	if (row->result == RESULT_NOTHING || (row->to == TO_ROOT && v->rank != v->call.root))
		return 0;
	return verify_gathers(v->call.collective) ? v->call.count * v->ranks : v->call.count;
}

void *
verify_place(struct verify *v, void *send, void *recv)
{
	const struct collective_row *row = row_of(v);
	bool in_place = recv == NULL, sends = verify_sent(v) != 0,
	     receives = verify_received(v) != 0;
	/* AllReduce, Reduce and Broadcast in place have one buffer on every rank. */
	bool one =
		in_place && row->result == RESULT_WHOLE && row->contribution != CONTRIBUTION_SLICE;
	size_t own = v->rank * v->call.count * weir_dtype_bytes(v->call.dtype);
	uint8_t *from = send, *to = recv;

	/* weir.h's table of what is in place. */
	if (in_place && row->contribution == CONTRIBUTION_SLICE)
		from += own;
	if (in_place)
		to = (uint8_t *)send + (row->result == RESULT_SLICE ? own : 0);
	if (!sends && !one)
		from = NULL;
	if (!receives && !one)
		to = NULL;
	v->call.send = from;
	v->call.recv = to;
	return from;
}

/* Little-endian, as the wire is. */
static uint64_t
bits_at(const void *elements, size_t i, unsigned int bytes)
{
	const uint8_t *at = (const uint8_t *)elements + i * bytes;
	uint64_t bits = 0;

	switch (bytes) {
	case 1: return *at;
	case 2: memcpy(&bits, at, 2); return bits;
	case 4: memcpy(&bits, at, 4); return bits;
	default: memcpy(&bits, at, 8); return bits;
	}
}

/* ---- reductions that round ---- */

/* The exponent of the lowest bit that is set in a number. */
static int
lowest_exponent(double value)
{
	uint64_t bits;
	int exponent;

	memcpy(&bits, &value, sizeof(bits));
	exponent = (int)(bits >> 52 & 0x7ff);
	if (exponent == 0)
		return -1074;
	return exponent - 1075 +
		__builtin_ctzll((bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52);
}

/* How often a switch below the root may have rounded what a narrow result is made of. The sums of a level are together at
 * most sum|x|, so a sum is rounded once for each level; every rounded factor counts in a product. */
static unsigned int
early_roundings(const struct verify *v, unsigned int in)
{
	unsigned int switches = in - 1; /* that have two factors or more */

	if (v->levels < 2 || in < 2 || weir_dtype_bytes(v->call.dtype) > 2)
		return 0;
	if (v->call.op != WEIR_OP_PROD)
		return v->levels - 1;
	if (v->switches != 0 && v->switches < switches)
		switches = v->switches;
	return switches - 1;
}

/* An end of the range, as the type has it. The NaN of a type without infinities stands for them. */
static double
end(enum weir_dtype dtype, uint64_t bits)
{
	const struct weir_float f = weir_dtype_float(dtype);
	double value = verify_value(dtype, bits);

	if (isnan(value) && f.infinity == f.nan)
		return bits != f.nan ? (double)-INFINITY : (double)INFINITY;
	return value;
}

/* Is this the sum, product or average of x[in], in some order? */
static bool
is_rounded(const struct verify *v, const uint64_t *x, unsigned int in, uint64_t got)
{
	const enum weir_dtype dtype = v->call.dtype;
	const struct weir_float f = weir_dtype_float(dtype);
	bool product = v->call.op == WEIR_OP_PROD, fp64 = dtype == WEIR_DTYPE_FP64;
	unsigned int roundings = in - 1, early = early_roundings(v, in);
	double relative, grown;
	long double sizes = product, absolute; /* sums of fp64 that leave its range stay finite */
	long double exact = product, divisor = v->call.op == WEIR_OP_AVG ? in : 1, low, high, value;
	int least = INT_MAX / 2;

	for (unsigned int i = 0; i < in; i++) {
		double term = verify_value(dtype, x[i]), size = fabs(term);

		if (product) {
			exact *= (long double)term;
			sizes *= size > 1 ? (long double)size : 1;
		} else if (term < 0 || term > 0 || isnan(term)) {
			exact += (long double)term;
			sizes += (long double)size;
			least = lowest_exponent(term) < least ? lowest_exponent(term) : least;
		}
	}
	if (isnan(exact))
		return isnan(verify_value(dtype, got));
	if (isinf(exact))
		return end(dtype, got) == (double)exact;
	/* All partial sums are multiples of one number, and few enough of them. */
	if (!product && sizes <= ldexpl(fp64 ? 0x1p53L : 0x1p24L, least))
		roundings = 0;
	relative = roundings * (fp64 ? 0x1p-53 : 0x1p-24) * (1 + 0x1p-10);
	absolute = roundings * (fp64 ? 0x1p-1074L : 0x1p-149L);
	if (early != 0) {
		grown = pow(1 + ldexp(0.5, -(int)f.fraction_bits), early);
		relative = (1 + relative) * grown - 1;
		absolute += (long double)(early * grown) * (product ? sizes : 1) *
			ldexpl(4, -(1 << (f.exponent_bits - 1)) - (int)f.fraction_bits);
	}
	absolute += (long double)relative * (product ? fabsl(exact) : sizes);
	low = (exact - absolute) / divisor;
	high = (exact + absolute) / divisor;
	value = (long double)end(dtype, got);
	if (value >= low && value <= high)
		return true;
	return value >= (long double)end(dtype, verify_bits(dtype, low)) &&
		value <= (long double)end(dtype, verify_bits(dtype, high));
}

size_t
verify_wrong_reduced(const struct verify *v, const void *const *from, unsigned int n, size_t count,
	const void *got)
{
	const enum weir_dtype dtype = v->call.dtype;
	const enum weir_op op = v->call.op;
	bool rounds = weir_dtype_is_float(dtype) && op != WEIR_OP_MIN && op != WEIR_OP_MAX;
	unsigned int bytes = weir_dtype_bytes(dtype);
	uint64_t x[WEIR_SOURCES_MAX], is;
	size_t wrong = 0;

	for (size_t i = 0; i < count; i++) {
		for (unsigned int k = 0; k < n; k++)
			x[k] = bits_at(from[k], i, bytes);
		is = bits_at(got, i, bytes);
		wrong += !(rounds ? is_rounded(v, x, n, is) : verify_reduce(dtype, op, x, n) == is);
	}
	return wrong;
}

/* ---- results ---- */

static bool
is_in(const uint8_t *present, unsigned int rank)
{
	return present == NULL || (present[rank / 8] >> (rank % 8) & 1) != 0;
}

/* [first, first + count) are elements of the data, reduced; at most CHUNK. */
static size_t
wrong_reduced(const struct verify *v, const uint8_t *present, size_t first, size_t count,
	const uint8_t *got)
{
	uint64_t raw[WEIR_SOURCES_MAX][CHUNK];
	const void *from[WEIR_SOURCES_MAX];
	unsigned int in = 0;

	for (unsigned int rank = 0; rank < v->ranks; rank++) {
		if (!is_in(present, rank))
			continue;
		verify_fill(v, rank, first, count, raw[in]);
		from[in] = raw[in];
		in++;
	}
	/* If no rank is in the result, there should be none. */
	return in == 0 ? count : verify_wrong_reduced(v, from, in, count, got);
}

/* Elements [first, first + count) of a rank, as they are; at most CHUNK. */
static size_t
wrong_copied(const struct verify *v, const uint8_t *present, unsigned int rank, size_t first,
	size_t count, const uint8_t *got)
{
	unsigned int bytes = weir_dtype_bytes(v->call.dtype);
	uint64_t raw[CHUNK] = {0};
	size_t wrong = 0;

	if (is_in(present, rank))
		verify_fill(v, rank, first, count, raw);
	for (size_t i = 0; i < count; i++)
		wrong += bits_at(raw, i, bytes) != bits_at(got, i, bytes);
	return wrong;
}

/* Elements [first, first + count) of the result: at most CHUNK, and of one slice. */
static size_t
wrong_chunk(const struct verify *v, const uint8_t *present, size_t first, size_t count,
	const uint8_t *got)
{
	const struct collective_row *row = row_of(v);
	bool divides = row->result == RESULT_SLICE || row->result == RESULT_COLUMN;
	size_t own =
		divides ? v->rank * v->call.count : 0; /* this rank's slice of a contribution */

	if (row->contribution == CONTRIBUTION_REDUCE)
		return wrong_reduced(v, present, own + first, count, got);
	if (row->contribution == CONTRIBUTION_ROOT)
		return wrong_copied(v, NULL, v->call.root, own + first, count, got);
	return wrong_copied(v, present, (unsigned int)(first / v->call.count),
		own + first % v->call.count, count, got);
}

size_t
verify_wrong_part(
	const struct verify *v, const uint8_t *present, size_t first, size_t count, const void *got)
{
	unsigned int bytes = weir_dtype_bytes(v->call.dtype);
	const uint8_t *at = got;
	size_t wrong = 0;

	for (size_t n; count > 0; first += n, count -= n, at += n * bytes) {
		size_t left = v->call.count - first % v->call.count; /* of the slice */

		n = count < CHUNK ? count : CHUNK;
		n = n < left ? n : left;
		wrong += wrong_chunk(v, present, first, n, at);
	}
	return wrong;
}

static int
by_first(const void *a, const void *b)
{
	const struct weir_degraded *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

bool
verify_is_whole(const struct verify *v)
{
	return row_of(v)->contribution == CONTRIBUTION_ROOT ||
		(row_of(v)->contribution == CONTRIBUTION_ROW && /* as scatters */
			v->ranks * v->ranks > v->elements);
}

size_t
verify_wrong(const struct verify *v, struct weir_degraded *blocks, size_t n)
{
	size_t received = verify_received(v), bytes = weir_dtype_bytes(v->call.dtype), wrong = 0;
	const uint8_t *got = v->call.recv;

	if (n != 0)
		qsort(blocks, n, sizeof(*blocks), by_first);
	n = verify_is_whole(v) ? 0 : n;
	for (size_t slice = 0; slice < received; slice += v->call.count) {
		size_t at = slice, end_of = slice + v->call.count;

		for (size_t i = 0; i < n; i++) {
			size_t first = slice + blocks[i].first;

			wrong += verify_wrong_part(v, NULL, at, first - at, got + at * bytes);
			wrong += verify_wrong_part(
				v, blocks[i].present, first, blocks[i].count, got + first * bytes);
			at = first + blocks[i].count;
		}
		wrong += verify_wrong_part(v, NULL, at, end_of - at, got + at * bytes);
	}
	return wrong;
}

size_t
verify_changed(const struct verify *v)
{
	unsigned int bytes = weir_dtype_bytes(v->call.dtype);
	size_t sent = verify_sent(v), changed = 0;

	for (size_t first = 0; first < sent; first += CHUNK)
		changed += wrong_copied(v, NULL, v->rank, first,
			sent - first < CHUNK ? sent - first : CHUNK,
			(const uint8_t *)v->call.send + first * bytes);
	return changed;
}

uint64_t
verify_fingerprint(uint64_t before, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		before = (before ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return before;
}
