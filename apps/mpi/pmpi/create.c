/* SPDX-License-Identifier: BSD-3-Clause */
/* MPICH's communicators, by MPI_Comm_create_group, which waits, in a thread. Unlike MPI_Comm_idup
 * it copies no attributes. */
#include "apps/mpi/create.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "apps/libweir/work.h"

/* The largest ones that every MPI has, since the program may call it, too. */
#define TAG(which) (32767 - (which))

struct creation {
	MPI_Comm comm, parent;
	MPI_Group group;
	int tag, error;
	bool threaded;
	pthread_t thread;
	atomic_bool ended; /* the thread has */
};

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
	made->tag = TAG(which);
	PMPI_Group_excl(group, 0, NULL, &made->group);
	/* Without a thread here: the other ranks have begun, or will in threads of theirs. */
	made->threaded = weir_thread_start(&made->thread, create_in_thread, made) == 0;
	if (!made->threaded)
		create_in_thread(made);
	return MPI_SUCCESS;
}

static bool
created(void *creation, MPI_Comm *result)
{
	struct creation *made = creation;

	if (!atomic_load(&made->ended))
		return false;
	if (made->threaded)
		pthread_join(made->thread, NULL);
	PMPI_Group_free(&made->group);
	*result = MPI_COMM_NULL;
	if (made->error == MPI_SUCCESS) {
		*result = made->comm;
		PMPI_Comm_set_errhandler(*result, MPI_ERRORS_RETURN);
	}
	free(made);
	return true;
}

void
create_functions(struct offload_front *front)
{
	front->create = create;
	front->created = created;
}
