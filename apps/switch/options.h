/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_OPTIONS_H
#define APPS_SWITCH_OPTIONS_H

#include <stdbool.h>

/* The command line. Strings are argv's. */
struct options {
	const char *config;
	const char *stats_file; /* NULL: none */
	bool check;
	bool forget_state;
};

/* Read it. Ends the process after --help, --version, --keys (0) and on a wrong line (2). */
void options_read(struct options *options, int argc, char **argv);

#endif
