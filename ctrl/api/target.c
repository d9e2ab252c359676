/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/target.h"

#include <inttypes.h>
#include <string.h>

#include "ctrl/api/call.h"

static int
hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place: the result is never longer. */
static bool
decode(char *text, bool plus_is_blank)
{
	char *out = text;

	for (; *text != '\0'; text++) {
		int high, low;

		if (*text != '%') {
			*out++ = *text == '+' && plus_is_blank ? ' ' : *text;
			continue;
		}
		high = hex(text[1]);
		low = high < 0 ? -1 : hex(text[2]);
		if (low < 0 || (high | low) == 0)
			return false;
		*out++ = (char)(high << 4 | low);
		text += 2;
	}
	*out = '\0';
	return true;
}

static bool
parse_query(struct api_target *target, char *text)
{
	for (char *part; (part = strsep(&text, "&")) != NULL;) {
		char *value = part;

		if (*part == '\0')
			continue;
		if (target->nb_query == API_QUERY_MAX)
			return false;
		strsep(&value, "=");
		if (!decode(part, true) || (value != NULL && !decode(value, true)))
			return false;
		if (api_query(target, part) != NULL) {
			target->twice = part;
			continue;
		}
		target->query[target->nb_query].key = part;
		target->query[target->nb_query].value = value == NULL ? "" : value;
		target->nb_query++;
	}
	return true;
}

bool
api_target_parse(struct api_target *target, const char *raw)
{
	size_t length = strlen(raw);
	char *path = target->text, *query;

	target->nb_segments = target->nb_query = 0;
	target->twice = NULL;
	target->text[0] = '\0';
	if (length >= sizeof(target->text) || raw[0] != '/')
		return false;
	memcpy(target->text, raw, length + 1);
	query = strchr(path, '?');
	if (query != NULL)
		*query++ = '\0';
	path++;
	if (*path == '\0')
		return query == NULL || parse_query(target, query);
	for (char *part; (part = strsep(&path, "/")) != NULL;) {
		if (target->nb_segments == API_SEGMENTS_MAX || *part == '\0' ||
			!decode(part, false))
			return false;
		target->segment[target->nb_segments++] = part;
	}
	return query == NULL || parse_query(target, query);
}

bool
api_target_fits(const struct api_target *target, const char *path,
	const char *parameter[API_PARAMETERS_MAX])
{
	unsigned int parameters = 0;

	path++;
	for (unsigned int i = 0; i < target->nb_segments; i++) {
		size_t length = strcspn(path, "/");

		if (length == 0)
			return false;
		if (path[0] == '{') {
			if (parameters == API_PARAMETERS_MAX)
				return false;
			parameter[parameters++] = target->segment[i];
		} else if (strlen(target->segment[i]) != length ||
			memcmp(path, target->segment[i], length) != 0) {
			return false;
		}
		path += length + (path[length] == '/');
	}
	return *path == '\0';
}

const char *
api_query(const struct api_target *target, const char *key)
{
	for (unsigned int i = 0; i < target->nb_query; i++)
		if (strcmp(target->query[i].key, key) == 0)
			return target->query[i].value;
	return NULL;
}

bool
api_query_number(struct api_call *call, const char *key, uint64_t min, uint64_t max,
	uint64_t fallback, uint64_t *value)
{
	const char *text = api_query(call->target, key);
	size_t digits;

	*value = fallback;
	if (text == NULL)
		return true;
	digits = strspn(text, "0123456789");
	if (digits == 0 || text[digits] != '\0') {
		api_error(call, 400, "wrong_type", key, "\"%.64s\" is not a whole number", text);
		return false;
	}
	*value = 0;
	for (; *text != '\0' && *value <= max; text++)
		*value = *value * 10 + (uint64_t)(*text - '0');
	if (digits > 18 || *value < min || *value > max) {
		api_error(call, 400, "out_of_range", key, "not in %" PRIu64 "..%" PRIu64, min, max);
		return false;
	}
	return true;
}

bool
api_query_flag(struct api_call *call, const char *key, bool *value)
{
	uint64_t number;

	if (!api_query_number(call, key, 0, 1, 0, &number))
		return false;
	*value = number == 1;
	return true;
}
