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
ctrl_refuse(struct ctrl_error *error, struct ctrl_path path, const char *format, ...)
{
	va_list args;

	error->wrong = CTRL_WRONG_VALUE;
	error->path = path;
	error->key[0] = '\0';
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -EINVAL;
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

#define LEVELS 16 /* of objects and arrays, one in another, that a path goes down */

/* What is left of the text. */
struct scan {
	const char *at, *end;
};

static char
look(const struct scan *s)
{
	return s->at < s->end ? *s->at : '\0';
}

static void
skip_blank(struct scan *s)
{
	while (s->at < s->end && strchr(" \t\r\n", *s->at) != NULL)
		s->at++;
}

static void
skip_string(struct scan *s)
{
	s->at++;
	while (s->at < s->end && *s->at != '"')
		s->at += *s->at == '\\' ? 2 : 1;
	s->at = s->at < s->end ? s->at + 1 : s->end;
}

static void
skip_value(struct scan *s)
{
	unsigned int depth = 0;

	do {
		char c = look(s);

		if (c == '"') {
			skip_string(s);
		} else if (c == '{' || c == '[') {
			depth++;
			s->at++;
		} else if (c == '}' || c == ']') {
			depth--;
			s->at++;
		} else if (depth > 0) {
			s->at++;
		} else {
			while (s->at < s->end && strchr(",]} \t\r\n", *s->at) == NULL)
				s->at++;
		}
	} while (depth > 0 && s->at < s->end);
}

/* Escapes make two spellings of one key: jansson knows them all. */
static bool
is_key(const char *token, size_t length, const char *key)
{
	json_t *string = json_loadb(token, length, JSON_DECODE_ANY, NULL);
	bool same = string != NULL && strcmp(json_string_value(string), key) == 0;

	json_decref(string);
	return same;
}

/* From an object to a member's value, or to its key. */
static bool
enter_member(struct scan *s, const char *key, bool at_key)
{
	struct scan in = *s;

	if (look(&in) != '{')
		return false;
	in.at++;
	for (skip_blank(&in); look(&in) == '"'; skip_blank(&in)) {
		const char *token = in.at;
		bool found;

		skip_string(&in);
		found = is_key(token, (size_t)(in.at - token), key);
		skip_blank(&in);
		in.at += in.at < in.end; /* the colon */
		skip_blank(&in);
		if (found) {
			s->at = at_key ? token : in.at;
			return true;
		}
		skip_value(&in);
		skip_blank(&in);
		if (look(&in) == ',')
			in.at++;
	}
	return false;
}

/* From an array to an element. */
static bool
enter_element(struct scan *s, unsigned long index)
{
	struct scan in = *s;

	if (look(&in) != '[')
		return false;
	in.at++;
	for (skip_blank(&in); in.at < in.end && *in.at != ']'; skip_blank(&in)) {
		if (index-- == 0) {
			s->at = in.at;
			return true;
		}
		skip_value(&in);
		skip_blank(&in);
		if (look(&in) == ',')
			in.at++;
	}
	return false;
}

/* One step along the path. Returns the rest of it, or NULL where the text does not follow. */
static const char *
step(struct scan *s, const char *path)
{
	char key[64];
	size_t length;

	if (*path == '[') {
		char *after;
		unsigned long index = strtoul(path + 1, &after, 10);

		return enter_element(s, index) && *after == ']' ? after + 1 : NULL;
	}
	if (*path == '.')
		path++;
	length = strcspn(path, ".[");
	if (length >= sizeof(key))
		return NULL;
	memcpy(key, path, length);
	key[length] = '\0';
	return enter_member(s, key, false) ? path + length : NULL;
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
	struct scan s = {text, text + length};

	skip_blank(&s);
	while (path != NULL && *path != '\0')
		path = step(&s, path);
	if (path != NULL && key != NULL)
		enter_member(&s, key, true);
	return place_of(text, s.at < s.end ? s.at : s.end);
}

/* An object or array that the walk is in. */
struct level {
	bool object;
	bool at_key; /* of an object: the next string is a key */
	unsigned int index; /* of an array */
	const char *key;
	int length; /* of the key; 0: none yet */
};

static void
enter(struct level *level, bool object)
{
	*level = (struct level){.object = object, .at_key = object};
}

static void
next_member(struct level *level)
{
	level->index++;
	level->at_key = level->object;
}

static void
write_path(const struct level *level, unsigned int depth, char *path, size_t size)
{
	size_t used = 0;

	path[0] = '\0';
	for (unsigned int i = 0; i < depth && i < LEVELS && used < size; i++) {
		const char *dot = used > 0 ? "." : "";

		used += (size_t)(level[i].object
				? snprintf(path + used, size - used, "%s%.*s", dot, level[i].length,
					  level[i].key)
				: snprintf(path + used, size - used, "[%u]", level[i].index));
	}
}

void
ctrl_locate_key(const char *text, size_t offset, char *path, size_t size)
{
	struct level level[LEVELS], beyond, *now = &beyond;
	struct scan s = {text, text + offset};
	unsigned int depth = 0;

	enter(&beyond, false);
	for (skip_blank(&s); s.at < s.end; skip_blank(&s)) {
		const char *token = s.at;
		char c = *token;

		if (c == '"')
			skip_string(&s);
		else
			s.at++;
		if (c == '"' && now->at_key) {
			now->at_key = false;
			now->key = token + 1;
			now->length = (int)(s.at - token) - 2;
		} else if (c == '{' || c == '[') {
			now = depth < LEVELS ? &level[depth] : &beyond;
			depth++;
			enter(now, c == '{');
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
			now = depth == 0 || depth > LEVELS ? &beyond : &level[depth - 1];
		} else if (c == ',') {
			next_member(now);
		}
	}
	write_path(level, depth, path, size);
}
