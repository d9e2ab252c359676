/* SPDX-License-Identifier: BSD-3-Clause */
/* The preload library's communicators that are created without waiting, and its threads. */
#ifndef APPS_MPI_PMPI_CREATE_H
#define APPS_MPI_PMPI_CREATE_H

#include <pthread.h>

#include "apps/mpi/offload.h"

/* Start a thread that gets no signals. False: there is no memory for it. */
bool thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/* Fill `create` and its like where this MPI has a way. With MPICH only if MPI provides MPI_THREAD_MULTIPLE. */
void set_creation(struct offload_front *front);

#endif
