/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers. A handler gives one per call; a second one replaces the first, so that an error found
 * late still wins.
 */
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

/*
 * Writes up to `room` bytes of a long answer from wherever it is. Returns how many, 0: the end, or
 * -1: the answer can't be finished (the connection is closed).
 */
typedef ssize_t (*api_read)(void *stream, char *out, size_t room);

struct api_answer {
	unsigned int status; /* HTTP's; 0: none yet */
	const char *type; /* media type */
	json_t *json; /* the body, or */
	char *bytes; /* these, allocated, or */
	const void *constant; /* these, for ever there */
	size_t length; /* of bytes or constant */
	api_read read; /* or what this reads */
	void (*stream_free)(void *stream);
	void *stream;
	unsigned int nb_headers;
	struct {
		const char *name; /* for ever there */
		char value[128];
	} header[API_HEADERS_MAX];
};

/* A JSON body, which is the answer's from now on. NULL is answered as an error. */
void api_answer(struct api_call *call, unsigned int status, json_t *body);

/* 200 with bytes that stay for ever (a page), or that were allocated and are freed later. */
void api_answer_constant(struct api_call *call, const char *type, const void *bytes, size_t length);
void api_answer_bytes(struct api_call *call, const char *type, char *bytes, size_t length);

/* 200 with what `read` writes, piece by piece; stream_free (may be NULL) ends it in any case. */
void api_answer_stream(struct api_call *call, const char *type, api_read read, void *stream,
	void (*stream_free)(void *stream));

/* A header of the answer; name: a constant. Replaces one of that name. */
void api_header(struct api_call *call, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * {"error": {"status", "code", "key", "message"}}. code: one of docs/openapi.yaml's. key: path of
 * what is wrong, or NULL. The message says what is wrong and what to do, and may hold anything.
 */
void api_error(struct api_call *call, unsigned int status, const char *code, const char *key,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

/* One more key of the error just given ("free", "needed"); takes `value`. */
void api_error_more(struct api_call *call, const char *key, json_t *value);

/* No memory: for whoever finds a NULL. */
void api_error_memory(struct api_call *call);

/* Free what an answer holds; it is empty then. */
void api_answer_clear(struct api_answer *answer);

/*
 * A long answer as text, built once: for answers with thousands of numbers, for which
 * a tree of JSON values or a printf each costs ten times as much. The buffer doubles when it is full; a
 * caller that knows the length asks for it at first, and nothing is copied.
 *
 * A text that had no memory takes no more, and api_text_answer answers the error: no check is needed
 * in between.
 */
struct api_text {
	char *at; /* allocated; NULL: no memory */
	size_t used, room; /* bytes */
};

/* Begin with `room` bytes, [1, ...). End with api_text_answer. */
void api_text_begin(struct api_text *text, size_t room);

void api_text_put(struct api_text *text, const char *string);
void api_text_put_bytes(struct api_text *text, const char *bytes, size_t length);
void api_text_put_u64(struct api_text *text, uint64_t value);
/* Seconds, from microseconds: "0.000123", "12". Exact. */
void api_text_put_us(struct api_text *text, uint64_t us);
void api_text_put_ns(struct api_text *text, uint64_t ns);
/* Any finite number, to six digits. */
void api_text_put_real(struct api_text *text, double value);
/* A string of a JSON document, with its quotes. */
void api_text_put_json(struct api_text *text, const char *string);

/* 200 with the text, which is the answer's from now on; or the error. */
void api_text_answer(struct api_call *call, const char *type, struct api_text *text);

#endif
