/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /v1/trace?ms=50: what the workers do in the next milliseconds. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "ctrl/api/call.h"
#include "ctrl/stats/trace_json.h"
#include "ppe/trace/trace.h"

#define LOOK_MS 5 /* between two looks: a full ring ends a trace early */

static_assert(PPE_TRACE_MS_MAX == 10000, "the key ms of the query, in ctrl/api/operations.c");

struct request {
	struct ppe *ppe;
	bool taken;
};

/* Also called if the client is gone. */
static void
end(void *context)
{
	struct request *request = context;

	if (!request->taken)
		ppe_trace_abandon(request->ppe);
	free(request);
}

static void
start(struct api_call *call)
{
	struct request *request;
	int rc;

	request = calloc(1, sizeof(*request));
	rc = request == NULL
		? -ENOMEM
		: ppe_trace_start(call->running->ppe, (unsigned int)api_query_number(call, "ms"),
			  PPE_TRACE_EVENTS);
	if (rc < 0) {
		free(request);
		if (rc == -EBUSY)
			api_error(call, 503, "busy", NULL,
				"another trace is being made: ask again when it is over");
		else
			api_error_memory(call);
		return;
	}
	request->ppe = call->running->ppe;
	call->context = request;
	call->context_free = end;
	api_wait(call, LOOK_MS);
}

static ssize_t
read_json(void *json, uint64_t at, char *out, size_t room)
{
	ssize_t got = ctrl_trace_json_read(json, out, room);

	(void)at;
	return got > 0 ? got : -1;
}

static void
answer(struct api_call *call, struct request *request)
{
	struct ppe_trace *trace = ppe_trace_take(request->ppe);
	struct ctrl_trace_json *json;

	request->taken = true;
	json = ctrl_trace_json_create(trace, call->config->name);
	if (json == NULL) {
		api_error_memory(call);
		return;
	}
	api_answer_stream(call, "application/json", read_json, json, ctrl_trace_json_destroy);
	api_header(call, "Content-Disposition", "attachment; filename=\"weir-trace.json\"");
}

void
api_get_trace(struct api_call *call)
{
	struct request *request = call->context;
	int rc;

	if (request == NULL) {
		start(call);
		return;
	}
	rc = ppe_trace_done(request->ppe);
	if (rc == 1)
		answer(call, request);
	else if (rc == 0)
		api_wait(call, LOOK_MS);
	else
		api_error(call, 503, "busy", NULL, "a worker is stuck: see /v1/health");
}
