/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the service manager by the protocol of sd_notify(3), datagrams on $NOTIFY_SOCKET.
 * Without that variable every function does nothing. Nothing here waits: a manager that does not
 * read loses messages.
 *
 * Thread safety: for the one control thread.
 */
#ifndef APPS_SWITCH_NOTIFY_H
#define APPS_SWITCH_NOTIFY_H

#include <stdbool.h>

/* Read the environment variables and unset them. Before creating any thread. */
void notify_open(void);

/* Packets flow: the service is up. Also the end of a reload. */
void notify_ready(void);

/* A reload begins; notify_ready ends it, whether it succeeded or not. */
void notify_reloading(void);

/* What `systemctl status` shows beside the service: one line. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The switch stops, and why. Ends the watchdog messages. */
void notify_stopping(const char *why);

/*
 * Call once a second. workers_alive: every worker has turned since the last call. Only then, and every
 * half of the watchdog's time, the manager is told that the switch lives; otherwise it kills the switch.
 */
void notify_tick(bool workers_alive);

#endif
