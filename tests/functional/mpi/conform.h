/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random collective calls whose results each rank computes for itself, from data that every rank can draw: what MPI
 * returns is compared with that. Errors end the job. tests/functional/test_mpi_conform.py runs it, with and without Weir,
 * and compares the digests.
 */
#ifndef TESTS_FUNCTIONAL_MPI_CONFORM_H
#define TESTS_FUNCTIONAL_MPI_CONFORM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A generator; the same state on two ranks draws the same. */
struct draw {
	uint64_t state;
};

uint64_t draw64(struct draw *draw);
/* A number of [0, n). */
unsigned int draw_below(struct draw *draw, unsigned int n);
/* The number at a place of a sequence without end. */
uint64_t draw_at(uint64_t seed, uint64_t rank, uint64_t index);

/* types.c: types, operations, and results. */
enum category { SIGNED, UNSIGNED, FLOATING, COMPLEX, LOGICAL, BYTES, PAIR, MOVED_ONLY };

struct type {
	const char *name;
	MPI_Datatype handle;
	enum category category;
	bool c_integer; /* has logical operations */
	int size; /* in bytes, of the data without gaps */
};

struct operation {
	const char *name;
	MPI_Op handle;
	enum kind {
		MAX,
		MIN,
		SUM,
		PROD,
		LAND,
		LOR,
		LXOR,
		BAND,
		BOR,
		BXOR,
		MAXLOC,
		MINLOC,
		USER
	} kind;
};

void types_begin(void);
void types_end(void);
/* A type of data that is only moved. */
const struct type *draw_type(struct draw *draw);
/* A type and an operation that MPI allows for it. */
const struct type *draw_reduced(struct draw *draw, const struct operation **operation);
/* Element `index` of a rank's data, packed, into `bytes`. operation: what becomes of it, or NULL. */
void element(const struct type *type, const struct operation *operation, uint64_t seed, int rank,
	uint64_t index, void *bytes);
/* Whether `got` may be the reduction of the elements `index` of n ranks; floating-point numbers in any order. */
bool reduced(const struct type *type, const struct operation *operation, uint64_t seed, int ranks,
	uint64_t index, const void *got);

/* collectives.c: one call of any kind. */

/*
 * Whether ranks lay out the same data in different ways. Open MPI and MPICH themselves can't: their algorithms take
 * different steps then, and fail or hang. So does Open MPI's MPI_Ibcast of nothing, which takes a tag only on ranks whose
 * count is not 0, if their type is empty.
 */
extern bool mixed_layouts;
/* Whether each call is printed by each rank. */
extern bool trace_calls;
/* Whether types with gaps are left out: MPICH 4.0 itself writes into gaps, or finds its messages truncated. */
extern bool no_gaps;

/*
 * Random calls on a communicator, blocking, nonblocking and persistent; all ranks with the same seed. Each rank prints a
 * digest of what it received, which depends on the seed alone.
 */
void exercise(MPI_Comm comm, const char *what, uint64_t seed, unsigned int calls);
/* Ends the job with a text. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
