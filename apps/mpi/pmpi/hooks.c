/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-mpi-KIND-offload.so: what the preload library calls instead of MPI (calls.h), on top of
 * the core (offload.h).
 *
 * The state of a communicator is its attribute. A nonblocking operation is a generalized request,
 * so MPI's own functions complete it, among requests of all kinds; before they wait, the hook waits
 * here, in the way that suits operations.
 *
 * Progress. MPI obliges an operation to go on while its rank is blocked in any MPI call, also in
 * calls that are not taken over, such as MPI_Recv or MPI_Win_fence. Two ways:
 *
 *	Open MPI  calls functions that were registered with opal_progress_register() while it
 *	          waits for anything.
 *	others    have nothing of this kind. The library asks MPI for MPI_THREAD_MULTIPLE, and while
 *	          operations are in progress, a thread calls offload_progress() once a millisecond.
 *	          If MPI grants less, nonblocking calls stay with MPI.
 *
 * Errors. MPI would call the error handler of MPI_COMM_WORLD for a generalized request. So the
 * request always succeeds, and its status tells the hook of the completion call that it did not;
 * the hook calls the communicator's handler.
 */
#include "apps/mpi/offload.h"
#include "apps/libweir/work.h"
#include "apps/mpi/create.h"
#include "apps/mpi/pmpi/calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Static_assert(OFFLOAD_MPI == WEIR_MPI_NEXT, "the core's answer is the hook's");

#define FROM_INIT (-1)
#define ROUND_NS  1000000 /* between two rounds of the thread */
#define EXPORTED  __attribute__((visibility("default")))
#define BUCKETS   256 /* of the table of requests */
/* The tag in the status of a failed operation, whose source is the error. */
#define FAILED (MPI_UNDEFINED - 1)

/* Open MPI alone has these. */
extern void opal_progress(void) __attribute__((weak));
extern int opal_progress_register(int (*progress)(void)) __attribute__((weak));
extern int opal_progress_unregister(int (*progress)(void)) __attribute__((weak));

static struct {
	bool running; /* between MPI_Init and MPI_Finalize */
	bool nonblocking; /* nonblocking calls go on whatever the rank waits for */
	int keyval; /* of the attribute: struct offload_comm *, or NULL */
	MPI_Comm own; /* a duplicate of MPI_COMM_SELF that returns errors */
	MPI_Request
		endless; /* a generalized request that ends in MPI_Finalize; not with Open MPI */
} mpi;

/* A nonblocking operation, until MPI frees its request. */
struct request {
	struct request *next; /* in its bucket */
	struct offload_op *op;
	MPI_Request handle;
	atomic_bool has_ended;
};

/* The requests by handle, and the thread that runs while some have not ended. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct request *bucket[BUCKETS];
	atomic_uint requests; /* that MPI has not freed */
	atomic_uint in_progress; /* of them, those that have not ended */
	pthread_t thread;
	bool started, stop;
} rounds = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* What MPI has found in this completion call: an operation that failed. */
static __thread struct {
	bool collecting;
	int error;
	MPI_Comm comm;
} failure;

/* ---- communicators ---- */

static int
raise_error(MPI_Comm comm, int error)
{
	PMPI_Comm_call_errhandler(comm, error);
	return error;
}

static int
comm_freed(MPI_Comm comm, int keyval, void *state, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	if (mpi.running)
		offload_comm_release(state);
	return MPI_SUCCESS;
}

/* The communicator's state; NULL: its calls are MPI's. */
static struct offload_comm *
comm_state(MPI_Comm comm)
{
	void *state = NULL;
	int set = 0;

	if (!mpi.running || inside > 0 || comm == MPI_COMM_NULL ||
		PMPI_Comm_get_attr(comm, mpi.keyval, &state, &set) != MPI_SUCCESS)
		return NULL;
	if (!set) {
		state = offload_comm_create(comm);
		if (PMPI_Comm_set_attr(comm, mpi.keyval, state) != MPI_SUCCESS)
			return NULL;
	}
	return state;
}

/* ---- requests ---- */

static struct request **
bucket_of(MPI_Request handle)
{
	uintptr_t key = (uintptr_t)handle;

	return &rounds.bucket[(key ^ key >> 8 ^ key >> 16) % BUCKETS];
}

