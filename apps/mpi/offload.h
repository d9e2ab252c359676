/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI's collectives on Weir: what the Open MPI component and the preload library share. It is compiled once for each
 * MPI, against mpi.h and weir.h alone, and calls MPI by its PMPI_ names.
 *
 * A *front end* receives the program's calls and hands them to the core. The core decides whether Weir runs the call,
 * opens handles, runs the call, and reports errors. If the core answers OFFLOAD_MPI, the front end gives the call to MPI,
 * as if the core did not exist.
 *
 * The life of a communicator. offload_comm_create() is local and costs an allocation; most communicators never need more.
 *
 *	UNKNOWN  MPI_COMM_WORLD is opened by the first call that could be offloaded. Other communicators may be short-lived,
 *	         so they are opened by the call of this kind with which they have had 8 calls or 64 KiB; until then,
 *	         MPI runs them. A call could be offloaded if its collective, type and operation have a form in
 *	         Weir. The settings play no part here: they come from the environment, which may differ between ranks.
 *	OPENING  The ranks may all keep a job that a freed communicator of the same ranks has left. If all name the same
 *	         one, and a barrier on Weir shows that it works, it is this communicator's. Otherwise they open one:
 *	         on a private communicator, because calls of the program may be in progress on this one, the ranks
 *	         exchange the names of their hosts (allgather), rank 0 broadcasts the job's name, the switch and the
 *	         settings, one rank of each host opens a Weir handle, and an allreduce (MIN) decides for all. A blocking
 *	         call waits for it. A nonblocking one leaves it to offload_progress(); nonblocking calls made meanwhile
 *	         wait in a queue, and if the answer is off, they run on the private communicator. A blocking call that
 *	         could be offloaded finishes the opening first. All other calls go to MPI at once.
 *	ON       Calls within the thresholds of rank 0 run on Weir.
 *	OFF      MPI runs everything from now on. Why is printed once per communicator, with verbosity 1 or of
 *	         MPI_COMM_WORLD. The reasons: all ranks are on one host, no switch, the switch refused the job.
 *	FAILED   An operation failed, on this rank at least. Calls that would run on Weir return the same error; the
 *	         others go to MPI. If this rank missed an opening or a call for lack of memory, all calls that could
 *	         be offloaded return the error.
 *
 * Decisions use only what MPI guarantees to be equal on all ranks: the collective, the bytes of the type signature, the
 * operation, the communicator. A rank whose datatype has gaps packs its data and takes part.
 *
 * Several ranks on a host: MPI reduces or gathers inside the host, one leader of each host talks to Weir, MPI
 * distributes inside the host. An operation is a list of steps, the same for blocking and nonblocking calls.
 *
 * Threads: with MPI_THREAD_MULTIPLE any thread may call any function; MPI's own rule holds, that calls on one
 * communicator are in the same order on all ranks. The core never holds a lock while it waits. offload_progress()
 * returns at once if another thread is inside, or if it is called from within itself.
 *
 * The core calls PMPI_ functions, which come to the front end, too. `inside` tells them apart from the program's.
 *
 * Errors are MPI error codes with Weir's text (MPI_Error_string), of an error class of their own. The front end passes
 * them to the communicator's error handler. An operation never falls back to MPI after it began.
 */
#ifndef APPS_MPI_OFFLOAD_H
#define APPS_MPI_OFFLOAD_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/mpi/collectives.h"
#include "pktbuf/wire/types.h"

/*
 * A call, with the program's arguments as they are: MPI_IN_PLACE in `send` (Scatter: in `recv`), MPI_BOTTOM allowed.
 * Count, type, operation and root mean what MPI says. What a collective has only one of is in both fields (collectives.h).
 * Unused fields are 0; arguments that MPI ignores on this rank may be anything.
 */
struct offload_call {
	enum weir_collective collective;
	const void *send;
	void *recv;
	int64_t send_count, recv_count; /* MPI_Allreduce_c and its like have more than int */
	MPI_Datatype send_type, recv_type;
	MPI_Op op;
	int root;
};

/*
 * The settings: field, name in the component (coll_weir_NAME), variable, type, help. Defaults are 0. Only those of one rank
 * count: the lowest one that has a switch's address.
 */
