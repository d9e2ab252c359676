/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_RELOAD_H
#define APPS_SWITCH_RELOAD_H

#include "ctrl/api/server.h"
#include "ctrl/log.h"
#include "ctrl/jobs/running.h"

/*
 * Read the configuration again and replace *config, which is freed; or refuse the file and change
 * nothing. The log and running->reloading say which, and who asked.
 */
void reload(const char *path, struct ctrl_config **config, struct ctrl_running *running,
	struct api_server *server, const struct ctrl_log_who *who);

#endif
