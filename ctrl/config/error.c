/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>
#include <rte_common.h>

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

/* An object or array that the walk is in. */
struct level {
	bool object;
	bool is_at_key; /* of an object: the next string is a key */
	unsigned int index; /* of an array */
	const char *key; /* the last one, with its quotes; NULL: none yet */
	int length;
};

/* A walk over the tokens of a text. */
struct walk {
	const char *at, *end; /* the rest of it */
	const char *token; /* the last one */
	unsigned int in; /* the number of objects and arrays that contain the token */
	unsigned int depth; /* the same for the next token */
	struct level level[LEVELS + 1]; /* by depth; [0]: no level, and all deeper ones */
};

/* VALUE: a whole value, or the beginning of an object or array. */
enum token { END, KEY, VALUE, OTHER };

static struct level *
innermost(struct walk *w)
{
	return &w->level[w->depth <= LEVELS ? w->depth : 0];
}

static void
skip_token(struct walk *w)
{
	w->token = w->at++;
	if (*w->token == '"') {
		while (w->at < w->end && *w->at != '"')
			w->at += *w->at == '\\' ? 2 : 1;
		w->at = w->at < w->end ? w->at + 1 : w->end;
	} else if (strchr("{}[],:", *w->token) == NULL) {
		while (w->at < w->end && strchr("]}, \t\r\n", *w->at) == NULL)
			w->at++;
	}
}

static enum token
next(struct walk *w)
{
	struct level *level = innermost(w);
	char c;

	while (w->at < w->end && strchr(" \t\r\n", *w->at) != NULL)
		w->at++;
	if (w->at >= w->end)
		return END;
	skip_token(w);
	w->in = w->depth;
	c = *w->token;
	if (c == '"' && level->is_at_key) {
		level->is_at_key = false;
		level->key = w->token;
		level->length = (int)(w->at - w->token);
		return KEY;
	}
	if (c == '{' || c == '[') {
		w->depth++;
		*innermost(w) = (struct level){.object = c == '{', .is_at_key = c == '{'};
	} else if ((c == '}' || c == ']') && w->depth > 0) {
		w->depth--;
	} else if (c == ',') {
		level->index++;
		level->is_at_key = level->object;
	}
	return strchr("}],:", c) == NULL ? VALUE : OTHER;
}

/* The path of what is at this depth. Keys are spelled as in the text. */
static void
write_path(const struct walk *w, unsigned int depth, char *path, size_t size)
{
	size_t used = 0;

	path[0] = '\0';
	for (unsigned int i = 1; i <= depth && i <= LEVELS && used < size; i++) {
		const struct level *level = &w->level[i];

		if (!level->object)
			used += (size_t)snprintf(path + used, size - used, "[%u]", level->index);
		else if (level->key != NULL)
			used += (size_t)snprintf(path + used, size - used, "%s%.*s",
				used > 0 ? "." : "", RTE_MAX(level->length - 2, 0), level->key + 1);
	}
}

/* Escapes allow several spellings of one key: jansson decodes them all. */
static bool
is_key(const struct walk *w, const char *key)
{
	json_t *string = json_loadb(w->token, (size_t)(w->at - w->token), JSON_DECODE_ANY, NULL);
	bool same = string != NULL && strcmp(json_string_value(string), key) == 0;

	json_decref(string);
	return same;
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
	struct walk w = {.at = text, .end = text + length};
	const char *nearest = text;
	char here[CTRL_PATH_MAX];

	for (enum token token; (token = next(&w)) != END;) {
		size_t used;

		write_path(&w, token == KEY ? w.in - 1 : w.in, here, sizeof(here));
		used = strlen(here);
		if (token == OTHER || strncmp(path, here, used) != 0)
			continue;
		if (token == KEY && key != NULL && path[used] == '\0' && is_key(&w, key))
			return place_of(text, w.token);
		if (token == VALUE && (used == 0 || strchr(".[", path[used]) != NULL))
			nearest = w.token; /* strchr also finds the end of the path */
		if (token == VALUE && key == NULL && path[used] == '\0')
			break;
	}
	return place_of(text, nearest);
}

void
ctrl_locate_key(const char *text, size_t offset, char *path, size_t size)
{
	struct walk w = {.at = text, .end = text + offset};

	while (next(&w) != END) {
	}
	write_path(&w, w.depth, path, size);
}
