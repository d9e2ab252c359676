/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/mpi/offload.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mpi/offload_priv.h"

struct offload_front front;
struct offload_settings settings;
_Thread_local unsigned int inside;

/*
 * Two locks. The registry's protects the list of communicators and their references; no MPI
 * function is called with it. The engine's protects operations and openings. MPI is called with it,
 * though never to wait, and MPI's progress may call the core again in the same thread: then
 * offload_progress() finds the lock taken and returns, and the creation and release of
 * communicators need the registry alone.
 */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER, engine = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, offload_comm) comms = LIST_HEAD_INITIALIZER(comms); /* registry */
static struct offload_comm *actives; /* engine */
static _Atomic unsigned int busy; /* active communicators */
static _Atomic(struct offload_op *) freed; /* ended operations that ops_destroy() destroys */
static bool started, finalized;

#define PROGRESS_BUSY_NS 8000
#define SPIN_NS          200000 /* a wait for a step polls, before it sleeps between polls */
/*
 * A blocking call on Weir sleeps 8 times for 1 ms, 8 times for 2 ms, and so on up to 8 ms. After
 * each sleep MPI has some turns. Each one with work is worth 10 more, and halves the sleeps, since
 * a large message takes many turns, with pauses between them. One alone is worth little: it may
 * also be one that an interrupt made long.
 */
#define WAIT_SLEEPS    56
#define WAIT_TURNS     4
#define WAIT_MORE      10
#define WAIT_TURNS_MAX 200
#define SLEEP_NS       50000
#define IDLE_MAX       16 /* communicators that one call of offload_progress() lets go */
#define FAILURE_PASSES 64 /* the rank looks for it once in so many passes */

#define NO_MEMORY      "no memory"
#define NO_COPY        "no memory for a copy of the data, or MPI could not make the copy"
#define NOT_OPENED     "MPI had no memory or no communicator to open it with"

void
offload_init(const struct offload_front *front_, const struct offload_settings *settings_)
{
	front = *front_;
	settings = *settings_;
	started = true;
}

/* Let MPI work. True: it had work, so more is due soon. CPU time tells: MPI may sleep. */
static bool
mpi_progress(void)
{
	uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);

	inside++;
	front.progress();
	inside--;
	return now_ns(CLOCK_THREAD_CPUTIME_ID) - start > PROGRESS_BUSY_NS;
}

/* Between two looks at what MPI, another thread or libweir completes. start: of the wait. */
static void
wait_a_little(uint64_t start)
{
	const struct timespec short_sleep = {.tv_nsec = SLEEP_NS};

	if (mpi_progress() || now_ns(CLOCK_MONOTONIC) - start < SPIN_NS)
		sched_yield();
	else
		nanosleep(&short_sleep, NULL);
}

/* Communicators */

struct offload_comm *
offload_comm_create(MPI_Comm mpi)
{
	struct offload_comm *comm;
	int inter = 1, size = 0, length;

	if (!started || finalized || PMPI_Comm_test_inter(mpi, &inter) != MPI_SUCCESS || inter ||
		PMPI_Comm_size(mpi, &size) != MPI_SUCCESS || size < 2)
		return NULL;
	comm = calloc(1, sizeof(*comm));
	if (comm == NULL)
		return NULL;
	PMPI_Comm_rank(mpi, &comm->rank);
	PMPI_Comm_get_name(mpi, comm->name, &length);
	if (comm->name[0] == '\0')
		strcpy(comm->name, "a communicator");
	comm->comm = mpi;
	comm->size = size;
	comm->references = 1;
	comm->local[0] = comm->local[1] = comm->private_comm = MPI_COMM_NULL;
	pthread_mutex_lock(&registry);
	LIST_INSERT_HEAD(&comms, comm, link);
	pthread_mutex_unlock(&registry);
	return comm;
}

static void
comm_reference(struct offload_comm *comm)
{
	pthread_mutex_lock(&registry);
	comm->references++;
	pthread_mutex_unlock(&registry);
}

/* Errors */

/*
 * The communicator fails, by an error of this rank or, on a rank without a handle, by its leader's.
 * Every error after the decision to run a call on Weir comes here, since the rank's next call would
 * meet the others' current one. Under the engine's lock. Returns the code.
 */
