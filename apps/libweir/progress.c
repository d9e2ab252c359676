/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop around ppoll. A blocking call runs it in its own thread. That saves two thread switches, which would
 * be most of the time of a small operation. The progress thread runs it HOT_NS after the last call, or at once
 * if requests are under way and no thread waits for them.
 */
#include "apps/libweir/engine.h"
#include "apps/libweir/control.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PARKED_NS (5 * WEIR_NS_PER_MS) /* the progress thread checks whether callers still drive */

/* The next deadline; UINT64_MAX: none. */
static uint64_t
next_due(struct weir *weir)
{
	uint64_t due = weir_unexpected_due(weir), at;

	if (!TAILQ_EMPTY(&weir->requests) && !weir->failing) {
		at = weir->progressed + weir->h.op_timeout;
		due = at < due ? at : due;
		at = weir_warn_due(&weir->h, weir->progressed);
		due = at < due ? at : due;
		at = weir_window_due(weir);
		due = at < due ? at : due;
	}
	return due;
}

/* Poll until a descriptor is ready, until `due`, or for `ns`. */
static bool
spin(struct pollfd *polls, nfds_t count, uint64_t ns, uint64_t due)
{
	const struct timespec at_once = {0};
	uint64_t end = weir_now() + ns;

	if (due < end)
		end = due;
	do {
		if (ppoll(polls, count, &at_once, NULL) != 0)
			return true;
		sched_yield();
	} while (weir_now() < end);
	return false;
}

void
weir_sleep(struct pollfd *polls, nfds_t count, uint64_t due)
{
	struct timespec wait, *timeout = NULL;

	if (due != UINT64_MAX) {
		uint64_t now = weir_now();

		due = due > now ? due - now : 0;
		wait.tv_sec = (time_t)(due / 1000000000);
		wait.tv_nsec = (long)(due % 1000000000);
		timeout = &wait;
	}
	if (ppoll(polls, count, timeout, NULL) < 0)
		for (nfds_t i = 0; i < count; i++)
			polls[i].revents = 0;
}

/* Handle timeouts and repetitions. */
static void
take_time(struct weir *weir)
{
	uint64_t now = weir_now();

	if (weir_unexpected_due(weir) != UINT64_MAX) {
		weir_unexpected_repeat(weir, now);
		weir_unexpected_flush(weir, now);
	}
	if (TAILQ_EMPTY(&weir->requests) || weir->failing)
		return;
	if (now >= weir->progressed + weir->h.op_timeout) {
		weir_fail(weir,
			weir_error_timeout(
				&weir->h, TAILQ_FIRST(&weir->requests), weir->progressed, now));
		return;
	}
	weir_join_repeat(weir, now);
	if (weir_warn_is_due(&weir->h, weir->progressed)) {
		weir_error_timeout(&weir->h, TAILQ_FIRST(&weir->requests), weir->progressed, now);
		weir_warn_waiting(&weir->h, weir->h.error);
	}
	weir_window_repeat(weir, now);
	weir_window_flush(weir, now);
}

void
weir_drive(struct weir *weir, uint64_t until)
{
	struct pollfd polls[3] = {
		{.fd = weir->h.wake_fd, .events = POLLIN}, {.fd = weir->h.fd, .events = POLLIN},
		{.fd = weir->h.group_fd, .events = POLLIN}, /* -1 is ignored */
	};
	uint64_t due = next_due(weir), wakes, polling = 0, since = 0;

	due = due < until ? due : until;
	weir->asleep_until = due;
	weir->asleep_for_write = weir->ring.want_write;
	if (weir->asleep_for_write)
		polls[1].events |= POLLOUT;
	/* Only callers spin: the progress thread would take CPU time from the application. */
	if (weir->driver == WEIR_DRIVER_CALLER && weir->spin.most != 0) {
		polling = weir_spin_next(&weir->spin);
		since = weir_now();
	}
	pthread_mutex_unlock(&weir->lock);
	if (polling == 0 || !spin(polls, 3, polling, due))
		weir_sleep(polls, 3, due);
	if (polls[0].revents != 0 && read(weir->h.wake_fd, &wakes, sizeof(wakes)) < 0)
		polls[0].revents = 0; /* another thread has read it */
	pthread_mutex_lock(&weir->lock);
	weir->asleep_until = 0;
	if (since != 0)
		weir_spin_sample(&weir->spin, weir_now() - since);
	if (polls[1].revents & POLLERR)
		weir_socket_drain_errors(&weir->h);
	if (polls[1].revents & POLLOUT)
		weir->ring.want_write = false;
	if (polls[1].revents & POLLIN)
		weir_receive(weir, weir->h.fd, false);
	if (polls[2].revents & POLLIN)
		weir_receive(weir, weir->h.group_fd, true);
	take_time(weir);
}

