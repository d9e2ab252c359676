/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/mpi/openmpi/coll_weir.h"

/*
 * A request of the component. It begins as a request of nonblocking collectives, since Open MPI's entry points keep the
 * program's datatypes in it. It holds its communicator, which so survives MPI_Comm_free until the request ends.
 */
struct coll_weir_request {
	ompi_coll_base_nbc_request_t super;
	struct offload_op *op;
};
typedef struct coll_weir_request coll_weir_request_t;

OBJ_CLASS_DECLARATION(coll_weir_request_t);
OBJ_CLASS_INSTANCE(coll_weir_request_t, ompi_coll_base_nbc_request_t, NULL, NULL);

static void
op_ended(void *context, int error)
{
	ompi_request_t *request = context;

	request->req_status.MPI_ERROR = error;
	ompi_request_complete(request, true);
}

static int
request_free(ompi_request_t **at)
{
	coll_weir_request_t *request = (coll_weir_request_t *)*at;
	MPI_Comm comm = (*at)->req_mpi_object.comm;

	offload_op_free(request->op);
	OMPI_REQUEST_FINI(*at);
	OBJ_RELEASE(request);
	OBJ_RELEASE(comm);
	*at = MPI_REQUEST_NULL;
	return OMPI_SUCCESS;
}

/* A collective cannot be canceled. */
static int
request_cancel(ompi_request_t *request, int flag)
{
	(void)request;
	(void)flag;
	return MPI_ERR_REQUEST;
}

static coll_weir_request_t *
request_new(MPI_Comm comm)
{
	coll_weir_request_t *request = OBJ_NEW(coll_weir_request_t);
	ompi_request_t *base = (ompi_request_t *)request;

	if (request == NULL)
		return NULL;
	OMPI_REQUEST_INIT(base, false);
	/* The type tells whose error handler is called: the communicator's. */
	base->req_type = OMPI_REQUEST_PML;
	base->req_status = ompi_status_empty;
	base->req_f_to_c_index = MPI_UNDEFINED;
	base->req_free = request_free;
	base->req_cancel = request_cancel;
	base->req_mpi_object.comm = comm;
	OBJ_RETAIN(comm);
	request->op = NULL;
	return request;
}

int
coll_weir_start(coll_weir_module_t *module, MPI_Comm comm, const struct offload_call *call,
	MPI_Request *result)
{
	struct offload_comm *offload = coll_weir_comm(module, comm);
	ompi_request_t *base;
	coll_weir_request_t *request;
	int code;

	/* Without a request, where Weir certainly does not run. */
	if (offload == NULL || offload_inside())
		return OFFLOAD_MPI;
	request = request_new(comm);
	if (request == NULL)
		return OMPI_ERR_OUT_OF_RESOURCE;
	base = (ompi_request_t *)request;
	base->req_state = OMPI_REQUEST_ACTIVE;
	code = offload_start(offload, call, op_ended, request, &request->op);
	if (code == OMPI_SUCCESS)
		*result = base;
	else
		request_free(&base);
	return code;
}
