/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the core's files share. offload.c has the states and runs operations, plan.c turns calls
 * into steps and starts these, open.c opens communicators, keep.c closes jobs or keeps them,
 * report.c counts and prints.
 */
#ifndef APPS_MPI_OFFLOAD_PRIV_H
#define APPS_MPI_OFFLOAD_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <time.h>

#include "apps/libweir/weir.h"
#include "apps/mpi/offload.h"
#include "apps/mpi/types.h"

#define JOB_NAME_MAX 32

enum comm_state {
	COMM_UNKNOWN,
	COMM_OPENING,
	COMM_ON,
	COMM_OFF,
	COMM_FAILED,
};

/* Where the ranks are. A host's lowest rank is its leader; hosts are in the order of leaders. */
struct layout {
	int hosts, host; /* number of hosts, and this rank's */
	int local, locals; /* this rank's position on its host, and the ranks there */
	int *host_of; /* by rank */
	bool regular; /* host h has the ranks [h * locals, (h + 1) * locals) */
	bool alone; /* every host has one rank */
};

struct opening;

struct offload_comm {
	MPI_Comm comm; /* the program may have freed it while operations are in progress */
	char name[MPI_MAX_OBJECT_NAME + 16]; /* as it was at the creation of this state */
	int rank, size;
	_Atomic(enum comm_state) state;
	_Atomic bool released; /* by the front end; operations may be left */
	_Atomic bool lost; /* in COMM_FAILED: all calls that could be offloaded fail */

	/* Of offload.c; under its registry lock. */
	unsigned int references; /* the front end's, and one for each operation */
	LIST_ENTRY(offload_comm) link; /* all of them; later, those whose jobs are kept (keep.c) */

	/* Calls that could be offloaded, until it is opened; equal on all ranks. */
	uint64_t calls, bytes;

	/* From the opening on, until the end: */
	struct weir *weir; /* leaders have one; with `flat` all ranks */
	uint64_t min_bytes, max_bytes, min_hosts;
	unsigned int contact_ms;
	unsigned int elements; /* of 4 bytes, in a block of the job */
	struct layout layout;
	/* The ranks of this host, for the first steps of operations and for the last ones. So the
	 * order of calls on each is the order of the operations, whatever ends first. */
	MPI_Comm local[2];
	/* Of the opening, and for the nonblocking calls that waited for it. */
	MPI_Comm private_comm;
	char job[JOB_NAME_MAX];
	bool has_job; /* counts as one that is open */
	uint64_t members; /* a hash of the ranks in their order; 0: its job is not kept */

	/* In progress; under the engine's lock. */
	struct offload_comm *next_active;
	bool privately; /* a nonblocking call opened it; such calls that Weir cannot have use
			 * private_comm */
	bool active; /* among those that offload_progress() looks at */
	struct opening *opening; /* by a nonblocking call */
	struct offload_op *first; /* operations that have not ended, in the order of the calls */
	uint32_t operations; /* so far; tags are made of it */
	unsigned int passes;
	int error; /* MPI_SUCCESS until the communicator fails */
	char failure[256]; /* what a leader tells the ranks of its host */
};

/*
 * The steps of an operation. Each is done by one rank or by all of a host. STEP_FIRST and STEP_LAST
 * are collectives inside the host, on local[0] and local[1]; messages go on local[0]; STEP_WEIR is
 * the one among the hosts; STEP_PRIVATE the whole call.
 */
enum step_kind { STEP_FIRST, STEP_LAST, STEP_SEND, STEP_RECV, STEP_WEIR, STEP_PRIVATE };

struct step {
	enum step_kind kind;
	enum weir_collective collective;
	const void *send;
	void *recv;
	size_t count; /* elements of the plan's type; at most INT_MAX, except for STEP_WEIR */
	int root; /* or the peer, in the communicator of the step */
};

#define STEPS_MAX   4

#define TAG_FAILURE 0x4000 /* from a leader to the ranks of its host; the tags of steps are below */

/* What to copy where, before the first step and after the last one. Contiguous memory at `flat`. */
struct packing {
	void *user; /* NULL: nothing */
	size_t count;
	MPI_Datatype type;
	char *flat;
	size_t bytes;
};

struct plan {
	struct step steps[STEPS_MAX];
	unsigned int n;
	struct mpi_form form; /* op: of reductions */
	struct packing pack, unpack;
	void *memory[5]; /* temporary buffers; NULL after the last one */
};

enum { OP_TOLD = 1, OP_FREED = 2 };

struct offload_op {
	struct offload_op *next;
	struct offload_comm *comm;
	struct offload_call call; /* with datatypes of its own if the program may free them */
	struct plan plan;
	unsigned int at; /* the step that is done next, or in progress */
	bool planned, in_progress, done;
	bool kept[2]; /* the datatypes of `call` are duplicates */
	_Atomic unsigned int
		marks; /* OP_TOLD: `ended` has been called; OP_FREED: by the front end */
	uint32_t number;
	MPI_Request request; /* of the step in progress, or ... */
	struct weir_request *weir;
	int error;
	void (*ended)(void *context, int error);
	void *context;
};

extern struct offload_front front;
extern struct offload_settings settings;

static inline uint64_t
now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Seconds of the monotonic clock. */
#define now_s() (now_ns(CLOCK_MONOTONIC) / 1000000000u)

/* Communicators but MPI_COMM_WORLD are opened by so many calls, or KiB in them; that takes as long
 * as some hundred small calls. */
#define OPENING_CALLS 8
#define OPENING_KIB   64
#define TEXT_OF(n)    TEXT_OF_(n)
#define TEXT_OF_(n)   #n

