/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks a communicator has, and which of them share a host. */
#include <stdlib.h>

#include "apps/mpi/offload_priv.h"

void
layout_free(struct layout *layout)
{
	free(layout->host_of);
	free(layout->leader_of);
	*layout = (struct layout){0};
}

bool
layout_make(struct layout *layout, const uint64_t *hosts, int rank, int size)
{
	layout_free(layout);
	layout->host_of = malloc((size_t)size * sizeof(int));
	layout->leader_of = malloc((size_t)size * sizeof(int));
	if (layout->host_of == NULL || layout->leader_of == NULL)
		return false;
	for (int r = 0; r < size; r++) {
		int host = layout->hosts;

		for (int h = 0; hosts != NULL && h < layout->hosts && host == layout->hosts; h++)
			if (hosts[layout->leader_of[h]] == hosts[r])
				host = h;
		if (host == layout->hosts)
			layout->leader_of[layout->hosts++] = r;
		layout->host_of[r] = host;
	}
	layout->host = layout->host_of[rank];
	for (int r = 0; r < size; r++) {
		layout->locals += layout->host_of[r] == layout->host;
		layout->local += layout->host_of[r] == layout->host && r < rank;
	}
	layout->alone = layout->hosts == size;
	layout->regular = size % layout->hosts == 0;
	for (int r = 0; r < size && layout->regular; r++)
		layout->regular = layout->host_of[r] == r / (size / layout->hosts);
	return true;
}

uint64_t
layout_hash(const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t
layout_own_host(void)
{
	char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
	int length = 0;

	PMPI_Get_processor_name(name, &length);
	return layout_hash(name, (size_t)length);
}

uint64_t
layout_members(const struct offload_comm *comm)
{
	size_t size = (size_t)comm->size;
	int *ranks = malloc(2 * size * sizeof(int));
	MPI_Group own, all;
	uint64_t members;

	if (ranks == NULL)
		return 0;
	for (int rank = 0; rank < comm->size; rank++)
		ranks[rank] = rank;
	PMPI_Comm_group(comm->comm, &own);
	PMPI_Comm_group(MPI_COMM_WORLD, &all);
	PMPI_Group_translate_ranks(own, comm->size, ranks, all, ranks + size);
	members = layout_hash(ranks + size, size * sizeof(int)) | 1;
	for (int rank = 0; rank < comm->size; rank++)
		if (ranks[comm->size + rank] == MPI_UNDEFINED)
			members = 0;
	PMPI_Group_free(&own);
	PMPI_Group_free(&all);
	free(ranks);
	return members;
}
