/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's event loop: signals, the control API, a tick each second. It sleeps when
 * there is nothing to do. No client can block it.
 */
#ifndef APPS_SWITCH_LOOP_H
#define APPS_SWITCH_LOOP_H

#include <signal.h>

#include "ctrl/api/server.h"
#include "ctrl/log.h"

/* The handlers must not wait. */
struct loop_handlers {
	void *context;
	void (*tick)(void *context); /* each second */
	void (*settle)(void *context); /* at the end of each turn */
	void (*report)(void *context); /* SIGUSR1 */
	void (*reload)(void *context, const struct ctrl_log_who *who); /* SIGHUP, and its sender */
	/* SIGINT, SIGTERM; the loop ends then. */
	void (*stop)(void *context, const struct ctrl_log_who *who, const char *signal);
};

/* The signals that the loop takes. Block them before creating any thread. */
sigset_t loop_signals(void);

/*
 * Run until SIGINT or SIGTERM. The signals must be blocked; server may be NULL. Returns 0, or -errno
 * when the loop cannot be set up or fails.
 */
int loop_run(const struct loop_handlers *handlers, struct api_server *server);

#endif
