/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * As much of MPI and of libweir as apps/mpi/ needs without communication, compiled against MPICH's header, whose handles are
 * numbers. Any thread.
 */
#ifndef TESTS_UNIT_FAKE_MPI_H
#define TESTS_UNIT_FAKE_MPI_H

#include "apps/mpi/offload_priv.h"

/* A derived type: an int and a gap as large. */
#define GAPPED ((MPI_Datatype)0x01234567)

/* Called where libweir would start and test operations. */
extern void (*fake_weir_started)(struct weir *weir, enum weir_collective collective);

/* So many looks at an operation until it ends, and the ms that all looks would have slept. */
extern int fake_weir_looks;
extern unsigned int fake_weir_slept_ms;

/* A handle whose operations never end. */
extern struct weir *const fake_weir_endless;

#endif