static int
comm_fail(struct offload_comm *comm, enum weir_collective collective, const char *text)
{
	if (comm->error != MPI_SUCCESS)
		return comm->error;
	comm->error = error_code("Weir: %s on %s, job %s: %s", collective_text(collective),
		comm->name, comm->job[0] != '\0' ? comm->job : "none", text);
	snprintf(comm->failure, sizeof(comm->failure), "%s", text);
	atomic_store(&comm->state, COMM_FAILED);
	/* The ranks of this host wait for a last step that will not come. */
	if (comm->layout.local == 0 && comm->local[0] != MPI_COMM_NULL)
		for (int to = 1; to < comm->layout.locals; to++) {
			MPI_Request request;

			INSIDE(PMPI_Isend(comm->failure, sizeof(comm->failure), MPI_CHAR, to,
				TAG_FAILURE, comm->local[0], &request));
			INSIDE(PMPI_Request_free(&request));
		}
	return comm->error;
}

/* This rank misses an opening or an operation that the others count, wherever that one runs. As
 * comm_fail(). */
static int
comm_lose(struct offload_comm *comm, enum weir_collective collective, const char *text)
{
	atomic_store(&comm->lost, true);
	return comm_fail(comm, collective, text);
}

/* Has this rank's leader failed? */
static void
comm_look_for_failure(struct offload_comm *comm, enum weir_collective collective)
{
	char text[sizeof(comm->failure)];
	int found = 0;

	if (comm->layout.local == 0 || comm->local[0] == MPI_COMM_NULL ||
		comm->passes++ % FAILURE_PASSES != 0 || atomic_load(&comm->state) != COMM_ON)
		return;
	if (INSIDE(PMPI_Iprobe(0, TAG_FAILURE, comm->local[0], &found, MPI_STATUS_IGNORE)) ==
			MPI_SUCCESS &&
		found &&
		INSIDE(PMPI_Recv(text, sizeof(text), MPI_CHAR, 0, TAG_FAILURE, comm->local[0],
			MPI_STATUS_IGNORE)) == MPI_SUCCESS)
		comm_fail(comm, collective, text);
}

/* The engine: operations in progress */

/* Operations start their steps of one kind in the order of the calls, which is the same on all
 * ranks. Messages have tags. */
static unsigned int
gate_of(const struct step *step)
{
	return step->kind == STEP_SEND || step->kind == STEP_RECV ? 0 : 1u << step->kind;
}

/* The code of a step's call, 0 or an error of libweir or MPI, as an MPI error code. */
static int
step_code(struct offload_op *op, const struct step *step, int code)
{
	if (code == 0 || step->kind == STEP_PRIVATE)
		return code;
	return comm_fail(op->comm, op->call.collective,
		step->kind == STEP_WEIR ? weir_last_error(op->comm->weir)
					: "MPI failed inside the host");
}

static int
step_test(struct offload_op *op, const struct step *step, bool *done)
{
	int code, flag = 0;

	if (step->kind == STEP_WEIR)
		return step_code(op, step, weir_test(&op->weir, done));
	code = INSIDE(PMPI_Test(&op->request, &flag, MPI_STATUS_IGNORE));
	*done = flag;
	return step_code(op, step, code);
}

/*
 * Start and test steps until one has not ended; never waits. gates: what earlier operations have
 * not started yet; testing: none of them waits for Weir. starts: a step that has been started is
 * not tested.
 */
static void
op_advance(struct offload_op *op, unsigned int *gates, bool *testing, bool starts)
{
	while (!op->done && op->error == MPI_SUCCESS && op->at < op->plan.n) {
		const struct step *step = &op->plan.steps[op->at];
		bool done = false;

		if (!op->in_progress) {
			if (*gates & gate_of(step))
				break;
			op->error = step_code(op, step,
				step->kind == STEP_WEIR
					? weir_start(op->comm->weir, &op->plan, step, &op->weir)
					: INSIDE(mpi_start(op, step)));
			if (op->error != MPI_SUCCESS)
				break;
			op->in_progress = true;
		}
		/* Weir completes operations in their order: the first one's test moves all. */
		if (starts || (step->kind == STEP_WEIR && !*testing))
			break;
		op->error = step_test(op, step, &done);
		if (op->error == MPI_SUCCESS && !done) {
			*testing &= step->kind != STEP_WEIR;
			break;
		}
		op->in_progress = op->error != MPI_SUCCESS && step->kind != STEP_WEIR;
		op->at += op->error == MPI_SUCCESS;
	}
	for (unsigned int i = op->at + op->in_progress; i < op->plan.n; i++)
		*gates |= gate_of(&op->plan.steps[i]);
	if (op->error != MPI_SUCCESS) {
		op->done = true;
	} else if (op->at == op->plan.n) {
		op->error = plan_copy(&op->plan, PLAN_UNPACK);
		op->done = true;
	}
}

