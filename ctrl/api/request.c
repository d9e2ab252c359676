/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a request: target, route, caller, body, queue, handler, perhaps a wait, answer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_common.h>

#include "ctrl/api/auth.h"
#include "ctrl/api/call.h"
#include "ctrl/api/server_priv.h"

struct api_connection *
api_connection_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info == NULL ? NULL : info->socket_context;
}

/* Parses the target here, because libmicrohttpd passes the raw target to no other callback. */
void *
api_request_begin(void *cls, const char *uri, struct MHD_Connection *connection)
{
	const struct api_listener *listener = cls;
	struct api_request *request = calloc(1, sizeof(*request));
	struct api_connection *peer = api_connection_of(connection);

	if (request == NULL)
		return NULL;
	/* The deadline of the first request's head was set when the connection began. */
	if (peer != NULL && peer->has_answered)
		peer->deadline = ctrl_monotonic() + API_HEAD_S;
	request->connection = connection;
	request->call.running = listener->server->running;
	request->call.caller = &request->caller;
	request->call.target = &request->target;
	request->is_target_valid = api_target_parse(&request->target, uri);
	return request;
}

void
api_request_end(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode why)
{
	struct api_listener *listener = cls;
	struct api_request *request = *context;

	(void)connection;
	(void)why;
	if (request == NULL)
		return;
	*context = NULL;
	if (request->is_waiting)
		TAILQ_REMOVE(&listener->server->waiting, request, next);
	api_turns_end(&listener->server->turns, &request->turn);
	if (request->peer != NULL) {
		request->peer->suspended = NULL;
		request->peer->is_serving = false;
		request->peer->has_answered = true;
		request->peer->deadline = ctrl_monotonic() + API_IDLE_S + API_HEAD_S;
	}
	if (request->call.context_free != NULL)
		request->call.context_free(request->call.context);
	api_answer_clear(&request->call.answer);
	free(request->call.text.at);
	json_decref(request->call.body);
	free(request->text);
	free(request);
}

static const char *
header(const struct api_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static void
refuse_caller(struct api_call *call, enum api_verdict verdict)
{
	if (verdict == API_FORBIDDEN) {
		api_error(call, 403, "forbidden", NULL,
			"this caller has no right to this request: use the Unix socket as root, or "
			"the token of a tenant with the right");
		return;
	}
	api_error(call, 401, "unauthorized", NULL,
		"a token is needed, as \"Authorization: Bearer TOKEN\": the administrator has one "
		"for each of api.tenants");
	api_header(call, "WWW-Authenticate", "Bearer realm=\"weir\"");
}

/* Pages of other sites must neither read nor change anything here, even by DNS rebinding. Browsers
 * always send Host, so clients without it are no browsers. False: the error is answered. */
static bool
check_site(struct api_request *request)
{
	const struct ctrl_api *api = &request->call.running->config->api;
	const char *host = header(request, "Host"), *origin = header(request, "Origin");

	if (request->caller.is_local)
		return true;
	if (host != NULL && !api_host_is_own(api, host)) {
		api_error(&request->call, 421, "misdirected", NULL,
			"the switch is not called \"%.64s\": use its IP address, or add the name "
			"to "
			"api.names of its configuration",
			host);
		return false;
	}
	if (origin == NULL || (host != NULL && api_origin_is_host(origin, host)))
		return true;
	api_error(&request->call, 403, "forbidden", NULL,
		"the request comes from a page of another site, \"%.64s\"", origin);
	return false;
}

/* Identify the caller and check its rights. False: the error is answered. */
static bool
authorize(struct api_request *request, const struct api_route *route)
{
	struct api_call *call = &request->call;
	const struct ctrl_api *api = &call->running->config->api;
	const char *authorization = header(request, "Authorization");
	enum api_verdict verdict;

	request->reloads = call->running->reloads;
	if (!api_authenticate(api, authorization, &request->caller) &&
		!api_authenticate_rank(call->running, authorization, &request->caller)) {
		api_error(call, 401, "unauthorized", NULL,
			"no tenant of api.tenants has this token, and no rank of a job: is it the "
			"right one, without a line end? A rank's token ends with its job");
		api_header(call, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
		return false;
	}
	if (request->caller.tenant != NULL)
		request->peer->tenant = request->caller.tenant;
	verdict = api_may(api, &request->caller, route->access);
	if (verdict != API_ALLOWED)
		refuse_caller(call, verdict);
	return verdict == API_ALLOWED;
}

static void
refuse_often(struct api_call *call, unsigned int per_s, double wait)
{
	ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_CTRL, RTE_LOG_NOTICE,
		"a client joins and leaves too often", "%s", call->caller->name);
	api_error(call, 429, "too_often", NULL,
		"an address may change something %u times a second: ask again in %.2f s", per_s,
		wait);
	api_header(call, "Retry-After", "%u", (unsigned int)wait + 1);
}

/* Limit the changes of each tenant, and of each address without one, so that none can occupy the
 * control thread. False: the error is answered. */
static bool
check_rate(struct api_request *request, const struct api_route *route)
{
	struct api_limits *limits = &request->peer->listener->server->limits;
	const struct ctrl_tenant *tenant = request->caller.payer;
	double wait;

	if (route->method == API_GET || (tenant == NULL && request->caller.admin))
		return true;
	wait = tenant != NULL
		? api_limits_take(limits, tenant, ctrl_monotonic())
		: api_limits_take_address(limits, request->peer->network, ctrl_monotonic());
	if (wait <= 0)
		return true;
	if (tenant == NULL) {
		refuse_often(&request->call, limits->address_per_s, wait);
		return false;
	}
	ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_CTRL, RTE_LOG_NOTICE, "a tenant changes too often",
		"tenant=%s changes_per_s=%u", ctrl_log_quote(tenant->name).text,
		tenant->quota.changes_per_s);
	api_error(&request->call, 429, "too_often", NULL,
		"tenant %s may change something %u times a second: ask again in %.2f s, or have "
		"quota.changes_per_s raised in the switch's configuration",
		tenant->name, tenant->quota.changes_per_s, wait);
	api_header(&request->call, "Retry-After", "%u", (unsigned int)wait + 1);
	return false;
}

