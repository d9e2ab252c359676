/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_RUN_H
#define APPS_SWITCH_RUN_H

#include "ctrl/config.h"

/*
 * Run a switch until SIGINT or SIGTERM: start EAL, build, start, serve signals and the control
 * API, stop, account. stats_file: NULL for none. Returns the exit status: 0, or 1 with a line on stderr that
 * says why. Once per process, because EAL starts once.
 */
int run_switch(const struct ctrl_config *config, const char *stats_file);

#endif
