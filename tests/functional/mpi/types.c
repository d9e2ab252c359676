/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/functional/mpi/conform.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define C(name, category)                                                                          \
	{                                                                                          \
#name, MPI_##name, category, true, 0                                               \
	}
#define F(name, category)                                                                          \
	{                                                                                          \
#name, MPI_##name, category, false, 0                                              \
	}

static struct type types[] = {
	C(SIGNED_CHAR, SIGNED),
	C(UNSIGNED_CHAR, UNSIGNED),
	C(SHORT, SIGNED),
	C(UNSIGNED_SHORT, UNSIGNED),
	C(INT, SIGNED),
	C(UNSIGNED, UNSIGNED),
	C(LONG, SIGNED),
	C(UNSIGNED_LONG, UNSIGNED),
	C(LONG_LONG, SIGNED),
	C(UNSIGNED_LONG_LONG, UNSIGNED),
	C(INT8_T, SIGNED),
	C(UINT8_T, UNSIGNED),
	C(INT16_T, SIGNED),
	C(UINT16_T, UNSIGNED),
	C(INT32_T, SIGNED),
	C(UINT32_T, UNSIGNED),
	C(INT64_T, SIGNED),
	C(UINT64_T, UNSIGNED),
	F(AINT, SIGNED),
	F(OFFSET, SIGNED),
	F(COUNT, SIGNED),
	F(FLOAT, FLOATING),
	F(DOUBLE, FLOATING),
	F(LONG_DOUBLE, FLOATING),
	F(C_FLOAT_COMPLEX, COMPLEX),
	F(C_DOUBLE_COMPLEX, COMPLEX),
	F(C_BOOL, LOGICAL),
	F(BYTE, BYTES),
	F(CXX_BOOL, LOGICAL),
	F(CXX_FLOAT_COMPLEX, COMPLEX),
	F(CXX_DOUBLE_COMPLEX, COMPLEX),
	F(INTEGER, SIGNED),
	F(INTEGER1, SIGNED),
	F(INTEGER2, SIGNED),
	F(INTEGER4, SIGNED),
	F(INTEGER8, SIGNED),
	F(REAL, FLOATING),
	F(REAL4, FLOATING),
	F(REAL8, FLOATING),
	F(DOUBLE_PRECISION, FLOATING),
	F(COMPLEX, COMPLEX),
	F(DOUBLE_COMPLEX, COMPLEX),
	F(COMPLEX8, COMPLEX),
	F(COMPLEX16, COMPLEX),
	F(LOGICAL, LOGICAL),
	F(2INT, PAIR),
	F(CHAR, MOVED_ONLY),
	F(WCHAR, MOVED_ONLY),
	F(CHARACTER, MOVED_ONLY),
	F(SHORT_INT, MOVED_ONLY),
	F(DOUBLE_INT, MOVED_ONLY),
	F(2INTEGER, MOVED_ONLY),
	F(2DOUBLE_PRECISION, MOVED_ONLY),
	{"a struct of 13 bytes in 24", MPI_DATATYPE_NULL, MOVED_ONLY, false, 0},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static struct operation operations[] = {
	{"MAX", MPI_MAX, MAX},
	{"MIN", MPI_MIN, MIN},
	{"SUM", MPI_SUM, SUM},
	{"PROD", MPI_PROD, PROD},
	{"LAND", MPI_LAND, LAND},
	{"LOR", MPI_LOR, LOR},
	{"LXOR", MPI_LXOR, LXOR},
	{"BAND", MPI_BAND, BAND},
	{"BOR", MPI_BOR, BOR},
	{"BXOR", MPI_BXOR, BXOR},
	{"MAXLOC", MPI_MAXLOC, MAXLOC},
	{"MINLOC", MPI_MINLOC, MINLOC},
	{"a user's", MPI_OP_NULL, USER},
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static void
user_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
	const int *add = in;
	int *sum = inout;

	(void)type;
	for (int i = 0; i < *count; i++)
		sum[i] += add[i];
}

void
types_begin(void)
{
	MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, padded;

	MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 12, 17}, parts, &padded);
	MPI_Type_create_resized(padded, 0, 24, &types[TYPES - 1].handle);
	MPI_Type_commit(&types[TYPES - 1].handle);
	MPI_Type_free(&padded);
	MPI_Op_create(user_sum, 1, &operations[OPERATIONS - 1].handle);
	for (size_t i = 0; i < TYPES; i++)
		if (types[i].handle != MPI_DATATYPE_NULL)
			MPI_Type_size(types[i].handle, &types[i].size);
}

void
types_end(void)
{
	MPI_Type_free(&types[TYPES - 1].handle);
	MPI_Op_free(&operations[OPERATIONS - 1].handle);
}

