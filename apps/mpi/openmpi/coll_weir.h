/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the Open MPI component share. component.c is the component and its modules, one for each
 * communicator; request.c has nonblocking operations; create.c makes private communicators.
 */
#ifndef APPS_MPI_OPENMPI_COLL_WEIR_H
#define APPS_MPI_OPENMPI_COLL_WEIR_H

#include <ompi_config.h>

/* ompi/op/op.h includes a header that Debian does not ship. What coll_base_util.h needs of it is a name. */
#define OMPI_OP_H
typedef struct ompi_op_t ompi_op_t;

#include <ompi/communicator/communicator.h>
#include <ompi/mca/coll/base/coll_base_util.h>
#include <ompi/mca/coll/coll.h>

#include "apps/mpi/offload.h"

struct coll_weir_module {
	mca_coll_base_module_t super;
	struct offload_comm *offload; /* from the first call on, if `known` */
	bool known;
	mca_coll_base_comm_coll_t mpi; /* the functions for what Weir does not do */
};
typedef struct coll_weir_module coll_weir_module_t;

/* The communicator's state in the core; NULL while MPI begins or ends, and where Weir never runs. */
struct offload_comm *coll_weir_comm(coll_weir_module_t *module, MPI_Comm comm);

/* Start a call. Returns OFFLOAD_MPI, OMPI_SUCCESS and *request, or an MPI error code. */
int coll_weir_start(coll_weir_module_t *module, MPI_Comm comm, const struct offload_call *call,
	MPI_Request *request);

#endif
