/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions and cycles of a thread, by perf_event_open(2), where the machine counts them. */
#ifndef APPS_BENCH_PERF_COUNTERS_H
#define APPS_BENCH_PERF_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

struct perf_counters {
	int instructions, cycles; /* file descriptors; not above 0: none */
};

struct perf_counts {
	uint64_t instructions, cycles;
};

/* Count the calling thread's user-space work from now on. false: this machine does not count. */
bool perf_counters_open(struct perf_counters *counters);

/* Read; the thread that opened them. Zero where there are none. */
void perf_counters_read(const struct perf_counters *counters, struct perf_counts *counts);

void perf_counters_close(struct perf_counters *counters);

#endif
