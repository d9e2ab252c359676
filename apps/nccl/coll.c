/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/nccl/plugin.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "apps/libweir/weir.h"

/* NCCL has 8 steps of up to 8 groups of channels in flight; more wait. */
#define REQUESTS      64
#define MAGIC         UINT64_C(0x314c4c4f43524957)
#define OP_TIMEOUT_MS 86400000 /* a rank may be late for legal reasons: a day */

/* In NCCL's order, in which an average over all GPUs follows: a node cannot tell how many there are. */
static const enum weir_op ops[] = {WEIR_OP_SUM, WEIR_OP_PROD, WEIR_OP_MAX, WEIR_OP_MIN};
static const enum weir_dtype dtypes[] = {
	WEIR_DTYPE_INT8,
	WEIR_DTYPE_UINT8,
	WEIR_DTYPE_INT32,
	WEIR_DTYPE_UINT32,
	WEIR_DTYPE_INT64,
	WEIR_DTYPE_UINT64,
	WEIR_DTYPE_FP16,
	WEIR_DTYPE_FP32,
	WEIR_DTYPE_FP64,
	WEIR_DTYPE_BF16,
	WEIR_DTYPE_FP8_E4M3,
	WEIR_DTYPE_FP8_E5M2,
};

/* What ranks exchange: rank 0's counts. */
struct handle {
	uint64_t magic;
	char job[48];
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "fits NCCL's handle");

struct region {
	const char *data;
	size_t size;
};

struct request {
	struct coll *comm; /* NULL: free */
	struct region send, recv;
	unsigned int parts, next; /* operations of Weir, and the next one to test */
	struct weir_request **part;
};

/*
 * A communicator is a handle of its own, in a job of its own: libweir wants the operations of a handle in the same order
 * on all ranks, and NCCL orders those of a communicator only. NCCL does not call with one communicator in two threads.
 */
struct coll {
	struct weir *weir; /* NULL: canceled */
	enum nccl_result
		result; /* of the first failure: NCCL may test again after an error, and must not hear of success */
	unsigned int ranks, rank;
	struct request requests[REQUESTS];
	struct weir_request *parts[]; /* of all requests, `ranks` each */
};

enum nccl_result
coll_reduce_support(int dtype, int op, int *supported)
{
	*supported = dtype >= 0 && (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) && op >= 0 &&
		(size_t)op < sizeof(ops) / sizeof(ops[0]) &&
		weir_dtype_has_op(dtypes[dtype], ops[op]);
	return NCCL_SUCCESS;
}

/* Communicators */

enum nccl_result
coll_listen(int device, void *to, void **listener)
{
	static char none; /* nothing listens: the switch brings the ranks together */
	const char *space = getenv("WEIR_NAMESPACE");
	bool named = space != NULL && space[0] != '\0';
	struct handle handle = {.magic = MAGIC};
	uint64_t number;

	(void)device;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		WARN("no random number for the name of a job");
		return NCCL_SYSTEM_ERROR;
	}
	snprintf(handle.job, sizeof(handle.job), "%.18s%c%012llx", named ? space : "nccl",
		named ? '.' : '-', (unsigned long long)(number >> 16));
	memcpy(to, &handle, sizeof(handle));
	*listener = &none;
	return NCCL_SUCCESS;
}

enum nccl_result
coll_close_listener(void *listener)
{
	(void)listener;
	return NCCL_SUCCESS;
}

