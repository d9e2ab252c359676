/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of requests, checked like the configuration (ctrl/config/schema.h) and answered if wrong. */
#ifndef CTRL_API_BODY_H
#define CTRL_API_BODY_H

#include <stdbool.h>

#include <jansson.h>

#include "ctrl/config/schema.h"

struct api_call;

/* Parse a body of `length` bytes. NULL: it is no JSON object, and the call is answered. */
json_t *api_body_parse(struct api_call *call, const char *text, size_t length);

/*
 * Is there a body, and does it follow the table? False: the call is answered with the first error in the
 * order of the body (400: bad_json, unknown_key, missing_key, wrong_type, out_of_range).
 */
bool api_body_check(struct api_call *call, const struct ctrl_schema *schema);

/* Answer 400 with an error of a body. */
void api_answer_error(struct api_call *call, const struct ctrl_error *error);

#endif
