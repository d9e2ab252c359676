/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of an operation: check, division into blocks, submission, wait, end. */
#include "apps/libweir/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A wait or test within this time after a nonblocking call is soon (progress_thread_needed). */
#define SOON_NS    (WEIR_NS_PER_MS / 10)
#define SILENCE_NS (2000 * WEIR_NS_PER_MS) /* of the switch, before the control API is asked */

void
weir_request_free(struct weir_request *o)
{
	if (o == NULL)
		return;
	free(o->copy);
	free(o->text);
	free(o->degraded);
	free(o);
}

/* ---- the descriptor of ended requests ---- */

void
weir_fd_update(struct weir *weir)
{
	bool ended = weir->unclaimed != 0;
	eventfd_t count;

	if (weir->ended_fd < 0 || ended == weir->fd_signalled)
		return;
	weir->fd_signalled = ended;
	/* Neither can fail: the counter is 0 or 1, and only changes here. */
	if ((ended ? eventfd_write(weir->ended_fd, 1) : eventfd_read(weir->ended_fd, &count)) < 0)
		weir->fd_signalled = !ended;
}

int
weir_fd(struct weir *weir)
{
	int code = weir == NULL ? -EINVAL : weir_check_process(weir);

	if (code < 0)
		return code;
	pthread_mutex_lock(&weir->lock);
	if (weir->ended_fd < 0) {
		weir->ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		weir->fd_signalled = false;
	}
	code = weir->ended_fd;
	if (code < 0)
		code = weir_error_return(
			&weir->h, -errno, "cannot create an eventfd: %s", strerror(errno));
	weir_fd_update(weir);
	pthread_mutex_unlock(&weir->lock);
	return code;
}

static void
release(struct weir *weir)
{
	weir->held_requests--;
	if (weir->is_closing && weir->held_requests == 0)
		pthread_cond_broadcast(&weir->ended);
}

/* Mark that a thread waits for the request, or is about to, or no longer does. Under the lock. */
static void
hold(struct weir_request *o, bool held)
{
	struct weir *weir = o->weir;

	if (o->is_held == held)
		return;
	o->is_held = held;
	if (held)
		weir->held_requests++;
	else
		release(weir);
	if (o->is_finished) {
		weir->unclaimed += held ? -1u : 1u;
		weir_fd_update(weir);
	}
}

/* The request has ended. Under the lock. */
static void
end(struct weir *weir, struct weir_request *o)
{
	TAILQ_INSERT_TAIL(&weir->ended_requests, o, link);
	o->is_finished = true;
	if (!o->is_held) {
		weir->unclaimed++;
		weir_fd_update(weir);
	}
}

/* ---- ending ---- */

static void
finish(struct weir *weir, struct weir_request *o, int code)
{
	TAILQ_REMOVE(&weir->requests, o, link);
	o->code = code;
	end(weir, o);
	if (o->feeds_back)
		weir_error_feedback_end(&weir->h, o);
	if (o->waiter != NULL)
		(void)sem_post(o->waiter);
	if (weir->waiters > 0)
		pthread_cond_broadcast(&weir->ended);
	if (TAILQ_EMPTY(&weir->requests))
		weir_unexpected_end(weir, code);
}

void
weir_complete(struct weir *weir, struct weir_request *o)
{
	int code = 0;

	/* If only the root has data, a result without the others is complete. */
	if (o->result.degraded > 0 && !weir_geometry_always_whole(&o->geometry)) {
		code = weir_error_partial(&weir->h, o);
		o->text = strdup(weir->h.error);
	}
	finish(weir, o, code);
}

void
weir_fail_all(struct weir *weir, int code)
{
	struct weir_request *o;

	weir->is_failing = false;
	weir->failed = code;
	snprintf(weir->failure, sizeof(weir->failure), "%s", weir->h.error);
	weir_unexpected_end(weir, code);
	while ((o = TAILQ_FIRST(&weir->requests)) != NULL)
		finish(weir, o, code);
	if (weir->is_driven)
		weir_drive_soon(weir); /* wake that caller: its requests have ended */
}

