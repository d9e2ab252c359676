/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "ctrl/api/call.h"

#define NUMBER_BYTES 32

void
api_text_begin(struct api_text *text, size_t room)
{
	*text = (struct api_text){malloc(room), 0, room};
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

/* Write digits backwards from `end`; returns the first. */
static char *
digits(char *end, uint64_t value)
{
	do {
		*--end = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	return end;
}

void
api_text_put_u64(struct api_text *text, uint64_t value)
{
	char number[NUMBER_BYTES], *end = number + sizeof(number), *begin = digits(end, value);

	api_text_put_bytes(text, begin, (size_t)(end - begin));
}

/* value / unit, unit = 10^digits */
static void
put_decimal(struct api_text *text, uint64_t value, uint64_t unit, unsigned int digits)
{
	char fraction[] = ".000000000";
	uint64_t rest = value % unit;

	api_text_put_u64(text, value / unit);
	if (rest == 0)
		return;
	for (unsigned int i = digits; i > 0; i--, rest /= 10)
		fraction[i] = (char)('0' + rest % 10);
	api_text_put_bytes(text, fraction, digits + 1);
}

void
api_text_put_us(struct api_text *text, uint64_t us)
{
	put_decimal(text, us, 1000000, 6);
}

void
api_text_put_ns(struct api_text *text, uint64_t ns)
{
	put_decimal(text, ns, 1000000000, 9);
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
api_text_answer(struct api_call *call, const char *type, struct api_text *text)
{
	api_answer_bytes(call, type, text->at, text->used);
	text->at = NULL;
}
