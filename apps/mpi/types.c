/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/mpi/types.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "rmw/kernels.h"

/* Types that not every MPI has. */
#ifndef MPI_LOGICAL1
#define MPI_LOGICAL1 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL2
#define MPI_LOGICAL2 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL4
#define MPI_LOGICAL4 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL8
#define MPI_LOGICAL8 MPI_DATATYPE_NULL
#endif
#ifndef MPI_REAL2
#define MPI_REAL2 MPI_DATATYPE_NULL
#endif
#ifndef MPIX_C_FLOAT16
#define MPIX_C_FLOAT16 MPI_DATATYPE_NULL
#endif

struct known_type {
	MPI_Datatype type;
	bool used;
	uint32_t ops; /* that Weir and MPI have, by enum weir_op */
	struct mpi_form form;
};

/* Found by the handle, which is an address or a number: an open hash table, a quarter full. */
#define SLOTS 256
static struct known_type table[SLOTS];
static MPI_Datatype fp16; /* the first one in the table; MPI_DATATYPE_NULL: this MPI has none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned int
slot_of(MPI_Datatype type)
{
	return (unsigned int)(((uint64_t)(uintptr_t)type * UINT64_C(0x9e3779b97f4a7c15)) >> 56) %
		SLOTS;
}

/* `elements` parts of 1, 2, 4 or 8 bytes, of these Weir types. */
static void
table_add(uint32_t type_ops, const unsigned int *dtypes, unsigned int elements, MPI_Datatype type)
{
	unsigned int slot = slot_of(type), dtype = WEIR_DTYPES;
	int bytes = 0;

	/* Types that this MPI was built without. */
	if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &bytes) != MPI_SUCCESS || bytes <= 0)
		return;
	while (table[slot].used && table[slot].type != type)
		slot = (slot + 1) % SLOTS;
	if (table[slot].used)
		return;
	for (unsigned int i = 0; i < 4; i++)
		if ((size_t)bytes == (size_t)elements << i)
			dtype = dtypes[i];
	table[slot] = (struct known_type){.type = type, .used = true};
	table[slot].form.bytes = (size_t)bytes;
	table[slot].form.elements = elements;
	if (dtype == WEIR_DTYPES)
		return;
	table[slot].form.dtype = (enum weir_dtype)dtype;
	table[slot].ops = type_ops;
	if (dtype == WEIR_DTYPE_FP16 && fp16 == MPI_DATATYPE_NULL)
		fp16 = type;
}

#define OPS_ARITHMETIC                                                                             \
	(1u << WEIR_OP_SUM | 1u << WEIR_OP_PROD | 1u << WEIR_OP_MIN | 1u << WEIR_OP_MAX)
#define OPS_LOGICAL (1u << WEIR_OP_LAND | 1u << WEIR_OP_LOR | 1u << WEIR_OP_LXOR)
#define OPS_BITWISE (1u << WEIR_OP_BAND | 1u << WEIR_OP_BOR | 1u << WEIR_OP_BXOR)

/* MPI's types that have reductions (MPI 4.0, 6.9.2). Without any: pairs of a number and an index. */
static void
table_fill(void)
{
	static const unsigned int integers[] = {WEIR_DTYPE_INT8, WEIR_DTYPE_INT16, WEIR_DTYPE_INT32,
		WEIR_DTYPE_INT64},
				  naturals[] = {WEIR_DTYPE_UINT8, WEIR_DTYPE_UINT16,
					  WEIR_DTYPE_UINT32, WEIR_DTYPE_UINT64},
				  floats[] = {WEIR_DTYPES, WEIR_DTYPE_FP16, WEIR_DTYPE_FP32,
					  WEIR_DTYPE_FP64};

#define ADD(type_ops, dtypes, elements, ...)                                                       \
	do {                                                                                       \
		const MPI_Datatype types[] = {__VA_ARGS__};                                        \
                                                                                                   \
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)                      \
			table_add(type_ops, dtypes, elements, types[i]);                           \
	} while (0)
	fp16 = MPI_DATATYPE_NULL;
	/* Integers of C, which alone have logical operations. */
	ADD(OPS_ARITHMETIC | OPS_LOGICAL | OPS_BITWISE, integers, 1, MPI_SIGNED_CHAR, MPI_SHORT,
		MPI_INT, MPI_LONG, MPI_LONG_LONG_INT, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T,
		MPI_INT64_T);
	ADD(OPS_ARITHMETIC | OPS_LOGICAL | OPS_BITWISE, naturals, 1, MPI_UNSIGNED_CHAR,
		MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
		MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T);
	/* Of Fortran, or of all languages. */
	ADD(OPS_ARITHMETIC | OPS_BITWISE, integers, 1, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER,
		MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8);
	ADD(OPS_ARITHMETIC, floats, 1, MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_REAL2, MPIX_C_FLOAT16,
		MPI_REAL4, MPI_REAL8, MPI_DOUBLE_PRECISION);
	ADD(1u << WEIR_OP_SUM, floats, 2, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX,
		MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_COMPLEX8,
		MPI_COMPLEX16, MPI_DOUBLE_COMPLEX);
	ADD(OPS_LOGICAL, integers, 1, MPI_LOGICAL, MPI_LOGICAL1, MPI_LOGICAL2, MPI_LOGICAL4,
		MPI_LOGICAL8, MPI_C_BOOL, MPI_CXX_BOOL);
	ADD(OPS_BITWISE, naturals, 1, MPI_BYTE);
	/* No reductions, but so frequent that they belong in the table. */
	ADD(0, integers, 1, MPI_CHAR, MPI_CHARACTER, MPI_WCHAR, MPI_PACKED, MPI_LONG_DOUBLE);
}