void
weir_fail(struct weir *weir, int code)
{
	/* Callers may soon free their buffers: drop all references. */
	weir_recovery_clear(&weir->ring.recovery);
	weir->ring.wants_write = false;
	weir->failed = code;
	/* For calls that fail before weir_fail_all(). */
	snprintf(weir->failure, sizeof(weir->failure), "%s", weir->h.error);
	if (weir->h.control == NULL || (code != -ETIMEDOUT && code != -EACCES && code != -ENOENT)) {
		weir_fail_all(weir, code);
		return;
	}
	weir->is_failing = true;
	weir_query(weir);
}

/* ---- beginning ---- */

/* Number the blocks, and send the first ones. */
static int
begin(struct weir *weir, struct weir_request *o)
{
	struct weir_recovery *r = &weir->ring.recovery;
	bool first = TAILQ_EMPTY(&weir->requests);
	int code;

	o->started = weir_now();
	o->first = (uint32_t)weir->next;
	o->number = weir->next;
	o->result = (struct weir_result){.blocks = o->blocks, .sources_least = weir->h.sources};
	if (first) {
		weir->progressed = o->started;
		weir->h.has_waiting = false;
		weir->asked_at = 0;
		weir->query_after = SILENCE_NS;
		weir->query_at = o->started + SILENCE_NS;
		r->allowance = 0;
		r->probe_at = 0;
		r->retry_at = 0;
		weir->ring.wants_write = false;
	}
	code = weir_error_feedback_wanted(&weir->h, o) ? weir_error_feedback_begin(&weir->h, o) : 0;
	TAILQ_INSERT_TAIL(&weir->requests, o, link);
	weir->next += o->blocks;
	/* The other sources begin the operation even if this one fails, so it uses up its block
	 * numbers. */
	if (code < 0)
		weir_fail(weir, code);
	else if (weir_window_begin(weir, o))
		weir_window_flush(weir, o->started);
	return 0;
}

/* Can the handle begin an operation? 0; or -errno, with the thread's error text. Under the lock. */
static int
check_state(const struct weir *weir)
{
	if (weir->is_closing)
		return weir_error_return(&weir->h, -ECANCELED, "the handle was closed");
	if (weir->failed != 0 && !weir->is_rejoining)
		return weir_error_return(&weir->h, weir->failed, "%s", weir->failure);
	if (weir->is_opening)
		return weir_error_return(&weir->h, -EBUSY,
			"weir_iopen() is under way on this handle: weir_open_test() says when it "
			"has ended");
	if (weir->is_rejoining || weir->h.sources == 0)
		return weir_error_return(&weir->h, -EBUSY,
			"weir_rejoin() is under way on this handle: wait for its end");
	return 0;
}

/* Submit a prepared request. 0: the library owns it. Negative: it is freed, and the thread's error
 * text is set. waits: the caller is about to wait for it. */
static int
submit(struct weir *weir, struct weir_request *o, bool waits)
{
	int code;

	pthread_mutex_lock(&weir->lock);
	code = check_state(weir);
	if (code == 0 && waits)
		hold(o, true);
	if (code == 0 && o->blocks == 0) { /* nothing to send */
		o->result.sources_least = weir->h.sources;
		end(weir, o);
	} else if (code == 0) {
		code = begin(weir, o);
		o->is_attended = waits;
		if (!waits) {
			o->submitted = weir_now();
			weir->hot_until = weir->progress_thread_needed ? 0 : weir->hot_until;
		}
		/* The progress thread drives it, unless a wait or test is expected soon. */
		if (weir->is_driven || (!waits && o->submitted >= weir->hot_until))
			weir_drive_soon(weir);
	}
	pthread_mutex_unlock(&weir->lock);
	if (code < 0)
		weir_request_free(o);
	return code;
}

/* ---- waiting ---- */

/* Return the code of an ended request, and free it. set_text: set the thread's error text. Under
 * the lock. */
static int
collect(struct weir *weir, struct weir_request *o, bool set_text)
{
	const char *text = o->code < 0 ? weir->failure : o->text != NULL ? o->text : "";
	int code;

	hold(o, true);
	TAILQ_REMOVE(&weir->ended_requests, o, link);
	release(weir);
	code = weir_partial_conclude(&weir->h, o);
	if (code != 0 && set_text)
		weir_error_return(&weir->h, code, "%s", text);
	weir->result = o->result;
	free(weir->degraded);
	weir->degraded = o->degraded;
	weir->degraded_count = o->degraded_count;
	o->degraded = NULL;
	weir_request_free(o);
	return code;
}

