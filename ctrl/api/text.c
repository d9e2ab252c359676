/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 32

void
api_text_begin(struct api_text *text, size_t room)
{
	*text = (struct api_text){.at = malloc(room), .room = room};
}

/* Where to write `length` more bytes; NULL: out of memory. */
static char *
make_room(struct api_text *text, size_t length)
{
	size_t room = text->room;
	char *more;

	while (room - text->used < length)
		room *= 2;
	if (text->at != NULL && room != text->room) {
		more = realloc(text->at, room);
		if (more == NULL)
			free(text->at);
		text->at = more;
		text->room = room;
	}
	return text->at == NULL ? NULL : text->at + text->used;
}

void
api_text_put_bytes(struct api_text *text, const char *bytes, size_t length)
{
	char *at = make_room(text, length);

	if (at == NULL)
		return;
	memcpy(at, bytes, length);
	text->used += length;
}

void
api_text_put(struct api_text *text, const char *string)
{
	api_text_put_bytes(text, string, strlen(string));
}

/* Written backwards: the lowest digit is the last character. */
void
api_text_put_number(struct api_text *text, uint64_t value, unsigned int digits)
{
	char number[NUMBER_BYTES], *end = number + sizeof(number), *at = end;
	uint64_t unit = 1;

	for (unsigned int i = 0; i < digits; i++)
		unit *= 10;
	if (value % unit == 0) {
		value /= unit;
	} else {
		for (unsigned int i = 0; i < digits; i++, value /= 10)
			*--at = (char)('0' + value % 10);
		*--at = '.';
	}
	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	api_text_put_bytes(text, at, (size_t)(end - at));
}

void
api_text_put_real(struct api_text *text, double value)
{
	char number[NUMBER_BYTES];

	snprintf(number, sizeof(number), "%.6g", value);
	api_text_put(text, number);
}

void
api_text_put_json(struct api_text *text, const char *string)
{
	json_t *value = json_string(string); /* NULL: not UTF-8 */
	char *quoted = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY);

	api_text_put(text, quoted == NULL ? "\"\"" : quoted);
	free(quoted);
	json_decref(value);
}

void
api_text_family(struct api_text *text, const char *name, const char *type, const char *help)
{
	const char *end = strrchr(name, '_');
	const char *plain = end != NULL && strcmp(end, "_total") == 0 ? "counter" : "gauge";
	const char *const parts[] = {"# HELP ", name, " ", help, "\n# TYPE ", name, " ",
		type == NULL ? plain : type, "\n"};

	text->family = name;
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		api_text_put(text, parts[i]);
}

void
api_text_sample(struct api_text *text, const char *suffix, const char *a, const char *b,
	uint64_t value, unsigned int digits)
{
	api_text_put(text, text->family);
	api_text_put(text, suffix);
	if (a != NULL || b != NULL) {
		api_text_put_bytes(text, "{", 1);
		api_text_put(text, a == NULL ? "" : a);
		api_text_put(text, a == NULL || b == NULL ? "" : ",");
		api_text_put(text, b == NULL ? "" : b);
		api_text_put_bytes(text, "}", 1);
	}
	api_text_put_bytes(text, " ", 1);
	api_text_put_number(text, value, digits);
	api_text_put_bytes(text, "\n", 1);
}

char *
api_text_label(char *out, size_t size, const char *name, const char *value)
{
	size_t used = strlen(name);

	memcpy(out, name, used);
	out[used++] = '=';
	out[used++] = '"';
	/* An escaped character, the quote and the end must fit. */
	for (; *value != '\0' && used + 4 <= size; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			out[used++] = '\\';
		out[used++] = (char)(*value == '\n' ? 'n' : *value);
	}
	out[used++] = '"';
	out[used] = '\0';
	return out;
}
