/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/work.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "apps/libweir/handle.h"

#define IDLE_NS (1000 * WEIR_NS_PER_MS) /* without work, before the thread ends */
#define EXIT_NS (2000 * WEIR_NS_PER_MS) /* that the end of the process waits */

static pthread_once_t once_delayed = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* a run() or the thread has ended */
static TAILQ_HEAD(, weir_work) works = TAILQ_HEAD_INITIALIZER(works);
static size_t count; /* of works */
static pthread_t thread;
static struct weir_work *current; /* run() is under way; the work may have been freed */
static bool is_thread_running, is_exiting;
/* A thread has ended, but thread destructors of other libraries may still run in it. */
static bool needs_join;
static int wake_fd;

static void
take_out(struct weir_work *work)
{
	TAILQ_REMOVE(&works, work, link);
	work->is_queued = false;
	count--;
}

/* The first work that is due; NULL: none, and *at is when one is. */
static struct weir_work *
find_due(uint64_t now, uint64_t *at)
{
	struct weir_work *work;

	*at = UINT64_MAX;
	TAILQ_FOREACH (work, &works, link) {
		if (work->at <= now)
			return work;
		if (work->at < *at)
			*at = work->at;
	}
	return NULL;
}

/* Sleep until a work is due, or `until`; works whose descriptors are readable become due. Under the
 * lock, which is released meanwhile. false: no memory. */
static bool
await_work(uint64_t until)
{
	struct pollfd *polls = calloc(count + 1, sizeof(*polls));
	struct weir_work *work;
	eventfd_t wakes;
	nfds_t n = 0;

	if (polls == NULL)
		return false;
	polls[n++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
	TAILQ_FOREACH (work, &works, link)
		polls[n++] = (struct pollfd){.fd = work->fd, .events = POLLIN};
	pthread_mutex_unlock(&lock);
	weir_sleep(polls, n, until);
	pthread_mutex_lock(&lock);
	if (polls[0].revents != 0)
		(void)eventfd_read(wake_fd, &wakes);
	/* Works may have come and gone meanwhile: compare descriptors. */
	TAILQ_FOREACH (work, &works, link)
		for (nfds_t i = 1; i < n && work->fd >= 0; i++)
			if (polls[i].fd == work->fd && polls[i].revents != 0)
				work->at = 0;
	free(polls);
	return true;
}

static void *
control_thread(void *argument)
{
	uint64_t idle_since = weir_now();

	pthread_mutex_lock(&lock);
	for (;;) {
		uint64_t now = weir_now(), at;
		struct weir_work *work = find_due(now, &at);

		if (work != NULL) {
			take_out(work);
			current = work;
			pthread_mutex_unlock(&lock);
			work->run(work);
			pthread_mutex_lock(&lock);
			current = NULL;
			idle_since = weir_now();
			pthread_cond_broadcast(&changed);
			continue;
		}
		if (TAILQ_EMPTY(&works) && (is_exiting || now >= idle_since + IDLE_NS))
			break;
		if (TAILQ_EMPTY(&works))
			at = idle_since + IDLE_NS;
		if (!await_work(at))
			sched_yield();
	}
	close(wake_fd);
	is_thread_running = false;
	needs_join = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return argument;
}

/* May be called under the lock: a thread that has ended takes it no more. */
static void
join_ended(void)
{
	if (needs_join)
		pthread_join(thread, NULL);
	needs_join = false;
}

int
weir_thread_start(pthread_t *to, void *(*body)(void *), void *argument)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(to, NULL, body, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

/* ---- the process ---- */

static void
in_child(void)
{
	if (is_thread_running)
		close(wake_fd);
	is_thread_running = is_exiting = needs_join = false;
	current = NULL;
	while (!TAILQ_EMPTY(&works))
		take_out(TAILQ_FIRST(&works));
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&lock);
}

WEIR_SEES_FORKS(&lock, in_child)

/*
 * Wait for works that delay the exit; the others belong to handles that were not closed. Then wait
 * for the end of the thread: OpenSSL's thread destructor and its exit handler free the same memory.
 */
static void
at_end(void)
{
	uint64_t until = weir_now() + EXIT_NS;
	struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
	struct weir_work *work, *next;

	pthread_mutex_lock(&lock);
	is_exiting = true;
	for (work = TAILQ_FIRST(&works); work != NULL; work = next) {
		next = TAILQ_NEXT(work, link);
		if (!work->delays_exit)
			take_out(work);
	}
	if (is_thread_running)
		(void)eventfd_write(wake_fd, 1);
	while (is_thread_running &&
		pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &t) == 0)
		;
	join_ended();
	pthread_mutex_unlock(&lock);
}

/* Handlers run in the reverse order. A work that delays the exit follows an HTTP request, so
 * OpenSSL's handler is registered already and runs after this one. */
static void
watch_end(void)
{
	(void)atexit(at_end);
}

/* ---- works ---- */

/* Under the lock. */
static int
start_thread(void)
{
	int code;

	if (is_thread_running)
		return 0;
	join_ended();
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd < 0)
		return -errno;
	code = weir_thread_start(&thread, control_thread, NULL);
	if (code < 0) {
		close(wake_fd);
		return code;
	}
	is_thread_running = true;
	return 0;
}

int
weir_work_submit(struct weir_work *work, uint64_t at)
{
	int code;

	(void)sees_forks();
	if (work->delays_exit)
		pthread_once(&once_delayed, watch_end);
	pthread_mutex_lock(&lock);
	code = start_thread();
	if (code == 0 && !work->is_queued) {
		work->is_queued = true;
		work->at = at;
		TAILQ_INSERT_TAIL(&works, work, link);
		count++;
		(void)eventfd_write(wake_fd, 1);
	} else if (code == 0 && at < work->at) {
		work->at = at;
		(void)eventfd_write(wake_fd, 1);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

void
weir_work_cancel(struct weir_work *work)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		if (work->is_queued)
			take_out(work);
		if (current != work || (is_thread_running && pthread_equal(thread, pthread_self())))
			break;
		pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
}
