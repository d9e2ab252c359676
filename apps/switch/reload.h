/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APPS_SWITCH_RELOAD_H
#define APPS_SWITCH_RELOAD_H

#include "ctrl/api/server.h"
#include "ctrl/log.h"
#include "ctrl/jobs/running.h"

/*
 * Read the configuration again and let it take the place of *config, or refuse it and leave
 * everything as it is; either is logged with who asked, and is in running->reloading. The former configuration is freed.
 */
void reload(const char *path, struct ctrl_config **config, struct ctrl_running *running,
	struct api_server *server, const struct ctrl_log_who *who);

#endif
