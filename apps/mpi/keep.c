/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a communicator's job. A communicator that is freed while all is well leaves its job to
 * the next one of the same ranks: opening a job takes as long as some hundred calls, and a program
 * may create and free a communicator in each of its steps. A rank keeps the last few. Which ones
 * differs from rank to rank, since ranks free their communicators in different orders; so ranks
 * that open a communicator first agree on a job that all of them have (open.c).
 */
#include <stdlib.h>
#include <string.h>

#include "apps/mpi/offload_priv.h"

#define KEPT_MAX 4

_Atomic unsigned int jobs_open;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* nothing is called with it */
static LIST_HEAD(kept, offload_comm) kept = LIST_HEAD_INITIALIZER(kept); /* the last one first */

void
mpi_comm_free(MPI_Comm *comm)
{
	if (*comm != MPI_COMM_NULL)
		INSIDE(PMPI_Comm_free(comm));
	*comm = MPI_COMM_NULL;
}

void
job_count(struct offload_comm *comm, bool open)
{
	if (open != comm->has_job)
		atomic_fetch_add(&jobs_open, open ? 1u : -1u);
	comm->has_job = open;
}

void
job_close(struct offload_comm *comm)
{
	weir_close(comm->weir);
	comm->weir = NULL;
	job_count(comm, false);
	/* A failed communicator may have left local steps without an end. */
	if (atomic_load(&comm->state) != COMM_FAILED) {
		mpi_comm_free(&comm->local[0]);
		mpi_comm_free(&comm->local[1]);
	}
	free(comm->layout.host_of);
	comm->layout = (struct layout){0};
}

void
kept_close(unsigned int n)
{
	struct offload_comm *comm;

	do {
		unsigned int left = n;

		pthread_mutex_lock(&lock);
		for (comm = LIST_FIRST(&kept); comm != NULL && left > 0; left--)
			comm = LIST_NEXT(comm, link);
		if (comm != NULL)
			LIST_REMOVE(comm, link);
		pthread_mutex_unlock(&lock);
		if (comm != NULL)
			job_close(comm);
		free(comm);
	} while (comm != NULL);
}

void
comm_end(struct offload_comm *comm)
{
	mpi_comm_free(&comm->private_comm);
	if (atomic_load(&comm->state) != COMM_ON || comm->members == 0) {
		job_close(comm);
		free(comm);
		return;
	}
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&kept, comm, link);
	pthread_mutex_unlock(&lock);
	kept_close(KEPT_MAX);
}

struct offload_comm *
kept_take(const struct offload_comm *comm)
{
	struct offload_comm *found;

	pthread_mutex_lock(&lock);
	LIST_FOREACH (found, &kept, link)
		if (found->members == comm->members && found->size == comm->size &&
			found->rank == comm->rank)
			break;
	if (found != NULL)
		LIST_REMOVE(found, link);
	pthread_mutex_unlock(&lock);
	return found;
}

void
job_move(struct offload_comm *to, struct offload_comm *from)
{
	to->weir = from->weir;
	to->min_bytes = from->min_bytes;
	to->max_bytes = from->max_bytes;
	to->min_hosts = from->min_hosts;
	to->contact_ms = from->contact_ms;
	to->elements = from->elements;
	to->layout = from->layout;
	memcpy(to->local, from->local, sizeof(to->local));
	memcpy(to->job, from->job, sizeof(to->job));
	to->has_job = from->has_job;
	free(from);
}
