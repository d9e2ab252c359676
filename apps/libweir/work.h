/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread: one per process. It waits for the control API while the application and the
 * progress thread go on. It opens handles (weir_iopen), asks about silence, and leaves temporary
 * jobs. It starts with the first work, and ends when it has had none for a second.
 *
 * Works run one after the other. So a work must not wait for other hosts: it names a descriptor or
 * a time, and returns. After fork() the child has no works and no thread.
 */
#ifndef APPS_LIBWEIR_WORK_H
#define APPS_LIBWEIR_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct weir_work {
	/* Called in the control thread, once per submission. It may submit the work again, or free
	 * it. */
	void (*run)(struct weir_work *work);
	void *owner; /* for run() */
	int fd; /* run() is called early if this is readable; -1: none */
	bool delays_exit; /* the exit of the process waits for it, for 2 s at most */

	TAILQ_ENTRY(weir_work) link; /* this and all that follows: work.c's */
	uint64_t at;
	bool is_queued;
};

/*
 * Have run() called at `at` (ns, weir_now(); 0: soon; UINT64_MAX: only for the descriptor), or
 * earlier if it is already queued for an earlier time. Any thread; it may hold locks that run()
 * takes. 0; or -errno if the thread cannot start, and then it is not queued.
 */
int weir_work_submit(struct weir_work *work, uint64_t at);

/* Remove the work from the queue. If run() is under way, wait for its end, unless run() is the
 * caller. The caller must not hold a lock that run() takes. Afterwards the work may be freed. */
void weir_work_cancel(struct weir_work *work);

/* pthread_create(), with all signals blocked, so that the application's threads get its signals. 0
 * or -errno. */
int weir_thread_start(pthread_t *thread, void *(*body)(void *), void *argument);

/*
 * Defines bool sees_forks(void). From its first call on, fork() waits for `lock`; the parent
 * releases it, and the child calls in_child(), which must release it. False: no memory.
 */
#define WEIR_SEES_FORKS(lock, in_child)                                                            \
	static bool fork_seen;                                                                     \
	static void before_fork(void)                                                              \
	{                                                                                          \
		pthread_mutex_lock(lock);                                                          \
	}                                                                                          \
	static void after_fork(void)                                                               \
	{                                                                                          \
		pthread_mutex_unlock(lock);                                                        \
	}                                                                                          \
	static void watch_forks(void)                                                              \
	{                                                                                          \
		fork_seen = pthread_atfork(before_fork, after_fork, in_child) == 0;                \
	}                                                                                          \
	static bool sees_forks(void)                                                               \
	{                                                                                          \
		static pthread_once_t once = PTHREAD_ONCE_INIT;                                    \
                                                                                                   \
		pthread_once(&once, watch_forks);                                                  \
		return fork_seen;                                                                  \
	}

#endif
