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
 * Set the fields of all keys in an object that passed ctrl_schema_check, or their defaults: of those directly in
 * `at`, its path in ctrl_config_schema, and of those in objects within. object: NULL if the file does not have it.
 * base: the struct of the path's keys, as their rows say.
 */
void ctrl_keys_read(const char *at, const json_t *object, void *base);

/* Put the values of the keys with a field directly in `at` into an object. */
void ctrl_keys_put(const char *at, const void *base, json_t *object);

/* The value of one key in its object, or its default. object, path: likewise. */
int64_t ctrl_integer(const json_t *object, const char *path);
const char *ctrl_string(const json_t *object, const char *path);

/* Write the key's row of the reference table (no line end), as Markdown. */
void ctrl_key_row(const struct ctrl_key *key, FILE *out);

#endif