/* The first wait or test after a nonblocking call. If it comes late, the progress thread drives the
 * next call at once. */
static void
attend(struct weir *weir, struct weir_request *o, uint64_t now)
{
	if (o->is_attended)
		return;
	o->is_attended = true;
	weir->progress_thread_needed = now > o->submitted + SOON_NS;
}

/* Wait until the request has ended, or until `until` (ns). Drive if no other caller does. Under the
 * lock. */
static void
await(struct weir *weir, const struct weir_request *o, uint64_t until)
{
	/* UINT64_MAX is half a millennium. */
	struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
	bool drove = false;

	if (o->is_finished)
		return;
	weir->waiters++;
	do {
		/* Sleep until a request ends, or no caller drives. */
		if (weir->is_driven || weir->is_failing) {
			(void)pthread_cond_clockwait(
				&weir->ended, &weir->lock, CLOCK_MONOTONIC, &t);
			continue;
		}
		weir->is_driven = true;
		weir_drive(weir, until);
		weir->is_driven = false;
		drove = true;
	} while (!o->is_finished && (until == UINT64_MAX || weir_now() < until));
	weir->waiters--;
	if (drove)
		weir->hot_until = weir->drove_at + WEIR_HOT_NS;
	if ((drove && weir->waiters > 0) || (weir->is_closing && weir->waiters == 0))
		pthread_cond_broadcast(&weir->ended);
}

/* Drive once, if no other caller does. Under the lock. */
static void
advance(struct weir *weir)
{
	uint64_t now;

	if (weir->is_driven || weir->is_failing)
		return;
	(void)weir_drive_once(weir);
	now = weir->drove_at;
	/* The progress thread leaves the sockets to a caller that tests often. */
	if (now < weir->tested_at + WEIR_HOT_NS) {
		weir_loop_unwatch(weir, now + WEIR_PARKED_NS);
		weir->hot_until = now + WEIR_HOT_NS;
		weir->due_at = weir->hot_until + WEIR_PARKED_NS;
	}
	weir->tested_at = now;
}

/* reported: the number of the handle whose errors keep the thread's error text; 0: none. */
static int
wait_for(struct weir_request **request, uint64_t reported)
{
	struct weir_request *o = *request;
	struct weir *weir;
	int code;

	if (o == NULL)
		return 0;
	*request = NULL;
	weir = o->weir;
	pthread_mutex_lock(&weir->lock);
	if (!o->is_attended)
		attend(weir, o, weir_now());
	await(weir, o, UINT64_MAX);
	code = collect(weir, o, weir->h.number != reported);
	pthread_mutex_unlock(&weir->lock);
	return code;
}

/* -EINVAL with an error text if this process has inherited a request through fork(); else 0. */
static int
check_process(struct weir_request **requests, size_t n)
{
	pid_t own = weir_process();

	for (size_t i = 0; i < n; i++)
		if (requests[i] != NULL && requests[i]->weir->h.process != own)
			return weir_check_process(requests[i]->weir);
	return 0;
}

int
weir_wait(struct weir_request **request)
{
	int code = check_process(request, 1);

	return code < 0 ? code : wait_for(request, 0);
}

int
weir_wait_for(struct weir_request **request, unsigned int ms, bool *done)
{
	struct weir_request *o = *request;
	struct weir *weir;
	uint64_t now;
	int code = check_process(request, 1);

	*done = o == NULL;
	if (o == NULL || code < 0)
		return code;
	weir = o->weir;
	now = weir_now();
	pthread_mutex_lock(&weir->lock);
	attend(weir, o, now);
	if (!o->is_finished && ms == 0) {
		advance(weir);
	} else if (!o->is_finished) {
		hold(o, true);
		await(weir, o, now + ms * WEIR_NS_PER_MS);
	}
	if (o->is_finished) {
		*done = true;
		*request = NULL;
		code = collect(weir, o, true);
	} else {
		hold(o, false);
	}
	pthread_mutex_unlock(&weir->lock);
	return code;
}

