/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/mpi/pmpi/create.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mpi/openmpi/create.h"

bool
thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
	sigset_t all, former;
	bool can;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	can = pthread_create(thread, NULL, function, argument) == 0;
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	return can;
}

#ifdef OPEN_MPI
/* As the component does: the collectives of Open MPI's MPI_Comm_idup take the tags of the program's. */
void
set_creation(struct offload_front *front)
{
#ifdef WEIR_OPENMPI_CREATES
	char version[MPI_MAX_LIBRARY_VERSION_STRING], series[32];
	const char *missing = coll_weir_missing();
	int length, rank = 0;

	PMPI_Get_library_version(version, &length);
	length = snprintf(
		series, sizeof(series), "Open MPI v%d.%d.", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
	if (strncmp(version, series, (size_t)length) != 0)
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (missing != NULL && rank == 0)
		fprintf(stderr,
			"weir: this Open MPI has no %s, so only blocking collectives open "
			"communicators: build Weir with its headers\n",
			missing);
	if (missing != NULL)
		return;
	front->create = coll_weir_create;
	front->create_all = coll_weir_create_all;
	front->created = coll_weir_created;
#else
	(void)front;
#endif
}
#else
/* All ranks: by MPI_Comm_idup. Some: by MPI_Comm_create_group, which waits, in a thread. */
struct creation {
	MPI_Comm comm, parent;
	MPI_Request request;
	MPI_Group group; /* MPI_GROUP_NULL: all */
	int tag, error;
	bool threaded;
	pthread_t thread;
	atomic_bool ended; /* the thread has */
};

static int
create_all(MPI_Comm comm, void **creation)
{
	struct creation *made = calloc(1, sizeof(*made));
	int error;

	*creation = made;
	if (made == NULL)
		return MPI_ERR_NO_MEM;
	made->group = MPI_GROUP_NULL;
	error = PMPI_Comm_idup(comm, &made->comm, &made->request);
	if (error != MPI_SUCCESS) {
		free(made);
		*creation = NULL;
	}
	return error;
}

static void *
create_in_thread(void *creation)
{
	struct creation *made = creation;

	made->error = PMPI_Comm_create_group(made->parent, made->group, made->tag, &made->comm);
	atomic_store(&made->ended, true);
	return NULL;
}

static int
create(MPI_Comm comm, MPI_Group group, int which, void **creation)
{
	struct creation *made = calloc(1, sizeof(*made));

	*creation = made;
	if (made == NULL)
		return MPI_ERR_NO_MEM;
	made->parent = comm;
	made->tag = which;
	PMPI_Group_excl(group, 0, NULL, &made->group);
	/* Without a thread here: the other ranks have begun, or will in threads of theirs. */
	made->threaded = thread_start(&made->thread, create_in_thread, made);
	if (!made->threaded)
		create_in_thread(made);
	return MPI_SUCCESS;
}

static bool
created(void *creation, MPI_Comm *result)
{
	struct creation *made = creation;
	int done;

	if (made->group == MPI_GROUP_NULL) {
		made->error = PMPI_Test(&made->request, &done, MPI_STATUS_IGNORE);
		if (made->error == MPI_SUCCESS && !done)
			return false;
	} else {
		if (!atomic_load(&made->ended))
			return false;
		if (made->threaded)
			pthread_join(made->thread, NULL);
		PMPI_Group_free(&made->group);
	}
	*result = MPI_COMM_NULL;
	if (made->error == MPI_SUCCESS) {
		*result = made->comm;
		PMPI_Comm_set_errhandler(*result, MPI_ERRORS_RETURN);
	}
	free(made);
	return true;
}

void
set_creation(struct offload_front *front)
{
	front->create = create;
	front->create_all = create_all;
	front->created = created;
}
#endif