#define OFFLOAD_SETTING_LIST(X)                                                                    \
	X(min_bytes, "min_bytes", "WEIR_MPI_MIN_BYTES", NUMBER,                                    \
		"Smallest call for Weir, in bytes; where each rank has a slice, of all slices")    \
	X(max_bytes, "max_bytes", "WEIR_MPI_MAX_BYTES", NUMBER,                                    \
		"Largest call for Weir; 0: no limit")                                              \
	X(min_hosts, "min_hosts", "WEIR_MPI_MIN_HOSTS", NUMBER,                                    \
		"Fewest hosts for calls where each rank has a slice; 0: 3")                        \
	X(flat, "flat", "WEIR_MPI_FLAT", FLAG,                                                     \
		"Each rank talks to Weir, also those that share a host")                           \
	X(max_jobs, "max_jobs", "WEIR_MPI_MAX_JOBS", NUMBER,                                       \
		"Most jobs that one rank opens for communicators and has at a time; 0: 64")        \
	X(verbose, "verbose", "WEIR_MPI_VERBOSE", NUMBER, "1: say what ran on Weir, and why not")  \
	X(timeout_s, "timeout_s", "WEIR_MPI_TIMEOUT_S", NUMBER,                                    \
		"An operation fails after so many seconds without an answer of the switch; 0: 20") \
	X(contact_ms, "contact_ms", "WEIR_MPI_CONTACT_MS", NUMBER,                                 \
		"So long a communicator waits for the switch's first answer; 0: 800")              \
	X(report, "report", "WEIR_MPI_REPORT", TEXT, "Counters go to the file REPORT.RANK.json")   \
	X(switch_address, "switch", "WEIR_SWITCH", TEXT, "The switch: http://HOST:PORT")           \
	X(job_settings, "settings", "WEIR_SETTINGS", TEXT,                                         \
		"Settings of the jobs: deterministic=true")                                        \
	X(namespace, "namespace", "WEIR_NAMESPACE", TEXT, "Prefix of the jobs' names")             \
	X(require, "require", "WEIR_REQUIRE", FLAG,                                                \
		"The program ends if a communicator cannot use the switch")                        \
	X(job, "job", "WEIR_JOB", TEXT,                                                            \
		"Job of MPI_COMM_WORLD that exists; each host joins it at its own switch")

#define OFFLOAD_TEXT_MAX 512

/* Fields that no setting gives are 0 or "". */
struct offload_settings {
#define OFFLOAD_NUMBER(field)                        uint64_t field;
#define OFFLOAD_FLAG(field)                          bool field;
#define OFFLOAD_TEXT(field)                          char field[OFFLOAD_TEXT_MAX];
#define OFFLOAD_X(field, name, variable, type, help) OFFLOAD_##type(field)
	OFFLOAD_SETTING_LIST(OFFLOAD_X)
#undef OFFLOAD_X
};

/* The settings from the variables; another value of a variable than a number is 0. */
void offload_environment(struct offload_settings *settings);

/* A rank that knows no switch takes another rank's settings, but for `verbose` and `report`. */
void offload_take(struct offload_settings *own, const struct offload_settings *other);

/* What the core needs of a front end. */
struct offload_front {
	/*
	 * Let MPI make progress, without waiting. Component: opal_progress(); preload: PMPI_Test() of a request that
	 * never ends.
	 */
	void (*progress)(void);
	/*
	 * Start to create a communicator of the ranks of `group`, which are calling this at some time, each in its
	 * own; `which`, [0, 3), tells several creations on `comm` apart. Must not wait for other ranks, nor change the order of
	 * the program's calls on `comm`, which may be the program's. The result has no attributes, its error handler is
	 * MPI_ERRORS_RETURN, and the front end never hands its calls to the core. Returns an MPI error code. NULL: nothing can be
	 * created without waiting, so blocking calls alone open communicators.
	 */
	int (*create)(MPI_Comm comm, MPI_Group group, int which, void **creation);
	/* Has it ended? Then *result is the communicator, or MPI_COMM_NULL, and `creation` is freed. Never waits. */
	bool (*created)(void *creation, MPI_Comm *result);
	/*
	 * Do elements of a datatype lie in memory as they are sent, one after the other, beginning at the buffer's address?
	 * NULL: the core asks MPI how the type was made. Open MPI's own collectives use types that this cannot
	 * be asked of.
	 */
	bool (*plain)(MPI_Datatype type);
	/*
	 * A communicator of this rank alone that returns errors: datatypes are tried on it, since MPI's functions for
	 * datatypes end the program if there is something wrong. MPI_COMM_NULL: MPI has looked at them before.
	 */
	MPI_Comm own;
	bool keeps_types; /* MPI keeps the datatypes of nonblocking calls until these end; otherwise the core does */
};

