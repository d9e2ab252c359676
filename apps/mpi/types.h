/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's datatypes and operations in Weir's terms. No function communicates; any thread, between MPI_Init and
 * MPI_Finalize. Sizes are MPI's own, asked for once, because Fortran's types depend on how MPI was built.
 */
#ifndef APPS_MPI_TYPES_H
#define APPS_MPI_TYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "pktbuf/wire/types.h"

/* What is sent of `count` MPI elements: count * elements of dtype. */
struct mpi_form {
	enum weir_dtype dtype;
	enum weir_op op;
	unsigned int elements; /* 2 for complex numbers, otherwise 1 */
	size_t bytes; /* of an MPI element */
};

/*
 * The form of a reduction. False: MPI must do it, because the type is derived or has no Weir type, or the operation
 * is the user's, MINLOC or the like, or MPI does not allow it for the type. Cost: two look-ups in small tables.
 */
bool mpi_reduction(MPI_Datatype type, MPI_Op op, struct mpi_form *form);

/*
 * The form of `bytes` bytes that are only moved: the widest unsigned type that divides them. It depends on nothing
 * else, since ranks may describe the same bytes by different datatypes. *count is the number of its elements.
 */
enum weir_dtype mpi_moved(size_t bytes, size_t *count);

/* MPI's own type for elements of a Weir type that mpi_reduction() or mpi_moved() gave. */
MPI_Datatype mpi_type_of(enum weir_dtype dtype);

/*
 * An operation of mpi_reduction() for elements of mpi_type_of(), commutative, which reduces with the switch's kernels
 * (rmw/kernels.h). Inside a host MPI reduces with it: MPI's own operations differ in overflows and NaNs, and so a result would
 * depend on where its ranks are. MPI_OP_NULL, of all: MPI could not make one. It exists until MPI_Finalize. Not within MPI_Init.
 */
MPI_Op mpi_op_of(enum weir_op op);

/* The bytes of one element of any valid datatype; 0 also for MPI_DATATYPE_NULL. */
size_t mpi_type_bytes(MPI_Datatype type);

/* May the program communicate with it? `own` has this rank alone and returns errors. */
bool mpi_type_valid(MPI_Datatype type, MPI_Comm own);

/* Is it a type of MPI's own, which no program frees? */
bool mpi_type_named(MPI_Datatype type);

/*
 * Do elements of this type lie in memory as they are sent, one after the other, beginning at the buffer's address? True
 * for MPI's own types without gaps, and for duplicates and contiguous types of them. Other derived types
 * may permute their parts, so they answer false, and are packed.
 */
bool mpi_type_plain(MPI_Datatype type);

#endif