/* Why does this operation, which Weir could have, run on MPI? If it does, a nonblocking one may
 * have to use the private one. */
static enum reason
why_mpi(const struct offload_comm *comm, enum comm_state state, const struct offload_call *call,
	const struct facts *facts)
{
	if (state == COMM_FAILED && atomic_load(&comm->lost))
		return ON_WEIR;
	if (state == COMM_ON || state == COMM_FAILED)
		return call_fits(comm, call, facts);
	return state == COMM_UNKNOWN ? REASON_LATER : REASON_OFF;
}

static void
op_plan(struct offload_op *op, enum comm_state state)
{
	struct offload_comm *comm = op->comm;
	struct facts facts;
	enum reason reason = call_facts(comm, &op->call, &facts);

	if (reason == ON_WEIR)
		reason = why_mpi(comm, state, &op->call, &facts);
	op->planned = true;
	/* Open MPI does not tell all ranks of such a call: it must not count. */
	if (facts.nothing)
		return;
	op->number = comm->operations++;
	if (reason != ON_WEIR) {
		count_mpi(comm, op->call.collective, reason);
		op->plan.n = 1;
		op->plan.steps[0] = (struct step){.kind = STEP_PRIVATE};
		return;
	}
	count_call(op->call.collective, true);
	op->error = comm->error;
	if (op->error == MPI_SUCCESS &&
		(plan_make(&op->plan, comm, &op->call, &facts) != MPI_SUCCESS ||
			plan_copy(&op->plan, PLAN_PACK) != MPI_SUCCESS))
		op->error = comm_fail(comm, op->call.collective, NO_COPY);
}

/*
 * Advance a communicator. Operations that ended go from its list to *ended. True: nothing is in
 * progress any more. starts: in a call that starts an operation, where MPI itself makes no
 * progress. Open MPI's MPI_Comm_idup is in order on all ranks only if that stays so: in its
 * progress it takes tags of nonblocking collectives.
 */
static bool
comm_advance(struct offload_comm *comm, struct offload_op ***ended, bool starts)
{
	unsigned int gates = 0;
	bool testing = true;
	enum comm_state state = atomic_load(&comm->state), opening = COMM_OPENING;

	if (comm->opening != NULL && starts)
		return false;
	if (comm->opening != NULL) {
		state = opening_advance(&comm->opening);
		if (state == COMM_OPENING)
			return false;
		if (state == COMM_FAILED)
			comm_lose(comm, comm->first->call.collective, NOT_OPENED);
		if (comm->error != MPI_SUCCESS)
			state = COMM_FAILED;
	}
	if (comm->first != NULL && !starts)
		comm_look_for_failure(comm, comm->first->call.collective);
	for (struct offload_op **link = &comm->first, *op; (op = *link) != NULL;) {
		if (!op->planned)
			op_plan(op, state);
		/* Weir ends its operations itself. */
		if (atomic_load(&comm->state) == COMM_FAILED && op->weir == NULL &&
			op->error == MPI_SUCCESS && op->plan.n > 0 &&
			op->plan.steps[0].kind != STEP_PRIVATE)
			op->error = comm->error;
		op_advance(op, &gates, &testing, starts);
		if (!op->done) {
			link = &op->next;
			continue;
		}
		*link = op->next;
		op->next = NULL;
		**ended = op;
		*ended = &op->next;
	}
	/* Not earlier: no blocking call in another thread may get ahead of those that waited. */
	atomic_compare_exchange_strong(&comm->state, &opening, state);
	return comm->first == NULL;
}

