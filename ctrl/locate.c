/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/locate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

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
