/* SPDX-License-Identifier: BSD-3-Clause */
/* A request: its target, its route and its body. */
#include "ctrl/api/call.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

/* Decodes in place: the result is never longer. */
static bool
decode(char *text, bool plus_is_blank)
{
	char *out = text;

	for (; *text != '\0'; text++) {
		char digits[3] = "";

		if (*text != '%') {
			*out++ = *text == '+' && plus_is_blank ? ' ' : *text;
			continue;
		}
		if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]))
			return false;
		memcpy(digits, text + 1, 2);
		*out = (char)strtoul(digits, NULL, 16);
		if (*out++ == '\0')
			return false;
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
		for (unsigned int i = 0; i < target->nb_query; i++)
			if (strcmp(target->query[i].key, part) == 0)
				target->repeated_key = part;
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
	target->repeated_key = NULL;
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

/* -- operation */

const struct api_operation *
api_route_find(struct api_call *call, const char *method)
{
	char allow[64] = "";

	if (strcmp(method, "HEAD") == 0)
		method = "GET";
	for (size_t i = 0; i < api_operations_count; i++) {
		const struct api_operation *operation = &api_operations[i];

		if (!api_target_fits(call->target, operation->path, call->parameter))
			continue;
		if (strcmp(operation->method, method) == 0)
			return operation;
		if (allow[0] != '\0')
			strlcat(allow, ", ", sizeof(allow));
		strlcat(allow, operation->method, sizeof(allow));
		if (strcmp(operation->method, "GET") == 0)
			strlcat(allow, ", HEAD", sizeof(allow));
	}
	if (allow[0] == '\0') {
		api_error_unknown(call);
		return NULL;
	}
	api_error(call, 405, "method_not_allowed", NULL, "%.32s is not for this path: it takes %s",
		method, allow);
	api_header(call, "Allow", "%s", allow);
	return NULL;
}

/* The value of a key in the query, as JSON: a number where the key takes one, and it is one. */
static json_t *
query_value(const struct ctrl_key *key, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (key == NULL || key->kind != CTRL_INTEGER || digits == 0 || text[digits] != '\0')
		return json_string(text);
	return json_integer(digits > 18 ? INT64_MAX : strtoll(text, NULL, 10));
}

bool
api_query_check(struct api_call *call, const struct ctrl_schema *schema)
{
	const struct api_target *target = call->target;
	struct ctrl_error error;

	json_decref(call->query);
	call->query = json_object();
	for (unsigned int i = 0; i < target->nb_query; i++) {
		const char *key = target->query[i].key;

		json_object_set_new(call->query, key,
			query_value(ctrl_schema_find(schema, key), target->query[i].value));
	}
	if (json_object_size(call->query) < target->nb_query && target->repeated_key == NULL) {
		api_error(call, 400, "wrong_type", NULL, "the query is not UTF-8");
		return false;
	}
	if (ctrl_schema_check(schema, "", call->query, &error) < 0) {
		api_answer_error(call, &error);
		return false;
	}
	if (target->repeated_key != NULL) {
		api_error(call, 400, "duplicate", target->repeated_key,
			"the query has this key twice");
		return false;
	}
	call->is_dry_run = json_integer_value(json_object_get(call->query, "dry_run")) != 0;
	return true;
}

uint64_t
api_query_number(const struct api_call *call, const char *key)
{
	const json_t *value = json_object_get(call->query, key);

	if (value != NULL)
		return (uint64_t)json_integer_value(value);
	return strtoull(ctrl_schema_find(&call->operation->query, key)->fallback, NULL, 10);
}

const char *
api_query_text(const struct api_call *call, const char *key)
{
	return json_string_value(json_object_get(call->query, key));
}

/* -- body */

void
api_answer_error(struct api_call *call, const struct ctrl_error *error)
{
	static const char *const codes[] = {
		[CTRL_WRONG_VALUE] = "out_of_range",
		[CTRL_WRONG_TYPE] = "wrong_type",
		[CTRL_WRONG_KEY] = "unknown_key",
		[CTRL_MISSING_KEY] = "missing_key",
	};

	api_error(call, 400, codes[error->wrong], ctrl_error_path(error).text, "%s", error->text);
}

bool
api_body_check(struct api_call *call, const struct ctrl_schema *schema)
{
	struct ctrl_error error;

	if (call->body == NULL)
		api_error(call, 400, "bad_json", NULL,
			"this request needs a JSON object as its body");
	else if (schema->count == 0 || ctrl_schema_check(schema, "", call->body, &error) == 0)
		return true;
	else
		api_answer_error(call, &error);
	return false;
}

/* A duplicate key is reported with its path; other errors of syntax with line and column only. */
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
	api_error(call, 400, "duplicate", path.text, "line %d, column %d: this key is there twice",
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

const struct ctrl_job *
api_job_named(const struct api_call *call, const char *name)
{
	const struct ctrl_job_snapshot *found;

	if (call->running != NULL)
		return ctrl_running_find_job(call->running, name);
	found = ctrl_snapshot_find_job(call->seen, name);
	return found == NULL ? NULL : &found->job;
}
