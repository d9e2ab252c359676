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
system_run(const struct bench_operation *operation)
{
	const struct weir_call *c = &operation->call;
	MPI_Datatype type = c->dtype == WEIR_DTYPE_FP32 ? MPI_FLOAT : MPI_INT32_T;
	int n = (int)c->count;

	switch ((int)c->collective) {
	case WEIR_COLLECTIVE_ALLREDUCE:
		return MPI_Allreduce(c->send, c->recv, n, type, MPI_SUM, MPI_COMM_WORLD);
	case WEIR_COLLECTIVE_REDUCESCATTER:
		return MPI_Reduce_scatter_block(c->send, c->recv, n, type, MPI_SUM, MPI_COMM_WORLD);
	case WEIR_COLLECTIVE_ALLGATHER:
		return MPI_Allgather(c->send, n, type, c->recv, n, type, MPI_COMM_WORLD);
	case WEIR_COLLECTIVE_ALLTOALL:
		return MPI_Alltoall(c->send, n, type, c->recv, n, type, MPI_COMM_WORLD);
	case WEIR_COLLECTIVE_BROADCAST: return MPI_Bcast(c->recv, n, type, 0, MPI_COMM_WORLD);
	default: return bench_fail("this collective is not compared");
	}
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
