/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filters of a running switch: their files, and loading and unloading them. The engine's side
 * is ppe/filters/filters.h.
 *
 * Files are ELF objects in one directory, under the rule of programs' files
 * (ctrl_program_file_check). Their code is verified, so administrators may load them over TCP, too.
 * Filters that the API has loaded last until the switch stops.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_FILTERS_H
#define CTRL_FILTERS_H

#include <jansson.h>

#include "ctrl/config/config.h"
#include "ctrl/jobs/running.h"
#include "ctrl/programs/file.h"
#include "ppe/filters/filters.h"

/* Check the files of a configuration's filters, as far as it can be done without EAL. path: the
 * configuration's file. 0; or -EINVAL with a line as of ctrl_config_load in `error`. */
int ctrl_filters_check(
	const struct ctrl_config *config, const char *path, char *error, size_t size);

/* Before ppe_start: load the filters of the configuration. 0; or -EINVAL and the reason. */
int ctrl_filters_start(struct ctrl_running *running, char *error, size_t size);

/*
 * Load a filter: an object of CTRL_FILTER_KEYS (ctrl/config/filter_keys.h) that was checked.
 * *filter becomes what it says. A dry run (ctrl_running.is_dry_run) only says what would happen.
 * 0; or, with the error: -EEXIST, -ENOSPC, -ENOMEM, -EBUSY, and -EINVAL for all others.
 */
int ctrl_filter_load(struct ctrl_running *running, const json_t *entry, const char *who,
	struct ppe_filter *filter, struct ctrl_error *error);

/* 0, -ENOENT, -ENOMEM or -EBUSY. */
int ctrl_filter_unload(struct ctrl_running *running, const char *name, const char *who);

#endif
