/* SPDX-License-Identifier: BSD-3-Clause */
/* Options as tables of struct bench_option. */
#ifndef APPS_BENCH_OPTIONS_H
#define APPS_BENCH_OPTIONS_H

#include "apps/bench/bench.h"

/*
 * Read argv[1..) into the options of both tables; each ends with a NULL name. 0; 1 when --help was
 * asked for; -1 after a line on standard error that names the option and what it takes.
 */
int options_read(
	int argc, char **argv, const struct bench_option *own, const struct bench_option *common);

/* A line per option with its default. */
void options_print(const struct bench_option *options, FILE *out);

#endif