/* The library's own request with this handle; NULL: another one. */
static const struct request *
own_request(MPI_Request handle)
{
	const struct request *request;

	pthread_mutex_lock(&rounds.lock);
	for (request = *bucket_of(handle); request != NULL && request->handle != handle;
		request = request->next)
		;
	pthread_mutex_unlock(&rounds.lock);
	return request;
}

static void
ended(void *context, int error)
{
	struct request *request = context;

	(void)error; /* query() asks for it */
	atomic_store(&request->has_ended, true);
	rounds.in_progress--;
	PMPI_Grequest_complete(request->handle);
}

/* MPI asks for the status of a request that has ended. */
static int
query(void *context, MPI_Status *status)
{
	const struct request *request = context;
	MPI_Comm comm;
	int error = request->op != NULL ? offload_op_error(request->op, &comm) : MPI_SUCCESS;

	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	if (error != MPI_SUCCESS && failure.collecting) {
		failure.error = status->MPI_SOURCE = error;
		failure.comm = comm;
		status->MPI_TAG = FAILED;
	}
	return MPI_SUCCESS;
}

/* MPI frees a request. */
static int
forget(void *context)
{
	struct request *request = context, **at;

	pthread_mutex_lock(&rounds.lock);
	for (at = bucket_of(request->handle); *at != NULL && *at != request; at = &(*at)->next)
		;
	if (*at != NULL)
		*at = request->next;
	rounds.requests--;
	rounds.in_progress -= !request->has_ended;
	pthread_mutex_unlock(&rounds.lock);
	offload_op_free(request->op);
	free(request);
	return MPI_SUCCESS;
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

	pthread_mutex_lock(&rounds.lock);
	while (!rounds.stop) {
		if (rounds.in_progress == 0) {
			pthread_cond_wait(&rounds.wake, &rounds.lock);
			continue;
		}
		pthread_mutex_unlock(&rounds.lock);
		nanosleep(&round, NULL);
		offload_progress();
		pthread_mutex_lock(&rounds.lock);
	}
	pthread_mutex_unlock(&rounds.lock);
	return unused;
}

/* There is one more request. Without a thread where one is needed, false. */
static bool
count_in(struct request *request)
{
	struct request **bucket = bucket_of(request->handle);
	bool can;

	pthread_mutex_lock(&rounds.lock);
	if (opal_progress_register == NULL && !rounds.started)
		rounds.started = weir_thread_start(&rounds.thread, go_on, NULL) == 0;
	can = opal_progress_register != NULL || rounds.started;
	request->next = *bucket;
	*bucket = request;
	rounds.requests++;
	if (rounds.in_progress++ == 0 && rounds.started)
		pthread_cond_signal(&rounds.wake);
	pthread_mutex_unlock(&rounds.lock);
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
	/* If there is no memory, MPI cannot do it instead: the other ranks do not know. */
	request = calloc(1, sizeof(*request));
	if (request == NULL ||
		PMPI_Grequest_start(query, forget, cancel, request, &request->handle) !=
			MPI_SUCCESS) {
		free(request);
		return raise_error(comm, offload_lose(state, call));
	}
	*handle = request->handle;
	error = count_in(request) ? offload_start(state, call, ended, request, &request->op)
				  : offload_lose(state, call);
	if (error == MPI_SUCCESS)
		return error;
	PMPI_Grequest_complete(*handle);
	PMPI_Request_free(handle);
	return error > 0 ? raise_error(comm, error) : error;
}

#define HOOKS(id, shape, name, iname, PARAMETERS)                                                  \
	static int hook_##name(PARAMETERS(shape) MPI_Comm comm)                                    \
	{                                                                                          \
		return run(comm, &OFFLOAD_CALL(id, shape));                                        \
	}                                                                                          \
	static int hook_##iname(PARAMETERS(shape) MPI_Comm comm, MPI_Request *request)             \
	{                                                                                          \
		return start(comm, &OFFLOAD_CALL(id, shape), request);                             \
	}
OFFLOAD_FORM_LIST(HOOKS)

/* ---- completion ---- */

/* What a completion call waits for. */
struct waiting {
	const MPI_Request *requests;
	int n, at; /* the library's own requests before `at` have ended */
};

