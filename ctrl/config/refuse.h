/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a configuration is refused: one line with the place, the key and the reason,
 *
 *   configs/x.json:14:7: jobs[0].timeout_ms: 0 is not in 1..60000
 */
#ifndef CTRL_REFUSE_H
#define CTRL_REFUSE_H

#include <stddef.h>

#include <jansson.h>

#include "ctrl/config/keys.h"

/* A configuration being read: its text, and where the reason goes when it is refused. */
struct ctrl_source {
	const char *file; /* as the user named it */
	const char *text;
	size_t length;
	char *error;
	size_t error_size;
	const struct ctrl_key *keys; /* what may be in it; NULL: a configuration's */
	size_t nb_keys;
};

/* A path to a value, such as "jobs[0].sources[2].id". */
struct ctrl_path {
	char text[CTRL_PATH_MAX];
};

struct ctrl_path ctrl_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Refuse the value at a path, or its nearest parent that is in the text. Returns -EINVAL. */
int ctrl_refuse(const struct ctrl_source *source, struct ctrl_path path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Refuse a key of the object at a path, at the key. Returns -EINVAL. */
int ctrl_refuse_key(const struct ctrl_source *source, struct ctrl_path path, const char *key,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Refuse a text that is no JSON, with what the parser said. Returns -EINVAL. */
int ctrl_refuse_text(const struct ctrl_source *source, const json_error_t *why);

#endif
