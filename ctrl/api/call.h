/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request to the control API, as its handler sees it. The operations: ctrl/api/operations.h;
 * answers: ctrl/api/answer.h.
 *
 * The handler of an operation that reads runs on a thread of libmicrohttpd, and answers from a
 * snapshot of the switch, call->seen; call->running is NULL. The handler of an operation that
 * changes something (API_CONTROL) runs on the control thread, between two turns of its event loop,
 * with call->running, and must not wait for anything; when it returns, it has answered, or asked to
 * be called again (api_wait). Both have call->config.
 */
#ifndef CTRL_API_CALL_H
#define CTRL_API_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "ctrl/api/answer.h"
#include "ctrl/api/auth.h"
#include "ctrl/api/operations.h"
#include "ctrl/api/text.h"
#include "ctrl/config/schema.h"
#include "ctrl/jobs/running.h"
#include "ctrl/stats/snapshot.h"

#define API_TARGET_BYTES   1024 /* terminator included */
#define API_SEGMENTS_MAX   8
#define API_PARAMETERS_MAX 4
#define API_QUERY_MAX      8

/* The target of a request, "/v1/blocks?job=ring&limit=10", split and decoded. Percent-encoding is
 * decoded after the split, so an encoded "/" does not separate segments. */
struct api_target {
	unsigned int nb_segments; /* "/": 0 */
	const char *segment[API_SEGMENTS_MAX]; /* decoded; in `text` */
	unsigned int nb_query;
	struct {
		const char *key, *value; /* decoded; "" where there is no "=" */
	} query[API_QUERY_MAX];
	const char *repeated_key; /* a key that the query has more than once, decoded; or NULL */
	char text[API_TARGET_BYTES];
};

struct api_call {
	/* the request; read-only for handlers */
	const struct ctrl_snapshot *seen; /* of an operation that reads */
	struct ctrl_running *running; /* of API_CONTROL */
	const struct ctrl_config *config;
	const struct api_caller *caller;
	const char *parameter[API_PARAMETERS_MAX]; /* values of the path's {names}, in order */
	const struct api_target *target;
	const struct api_operation *operation;
	json_t *query; /* the query's keys and values, checked */
	json_t *body; /* an object, checked but for that of set_faults; NULL: there is none */
	bool is_dry_run; /* of a change: check it, and change nothing; the answer gets "dry_run" */

	struct api_answer answer;

	/* kept between calls of the handler for this request */
	struct api_text text; /* of a long answer */
	void *context; /* the handler's; NULL at first */
	void (*context_free)(void *context); /* called once, on the control thread, at the end */
	unsigned int wait_ms; /* set by api_wait; 0: do not wait */
};

typedef void (*api_handler)(struct api_call *call);

/* The handlers, in the order of api_operations. */
extern const api_handler api_handlers[];

#define X(name, ...) void api_##name(struct api_call *call);
API_OPERATIONS(X)
#undef X

/* Split and decode a raw target. False if no resource can have it: it is too long, is no path, has
 * an empty segment, a wrong or zero escape, or too many parts. */
bool api_target_parse(struct api_target *target, const char *raw);

/* Does the target match a route's path? If so, parameter[] is set to the values of the path's
 * {names}, in order; they point into `target`. */
bool api_target_fits(const struct api_target *target, const char *path,
	const char *parameter[API_PARAMETERS_MAX]);

/* Fill call->parameter and return the operation, or answer 404, or 405 with Allow, and return NULL.
 * method: as in the request; HEAD is served as GET. call->target is set. */
const struct api_operation *api_route_find(struct api_call *call, const char *method);

/* Check the query of call->target, and set call->query and is_dry_run. False: the call is
 * answered. */
bool api_query_check(struct api_call *call, const struct ctrl_schema *schema);

/* A number of the query that has been checked; the default of its key if it is absent, or 0. */
uint64_t api_query_number(const struct api_call *call, const char *key);

/* A text of the query, or NULL. */
const char *api_query_text(const struct api_call *call, const char *key);

/* Parse a body of `length` bytes. NULL: it is not a JSON object, and the call is answered. */
json_t *api_body_parse(struct api_call *call, const char *text, size_t length);

/* Is there a body, and does it follow the table (of 0 keys: any)? False: the call is answered with
 * the first error in the order of the body (400: bad_json, unknown_key, missing_key, wrong_type,
 * out_of_range). */
bool api_body_check(struct api_call *call, const struct ctrl_schema *schema);

/* Answer 400 with an error of a body. */
void api_answer_error(struct api_call *call, const struct ctrl_error *error);

/* The job of a name, in the snapshot or the running switch; NULL: there is none. */
const struct ctrl_job *api_job_named(const struct api_call *call, const char *name);

/* Of API_CONTROL: don't answer yet; call this handler again after `ms` [1, 60000], with the same
 * call. */
void api_wait(struct api_call *call, unsigned int ms);

#endif
