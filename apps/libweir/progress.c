/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driving: receiving what has come, and sending what is due. A waiting call drives in its own
 * thread. That saves two thread switches, which would be most of the time of a small operation. The
 * progress thread drives WEIR_HOT_NS after the last call, or at once if no wait is expected soon
 * after a nonblocking call.
 */
#include "apps/libweir/engine.h"
#include "apps/libweir/control.h"

#include <string.h>
#include <sys/eventfd.h>

/* ---- the control API ---- */

#define GONE_NS (2000 * WEIR_NS_PER_MS) /* without a completed block */

static void
query(struct weir_work *work)
{
	struct weir *weir = work->owner;
	uint8_t waiting[WEIR_BITMAP_BYTES];
	char text[WEIR_ERROR_MAX];
	bool failing, answers;
	int code;

	pthread_mutex_lock(&weir->lock);
	failing = weir->is_failing;
	code = weir->failed;
	answers = weir->h.has_waiting && weir_control_temporary(&weir->h);
	memcpy(waiting, weir->h.waiting, sizeof(waiting));
	pthread_mutex_unlock(&weir->lock);
	code = failing ? weir_query_job(weir, code)
		       : weir_control_query(&weir->h, answers ? waiting : NULL, text, sizeof(text));
	pthread_mutex_lock(&weir->lock);
	weir->is_querying = false;
	weir->query_after *= 2;
	weir->asked_at = weir_now();
	weir->query_at = weir->asked_at + weir->query_after;
	if (failing) {
		weir_fail_all(weir, code);
	} else if (weir->is_failing) { /* it failed during the query */
		weir_query(weir);
	} else if (code < 0 && !TAILQ_EMPTY(&weir->requests)) {
		weir_fail(weir, weir_error_set(&weir->h, code, "%s", text));
		weir_fail_all(weir, code); /* without another query */
	}
	pthread_mutex_unlock(&weir->lock);
}

void
weir_query(struct weir *weir)
{
	if (weir->is_querying)
		return;
	weir->query_work.run = query;
	weir->query_work.owner = weir;
	weir->query_work.fd = -1;
	weir->is_querying = weir_work_submit(&weir->query_work, 0) == 0;
	if (!weir->is_querying && weir->is_failing)
		weir_fail_all(weir, weir->failed);
}

/* When to ask about silence; UINT64_MAX: never. In a temporary job, also when to ask about members
 * that are gone, although the switch answers that it waits for them. */
static uint64_t
query_due(struct weir *weir)
{
	uint64_t heard = weir->h.heard_at;

	if (weir->h.control == NULL || weir->is_querying)
		return UINT64_MAX;
	if (weir_control_temporary(&weir->h)) {
		uint64_t first = weir->progressed + GONE_NS, next = weir->asked_at + 2 * GONE_NS;

		return first > next ? first : next;
	}
	if (heard != weir->query_heard) {
		weir->query_heard = heard;
		weir->query_at = weir_now() + weir->query_after;
	}
	return weir->query_at;
}

/* ---- driving ---- */

#define STOPPED_NS (1000 * WEIR_NS_PER_MS)

/* Since when the switch has been silent about the operations under way. A stop of the process does
 * not count as silence. */
static uint64_t
silent_since(const struct weir *weir)
{
	uint64_t since = weir->progressed;

	since = weir->resumed_at > since ? weir->resumed_at : since;
	since = weir->h.heard_at > since ? weir->h.heard_at : since;
	return weir->h.join_heard_at > since ? weir->h.join_heard_at : since;
}

/* Fail the operations that have waited too long. */
static bool
too_late(struct weir *weir, uint64_t now)
{
	const struct weir_request *oldest = TAILQ_FIRST(&weir->requests);
	uint64_t since = silent_since(weir);

	if (now >= weir->progressed + weir->h.op_timeout)
		weir_fail(weir, weir_error_timeout(&weir->h, oldest, weir->progressed, now));
	else if (now >= since + weir->h.silence_timeout)
		weir_fail(weir, weir_error_silence(&weir->h, oldest, now - since));
	else
		return false;
	return true;
}

/* Compute the next deadline, and store it in due_at; UINT64_MAX: none. */
static uint64_t
next_due(struct weir *weir)
{
	uint64_t due = weir_earlier(weir_unexpected_due(weir), weir_keepalive_due(weir));

	if (!TAILQ_EMPTY(&weir->requests) && !weir->is_failing) {
		due = weir_earlier(due, weir->progressed + weir->h.op_timeout);
		due = weir_earlier(due, silent_since(weir) + weir->h.silence_timeout);
		due = weir_earlier(due, weir_warn_due(&weir->h, weir->progressed));
		due = weir_earlier(due, weir_recovery_due(&weir->ring.recovery));
		due = weir_earlier(due, query_due(weir));
	}
	weir->due_at = due;
	return due;
}

