/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-mpi-KIND-offload.so: what the preload library calls instead of MPI (calls.h), on top of the core
 * (offload.h).
 *
 * The state of a communicator is its attribute. A nonblocking operation is a generalized request, so MPI's own functions
 * wait for it, among requests of all kinds.
 *
 * Progress. MPI obliges an operation to go on while its rank is blocked in any MPI call, also in calls that are not
 * taken over, such as MPI_Recv or MPI_Win_fence. Two ways:
 *
 *	Open MPI  calls functions that were registered with opal_progress_register() while it waits for anything.
 *	others    have nothing of this kind. The library asks MPI for MPI_THREAD_MULTIPLE, and while requests are
 *	          outstanding, a thread calls offload_progress() once a millisecond. If MPI grants less, nonblocking
 *	          calls stay with MPI.
 */
#include "apps/mpi/offload.h"
#include "apps/mpi/pmpi/calls.h"
#include "apps/mpi/pmpi/create.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Static_assert(OFFLOAD_MPI == WEIR_MPI_NEXT, "the core's answer is the hook's");

#define FROM_INIT (-1)
#define BUCKETS   256 /* of the table of requests */
#define ROUND_NS  1000000 /* between two rounds of the thread */
#define EXPORTED  __attribute__((visibility("default")))

/* A nonblocking operation, from start() to reap(). */
struct request {
	struct request *next; /* in its bucket, or among the dead */
	struct offload_op *op;
	MPI_Comm comm; /* whose error handler is called; MPI_COMM_WORLD once it is freed */
	MPI_Request handle; /* MPI_REQUEST_NULL: MPI could not make one, and start() has told so */
	atomic_uint stages; /* 2: start() is done with it, and the operation has ended */
	atomic_uint references; /* of MPI, and of the list of failures */
	struct request *next_failure;
	int index; /* in the array of the completion call */
	int error;
	bool failed; /* in a list of failures */
};

static struct {
	bool running; /* between MPI_Init and MPI_Finalize */
	bool nonblocking; /* nonblocking calls go on whatever the rank waits for */
	int keyval; /* of the attribute: struct offload_comm *, or &never */
	int (*add)(int (*progress)(void)); /* opal_progress_register */
	int (*remove)(int (*progress)(void));
	void (*progress)(void); /* opal_progress */
	MPI_Comm own; /* a duplicate of MPI_COMM_SELF that returns errors */
	MPI_Request endless; /* without it: a generalized request that ends in MPI_Finalize */
} mpi;
static char never; /* the attribute of a communicator that the core has no state for */

/* The requests, by handle, and the thread. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct request *buckets[BUCKETS];
	struct request *dead; /* without references */
	atomic_uint known; /* requests in the table */
	unsigned int outstanding; /* operations that have not ended */
	pthread_t thread;
	bool threaded, stop;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static __thread bool
	inside; /* this thread is in a hook that calls PMPI functions which have hooks */
/* The failed operations whose statuses MPI has asked for in this completion call. */
static __thread struct {
	bool collecting;
	struct request *first;
} failures;

/* ---- communicators ---- */

static int
raise_error(MPI_Comm comm, int error)
{
	PMPI_Comm_call_errhandler(comm, error);
	return error;
}

/* How many operations of a communicator are in progress. From now on its requests belong to `heir`. */
static unsigned int
requests_of(MPI_Comm comm, MPI_Comm heir)
{
	unsigned int n = 0;

	pthread_mutex_lock(&table.lock);
	for (size_t i = 0; i < BUCKETS && table.known > 0; i++)
		for (struct request *request = table.buckets[i]; request != NULL;
			request = request->next)
			if (request->comm == comm) {
				n += atomic_load(&request->stages) < 2;
				request->comm = heir;
			}
	pthread_mutex_unlock(&table.lock);
	return n;
}

static int
comm_freed(MPI_Comm comm, int keyval, void *state, void *extra)
{
	(void)keyval;
	(void)extra;
	requests_of(comm, MPI_COMM_WORLD);
	if (mpi.running && state != &never)
		offload_comm_release(state);
	return MPI_SUCCESS;
}

