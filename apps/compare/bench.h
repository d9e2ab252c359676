/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One measuring loop for every system that is compared: bench.c is the same code in compare-weir, compare-openmpi,
 * compare-gloo and compare-torch.so; only the functions below differ.
 *
 *	bench.c         main: takes commands from a Unix socket, one at a time, checks results, answers with times
 *	bench_weir.c    Weir (built by meson)
 *	bench_mpi.c     MPI (built by compare.py with mpicc)
 *	bench_gloo.cc   Gloo (built by compare.py with g++)
 *	bench_torch.c   PyTorch, with bench_torch.py (built by compare.py with gcc)
 *
 * Between commands a process sleeps in read(2): a system that is not measured takes no CPU time. All functions are for
 * the main thread. Codes are 0, or -1 and bench_error.
 */
#ifndef APPS_COMPARE_BENCH_H
#define APPS_COMPARE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bench_collective {
	BENCH_ALLREDUCE,
	BENCH_REDUCESCATTER,
	BENCH_ALLGATHER,
	BENCH_ALLTOALL,
	BENCH_BROADCAST,
};

/*
 * An operation on 4-byte elements. total: elements of the larger of a rank's two buffers; a multiple of the ranks in all
 * but allreduce. Reductions are sums. A broadcast is of recv, from rank 0.
 */
struct bench_operation {
	enum bench_collective collective;
	bool fp32; /* else int32 */
	size_t total;
	const char *algorithm; /* a system's own name of one; "default" */
};

#define BENCH_ERROR_BYTES 512
extern char bench_error[BENCH_ERROR_BYTES];
/* Keep a text in bench_error. Returns -1. */
int bench_fail(const char *text);

/* Connect to the other ranks; the arguments are the system's own. */
int system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks);
/* send and recv do not overlap, and stay the same from system_prepare to the last system_run of an operation. A system
 * with nothing to prepare has no system_prepare. */
__attribute__((weak)) int system_prepare(
	const struct bench_operation *operation, const void *send, void *recv);
int system_run(const struct bench_operation *operation, const void *send, void *recv);
int system_barrier(void);
void system_close(void);

#ifdef __cplusplus
}
#endif

#endif
