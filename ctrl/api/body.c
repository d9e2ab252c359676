/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/body.h"

#include <inttypes.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/config/locate.h"
#include "ctrl/config/refuse.h"
#include "ctrl/config/values.h"

/* A value, and where it stands. */
struct spot {
	struct api_call *call;
	struct ctrl_path path;
};

#define REFUSE(spot, code, ...)                                                                    \
	(api_error((spot)->call, 400, code, (spot)->path.text, __VA_ARGS__), false)

static bool check_object(const struct spot *spot, const struct api_field *fields, json_t *object);

static bool
check_integer(const struct spot *spot, const struct api_field *field, const json_t *value)
{
	json_int_t v = json_integer_value(value);

	if (!json_is_integer(value))
		return REFUSE(spot, "wrong_type", "an integer belongs here");
	if (v < field->min || v > field->max)
		return REFUSE(spot, "out_of_range", "%" PRId64 " is not in %" PRId64 "..%" PRId64,
			(int64_t)v, field->min, field->max);
	if (field->kind == API_POWER && (v & (v - 1)) != 0)
		return REFUSE(
			spot, "out_of_range", "%" PRId64 " is not a power of two", (int64_t)v);
	return true;
}

static bool
check_real(const struct spot *spot, const struct api_field *field, const json_t *value)
{
	double v = json_number_value(value);

	if (!json_is_number(value))
		return REFUSE(spot, "wrong_type", "a number belongs here");
	if (!(v >= (double)field->min && v <= (double)field->max))
		return REFUSE(spot, "out_of_range", "%g is not in %" PRId64 "..%" PRId64, v,
			field->min, field->max);
	return true;
}

static bool
check_length(const struct spot *spot, const struct api_field *field, const char *text)
{
	int64_t length = (int64_t)strlen(text);

	if (length >= field->min && length <= field->max)
		return true;
	return REFUSE(spot, "out_of_range",
		"%" PRId64 " characters are not in %" PRId64 "..%" PRId64, length, field->min,
		field->max);
}

static bool
check_results(const struct spot *spot, const char *text)
{
	uint32_t group;

	if (strcmp(text, "unicast") == 0 ||
		(ctrl_parse_address(text, &group) && ctrl_is_group(group)))
		return true;
	return REFUSE(spot, "out_of_range",
		"\"%.64s\" is neither \"unicast\" nor an IPv4 multicast group: 224.0.0.0/4 without "
		"224.0.0.0/24, which is the network's own",
		text);
}

static bool
check_text(const struct spot *spot, const struct api_field *field, const json_t *value)
{
	const char *text = json_string_value(value);
	uint32_t address;

	if (text == NULL)
		return REFUSE(spot, "wrong_type", "a string belongs here");
	switch (field->kind) {
	case API_WORD:
		if (ctrl_parse_word(field->words, text) >= 0)
			return true;
		return REFUSE(
			spot, "out_of_range", "\"%.64s\" is not one of %s", text, field->words);
	case API_NAME:
		if (!ctrl_is_name(text))
			return REFUSE(spot, "out_of_range",
				"\"%.64s\" is not a name of letters, digits and . _ -, the first "
				"one not . or -",
				text);
		return check_length(spot, field, text);
	case API_ADDRESS:
		if (ctrl_parse_address(text, &address) && ctrl_is_host(address))
			return true;
		return REFUSE(spot, "out_of_range",
			"\"%.64s\" is not an IPv4 address of a host, such as 10.77.0.1", text);
	case API_RESULTS: return check_results(spot, text);
	case API_TEXT: return check_length(spot, field, text);
	case API_INTEGER:
	case API_POWER:
	case API_REAL:
	case API_BOOLEAN:
	case API_OBJECT:
	default: return false;
	}
}

