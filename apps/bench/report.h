/* SPDX-License-Identifier: BSD-3-Clause */
/* A report's life, for main.c; benches use bench.h. */
#ifndef APPS_BENCH_REPORT_H
#define APPS_BENCH_REPORT_H

#include "apps/bench/bench.h"

/* bench: its name, kept. json: where the records will go, NULL: nowhere. NULL: no memory. */
struct bench_report *report_create(const char *bench, const char *json);

/* Write the records to `json`: a file, "-" for standard output; NULL does nothing. 0, or a line on
 * standard error and not 0. */
int report_write(struct bench_report *report, const char *json);

void report_destroy(struct bench_report *report);

#endif
