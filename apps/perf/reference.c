/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "apps/perf/data.h"

#define CHUNK 1024 /* elements that are checked at a time: what they need stays in L1 and L2 */

/* The elements of one chunk: of a rank, and what they come to. */
struct work {
	_Alignas(8) uint8_t raw[CHUNK * 8];
	uint64_t whole[CHUNK]; /* integers, sign-extended where they have one */
	long double real[CHUNK]; /* sums, products or extremes; fp64 is no reference for itself */
	double sizes[CHUNK]; /* sums of |x|; of products, products of max(|x|, 1) */
	unsigned int in; /* contributions so far */
};

static bool
is_in(const uint8_t *present, unsigned int rank)
{
	return present == NULL || (present[rank / 8] >> (rank % 8) & 1) != 0;
}

static bool
is_signed(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_INT8 || dtype == WEIR_DTYPE_INT16 || dtype == WEIR_DTYPE_INT32 ||
		dtype == WEIR_DTYPE_INT64;
}

/* A value of a type of 8 or 16 bits: what is not infinite, NaN or denormal gets the exponent of fp64. */
static double
narrow_value(const struct weir_float *f, uint64_t bits)
{
	uint64_t bias = (1u << (f->exponent_bits - 1)) - 1, one = UINT64_C(1) << f->fraction_bits;
	uint64_t sign = one << f->exponent_bits, magnitude = bits & (sign - 1);
	uint64_t exponent = magnitude / one, fraction = magnitude % one;
	double value;

	if (magnitude >= f->infinity)
		value = fraction != 0 ? (double)NAN : (double)INFINITY;
	else if (exponent == 0)
		value = ldexp((double)fraction, 1 - (int)bias - (int)f->fraction_bits);
	else {
		fraction = (exponent + 1023 - bias) << 52 | fraction << (52 - f->fraction_bits);
		memcpy(&value, &fraction, sizeof(value));
	}
	return (bits & sign) != 0 ? -value : value;
}

static double
real_at(enum weir_dtype dtype, const uint8_t *raw, size_t i)
{
	const struct weir_float f = weir_dtype_float(dtype);
	uint16_t half;
	float single;
	double value;

	switch (weir_dtype_bytes(dtype)) {
	case 1: return narrow_value(&f, raw[i]);
	case 2: memcpy(&half, raw + i * 2, 2); return narrow_value(&f, half);
	case 4: memcpy(&single, raw + i * 4, 4); return (double)single;
	default: memcpy(&value, raw + i * 8, 8); return value;
	}
}

/* The 64 bits of an integer: extended by its sign, if its type has one. */
static uint64_t
extended(enum weir_dtype dtype, uint64_t value)
{
	unsigned int unused = 64 - 8 * weir_dtype_bytes(dtype);

	return is_signed(dtype) ? (uint64_t)((int64_t)(value << unused) >> unused)
				: value << unused >> unused;
}

static uint64_t
whole_at(enum weir_dtype dtype, const uint8_t *raw, size_t i)
{
	uint64_t value = 0;

	/* Little-endian, as the wire is. */
	memcpy(&value, raw + i * weir_dtype_bytes(dtype), weir_dtype_bytes(dtype));
	return extended(dtype, value);
}

static uint64_t
combine(enum weir_op op, bool has_sign, uint64_t a, uint64_t b)
{
	bool less = has_sign ? (int64_t)b < (int64_t)a : b < a;

	switch (op) {
	case WEIR_OP_PROD: return a * b;
	case WEIR_OP_MIN: return less ? b : a;
	case WEIR_OP_MAX: return less ? a : b;
	case WEIR_OP_BAND: return a & b;
	case WEIR_OP_BOR: return a | b;
	case WEIR_OP_BXOR: return a ^ b;
	case WEIR_OP_LAND: return a != 0 && b != 0;
	case WEIR_OP_LOR: return a != 0 || b != 0;
	case WEIR_OP_LXOR: return (a != 0) != (b != 0);
	case WEIR_OP_SUM:
	case WEIR_OP_AVG:
	default: return a + b;
	}
}

/* minimum and maximum of IEEE 754-2019. */
static long double
extreme(bool maximum, long double a, long double b)
{
	if (isnan(a) || isnan(b))
		return (long double)NAN;
	if (a == b)
		return (signbit(a) != 0) != maximum ? a : b; /* -0 < +0 */
	return (a < b) != maximum ? a : b;
}

static void
add_integers(const struct perf_data *d, struct work *w, size_t count)
{
	bool logical = d->op >= WEIR_OP_LAND;

	for (size_t i = 0; i < count; i++) {
		uint64_t value = whole_at(d->dtype, w->raw, i);

		if (w->in == 0)
			w->whole[i] = logical ? value != 0 : value;
		else
			w->whole[i] = combine(d->op, is_signed(d->dtype), w->whole[i], value);
	}
}

