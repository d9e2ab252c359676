/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports' links. A port on a kernel interface (net_af_packet, net_tap, ...) has a link while the
 * kernel says that the interface is up and running: DPDK's drivers only know whether they started.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_LINKS_H
#define CTRL_LINKS_H

#include <stdbool.h>

struct ctrl_running;

/* Does the port have a link now? Asks the kernel or the device: some microseconds. */
bool ctrl_port_is_up(const struct ctrl_running *running, unsigned int port);

/* Log the links that went up or down since the last call; at the first call, those that are down. */
void ctrl_links_tick(struct ctrl_running *running);

#endif
