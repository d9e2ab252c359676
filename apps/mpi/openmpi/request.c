/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/mpi/openmpi/coll_weir.h"

/*
 * A request of the component. It begins as a request of nonblocking collectives, since Open MPI's entry points keep the
 * program's datatypes in it. It holds its communicator, which so survives MPI_Comm_free until the request ends.
 */
struct coll_weir_request {
	ompi_coll_base_nbc_request_t super;
	coll_weir_module_t *module;
	struct offload_op *op;
	/* Of a persistent request: */
	struct offload_call call;
	ompi_request_t *mpi; /* MPI's, which runs what Weir does not */
};
typedef struct coll_weir_request coll_weir_request_t;

OBJ_CLASS_DECLARATION(coll_weir_request_t);
OBJ_CLASS_INSTANCE(coll_weir_request_t, ompi_coll_base_nbc_request_t, NULL, NULL);

static void
complete(ompi_request_t *request, int error)
{
	request->req_status.MPI_ERROR = error;
	ompi_request_complete(request, true);
}

static void
op_ended(void *context, int error)
{
	complete(context, error);
}

static int
mpi_ended(ompi_request_t *mpi)
{
	mpi->req_state = OMPI_REQUEST_INACTIVE;
	/* MPI would say so after this function, when another thread may have started the request again. */
	mpi->req_complete = REQUEST_COMPLETED;
	complete(mpi->req_complete_cb_data, mpi->req_status.MPI_ERROR);
	return 1;
}

static int
request_start(size_t count, ompi_request_t **requests)
{
	for (size_t i = 0; i < count; i++) {
		coll_weir_request_t *request = (coll_weir_request_t *)requests[i];
		MPI_Comm comm = requests[i]->req_mpi_object.comm;
		int code;

		offload_op_free(request->op);
		request->op = NULL;
		requests[i]->req_status.MPI_ERROR = OMPI_SUCCESS;
		requests[i]->req_complete = REQUEST_PENDING;
		requests[i]->req_state = OMPI_REQUEST_ACTIVE;
		code = offload_start(coll_weir_comm(request->module, comm), &request->call,
			op_ended, request, &request->op);
		if (code == OFFLOAD_MPI && request->mpi->req_type == OMPI_REQUEST_NOOP) {
			complete(requests[i], OMPI_SUCCESS); /* no data, and no req_start */
			code = OMPI_SUCCESS;
		} else if (code == OFFLOAD_MPI) {
			request->mpi->req_complete_cb = mpi_ended;
			request->mpi->req_complete_cb_data = request;
			code = request->mpi->req_start(1, &request->mpi);
		}
		if (code != OMPI_SUCCESS)
			return code;
	}
	return OMPI_SUCCESS;
}

static int
request_free(ompi_request_t **at)
{
	coll_weir_request_t *request = (coll_weir_request_t *)*at;
	MPI_Comm comm = (*at)->req_mpi_object.comm;

	if (request->mpi != NULL)
		ompi_request_free(&request->mpi);
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
request_new(coll_weir_module_t *module, MPI_Comm comm, bool persistent)
{
	coll_weir_request_t *request = OBJ_NEW(coll_weir_request_t);
	ompi_request_t *base = (ompi_request_t *)request;

	if (request == NULL)
		return NULL;
	OMPI_REQUEST_INIT(base, persistent);
	/* The type tells whose error handler is called: the communicator's. */
	base->req_type = OMPI_REQUEST_PML;
	base->req_status = ompi_status_empty;
	base->req_f_to_c_index = MPI_UNDEFINED;
	base->req_start = request_start;
	base->req_free = request_free;
	base->req_cancel = request_cancel;
	base->req_mpi_object.comm = comm;
	OBJ_RETAIN(comm);
	request->module = module;
	request->op = NULL;
	request->mpi = NULL;
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
	request = request_new(module, comm, false);
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

int
coll_weir_persist(coll_weir_module_t *module, MPI_Comm comm, const struct offload_call *call,
	MPI_Request *result)
{
	coll_weir_request_t *request;

	if (offload_inside() || !offload_could(coll_weir_comm(module, comm), call))
		return OMPI_SUCCESS;
	request = request_new(module, comm, true);
	if (request == NULL)
		return OMPI_ERR_OUT_OF_RESOURCE;
	request->call = *call;
	request->mpi = *result;
	*result = (ompi_request_t *)request;
	return OMPI_SUCCESS;
}
