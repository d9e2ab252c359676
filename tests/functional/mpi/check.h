/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of one file share: the rank, and a check that ends the job. */
#ifndef TESTS_FUNCTIONAL_MPI_CHECK_H
#define TESTS_FUNCTIONAL_MPI_CHECK_H

#include <mpi.h>
#include <stdio.h>

static int rank, ranks; /* in MPI_COMM_WORLD, or another communicator of the program */

#define CHECK(holds)                                                                               \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #holds);         \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

#endif
