/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions, counted by the CPU where the machine lets programs read its counters (virtual machines rarely do), or
 * by valgrind's callgrind, which takes some seconds and is exact.
 *
 * The two count different things. The CPU counts all that the worker does in user space, with its own vectors; callgrind
 * leaves out the handing out of frames, and has no vectors wider than AVX2.
 */
#ifndef APPS_BENCH_COUNT_H
#define APPS_BENCH_COUNT_H

#include <stdint.h>

/* A counter of the calling thread's instructions in user space (perf_event_open(2)): close(2) it. -1: none here. */
int count_open(void);

/* What it has counted; 0 for -1. Any thread. Cost: a system call. */
uint64_t count_read(int counter);

/*
 * Instructions per packet of `weir-bench engine OPTIONS...`, run under callgrind. options: NULL ends them, at
 * most 60, --packets among them. NaN after a line on standard error: valgrind is not installed, or the run fails. Main thread; some seconds.
 */
double count_with_callgrind(const char *const *options);

#endif
