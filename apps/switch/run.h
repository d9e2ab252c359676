/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_RUN_H
#define APPS_SWITCH_RUN_H

#include <stdbool.h>

#include "ctrl/config/config.h"
#include "ctrl/jobs/state.h"
#include "ctrl/programs/programs.h"

/* The command line. The strings belong to argv. */
struct options {
	const char *config;
	const char *stats_file; /* NULL: none */
	bool check;
	bool forget_state;
};

/*
 * Check that this machine has what the configuration names: interfaces, MTUs, CPUs, huge pages,
 * privileges. DPDK would fail later, with less to say. Returns 0, or -errno after one line on stderr
 * that says what to do. Prints a warning for settings that are allowed but probably not intended.
 */
int preflight(const struct ctrl_config *config);

/*
 * Run a switch until SIGINT or SIGTERM: start EAL, build, start, serve signals and the control
 * API, stop, account. A reload replaces *config. state: of the last run. programs: of the configuration; those that are
 * left are the caller's. Returns the exit status: 0, or 1 with a line on
 * stderr that says why. Once per process, because EAL starts once.
 */
int run_switch(const struct options *options, struct ctrl_config **config, const json_t *state,
	struct ctrl_program **programs);

#endif
