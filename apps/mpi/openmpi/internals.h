/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comes before Open MPI's internal headers. Debian's package of Open MPI 5.0 lacks its headers of POSIX threads
 * (opal/mca/threads/pthreads): what the others need of them is here.
 */
#ifndef MPI_OPENMPI_INTERNALS_H
#define MPI_OPENMPI_INTERNALS_H

#include <ompi_config.h>

#if OMPI_MAJOR_VERSION == 5
#if !__has_include(MCA_threads_mutex_base_include_HEADER)
#include <pthread.h>
#include <sched.h>
#undef MCA_threads_base_include_HEADER
#undef MCA_threads_mutex_base_include_HEADER
#undef MCA_threads_tsd_base_include_HEADER
#define MCA_threads_base_include_HEADER       <pthread.h>
#define MCA_threads_mutex_base_include_HEADER <pthread.h>
#define MCA_threads_tsd_base_include_HEADER   <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;
typedef pthread_key_t opal_tsd_key_t;
#define opal_thread_internal_cond_init(cond)      pthread_cond_init(cond, NULL)
#define opal_thread_internal_cond_destroy(cond)   ((void)pthread_cond_destroy(cond))
#define opal_thread_internal_cond_signal(cond)    ((void)pthread_cond_signal(cond))
#define opal_thread_internal_mutex_destroy(mutex) ((void)pthread_mutex_destroy(mutex))
#define opal_thread_internal_mutex_trylock(mutex) (pthread_mutex_trylock(mutex) != 0)
#define opal_thread_internal_mutex_lock(mutex)    ((void)pthread_mutex_lock(mutex))
#define opal_thread_internal_mutex_unlock(mutex)  ((void)pthread_mutex_unlock(mutex))
#define opal_tsd_get(key, value)                  (*(value) = pthread_getspecific(key))

static inline void
opal_thread_yield(void)
{
	sched_yield();
}

static inline int
opal_thread_internal_mutex_init(pthread_mutex_t *mutex, bool recursive)
{
	pthread_mutexattr_t attributes;
	int code = pthread_mutexattr_init(&attributes);

	if (code != 0)
		return code;
	pthread_mutexattr_settype(
		&attributes, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT);
	code = pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return code;
}
#endif
#endif

#endif
