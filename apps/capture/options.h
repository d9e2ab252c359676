/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of weir-capture. */
#ifndef APPS_CAPTURE_OPTIONS_H
#define APPS_CAPTURE_OPTIONS_H

#include <stdbool.h>

#include "apps/capture/output.h"
#include "apps/capture/plan.h"

struct options {
	struct capture_spec spec;
	struct output_config output;
	const char *expect; /* NULL: no file of results */
	bool json;
};

/* Read the command line. Prints help or version, and ends the process, when asked for them or
 * when it is wrong. */
void options_read(struct options *options, int argc, char **argv);

#endif