enum nccl_result
coll_connect(void *handles[], int ranks, int rank, void *listener, void **to)
{
	struct handle first;
	struct weir_config config = {
		.job_name = first.job,
		.create = true,
		.temporary = true,
		.source = rank,
		.sources = (unsigned int)ranks,
		.join_timeout_ms = device_timeout_ms(),
		.op_timeout_ms = OP_TIMEOUT_MS,
		.silence_timeout_ms = device_timeout_ms(),
		.partial = WEIR_PARTIAL_FAIL,
		.warn = device_warn,
	};
	struct coll *comm;

	(void)listener;
	*to = NULL;
	memcpy(&first, handles[0], sizeof(first));
	first.job[sizeof(first.job) - 1] = '\0';
	if (first.magic != MAGIC || rank < 0 || rank >= ranks || ranks > WEIR_SOURCES_MAX) {
		WARN("no CollNet: rank 0 has another plug-in, or rank %d of %d is not in [0, %d)",
			rank, ranks, WEIR_SOURCES_MAX);
		return NCCL_INVALID_USAGE;
	}
	comm = calloc(1, sizeof(*comm) + sizeof(comm->parts[0]) * REQUESTS * (size_t)ranks);
	if (comm == NULL)
		return NCCL_SYSTEM_ERROR;
	comm->ranks = (unsigned int)ranks;
	comm->rank = (unsigned int)rank;
	for (unsigned int i = 0; i < REQUESTS; i++)
		comm->requests[i].part = comm->parts + i * comm->ranks;
	if (weir_open(&config, &comm->weir) < 0) {
		WARN("no CollNet: job %s: %s", first.job, weir_last_error(comm->weir));
		coll_close(comm);
		return NCCL_SYSTEM_ERROR;
	}
	INFO("rank %d of %d in job %s", rank, ranks, first.job);
	*to = comm;
	return NCCL_SUCCESS;
}

enum nccl_result
coll_close(void *of)
{
	struct coll *comm = of;

	weir_close(comm->weir);
	free(comm);
	return NCCL_SUCCESS;
}

/* Memory */

enum nccl_result
coll_register(void *comm, void *data, size_t size, int memory, void **registration)
{
	struct region *region = memory == NCCL_PTR_HOST ? malloc(sizeof(*region)) : NULL;

	(void)comm;
	*registration = region;
	if (region == NULL)
		return memory == NCCL_PTR_HOST ? NCCL_SYSTEM_ERROR : NCCL_INVALID_USAGE;
	*region = (struct region){data, size};
	return NCCL_SUCCESS;
}

static bool
overlap(const struct region *a, const struct region *b)
{
	return a->data < b->data + b->size && b->data < a->data + a->size;
}

/*
 * A communicator that is aborted has requests in flight, and NCCL frees their buffers before it closes the communicator. So
 * they are canceled here.
 */
enum nccl_result
coll_deregister(void *of, void *registration)
{
	struct coll *comm = of;

	for (unsigned int i = 0; i < REQUESTS && registration != NULL; i++) {
		const struct request *request = &comm->requests[i];

		if (request->comm != NULL && comm->weir != NULL &&
			(overlap(&request->send, registration) ||
				overlap(&request->recv, registration))) {
			INFO("canceled: buffers of a collective in progress are freed");
			weir_close(comm->weir);
			comm->weir = NULL;
			if (comm->result == NCCL_SUCCESS)
				comm->result = NCCL_INTERNAL_ERROR;
		}
	}
	free(registration);
	return NCCL_SUCCESS;
}

/* Collectives */

/* The communicator is of no more use. Its requests stay taken: their buffers may be in use until it is closed. */
static enum nccl_result
failed(struct coll *comm, int code)
{
	WARN("%s", weir_last_error(comm->weir));
	switch (code) {
	case -EINVAL:
	case -EMSGSIZE:
	case -EOPNOTSUPP: comm->result = NCCL_INTERNAL_ERROR; break;
	case -ENOMEM:
	case -EPERM: comm->result = NCCL_SYSTEM_ERROR; break;
	default: comm->result = NCCL_REMOTE_ERROR;
	}
	return comm->result;
}

/* NULL: all are in use. */
static struct request *
take(struct coll *comm, struct region send, struct region recv)
{
	unsigned int i = 0;

	while (i < REQUESTS && comm->requests[i].comm != NULL)
		i++;
	if (i == REQUESTS)
		return NULL;
	comm->requests[i].comm = comm;
	comm->requests[i].send = send;
	comm->requests[i].recv = recv;
	comm->requests[i].parts = comm->requests[i].next = 0;
	return &comm->requests[i];
}

