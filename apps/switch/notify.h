/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the service manager is told: sd_notify(3)'s protocol, datagrams on $NOTIFY_SOCKET. Without
 * that variable every function does nothing. A manager that does not read loses lines; nothing here
 * waits for it.
 *
 * Thread safety: for the one control thread.
 */
#ifndef APPS_SWITCH_NOTIFY_H
#define APPS_SWITCH_NOTIFY_H

#include <stdbool.h>

/* Read the environment, take it away from child processes. Before any thread is made. */
void notify_open(void);

/* Packets flow: the service is up. Also the end of a reload. */
void notify_ready(void);

/* A reload begins; notify_ready ends it, whether it succeeded or not. */
void notify_reloading(void);

/* What `systemctl status` shows beside the service: one line. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The switch stops, why. No more watchdog from here on. */
void notify_stopping(const char *why);

/*
 * Once a second. workers_alive: every worker has turned since the last call. Then, and at half of
 * the watchdog's time, the manager is told that the switch lives: it kills a switch that hangs. A
 * worker that stands, or a control thread that does not come here, is a hang.
 */
void notify_tick(bool workers_alive);

#endif
