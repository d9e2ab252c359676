/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who a host is in its job, as the launcher that started it says in the environment.
 *
 * Looked at in this order; the first that names a rank is believed, for the size, too, so that a
 * rank of one launcher never meets the size of another (mpirun inside of a Slurm allocation).
 */
#ifndef APPS_HOST_LAUNCH_H
#define APPS_HOST_LAUNCH_H

#include <stddef.h>

/* rank, size, launcher */
#define WEIR_LAUNCHER_LIST(X)                                                                      \
	X("WEIR_RANK", "WEIR_SIZE", "by hand")                                                     \
	X("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI")                              \
	X("PMI_RANK", "PMI_SIZE", "MPICH, Intel MPI, Cray")                                        \
	X("SLURM_PROCID", "SLURM_NTASKS", "srun")                                                  \
	X("RANK", "WORLD_SIZE", "torchrun")

struct weir_launch {
	int rank; /* -1: not known */
	unsigned int size; /* 0: not known */
};

/*
 * Fill in what is not known, from the environment. Any thread, as long as none changes the
 * environment.
 *
 * @return 0, and 0 <= rank < size <= 256; or -EINVAL and why not, in text
 */
int weir_launch_complete(struct weir_launch *launch, char *text, size_t size);

#endif