/* The communicator's state; NULL: its calls are MPI's. */
static struct offload_comm *
comm_state(MPI_Comm comm)
{
	void *state = NULL;
	int set = 0;

	if (!mpi.running || inside || offload_inside() || comm == MPI_COMM_NULL ||
		PMPI_Comm_get_attr(comm, mpi.keyval, &state, &set) != MPI_SUCCESS)
		return NULL;
	if (!set) {
		state = offload_comm_create(comm);
		if (state == NULL)
			state = &never;
		if (PMPI_Comm_set_attr(comm, mpi.keyval, state) != MPI_SUCCESS)
			return NULL;
	}
	return state == &never ? NULL : state;
}

/* ---- requests ---- */

static struct request **
bucket_of(MPI_Request handle)
{
	uintptr_t key = (uintptr_t)handle;

	return &table.buckets[(key ^ key >> 8 ^ key >> 16) % BUCKETS];
}

/* The last reference leaves the request to reap(): MPICH holds a lock meanwhile, and the core's locks are outside of it. */
static void
drop(struct request *request)
{
	if (atomic_fetch_sub(&request->references, 1) != 1)
		return;
	pthread_mutex_lock(&table.lock);
	request->next = table.dead;
	table.dead = request;
	pthread_mutex_unlock(&table.lock);
}

static void
finish(struct request *request)
{
	if (atomic_fetch_add(&request->stages, 1) != 1)
		return;
	if (request->handle != MPI_REQUEST_NULL)
		PMPI_Grequest_complete(request->handle);
	else
		drop(request);
}

static void
count_out(void)
{
	pthread_mutex_lock(&table.lock);
	table.outstanding--;
	pthread_mutex_unlock(&table.lock);
}

static void
ended(void *context, int error)
{
	struct request *request = context;

	count_out();
	request->error = error;
	finish(request);
}

/*
 * MPI asks for the status of a request that has ended. It is never the error: MPI would call the error handler of
 * another communicator. The hook calls the right one.
 */
static int
query(void *context, MPI_Status *status)
{
	struct request *request = context;

	if (request->error != MPI_SUCCESS && failures.collecting && !request->failed) {
		request->failed = true;
		atomic_fetch_add(&request->references, 1);
		request->next_failure = failures.first;
		failures.first = request;
	}
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	return MPI_SUCCESS;
}

/* MPI frees a request. */
static int
forget(void *context)
{
	struct request *request = context, **at;

	pthread_mutex_lock(&table.lock);
	for (at = bucket_of(request->handle); *at != NULL && *at != request; at = &(*at)->next)
		;
	if (*at != NULL)
		*at = request->next;
	table.known--;
	pthread_mutex_unlock(&table.lock);
	drop(request);
	return MPI_SUCCESS;
}

/* Free the requests without references. */
static void
reap(void)
{
	struct request *dead, *next;

	pthread_mutex_lock(&table.lock);
	dead = table.dead;
	table.dead = NULL;
	pthread_mutex_unlock(&table.lock);
	for (; dead != NULL; dead = next) {
		next = dead->next;
		offload_op_free(dead->op);
		free(dead);
	}
}

static int
cancel(void *context, int complete)
{
	(void)context;
	(void)complete;
	return MPI_SUCCESS;
}

static void *
go_on(void *unused)
{
	struct timespec round = {.tv_nsec = ROUND_NS};

	pthread_mutex_lock(&table.lock);
	while (!table.stop) {
		if (table.outstanding == 0) {
			pthread_cond_wait(&table.wake, &table.lock);
			continue;
		}
		pthread_mutex_unlock(&table.lock);
		nanosleep(&round, NULL);
		offload_progress();
		pthread_mutex_lock(&table.lock);
	}
	pthread_mutex_unlock(&table.lock);
	return unused;
}

/* One more operation is outstanding. Without a thread where one is needed, false. */
static bool
count_in(void)
{
	bool can;

	pthread_mutex_lock(&table.lock);
	if (mpi.add == NULL && !table.threaded)
		table.threaded = thread_start(&table.thread, go_on, NULL);
	can = mpi.add != NULL || table.threaded;
	if (can && table.outstanding++ == 0 && table.threaded)
		pthread_cond_signal(&table.wake);
	pthread_mutex_unlock(&table.lock);
	return can;
}

/* ---- collectives ---- */

static int
run(MPI_Comm comm, const struct offload_call *call)
{
	struct offload_comm *state = comm_state(comm);
	int error = state == NULL ? OFFLOAD_MPI : offload_run(state, call);

	return error > 0 ? raise_error(comm, error) : error;
}