static bool
allows(const struct type *type, enum kind kind)
{
	switch (type->category) {
	case SIGNED:
	case UNSIGNED:
		if (kind == USER)
			return type->handle == MPI_INT;
		return kind <= PROD || (kind >= BAND && kind <= BXOR) ||
			(type->c_integer && kind <= BXOR);
	case FLOATING: return kind <= PROD;
	case COMPLEX: return kind == SUM || kind == PROD;
	case LOGICAL: return kind >= LAND && kind <= LXOR;
	case BYTES: return kind >= BAND && kind <= BXOR;
	case PAIR: return kind == MAXLOC || kind == MINLOC;
	case MOVED_ONLY: break;
	}
	return false;
}

static const struct type *
draw_any(struct draw *draw)
{
	const struct type *type;

	do
		type = &types[draw_below(draw, TYPES)];
	while (type->size == 0);
	return type;
}

static bool
has_gaps(const struct type *type)
{
	MPI_Aint lb, extent;

	MPI_Type_get_extent(type->handle, &lb, &extent);
	return extent != type->size;
}

const struct type *
draw_type(struct draw *draw)
{
	const struct type *type;

	do
		type = draw_any(draw);
	/* MPICH may leave out the padding of the one, and gives wrong results for the other in plain nonblocking calls. */
	while (type->handle == MPI_LONG_DOUBLE || type->handle == MPI_DOUBLE_INT ||
		(no_gaps && has_gaps(type)));
	return type;
}

const struct type *
draw_reduced(struct draw *draw, const struct operation **operation)
{
	const struct type *type;

	do {
		type = draw_any(draw);
		*operation = &operations[draw_below(draw, OPERATIONS)];
	} while (!allows(type, (*operation)->kind));
	return type;
}

/* One number of an element: integers in `bits`, sign-extended; floating-point numbers, the parts of a complex, in `parts`. */
struct number {
	uint64_t bits;
	long double parts[2];
};

static void
store(const struct type *type, struct number number, void *bytes)
{
	int parts = type->category == COMPLEX ? 2 : 1, size = type->size / parts;

	if (type->category != FLOATING && type->category != COMPLEX) {
		memcpy(bytes, &number.bits, (size_t)type->size); /* little-endian */
		return;
	}
	memset(bytes, 0, (size_t)type->size);
	for (int i = 0; i < parts; i++) {
		char *to = (char *)bytes + i * size;

		if (size == sizeof(float))
			memcpy(to, &(float){(float)number.parts[i]}, sizeof(float));
		else if (size == sizeof(double))
			memcpy(to, &(double){(double)number.parts[i]}, sizeof(double));
		else
			memcpy(to, &number.parts[i], 10); /* the rest is padding */
	}
}

static struct number
load(const struct type *type, const void *bytes)
{
	int parts = type->category == COMPLEX ? 2 : 1, size = type->size / parts;
	struct number number = {0};

	if (type->category != FLOATING && type->category != COMPLEX) {
		memcpy(&number.bits, bytes, (size_t)type->size);
		if (type->category == SIGNED && size < 8 && (number.bits >> (8 * size - 1)) & 1)
			number.bits |= ~UINT64_C(0) << (8 * size);
		return number;
	}
	for (int i = 0; i < parts; i++) {
		const char *from = (const char *)bytes + i * size;
		float narrow;
		double wide;

		if (size == sizeof(float)) {
			memcpy(&narrow, from, sizeof(narrow));
			number.parts[i] = (long double)narrow;
		} else if (size == sizeof(double)) {
			memcpy(&wide, from, sizeof(wide));
			number.parts[i] = (long double)wide;
		} else
			memcpy(&number.parts[i], from, 10);
	}
	return number;
}

/* Open MPI 4.1 takes the first for signed and the second for unsigned in maxima and minima, MPICH 4.0 all for signed. */
static bool
confused(const struct type *type)
{
#ifdef MPICH_VERSION
	return type->category == UNSIGNED || type->handle == MPI_OFFSET;
#else
	return type->handle == MPI_UNSIGNED_LONG || type->handle == MPI_OFFSET;
#endif
}