/* All checks before the body. Sets request->route, or the error is answered. */
static void
admit(struct api_request *request, const char *method)
{
	struct api_call *call = &request->call;
	const struct api_route *route;

	if (!check_site(request))
		return;
	if (!request->is_target_valid) {
		api_error(call, 404, "unknown_path", NULL,
			"nothing can be here: docs/openapi.yaml lists the paths");
		return;
	}
	route = api_route_find(call, method);
	if (route == NULL)
		return;
	if (authorize(request, route) && api_route_query(call, route) && check_rate(request, route))
		request->route = route;
}

/* Check the rights again after a reload, which frees tenants and may change rights. */
static void
readmit(struct api_request *request)
{
	if (request->reloads == request->call.running->reloads)
		return;
	request->caller = request->peer->caller;
	if (!authorize(request, request->route))
		request->route = NULL;
}

static void
refuse_size(struct api_call *call)
{
	api_error(call, 413, "too_large", NULL, "a body has at most %d bytes", API_BODY_BYTES);
}

/* A refused client gets API_REFUSED_S to send its body, because it may read the refusal only
 * afterwards. A client that expects "100 Continue" is refused at once. */
static bool
asks_first(const struct api_request *request)
{
	const char *expect = header(request, "Expect");

	return expect != NULL && strcasecmp(expect, "100-continue") == 0;
}

/*
 * A body whose Content-Length is far too large is refused at once. A body that is a little too
 * large is read first: a client that is still sending when the connection closes may never read the
 * refusal.
 */
static bool
far_too_large(const struct api_request *request)
{
	const char *length = header(request, "Content-Length");

	return length != NULL && strtoull(length, NULL, 10) > API_DISCARD_BYTES;
}

/* False: the body exceeds API_DISCARD_BYTES, close the connection. */
static bool
take_body(struct api_request *request, const char *data, size_t size)
{
	if (request->text == NULL && request->length == 0)
		request->text = malloc(API_BODY_BYTES);
	if (request->text != NULL && request->length + size <= API_BODY_BYTES) {
		memcpy(request->text + request->length, data, size);
	} else {
		free(request->text);
		request->text = NULL;
	}
	request->length += size;
	return request->length <= API_DISCARD_BYTES;
}

