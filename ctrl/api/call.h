/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request to the control API, as its handler sees it, and the route table.
 *
 * To add a resource: write its handler (for an example see api_get_ports in ctrl/api/status.c), add
 * a line to API_ROUTES, and the operation to docs/openapi.yaml. Answers: ctrl/api/answer.h.
 *
 * A handler runs on the control thread, between two turns of its event loop, and must not wait for
 * anything. When it returns, it has answered, or asked to be called again (api_wait). A handler
 * that may take longer than about a millisecond works in steps (api_in_steps).
 */
#ifndef CTRL_API_CALL_H
#define CTRL_API_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "ctrl/api/answer.h"
#include "ctrl/api/auth.h"
#include "ctrl/api/text.h"
#include "ctrl/config/schema.h"
#include "ctrl/jobs/running.h"

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

enum api_method { API_GET, API_POST, API_PATCH, API_PUT, API_DELETE, API_METHOD_COUNT };

struct api_call {
	/* the request; read-only for handlers */
	struct ctrl_running *running;
	const struct api_caller *caller;
	const char *parameter[API_PARAMETERS_MAX]; /* values of the path's {names}, in order */
	const struct api_target *target; /* for api_query */
	json_t *body; /* an object; NULL: none was sent */

	struct api_answer answer;

	/* kept between calls of the handler for this request */
	struct api_text text; /* of a long answer */
	void *context; /* the handler's; NULL at first */
	void (*context_free)(void *context); /* called once at the end, whatever happens */
	unsigned int wait_ms; /* set by api_wait; 0: do not wait */
	bool is_unfinished; /* the handler is called again in its caller's next turn */
	double turn_end; /* CLOCK_MONOTONIC, s: the end of its turn */
};

typedef void (*api_handler)(struct api_call *call);

/* What is served under a method and a path. */
struct api_route {
	enum api_method method;
	const char *path; /* "/v1/jobs/{name}": {name} stands for one segment, never empty */
	enum api_access access;
	const char *query; /* keys that the query may have: "job|limit"; NULL: none */
	api_handler handler;
};

/* clang-format off */
/* Method, path, access, query, handler. "/{file}" comes after all others of one segment. */
#define API_ROUTES(X) \
	X(API_GET, "/v1/health", API_PUBLIC, NULL, api_get_health) \
	X(API_GET, "/v1/ready", API_PUBLIC, NULL, api_get_ready) \
	X(API_GET, "/v1/status", API_PUBLIC, NULL, api_get_status) \
	X(API_GET, "/v1/ports", API_READ, NULL, api_get_ports) \
	X(API_GET, "/v1/ports/{name}", API_READ, NULL, api_get_port) \
	X(API_GET, "/v1/counters", API_READ, NULL, api_get_counters) \
	X(API_GET, "/v1/config", API_READ_ALL, NULL, api_get_config) \
	X(API_GET, "/v1/jobs", API_READ, "limit|after", api_get_jobs) \
	X(API_GET, "/v1/jobs/{name}", API_READ_JOB, NULL, api_get_job) \
	X(API_GET, "/v1/blocks", API_READ_JOB, "job|stuck|limit|after", api_get_blocks) \
	X(API_GET, "/v1/history", API_READ, NULL, api_get_history) \
	X(API_GET, "/v1/trace", API_ADMIN, "ms", api_get_trace) \
	X(API_POST, "/v1/jobs", API_OPEN, NULL, api_post_jobs) \
	X(API_DELETE, "/v1/jobs", API_OPEN, "prefix", api_delete_jobs) \
	X(API_PATCH, "/v1/jobs/{name}", API_CHANGE, NULL, api_patch_job) \
	X(API_DELETE, "/v1/jobs/{name}", API_OPEN, NULL, api_delete_job) \
	X(API_POST, "/v1/jobs/{name}/tokens", API_CHANGE, NULL, api_post_tokens) \
	X(API_POST, "/v1/jobs/{name}/members", API_JOIN, NULL, api_post_member) \
	X(API_DELETE, "/v1/jobs/{name}/members/{rank}", API_JOIN, "membership", api_delete_member) \
	X(API_GET, "/v1/tenants", API_READ_ALL, NULL, api_get_tenants) \
	X(API_POST, "/v1/reload", API_ADMIN, NULL, api_post_reload) \
	X(API_GET, "/v1/faults", API_ADMIN, NULL, api_get_faults) \
	X(API_PUT, "/v1/faults", API_ADMIN, NULL, api_put_faults) \
	X(API_DELETE, "/v1/faults", API_ADMIN, NULL, api_delete_faults) \
	X(API_GET, "/metrics", API_PUBLIC, NULL, api_get_metrics) \
	X(API_GET, "/", API_PUBLIC, NULL, api_get_page) \
	X(API_GET, "/{file}", API_PUBLIC, NULL, api_get_page)
/* clang-format on */

/* The handlers. docs/openapi.yaml says what each answers. */
#define X(method, path, access, query, handler) void handler(struct api_call *call);
API_ROUTES(X)
#undef X

extern const struct api_route api_routes[];
extern const size_t api_routes_count;

/* Split and decode a raw target. False if no resource can have it: it is too long, is no path, has
 * an empty segment, a wrong or zero escape, or too many parts. */
bool api_target_parse(struct api_target *target, const char *raw);

/* Does the target match a route's path? If so, parameter[] is set to the values of the path's
 * {names}, in order; they point into `target`. */
bool api_target_fits(const struct api_target *target, const char *path,
	const char *parameter[API_PARAMETERS_MAX]);

/* A query's value, or NULL. */
const char *api_query(const struct api_target *target, const char *key);

/* Set *value to a whole number of the query, or to `fallback` if the key is absent. False: the
 * value is no number in [min, max], and the call is answered. */
bool api_query_number(struct api_call *call, const char *key, uint64_t min, uint64_t max,
	uint64_t fallback, uint64_t *value);

/*
 * Fill call->parameter and return the route, or answer 404, or 405 with Allow, and return NULL.
 * method: as in the request; HEAD is served as GET. call->target is set.
 */
const struct api_route *api_route_find(struct api_call *call, const char *method);

/* Check that every key of the query is one of the route's, and occurs once. False: the call is
 * answered. */
bool api_route_query(struct api_call *call, const struct api_route *route);

/* Parse a body of `length` bytes. NULL: it is not a JSON object, and the call is answered. */
json_t *api_body_parse(struct api_call *call, const char *text, size_t length);

/* Is there a body, and does it follow the table? False: the call is answered with the first error
 * in the order of the body (400: bad_json, unknown_key, missing_key, wrong_type, out_of_range). */
bool api_body_check(struct api_call *call, const struct ctrl_schema *schema);

/* Answer 400 with an error of a body. */
void api_answer_error(struct api_call *call, const struct ctrl_error *error);

/* "GET". */
const char *api_method_text(enum api_method method);

/*
 * Make a long answer in steps. At the first call, allocate a context of `size` zero bytes, begin
 * call->text, and call `begin`; false: it has answered an error. Then call `step` until it returns
 * false: it has answered. When the turn is over, other requests are served before the next step,
 * jobs may come and go, and the handler is called again.
 */
void api_in_steps(struct api_call *call, size_t size,
	bool (*begin)(struct api_call *call, void *context),
	bool (*step)(struct api_call *call, void *context));

/* Don't answer yet: call this handler again after `ms` [1, 60000], with the same call. */
void api_wait(struct api_call *call, unsigned int ms);

#endif