int
weir_test(struct weir_request **request, bool *done)
{
	return weir_wait_for(request, 0, done);
}

/*
 * Hold or release all requests. waiter: woken when one of them ends, or NULL. Returns the index of
 * an ended request, or n. While a request is held, its handle and the handle's other requests are
 * not freed.
 */
static size_t
hold_all(struct weir_request **requests, size_t n, bool held, sem_t *waiter)
{
	size_t found = n;

	for (size_t i = 0; i < n; i++) {
		struct weir_request *o = requests[i];
		struct weir *weir;

		if (o == NULL)
			continue;
		weir = o->weir;
		pthread_mutex_lock(&weir->lock);
		o->waiter = waiter;
		if (o->is_finished && found == n)
			found = i;
		if (held || i != found)
			hold(o, held);
		if (waiter != NULL && !o->is_finished) { /* this thread does not drive */
			weir->hot_until = 0;
			weir_drive_soon(weir);
		}
		pthread_mutex_unlock(&weir->lock);
	}
	return found;
}

int
weir_wait_all(struct weir_request **requests, size_t n)
{
	int first = check_process(requests, n);
	uint64_t reported = 0;

	if (first < 0)
		return first;
	hold_all(requests, n, true, NULL);
	for (size_t i = 0; i < n; i++) {
		uint64_t handle = requests[i] != NULL ? requests[i]->weir->h.number : 0;
		int code = wait_for(&requests[i], reported);

		/* Keep the error text of the code that is returned. */
		if (first == 0 && code != 0) {
			first = code;
			reported = handle;
		}
	}
	return first;
}

int
weir_wait_any(struct weir_request **requests, size_t n, size_t *which)
{
	sem_t waiter;
	size_t one = 0, found;
	int code = check_process(requests, n);

	for (*which = n; one < n && requests[one] == NULL;)
		one++;
	if (one == n)
		return -ENOENT;
	if (code < 0)
		return code;
	sem_init(&waiter, 0, 0);
	found = hold_all(requests, n, true, &waiter);
	while (found == n && sem_wait(&waiter) < 0)
		; /* a signal */
	/* Keep the ended request held until wait_for. */
	found = hold_all(requests, n, false, NULL);
	sem_destroy(&waiter);
	*which = found;
	return wait_for(&requests[found], 0);
}

/* ---- collectives ---- */

/* The call without the fields that its collective does not use: the switch and the other sources
 * compare these. */
static struct weir_call
used_of(const struct weir_call *call)
{
	const struct collective_row *row = weir_collective_row(call->collective);

	if (call->collective == WEIR_COLLECTIVE_BARRIER)
		return (struct weir_call){.collective = call->collective};
	return (struct weir_call){
		.collective = call->collective,
		.send = call->send,
		.recv = call->recv,
		.count = call->count,
		.dtype = call->dtype,
		.op = row->contribution == CONTRIBUTION_REDUCE ? call->op : WEIR_OP_SUM,
		.root = row->rooted ? call->root : 0,
	};
}

static int
check_call(const struct weir_handle *h, const struct weir_call *c)
{
	unsigned int dtype = (unsigned int)c->dtype, op = (unsigned int)c->op;

	if (weir_dtype_bytes(dtype) == 0 || op >= WEIR_OPS)
		return weir_error_return(
			h, -EINVAL, "type %u or operation %u does not exist", dtype, op);
	if (!weir_dtype_has_op(dtype, op))
		return weir_error_return(h, -EINVAL, "%s is for integers, not for %s",
			weir_op_text(op), weir_dtype_text(dtype));
	if (c->root >= h->sources)
		return weir_error_return(
			h, -EINVAL, "root: %u is not in [0, %u)", c->root, h->sources);
	if (!h->base_form || c->collective == WEIR_COLLECTIVE_BARRIER)
		return 0;
	if (c->collective != WEIR_COLLECTIVE_ALLREDUCE)
		return weir_error_return(h, -EINVAL,
			"the base form carries only allreduce and barrier: open without base_form");
	if (dtype != h->job_dtype || op != h->job_op)
		return weir_error_return(h, -EINVAL,
			"the base form carries only the job's own %s of %s, not %s of %s: open "
			"without base_form",
			weir_op_text(h->job_op), weir_dtype_text(h->job_dtype), weir_op_text(op),
			weir_dtype_text(dtype));
	return 0;
}