static void
comm_release(struct offload_comm *comm)
{
	bool last;

	pthread_mutex_lock(&registry);
	last = --comm->references == 0;
	if (last)
		LIST_REMOVE(comm, link);
	pthread_mutex_unlock(&registry);
	if (last && finalized)
		free(comm);
	else if (last)
		comm_end(comm);
}

static void
op_destroy(struct offload_op *op)
{
	/* Local steps of a communicator that failed may still write there. */
	if (!op->in_progress)
		plan_end(&op->plan);
	if (op->kept[0])
		PMPI_Type_free(&op->call.send_type);
	if (op->kept[1])
		PMPI_Type_free(&op->call.recv_type);
	comm_release(op->comm);
	free(op);
}

/* Destroy the operations that were freed where MPI cannot be called. */
static void
ops_destroy(void)
{
	struct offload_op *op = atomic_exchange(&freed, NULL), *next;

	for (; op != NULL; op = next) {
		next = op->next;
		op_destroy(op);
	}
}

/* Tell the owners, without a lock. Returns the number of operations. */
static int
ops_end(struct offload_op *ended)
{
	struct offload_op *next;
	int n = 0;

	for (struct offload_op *op = ended; op != NULL; op = next, n++) {
		next = op->next;
		if (op->ended != NULL && !(atomic_load(&op->marks) & OP_FREED))
			op->ended(op->context, op->error);
		if (atomic_fetch_or(&op->marks, OP_TOLD) & OP_FREED)
			op_destroy(op);
	}
	return n;
}

void
offload_comm_release(struct offload_comm *comm)
{
	ops_destroy();
	if (comm == NULL)
		return;
	comm->released = true;
	comm_release(comm);
}

bool
offload_comm_idle(void *comm)
{
	bool idle;

	pthread_mutex_lock(&engine);
	idle = ((struct offload_comm *)comm)->first == NULL;
	pthread_mutex_unlock(&engine);
	return idle;
}

void
offload_finalize(void)
{
	struct offload_comm *comm;

	if (!started || finalized)
		return;
	ops_destroy();
	report_finalize();
	/* Nothing is in progress any more, and no other thread calls MPI. */
	finalized = true;
	LIST_FOREACH (comm, &comms, link) {
		mpi_comm_free(&comm->private_comm);
		job_close(comm);
		atomic_store(&comm->state, COMM_OFF);
	}
	kept_close(0);
}

int
offload_progress(void)
{
	struct offload_op *ended = NULL, **last = &ended;
	struct offload_comm *idle[IDLE_MAX];
	unsigned int n = 0;

	if (atomic_load_explicit(&freed, memory_order_relaxed) != NULL)
		ops_destroy();
	if (atomic_load_explicit(&busy, memory_order_relaxed) == 0 ||
		pthread_mutex_trylock(&engine) != 0)
		return 0;
	for (struct offload_comm **link = &actives, *comm; (comm = *link) != NULL;) {
		/* Not in a list: its next_active may change once the lock is free. */
		if (!comm_advance(comm, &last, false) || n == IDLE_MAX) {
			link = &comm->next_active;
			continue;
		}
		*link = comm->next_active;
		comm->active = false;
		idle[n++] = comm;
		atomic_fetch_sub(&busy, 1);
	}
	pthread_mutex_unlock(&engine);
	while (n > 0)
		comm_release(idle[--n]);
	return ended != NULL ? ops_end(ended) : 0;
}

/* Calls */

/* Has a communicator had so many calls that a job is worthwhile? The same on all ranks. */
static bool
comm_deserves_job(struct offload_comm *comm, const struct facts *facts)
{
	comm->calls++;
	if (__builtin_add_overflow(comm->bytes, facts->bytes, &comm->bytes))
		comm->bytes = UINT64_MAX;
	return comm->comm == MPI_COMM_WORLD || comm->calls >= OPENING_CALLS ||
		comm->bytes >= 1024 * OPENING_KIB;
}

