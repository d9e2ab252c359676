/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/body.h"

#include "ctrl/api/call.h"

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
	else if (ctrl_schema_check(schema, "", call->body, &error) == 0)
		return true;
	else
		api_answer_error(call, &error);
	return false;
}

/* A duplicate key is reported with its path; other errors of syntax have only a line and a column. */
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
