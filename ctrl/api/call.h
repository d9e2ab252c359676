/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One request to the control API, as the function that serves it sees it, and the route table.
 *
 * To add a resource: write its functions into a file of its own (ctrl/api/ports.c is the one to
 * copy), declare them in ctrl/api/resources.h, add a line to the table in ctrl/api/routes.c and
 * the operation to docs/openapi.yaml. Values of the query come by ctrl/api/target.h, the body by
 * ctrl/api/body.h, the answer goes by ctrl/api/answer.h.
 *
 * A handler runs on the control thread, between two turns of its event loop, and must not wait for
 * anything. When it returns, it has answered, or asked to be called again (api_wait).
 */
#ifndef CTRL_API_CALL_H
#define CTRL_API_CALL_H

#include <jansson.h>

#include "ctrl/api/answer.h"
#include "ctrl/api/auth.h"
#include "ctrl/api/target.h"
#include "ctrl/jobs/running.h"

enum api_method { API_GET, API_POST, API_PATCH, API_PUT, API_DELETE, API_METHOD_COUNT };

struct api_call {
	/* the request; read-only for handlers */
	struct ctrl_running *running;
	const struct api_caller *caller;
	const char *parameter[API_PARAMETERS_MAX]; /* values of the path's {names}, in order */
	const struct api_target *target; /* for api_query_... */
	json_t *body; /* an object; NULL: none was sent */

	struct api_answer answer;

	/* across calls of one request that waits */
	void *context; /* the handler's; NULL at first */
	void (*context_free)(void *context); /* called once at the end, whatever happens */
	unsigned int wait_ms; /* api_wait; 0: not */
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

/* The table, api_routes_count lines. ctrl/api/routes.c */
extern const struct api_route api_routes[];
extern const size_t api_routes_count;

/* Don't answer yet: call this handler again after `ms` [1, 60000], with the same call. */
void api_wait(struct api_call *call, unsigned int ms);

#endif
