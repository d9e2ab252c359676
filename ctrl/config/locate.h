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

/*
 * The path, as above, of the object's key whose token is the last one that ends within the first
 * `offset` bytes: for an error that jansson found behind it. "" where there is none. Keys are told as
 * they are spelled; what does not fit into the buffer, or lies deeper than some levels, is cut off.
 */
void ctrl_locate_key(const char *text, size_t offset, char *path, size_t size);

#endif