static void
wake(struct weir *weir)
{
	const uint64_t one = 1;

	/* It fails only if the counter is full, and then the driver is awake. */
	if (write(weir->h.wake_fd, &one, sizeof(one)) < 0)
		return;
}

void
weir_drive_soon(struct weir *weir)
{
	if (weir->driver == WEIR_DRIVER_NONE)
		pthread_cond_signal(&weir->called);
	else if (weir->stop || weir->failing || TAILQ_EMPTY(&weir->requests) ||
		next_due(weir) < weir->asleep_until ||
		weir->ring.want_write != weir->asleep_for_write)
		wake(weir);
}

/* ---- the progress thread ---- */

/* Ask the control API when the switch has been silent for some seconds, or all requests have failed. Without
 * the lock: callers can drive meanwhile. */
static void
query(struct weir *weir)
{
	char text[WEIR_ERROR_MAX];
	bool failing = weir->failing;
	int code;

	pthread_mutex_unlock(&weir->lock);
	code = failing ? weir_query_job(weir, weir->failed)
		       : weir_control_query(&weir->h, NULL, text, sizeof(text));
	pthread_mutex_lock(&weir->lock);
	if (failing) {
		weir_fail_all(weir, code);
		return;
	}
	weir->query_after *= 2;
	weir->query_at = weir_now() + weir->query_after;
	if (code < 0 && !weir->failing && !TAILQ_EMPTY(&weir->requests)) {
		weir_fail(weir, weir_error_set(&weir->h, code, "%s", text));
		weir_fail_all(weir, code); /* without another query */
	}
}

/* When to ask the control API; UINT64_MAX: never. */
static uint64_t
query_due(struct weir *weir)
{
	uint64_t heard = weir->h.heard_at;

	if (weir->failing)
		return 0;
	if (weir->h.control == NULL || TAILQ_EMPTY(&weir->requests))
		return UINT64_MAX;
	if (heard != weir->query_heard) {
		weir->query_heard = heard;
		weir->query_at = weir_now() + weir->query_after;
	}
	return weir->query_at;
}

static void
park(struct weir *weir, uint64_t until)
{
	struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

	(void)pthread_cond_clockwait(&weir->called, &weir->lock, CLOCK_MONOTONIC, &t);
}

void *
weir_progress(void *argument)
{
	struct weir *weir = argument;

	pthread_mutex_lock(&weir->lock);
	while (!weir->stop) {
		bool under_way = !TAILQ_EMPTY(&weir->requests);
		uint64_t now = weir_now(), ask = query_due(weir);

		if (now >= ask) {
			query(weir);
		} else if (weir->driver == WEIR_DRIVER_CALLER ||
			(under_way ? weir->waiters > 0 : now < weir->hot_until)) {
			uint64_t until = under_way ? now + PARKED_NS : weir->hot_until;

			if (until <= now)
				until = now + PARKED_NS;
			park(weir, until < ask ? until : ask);
		} else {
			weir->driver = WEIR_DRIVER_THREAD;
			weir_drive(weir, ask);
			weir->driver = WEIR_DRIVER_NONE;
			if (weir->waiters > 0)
				pthread_cond_broadcast(&weir->ended);
		}
	}
	pthread_mutex_unlock(&weir->lock);
	return NULL;
}