static int
start(MPI_Comm comm, const struct offload_call *call, MPI_Request *handle)
{
	struct offload_comm *state = mpi.nonblocking ? comm_state(comm) : NULL;
	struct request *request;
	int error;

	if (state == NULL)
		return OFFLOAD_MPI;
	/* From here on, MPI cannot do it instead: the other ranks do not know. */
	request = calloc(1, sizeof(*request));
	if (request == NULL || !count_in()) {
		free(request);
		return raise_error(comm, MPI_ERR_NO_MEM);
	}
	request->comm = comm;
	atomic_init(&request->references, 1);
	error = offload_start(state, call, ended, request, &request->op);
	if (error != MPI_SUCCESS) {
		count_out();
		free(request);
		return error > 0 ? raise_error(comm, error) : error;
	}
	error = PMPI_Grequest_start(query, forget, cancel, request, &request->handle);
	if (error != MPI_SUCCESS) {
		/* The operation goes on, for the other ranks. */
		request->handle = MPI_REQUEST_NULL;
		finish(request);
		return raise_error(comm, error);
	}
	pthread_mutex_lock(&table.lock);
	request->next = *bucket_of(request->handle);
	*bucket_of(request->handle) = request;
	table.known++;
	pthread_mutex_unlock(&table.lock);
	*handle = request->handle;
	finish(request);
	return MPI_SUCCESS;
}

#define HOOKS(id, name, lower, shape, ...)                                                         \
	static int hook_##name(OFFLOAD_PARAMETERS(shape) MPI_Comm comm)                            \
	{                                                                                          \
		return run(comm, &OFFLOAD_CALL(id, shape));                                        \
	}                                                                                          \
	static int hook_I##lower(OFFLOAD_PARAMETERS(shape) MPI_Comm comm, MPI_Request *request)    \
	{                                                                                          \
		return start(comm, &OFFLOAD_CALL(id, shape), request);                             \
	}
OFFLOAD_LIST(HOOKS)

#define LARGE_HOOKS(id, name, lower, shape, ...)                                                   \
	static int hook_##name##_c(OFFLOAD_LARGE_PARAMETERS(shape) MPI_Comm comm)                  \
	{                                                                                          \
		return run(comm, &OFFLOAD_CALL(id, shape));                                        \
	}                                                                                          \
	static int hook_I##lower##_c(                                                              \
		OFFLOAD_LARGE_PARAMETERS(shape) MPI_Comm comm, MPI_Request *request)               \
	{                                                                                          \
		return start(comm, &OFFLOAD_CALL(id, shape), request);                             \
	}
OFFLOAD_COUNTED_LIST(LARGE_HOOKS)

/* ---- completion ---- */

/* The operation behind requests[index], if this library has made that request; its failure will be told for this index. */
static struct offload_op *
note_ours(const MPI_Request *requests, int index)
{
	struct request *request;

	pthread_mutex_lock(&table.lock);
	for (request = *bucket_of(requests[index]);
		request != NULL && request->handle != requests[index]; request = request->next)
		;
	if (request != NULL)
		request->index = index;
	pthread_mutex_unlock(&table.lock);
	return request == NULL ? NULL : request->op;
}

/* All requests are going to be waited for: wait for the operations among them in the way that suits them. */
static void
await_all(int n, const MPI_Request *requests)
{
	struct offload_op *op;

	for (int i = 0; i < n && table.known > 0; i++) {
		op = note_ours(requests, i);
		if (op != NULL)
			offload_op_wait(op);
	}
}

/* How many of the requests are operations. */
static int
count_ours(int n, const MPI_Request *requests)
{
	int ours = 0;

	for (int i = 0; i < n && table.known > 0; i++)
		ours += note_ours(requests, i) != NULL;
	return ours;
}

/* Until one of the requests has ended, if operations are among them. */
static void
await_any(int n, const MPI_Request *requests)
{
	int ours = count_ours(n, requests), done = 0;

	while (ours > 0 && !done) {
		offload_progress();
		for (int i = 0; i < n && !done; i++)
			if (requests[i] != MPI_REQUEST_NULL &&
				PMPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE) !=
					MPI_SUCCESS)
				done = 1;
		if (!done)
			sched_yield();
	}
}

static void
advance(int n, const MPI_Request *requests)
{
	count_ours(n, requests);
	offload_progress();
}

/* The end of a call for one request. error: MPI's answer. */
static int
end_one(int error)
{
	struct request *request = failures.first;

	if (request == NULL)
		return error;
	failures.first = NULL;
	error = raise_error(request->comm, request->error);
	drop(request);
	return error;
}

