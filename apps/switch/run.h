/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_RUN_H
#define APPS_SWITCH_RUN_H

#include "apps/switch/options.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/state.h"

/*
 * Run a switch until SIGINT or SIGTERM: start EAL, build, start, serve signals and the control
 * API, stop, account. A reload replaces *config. state: of the last run. Returns the exit status: 0, or 1 with a line on stderr
 * that says why. Once per process, because EAL starts once.
 */
int run_switch(
	const struct options *options, struct ctrl_config **config, const struct ctrl_state *state);

#endif
