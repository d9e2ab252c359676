/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where something stands in a JSON text. jansson reads the text but forgets positions; this walks
 * the same text, which jansson found valid, along a path, and reads nothing else. It is used only
 * when an error is to be reported, so it may be slow.
 */
#ifndef CTRL_LOCATE_H
#define CTRL_LOCATE_H

#include <stddef.h>

/* Both count from 1; a column is a character, not a byte. */
struct ctrl_place {
	unsigned int line, column;
};

/*
 * Find the value at `path` ("jobs[0].timeout_ms", "" for the whole text), or, with `key` not
 * NULL, that key of the object at `path`. What is not there is found where its nearest existing
 * parent is. text: `length` bytes of valid JSON; any other text gives some place in it. Keys in
 * `path` have none of the characters `.[]`; `key` is any string.
 */
struct ctrl_place ctrl_locate(const char *text, size_t length, const char *path, const char *key);

#endif
