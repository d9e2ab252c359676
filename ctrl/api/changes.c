/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes on their way from the threads of libmicrohttpd to the control thread, and back.
 *
 * A thread of libmicrohttpd suspends the connection and pushes its request to `asked`. The control
 * thread takes all at once, makes them in order, administrators' first, and pushes them to `made`.
 * The keeper, a thread of the server, resumes the connections: libmicrohttpd takes a lock for it
 * that its own threads hold, too.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "ctrl/api/server_priv.h"

void
api_wake(int event)
{
	static const uint64_t one = 1;

	if (write(event, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

/* Any thread. */
static void
push(struct api_request **list, struct api_request *request)
{
	request->next = __atomic_load_n(list, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(
		list, &request->next, request, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* All that were pushed, oldest first. event: of the list. */
static struct api_request *
take_all(struct api_request **list, int event)
{
	struct api_request *newest, *oldest = NULL;
	uint64_t count;

	if (read(event, &count, sizeof(count)) < 0)
		count = 0;
	newest = __atomic_exchange_n(list, NULL, __ATOMIC_ACQUIRE);
	while (newest != NULL) {
		struct api_request *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

static bool
same_owner(const struct api_request *a, const struct api_request *b)
{
	return strcmp(a->owner, b->owner) == 0 &&
		(a->owner[0] != '\0' ||
			(a->peer->network == b->peer->network &&
				a->peer->caller.uid == b->peer->caller.uid));
}

int
api_change_ask(struct api_request *request)
{
	struct api_server *server = request->server;
	const struct api_request *other;
	unsigned int others = 0;
	int rc;

	pthread_mutex_lock(&server->lock);
	TAILQ_FOREACH (other, &server->waiting, waiting)
		others += same_owner(request, other);
	rc = server->is_stopping                                ? -ESHUTDOWN
		: request->caller.admin || others < API_CHANGES ? 0
								: -EBUSY;
	if (rc == 0) {
		TAILQ_INSERT_TAIL(&server->waiting, request, waiting);
		request->peer->deadline = INFINITY;
		request->queued_at = ctrl_monotonic();
		MHD_suspend_connection(request->connection);
	}
	pthread_mutex_unlock(&server->lock);
	if (rc < 0)
		return rc;
	push(&server->asked, request);
	api_wake(server->asked_event);
	return 0;
}

void
api_changes_resume(struct api_server *server, double now)
{
	struct api_request *request = take_all(&server->made, server->made_event), *next;

	for (; request != NULL; request = next) {
		next = request->next;
		pthread_mutex_lock(&server->lock);
		TAILQ_REMOVE(&server->waiting, request, waiting);
		request->peer->deadline = now + API_REQUEST_S;
		pthread_mutex_unlock(&server->lock);
		MHD_resume_connection(request->connection);
	}
}

/* -- the control thread */

/* Queue what was asked: administrators' requests behind other administrators' only. */
static void
take_asked(struct api_server *server)
{
	struct api_request *request = take_all(&server->asked, server->asked_event), *next;

	for (; request != NULL; request = next) {
		struct api_request **at = &server->queue;

		next = request->next;
		while (*at != NULL && ((*at)->caller.admin || !request->caller.admin))
			at = &(*at)->next;
		request->next = *at;
		*at = request;
	}
}

static void
answer(struct api_server *server, struct api_request *request)
{
	struct api_call *call = &request->call;

	/* What the handler keeps between its calls belongs to this thread. */
	if (call->context_free != NULL)
		call->context_free(call->context);
	push(&server->made, request);
	api_wake(server->made_event);
}

int
api_changes_make(struct api_server *server)
{
	double now = ctrl_monotonic(), end = now + API_SLICE_S, wait = INFINITY;
	struct api_request **at = &server->queue, *request;

	take_asked(server);
	while ((request = *at) != NULL && now < end) {
		if (request->again_at > now) {
			wait = fmin(wait, request->again_at - now);
			at = &request->next;
			continue;
		}
		if (now - request->queued_at > API_PATIENCE_S && request->again_at <= 0)
			api_request_refuse(request);
		else
			api_request_make(request, server->running);
		now = ctrl_monotonic();
		if (request->call.wait_ms > 0) {
			request->again_at = now + request->call.wait_ms / 1e3;
			continue; /* to see when it is due */
		}
		*at = request->next;
		answer(server, request);
	}
	return request != NULL ? 0 : isfinite(wait) ? (int)(wait * 1e3) + 1 : -1;
}

void
api_changes_refuse(struct api_server *server)
{
	struct api_request *request;

	take_asked(server);
	while ((request = server->queue) != NULL) {
		server->queue = request->next;
		api_request_refuse(request);
		answer(server, request);
	}
}
