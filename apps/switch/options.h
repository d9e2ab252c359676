/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_OPTIONS_H
#define APPS_SWITCH_OPTIONS_H

#include <stdbool.h>

/* The command line. The strings belong to argv. */
struct options {
	const char *config;
	const char *stats_file; /* NULL: none */
	bool check;
	bool forget_state;
};

/* Read it. Exits after --help, --version and --keys (0), and on a wrong command line (2). */
void options_read(struct options *options, int argc, char **argv);

#endif