/* A browser lets any page send plain text here, but "application/json" only after a preflight
 * request, which this server refuses. So pages of other sites can't change anything. */
static bool
check_type(struct api_request *request)
{
	const char *type = header(request, "Content-Type");
	static const char json[] = "application/json";

	if (request->caller.is_local)
		return true;
	if (type != NULL && strncasecmp(type, json, strlen(json)) == 0 &&
		(type[strlen(json)] == '\0' || strchr("; ", type[strlen(json)]) != NULL))
		return true;
	api_error(&request->call, 415, "wrong_type", NULL,
		"a body needs the header Content-Type: application/json");
	return false;
}

static bool
read_body(struct api_request *request)
{
	struct api_call *call = &request->call;

	if (request->length == 0 || call->body != NULL)
		return true;
	if (request->length > API_BODY_BYTES) {
		refuse_size(call);
		return false;
	}
	if (request->text == NULL) {
		api_error_memory(call);
		return false;
	}
	if (request->route->method == API_GET || request->route->method == API_DELETE) {
		api_error(call, 400, "unknown_key", NULL, "this request takes no body");
		return false;
	}
	if (!check_type(request))
		return false;
	call->body = api_body_parse(call, request->text, request->length);
	return call->body != NULL;
}

static enum MHD_Result
respond(struct api_request *request)
{
	struct MHD_Response *response = api_answer_response(&request->call);
	enum MHD_Result queued;

	if (response == NULL)
		return MHD_NO; /* the connection is closed */
	if (request->peer->has_former_certificate)
		MHD_add_response_header(response, "Connection", "close");
	queued = MHD_queue_response(request->connection, request->call.answer.status, response);
	MHD_destroy_response(response);
	return queued;
}

/* -- the queue */

static struct api_server *
server_of(const struct api_request *request)
{
	return request->peer->listener->server;
}

static void
refuse_busy(struct api_request *request)
{
	api_error(&request->call, 503, "busy", NULL, "the switch stops, or has too many clients");
}

/* The request is complete: queue it, and respond when it has been served. */
static enum MHD_Result
finish(struct api_request *request)
{
	const struct api_caller *caller = &request->caller;
	struct api_owner owner;

	if (request->route == NULL || request->is_answered)
		return respond(request);
	if (server_of(request)->is_stopping) {
		refuse_busy(request);
		return respond(request);
	}
	memset(&owner, 0, sizeof(owner));
	if (caller->payer != NULL) {
		memcpy(owner.tenant, caller->payer->name, sizeof(owner.tenant));
	} else if (caller->instance != 0) {
		owner.job = caller->instance;
	} else {
		owner.is_local = caller->is_local;
		owner.network = request->peer->network;
		owner.uid = caller->uid;
	}
	if (api_turns_begin(&server_of(request)->turns, &request->turn,
		    caller->admin ? NULL : &owner, ctrl_monotonic()) < 0) {
		api_error_memory(&request->call);
		return respond(request);
	}
	request->peer->suspended = request;
	request->peer->deadline = INFINITY;
	MHD_suspend_connection(request->connection);
	return MHD_YES;
}

/* libmicrohttpd asks for the answer in its next run. */
static void
resume(struct api_request *request)
{
	request->is_answered = true;
	request->peer->suspended = NULL;
	request->peer->deadline = ctrl_monotonic() + API_REQUEST_S;
	MHD_resume_connection(request->connection);
}

static void
stop_waiting(struct api_request *request)
{
	if (request->is_waiting)
		TAILQ_REMOVE(&server_of(request)->waiting, request, next);
	request->is_waiting = false;
}

void
api_request_abandon(struct api_request *request)
{
	stop_waiting(request);
	api_turns_end(&server_of(request)->turns, &request->turn);
	refuse_busy(request);
	resume(request);
}