static const struct known_type *
table_find(MPI_Datatype type)
{
	pthread_once(&once, table_fill);
	for (unsigned int slot = slot_of(type); table[slot].used; slot = (slot + 1) % SLOTS)
		if (table[slot].type == type)
			return &table[slot];
	return NULL;
}

/* Libweir's operations have MPI's names, but for the average: MPI has none. */
#define MPI_AVG MPI_OP_NULL

/* WEIR_OPS: not an operation of Weir. */
static unsigned int
op_of(MPI_Op op)
{
#define X(name, ...)                                                                               \
	if (op == MPI_##name)                                                                      \
		return WEIR_OP_##name;
	WEIR_OP_LIST(X)
#undef X
	return WEIR_OPS;
}

static const struct rmw_reduction *reductions[WEIR_DTYPES][WEIR_OPS];

/* inout = inout OP in, of n elements of a type of mpi_type_of(), by the switch's kernels. */
static void
reduce(enum weir_op op, const char *in, char *inout, size_t n, MPI_Datatype type)
{
	const struct known_type *known = table_find(type);
	const struct rmw_reduction *reduction = reductions[known->form.dtype][op];
	size_t bytes = known->form.bytes, piece;
	_Alignas(
		64) char acc[512 * sizeof(uint64_t)]; /* no accumulator is larger than a uint64_t */

#ifdef __SSE2__
	/* The program may flush denormals, round otherwise or trap; the kernels may not (rmw/kernels.h). */
	unsigned int control = _mm_getcsr();

	_mm_setcsr(0x1f80);
#endif
	for (; n > 0; n -= piece, in += piece * bytes, inout += piece * bytes) {
		piece = n < 512 ? n : 512;
		reduction->begin(acc, (const void *const[]){inout, in}, 2, piece);
		if (reduction->finish != NULL)
			reduction->finish(acc, piece, 2);
		memcpy(inout, acc, piece * bytes);
	}
#ifdef __SSE2__
	_mm_setcsr(control);
#endif
}

#define X(name, ...)                                                                               \
	static void reduce_##name(void *in, void *inout, int *n, MPI_Datatype *type)               \
	{                                                                                          \
		reduce(WEIR_OP_##name, in, inout, (size_t)*n, *type);                              \
	}
WEIR_OP_LIST(X)
#undef X

static MPI_Op ops[WEIR_OPS];

/* Not with the types: Open MPI looks these up inside MPI_Init, and makes no operations there. */
static void
ops_create(void)
{
	bool all = true;

	for (unsigned int dtype = 0; dtype < WEIR_DTYPES; dtype++)
		for (unsigned int op = 0; op < WEIR_OPS; op++)
			reductions[dtype][op] =
				rmw_reduction((enum weir_dtype)dtype, (enum weir_op)op);
#define X(name, ...)                                                                               \
	all = all && PMPI_Op_create(reduce_##name, 1, &ops[WEIR_OP_##name]) == MPI_SUCCESS;
	WEIR_OP_LIST(X)
#undef X
	for (unsigned int op = 0; op < WEIR_OPS && !all; op++)
		ops[op] = MPI_OP_NULL;
}

MPI_Op
mpi_op_of(enum weir_op op)
{
	static pthread_once_t created = PTHREAD_ONCE_INIT;

	pthread_once(&created, ops_create);
	return ops[op];
}

bool
mpi_reduction(MPI_Datatype type, MPI_Op op, struct mpi_form *form)
{
	const struct known_type *known = table_find(type);
	unsigned int weir_op = op_of(op);

	if (known == NULL || weir_op >= WEIR_OPS || !(known->ops & 1u << weir_op))
		return false;
	*form = known->form;
	form->op = (enum weir_op)weir_op;
	return true;
}

enum weir_dtype
mpi_moved(size_t bytes, size_t *count)
{
	unsigned int unit = bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;

	*count = bytes / unit;
	return unit == 4 ? WEIR_DTYPE_UINT32 : unit == 2 ? WEIR_DTYPE_UINT16 : WEIR_DTYPE_UINT8;
}

MPI_Datatype
mpi_type_of(enum weir_dtype dtype)
{
	const MPI_Datatype types[WEIR_DTYPES] = {
		[WEIR_DTYPE_INT8] = MPI_INT8_T,
		[WEIR_DTYPE_UINT8] = MPI_UINT8_T,
		[WEIR_DTYPE_INT16] = MPI_INT16_T,
		[WEIR_DTYPE_UINT16] = MPI_UINT16_T,
		[WEIR_DTYPE_INT32] = MPI_INT32_T,
		[WEIR_DTYPE_UINT32] = MPI_UINT32_T,
		[WEIR_DTYPE_INT64] = MPI_INT64_T,
		[WEIR_DTYPE_UINT64] = MPI_UINT64_T,
		[WEIR_DTYPE_FP16] = fp16,
		[WEIR_DTYPE_FP32] = MPI_FLOAT,
		[WEIR_DTYPE_FP64] = MPI_DOUBLE,
	};

	return types[dtype];
}

size_t
mpi_type_bytes(MPI_Datatype type)
{
	const struct known_type *known = table_find(type);
	MPI_Count bytes;

	if (known != NULL)
		return known->form.bytes;
	if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &bytes) != MPI_SUCCESS)
		return 0;
	return bytes > 0 ? (size_t)bytes : 0;
}

bool
mpi_type_valid(MPI_Datatype type, MPI_Comm own)
{
	char none;
	int position = 0;

	return table_find(type) != NULL ||
		PMPI_Pack(&none, 0, type, &none, 1, &position, own) == MPI_SUCCESS;
}

#if MPI_VERSION >= 4
#pragma weak PMPI_Type_get_envelope_c /* the library may be older than the header */
#endif

/* How a type was made. MPI_COMBINER_RESIZED, which says the least, if with a large count. False: MPI does not tell. */
static bool
envelope(MPI_Datatype type, int *integers, int *addresses, int *types, int *combiner)
{
#if MPI_VERSION >= 4
	MPI_Count n[4];

	if (PMPI_Type_get_envelope_c != NULL) {
		if (PMPI_Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], combiner) !=
			MPI_SUCCESS)
			return false;
		if (n[2] > 0)
			*combiner = MPI_COMBINER_RESIZED;
		*integers = (int)n[0];
		*addresses = (int)n[1];
		*types = (int)n[3];
		return true;
	}
