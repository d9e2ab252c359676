/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

struct ctrl_path
ctrl_path(const char *format, ...)
{
	struct ctrl_path path;
	va_list args;

	va_start(args, format);
	vsnprintf(path.text, sizeof(path.text), format, args);
	va_end(args);
	return path;
}

int
ctrl_refuse_key(struct ctrl_error *error, enum ctrl_wrong wrong, struct ctrl_path path,
	const char *key, const char *format, ...)
{
	va_list args;

	error->wrong = wrong;
	error->path = path;
	strlcpy(error->key, key, sizeof(error->key));
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -EINVAL;
}

static bool
has_key(const struct ctrl_error *error)
{
	return error->wrong == CTRL_WRONG_KEY || error->wrong == CTRL_MISSING_KEY;
}

struct ctrl_path
ctrl_error_path(const struct ctrl_error *error)
{
	if (!has_key(error))
		return error->path;
	return ctrl_path(
		"%s%s%s", error->path.text, error->path.text[0] != '\0' ? "." : "", error->key);
}

/* The strings of a file may contain anything. */
static void
make_printable(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void
ctrl_error_print(const struct ctrl_error *error, const char *file, const char *text, size_t length,
	char *out, size_t size)
{
	struct ctrl_path path = ctrl_error_path(error);
	struct ctrl_place place =
		ctrl_locate(text, length, error->path.text, has_key(error) ? error->key : NULL);

	snprintf(out, size, "%s:%u:%u: %s%s%s", file, place.line, place.column, path.text,
		path.text[0] != '\0' ? ": " : "", error->text);
	make_printable(out);
}

json_t *
ctrl_json_parse(const char *file, const char *text, size_t length, char *out, size_t size)
{
	json_error_t why;
	json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);

	if (root == NULL) {
		snprintf(out, size, "%s:%d:%d: %s", file, why.line < 1 ? 1 : why.line,
			why.column < 1 ? 1 : why.column, why.text);
		/* jansson quotes the text that follows, which may have more lines. */
		out[strcspn(out, "\n")] = '\0';
		make_printable(out);
	}
	return root;
}

/* -- places */

#define LEVELS 16 /* of nested objects and arrays in a path */

/* Also skips what is between the parts of an object or array. */
static const char *
skip_blanks(const char *at, const char *end)
{
	while (at < end && memchr(" \t\r\n,:", *at, 6) != NULL)
		at++;
	return at;
}

/* Where the JSON value ends that begins at `at`; NULL: there is none. is_name: is it the string
 * `name`? Escapes allow several spellings, and jansson decodes them all. */
static const char *
value_end(const char *at, const char *end, const char *name, bool *is_name)
{
	json_error_t where;
	json_t *value = json_loadb(
		at, (size_t)(end - at), JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &where);

	*is_name = json_is_string(value) && strcmp(json_string_value(value), name) == 0;
	json_decref(value);
	return value == NULL ? NULL : at + where.position;
}

static struct ctrl_place
place_of(const char *text, const char *at)
{
	struct ctrl_place place = {1, 1};

	for (; text < at; text++) {
		if (*text == '\n') {
			place.line++;
			place.column = 1;
		} else if (((unsigned char)*text & 0xc0) != 0x80) {
			place.column++;
		}
	}
	return place;
}

struct ctrl_place
ctrl_locate(const char *text, size_t length, const char *path, const char *key)
{
	const char *end = text + length, *at = skip_blanks(text, end), *nearest = at;

	/* For each part of the path, find it in the object or array at `at`. */
	while (at < end && (*path != '\0' || key != NULL) && (*at == '{' || *at == '[')) {
		bool object = *at == '{', is_last = *path == '\0', found = false;
		char name[CTRL_PATH_MAX];
		unsigned long index;

		path += strspn(path, ".[");
		index = object ? 0 : strtoul(path, NULL, 10);
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, ".[]"), path);
		path += strcspn(path, ".[]");
		path += *path == ']';
		for (at = skip_blanks(at + 1, end);
			at < end && !found && *at != '}' && *at != ']';) {
			const char *start = at;

			found = !object && index-- == 0;
			if (object)
				at = value_end(at, end, is_last ? key : name, &found);
			if (at == NULL || (found && is_last))
				return place_of(text, start);
			at = skip_blanks(at, end);
			if (found)
				nearest = at;
			else
				at = value_end(at, end, "", &(bool){false});
			if (at == NULL)
				return place_of(text, nearest);
			at = found ? at : skip_blanks(at, end);
		}
		if (!found)
			break;
	}
	return place_of(text, nearest);
}

void
ctrl_locate_key(const char *text, size_t offset, char *path, size_t size)
{
	const char *end = text + strlen(text), *at = skip_blanks(text, end), *value = NULL;
	unsigned int index, level = 0;
	size_t used;
	bool object, is_name;

	path[0] = '\0';
	/* Each level is parsed again, hence the limit. */
	for (; level++ < LEVELS && at < text + offset && (*at == '{' || *at == '['); at = value) {
		object = *at++ == '{';
		used = strlen(path);
		/* Up to the value that ends behind the offset. */
		for (index = 0; at != NULL && at < text + offset; index++) {
			value = at = skip_blanks(at, end);
			if (object) {
				at = value_end(at, end, "", &is_name);
				if (at == NULL)
					return;
				snprintf(path + used, size - used, "%s%.*s", used > 0 ? "." : "",
					(int)(at - value - 2), value + 1);
				if (at >= text + offset)
					return;
				value = skip_blanks(at, end);
			} else {
				snprintf(path + used, size - used, "[%u]", index);
			}
			at = value_end(value, end, "", &is_name);
		}
	}
}
