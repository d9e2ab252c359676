/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request to the control API, as its handler sees it, and the route table.
 *
 * To add a resource: write its handler (for an example see api_get_ports in ctrl/api/status.c), add
 * a line to API_ROUTES, and the operation to docs/openapi.yaml. Answers: ctrl/api/answer.h.
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

enum api_method { API_GET, API_POST, API_PATCH, API_PUT, API_DELETE, API_METHOD_COUNT };

struct api_call {
	/* the request; read-only for handlers */
	const struct ctrl_snapshot *seen; /* of an operation that reads */
	struct ctrl_running *running; /* of API_CONTROL */
	const struct ctrl_config *config;
	const struct api_caller *caller;
	const char *parameter[API_PARAMETERS_MAX]; /* values of the path's {names}, in order */
	const struct api_target *target; /* for api_query */
	json_t *body; /* an object; NULL: none was sent */
	bool is_dry_run; /* of a change: check it, and change nothing; the answer gets "dry_run" */

	struct api_answer answer;

	/* kept between calls of the handler for this request */
	struct api_text text; /* of a long answer */
	void *context; /* the handler's; NULL at first */
	void (*context_free)(void *context); /* called once, on the control thread, at the end */
	unsigned int wait_ms; /* set by api_wait; 0: do not wait */
};

#define API_CONTROL 0x80000000u /* the handler runs on the control thread */
#define API_LAST    0x40000000u /* the last snapshot will do, however old it is */

typedef void (*api_handler)(struct api_call *call);

/* What is served under a method and a path. */
struct api_route {
	enum api_method method;
	const char *path; /* "/v1/jobs/{name}": {name} stands for one segment, never empty */
	enum api_access access;
	unsigned int needs; /* parts of a snapshot (ctrl_snapshot_part), or API_CONTROL */
	const char *query; /* keys that the query may have: "job|limit"; NULL: none */
	api_handler handler;
};

/* clang-format off */
/* Method, path, access, needs, query, handler. "/{file}" comes after all others of one segment. */
#define API_ROUTES(X) \
	X(API_GET, "/v1/health", API_PUBLIC, API_LAST, NULL, api_get_health) \
	X(API_GET, "/v1/ready", API_PUBLIC, 0, NULL, api_get_ready) \
	X(API_GET, "/v1/status", API_PUBLIC, 0, NULL, api_get_status) \
	X(API_GET, "/v1/ports", API_READ, 0, NULL, api_get_ports) \
	X(API_GET, "/v1/ports/{name}", API_READ, 0, NULL, api_get_port) \
	X(API_GET, "/v1/counters", API_READ, 0, NULL, api_get_counters) \
	X(API_GET, "/v1/config", API_READ_ALL, 0, NULL, api_get_config) \
	X(API_GET, "/v1/jobs", API_READ, 0, "limit|after", api_get_jobs) \
	X(API_GET, "/v1/jobs/{name}", API_READ_JOB, CTRL_SNAPSHOT_DETAIL, NULL, api_get_job) \
	X(API_GET, "/v1/blocks", API_READ_JOB, CTRL_SNAPSHOT_DETAIL, \
		"job|stuck|limit|after", api_get_blocks) \
	X(API_GET, "/v1/history", API_READ, CTRL_SNAPSHOT_DETAIL | CTRL_SNAPSHOT_HISTORY, NULL, \
		api_get_history) \
	X(API_GET, "/v1/trace", API_ADMIN, API_CONTROL, "ms", api_get_trace) \
	X(API_POST, "/v1/jobs", API_OPEN, API_CONTROL, "dry_run", api_post_jobs) \
	X(API_DELETE, "/v1/jobs", API_OPEN, API_CONTROL, "prefix|dry_run", api_delete_jobs) \
	X(API_PATCH, "/v1/jobs/{name}", API_CHANGE, API_CONTROL, "dry_run", api_patch_job) \
	X(API_DELETE, "/v1/jobs/{name}", API_OPEN, API_CONTROL, "dry_run", api_delete_job) \
	X(API_POST, "/v1/jobs/{name}/tokens", API_CHANGE, API_CONTROL, "dry_run", api_post_tokens) \
	X(API_POST, "/v1/jobs/{name}/members", API_JOIN, API_CONTROL, "dry_run", api_post_member) \
	X(API_DELETE, "/v1/jobs/{name}/members/{rank}", API_JOIN, API_CONTROL, \
		"membership|dry_run", api_delete_member) \
	X(API_GET, "/v1/tenants", API_READ_ALL, 0, NULL, api_get_tenants) \
	X(API_POST, "/v1/reload", API_ADMIN, API_CONTROL, "dry_run", api_post_reload) \
	X(API_GET, "/v1/faults", API_ADMIN, 0, NULL, api_get_faults) \
	X(API_PUT, "/v1/faults", API_ADMIN, API_CONTROL, "dry_run", api_put_faults) \
	X(API_DELETE, "/v1/faults", API_ADMIN, API_CONTROL, "dry_run", api_delete_faults) \
	X(API_GET, "/metrics", API_PUBLIC, CTRL_SNAPSHOT_DETAIL, NULL, api_get_metrics) \
	X(API_GET, "/", API_PUBLIC, 0, NULL, api_get_page) \
	X(API_GET, "/{file}", API_PUBLIC, 0, NULL, api_get_page)
/* clang-format on */

/* The handlers. docs/openapi.yaml says what each answers. */
#define X(method, path, access, needs, query, handler) void handler(struct api_call *call);
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

/* Check that every key of the query is one of the route's, and occurs once, and read the dry_run of
 * a change. False: the call is answered. */
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

/* The job of a name, in the snapshot or the running switch; NULL: there is none. */
const struct ctrl_job *api_job_named(const struct api_call *call, const char *name);

/* Of API_CONTROL: don't answer yet; call this handler again after `ms` [1, 60000], with the same
 * call. */
void api_wait(struct api_call *call, unsigned int ms);

#endif
