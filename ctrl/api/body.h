/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bodies, read as strictly as the configuration: a table says which keys there are; everything
 * else is answered with the key's path.
 *
 *   static const struct api_field fields[] = {
 *           {.key = "name", .kind = API_NAME, .required = true, .min = 1, .max = 31},
 *           {.key = "window", .kind = API_POWER, .min = 1, .max = PPE_WINDOW_MAX},
 *           {.key = "create", .kind = API_OBJECT, .fields = job_fields},
 *           {NULL},
 *   };
 *
 *   if (!api_body_check(call, fields))
 *           return;
 *   window = api_integer(call->body, "window", 64);
 */
#ifndef CTRL_API_BODY_H
#define CTRL_API_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct api_call;

enum api_kind {
	API_INTEGER, /* in [min, max] */
	API_POWER, /* an integer in [min, max] that is a power of two */
	API_REAL, /* a number, with a fraction or not, in [min, max] */
	API_BOOLEAN,
	API_WORD, /* one of `words` */
	API_NAME, /* letters, digits and . _ -, not . or - first; [min, max] bytes */
	API_TEXT, /* [min, max] bytes */
	API_ADDRESS, /* IPv4 of a host */
	API_RESULTS, /* "unicast", or an IPv4 multicast group that is not link-local */
	API_OBJECT, /* with `fields` */
};

struct api_field {
	const char *key; /* NULL: the table's end */
	enum api_kind kind;
	bool required;
	int64_t min, max;
	const char *words; /* "one|two" */
	const struct api_field *fields;
};

/*
 * Is there a body, and does it follow the table? False: it does not, and the call is answered (400:
 * bad_json, unknown_key, missing_key, wrong_type, out_of_range). The first thing wrong in the order
 * of the body is reported.
 */
bool api_body_check(struct api_call *call, const struct api_field *fields);

/* Values of an object that passed, or the fallback where the key is not there. */
int64_t api_integer(const json_t *object, const char *key, int64_t fallback);
double api_real(const json_t *object, const char *key, double fallback);
bool api_boolean(const json_t *object, const char *key, bool fallback);
const char *api_text(const json_t *object, const char *key, const char *fallback);

/* Parse a body of `length` bytes into call->body's place. NULL: it is no JSON object, answered. */
json_t *api_body_parse(struct api_call *call, const char *text, size_t length);

#endif