static bool
check_value(const struct spot *spot, const struct api_field *field, json_t *value)
{
	switch (field->kind) {
	case API_INTEGER:
	case API_POWER: return check_integer(spot, field, value);
	case API_REAL: return check_real(spot, field, value);
	case API_BOOLEAN:
		if (json_is_boolean(value))
			return true;
		return REFUSE(spot, "wrong_type", "true or false belongs here");
	case API_OBJECT:
		if (json_is_object(value))
			return check_object(spot, field->fields, value);
		return REFUSE(spot, "wrong_type", "an object belongs here");
	case API_WORD:
	case API_NAME:
	case API_TEXT:
	case API_ADDRESS:
	case API_RESULTS:
	default: return check_text(spot, field, value);
	}
}

static bool
refuse_unknown(const struct spot *spot, const struct api_field *fields)
{
	char known[256] = "";
	size_t used = 0;

	for (; fields->key != NULL && used < sizeof(known); fields++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
			used > 0 ? ", " : "", fields->key);
	return REFUSE(spot, "unknown_key", "unknown key; known here: %s", known);
}

static bool
check_object(const struct spot *spot, const struct api_field *fields, json_t *object)
{
	const char *dot = spot->path.text[0] != '\0' ? "." : "";
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value) {
		struct spot in = {spot->call, ctrl_path("%s%s%.64s", spot->path.text, dot, name)};
		const struct api_field *field = fields;

		while (field->key != NULL && strcmp(field->key, name) != 0)
			field++;
		if (field->key == NULL)
			return refuse_unknown(&in, fields);
		if (!check_value(&in, field, value))
			return false;
	}
	for (const struct api_field *field = fields; field->key != NULL; field++) {
		struct spot in = {
			spot->call, ctrl_path("%s%s%s", spot->path.text, dot, field->key)};

		if (field->required && json_object_get(object, field->key) == NULL)
			return REFUSE(&in, "missing_key", "the key \"%s\" is missing", field->key);
	}
	return true;
}

bool
api_body_check(struct api_call *call, const struct api_field *fields)
{
	struct spot whole = {call, {""}};

	if (call->body == NULL) {
		api_error(call, 400, "bad_json", NULL, "a JSON object belongs into the body");
		return false;
	}
	return check_object(&whole, fields, call->body);
}

int64_t
api_integer(const json_t *object, const char *key, int64_t fallback)
{
	const json_t *value = json_object_get(object, key);

	return value == NULL ? fallback : json_integer_value(value);
}

double
api_real(const json_t *object, const char *key, double fallback)
{
	const json_t *value = json_object_get(object, key);

	return value == NULL ? fallback : json_number_value(value);
}

bool
api_boolean(const json_t *object, const char *key, bool fallback)
{
	const json_t *value = json_object_get(object, key);

	return value == NULL ? fallback : json_is_true(value);
}

const char *
api_text(const json_t *object, const char *key, const char *fallback)
{
	const json_t *value = json_object_get(object, key);

	return value == NULL ? fallback : json_string_value(value);
}

/* A key that an object has twice is told as any other key; else there is no place but line and column. */
static void
refuse_text(struct api_call *call, const char *text, const json_error_t *error)
{
	struct ctrl_path path;

	if (json_error_code(error) != json_error_duplicate_key) {
		api_error(call, 400, "bad_json", NULL,
			"the body is not JSON: line %d, column %d: %s", error->line, error->column,
			error->text);
		return;
	}
	ctrl_locate_key(text, (size_t)error->position, path.text, sizeof(path.text));
	api_error(call, 400, "duplicate", path.text, "line %d, column %d: the key is here already",
		error->line, error->column);
}

json_t *
api_body_parse(struct api_call *call, const char *text, size_t length)
{
	json_error_t error;
	json_t *body = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

	if (body == NULL) {
		refuse_text(call, text, &error);
	} else if (!json_is_object(body)) {
		api_error(call, 400, "wrong_type", NULL, "the body is JSON, but not an object");
		json_decref(body);
		body = NULL;
	}
	return body;
}