/* Have the library's own requests ended? MPI waits for the others: some, as of ROMIO, go on only
 * while it does. */
static bool
have_ended(void *context)
{
	struct waiting *waiting = context;

	for (; waiting->at < waiting->n; waiting->at++) {
		const struct request *own = own_request(waiting->requests[waiting->at]);

		if (own != NULL && !atomic_load(&own->has_ended))
			return false;
	}
	return true;
}

/* Has any request ended, or is none of them the library's own? */
static bool
has_any_ended(void *context)
{
	const struct waiting *waiting = context;
	bool any = false;

	for (int i = 0; i < waiting->n && !any; i++)
		any = own_request(waiting->requests[i]) != NULL;
	for (int i = 0, done = 1; i < waiting->n && any; i++, done = 1)
		if (waiting->requests[i] != MPI_REQUEST_NULL &&
			(PMPI_Request_get_status(waiting->requests[i], &done, MPI_STATUS_IGNORE) !=
					MPI_SUCCESS ||
				done))
			return true;
	return !any;
}

/* The end of a call that completes nothing: a failure is told by the one that does. error: MPI's
 * answer. */
static int
end_none(int error, MPI_Status *status)
{
	if (failure.error != MPI_SUCCESS && status != MPI_STATUS_IGNORE)
		status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
	return error;
}

/* The end of a call for one request. */
static int
end_one(int error, MPI_Status *status)
{
	if (failure.error == MPI_SUCCESS)
		return error;
	end_none(error, status);
	return raise_error(failure.comm, failure.error);
}

/*
 * The end of a call for several requests, which has completed n of them. As MPI demands, the
 * statuses have the errors, and one error handler is called.
 */
static int
end_several(int error, int n, MPI_Status *statuses)
{
	int class = error;

	if (error != MPI_SUCCESS &&
		(PMPI_Error_class(error, &class) != MPI_SUCCESS || class != MPI_ERR_IN_STATUS))
		n = 0; /* MPI has not said what it completed */
	if (failure.error == MPI_SUCCESS || n <= 0)
		return error;
	for (int i = 0; i < n && statuses != MPI_STATUSES_IGNORE; i++) {
		MPI_Status *status = &statuses[i];

		if (error == MPI_SUCCESS)
			status->MPI_ERROR = MPI_SUCCESS;
		if (status->MPI_TAG == FAILED) {
			status->MPI_ERROR = status->MPI_SOURCE;
			status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
		}
	}
	raise_error(failure.comm, failure.error);
	return MPI_ERR_IN_STATUS;
}

#define AWAIT(ended, n, requests) offload_wait(ended, &(struct waiting){requests, n, 0})
#define BEFORE_Wait               AWAIT(have_ended, 1, request)
#define BEFORE_Waitall            AWAIT(have_ended, n, requests)
#define BEFORE_Waitany            AWAIT(has_any_ended, n, requests)
#define BEFORE_Waitsome           AWAIT(has_any_ended, n, requests)
#define BEFORE_Test               offload_progress()
#define BEFORE_Testall            offload_progress()
#define BEFORE_Testany            offload_progress()
#define BEFORE_Testsome           offload_progress()
#define BEFORE_Request_get_status offload_progress()

#define AFTER_Wait                end_one(error, status)
#define AFTER_Waitall             end_several(error, n, statuses)
#define AFTER_Waitany             end_one(error, status)
#define AFTER_Waitsome            end_several(error, *done, statuses)
#define AFTER_Test                end_one(error, status)
#define AFTER_Testall             end_several(error, *done ? n : 0, statuses)
#define AFTER_Testany             end_one(error, status)
#define AFTER_Testsome            end_several(error, *done, statuses)
#define AFTER_Request_get_status  end_none(error, status)

#define HOOK(name, parameters, arguments)                                                          \
	static int hook_##name parameters                                                          \
	{                                                                                          \
		int error;                                                                         \
                                                                                                   \
		if (rounds.requests == 0 || inside > 0)                                            \
			return WEIR_MPI_NEXT;                                                      \
		inside++;                                                                          \
		BEFORE_##name;                                                                     \
		failure.error = MPI_SUCCESS;                                                       \
		failure.collecting = true;                                                         \
		error = PMPI_##name arguments;                                                     \
		failure.collecting = false;                                                        \
		inside--;                                                                          \
		return AFTER_##name;                                                               \
	}
