/* SPDX-License-Identifier: BSD-3-Clause */
/* Every key of a configuration file, in one list: for the validation, the defaults, `weir-switch
 * --keys`, weir.json(5) and docs/weir.schema.json. */
#ifndef CTRL_KEYS_H
#define CTRL_KEYS_H

#include <stdio.h>

#include "ctrl/config/schema.h"

extern const struct ctrl_schema ctrl_config_schema;

/*
 * Set the fields of all keys in an object that passed ctrl_schema_check, and in the objects and
 * arrays within it, to their values or defaults. If an object has a field, the fields of its keys
 * are in it. at: the object's path in ctrl_config_schema. object: NULL if the
 * file does not have it. base: the struct with the fields, as the keys' rows say.
 */
void ctrl_keys_read(const char *at, const json_t *object, void *base);

/* Put into an object the values of the keys that are directly in `at` and have a field. */
void ctrl_keys_put(const char *at, const void *base, json_t *object);

/* Set the keys of `at` that the object lacks, and of the objects within it, to their defaults. 0,
 * or -1 without memory. */
int ctrl_keys_fill(const char *at, json_t *object);

/* The value of a key in its object, or its default. path: of the key in ctrl_config_schema. object:
 * may be NULL. */
int64_t ctrl_integer(const json_t *object, const char *path);
const char *ctrl_string(const json_t *object, const char *path);

/* A kind's name in the source, "power". A literal. */
const char *ctrl_kind_word(enum ctrl_kind kind);

/* Write the key's row of the reference table (no line end), as Markdown. */
void ctrl_key_row(const struct ctrl_key *key, FILE *out);

#endif