/*
 * Refuse buffers that overlap other than in place: results would overwrite data that is still to be
 * sent or repeated. After cut(), so that no size overflows.
 */
static int
check_overlap(const struct weir *weir, const struct weir_request *o)
{
	const struct weir_geometry *g = &o->geometry;
	size_t sent = weir_geometry_sent(g) * g->element_bytes;
	size_t received = weir_geometry_received(g) * g->element_bytes;
	size_t own = g->rank * g->count * g->element_bytes;
	uintptr_t send = (uintptr_t)o->send, recv = (uintptr_t)o->recv;

	if (sent == 0 || received == 0 || send + sent <= recv || recv + received <= send)
		return 0;
	if (sent > received ? recv == send + own : send == recv + (sent < received ? own : 0))
		return 0;
	return weir_error_return(&weir->h, -EINVAL,
		"send and recv overlap, and not as in place, which is %s: take another buffer",
		sent > received           ? "recv == send + rank * count"
			: sent < received ? "send == recv + rank * count"
					  : "send == recv");
}

static int
cut(const struct weir *weir, struct weir_request *o)
{
	struct weir_geometry *g = &o->geometry;
	int code;

	g->limit = weir_elements(weir, o->dtype);
	g->row_room = g->element_bytes > 4 ? weir->h.row_room / 2 : weir->h.row_room;
	if (g->row_room < g->limit) /* one element of 8 bytes */
		g->row_room = g->limit;
	code = weir_geometry_cut(g);
	if (code == -EMSGSIZE)
		return weir_error_return(&weir->h, code,
			"slices for %u %ss can't be made of blocks of %u elements: raise the job's "
			"`elements` to at least %u",
			weir->h.sources, weir->h.noun, g->limit,
			g->element_bytes > 4 ? 2 * weir->h.sources : weir->h.sources);
	if (code < 0)
		return weir_error_return(&weir->h, code,
			"%zu elements are more than 2^31 - 1 blocks, or than there is memory",
			g->count);
	o->blocks = g->blocks;
	if (g->per_root == 0 || o->send != o->recv)
		return 0;
	/* Consecutive scatters in place: results would overwrite data that is sent later. */
	o->copy = malloc(weir_geometry_sent(g) * g->element_bytes);
	if (o->copy == NULL)
		return weir_error_return(&weir->h, -ENOMEM, "no memory for a copy of %zu bytes",
			weir_geometry_sent(g) * g->element_bytes);
	memcpy(o->copy, o->send, weir_geometry_sent(g) * g->element_bytes);
	o->send = o->copy;
	return 0;
}

static int
prepare(struct weir *weir, struct weir_request *o, const struct weir_call *c)
{
	bool typed = c->collective != WEIR_COLLECTIVE_BARRIER, lacks_send, lacks_recv;
	int code = 0;

	*o = (struct weir_request){
		.weir = weir,
		.send = c->send,
		.recv = c->recv,
		.op = (uint8_t)c->op,
		.dtype = (uint8_t)c->dtype,
		.geometry = {.collective = (uint8_t)c->collective,
			.sources = weir->h.sources,
			.rank = weir->h.rank,
			.root = c->root,
			.skips_own = weir->h.skips_own,
			.count = c->count,
			.element_bytes = typed ? weir_dtype_bytes(c->dtype) : 0},
	};
	if (c->count == 0 && typed)
		return 0;
	lacks_send = o->send == NULL && weir_geometry_sent(&o->geometry) != 0;
	lacks_recv = o->recv == NULL && weir_geometry_received(&o->geometry) != 0;
	if (lacks_send || lacks_recv)
		code = weir_error_return(&weir->h, -EINVAL, "%s is NULL and count is %zu",
			lacks_send ? "send" : "recv", c->count);
	if (code == 0 && !weir_partial_can(&weir->h, o))
		code = weir_error_return(&weir->h, -EINVAL,
			"%s: partial sums of it can't be rescaled; take them as they are, or fail",
			weir_dtype_text(o->dtype));
	if (code == 0)
		code = cut(weir, o);
	return code == 0 ? check_overlap(weir, o) : code;
}

