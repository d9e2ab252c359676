/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long answer as text, built once, for answers with thousands of numbers: a tree of JSON values,
 * or a printf of each number, costs ten times as much. The buffer doubles when it is full.
 *
 * A text without memory ignores what is put into it, and api_answer_text answers the error: no
 * check is needed in between.
 */
#ifndef CTRL_API_TEXT_H
#define CTRL_API_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct api_text {
	char *at; /* allocated; NULL: no memory */
	size_t used, room; /* bytes */
	const char *family; /* of the samples */
};

/* Begin with `room` bytes, [1, ...). The call frees the text, or the answer. */
void api_text_begin(struct api_text *text, size_t room);

void api_text_put(struct api_text *text, const char *string);
void api_text_put_bytes(struct api_text *text, const char *bytes, size_t length);
/* value / 10^digits, exact; digits: [0, 9]. 1500, 3: "1.500"; 2000, 3: "2". */
void api_text_put_number(struct api_text *text, uint64_t value, unsigned int digits);
/* Any finite number, to six digits. */
void api_text_put_real(struct api_text *text, double value);
/* A string of a JSON document, with its quotes. */
void api_text_put_json(struct api_text *text, const char *string);

/*
 * Prometheus' exposition format 0.0.4: begin a family, then put its samples. type: NULL: counter if
 * the name ends in _total, otherwise gauge. help: without line ends and backslashes. suffix: "" or
 * "_bucket", ...; a, b: labels as api_text_label makes them, or NULL; value and digits: as in
 * api_text_put_number.
 */
void api_text_family(struct api_text *text, const char *name, const char *type, const char *help);
void api_text_sample(struct api_text *text, const char *suffix, const char *a, const char *b,
	uint64_t value, unsigned int digits);

/* Write name="value", escaped, cut to `size` bytes at a whole character. Returns `out`. */
char *api_text_label(char *out, size_t size, const char *name, const char *value);

#endif
