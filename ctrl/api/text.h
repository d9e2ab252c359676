/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long answer as text, built once: for answers with thousands of numbers, for which
 * a tree of JSON values or a printf each costs ten times as much. The buffer doubles when it is full; a
 * caller that knows the length asks for it at first, and nothing is copied.
 *
 * A text that had no memory takes no more, and api_text_answer answers the error: no check is needed
 * in between.
 */
#ifndef CTRL_API_TEXT_H
#define CTRL_API_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct api_call;

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
