/* SPDX-License-Identifier: BSD-3-Clause */
/* The component, its modules, one for each communicator, and the requests of nonblocking operations. */
#include "apps/mpi/create.h"

#include "apps/mpi/openmpi/internals.h"

/* ompi/op/op.h includes a header that Debian does not ship. What coll_base_util.h needs of it is a name. */
#define OMPI_OP_H
typedef struct ompi_op_t ompi_op_t;

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/coll/base/base.h>
#include <ompi/mca/coll/base/coll_base_util.h>
#include <ompi/mca/coll/coll.h>
#include <ompi/runtime/mpiruntime.h>
#include <opal/runtime/opal_progress.h>
#if OMPI_MAJOR_VERSION < 5
#include <ompi/mca/rte/rte.h>
#include <opal/mca/pmix/pmix.h>
#define PMIX_GLOBAL OPAL_PMIX_GLOBAL
#else
#include <ompi/runtime/ompi_rte.h>
#include <opal/mca/pmix/pmix-internal.h>
#endif

/* Above all others, whose functions the module keeps for what Weir does not do. */
#define PRIORITY 95

extern __attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_weir_component;

struct coll_weir_module {
	mca_coll_base_module_t super;
	struct offload_comm *offload; /* from the first call on, if `known` */
	bool known;
	mca_coll_base_comm_coll_t mpi; /* the functions for what Weir does not do */
};
typedef struct coll_weir_module coll_weir_module_t;

static bool enable;
static struct offload_settings own;

static bool
plain(MPI_Datatype type)
{
	const opal_datatype_t *layout = &type->super;
	const uint16_t flags = OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS;

	return (layout->flags & flags) == flags && layout->true_lb == 0 &&
		(ptrdiff_t)layout->size == layout->ub - layout->lb;
}

/* The core */

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while everything works. */
static int
finalize(MPI_Comm comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)value;
	(void)extra;
	offload_finalize();
	return MPI_SUCCESS;
}

/*
 * mpirun hands no variable but its own to ranks on other hosts. So rank 0, which is on mpirun's host, gives its settings
 * to the others, with what else ranks learn of each other in MPI_Init.
 */
static int
publish(void)
{
	int code = OPAL_SUCCESS;

	if (enable && OMPI_PROC_MY_NAME->vpid == 0)
		OPAL_MODEX_SEND(code, PMIX_GLOBAL, &mca_coll_weir_component.collm_version, &own,
			sizeof(own));
	return code;
}

static void
look_up(void)
{
	opal_process_name_t first = {.jobid = OMPI_PROC_MY_NAME->jobid, .vpid = 0};
	struct offload_settings *published;
	size_t bytes = 0;
	int code;

	if (own.switch_address[0] != '\0')
		return;
	OPAL_MODEX_RECV(
		code, &mca_coll_weir_component.collm_version, &first, (void **)&published, &bytes);
	if (code != OPAL_SUCCESS)
		return;
	if (bytes == sizeof(*published))
		offload_take(&own, published);
	free(published);
}

static void
progress(void)
{
	(void)opal_progress();
}

static void
begin(void)
{
	struct offload_front front = {
		.progress = progress,
		.plain = plain,
		.own = MPI_COMM_NULL,
		.keeps_types = true,
	};
	int key;

	look_up();
	create_functions(&front);
	offload_init(&front, &own);
	PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &key, NULL);
	PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
	opal_progress_register(offload_progress);
}

/* The communicator's state in the core; NULL while MPI begins or ends, and where Weir never runs. */
static struct offload_comm *
coll_weir_comm(coll_weir_module_t *module, MPI_Comm comm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	/* A communicator of the core's own, or one that MPI creates or uses inside of the core's wait. */
	if (inside > 0)
		return NULL;
	if (!module->known) {
		/* Open MPI calls collectives in MPI_Init (of spawned processes) and in MPI_Finalize, when PMPI_ calls
		 * are not allowed. */
		if (ompi_mpi_state != OMPI_MPI_STATE_INIT_COMPLETED)
			return NULL;
		pthread_once(&once, begin);
		module->offload = offload_comm_create(comm);
		module->known = true;
	}
	return module->offload;
}

