/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For struct offload_front (offload.h) of the component and of Open MPI's preload library: create.c needs the headers of
 * Open MPI's own code, and works with the series of Open MPI that these belong to.
 */
#ifndef APPS_MPI_OPENMPI_CREATE_H
#define APPS_MPI_OPENMPI_CREATE_H

#include <mpi.h>
#include <stdbool.h>

/* A symbol that these functions need and this process's Open MPI lacks; NULL: there is none. */
const char *coll_weir_missing(void);

int coll_weir_create(MPI_Comm comm, MPI_Group group, int which, void **creation);
int coll_weir_create_all(MPI_Comm comm, void **creation);
bool coll_weir_created(void *creation, MPI_Comm *result);

#endif
