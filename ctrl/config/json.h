/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration as it is in force, for programs. */
#ifndef CTRL_CONFIG_JSON_H
#define CTRL_CONFIG_JSON_H

#include <jansson.h>

#include "ctrl/config/config.h"

/*
 * The file's keys, with every default that took a key's place, and without the tokens of tenants.
 * Sections that switch something on (exception, api, api.tls) are there only if the file has them.
 * A new object, or NULL without memory.
 */
json_t *ctrl_config_json(const struct ctrl_config *config);

#endif
