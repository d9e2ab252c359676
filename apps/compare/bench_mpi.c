/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's side. No arguments: mpirun tells who is who. An error ends the job with MPI's own words. */
#include "apps/compare/bench.h"

#include <mpi.h>

int
system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks)
{
	int mine, all;

	(void)argc, (void)argv;
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &mine);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	*rank = (unsigned int)mine;
	*ranks = (unsigned int)all;
	return 0;
}

int
system_run(const struct bench_operation *operation, const void *send, void *recv)
{
	MPI_Datatype type = operation->fp32 ? MPI_FLOAT : MPI_INT32_T;
	int total = (int)operation->total, ranks, slice;

	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	slice = total / ranks;
	switch (operation->collective) {
	case BENCH_ALLREDUCE:
		return MPI_Allreduce(send, recv, total, type, MPI_SUM, MPI_COMM_WORLD);
	case BENCH_REDUCESCATTER:
		return MPI_Reduce_scatter_block(send, recv, slice, type, MPI_SUM, MPI_COMM_WORLD);
	case BENCH_ALLGATHER:
		return MPI_Allgather(send, slice, type, recv, slice, type, MPI_COMM_WORLD);
	case BENCH_ALLTOALL:
		return MPI_Alltoall(send, slice, type, recv, slice, type, MPI_COMM_WORLD);
	case BENCH_BROADCAST: return MPI_Bcast(recv, total, type, 0, MPI_COMM_WORLD);
	}
	return -1;
}

int
system_barrier(void)
{
	return MPI_Barrier(MPI_COMM_WORLD);
}

void
system_close(void)
{
	MPI_Finalize();
}
