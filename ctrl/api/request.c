/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a request: target, route, caller, body; then the answer from a snapshot, or the way
 * to the control thread and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <bsd/string.h>

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

/* The connection is closed after so many seconds, unless something happens. */
static void
set_deadline(struct api_connection *c, double seconds)
{
	pthread_mutex_lock(&c->listener->server->lock);
	c->deadline = ctrl_monotonic() + seconds;
	pthread_mutex_unlock(&c->listener->server->lock);
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
		set_deadline(peer, API_HEAD_S);
	request->server = listener->server;
	request->connection = connection;
	request->call.caller = &request->caller;
	request->call.target = &request->target;
	request->is_target_valid = api_target_parse(&request->target, uri);
	return request;
}

void
api_request_end(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode why)
{
	struct api_request *request = *context;

	(void)cls;
	(void)connection;
	(void)why;
	if (request == NULL)
		return;
	*context = NULL;
	pthread_mutex_lock(&request->server->lock);
	request->server->answer_bytes -= request->answer_bytes;
	if (request->peer != NULL) {
		request->peer->is_serving = false;
		request->peer->has_answered = true;
		request->peer->deadline = ctrl_monotonic() + API_IDLE_S + API_HEAD_S;
	}
	pthread_mutex_unlock(&request->server->lock);
	api_answer_clear(&request->call.answer);
	free(request->call.text.at);
	json_decref(request->call.query);
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
	const struct ctrl_api *api = &request->call.config->api;
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

/* Identify the caller and check its rights, by the call's snapshot or the running switch. False:
 * the error is answered. */
static bool
authorize(struct api_request *request, const struct api_operation *operation)
{
	struct api_call *call = &request->call;
	const struct ctrl_api *api = &call->config->api;
	const char *authorization = header(request, "Authorization");
	enum api_verdict verdict;

	request->caller = request->peer->caller;
	if (!api_authenticate(api, authorization, &request->caller) &&
		!api_authenticate_rank(call, authorization, &request->caller)) {
		api_error(call, 401, "unauthorized", NULL,
			"no tenant of api.tenants has this token, and no rank of a job: is it the "
			"right one, without a line end? A rank's token ends with its job");
		api_header(call, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
		return false;
	}
	verdict = api_may(api, &request->caller, operation->access);
	if (verdict != API_ALLOWED)
		refuse_caller(call, verdict);
	return verdict == API_ALLOWED;
}

/* Note what the caller has proved, for the day when connections are too many. */
static void
note_caller(struct api_request *request)
{
	const struct api_caller *caller = &request->caller;
	struct api_connection *peer = request->peer;

	pthread_mutex_lock(&request->server->lock);
	if (caller->tenant != NULL) {
		peer->has_token = true;
		memcpy(peer->token_sha256, caller->tenant->token_sha256, CTRL_HASH_BYTES);
	}
	peer->has_rank_token |= caller->instance != 0;
	peer->is_anonymous |= caller->tenant == NULL && caller->instance == 0 && !caller->admin;
	pthread_mutex_unlock(&request->server->lock);
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

/* Take a change from the caller's limits. Returns 0, or seconds to wait. per_s: the limit of an
 * address. */
static double
charge(struct api_request *request, unsigned int *per_s)
{
	uint32_t reloads = request->call.seen->reloads + 1;
	const struct ctrl_tenant *tenant = request->caller.payer;
	struct api_server *server = request->server;
	double wait;

	pthread_mutex_lock(&server->lock);
	if ((int32_t)(reloads - server->limits_of) > 0) {
		api_limits_set(&server->limits, &request->call.config->api);
		server->limits_of = reloads;
	}
	*per_s = server->limits.address_per_s;
	wait = tenant != NULL ? api_limits_take(&server->limits, tenant, ctrl_monotonic())
			      : api_limits_take_address(
					&server->limits, request->peer->network, ctrl_monotonic());
	pthread_mutex_unlock(&server->lock);
	return wait;
}

/* Limit the changes of each tenant, and of each address without one, and what else the control
 * thread answers, so that none can occupy it. False: the error is answered. */
static bool
check_rate(struct api_request *request, const struct api_operation *operation)
{
	const struct ctrl_tenant *tenant = request->caller.payer;
	unsigned int per_s;
	double wait;

	if ((!api_is_change(operation) && operation->needs != API_CONTROL) || request->is_charged ||
		(tenant == NULL && request->caller.admin))
		return true;
	wait = charge(request, &per_s);
	request->is_charged = wait <= 0;
	if (request->is_charged)
		return true;
	if (tenant == NULL) {
		refuse_often(&request->call, per_s, wait);
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

/* All checks but those of the body, by the call's snapshot. Sets call->operation, or the error is
 * answered. */
static void
admit(struct api_request *request, const char *method)
{
	struct api_call *call = &request->call;
	const struct api_operation *operation;

	call->operation = NULL;
	if (!check_site(request))
		return;
	if (!request->is_target_valid) {
		api_error_unknown(call);
		return;
	}
	operation = api_route_find(call, method);
	if (operation == NULL || !authorize(request, operation))
		return;
	note_caller(request);
	if (api_query_check(call, &operation->query) && check_rate(request, operation))
		call->operation = operation;
	if (request->caller.payer != NULL)
		strlcpy(request->owner, request->caller.payer->name, sizeof(request->owner));
}

static void
refuse_size(struct api_call *call)
{
	api_error(call, 413, "too_large", NULL, "a body has at most %d bytes", API_BODY_BYTES);
}

static bool
has_body(const struct api_request *request)
{
	const char *length = header(request, "Content-Length");

	return (length != NULL && strcmp(length, "0") != 0) ||
		header(request, "Transfer-Encoding") != NULL;
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
	const struct ctrl_schema *schema = &call->operation->body;
	bool takes_none = schema->count == 0 && call->operation->section == NULL;

	if (request->length > API_BODY_BYTES)
		refuse_size(call);
	else if (request->length > 0 && request->text == NULL)
		api_error_memory(call);
	else if (request->length > 0 && takes_none)
		api_error(call, 400, "unknown_key", NULL, "this request takes no body");
	else if (request->length == 0 || check_type(request))
		call->body = request->length == 0
			? NULL
			: api_body_parse(call, request->text, request->length);
	if (call->answer.status != 0)
		return false;
	return takes_none || api_body_check(call, schema);
}

/* Count the answer among those that clients have not read. False: these are too many bytes. */
static bool
count_answer(struct api_request *request)
{
	struct api_server *server = request->server;
	size_t bytes = request->call.answer.bytes;
	bool fits;

	pthread_mutex_lock(&server->lock);
	fits = request->caller.is_local || server->answer_bytes + bytes <= API_ANSWERS;
	if (fits) {
		request->answer_bytes = bytes;
		server->answer_bytes += bytes;
	}
	pthread_mutex_unlock(&server->lock);
	return fits;
}

static enum MHD_Result
respond(struct api_request *request)
{
	struct MHD_Response *response = api_answer_response(&request->call);
	enum MHD_Result queued;

	if (response != NULL && !count_answer(request)) {
		MHD_destroy_response(response);
		api_request_refuse(request);
		response = api_answer_response(&request->call);
	}
	if (response == NULL)
		return MHD_NO; /* the connection is closed */
	queued = MHD_queue_response(request->connection, request->call.answer.status, response);
	MHD_destroy_response(response);
	return queued;
}

void
api_request_refuse(struct api_request *request)
{
	api_error(&request->call, 503, "busy", NULL, "the switch stops, or has too much to do");
	request->is_made = true;
}

static void
call_handler(struct api_request *request)
{
	struct api_call *call = &request->call;

	api_handlers[call->operation - api_operations](call);
	if (call->answer.status == 0 && call->wait_ms == 0)
		api_error(call, 500, "busy", NULL, "the switch had no answer");
	if (call->is_dry_run && call->answer.status < 300)
		json_object_set_new(call->answer.json, "dry_run", json_true());
}

/* The control thread. The rights may have changed since the request was admitted. */
void
api_request_make(struct api_request *request, struct ctrl_running *running)
{
	struct api_call *call = &request->call;

	call->running = running;
	call->config = running->config;
	call->wait_ms = 0;
	running->is_dry_run = call->is_dry_run;
	if (authorize(request, request->call.operation))
		call_handler(request);
	running->is_dry_run = false;
	request->is_made = call->wait_ms == 0;
}

/* Let the call see a snapshot; snapshot NULL: it cannot be made now, and that is answered. */
static bool
look(struct api_request *request, const struct ctrl_snapshot *snapshot)
{
	struct api_call *call = &request->call;

	call->seen = snapshot;
	call->config = snapshot == NULL ? NULL : snapshot->config;
	if (snapshot == NULL)
		api_error(call, 503, "busy", NULL, "the control thread has not answered for %.0f s",
			CTRL_SNAPSHOT_S);
	return snapshot != NULL;
}

static void
look_away(struct api_request *request)
{
	if (request->call.seen != NULL)
		ctrl_snapshot_put(request->call.seen);
	request->call.seen = NULL;
	request->call.config = NULL;
	request->caller.tenant = request->caller.payer = NULL; /* in that configuration */
}

/*
 * Decide about the request by the last snapshot, which may not know a new token yet: a refusal is
 * decided again by a fresh one. So a caller without rights costs no more than the least snapshot.
 */
static void
decide(struct api_request *request, const char *method)
{
	struct ctrl_snapshots *snapshots = request->server->snapshots;

	if (look(request, ctrl_snapshot_last(snapshots)))
		admit(request, method);
	if (request->call.operation != NULL)
		return;
	look_away(request);
	api_answer_clear(&request->call.answer);
	if (look(request, ctrl_snapshot_get(snapshots, 0)))
		admit(request, method);
}

/* Answer a reader from a snapshot that has what it needs. */
static void
answer_reader(struct api_request *request, const char *method)
{
	static const unsigned int parts[] = {[API_DETAIL] = CTRL_SNAPSHOT_DETAIL,
		[API_HISTORY] = CTRL_SNAPSHOT_DETAIL | CTRL_SNAPSHOT_HISTORY};
	enum api_needs needs = request->call.operation->needs;

	/* The last one may have a token that is no longer valid. */
	if (needs != API_LAST || header(request, "Authorization") != NULL) {
		look_away(request);
		request->call.operation = NULL;
		if (look(request, ctrl_snapshot_get(request->server->snapshots, parts[needs])))
			admit(request, method);
	}
	if (request->call.operation != NULL)
		call_handler(request);
}

/* The request is complete: answer it, or ask the control thread to. */
static enum MHD_Result
finish(struct api_request *request, const char *method)
{
	bool asks = false;
	int rc;

	if (request->is_made || request->call.answer.status != 0)
		return respond(request);
	decide(request, method);
	if (request->call.operation != NULL && read_body(request)) {
		asks = request->call.operation->needs == API_CONTROL;
		if (!asks)
			answer_reader(request, method);
	}
	look_away(request);
	rc = asks ? api_change_ask(request) : 0;
	if (asks && rc == 0)
		return MHD_YES;
	if (rc == -ESHUTDOWN)
		api_request_refuse(request);
	if (rc == -EBUSY) {
		api_error(&request->call, 429, "too_often", NULL,
			"%d changes of this caller wait already", API_CHANGES);
		api_header(&request->call, "Retry-After", "1");
	}
	return respond(request);
}

/* The head of a request with a body is there: refuse it before the body, if it must be refused. */
static enum MHD_Result
take_head(struct api_request *request, const char *method)
{
	decide(request, method);
	look_away(request);
	if (request->call.operation == NULL)
		set_deadline(request->peer, API_REFUSED_S);
	if (request->call.operation == NULL && asks_first(request))
		return respond(request);
	if (!far_too_large(request))
		return MHD_YES;
	refuse_size(&request->call);
	return respond(request);
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
		request->caller = request->peer->caller;
		pthread_mutex_lock(&request->server->lock);
		request->peer->is_serving = true;
		request->peer->deadline = ctrl_monotonic() + API_REQUEST_S;
		pthread_mutex_unlock(&request->server->lock);
		return has_body(request) ? take_head(request, method) : MHD_YES;
	}
	if (*size > 0) {
		bool more = take_body(request, data, *size);

		*size = 0;
		return more ? MHD_YES : MHD_NO;
	}
	return finish(request, method);
}