/* Until the communicator has been opened, or not. Only in blocking calls. */
static enum comm_state
comm_open(struct offload_comm *comm, enum weir_collective collective)
{
	struct opening *opening;
	enum comm_state state;
	uint64_t start = now_ns(CLOCK_MONOTONIC);

	for (;;) {
		pthread_mutex_lock(&engine);
		state = atomic_load(&comm->state);
		if (state == COMM_UNKNOWN)
			atomic_store(&comm->state, COMM_OPENING);
		pthread_mutex_unlock(&engine);
		if (state != COMM_OPENING)
			break;
		offload_progress();
		wait_a_little(start);
	}
	if (state != COMM_UNKNOWN)
		return state;
	opening = opening_begin(comm, true);
	while ((state = opening_advance(&opening)) == COMM_OPENING)
		wait_a_little(start);
	mpi_comm_free(&comm->private_comm); /* no call waits for it */
	pthread_mutex_lock(&engine);
	if (state == COMM_FAILED)
		comm_lose(comm, collective, NOT_OPENED);
	else
		atomic_store(&comm->state, state);
	pthread_mutex_unlock(&engine);
	return state;
}

static int
run_failed(struct offload_comm *comm, const struct offload_call *call, const char *text)
{
	int error;

	pthread_mutex_lock(&engine);
	error = comm_fail(comm, call->collective, text);
	pthread_mutex_unlock(&engine);
	return error;
}

/* Wait for an operation of Weir while MPI makes progress. Returns the operation's code. */
static int
weir_await(struct weir_request **request)
{
	unsigned int turns = 0, sleeps = 0;
	bool done = false;
	int code;

	for (;;) {
		code = weir_wait_for(request, turns > 0 ? 0 : 1 + sleeps / 8, &done);
		if (code != 0 || done)
			return code;
		if (turns == 0) { /* the first turn after a sleep takes long in any case */
			(void)mpi_progress();
			turns = WAIT_TURNS;
			sleeps += sleeps < WAIT_SLEEPS;
		} else if (mpi_progress()) {
			turns += turns < WAIT_TURNS_MAX ? WAIT_MORE : 0;
			sleeps /= 2;
		} else {
			turns--;
		}
		if (turns > 0)
			sched_yield();
	}
}

/* One rank on each host: the call is one operation of Weir. */
static int
run_alone(struct offload_comm *comm, const struct offload_call *call, const struct facts *facts)
{
	struct plan plan;
	struct weir_request *request = NULL;
	int code, error = plan_make(&plan, comm, call, facts);

	if (error != MPI_SUCCESS)
		return run_failed(comm, call, NO_COPY);
	if (plan_copy(&plan, PLAN_PACK) != MPI_SUCCESS) {
		error = run_failed(comm, call, NO_COPY);
	} else {
		code = weir_start(comm->weir, &plan, &plan.steps[0], &request);
		if (code == 0)
			code = weir_await(&request);
		error = code == 0 ? plan_copy(&plan, PLAN_UNPACK)
				  : run_failed(comm, call, weir_last_error(comm->weir));
	}
	plan_end(&plan);
	return error;
}

static struct offload_op *
op_append(struct offload_comm *comm, const struct offload_call *call, void (*ended)(void *, int),
	void *context)
{
	struct offload_op *op = calloc(1, sizeof(*op)), **last = &comm->first;

	if (op == NULL)
		return NULL;
	while (*last != NULL)
		last = &(*last)->next;
	op->comm = comm;
	op->call = *call;
	op->ended = ended;
	op->context = context;
	op->request = MPI_REQUEST_NULL;
	comm_reference(comm);
	*last = op;
	if (!comm->active) {
		comm->active = true;
		comm->next_active = actives;
		actives = comm;
		comm_reference(comm);
		atomic_fetch_add(&busy, 1);
	}
	return op;
}

void
offload_wait(bool (*ended)(void *context), void *context)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC);

	for (offload_progress(); !ended(context); offload_progress())
		wait_a_little(start);
}

static bool
op_told(void *op)
{
	return atomic_load(&((struct offload_op *)op)->marks) & OP_TOLD;
}

