/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_PREFLIGHT_H
#define APPS_SWITCH_PREFLIGHT_H

#include "ctrl/config/config.h"

/*
 * Ask this machine for what the configuration names - interfaces, MTUs, CPUs, huge pages,
 * privileges - before DPDK fails over it. 0, or -errno with one line on stderr that says what to
 * do. Starts nothing. What hardly can be meant, but does not keep it from starting, is told in a line each.
 */
int preflight(const struct ctrl_config *config);

#endif