/* Sums and products of integers don't overflow: MPI doesn't say what they are then. */
static struct number
operand(const struct type *type, enum kind kind, uint64_t seed, int rank, uint64_t index)
{
	uint64_t bits = draw_at(seed, (uint64_t)rank, index);
	struct number number = {.bits = bits};
	unsigned int width = 8 * (unsigned int)type->size;

	if (type->category == FLOATING || type->category == COMPLEX) {
		for (int i = 0; i < 2; i++, bits >>= 32) {
			/* PROD: [0.5, 1.5), either sign; others: any magnitude. */
			long double fraction = (long double)(bits & 0xffff) / 0x10000;

			number.parts[i] = kind == PROD
				? fraction + 0.5L
				: ldexpl(fraction, (int)(bits >> 16 & 15) - 8);
			if (bits >> 20 & 1)
				number.parts[i] = -number.parts[i];
		}
	} else if (type->category == LOGICAL)
		number.bits = bits & 1;
	else if (type->category == PAIR) /* few different values, so that indices decide */
		number.bits = (bits & 3) | (bits >> 8 & 0xff) << 32;
	else if ((kind == MAX || kind == MIN) && confused(type))
		number.bits = bits & ((UINT64_C(1) << (width - 1)) - 1);
	else if (kind >= LAND && kind <= LXOR)
		number.bits = bits & 1 ? 0 : bits >> 1;
	else if (kind == SUM || kind == USER) {
		number.bits = bits & ((UINT64_C(1) << (width - 5)) - 1);
		if (type->category == SIGNED && bits >> 63)
			number.bits = -number.bits;
	} else if (kind == PROD) {
		number.bits = rank < 3 ? 1 + (bits & 1) : 1;
		if (type->category == SIGNED && bits >> 63)
			number.bits = -number.bits;
	}
	return number;
}

void
element(const struct type *type, const struct operation *operation, uint64_t seed, int rank,
	uint64_t index, void *bytes)
{
	uint64_t word;

	if (operation) {
		store(type, operand(type, operation->kind, seed, rank, index), bytes);
		return;
	}
	for (int at = 0; at < type->size; at += 8) {
		word = draw_at(seed, (uint64_t)rank, index * 16 + (uint64_t)at / 8);
		memcpy((char *)bytes + at, &word,
			(size_t)(type->size - at < 8 ? type->size - at : 8));
	}
}

static uint64_t
combine(const struct type *type, enum kind kind, uint64_t a, uint64_t b)
{
	bool less = type->category == SIGNED ? (int64_t)a < (int64_t)b : a < b;

	switch (kind) {
	case MAX: return less ? b : a;
	case MIN: return less ? a : b;
	case SUM:
	case USER: return a + b;
	case PROD: return a * b;
	case LAND: return a && b;
	case LOR: return a || b;
	case LXOR: return !a != !b;
	case BAND: return a & b;
	case BOR: return a | b;
	case BXOR: return a ^ b;
	case MAXLOC:
	case MINLOC: break;
	}
	/* A pair: value in the low half, index in the high one. */
	if ((uint32_t)a == (uint32_t)b)
		return a >> 32 < b >> 32 ? a : b;
	return ((uint32_t)a > (uint32_t)b) == (kind == MAXLOC) ? a : b;
}

static bool
reduced_floating(const struct type *type, enum kind kind, uint64_t seed, int ranks, uint64_t index,
	const struct number *got)
{
	int parts = type->category == COMPLEX ? 2 : 1, size = type->size / parts;
	long double epsilon = size == sizeof(float) ? FLT_EPSILON
		: size == sizeof(double)            ? DBL_EPSILON
						    : LDBL_EPSILON;
	long double complex value = 0, other;
	long double magnitude = 0, allowed;

	for (int rank = 0; rank < ranks; rank++) {
		struct number number;
		char bytes[32];

		/* as narrow as the rank sent it */
		store(type, operand(type, kind, seed, rank, index), bytes);
		number = load(type, bytes);
		other = parts == 2 ? CMPLXL(number.parts[0], number.parts[1])
				   : CMPLXL(number.parts[0], 0);
		if (rank == 0)
			value = other, magnitude = cabsl(other);
		else if (kind == SUM)
			value += other, magnitude += cabsl(other);
		else if (kind == PROD)
			value *= other, magnitude *= cabsl(other);
		else if ((creall(other) > creall(value)) == (kind == MAX))
			value = other;
	}
	other = CMPLXL(got->parts[0], parts == 2 ? got->parts[1] : 0);
	allowed = kind == SUM ? (ranks - 1) * epsilon * magnitude : 4 * ranks * epsilon * magnitude;
	return kind <= MIN ? other == value : cabsl(other - value) <= allowed;
}

bool
reduced(const struct type *type, const struct operation *operation, uint64_t seed, int ranks,
	uint64_t index, const void *got)
{
	struct number found = load(type, got);
	uint64_t value = 0;
	char bytes[32];

	if (type->category == FLOATING || type->category == COMPLEX)
		return reduced_floating(type, operation->kind, seed, ranks, index, &found);
	for (int rank = 0; rank < ranks; rank++) {
		store(type, operand(type, operation->kind, seed, rank, index), bytes);
		value = rank == 0 ? load(type, bytes).bits
				  : combine(type, operation->kind, value, load(type, bytes).bits);
	}
	store(type, (struct number){.bits = value}, bytes);
	if (operation->kind >= LAND && operation->kind <= LXOR && ranks == 1)
		return true;
	return memcmp(bytes, got, (size_t)type->size) == 0;
}