WEIR_MPI_COMPLETIONS(HOOK)

/* ---- MPI_Init and MPI_Finalize ---- */

/* MPI_Iprobe would not do: MPICH's makes progress only if there is nothing to find, and not on
 * MPI_COMM_SELF. */
static void
progress(void)
{
	int done;

	INSIDE(PMPI_Test(&mpi.endless, &done, MPI_STATUS_IGNORE));
}

/*
 * MPI would keep a communicator until its own operations have ended. It does not know of those
 * here, and they need the communicator to open it and to unpack. The call is collective, so it may
 * wait for them.
 */
static int
hook_Comm_free(MPI_Comm *comm)
{
	struct offload_comm *state = comm_state(*comm);

	if (state != NULL)
		offload_wait(offload_comm_idle, state);
	return WEIR_MPI_NEXT;
}

#define hook_Comm_disconnect hook_Comm_free

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

	if (mpi.running || inside > 0 || PMPI_Comm_create_from_group == NULL)
		return WEIR_MPI_NEXT;
	error = INSIDE(PMPI_Comm_create_from_group(group, tag, info, handler, comm));
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
	struct offload_front front = {.progress = opal_progress != NULL ? opal_progress : progress};
	struct offload_settings settings;
	int error;

	if (required == FROM_INIT && opal_progress_register != NULL)
		error = INSIDE(PMPI_Init(argc, argv));
	else
		error = INSIDE(PMPI_Init_thread(argc, argv,
			opal_progress_register != NULL ? required : MPI_THREAD_MULTIPLE, provided));
	if (error != MPI_SUCCESS ||
		PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_freed, &mpi.keyval, NULL) !=
			MPI_SUCCESS)
		return error;
	if (opal_progress == NULL &&
		PMPI_Grequest_start(query_endless, free_endless, cancel, NULL, &mpi.endless) !=
			MPI_SUCCESS)
		return MPI_SUCCESS;
	if (PMPI_Comm_dup(MPI_COMM_SELF, &mpi.own) != MPI_SUCCESS)
		return MPI_SUCCESS;
	PMPI_Comm_set_errhandler(mpi.own, MPI_ERRORS_RETURN);
	mpi.nonblocking = opal_progress_register != NULL
		? opal_progress_register(offload_progress) == 0
		: *provided == MPI_THREAD_MULTIPLE;
	front.own = mpi.own;
#if !defined(OPEN_MPI) || defined(WEIR_OPENMPI_CREATES)
	if (mpi.nonblocking)
		create_functions(&front);
#endif
	offload_environment(&settings);
	offload_init(&front, &settings);
	mpi.running = true;
	return MPI_SUCCESS;
}

static int
hook_Init(int *argc, char ***argv)
{
	int provided;

	return inside > 0 ? WEIR_MPI_NEXT : begin(argc, argv, FROM_INIT, &provided);
}

static int
hook_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return inside > 0 ? WEIR_MPI_NEXT : begin(argc, argv, required, provided);
}

static int
hook_Finalize(void)
{
	if (!mpi.running)
		return WEIR_MPI_NEXT;
	if (opal_progress_unregister != NULL)
		opal_progress_unregister(offload_progress);
	pthread_mutex_lock(&rounds.lock);
	rounds.stop = true;
	pthread_cond_signal(&rounds.wake);
	pthread_mutex_unlock(&rounds.lock);
	if (rounds.started)
		pthread_join(rounds.thread, NULL);
	offload_finalize();
	mpi.running = false;
	PMPI_Comm_free(&mpi.own);
	if (opal_progress == NULL) {
		PMPI_Grequest_complete(mpi.endless);
		PMPI_Wait(&mpi.endless, MPI_STATUS_IGNORE);
	}
	return WEIR_MPI_NEXT;
}

EXPORTED const struct weir_mpi_calls weir_mpi_hooks = {
#define WEIR_X(name, parameters, arguments) .name = hook_##name,
	WEIR_MPI_CALLS
#undef WEIR_X
};