/*
 * MPI_Comm_dup and its like agree on a context id by nonblocking collectives on the parent. Those of MPI_Comm_idup begin at any
 * time, in another order on each rank, so Weir must not have them. They are calls for one int that do not come
 * from an entry point of MPI.
 */
static bool
internal(const struct offload_call *call, void *caller)
{
	static void *_Atomic known; /* an internal caller; dladdr() looks at all symbols */
	Dl_info info;

	if (call->recv_count != 1 || call->recv_type != MPI_INT)
		return false;
	if (caller == atomic_load_explicit(&known, memory_order_relaxed))
		return true;
	if (dladdr(caller, &info) != 0 && info.dli_sname != NULL &&
		(strncmp(info.dli_sname, "MPI_", 4) == 0 ||
			strncmp(info.dli_sname, "PMPI_", 5) == 0))
		return false;
	atomic_store_explicit(&known, caller, memory_order_relaxed);
	return true;
}

/* Requests */

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

/* Start a call. Returns OFFLOAD_MPI, OMPI_SUCCESS and *request, or an MPI error code. */
static int
coll_weir_start(coll_weir_module_t *module, MPI_Comm comm, const struct offload_call *call,
	MPI_Request *result)
{
	struct offload_comm *offload = coll_weir_comm(module, comm);
	ompi_request_t *base;
	coll_weir_request_t *request;
	int code;

	/* Without a request, where Weir certainly does not run. */
	if (offload == NULL)
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

/* Modules */

/* The three functions of a collective: run, start, make persistent, which is MPI's. */
#define X(id, mpi_name, name, shape, ...)                                                          \
	static int weir_##name(OFFLOAD_PARAMETERS(shape) struct ompi_communicator_t *comm,         \
		mca_coll_base_module_t *base)                                                      \
	{                                                                                          \
		coll_weir_module_t *module = (coll_weir_module_t *)base;                           \
		int code = offload_run(coll_weir_comm(module, comm), &OFFLOAD_CALL(id, shape));    \
                                                                                                   \
		return code != OFFLOAD_MPI                                                         \
			? code                                                                     \
			: module->mpi.coll_##name(OFFLOAD_ARGUMENTS(shape) comm,                   \
				  module->mpi.coll_##name##_module);                               \
	}                                                                                          \
	static int weir_i##name(OFFLOAD_PARAMETERS(shape) struct ompi_communicator_t *comm,        \
		ompi_request_t **request, mca_coll_base_module_t *base)                            \
	{                                                                                          \
		coll_weir_module_t *module = (coll_weir_module_t *)base;                           \
		const struct offload_call call = OFFLOAD_CALL(id, shape);                          \
		int code = internal(&call, __builtin_return_address(0))                            \
			? OFFLOAD_MPI                                                              \
			: coll_weir_start(module, comm, &call, request);                           \
                                                                                                   \
		return code != OFFLOAD_MPI                                                         \
			? code                                                                     \
			: module->mpi.coll_i##name(OFFLOAD_ARGUMENTS(shape) comm, request,         \
				  module->mpi.coll_i##name##_module);                              \
	}                                                                                          \
	static int weir_##name##_init(OFFLOAD_PARAMETERS(shape) struct ompi_communicator_t *comm,  \
		struct ompi_info_t *info, ompi_request_t **request, mca_coll_base_module_t *base)  \
	{                                                                                          \
		coll_weir_module_t *module = (coll_weir_module_t *)base;                           \
                                                                                                   \
		offload_persistent(coll_weir_comm(module, comm), WEIR_COLLECTIVE_##id);            \
		return module->mpi.coll_##name##_init(OFFLOAD_ARGUMENTS(shape) comm, info,         \
			request, module->mpi.coll_##name##_init_module);                           \
	}
OFFLOAD_LIST(X)
#undef X

#define FUNCTIONS(id, mpi_name, name, shape, F) F(name) F(i##name) F(name##_init)
#define FUNCTION_LIST(F)                        OFFLOAD_LIST(FUNCTIONS, F)

/* Keep the functions that are in use below this module. */
static int
module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
	coll_weir_module_t *module = (coll_weir_module_t *)base;
	const mca_coll_base_comm_coll_t *below = comm->c_coll;

#define X(function)                                                                                \
	if (below->coll_##function == NULL)                                                        \
		return OMPI_ERROR;
	FUNCTION_LIST(X)
#undef X
	module->mpi = *below; /* not earlier: the destructor releases what is here */
#define X(function) OBJ_RETAIN(module->mpi.coll_##function##_module);
	FUNCTION_LIST(X)
#undef X
	return OMPI_SUCCESS;
}

static void
module_construct(coll_weir_module_t *module)
{
	memset(&module->mpi, 0, sizeof(module->mpi));
	module->offload = NULL;
	module->known = false;
	module->super.coll_module_enable = module_enable;
#define X(function) module->super.coll_##function = weir_##function;
	FUNCTION_LIST(X)
#undef X
}

static void
module_destruct(coll_weir_module_t *module)
{
	offload_comm_release(module->offload);
	if (module->mpi.coll_barrier_module == NULL)
		return;
#define X(function) OBJ_RELEASE(module->mpi.coll_##function##_module);
	FUNCTION_LIST(X)
#undef X
}

OBJ_CLASS_DECLARATION(coll_weir_module_t);
OBJ_CLASS_INSTANCE(coll_weir_module_t, mca_coll_base_module_t, module_construct, module_destruct);

/* The component */

static mca_coll_base_module_t *
comm_query(struct ompi_communicator_t *comm, int *priority)
{
	coll_weir_module_t *module;

	/* All ranks answer alike. MPI_Comm_idup may end inside of the core's wait on some ranks alone. */
	if (!enable || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2)
		return NULL;
	module = OBJ_NEW(coll_weir_module_t);
	*priority = PRIORITY;
	return module != NULL ? &module->super : NULL;
}

static int
init_query(bool progress_threads, bool threads)
{
	(void)progress_threads;
	(void)threads;
	return OMPI_SUCCESS;
}

static int
register_parameters(void)
{
#define PARAMETER(name, type, help, at)                                                            \
	(void)mca_base_component_var_register(&mca_coll_weir_component.collm_version, name, help,  \
		MCA_BASE_VAR_TYPE_##type, NULL, 0, 0, OPAL_INFO_LVL_3,                             \
		MCA_BASE_VAR_SCOPE_READONLY, at)
#define NUMBER(field, name, help) PARAMETER(name, UNSIGNED_LONG_LONG, help, &own.field);
#define FLAG(field, name, help)   PARAMETER(name, BOOL, help, &own.field);
/* MPI replaces the text by a copy of its own. */
#define TEXT(field, name, help)                                                                    \
	static char *field;                                                                        \
	field = own.field;                                                                         \
	PARAMETER(name, STRING, help, &field);                                                     \
	if (field != own.field)                                                                    \
		snprintf(own.field, sizeof(own.field), "%s", field != NULL ? field : "");

	offload_environment(&own);
	PARAMETER("enable", BOOL, "Run collectives in the Weir switch that WEIR_SWITCH names",
		&enable);
#define OFFLOAD_X(field, name, variable, type, help) type(field, name, help)
	OFFLOAD_SETTING_LIST(OFFLOAD_X)
#undef OFFLOAD_X
	return OMPI_SUCCESS;
}

mca_coll_base_component_t mca_coll_weir_component = {
	.collm_version =
		{
#if OMPI_MAJOR_VERSION < 5
			MCA_COLL_BASE_VERSION_2_0_0,
#else
			MCA_COLL_BASE_VERSION_2_4_0,
#endif
			.mca_component_name = "weir",
			MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
			.mca_open_component = publish,
			.mca_register_component_params = register_parameters,
		},
	.collm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
	.collm_init_query = init_query,
	.collm_comm_query = comm_query,
};
