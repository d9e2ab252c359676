/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every key of a configuration file, in one list: for the validation, the defaults, `weir-switch --keys`
 * and docs/configuration.md, which a test compares with it.
 */
#ifndef CTRL_KEYS_H
#define CTRL_KEYS_H

#include <stdio.h>

#include "ctrl/config/schema.h"

extern const struct ctrl_schema ctrl_config_schema;

/*
 * The value of a key in its object, or its default. object: NULL if the file does not have it. path:
 * of a key in ctrl_config_schema of the function's kind. Only after ctrl_schema_check.
 */
int64_t ctrl_integer(const json_t *object, const char *path);
bool ctrl_boolean(const json_t *object, const char *path);
int ctrl_word(const json_t *object, const char *path);
const char *ctrl_string(const json_t *object, const char *path);

/* Write the key's row of the reference table (no line end), as Markdown. */
void ctrl_key_row(const struct ctrl_key *key, FILE *out);

#endif