/* If a pass is STOPPED_NS late, the process or its machine was stopped. That time counts towards no
 * timeout of an operation. */
static void
skip_stop(struct weir *weir, uint64_t now)
{
	uint64_t since = weir->due_at > weir->drove_at ? weir->due_at : weir->drove_at;

	since = weir->progressed > since ? weir->progressed : since; /* a call after a pause */
	if (since >= now || now - since < STOPPED_NS)
		return;
	weir->resumed_at = now;
	weir->progressed += now - since;
}

/* Handle timeouts and repetitions. */
static void
take_time(struct weir *weir, uint64_t now)
{
	skip_stop(weir, now);
	weir->drove_at = now;
	weir_keepalive(weir, now);
	weir_unexpected_flush(weir, now);
	if (TAILQ_EMPTY(&weir->requests) || weir->is_failing)
		return;
	if (too_late(weir, now))
		return;
	if (now >= query_due(weir))
		weir_query(weir);
	weir_join_repeat(weir, now);
	if (now >= weir_warn_due(&weir->h, weir->progressed)) {
		weir_error_timeout(&weir->h, TAILQ_FIRST(&weir->requests), weir->progressed, now);
		weir_warn_waiting(&weir->h, weir->h.error);
	}
	weir_window_repeat(weir, now);
	weir_window_flush(weir, now);
}

void
weir_drive(struct weir *weir, uint64_t until)
{
	struct weir_transport *t = weir->h.transport;
	uint64_t due = next_due(weir), polling = 0, since = 0, now;
	eventfd_t wakes;
	unsigned int ready;
	bool for_write;

	weir->asleep_until = due = weir_earlier(due, until);
	weir->asleep_for_write = for_write = weir->ring.wants_write;
	if (weir->watched_events != 0)
		weir_loop_unwatch(weir, weir_now() + WEIR_PARKED_NS);
	if (weir->spin.most != 0) {
		since = weir_now();
		polling = weir_spin_next(&weir->spin);
		polling = polling == 0 ? 0 : weir_earlier(since + polling, due);
	}
	pthread_mutex_unlock(&weir->lock);
	ready = t->ops->wait(t, weir->h.wake_fd, for_write, polling, due);
	if (ready & WEIR_READY_WOKEN)
		(void)eventfd_read(weir->h.wake_fd, &wakes); /* another thread may have read it */
	pthread_mutex_lock(&weir->lock);
	weir->asleep_until = 0;
	now = weir_now();
	if (since != 0)
		weir_spin_sample(&weir->spin, now - since);
	if (ready & WEIR_READY_ERROR)
		weir_take_errors(weir);
	if (ready & WEIR_READY_TX)
		weir->ring.wants_write = false;
	if (ready & WEIR_READY_RX)
		weir_receive(weir, false, now);
	if (ready & WEIR_READY_GROUP)
		weir_receive(weir, true, now);
	take_time(weir, now);
}

bool
weir_drive_once(struct weir *weir)
{
	uint64_t now = weir_now();
	bool more;

	weir->ring.wants_write = false;
	more = weir_receive(weir, false, now);
	if (weir->h.transport->group_fd >= 0)
		more |= weir_receive(weir, true, now);
	take_time(weir, now);
	return more;
}

void
weir_drive_soon(struct weir *weir)
{
	if (weir->is_driven) {
		if (weir->is_failing || TAILQ_EMPTY(&weir->requests) ||
			next_due(weir) < weir->asleep_until ||
			weir->ring.wants_write != weir->asleep_for_write)
			(void)eventfd_write(weir->h.wake_fd, 1);
	} else if (weir->watched_events == 0 || weir->ring.wants_write) {
		weir_loop_look(weir, 0);
	} else {
		weir_loop_look(weir, next_due(weir));
	}
}

uint64_t
weir_serve(struct weir *weir, bool error)
{
	uint64_t now = weir_now(), parked = now + WEIR_PARKED_NS;

	if (weir->is_driven || now < weir->hot_until) {
		weir_loop_unwatch(weir, parked);
		return parked;
	}
	if (error)
		weir_take_errors(weir);
	if (weir_drive_once(weir))
		return now;
	return weir_loop_watch(weir) ? next_due(weir) : parked;
}
