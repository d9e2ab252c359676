/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI calls that the preload library takes over: one list, from which its symbols, its table of the MPI
 * library's functions and its table of hooks are made.
 *
 * The preload library is two files. libweir-mpi-KIND.so (preload.c) is what LD_PRELOAD names. It depends on no MPI
 * and on nothing of Weir, so it does no harm in a process that uses another MPI or none: mpirun, a shell, a Python
 * interpreter. Its first MPI call finds the MPI library; if it is of the right kind, it loads
 * libweir-mpi-KIND-offload.so (hooks.c), which has the rest, and from then on calls that library's hooks.
 *
 * Both names of a call are taken over, MPI_X and PMPI_X, because Fortran's bindings call PMPI_X: all of Open MPI's,
 * and in MPICH those of mpi_f08 that have no buffer. So there are no Fortran symbols here: the MPI library's own
 * convert handles, MPI_IN_PLACE, MPI_BOTTOM and statuses, in every binding and for every way to spell a
 * Fortran name. A tool that is preloaded before Weir and calls PMPI_X is served too.
 */
#ifndef APPS_MPI_PMPI_CALLS_H
#define APPS_MPI_PMPI_CALLS_H

#include "apps/mpi/collectives.h"

#ifndef MPI_VERSION
/*
 * Without mpi.h: handles as preload.c passes them on, in a register each, whatever they are: Open MPI has
 * pointers, MPICH has int.
 */
typedef void *MPI_Comm, *MPI_Datatype, *MPI_Op, *MPI_Request;
typedef void *MPI_Group, *MPI_Info, *MPI_Errhandler;
typedef void MPI_Status;
typedef long MPI_Count;
#endif

/* A collective and its nonblocking form, which has a request as its last argument. */
#define WEIR_MPI_FORMS(id, shape, name, iname, PARAMETERS)                                         \
	WEIR_X(name, (PARAMETERS(shape) MPI_Comm comm), (OFFLOAD_ARGUMENTS(shape) comm))           \
	WEIR_X(iname, (PARAMETERS(shape) MPI_Comm comm, MPI_Request * request),                    \
		(OFFLOAD_ARGUMENTS(shape) comm, request))

/* Wait for requests, or ask about them: during these calls offloaded operations go on. */
#define WEIR_MPI_COMPLETIONS(X)                                                                    \
	X(Wait, (MPI_Request * request, MPI_Status * status), (request, status))                   \
	X(Waitall, (int n, MPI_Request *requests, MPI_Status *statuses), (n, requests, statuses))  \
	X(Waitany, (int n, MPI_Request *requests, int *which, MPI_Status *status),                 \
		(n, requests, which, status))                                                      \
	X(Waitsome, (int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses),   \
		(n, requests, done, which, statuses))                                              \
	X(Test, (MPI_Request * request, int *done, MPI_Status *status), (request, done, status))   \
	X(Testall, (int n, MPI_Request *requests, int *done, MPI_Status *statuses),                \
		(n, requests, done, statuses))                                                     \
	X(Testany, (int n, MPI_Request *requests, int *which, int *done, MPI_Status *status),      \
		(n, requests, which, done, status))                                                \
	X(Testsome, (int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses),   \
		(n, requests, done, which, statuses))                                              \
	X(Request_get_status, (MPI_Request request, int *done, MPI_Status *status),                \
		(request, done, status))

/* WEIR_X(name without MPI_, parameters, arguments), the last two in parentheses; all return int. */
#define WEIR_MPI_CALLS                                                                             \
	OFFLOAD_FORM_LIST(WEIR_MPI_FORMS)                                                          \
	WEIR_MPI_COMPLETIONS(WEIR_X)                                                               \
	WEIR_X(Init, (int *argc, char ***argv), (argc, argv))                                      \
	WEIR_X(Init_thread, (int *argc, char ***argv, int required, int *provided),                \
		(argc, argv, required, provided))                                                  \
	WEIR_X(Finalize, (void), ())                                                               \
	WEIR_X(Comm_create_from_group,                                                             \
		(MPI_Group group, const char *tag, MPI_Info info, MPI_Errhandler handler,          \
			MPI_Comm *comm),                                                           \
		(group, tag, info, handler, comm))                                                 \
	WEIR_X(Comm_free, (MPI_Comm * comm), (comm))                                               \
	WEIR_X(Comm_disconnect, (MPI_Comm * comm), (comm))

struct weir_mpi_calls {
#define WEIR_X(name, parameters, arguments) int(*name) parameters;
	WEIR_MPI_CALLS
#undef WEIR_X
};

/* A hook's answer: the call is MPI's. No MPI error code is negative. */
#define WEIR_MPI_NEXT (-1)

/*
 * libweir-mpi-KIND-offload.so: called instead of MPI. Any thread may call. A hook may itself call PMPI_X, which
 * comes back to it, and which it then answers with WEIR_MPI_NEXT.
 */
extern const struct weir_mpi_calls weir_mpi_hooks;

#endif
