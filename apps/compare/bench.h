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

#include "apps/libweir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* call: of elements of 4 bytes. Reductions are sums, roots rank 0; send and recv do not overlap, but a broadcast is of recv. */
struct bench_operation {
	struct weir_call call;
	const char *algorithm; /* a system's own name of one; "default" */
};

#define BENCH_ERROR_BYTES 512
extern char bench_error[BENCH_ERROR_BYTES];
/* Keep a text in bench_error. Returns -1. */
int bench_fail(const char *text);

/* Connect to the other ranks; the arguments are the system's own. */
int system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks);
/* The operation stays the same from system_prepare to its last system_run. A system with nothing to prepare has no
 * system_prepare. */
__attribute__((weak)) int system_prepare(const struct bench_operation *operation);
int system_run(const struct bench_operation *operation);
int system_barrier(void);
void system_close(void);

#ifdef __cplusplus
}
#endif

#endif