/* Why a call runs on MPI, for the user: reason, text. */
#define REASON_LIST(X)                                                                             \
	X(OFF, NULL) /* the opening has said why */                                                \
	X(NOT_VALID, "an argument is not valid, which MPI reports")                                \
	X(REDUCTION, "the switch has no such operation on this datatype")                          \
	X(PERSISTENT, "it is persistent, so ranks may start it in different orders")               \
	X(TOO_MANY, "more than 2 GiB, or 2^31 - 1 elements, at once")                              \
	X(NEW,                                                                                     \
		"a communicator gets a job of the switch when it has had " TEXT_OF(                \
			OPENING_CALLS) " calls, or " TEXT_OF(OPENING_KIB) " KiB")                  \
	X(LATER,                                                                                   \
		"with this MPI, only a blocking collective opens a communicator, and none has "    \
		"come before")                                                                     \
	X(SMALL, "it is smaller than min_bytes")                                                   \
	X(LARGE, "it is larger than max_bytes")                                                    \
	X(FEW_HOSTS, "each rank has a slice, and there are fewer hosts than min_hosts")            \
	X(MANY_HOSTS,                                                                              \
		"each rank has a slice, and a block of the job has fewer elements than hosts")     \
	X(SHARED, "several ranks share a host (the setting flat lets each talk to the switch)")    \
	X(IRREGULAR,                                                                               \
		"hosts have different numbers of ranks, or ranks that are not neighbors (the "     \
		"setting flat lets each talk to the switch)")

enum reason {
	ON_WEIR, /* it does not */
#define X(name, text) REASON_##name,
	REASON_LIST(X)
#undef X
		REASONS
};

/* plan.c */

/* Facts about a call that are equal on all ranks. */
struct facts {
	uint64_t bytes; /* in all; n slices count as n */
	bool nothing; /* to be done */
	size_t unit; /* bytes of a slice, or of the vector */
	size_t count; /* of a slice, in elements of form.dtype */
	bool reduces, sliced; /* each rank has a slice */
	struct mpi_form form; /* op: of reductions */
};

/*
 * Can Weir have this call? ON_WEIR, or why not. Fills the facts. From the call and the
 * communicator's size alone. A call without bytes ends at once: Open MPI's own entry points do that
 * where a count is 0, and not where a type has no bytes, which may be another rank's view of the
 * same call.
 */
enum reason call_facts(
	const struct offload_comm *comm, const struct offload_call *call, struct facts *facts);

/* Do the buffer, count and type of what is sent matter on this rank, or those of what is received?
 * MPI ignores the others. */
bool call_uses(const struct offload_comm *comm, const struct offload_call *call, bool send);

/* Does an open communicator run it on Weir? ON_WEIR, or why not; equal on all ranks. */
enum reason call_fits(const struct offload_comm *comm, const struct offload_call *call,
	const struct facts *facts);

/* Make the steps of this rank. An MPI error code: no memory. plan_end() frees what it holds. */
int plan_make(struct plan *plan, const struct offload_comm *comm, const struct offload_call *call,
	const struct facts *facts);

/* Copy the program's data to where the steps expect it, or the result back. An MPI error code. */
enum plan_copy { PLAN_PACK, PLAN_UNPACK };
int plan_copy(const struct plan *plan, enum plan_copy what);
void plan_end(struct plan *plan);

/* Start a step: among the hosts, which gives a request of libweir or -errno; or any other, by MPI,
 * which gives op->request or an MPI error code. */
int weir_start(struct weir *weir, const struct plan *plan, const struct step *step,
	struct weir_request **request);
int mpi_start(struct offload_op *op, const struct step *step);

/* open.c */

/*
 * Begin to open. From the program's call, since MPI orders what is created with the program's other
 * calls; `blocking`: that call waits for the opening, and makes no other one on this communicator
 * meanwhile. Without front.create, in blocking calls alone. NULL: no memory, or no communicator.
 */
struct opening *opening_begin(struct offload_comm *comm, bool blocking);

/*
 * One step further. Returns COMM_OPENING, or what the communicator becomes; then *opening is NULL.
 * Waits only without front.create. COMM_FAILED: this rank could not tell the others; NULL, an
 * opening for which there was no memory, gives that.
 */
enum comm_state opening_advance(struct opening **opening);

/* keep.c */

/* Of communicators of this rank, also those that are being opened, and those that are kept. */
extern _Atomic unsigned int jobs_open;

/* The communicator's job is one of jobs_open, or none any more. */
void job_count(struct offload_comm *comm, bool open);

/* Close the job, and what belongs to it. */
void job_close(struct offload_comm *comm);

/* The communicator has no references any more. Takes it. */
void comm_end(struct offload_comm *comm);

/* A kept job of the same ranks, in the same order; the caller owns it. NULL: there is none. */
struct offload_comm *kept_take(const struct offload_comm *comm);

/* The job becomes that of `to`, which is being opened; `from` is freed. */
void job_move(struct offload_comm *to, struct offload_comm *from);

/* Close all that are kept, but for the last n. */
void kept_close(unsigned int n);

void mpi_comm_free(MPI_Comm *comm);

/* report.c */

void count_call(enum weir_collective collective, bool offloaded);

/* Count a call that runs on MPI. Rank 0 says why with verbosity 1, once for each reason. */
void count_mpi(
	const struct offload_comm *comm, enum weir_collective collective, enum reason reason);
/* Count a job; NULL: the use of one that was kept. */
void report_job(const char *job);
void report_finalize(void);

/* As in counters and messages. */
const char *collective_text(unsigned int collective);

/* One line to stderr, after "weir: ", if the verbosity is at least `level`. */
void say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An MPI error code whose string is this text. */
int error_code(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
