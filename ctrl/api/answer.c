/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/config/keys.h"

#define JSON_TYPE "application/json"

void
api_answer_clear(struct api_answer *answer)
{
	json_decref(answer->json);
	free(answer->bytes);
	if (answer->stream_free != NULL)
		answer->stream_free(answer->stream);
	*answer = (struct api_answer){0};
}

/* Keeps the headers, which may concern the request. */
static void
begin(struct api_call *call, unsigned int status, const char *type)
{
	struct api_answer *answer = &call->answer;

	json_decref(answer->json);
	free(answer->bytes);
	if (answer->stream_free != NULL)
		answer->stream_free(answer->stream);
	answer->json = NULL;
	answer->bytes = NULL;
	answer->constant = NULL;
	answer->length = 0;
	answer->read = NULL;
	answer->stream = NULL;
	answer->stream_free = NULL;
	answer->status = status;
	answer->type = type;
	call->wait_ms = 0;
}

void
api_answer(struct api_call *call, unsigned int status, json_t *body)
{
	if (body == NULL) {
		api_error_memory(call);
		return;
	}
	begin(call, status, JSON_TYPE);
	call->answer.json = body;
}

void
api_answer_constant(struct api_call *call, const char *type, const void *bytes, size_t length)
{
	begin(call, 200, type);
	call->answer.constant = bytes;
	call->answer.length = length;
}

void
api_answer_bytes(struct api_call *call, const char *type, char *bytes, size_t length)
{
	if (bytes == NULL) {
		api_error_memory(call);
		return;
	}
	begin(call, 200, type);
	call->answer.bytes = bytes;
	call->answer.length = length;
}

void
api_answer_stream(struct api_call *call, const char *type, api_read read, void *stream,
	void (*stream_free)(void *stream))
{
	begin(call, 200, type);
	call->answer.read = read;
	call->answer.stream = stream;
	call->answer.stream_free = stream_free;
}

void
api_header(struct api_call *call, const char *name, const char *format, ...)
{
	struct api_answer *answer = &call->answer;
	unsigned int i = 0;
	va_list args;

	while (i < answer->nb_headers && strcmp(answer->header[i].name, name) != 0)
		i++;
	if (i == API_HEADERS_MAX)
		return;
	answer->nb_headers += i == answer->nb_headers;
	answer->header[i].name = name;
	va_start(args, format);
	vsnprintf(answer->header[i].value, sizeof(answer->header[i].value), format, args);
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
api_error_memory(struct api_call *call)
{
	static const char text[] = "{\"error\":{\"status\":503,\"code\":\"busy\",\"message\":"
				   "\"the switch is out of memory for answers: ask again\"}}\n";

	begin(call, 503, JSON_TYPE);
	call->answer.constant = text;
	call->answer.length = sizeof(text) - 1;
}

void
api_wait(struct api_call *call, unsigned int ms)
{
	begin(call, 0, NULL);
	call->wait_ms = ms;
}

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