#endif
	return PMPI_Type_get_envelope(type, integers, addresses, types, combiner) == MPI_SUCCESS;
}

bool
mpi_type_named(MPI_Datatype type)
{
	int integers, addresses, types, combiner;

	return table_find(type) != NULL ||
		(envelope(type, &integers, &addresses, &types, &combiner) &&
			combiner == MPI_COMBINER_NAMED);
}

bool
mpi_type_plain(MPI_Datatype type)
{
	int integers, addresses, types, combiner, count;
	MPI_Aint lb, extent;
	MPI_Datatype inner;
	bool plain;

	if (table_find(type) != NULL)
		return true;
	if (!envelope(type, &integers, &addresses, &types, &combiner))
		return false;
	if (combiner == MPI_COMBINER_NAMED)
		return PMPI_Type_get_extent(type, &lb, &extent) == MPI_SUCCESS && lb == 0 &&
			extent == (MPI_Aint)mpi_type_bytes(type);
	if ((combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) || integers > 1 ||
		PMPI_Type_get_contents(type, integers, addresses, types, &count, NULL, &inner) !=
			MPI_SUCCESS)
		return false;
	plain = mpi_type_plain(inner);
	if (!mpi_type_named(inner))
		PMPI_Type_free(&inner);
	return plain;
}
