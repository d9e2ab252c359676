/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread: one for all handles of the process. It begins with the first handle and ends
 * with the last. It sleeps on one epoll instance, which has the sockets of the handles that no
 * caller drives, and a timer for the first handle that is due.
 *
 * A handle has a place in a table. The thread looks at a handle when its sockets are ready, and at
 * the time in its place. Callers that need it earlier lower that time (weir_loop_look); a later
 * time does not wake the thread. An extra look does no harm. So it is fine if an event of a closed
 * handle reaches the next handle in its place.
 *
 * Locks: a handle's, then the loop's. The thread holds no lock while it sleeps.
 */
#include "apps/libweir/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 64
#define TIMER  UINT32_MAX /* event data of the timer; other events have their place */

struct place {
	struct weir *weir; /* NULL: free */
	uint64_t at; /* ns: when the thread looks at it */
	bool has_error; /* of a socket */
};

#define LOOP_EMPTY                                                                                 \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,            \
		.epoll_fd = -1, .timer_fd = -1                                                     \
	}

static struct loop {
	/* Of all that follows. The descriptors are fixed while there is a handle. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* the thread has left a handle, or has ended */
	pthread_t thread;
	int epoll_fd, timer_fd;
	bool is_stopping;
	uint64_t rings_at; /* ns: when the timer rings; UINT64_MAX: never */
	struct place *places;
	uint32_t room, handles;
	const struct weir *at; /* the handle that the thread looks at */
} loop = LOOP_EMPTY;

static pid_t process; /* relaxed atomic; 0: not asked yet */

/* ---- fork ---- */

static void
close_descriptors(void)
{
	if (loop.epoll_fd >= 0)
		close(loop.epoll_fd);
	if (loop.timer_fd >= 0)
		close(loop.timer_fd);
	loop.epoll_fd = loop.timer_fd = -1;
}

/* The child has neither the thread nor the handles. */
static void
in_child(void)
{
	close_descriptors();
	free(loop.places);
	loop = (struct loop)LOOP_EMPTY;
	process = 0;
}

WEIR_SEES_FORKS(&loop.lock, in_child)

pid_t
weir_process(void)
{
	pid_t own = __atomic_load_n(&process, __ATOMIC_RELAXED);

	if (own != 0)
		return own;
	own = getpid();
	if (sees_forks())
		__atomic_store_n(&process, own, __ATOMIC_RELAXED);
	return own;
}

/* ---- the timer ---- */

