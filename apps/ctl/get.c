/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/ctl/get.h"

#include <err.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#define CUT "..." /* ends a text that was too long */

json_t *
get(json_t *from, const char *path)
{
	while (from != NULL && path != NULL) {
		size_t length = strcspn(path, ".");
		char key[64];

		if (length >= sizeof(key))
			return NULL;
		memcpy(key, path, length);
		key[length] = '\0';
		from = json_object_get(from, key);
		if (path[length] == '\0')
			return from;
		path += length + 1;
	}
	return NULL;
}

double
get_number(json_t *from, const char *path)
{
	json_t *value = get(from, path);

	if (json_is_boolean(value))
		return json_is_true(value);
	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

double
get_sum(json_t *from, const char *path)
{
	json_t *value = get(from, path), *part;
	double sum = json_object_size(value) > 0 ? 0 : (double)NAN;
	const char *key;

	if (!json_is_object(value))
		return get_number(from, path);
	json_object_foreach (value, key, part)
		sum += json_is_number(part) ? json_number_value(part) : (double)NAN;
	return sum;
}

const char *
get_text(json_t *from, const char *path)
{
	const char *text = json_string_value(get(from, path));

	return text == NULL || text[0] == '\0' ? "-" : text;
}

bool
get_true(json_t *from, const char *path)
{
	return json_is_true(get(from, path));
}

json_t *
get_by_text(json_t *array, const char *key)
{
	json_t *all = json_object();

	if (all == NULL)
		err(1, "answer");
	for (size_t i = json_array_size(array); i-- > 0;) {
		json_t *entry = json_array_get(array, i);

		json_object_set(all, get_text(entry, key), entry);
	}
	return all;
}

static bool
harmless(wchar_t c)
{
	/* Marks that turn the direction of writing, or that nobody sees. */
	if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
		(c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0xad)
		return false;
	return iswprint((wint_t)c) && wcwidth(c) >= 0;
}

void
get_clean(char *text)
{
	char *to = text;

	while (*text != '\0') {
		mbstate_t state = {0};
		wchar_t c;
		size_t bytes = mbrtowc(&c, text, strnlen(text, MB_CUR_MAX), &state);

		if (bytes != 0 && bytes <= MB_CUR_MAX && harmless(c)) {
			memmove(to, text, bytes);
			to += bytes;
		} else {
			if (bytes == 0 || bytes > MB_CUR_MAX)
				bytes = 1;
			*to++ = '?';
		}
		text += bytes;
	}
	*to = '\0';
}

/* A clean and short copy. */
static char *
cleaned(const char *text)
{
	char *copy = strdup(text);

	if (copy == NULL)
		err(1, "answer");
	get_clean(copy);
	if (strlen(copy) > GET_TEXT_MAX) {
		char *end = copy + GET_TEXT_MAX - strlen(CUT);

		while ((*end & 0xc0) == 0x80) /* not within a character of UTF-8 */
			end--;
		strcpy(end, CUT);
	}
	return copy;
}

/* A copy whose strings and keys are clean. */
static json_t *
clean(json_t *value)
{
	json_t *copy = json_is_object(value) ? json_object() : json_array(), *entry;
	const char *key;
	char *text;
	size_t i;

	json_array_foreach (value, i, entry)
		json_array_append_new(copy, clean(entry));
	json_object_foreach (value, key, entry) {
		text = cleaned(key);
		json_object_set_new(copy, text, clean(entry));
		free(text);
	}
	if (json_is_object(value) || json_is_array(value))
		return copy;
	json_decref(copy);
	if (!json_is_string(value))
		return json_incref(value);
	text = cleaned(json_string_value(value));
	copy = json_string(text);
	free(text);
	/* It is no UTF-8 in a locale that is neither this nor ASCII. */
	return copy != NULL ? copy : json_string("?");
}

json_t *
get_parsed(const char *body, size_t length)
{
	json_error_t error;
	json_t *value = json_loadb(body, length, JSON_DECODE_ANY, &error), *copy;

	/* A counter that is too large for jansson's integers is none for its reals. */
	if (value == NULL && json_error_code(&error) == json_error_numeric_overflow)
		value = json_loadb(body, length, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
	copy = value == NULL ? NULL : clean(value);
	json_decref(value);
	return copy;
}

void
get_print(const char *body, size_t length, FILE *out)
{
	if (!isatty(fileno(out))) {
		fwrite(body, 1, length, out);
		return;
	}
	for (size_t at = 0; at < length;) {
		unsigned char first = (unsigned char)body[at++];
		unsigned int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0;
		uint32_t c = more == 0 ? first : first & (0x3fu >> more);

		for (; more > 0 && at < length; more--)
			c = c << 6 | (body[at++] & 0x3fu);
		if ((c >= ' ' && c <= '~') || c == '\n' || c == '\t')
			fputc((int)c, out);
		else if (c == '\r')
			fputc(' ', out); /* a blank of JSON, and it overwrites the line */
		else if (c < 0x10000)
			fprintf(out, "\\u%04x", c);
		else
			fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10 & 0x3ff),
				0xdc00 + (c & 0x3ff));
	}
}
