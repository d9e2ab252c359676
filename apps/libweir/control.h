/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a job and leaving it through the switch's control API, in the threads of weir_open,
 * weir_rejoin and weir_close, or in the control thread (work.h). Built without libcurl
 * (-Dhost_control=false), weir_control_prepare always fails.
 */
#ifndef APPS_LIBWEIR_CONTROL_H
#define APPS_LIBWEIR_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/libweir/weir.h"

struct weir_handle;
struct weir_control;

/*
 * Read and keep the settings of the API from the configuration and the environment. Sets h->source.
 * Does not wait. 0 or -errno with h->error set; in either case weir_control_leave() frees
 * h->control.
 */
int weir_control_prepare(struct weir_handle *h, const struct weir_config *config);

/*
 * Become a member of the job, by `deadline` (ns, weir_now) at the latest; the first answer of the
 * API comes within h->contact_timeout. Fills in the addresses, job, source and expected sources of
 * the handle. 0 or -errno with h->error set. 1: the switch is busy, and *again is
 * the time of the next call (ns).
 */
int weir_control_join(struct weir_handle *h, uint64_t deadline, uint64_t *again);

/*
 * Become a member again, with the same request: the former membership may have expired, the job may
 * be a new one, the switch may be starting. Also returns 0 if there is no answer by `deadline`, and
 * for a handle that joined by addresses: then nothing has changed. Only while there is no progress
 * thread.
 */
int weir_control_rejoin(struct weir_handle *h, uint64_t deadline);

/*
 * Ask the switch what it knows of the job: see weir_job_query_read(). present: the bitmap of the
 * sources from which the switch has a contribution, as it says; NULL: the switch is silent. Takes
 * at most 2 s. Reads only what is fixed for the generation, so any thread may call it. If the
 * handle is no member: 0, and an empty text.
 */
int weir_control_query(struct weir_handle *h, const uint8_t *present, char *text, size_t size);

/* Is the handle a member, and did it ask for a temporary job (weir_config.temporary)? Fixed after
 * the join; any thread. */
bool weir_control_temporary(const struct weir_handle *h);

/*
 * Tell the switch that the member leaves, if it joined, and free. Takes 2 s at most. A member of a
 * temporary job leaves in the control thread, but does not leave if the switch failed to answer
 * another leave in the last seconds. NULL is fine.
 */
void weir_control_leave(struct weir_control *control);

/*
 * Environment variables of launchers: rank, size, launcher. They are searched in this order. The
 * first launcher with a rank also gives the size, so that ranks and sizes of nested launchers
 * (mpirun inside a Slurm allocation) are not mixed.
 */
#define WEIR_LAUNCHER_LIST(X)                                                                      \
	X("WEIR_RANK", "WEIR_SIZE", "by hand")                                                     \
	X("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI")                              \
	X("PMI_RANK", "PMI_SIZE", "MPICH, Intel MPI, Cray")                                        \
	X("SLURM_PROCID", "SLURM_NTASKS", "srun")                                                  \
	X("RANK", "WORLD_SIZE", "torchrun")

struct weir_launcher {
	int rank; /* -1: not known */
	unsigned int size; /* 0: not known */
};

/* Fill in what is not known from the environment. 0, and 0 <= rank < size <= 256; or -EINVAL with
 * the reason in text. Any thread, while the environment does not change. */
int weir_launcher_complete(struct weir_launcher *launcher, char *text, size_t size);

#endif