/* Under the lock of the loop. */
static void
ring_at(uint64_t at)
{
	struct itimerspec t = {.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};

	loop.rings_at = at;
	if (at == UINT64_MAX)
		t = (struct itimerspec){0}; /* never */
	else if (at == 0)
		t.it_value.tv_nsec = 1;
	/* This cannot fail: the descriptor and the time are valid. */
	(void)timerfd_settime(loop.timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

void
weir_loop_look(struct weir *weir, uint64_t at)
{
	struct place *place;

	if (weir->place < 0)
		return;
	pthread_mutex_lock(&loop.lock);
	place = &loop.places[weir->place];
	if (at < place->at) {
		place->at = at;
		if (at < loop.rings_at)
			ring_at(at);
	}
	pthread_mutex_unlock(&loop.lock);
}

/* ---- the sockets ---- */

bool
weir_loop_watch(struct weir *weir)
{
	const struct weir_transport *t = weir->h.transport;
	uint32_t events = EPOLLIN | (weir->ring.wants_write ? EPOLLOUT : 0u);
	struct epoll_event event = {.events = events, .data.u32 = (uint32_t)weir->place};
	int operation = weir->watched_events != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (weir->watched_events == events)
		return true;
	if (epoll_ctl(loop.epoll_fd, operation, t->fd, &event) < 0)
		return false;
	event.events = EPOLLIN;
	if (weir->watched_events == 0 && t->group_fd >= 0 &&
		epoll_ctl(loop.epoll_fd, EPOLL_CTL_ADD, t->group_fd, &event) < 0) {
		(void)epoll_ctl(loop.epoll_fd, EPOLL_CTL_DEL, t->fd, NULL);
		return false;
	}
	weir->watched_events = events;
	return true;
}

void
weir_loop_unwatch(struct weir *weir, uint64_t at)
{
	const struct weir_transport *t = weir->h.transport;

	if (weir->watched_events == 0)
		return;
	weir_loop_look(weir, at);
	weir->watched_events = 0;
	(void)epoll_ctl(loop.epoll_fd, EPOLL_CTL_DEL, t->fd, NULL);
	if (t->group_fd >= 0)
		(void)epoll_ctl(loop.epoll_fd, EPOLL_CTL_DEL, t->group_fd, NULL);
}

/* ---- the thread ---- */

/* Look at the handle in this place. Releases the lock of the loop meanwhile. */
static void
look(uint32_t i)
{
	struct weir *weir = loop.places[i].weir;
	bool error = loop.places[i].has_error;

	loop.places[i].at = UINT64_MAX;
	loop.places[i].has_error = false;
	loop.at = weir;
	pthread_mutex_unlock(&loop.lock);
	pthread_mutex_lock(&weir->lock);
	weir_loop_look(weir, weir_serve(weir, error));
	pthread_mutex_unlock(&weir->lock);
	pthread_mutex_lock(&loop.lock);
	loop.at = NULL;
	pthread_cond_broadcast(&loop.changed);
}

/* Sleep until a handle is ready or due. Returns the number of events. Releases the lock of the loop
 * meanwhile. */
static int
sleep_for_events(struct epoll_event *events)
{
	uint64_t first = UINT64_MAX;
	int n;

	for (uint32_t i = 0; i < loop.room; i++)
		if (loop.places[i].weir != NULL && loop.places[i].at < first)
			first = loop.places[i].at;
	/* A timer that rings too early is not set again: timeouts move with each packet. */
	if (first < loop.rings_at || loop.rings_at <= weir_now())
		ring_at(first);
	pthread_mutex_unlock(&loop.lock);
	n = epoll_wait(loop.epoll_fd, events, EVENTS, -1);
	pthread_mutex_lock(&loop.lock);
	return n;
}

static void *
run(void *argument)
{
	struct epoll_event events[EVENTS];

	pthread_mutex_lock(&loop.lock);
	while (!loop.is_stopping) {
		int n = sleep_for_events(events);
		uint64_t now = weir_now();

		for (int i = 0; i < n; i++)
			if (events[i].data.u32 < loop.room) {
				struct place *place = &loop.places[events[i].data.u32];

				place->at = 0;
				place->has_error |= (events[i].events & EPOLLERR) != 0;
			}
		for (uint32_t i = 0; i < loop.room; i++)
			if (loop.places[i].weir != NULL && loop.places[i].at <= now)
				look(i);
	}
	pthread_mutex_unlock(&loop.lock);
	return argument;
}

/* Under the lock of the loop. 0 or -errno. */
static int
start(void)
{
	struct epoll_event timer = {.events = EPOLLIN, .data.u32 = TIMER};

	loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop.epoll_fd < 0 || loop.timer_fd < 0 ||
		epoll_ctl(loop.epoll_fd, EPOLL_CTL_ADD, loop.timer_fd, &timer) < 0)
		return -errno;
	loop.rings_at = UINT64_MAX;
	loop.is_stopping = false;
	return weir_thread_start(&loop.thread, run, NULL);
}

/* Find a free place. Returns loop.room if there is no memory. Under the lock of the loop. */
static uint32_t
find_place(void)
{
	struct place *more;
	uint32_t i = 0;

	while (i < loop.room && loop.places[i].weir != NULL)
		i++;
	if (i < loop.room)
		return i;
	more = realloc(loop.places, (loop.room + EVENTS) * sizeof(*more));
	if (more == NULL)
		return loop.room;
	memset(more + loop.room, 0, EVENTS * sizeof(*more));
	loop.places = more;
	loop.room += EVENTS;
	return i;
}

int
weir_loop_add(struct weir *weir)
{
	uint32_t place;
	int code = 0;

	pthread_mutex_lock(&loop.lock);
	while (loop.is_stopping)
		pthread_cond_wait(&loop.changed, &loop.lock);
	place = find_place();
	if (place == loop.room)
		code = -ENOMEM;
	else if (loop.handles == 0)
		code = start();
	if (code == 0) {
		loop.handles++;
		weir->place = (int)place;
		weir->hot_until = weir_now() + WEIR_HOT_NS;
		loop.places[place] = (struct place){.weir = weir, .at = weir->hot_until};
		if (weir->hot_until < loop.rings_at)
			ring_at(weir->hot_until);
	} else if (loop.handles == 0) {
		close_descriptors();
	}
	pthread_mutex_unlock(&loop.lock);
	if (code < 0)
		return weir_error_set(
			&weir->h, code, "cannot start the progress thread: %s", strerror(-code));
	return 0;
}

void
weir_loop_remove(struct weir *weir)
{
	if (weir->place < 0)
		return;
	pthread_mutex_lock(&loop.lock);
	loop.places[weir->place].weir = NULL;
	while (loop.at == weir)
		pthread_cond_wait(&loop.changed, &loop.lock);
	pthread_mutex_unlock(&loop.lock);
	pthread_mutex_lock(&weir->lock);
	weir_loop_unwatch(weir, UINT64_MAX);
	weir->place = -1;
	pthread_mutex_unlock(&weir->lock);
	pthread_mutex_lock(&loop.lock);
	if (--loop.handles == 0) {
		loop.is_stopping = true;
		ring_at(0);
		pthread_mutex_unlock(&loop.lock);
		pthread_join(loop.thread, NULL);
		pthread_mutex_lock(&loop.lock);
		loop.is_stopping = false;
		close_descriptors();
		pthread_cond_broadcast(&loop.changed);
	}
	pthread_mutex_unlock(&loop.lock);
}