/*
 * Once per process, before the other functions, from one thread; does not call MPI. front and settings are copied.
 */
void offload_init(const struct offload_front *front, const struct offload_settings *settings);

/*
 * Once per process, in MPI_Finalize, while PMPI functions may be called and after the program's last call: prints the
 * counters with verbosity 1 and writes the report. Handles that are open are closed when their communicators are
 * released, or here.
 */
void offload_finalize(void);

/* The state of a communicator. */
struct offload_comm;

/*
 * The state of an intracommunicator. Local: calls no MPI function that communicates. NULL if its calls never run on
 * Weir: an intercommunicator, one rank, or no memory.
 */
struct offload_comm *offload_comm_create(MPI_Comm comm);

/*
 * The communicator is being freed. Operations in progress still end; then the handle is closed. Local. NULL is fine. Not
 * from within offload_run of the same communicator.
 */
void offload_comm_release(struct offload_comm *comm);

/* The call is MPI's: nothing was done. No MPI error code is negative. */
#define OFFLOAD_MPI (-1)

/*
 * Run a call and wait for its end; MPI makes progress meanwhile. Returns OFFLOAD_MPI, MPI_SUCCESS or an MPI error code.
 * Cost when the communicator is off: an atomic addition, which counts the call. A call on Weir with one rank per host costs no
 * lock and no allocation.
 */
int offload_run(struct offload_comm *comm, const struct offload_call *call);

/* An operation in progress. */
struct offload_op;

/*
 * Start a call. OFFLOAD_MPI: nothing was started, *op is NULL. MPI_SUCCESS: *op is an operation. An MPI error code:
 * the communicator has failed; nothing was started.
 *
 * ended(context, error) is called once, from offload_progress() in any thread, or before this function returns; error is
 * an MPI error code. It must not call MPI except to complete a request (MPI_Grequest_complete), and it may call
 * offload_op_free(). Datatypes and the operation may be freed by the program meanwhile: they are kept.
 */
int offload_start(struct offload_comm *comm, const struct offload_call *call,
	void (*ended)(void *context, int error), void *context, struct offload_op **op);

/*
 * This rank cannot start a call that the others count, for lack of memory: the communicator fails, as in offload_start().
 * Returns an MPI error code.
 */
int offload_lose(struct offload_comm *comm, const struct offload_call *call);

/* The error of an operation that has ended, and the communicator whose error handler is called for it. */
int offload_op_error(const struct offload_op *op, MPI_Comm *comm);

/*
 * Free an operation, at any time after `ended` began, or before: then it ends, without a call of `ended`. Calls nothing of
 * MPI, takes no lock. NULL is fine.
 */
void offload_op_free(struct offload_op *op);

/* Wait until ended(context), while MPI and all operations make progress. */
void offload_wait(bool (*ended)(void *context), void *context);

/* Has a communicator (struct offload_comm *) no operations in progress? */
bool offload_comm_idle(void *comm);

/*
 * The program makes a persistent request, which is MPI's: ranks may start such requests in different orders, and operations on Weir
 * have one order. Rank 0 says so with verbosity 1. NULL is fine.
 */
void offload_persistent(const struct offload_comm *comm, enum weir_collective collective);

/*
 * Advance all operations and openings in progress. Returns the number of operations that ended. Never waits. Cost without
 * operations: a branch on a global counter. A front end calls it from MPI's progress (component), or from
 * every completion call of the program (preload): a rank that waits in MPI for anything else must call it too.
 */
int offload_progress(void);

/* PMPI_ calls of the core and of its front end that this thread is in. A front end gives their calls to MPI. */
extern _Thread_local unsigned int inside;
#define INSIDE(call) (inside++, inside_end(call))

static inline int
inside_end(int result)
{
	inside--;
	return result;
}

#endif