/*
 * The end of a call for several requests, which has completed n of them: which[0..n), or NULL for all of the array. As MPI
 * demands, the statuses have the errors, and one error handler is called.
 */
static int
end_several(int error, int n, const int *which, MPI_Status *statuses)
{
	struct request *request = failures.first;
	MPI_Comm comm = MPI_COMM_NULL;
	int class = error, raised = MPI_SUCCESS;

	failures.first = NULL;
	if (error != MPI_SUCCESS &&
		(PMPI_Error_class(error, &class) != MPI_SUCCESS || class != MPI_ERR_IN_STATUS))
		n = 0; /* MPI has not said what it completed */
	if (request != NULL && statuses != MPI_STATUSES_IGNORE && error == MPI_SUCCESS)
		for (int i = 0; i < n; i++)
			statuses[i].MPI_ERROR = MPI_SUCCESS;
	for (struct request *next; request != NULL; request = next) {
		next = request->next_failure;
		for (int i = 0; i < n; i++) {
			if ((which != NULL ? which[i] : i) != request->index)
				continue;
			comm = request->comm;
			raised = request->error;
			if (statuses != MPI_STATUSES_IGNORE)
				statuses[i].MPI_ERROR = request->error;
		}
		request->failed = false;
		drop(request);
	}
	if (raised == MPI_SUCCESS)
		return error;
	raise_error(comm, raised);
	return MPI_ERR_IN_STATUS;
}

#define BEFORE_Wait               await_all(1, request)
#define BEFORE_Waitall            await_all(n, requests)
#define BEFORE_Waitany            await_any(n, requests)
#define BEFORE_Waitsome           await_any(n, requests)
#define BEFORE_Test               offload_progress()
#define BEFORE_Testall            advance(n, requests)
#define BEFORE_Testany            offload_progress()
#define BEFORE_Testsome           advance(n, requests)
#define BEFORE_Request_get_status offload_progress()

#define AFTER_Wait                end_one(error)
#define AFTER_Waitall             end_several(error, n, NULL, statuses)
#define AFTER_Waitany             end_one(error)
#define AFTER_Waitsome            end_several(error, *done, which, statuses)
#define AFTER_Test                end_one(error)
#define AFTER_Testall             end_several(error, *done ? n : 0, NULL, statuses)
#define AFTER_Testany             end_one(error)
#define AFTER_Testsome            end_several(error, *done, which, statuses)
#define AFTER_Request_get_status  end_several(error, 0, NULL, MPI_STATUSES_IGNORE) /* no failure */

#define HOOK(name, parameters, arguments)                                                          \
	static int hook_##name parameters                                                          \
	{                                                                                          \
		int error;                                                                         \
                                                                                                   \
		if (table.known == 0 || inside || offload_inside())                                \
			return WEIR_MPI_NEXT;                                                      \
		inside = true;                                                                     \
		BEFORE_##name;                                                                     \
		failures.collecting = true;                                                        \
		error = PMPI_##name arguments;                                                     \
		failures.collecting = inside = false;                                              \
		error = AFTER_##name;                                                              \
		reap();                                                                            \
		return error;                                                                      \
	}
WEIR_MPI_COMPLETIONS(HOOK)

/* ---- MPI_Init and MPI_Finalize ---- */

/* MPI_Iprobe would not do: MPICH's makes progress only if there is nothing to find, and not on MPI_COMM_SELF. */
static void
progress(void)
{
	bool former = inside;
	int done;

	if (mpi.progress != NULL) {
		mpi.progress();
		return;
	}
	inside = true;
	PMPI_Test(&mpi.endless, &done, MPI_STATUS_IGNORE);
	inside = former;
}

/*
 * MPI would keep a communicator until its own operations have ended. It does not know of those here, and they need the
 * communicator to open it and to unpack. The call is collective, so it may wait for them.
 */
static int
hook_Comm_free(MPI_Comm *comm)
{
	while (mpi.running && !inside && !offload_inside() && requests_of(*comm, *comm) > 0) {
		offload_progress();
		progress();
		sched_yield();
	}
	return WEIR_MPI_NEXT;
}

static int
hook_Comm_disconnect(MPI_Comm *comm)
{
	return hook_Comm_free(comm);
}

#if MPI_VERSION >= 4
#pragma weak PMPI_Comm_create_from_group /* the library may be older than the header */
#endif

