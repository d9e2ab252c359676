/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What callgrind collects: under --collect-atstart=no, what a thread runs between two
 * BENCH_COLLECT_TOGGLE of its own. A no-op elsewhere. Where the build found no header of
 * valgrind's, BENCH_CAN_COLLECT is false, and a bench that is asked to count must say so.
 */
#ifndef APPS_BENCH_COLLECT_H
#define APPS_BENCH_COLLECT_H

#ifdef HAVE_CALLGRIND
#include <valgrind/callgrind.h>
#define BENCH_CAN_COLLECT    true
#define BENCH_COLLECT_TOGGLE CALLGRIND_TOGGLE_COLLECT
#else
#define BENCH_CAN_COLLECT    false
#define BENCH_COLLECT_TOGGLE (void)0
#endif

#endif
