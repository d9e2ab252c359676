/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives are MPI 4.0's, and extensions of Open MPI 4.1: PERSISTENT(Allreduce, ...) calls one. */
#ifndef TESTS_FUNCTIONAL_MPI_PERSISTENT_H
#define TESTS_FUNCTIONAL_MPI_PERSISTENT_H

#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT(name, ...) MPIX_##name##_init(__VA_ARGS__)
#else
#define PERSISTENT(name, ...) MPI_##name##_init(__VA_ARGS__)
#endif

#endif