int
offload_run(struct offload_comm *comm, const struct offload_call *call)
{
	struct facts facts;
	enum comm_state state;
	enum reason reason;
	struct offload_op *op;
	int error;

	if (comm == NULL || inside > 0)
		return OFFLOAD_MPI;
	state = atomic_load_explicit(&comm->state, memory_order_acquire);
	reason = state == COMM_OFF ? REASON_OFF : call_facts(comm, call, &facts);
	if (reason != ON_WEIR) {
		count_mpi(comm, call->collective, reason);
		return OFFLOAD_MPI;
	}
	if (facts.nothing)
		return MPI_SUCCESS;
	if (state == COMM_UNKNOWN && !comm_deserves_job(comm, &facts))
		reason = REASON_NEW;
	else if (state < COMM_ON)
		state = comm_open(comm, call->collective);
	if (reason == ON_WEIR)
		reason = why_mpi(comm, state, call, &facts);
	if (reason != ON_WEIR) {
		count_mpi(comm, call->collective, reason);
		return OFFLOAD_MPI;
	}
	if (state == COMM_FAILED)
		return comm->error;
	if (comm->layout.alone) {
		count_call(call->collective, true);
		return run_alone(comm, call, &facts);
	}
	pthread_mutex_lock(&engine);
	op = op_append(comm, call, NULL, NULL);
	error = op != NULL ? MPI_SUCCESS : comm_lose(comm, call->collective, NO_MEMORY);
	pthread_mutex_unlock(&engine);
	if (op == NULL)
		return error;
	offload_wait(op_told, op);
	error = op->error;
	op_destroy(op);
	return error;
}

int
offload_start(struct offload_comm *comm, const struct offload_call *call,
	void (*ended)(void *context, int error), void *context, struct offload_op **op)
{
	struct offload_op *gone = NULL, **last = &gone;
	struct facts facts;
	enum comm_state state;
	enum reason reason;
	int error = OFFLOAD_MPI;

	*op = NULL;
	if (comm == NULL || inside > 0)
		return OFFLOAD_MPI;
	state = atomic_load_explicit(&comm->state, memory_order_acquire);
	reason =
		state == COMM_OFF && !comm->privately ? REASON_OFF : call_facts(comm, call, &facts);
	if (reason != ON_WEIR) {
		count_mpi(comm, call->collective, reason);
		return OFFLOAD_MPI;
	}
	pthread_mutex_lock(&engine);
	state = atomic_load(&comm->state);
	if (state == COMM_UNKNOWN && !facts.nothing && !comm_deserves_job(comm, &facts)) {
		reason = REASON_NEW;
	} else if (state == COMM_UNKNOWN && !facts.nothing && front.create != NULL) {
		comm->opening = opening_begin(comm, false);
		comm->privately = true;
		atomic_store(&comm->state, COMM_OPENING);
		if (comm->opening == NULL)
			comm_lose(comm, call->collective, NOT_OPENED);
	}
	if (reason == ON_WEIR)
		reason = why_mpi(comm, state, call, &facts);
	if (facts.nothing || comm->privately || reason == ON_WEIR) {
		*op = op_append(comm, call, ended, context);
		error = *op != NULL     ? MPI_SUCCESS
			: facts.nothing ? MPI_ERR_NO_MEM
					: comm_lose(comm, call->collective, NO_MEMORY);
	}
	if (*op != NULL) {
		MPI_Datatype *types[] = {&(*op)->call.send_type, &(*op)->call.recv_type};

		/* The program may free derived datatypes while the operation needs them. */
		for (int i = 0; i < 2 && !front.keeps_types; i++)
			if (call_uses(comm, call, i == 0) && !mpi_type_named(*types[i]))
				(*op)->kept[i] = PMPI_Type_dup(*types[i], types[i]) == MPI_SUCCESS;
		/* Its Weir operation starts here: the next call may be a blocking one. */
		comm_advance(comm, &last, true);
	}
	pthread_mutex_unlock(&engine);
	if (error == OFFLOAD_MPI)
		count_mpi(comm, call->collective, reason);
	ops_end(gone);
	return error;
}

int
offload_lose(struct offload_comm *comm, const struct offload_call *call)
{
	int error;

	pthread_mutex_lock(&engine);
	error = comm_lose(comm, call->collective, NO_MEMORY);
	pthread_mutex_unlock(&engine);
	return error;
}

int
offload_op_error(const struct offload_op *op, MPI_Comm *comm)
{
	*comm = op->comm->released ? MPI_COMM_WORLD : op->comm->comm;
	return op->error;
}

void
offload_op_free(struct offload_op *op)
{
	if (op == NULL || !(atomic_fetch_or(&op->marks, OP_FREED) & OP_TOLD))
		return;
	op->next = atomic_load(&freed);
	while (!atomic_compare_exchange_weak(&freed, &op->next, op))
		;
}
