/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_PREFLIGHT_H
#define APPS_SWITCH_PREFLIGHT_H

#include "ctrl/config/config.h"

/*
 * Check that this machine has what the configuration names: interfaces, MTUs, CPUs, huge pages,
 * privileges. DPDK would fail later, with less to say. Returns 0, or -errno after one line on stderr
 * that says what to do. Prints a warning for settings that are allowed but probably not intended.
 */
int preflight(const struct ctrl_config *config);

#endif
