/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that check this machine before a switch starts. */
#ifndef SWITCH_PREFLIGHT_H
#define SWITCH_PREFLIGHT_H

#include <stdbool.h>

#include "apps/switch/run.h"

/* Print "weir-switch: " and the text, a line, to stderr. Returns rc. */
int complain(int rc, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is this among EAL's arguments? */
bool has_eal_option(const struct ctrl_config *config, const char *option);

/*
 * Check that DPDK can use the ports that are PCI devices: they are there, and bound to a driver that gives them to
 * user space. 0, or -errno after a message that names the step that is missing.
 */
int check_cards(const struct ctrl_config *config);

#endif
