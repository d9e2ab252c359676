/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that are created without waiting, for struct offload_front (offload.h). Each MPI
 * has its own way. Open MPI's, openmpi/create.c, needs the headers of its own code, and works with
 * the series of Open MPI that these belong to.
 */
#ifndef APPS_MPI_CREATE_H
#define APPS_MPI_CREATE_H

#include "apps/mpi/offload.h"

/* Fill `create` and its like where this process's MPI has a way. With MPICH only if MPI provides
 * MPI_THREAD_MULTIPLE. */
void create_functions(struct offload_front *front);

#endif
