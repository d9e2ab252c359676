/* SPDX-License-Identifier: BSD-3-Clause */
/* What the demo's processes hold in RAM while it runs. */
#ifndef APPS_BENCH_MEMORY_DEMO_H
#define APPS_BENCH_MEMORY_DEMO_H

#include "apps/bench/bench.h"

/*
 * Run demo.py at this path with the build that this program belongs to, read its processes'
 * memory twice a second, and report each kind's most. 0; 1 when the demo failed, 2 when it can't
 * run, after a line on standard error.
 */
int memory_demo(struct bench_report *report, const char *path);

#endif
