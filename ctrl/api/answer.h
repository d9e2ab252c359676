/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to calls. A second answer to a call replaces the first one and its headers. */
#ifndef CTRL_API_ANSWER_H
#define CTRL_API_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#define API_HEADERS_MAX   6
#define API_MESSAGE_BYTES 512

struct api_call;

struct MHD_Response;

struct api_answer {
	unsigned int status; /* HTTP's; 0: none yet */
	json_t *json; /* a JSON body; NULL: `response` has the body */
	struct MHD_Response *response; /* any other body, with its type */
	size_t bytes; /* of a body in memory */
	unsigned int nb_headers;
	struct {
		const char *name; /* a constant */
		char value[128];
	} header[API_HEADERS_MAX];
};

/* Answer with a JSON body and take ownership of it. NULL is answered as an error. */
void api_answer(struct api_call *call, unsigned int status, json_t *body);

/* 200 with bytes that are never freed (a page). */
void api_answer_constant(struct api_call *call, const char *type, const void *bytes, size_t length);

/* 200 with call->text, or an error if there was no memory for it. */
void api_answer_text(struct api_call *call, const char *type);

/* 200 with what `read` writes, up to `room` bytes at a time. `read` returns the number of bytes, or
 * -1 at the end (as MHD_ContentReaderCallback). stream_free frees the stream, now or later. */
void api_answer_stream(struct api_call *call, const char *type,
	ssize_t (*read)(void *stream, uint64_t at, char *out, size_t room), void *stream,
	void (*stream_free)(void *stream));

/* Add a header to the answer just given. name: a constant. */
void api_header(struct api_call *call, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * {"error": {"status", "code", "key", "message"}}. code: one of docs/openapi.json's. key: path of
 * the wrong value, or NULL. The message says what is wrong and what to do. It may contain any
 * bytes.
 */
void api_error(struct api_call *call, unsigned int status, const char *code, const char *key,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Add a key ("free", "needed") to the error just given; takes `value`. */
void api_error_more(struct api_call *call, const char *key, json_t *value);

/* Answer 404: nothing is at this path. */
void api_error_unknown(struct api_call *call);

/* Answer 503: the switch is out of memory. */
void api_error_memory(struct api_call *call);

/* Take the body and all headers, for libmicrohttpd; answer.status remains. NULL: no memory. */
struct MHD_Response *api_answer_response(struct api_call *call);

/* Free the contents of an answer; it is empty afterwards. */
void api_answer_clear(struct api_answer *answer);

/* Set a key of a JSON object. text NULL, value NaN and, for api_put_or_null, value -1 set null.
 * api_put_json takes `value`; NULL sets nothing. If there is no memory, the key is missing. */
void api_put(json_t *object, const char *key, uint64_t value);
void api_put_or_null(json_t *object, const char *key, int64_t value);
void api_put_boolean(json_t *object, const char *key, bool value);
void api_put_real(json_t *object, const char *key, double value);
void api_put_text(json_t *object, const char *key, const char *text);
void api_put_json(json_t *object, const char *key, json_t *value);

/* The X and E of a list of ctrl/api/fields.h, where `object` is the answer. */
#define API_PUT(key, kind, flags, value, of, help) API_PUT_##kind(object, #key, value);
#define API_SKIP(key, kind, flags, of, help)

#define API_PUT_BOOLEAN    api_put_boolean
#define API_PUT_ID         api_put
#define API_PUT_ID_OR_NULL api_put_or_null
#define API_PUT_COUNT      api_put
#define API_PUT_BYTES      api_put
#define API_PUT_MS         api_put
#define API_PUT_MS_OR_NULL api_put_or_null
#define API_PUT_MBIT       api_put
#define API_PUT_SECONDS    api_put_real
#define API_PUT_TIME       api_put_real
#define API_PUT_SHARE      api_put_real
#define API_PUT_TEXT       api_put_text
#define API_PUT_WORD       api_put_text
#define API_PUT_IDS        api_put_json
#define API_PUT_TEXTS      api_put_json
#define API_PUT_OBJECT     api_put_json
#define API_PUT_LIST       api_put_json

#endif