/* waits: the caller is about to wait for it. */
static int
start(struct weir *weir, const struct weir_call *call, bool waits, struct weir_request **request)
{
	struct weir_request *o;
	struct weir_call used;
	int code;

	if (weir == NULL)
		return -EINVAL;
	code = weir_check_process(weir);
	if (code < 0)
		return code;
	if (call == NULL)
		return weir_error_return(&weir->h, -EINVAL, "call is NULL");
	if (weir->h.sources == 0) { /* weir_open or weir_rejoin has failed or is under way */
		pthread_mutex_lock(&weir->lock);
		code = check_state(weir);
		pthread_mutex_unlock(&weir->lock);
	}
	if (code == 0 && !weir_collective_row(call->collective)->served)
		code = weir_error_return(&weir->h, -EINVAL, "collective %u does not exist",
			(unsigned int)call->collective);
	if (code == 0) {
		used = used_of(call);
		code = check_call(&weir->h, &used);
	}
	if (code < 0)
		return code;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return weir_error_return(&weir->h, -ENOMEM, "no memory for an operation");
	code = prepare(weir, o, &used);
	if (code < 0) {
		weir_request_free(o);
		return code;
	}
	code = submit(weir, o, waits);
	if (code == 0)
		*request = o;
	return code;
}

int
weir_collective(struct weir *weir, const struct weir_call *call, struct weir_request **request)
{
	struct weir_request *started = NULL;
	int code = start(weir, call, request == NULL, &started);

	if (request != NULL)
		*request = started;
	else if (code == 0)
		code = wait_for(&started, 0);
	return code;
}

static int
begin_collective(struct weir *weir, const struct weir_call *call, struct weir_request **request)
{
	if (request != NULL || weir == NULL)
		return weir_collective(weir, call, request);
	return weir_error_return(
		&weir->h, -EINVAL, "request is NULL: what is begun has to be waited for");
}

#define CALL(NAME, op, root)                                                                       \
	&(struct weir_call)                                                                        \
	{                                                                                          \
		WEIR_COLLECTIVE_##NAME, send, recv, count, dtype, op, root                         \
	}
/* Both forms of a collective: its name, its code, operation and root, and its parameters after
 * `count`. */
#define COLLECTIVE(name, NAME, op, root, ...)                                                      \
	int weir_##name(                                                                           \
		struct weir *weir, const void *send, void *recv, size_t count, __VA_ARGS__)        \
	{                                                                                          \
		return weir_collective(weir, CALL(NAME, op, root), NULL);                          \
	}                                                                                          \
                                                                                                   \
	int weir_i##name(struct weir *weir, const void *send, void *recv, size_t count,            \
		__VA_ARGS__, struct weir_request **request)                                        \
	{                                                                                          \
		return begin_collective(weir, CALL(NAME, op, root), request);                      \
	}

COLLECTIVE(allreduce, ALLREDUCE, op, 0, enum weir_dtype dtype, enum weir_op op)
COLLECTIVE(reduce, REDUCE, op, root, enum weir_dtype dtype, enum weir_op op, unsigned int root)
COLLECTIVE(reducescatter, REDUCESCATTER, op, 0, enum weir_dtype dtype, enum weir_op op)
COLLECTIVE(broadcast, BROADCAST, 0, root, enum weir_dtype dtype, unsigned int root)
COLLECTIVE(scatter, SCATTER, 0, root, enum weir_dtype dtype, unsigned int root)
COLLECTIVE(gather, GATHER, 0, root, enum weir_dtype dtype, unsigned int root)
COLLECTIVE(allgather, ALLGATHER, 0, 0, enum weir_dtype dtype)
COLLECTIVE(alltoall, ALLTOALL, 0, 0, enum weir_dtype dtype)

int
weir_barrier(struct weir *weir)
{
	return weir_collective(
		weir, &(struct weir_call){.collective = WEIR_COLLECTIVE_BARRIER}, NULL);
}

int
weir_ibarrier(struct weir *weir, struct weir_request **request)
{
	return begin_collective(
		weir, &(struct weir_call){.collective = WEIR_COLLECTIVE_BARRIER}, request);
}