enum nccl_result
coll_allreduce(void *of, void *send, void *recv, size_t count, int dtype, int op,
	void *send_registration, void *recv_registration, void **to)
{
	struct coll *comm = of;
	struct request *request;
	size_t bytes;
	int supported, code;

	(void)send_registration, (void)recv_registration;
	*to = NULL;
	coll_reduce_support(dtype, op, &supported);
	if (!supported)
		return NCCL_INVALID_USAGE;
	if (comm->result != NCCL_SUCCESS)
		return comm->result;
	bytes = count * weir_dtype_bytes(dtypes[dtype]);
	request = take(comm, (struct region){send, bytes}, (struct region){recv, bytes});
	if (request == NULL)
		return NCCL_SUCCESS;
	code = weir_iallreduce(
		comm->weir, send, recv, count, dtypes[dtype], ops[op], &request->part[0]);
	if (code < 0)
		return failed(comm, code);
	request->parts = 1;
	*to = request;
	return NCCL_SUCCESS;
}

/*
 * One operation for each rank whose data meets the window: a broadcast, or a reduce of these types. A window is any part of
 * the ranks' data, but Weir's allgather and reducescatter have slices of the same size from all.
 */
static enum nccl_result
move_window(struct coll *comm, char *all, char *own, size_t bytes_per_rank, size_t offset,
	size_t window, const enum weir_dtype *dtype, enum weir_op op, void **to)
{
	struct region whole = {all, window},
		      mine = {own, window < bytes_per_rank ? window : bytes_per_rank};
	struct request *request;

	*to = NULL;
	if (comm->result != NCCL_SUCCESS)
		return comm->result;
	request = take(comm, dtype != NULL ? whole : mine, dtype != NULL ? mine : whole);
	for (unsigned int root = 0; request != NULL && root < comm->ranks; root++) {
		size_t begin = root * bytes_per_rank, end = begin + bytes_per_rank, bytes;
		struct weir_request **part = &request->part[request->parts];
		char *at = root == comm->rank ? own : NULL;
		int code;

		begin = begin < offset ? 0 : begin - offset;
		end = end < offset ? 0 : end - offset;
		bytes = (end < window ? end : window) - begin;
		if (begin >= window || end == 0)
			continue;
		if (dtype != NULL)
			code = weir_ireduce(comm->weir, all + begin, at,
				bytes / weir_dtype_bytes(*dtype), *dtype, op, root, part);
		else if (bytes % 4 == 0) /* a block has as many elements of 4 bytes as of 1 */
			code = weir_ibroadcast(comm->weir, at, all + begin, bytes / 4,
				WEIR_DTYPE_UINT32, root, part);
		else
			code = weir_ibroadcast(
				comm->weir, at, all + begin, bytes, WEIR_DTYPE_UINT8, root, part);
		if (code < 0)
			return failed(comm, code);
		request->parts++;
	}
	*to = request;
	return NCCL_SUCCESS;
}

enum nccl_result
coll_allgather(void *comm, void *send, int parts, struct nccl_part *recv, size_t bytes_per_rank,
	size_t offset, size_t bytes, void *registration, void **request)
{
	(void)registration;
	*request = NULL;
	if (parts != 1)
		return NCCL_INVALID_USAGE;
	return move_window(
		comm, recv->address, send, bytes_per_rank, offset, bytes, NULL, 0, request);
}

enum nccl_result
coll_reducescatter(void *comm, int parts, struct nccl_part *send, void *recv, size_t bytes_per_rank,
	size_t offset, size_t bytes, int dtype, int op, void *registration, void **request)
{
	int supported;

	(void)registration;
	*request = NULL;
	coll_reduce_support(dtype, op, &supported);
	if (parts != 1 || !supported)
		return NCCL_INVALID_USAGE;
	return move_window(comm, send->address, recv, bytes_per_rank, offset, bytes, &dtypes[dtype],
		ops[op], request);
}

enum nccl_result
coll_test(void *of, int *done, int *size)
{
	struct request *request = of;
	struct coll *comm = request->comm;
	bool ended;
	int code;

	*done = 0;
	if (comm->result != NCCL_SUCCESS)
		return comm->result;
	for (; request->next < request->parts; request->next++) {
		code = weir_test(&request->part[request->next], &ended);
		if (code != 0)
			return failed(comm, code);
		if (!ended)
			return NCCL_SUCCESS;
	}
	*done = 1;
	if (size != NULL)
		*size = (int)request->recv.size;
	request->comm = NULL;
	return NCCL_SUCCESS;
}
