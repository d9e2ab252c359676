/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_mpi.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

void (*fake_weir_started)(struct weir *weir, enum weir_collective collective);
int fake_weir_looks = 3;
unsigned int fake_weir_slept_ms;

/* MPI */

/* MPICH's own types have their size in the handle. */
static int
size_of(MPI_Datatype type)
{
	return type == GAPPED ? 4 : (type & 0xff00) >> 8;
}

int
PMPI_Type_size(MPI_Datatype type, int *size)
{
	*size = size_of(type);
	return MPI_SUCCESS;
}

int
PMPI_Type_size_x(MPI_Datatype type, MPI_Count *size)
{
	*size = size_of(type);
	return MPI_SUCCESS;
}

int
PMPI_Type_get_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent)
{
	*lb = 0;
	*extent = type == GAPPED ? 8 : size_of(type);
	return MPI_SUCCESS;
}

int
PMPI_Type_get_envelope(MPI_Datatype type, int *integers, int *addresses, int *types, int *combiner)
{
	*integers = *addresses = *types = 0;
	*combiner = type == GAPPED ? MPI_COMBINER_RESIZED : MPI_COMBINER_NAMED;
	return MPI_SUCCESS;
}

#if MPI_VERSION >= 4
int
PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
	MPI_Count *counts, MPI_Count *types, int *combiner)
{
	*integers = *addresses = *counts = *types = 0;
	*combiner = type == GAPPED ? MPI_COMBINER_RESIZED : MPI_COMBINER_NAMED;
	return MPI_SUCCESS;
}
#endif

int
PMPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int size, int *position,
	MPI_Comm comm)
{
	size_t stride = type == GAPPED ? 8 : (size_t)size_of(type), bytes = (size_t)size_of(type);

	(void)size;
	(void)comm;
	for (int i = 0; i < count; i++, *position += (int)bytes)
		memcpy((char *)out + *position, (const char *)in + (size_t)i * stride, bytes);
	return MPI_SUCCESS;
}

int
PMPI_Unpack(const void *in, int size, int *position, void *out, int count, MPI_Datatype type,
	MPI_Comm comm)
{
	size_t stride = type == GAPPED ? 8 : (size_t)size_of(type), bytes = (size_t)size_of(type);

	(void)size;
	(void)comm;
	for (int i = 0; i < count; i++, *position += (int)bytes)
		memcpy((char *)out + (size_t)i * stride, (const char *)in + *position, bytes);
	return MPI_SUCCESS;
}

int
PMPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
	(void)comm;
	*flag = 0;
	return MPI_SUCCESS;
}

int
PMPI_Comm_size(MPI_Comm comm, int *size)
{
	(void)comm;
	*size = 4;
	return MPI_SUCCESS;
}

int
PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
	(void)comm;
	*rank = 0;
	return MPI_SUCCESS;
}

int
PMPI_Comm_get_name(MPI_Comm comm, char *name, int *length)
{
	(void)comm;
	*length = 0;
	name[0] = '\0';
	return MPI_SUCCESS;
}

/* libweir: operations end after some looks; those of the endless handle never, and a look at them takes a while. */

struct weir *const fake_weir_endless = (struct weir *)(uintptr_t)1;

struct weir_request {
	bool endless;
	int looks;
};

int
weir_collective(struct weir *weir, const struct weir_call *call, struct weir_request **request)
{
	*request = calloc(1, sizeof(**request));
	(*request)->endless = weir == fake_weir_endless;
	if (fake_weir_started != NULL)
		fake_weir_started(weir, call->collective);
	return 0;
}

int
weir_test(struct weir_request **request, bool *done)
{
	*done = false;
	if ((*request)->endless)
		sched_yield();
	else
		*done = ++(*request)->looks == fake_weir_looks;
	if (*done) {
		free(*request);
		*request = NULL;
	}
	return 0;
}

int
weir_wait_for(struct weir_request **request, unsigned int ms, bool *done)
{
	fake_weir_slept_ms += ms;
	return weir_test(request, done);
}

void
weir_close(struct weir *weir)
{
	(void)weir;
}