/* Without MPI_Init, this library has not begun: rank 0 says so. */
static int
hook_Comm_create_from_group(
	MPI_Group group, const char *tag, MPI_Info info, MPI_Errhandler handler, MPI_Comm *comm)
{
	int error = WEIR_MPI_NEXT;
#if MPI_VERSION >= 4
	struct offload_settings settings;
	int rank, size;

	if (mpi.running || inside || PMPI_Comm_create_from_group == NULL)
		return WEIR_MPI_NEXT;
	inside = true;
	error = PMPI_Comm_create_from_group(group, tag, info, handler, comm);
	inside = false;
	offload_environment(&settings);
	if (error == MPI_SUCCESS && *comm != MPI_COMM_NULL && settings.verbose > 0 &&
		PMPI_Comm_rank(*comm, &rank) == MPI_SUCCESS && rank == 0 &&
		PMPI_Comm_size(*comm, &size) == MPI_SUCCESS)
		fprintf(stderr,
			"weir: %s with %d ranks stays on MPI: it is made of a session, without "
			"MPI_Init\n",
			tag, size);
#else
	(void)group, (void)tag, (void)info, (void)handler, (void)comm;
#endif
	return error;
}

static int
query_endless(void *context, MPI_Status *status)
{
	(void)context;
	(void)status;
	return MPI_SUCCESS;
}

static int
free_endless(void *context)
{
	(void)context;
	return MPI_SUCCESS;
}

/* required: of MPI_Init_thread; FROM_INIT: MPI_Init was called. */
static int
begin(int *argc, char ***argv, int required, int *provided)
{
	struct offload_front front = {.progress = progress};
	struct offload_settings settings;
	int error;

	mpi.add = (int (*)(int (*)(void)))(uintptr_t)dlsym(RTLD_DEFAULT, "opal_progress_register");
	mpi.remove =
		(int (*)(int (*)(void)))(uintptr_t)dlsym(RTLD_DEFAULT, "opal_progress_unregister");
	mpi.progress = (void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "opal_progress");
	inside = true;
	if (mpi.add == NULL)
		error = PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, provided);
	else if (required == FROM_INIT)
		error = PMPI_Init(argc, argv);
	else
		error = PMPI_Init_thread(argc, argv, required, provided);
	inside = false;
	if (error != MPI_SUCCESS ||
		PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_freed, &mpi.keyval, NULL) !=
			MPI_SUCCESS)
		return error;
	if (mpi.progress == NULL &&
		PMPI_Grequest_start(query_endless, free_endless, cancel, NULL, &mpi.endless) !=
			MPI_SUCCESS)
		return MPI_SUCCESS;
	if (PMPI_Comm_dup(MPI_COMM_SELF, &mpi.own) != MPI_SUCCESS)
		return MPI_SUCCESS;
	PMPI_Comm_set_errhandler(mpi.own, MPI_ERRORS_RETURN);
	mpi.nonblocking =
		mpi.add != NULL ? mpi.add(offload_progress) == 0 : *provided == MPI_THREAD_MULTIPLE;
	front.own = mpi.own;
	if (mpi.nonblocking)
		set_creation(&front);
	offload_environment(&settings);
	offload_init(&front, &settings);
	mpi.running = true;
	return MPI_SUCCESS;
}

static int
hook_Init(int *argc, char ***argv)
{
	int provided;

	return inside ? WEIR_MPI_NEXT : begin(argc, argv, FROM_INIT, &provided);
}

static int
hook_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return inside ? WEIR_MPI_NEXT : begin(argc, argv, required, provided);
}

static int
hook_Finalize(void)
{
	if (!mpi.running)
		return WEIR_MPI_NEXT;
	if (mpi.remove != NULL)
		mpi.remove(offload_progress);
	pthread_mutex_lock(&table.lock);
	table.stop = true;
	pthread_cond_signal(&table.wake);
	pthread_mutex_unlock(&table.lock);
	if (table.threaded)
		pthread_join(table.thread, NULL);
	reap();
	offload_finalize();
	mpi.running = false;
	PMPI_Comm_free(&mpi.own);
	if (mpi.progress == NULL) {
		PMPI_Grequest_complete(mpi.endless);
		PMPI_Wait(&mpi.endless, MPI_STATUS_IGNORE);
	}
	return WEIR_MPI_NEXT;
}

EXPORTED const struct weir_mpi_calls weir_mpi_hooks = {
#define WEIR_X(name, parameters, arguments) .name = hook_##name,
	WEIR_MPI_CALLS(WEIR_X)
#undef WEIR_X
};
