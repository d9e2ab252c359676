/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One measuring loop for every system that is compared: bench.c and bench_data.c are the same code in
 * compare-weir, compare-openmpi and compare-gloo, and only the functions below differ.
 *
 *	bench.c         main: takes commands from a Unix socket, one at a time, and answers with times
 *	bench_data.c    what each rank gives, and whether the result is right
 *	bench_weir.c    Weir (built by meson)
 *	bench_mpi.c     MPI (built by compare.py with mpicc)
 *	bench_gloo.cc   Gloo (built by compare.py with g++)
 *
 * Between commands a process sleeps in read(2), so that the systems that are not measured take no CPU,
 * although all are up together. Everything is called from the main thread.
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
};

/*
 * An operation on 4-byte elements. `total` is the larger of a rank's two buffers, elements: what it
 * gives (reducescatter, alltoall), what it gets (allgather, alltoall), or both (allreduce); a
 * multiple of the ranks in all but allreduce. Reductions are sums.
 */
struct bench_operation {
	enum bench_collective collective;
	bool fp32; /* else int32 */
	size_t total;
	const char *algorithm; /* a system's own name of one; "default" */
};

/* What went wrong in a system, for people. At most so many bytes, NUL-terminated. */
#define BENCH_ERROR_BYTES 512
extern char bench_error[BENCH_ERROR_BYTES];

/* Connect to the other ranks; the arguments are the system's own. 0, or -1 and bench_error. */
int system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks);

/* send and recv do not overlap, and stay the same from system_prepare to the last system_run of an
 * operation. 0, or -1 and bench_error. */
int system_prepare(const struct bench_operation *operation, const void *send, void *recv);
int system_run(const struct bench_operation *operation, const void *send, void *recv);
int system_barrier(void);

void system_close(void);

/* Write elements [0, count) that a rank gives to an operation of this seed. Sums of int32 overflow, and
 * must wrap; fp32 are in [-1, 1), in steps of 2^-23. */
void bench_fill(uint64_t seed, bool fp32, unsigned int rank, size_t count, void *to);

/* How many elements at `got` are wrong as the result of an operation on this rank: int32 and what is only
 * carried must be exact; sums of fp32 within (n - 1) 2^-24 sum|x| (1 + 2^-14) of the sum in fp64 (Higham,
 * Accuracy and Stability of Numerical Algorithms, eq. 4.4). */
size_t bench_wrong(const struct bench_operation *operation, uint64_t seed, unsigned int rank,
	unsigned int ranks, const void *got);

/* Elements that a rank gives, and gets. */
size_t bench_given(const struct bench_operation *operation, unsigned int ranks);
size_t bench_gotten(const struct bench_operation *operation, unsigned int ranks);

#ifdef __cplusplus
}
#endif

#endif
