/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every key of a configuration file, in one list (ctrl/config/keys.c): it drives the validation
 * (ctrl/config/schema.h), gives the defaults (ctrl/config/values.h), is printed by `weir-switch --keys`, and
 * docs/configuration.md is compared with it by a test.
 *
 * A path names objects by key and array elements by `[]`: "jobs[].sources[].address".
 */
#ifndef CTRL_KEYS_H
#define CTRL_KEYS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pktbuf/wire/wire.h"

#define CTRL_PATH_MAX 96 /* bytes of a path with its indices, terminator included */

/* The words of types and operations, by their code on the wire: "int8|uint8|...", "sum|prod|...". */
#define CTRL_WORD_OF_TYPE(name, code, text, bytes) "|" text
#define CTRL_WORD_OF_OP(name, code, text)          "|" text
#define CTRL_TYPES                                 (&(WEIR_DTYPE_LIST(CTRL_WORD_OF_TYPE))[1])
#define CTRL_OPS                                   (&(WEIR_OP_LIST(CTRL_WORD_OF_OP))[1])

enum ctrl_kind {
	CTRL_OBJECT,
	CTRL_ARRAY, /* range: entries */
	CTRL_INTEGER, /* range: value */
	CTRL_POWER, /* an integer that is a power of two; range: value */
	CTRL_BOOLEAN,
	CTRL_WORD, /* one of `words` */
	CTRL_TEXT, /* any string; range: bytes */
	CTRL_NAME, /* letters, digits and . _ -; range: bytes */
	CTRL_ADDRESS, /* IPv4, a host's */
	CTRL_SUBNET, /* IPv4 address of a host, and prefix length in [1, 30] */
	CTRL_RESULTS, /* "unicast", or an IPv4 multicast group */
	CTRL_MAC, /* six bytes in hex, a station's */
};

struct ctrl_key {
	const char *path;
	enum ctrl_kind kind;
	const char *unit; /* "" where there is none */
	const char *fallback; /* the default; NULL: the key must be there; "": nothing */
	int64_t min, max; /* inclusive */
	const char *words; /* CTRL_WORD: "one|two" */
	const char *help;
};

/* All keys, objects before what is in them; ctrl_keys_count of them. */
extern const struct ctrl_key ctrl_keys[];
extern const size_t ctrl_keys_count;

/* The key of a path ("jobs[].id"), or NULL. */
const struct ctrl_key *ctrl_key_find(const char *path);

/* What people call a kind: "integer", "IPv4 address", ... Never NULL. */
const char *ctrl_kind_text(enum ctrl_kind kind);

/* The last part of a key's path: "id" of "jobs[].id". */
const char *ctrl_key_name(const struct ctrl_key *key);

/* Write the key's line of the reference table (no line end) to `out`, as Markdown. */
void ctrl_key_row(const struct ctrl_key *key, FILE *out);

#endif