static void
put_back(struct api_request *request)
{
	struct api_server *server = server_of(request);
	struct api_call *call = &request->call;

	if (call->is_unfinished) {
		api_turns_again(&server->turns, &request->turn, ctrl_monotonic());
		return;
	}
	request->wait_ends = ctrl_monotonic() + call->wait_ms / 1e3;
	request->is_waiting = true;
	TAILQ_INSERT_TAIL(&server->waiting, request, next);
}

/* Call the handler. Returns whether it has answered the request. */
static bool
serve(struct api_request *request)
{
	struct api_call *call = &request->call;

	call->wait_ms = 0;
	call->is_unfinished = false;
	call->turn_end = ctrl_monotonic() + API_TURN_S;
	readmit(request);
	if (request->route != NULL && read_body(request)) {
		request->route->handler(call);
		if (call->is_unfinished || call->wait_ms > 0) {
			put_back(request);
			return false;
		}
		if (call->answer.status == 0)
			api_error(call, 500, "busy", NULL, "the switch had no answer");
	}
	resume(request);
	return true;
}

/* CPU time of this thread, s. */
static double
used_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
take_due(struct api_server *server, double now)
{
	struct api_request *request, *next;

	for (request = TAILQ_FIRST(&server->waiting); request != NULL; request = next) {
		next = TAILQ_NEXT(request, next);
		if (request->wait_ends > now)
			continue;
		stop_waiting(request);
		api_turns_again(&server->turns, &request->turn, now);
	}
}

bool
api_requests_serve(struct api_server *server)
{
	double now = ctrl_monotonic(), end = now + API_SLICE_S;
	double before = used_s();
	struct api_turn *turn;
	bool answered = false;

	take_due(server, now);
	while (now < end && (turn = api_turns_next(&server->turns, now)) != NULL) {
		double after;

		answered |= serve(container_of(turn, struct api_request, turn));
		now = ctrl_monotonic();
		after = used_s();
		api_turns_charge(turn, after - before, now);
		before = after;
	}
	return answered;
}

void
api_requests_refuse_late(struct api_server *server)
{
	double now = ctrl_monotonic(), wait;
	struct api_turn *turn;

	while ((turn = api_turns_late(&server->turns, API_PATIENCE_S, now)) != NULL) {
		struct api_request *request = container_of(turn, struct api_request, turn);

		wait = api_turns_debt(turn, now);
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_CTRL, RTE_LOG_NOTICE,
			"a caller asks for more than its share", "%s", request->caller.name);
		if (wait > 0)
			api_error(&request->call, 429, "too_often", NULL,
				"the requests of this caller have taken their %.0f %% of the "
				"switch's time: ask again in %.1f s, or ask for less",
				100 * API_SHARE_OF_TIME, wait);
		else
			api_error(&request->call, 429, "too_often", NULL,
				"this caller has not read the answers to %d other requests",
				API_OPEN);
		api_header(&request->call, "Retry-After", "%u", (unsigned int)wait + 1);
		resume(request);
	}
}

enum MHD_Result
api_request_serve(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
	const char *version, const char *data, size_t *size, void **context)
{
	struct api_request *request = *context;

	(void)cls;
	(void)url;
	(void)version;
	if (request == NULL)
		return MHD_NO;
	if (request->peer == NULL) {
		request->peer = api_connection_of(connection);
		if (request->peer == NULL)
			return MHD_NO;
		request->peer->is_serving = true;
		request->peer->deadline = ctrl_monotonic() + API_REQUEST_S;
		request->caller = request->peer->caller;
		admit(request, method);
		request->peer->has_rank_token |= request->caller.instance != 0;
		request->peer->is_anonymous |= request->caller.tenant == NULL &&
			request->caller.instance == 0 && !request->caller.admin;
		if (request->route == NULL)
			request->peer->deadline = ctrl_monotonic() + API_REFUSED_S;
		if (request->route == NULL && asks_first(request))
			return respond(request);
		if (!far_too_large(request))
			return MHD_YES;
		refuse_size(&request->call);
		return respond(request);
	}
	if (*size > 0) {
		bool more = take_body(request, data, *size);

		*size = 0;
		return more ? MHD_YES : MHD_NO;
	}
	return finish(request);
}
