/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is wrong with a JSON value: its path and the reason. A request's answer names both; for a
 * file, a line adds the place:
 *
 *   configs/x.json:14:7: jobs[0].timeout_ms: 0 is not in 1..60000
 *
 * jansson forgets positions, so the place is searched for in the text when the line is written.
 */
#ifndef CTRL_CONFIG_ERROR_H
#define CTRL_CONFIG_ERROR_H

#include <stddef.h>

#include <jansson.h>

#define CTRL_PATH_MAX    96 /* bytes of a path with its indices, terminator included */
#define CTRL_ERROR_BYTES 1024 /* enough for any line */

/* A path to a value, such as "jobs[0].sources[2].id"; "" is the whole text. */
struct ctrl_path {
	char text[CTRL_PATH_MAX];
};

struct ctrl_path ctrl_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Codes of the control API, by kind of error. */
enum ctrl_wrong { CTRL_WRONG_VALUE, CTRL_WRONG_TYPE, CTRL_WRONG_KEY, CTRL_MISSING_KEY };

struct ctrl_error {
	enum ctrl_wrong wrong;
	struct ctrl_path path; /* of the value; of an unknown or missing key: of its object */
	char key[68]; /* the unknown or missing key; it may have any characters */
	char text[600]; /* the reason; "": there is no error */
};

/* Set the error of a value; format and arguments follow the path. Returns -EINVAL. */
#define ctrl_refuse(error, path, ...)                                                              \
	ctrl_refuse_key(error, CTRL_WRONG_VALUE, path, "", __VA_ARGS__)

/* Set the error of a key of the object at a path. Returns -EINVAL. */
int ctrl_refuse_key(struct ctrl_error *error, enum ctrl_wrong wrong, struct ctrl_path path,
	const char *key, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The path of the value or key that an error is about; a path that is too long is cut off. */
struct ctrl_path ctrl_error_path(const struct ctrl_error *error);

/* Write the line for a file of this name and text. The line is printable, whatever the file
 * contains. */
void ctrl_error_print(const struct ctrl_error *error, const char *file, const char *text,
	size_t length, char *out, size_t size);

/* Parse the text of a file. NULL: it is not JSON, and `out` has the line. */
json_t *ctrl_json_parse(const char *file, const char *text, size_t length, char *out, size_t size);

/* Both count from 1; a column is a character, not a byte. */
struct ctrl_place {
	unsigned int line, column;
};

/*
 * Find the value at `path` ("jobs[0].timeout_ms", "" for the whole text), or, with `key` not NULL,
 * that key of the object at `path`; if it is not there, its nearest parent that is. text: `length`
 * bytes of valid JSON; any other text gives some place in it. Keys in `path` have none of the
 * characters `.[]`, and in the text no escapes; `key` is any string.
 */
struct ctrl_place ctrl_locate(const char *text, size_t length, const char *path, const char *key);

/*
 * The path, as above, of the object's key whose token is the last one that ends within the first
 * `offset` bytes: for an error that jansson found behind it. "" if there is none. Keys are spelled
 * as in the text. A path that is too long or too deep is cut off.
 */
void ctrl_locate_key(const char *text, size_t offset, char *path, size_t size);

#endif
