/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/answer.h"

#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "ctrl/api/call.h"
#include "ctrl/config/keys.h"

#define JSON_TYPE    "application/json"
#define STREAM_BLOCK 16384

void
api_answer_clear(struct api_answer *answer)
{
	json_decref(answer->json);
	if (answer->response != NULL)
		MHD_destroy_response(answer->response);
	*answer = (struct api_answer){0};
}

static void
begin(struct api_call *call, unsigned int status)
{
	api_answer_clear(&call->answer);
	call->answer.status = status;
	call->wait_ms = 0;
}

void
api_answer(struct api_call *call, unsigned int status, json_t *body)
{
	if (body == NULL) {
		api_error_memory(call);
		return;
	}
	begin(call, status);
	call->answer.json = body;
}

/* Set the media type of a response; NULL is fine. */
static struct MHD_Response *
with_type(const char *type, struct MHD_Response *response)
{
	if (response != NULL)
		MHD_add_response_header(response, "Content-Type", type);
	return response;
}

/* response: NULL if there was no memory for it. */
static void
answer_with(struct api_call *call, const char *type, struct MHD_Response *response)
{
	if (response == NULL) {
		api_error_memory(call);
		return;
	}
	begin(call, 200);
	call->answer.response = with_type(type, response);
}

void
api_answer_constant(struct api_call *call, const char *type, const void *bytes, size_t length)
{
	answer_with(call, type,
		MHD_create_response_from_buffer(
			length, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT));
}

void
api_answer_text(struct api_call *call, const char *type)
{
	struct api_text *text = &call->text;
	struct MHD_Response *response = text->at == NULL
		? NULL
		: MHD_create_response_from_buffer(text->used, text->at, MHD_RESPMEM_MUST_FREE);

	if (response == NULL)
		free(text->at);
	text->at = NULL;
	answer_with(call, type, response);
	call->answer.bytes = text->used;
}

void
api_answer_stream(struct api_call *call, const char *type,
	ssize_t (*read)(void *stream, uint64_t at, char *out, size_t room), void *stream,
	void (*stream_free)(void *stream))
{
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, STREAM_BLOCK, read, stream, stream_free);

	if (response == NULL)
		stream_free(stream);
	answer_with(call, type, response);
}

void
api_header(struct api_call *call, const char *name, const char *format, ...)
{
	struct api_answer *answer = &call->answer;
	va_list args;

	if (answer->nb_headers == API_HEADERS_MAX)
		return;
	answer->header[answer->nb_headers].name = name;
	va_start(args, format);
	vsnprintf(answer->header[answer->nb_headers++].value, sizeof(answer->header[0].value),
		format, args);
	va_end(args);
}

/* Messages quote clients' text, which may contain broken UTF-8 or line ends. */
static void
make_printable(char *text)
{
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void
api_error(struct api_call *call, unsigned int status, const char *code, const char *key,
	const char *format, ...)
{
	char message[API_MESSAGE_BYTES], path[CTRL_PATH_MAX] = "";
	json_t *body;
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	make_printable(message);
	if (key != NULL)
		snprintf(path, sizeof(path), "%s", key);
	make_printable(path);
	body = json_pack("{s:{s:i,s:s,s:s*,s:s}}", "error", "status", (int)status, "code", code,
		"key", key == NULL ? NULL : path, "message", message);
	if (body == NULL) {
		api_error_memory(call);
		return;
	}
	api_answer(call, status, body);
}

void
api_error_more(struct api_call *call, const char *key, json_t *value)
{
	json_object_set_new(json_object_get(call->answer.json, "error"), key, value);
}

void
api_error_unknown(struct api_call *call)
{
	api_error(call, 404, "unknown_path", NULL, "nothing is here: docs/api.md lists the paths");
}

void
api_error_memory(struct api_call *call)
{
	static const char text[] = "{\"error\":{\"status\":503,\"code\":\"busy\",\"message\":"
				   "\"the switch is out of memory for answers: ask again\"}}\n";

	begin(call, 503);
	call->answer.response = with_type(JSON_TYPE,
		MHD_create_response_from_buffer(
			sizeof(text) - 1, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT));
}

void
api_wait(struct api_call *call, unsigned int ms)
{
	begin(call, 0);
	call->wait_ms = ms;
}

void
api_put(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

void
api_put_or_null(json_t *object, const char *key, int64_t value)
{
	json_object_set_new(object, key, value < 0 ? json_null() : json_integer(value));
}

void
api_put_boolean(json_t *object, const char *key, bool value)
{
	json_object_set_new(object, key, json_boolean(value));
}

void
api_put_real(json_t *object, const char *key, double value)
{
	json_object_set_new(object, key, isnan(value) ? json_null() : json_real(value));
}

void
api_put_json(json_t *object, const char *key, json_t *value)
{
	if (value != NULL)
		json_object_set_new(object, key, value);
}

void
api_put_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, text == NULL ? json_null() : json_string(text));
}

/* Adds a line end, for terminals. */
static struct MHD_Response *
make_json(const json_t *json, size_t *bytes)
{
	size_t length = json_dumpb(json, NULL, 0, JSON_COMPACT);
	char *text = length == 0 ? NULL : malloc(length + 1);
	struct MHD_Response *response;

	if (text == NULL)
		return NULL;
	json_dumpb(json, text, length, JSON_COMPACT);
	text[length] = '\n';
	*bytes = length + 1;
	response = MHD_create_response_from_buffer(length + 1, text, MHD_RESPMEM_MUST_FREE);
	if (response == NULL)
		free(text);
	return with_type(JSON_TYPE, response);
}

struct MHD_Response *
api_answer_response(struct api_call *call)
{
	static const char *const usual[][2] = {
		{"Cache-Control", "no-store"},
		{"X-Content-Type-Options", "nosniff"},
		{"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
	};
	struct api_answer *answer = &call->answer;
	struct MHD_Response *response;

	if (answer->json != NULL)
		answer->response = make_json(answer->json, &answer->bytes);
	if (answer->response == NULL)
		api_error_memory(call);
	response = answer->response;
	if (response == NULL)
		return NULL;
	answer->response = NULL;
	for (unsigned int i = 0; i < answer->nb_headers; i++)
		MHD_add_response_header(response, answer->header[i].name, answer->header[i].value);
	for (unsigned int i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (MHD_get_response_header(response, usual[i][0]) == NULL)
			MHD_add_response_header(response, usual[i][0], usual[i][1]);
	return response;
}
