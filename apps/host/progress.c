/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/weir_priv.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t
weir_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + 1;
}

void
weir_finish(struct weir *weir, int code)
{
	struct weir_operation *o = weir->current;
	struct weir_ring *r = &weir->ring;
	struct weir_slot *slot;

	/* From here on the caller's buffers may be gone: nothing may point at them. */
	while ((slot = TAILQ_FIRST(&r->ready)) != NULL) {
		TAILQ_REMOVE(&r->ready, slot, link);
		slot->state = WEIR_SLOT_IDLE;
	}
	while ((slot = TAILQ_FIRST(&r->flying)) != NULL) {
		TAILQ_REMOVE(&r->flying, slot, link);
		slot->state = WEIR_SLOT_IDLE;
	}
	r->retry_at = 0;
	r->want_write = false;
	weir_ahead_end(weir, code);
	weir->current = NULL;
	weir->next_block = o->first + o->blocks;
	weir->next_number = o->number + o->blocks;
	if (code < 0)
		weir->failed = code;
	pthread_mutex_lock(&weir->lock);
	o->code = code;
	o->finished = true;
	pthread_cond_broadcast(&weir->finished);
	pthread_mutex_unlock(&weir->lock);
}

/* Take what the caller handed over; false: stop. */
static bool
take_operation(struct weir *weir)
{
	uint64_t wakes, now = weir_now();
	int verdict;
	bool stop;

	if (read(weir->wake_fd, &wakes, sizeof(wakes)) < 0 && errno != EAGAIN)
		return false;
	pthread_mutex_lock(&weir->lock);
	stop = weir->stop;
	verdict = weir->verdict;
	if (weir->current == NULL && weir->submitted != NULL) {
		weir->current = weir->submitted;
		weir->submitted = NULL;
	} else {
		now = 0;
	}
	pthread_mutex_unlock(&weir->lock);
	if (weir->current != NULL && stop) {
		weir_finish(weir, weir_explain(weir, -ECANCELED, "the handle was closed"));
	} else if (now == 0 && weir->current != NULL && verdict != 0) {
		weir_finish(weir, verdict); /* the caller has the text */
	} else if (now != 0 && weir->current != NULL) {
		weir->current->first = weir->next_block;
		weir->current->number = weir->next_number;
		weir->current->started = weir->current->progressed = now;
		weir->have_waiting = false;
		/* One that the others begin, and this source can't: its blocks are theirs all the same. */
		if (weir->current->code < 0)
			weir_finish(weir, weir->current->code);
		else
			weir_window_begin(weir);
	}
	return !stop;
}

static void
sleep_until_something(struct weir *weir, struct pollfd *polls, nfds_t count)
{
	uint64_t now, due = weir_ahead_due(weir);
	struct timespec wait, *timeout = NULL;

	if (weir->current != NULL) {
		uint64_t limit = weir->current->progressed + weir->op_timeout;

		now = weir_window_due(weir);
		due = now < due ? now : due;
		due = limit < due ? limit : due;
	}
	if (due != UINT64_MAX) {
		now = weir_now();
		due = due > now ? due - now : 0;
		wait.tv_sec = (time_t)(due / 1000000000);
		wait.tv_nsec = (long)(due % 1000000000);
		timeout = &wait;
	}
	if (ppoll(polls, count, timeout, NULL) < 0)
		for (nfds_t i = 0; i < count; i++)
			polls[i].revents = 0;
}

void *
weir_progress(void *argument)
{
	struct weir *weir = argument;
	struct pollfd polls[3] = {
		{.fd = weir->wake_fd, .events = POLLIN}, {.fd = weir->fd, .events = POLLIN},
		{.fd = weir->group_fd, .events = POLLIN}, /* -1 is ignored */
	};

	for (;;) {
		polls[1].events = POLLIN | (weir->ring.want_write ? POLLOUT : 0);
		sleep_until_something(weir, polls, 3);
		if (polls[1].revents & POLLERR)
			weir_socket_drain_errors(weir);
		if (polls[1].revents & POLLOUT)
			weir->ring.want_write = false;
		if (polls[1].revents & POLLIN)
			weir_receive(weir, weir->fd, false);
		if (polls[2].revents & POLLIN)
			weir_receive(weir, weir->group_fd, true);
		if (polls[0].revents != 0 && !take_operation(weir))
			return NULL;
		if (weir_ahead_due(weir) != UINT64_MAX) {
			uint64_t now = weir_now();

			weir_ahead_repeat(weir, now);
			weir_ahead_flush(weir, now);
		}
		if (weir->current != NULL) {
			uint64_t now = weir_now();

			if (now >= weir->current->progressed + weir->op_timeout) {
				weir_finish(weir, weir_explain_timeout(weir, now));
				continue;
			}
			weir_window_repeat(weir, now);
			weir_window_flush(weir, now);
		}
	}
}
