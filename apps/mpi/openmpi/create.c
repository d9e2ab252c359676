/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators created without waiting. MPI_Comm_idup would do, but in Open MPI 4.1 its collectives take the tags of
 * nonblocking collectives in the order of MPI's progress, which differs from rank to rank; and it waits in line with
 * other creations, which the program may have ordered differently on other ranks. So the ranks first find
 * each other, by empty messages up and down a tree, and then let Open MPI agree on a context id by messages
 * with a tag of their own, as MPI_Comm_create_group does.
 */
#include "apps/mpi/create.h"

#include "apps/mpi/openmpi/internals.h"

#include <ompi/communicator/communicator.h>
#include <ompi/mca/coll/base/coll_tags.h>
#include <ompi/mca/pml/pml.h>

/* Not part of MPI's interface: a program whose Open MPI lacks one of them can have a preload library that does not create. */
#define INTERNALS(X)                                                                               \
	X(mca_pml)                                                                                 \
	X(ompi_comm_activate_nb)                                                                   \
	X(ompi_comm_nextcid_nb)                                                                    \
	X(ompi_comm_set)                                                                           \
	X(opal_uses_threads)
#define X(name) extern __typeof__(name) name __attribute__((weak));
INTERNALS(X)
#undef X

/* A symbol that this process's Open MPI lacks; NULL: there is none. */
static const char *
missing(void)
{
#define X(name)                                                                                    \
	if ((const void *)(uintptr_t)&name == NULL)                                                \
		return #name;
	INTERNALS(X)
#undef X
	return NULL;
}

/* Far from tags that Open MPI uses. Negative tags also go first in the allocation of context ids. */
#define TAG_MEET(which)   (MCA_COLL_BASE_TAG_HCOLL_BASE - 1000 - 2 * (which))
#define TAG_CREATE(which) (TAG_MEET(which) - 1)

#if OMPI_MAJOR_VERSION < 5
#define WITHOUT_TOPOLOGY(group) false, group, NULL
#define NUMBER_OF(comm)         ((int)(comm)->c_contextid)
#else
#define WITHOUT_TOPOLOGY(group) group, NULL, 0
#define NUMBER_OF(comm)         ((int)(comm)->c_index)
#endif

struct creation {
	ompi_communicator_t *parent, *made;
	ompi_group_t *group;
	enum { FROM_CHILDREN, WITH_PARENT, TO_CHILDREN, NUMBER, ACTIVATE } stage;
	int which, tag;
	int peers[3]; /* in the tree: the parent, two children; MPI_PROC_NULL: none */
	ompi_request_t *messages[3];
	ompi_request_t *request; /* of Open MPI's own steps */
	bool failed;
};

static void
message(struct creation *creation, bool send, int peer)
{
	int i = 0, code, tag = TAG_MEET(creation->which);

	if (peer == MPI_PROC_NULL)
		return;
	while (creation->messages[i] != NULL)
		i++;
	code = send ? MCA_PML_CALL(isend(NULL, 0, MPI_BYTE, peer, tag, MCA_PML_BASE_SEND_STANDARD,
			      creation->parent, &creation->messages[i]))
		    : MCA_PML_CALL(irecv(NULL, 0, MPI_BYTE, peer, tag, creation->parent,
			      &creation->messages[i]));
	creation->failed |= code != OMPI_SUCCESS;
}

static int
create(MPI_Comm comm, MPI_Group group, int which, void **result)
{
	struct creation *creation = calloc(1, sizeof(*creation));
	int rank, size, tree[3];
	MPI_Group all;

	*result = creation;
	if (creation == NULL)
		return MPI_ERR_NO_MEM;
	PMPI_Group_rank(group, &rank);
	PMPI_Group_size(group, &size);
	tree[0] = rank > 0 ? (rank - 1) / 2 : MPI_PROC_NULL;
	for (int child = 1; child <= 2; child++)
		tree[child] = 2 * rank + child < size ? 2 * rank + child : MPI_PROC_NULL;
	PMPI_Comm_group(comm, &all);
	PMPI_Group_translate_ranks(group, 3, tree, all, creation->peers);
	PMPI_Group_free(&all);
	OBJ_RETAIN(group);
	creation->group = group;
	creation->parent = comm;
	creation->which = which;
	creation->tag = TAG_CREATE(which);
	message(creation, false, creation->peers[1]);
	message(creation, false, creation->peers[2]);
	return MPI_SUCCESS;
}

/* Have all messages and Open MPI's step ended? */
static bool
ended(struct creation *creation)
{
	for (int i = 0; i < 3; i++)
		if (creation->messages[i] != NULL) {
			if (!REQUEST_COMPLETE(creation->messages[i]))
				return false;
			ompi_request_free(&creation->messages[i]);
			creation->messages[i] = NULL;
		}
	if (creation->request != NULL) {
		if (!REQUEST_COMPLETE(creation->request))
			return false;
		creation->failed |= creation->request->req_status.MPI_ERROR != OMPI_SUCCESS;
		ompi_request_free(&creation->request);
		creation->request = NULL;
	}
	return true;
}

static void
next(struct creation *creation)
{
	const int *peers = creation->peers;
	int code = OMPI_SUCCESS;

	switch (creation->stage) {
	case FROM_CHILDREN:
		message(creation, true, peers[0]);
		message(creation, false, peers[0]);
		break;
	case WITH_PARENT:
		message(creation, true, peers[1]);
		message(creation, true, peers[2]);
		break;
	case TO_CHILDREN:
		code = ompi_comm_set(&creation->made, creation->parent,
			ompi_group_size(creation->group), NULL, 0, NULL, NULL,
			&ompi_mpi_errors_return.eh, WITHOUT_TOPOLOGY(creation->group));
		if (code == OMPI_SUCCESS)
			code = ompi_comm_nextcid_nb(creation->made, creation->parent, NULL,
				&creation->tag, NULL, false, OMPI_COMM_CID_GROUP,
				&creation->request);
		break;
	case NUMBER:
		snprintf(creation->made->c_name, MPI_MAX_OBJECT_NAME, "WEIR %d FROM %d",
			NUMBER_OF(creation->made), NUMBER_OF(creation->parent));
		code = ompi_comm_activate_nb(&creation->made, creation->parent, NULL,
			&creation->tag, NULL, false, OMPI_COMM_CID_GROUP, &creation->request);
		break;
	case ACTIVATE: break;
	}
	creation->failed |= code != OMPI_SUCCESS;
	creation->stage++;
}

static bool
created(void *opaque, MPI_Comm *result)
{
	struct creation *creation = opaque;

	while (ended(creation)) {
		if (!creation->failed && creation->stage < ACTIVATE) {
			next(creation);
			continue;
		}
		*result = creation->failed ? MPI_COMM_NULL : creation->made;
		OBJ_RELEASE(creation->group);
		free(creation);
		return true;
	}
	return false;
}

void
create_functions(struct offload_front *front)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING], series[32];
	const char *lacks = missing();
	int length, rank = 0;

	PMPI_Get_library_version(version, &length);
	length = snprintf(
		series, sizeof(series), "Open MPI v%d.%d.", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
	if (strncmp(version, series, (size_t)length) != 0)
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (lacks != NULL && rank == 0)
		fprintf(stderr,
			"weir: this Open MPI has no %s, so only blocking collectives open "
			"communicators: build Weir with its headers\n",
			lacks);
	if (lacks != NULL)
		return;
	front->create = create;
	front->created = created;
}