static bool
is_extreme(enum weir_op op)
{
	return op == WEIR_OP_MIN || op == WEIR_OP_MAX;
}

static void
add_reals(const struct perf_data *d, struct work *w, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double value = real_at(d->dtype, w->raw, i);

		if (d->op == WEIR_OP_PROD)
			w->sizes[i] = (w->in != 0 ? w->sizes[i] : 1) * fmax(fabs(value), 1);
		else
			w->sizes[i] = (w->in != 0 ? w->sizes[i] : 0) + fabs(value);
		if (w->in == 0)
			w->real[i] = (long double)value;
		else if (is_extreme(d->op))
			w->real[i] = extreme(d->op == WEIR_OP_MAX, w->real[i], (long double)value);
		else if (d->op == WEIR_OP_PROD)
			w->real[i] *= (long double)value;
		else
			w->real[i] += (long double)value;
	}
}

static size_t
wrong_integers(const struct perf_data *d, const struct work *w, size_t count, const uint8_t *got)
{
	/* The accumulator of an average: 8 and 16 bits have 32, the others their own. */
	enum weir_dtype wide = is_signed(d->dtype) ? WEIR_DTYPE_INT32 : WEIR_DTYPE_UINT32;
	size_t wrong = 0;

	if (weir_dtype_bytes(d->dtype) == 8)
		wide = d->dtype;
	for (size_t i = 0; i < count; i++) {
		uint64_t value = w->whole[i];

		if (d->op == WEIR_OP_AVG && is_signed(d->dtype))
			value = (uint64_t)((int64_t)extended(wide, value) / (int64_t)w->in);
		else if (d->op == WEIR_OP_AVG)
			value = extended(wide, value) / w->in;
		wrong += whole_at(d->dtype, got, i) != extended(d->dtype, value);
	}
	return wrong;
}

static size_t
wrong_extremes(const struct perf_data *d, const struct work *w, size_t count, const uint8_t *got)
{
	size_t wrong = 0;

	for (size_t i = 0; i < count; i++) {
		double value = real_at(d->dtype, got, i), wanted = (double)w->real[i];

		if (isnan(wanted))
			wrong += whole_at(d->dtype, got, i) != weir_dtype_float(d->dtype).nan;
		else
			wrong += value != wanted || (signbit(value) != 0) != (signbit(wanted) != 0);
	}
	return wrong;
}

struct bound {
	double steps, round; /* relative: of what is rounded last, and of that rounding */
	double least; /* absolute: of denormal numbers */
	double factor; /* the same, of a factor of a product */
};

/*
 * How often a switch below the root may have rounded what a narrow result is made of. The sums of a level are together at
 * most sum|x|, so a sum is rounded once for each level; every rounded factor counts in a product.
 */
static unsigned int
early_roundings(const struct perf_reference *r, unsigned int in)
{
	unsigned int switches = in - 1; /* that have two factors or more */

	if (r->levels < 2 || in < 2)
		return 0;
	if (r->data.op != WEIR_OP_PROD)
		return r->levels - 1;
	if (r->switches != 0 && r->switches < switches)
		switches = r->switches;
	return switches - 1;
}

static struct bound
bound_of(const struct perf_reference *r, unsigned int in)
{
	const enum weir_dtype dtype = r->data.dtype;
	const struct weir_float f = weir_dtype_float(dtype);
	double slack = 1 + 0x1p-10, unit, grown, least;
	unsigned int steps = in - 1 + (r->data.op == WEIR_OP_AVG ? 2 : 0), early;

	if (dtype == WEIR_DTYPE_FP64)
		return (struct bound){steps * 0x1p-53 * slack, 0, steps * 0x1p-1074, 0};
	if (dtype == WEIR_DTYPE_FP32)
		return (struct bound){steps * 0x1p-24 * slack, 0, steps * 0x1p-149, 0};
	early = early_roundings(r, in);
	unit = ldexp(1, -(int)f.fraction_bits - 1);
	grown = pow(1 + unit, early);
	least = ldexp(1, 2 - (1 << (f.exponent_bits - 1)) - (int)f.fraction_bits);
	return (struct bound){(1 + steps * 0x1p-24 * slack) * grown - 1, unit, least,
		r->data.op == WEIR_OP_PROD ? early * grown * least : 0};
}

static size_t
wrong_reals(const struct perf_reference *r, const struct work *w, size_t count, const uint8_t *got)
{
	const struct perf_data *d = &r->data;
	struct bound b = bound_of(r, w->in);
	double divisor = d->op == WEIR_OP_AVG ? w->in : 1;
	size_t wrong = 0;

	for (size_t i = 0; i < count; i++) {
		long double wanted = w->real[i];
		double size = d->op == WEIR_OP_PROD ? fabs((double)wanted) : w->sizes[i] / divisor;
		double off;

		wanted /= divisor;
		off = fabs((double)((long double)real_at(d->dtype, got, i) - wanted));
		/* negated, so that a NaN is wrong */
		wrong += !(off <= b.steps * size +
				b.round * (fabs((double)wanted) + b.steps * size) + b.least +
				b.factor * w->sizes[i]);
	}
	return wrong;
}

/* [first, first + count) are elements of the data, reduced; at most CHUNK. */
static size_t
wrong_reduced(const struct perf_reference *r, const uint8_t *present, size_t first, size_t count,
	const uint8_t *got)
{
	const struct perf_data *d = &r->data;
	bool real = weir_dtype_is_float(d->dtype);
	struct work w;

	for (unsigned int rank = w.in = 0; rank < d->ranks; rank++) {
		if (!is_in(present, rank))
			continue;
		perf_data_fill(d, rank, r->iteration, first, count, w.raw);
		(real ? add_reals : add_integers)(d, &w, count);
		w.in++;
	}
	if (w.in == 0)
		return count; /* no rank is in the result */
	if (!real)
		return wrong_integers(d, &w, count, got);
	return is_extreme(d->op) ? wrong_extremes(d, &w, count, got)
				 : wrong_reals(r, &w, count, got);
}

/* Elements [first, first + count) of a rank, as they are; at most CHUNK. */
static size_t
wrong_copied(const struct perf_reference *r, const uint8_t *present, unsigned int rank,
	size_t first, size_t count, const uint8_t *got)
{
	unsigned int bytes = weir_dtype_bytes(r->data.dtype);
	_Alignas(8) uint8_t raw[CHUNK * 8] = {0};
	size_t wrong = 0;

	if (is_in(present, rank))
		perf_data_fill(&r->data, rank, r->iteration, first, count, raw);
	for (size_t i = 0; i < count; i++)
		wrong += memcmp(raw + i * bytes, got + i * bytes, bytes) != 0;
	return wrong;
}

/* Elements [first, first + count) of the result: at most CHUNK, and of one slice. */
static size_t
wrong_chunk(const struct perf_reference *r, const uint8_t *present, size_t first, size_t count,
	const uint8_t *got)
{
	const struct collective_row *row = &collective_table[r->collective];
	bool divides = row->result == RESULT_SLICE || row->result == RESULT_COLUMN;
	size_t own = divides ? r->rank * r->count : 0; /* this rank's slice of a contribution */

	if (row->contribution == CONTRIBUTION_REDUCE)
		return wrong_reduced(r, present, own + first, count, got);
	if (row->contribution == CONTRIBUTION_ROOT)
		return wrong_copied(r, NULL, r->root, own + first, count, got);
	return wrong_copied(
		r, present, (unsigned int)(first / r->count), own + first % r->count, count, got);
}

size_t
perf_reference_wrong(const struct perf_reference *r, const uint8_t *present, size_t first,
	size_t count, const void *got)
{
	unsigned int bytes = weir_dtype_bytes(r->data.dtype);
	const uint8_t *at = got;
	size_t wrong = 0;

	for (size_t n; count > 0; first += n, count -= n, at += n * bytes) {
		size_t left = r->count - first % r->count; /* of the slice */

		n = count < CHUNK ? count : CHUNK;
		n = n < left ? n : left;
		wrong += wrong_chunk(r, present, first, n, at);
	}
	return wrong;
}

size_t
perf_reference_sent(const struct perf_reference *r)
{
	const struct collective_row *row = &collective_table[r->collective];

	if (row->contribution == CONTRIBUTION_NOTHING ||
		(row->contribution == CONTRIBUTION_ROOT && r->rank != r->root))
		return 0;
	return row->result == RESULT_SLICE || row->contribution == CONTRIBUTION_ROW
		? r->count * r->data.ranks
		: r->count;
}

size_t
perf_reference_received(const struct perf_reference *r)
{
	const struct collective_row *row = &collective_table[r->collective];

	if (row->result == RESULT_NOTHING || (row->to == TO_ROOT && r->rank != r->root))
		return 0;
	return perf_gathers(r->collective) ? r->count * r->data.ranks : r->count;
}

size_t
perf_reference_changed(const struct perf_reference *r, const void *sent)
{
	size_t left = perf_reference_sent(r), changed = 0;
	const uint8_t *at = sent;

	for (size_t first = 0, n; left > 0; first += n, left -= n) {
		n = left < CHUNK ? left : CHUNK;
		changed += wrong_copied(r, NULL, r->rank, first, n, at);
		at += n * weir_dtype_bytes(r->data.dtype);
	}
	return changed;
}
