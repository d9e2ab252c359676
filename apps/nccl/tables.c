/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL takes the newest table that it knows, of CollNet and of point to point on its own. It converts point to point of
 * version 8, so that one is enough.
 *
 *	version   first NCCL   new in CollNet
 *	8         2.20         allgather and reduce-scatter
 *	9         2.24         sizes are size_t; virtual devices
 *	10        2.26         nothing
 *	11        2.28         a context for each of NCCL's communicators
 *	12        2.30         up to 8 physical devices in a virtual one, rails
 */
#include "apps/nccl/plugin.h"

#define EXPORT __attribute__((visibility("default")))

static enum nccl_result
init_8(nccl_logger logger)
{
	device_logger = logger;
	return NCCL_SUCCESS;
}

static enum nccl_result
init_11(void **context, uint64_t comm, nccl_logger logger)
{
	(void)comm;
	*context = NULL;
	return init_8(logger);
}

static enum nccl_result
finalize(void *context)
{
	(void)context;
	return NCCL_SUCCESS;
}

/* Of both networks: without a device, NCCL continues with its own. */
static enum nccl_result
devices(int *n)
{
	*n = device_find() != NULL;
	return NCCL_SUCCESS;
}

/* A device. What a version has beside the common fields: behind registration_is_global, and at the end. */
#define PROPERTIES(version, flush, end, ...)                                                       \
	struct properties_##version {                                                              \
		const char *name, *path; /* path: of the PCI device, or NULL */                    \
		uint64_t guid;                                                                     \
		int memory, registration_is_global;                                                \
		flush int mbit_s, port;                                                            \
		float latency;                                                                     \
		int connections_max, receives_max;                                                 \
		int device_type, device_version; /* 0: GPUs do not send */                         \
		end                                                                                \
	};                                                                                         \
	static enum nccl_result properties_##version(int device, struct properties_##version *to)  \
	{                                                                                          \
		const struct nccl_device *at = device_find();                                      \
                                                                                                   \
		if (at == NULL || device != 0)                                                     \
			return NCCL_INVALID_ARGUMENT;                                              \
		*to = (struct properties_##version){.name = at->name,                              \
			.path = at->path[0] != '\0' ? at->path : NULL,                             \
			.guid = at->address,                                                       \
			.memory = NCCL_PTR_HOST,                                                   \
			.mbit_s = at->mbit_s,                                                      \
			.connections_max = 65536,                                                  \
			.receives_max = 1,                                                         \
			__VA_ARGS__};                                                              \
		return NCCL_SUCCESS;                                                               \
	}

/* Virtual devices, which here are the physical ones; the largest message and collective, bytes. */
#define VIRTUAL(max)                                                                               \
	struct {                                                                                   \
		int n, devices[max];                                                               \
	} physical;                                                                                \
	size_t message_max, collective_max;
#define VIRTUAL_VALUES                                                                             \
	.physical = {1, {device}}, .message_max = 1 << 30, .collective_max = 512 << 20

#define FLUSH    int flush;
#define REQUESTS int requests_max;
#define PLACE    int16_t rail, plane;

PROPERTIES(8, , , )
PROPERTIES(9, FLUSH, VIRTUAL(4), VIRTUAL_VALUES)
PROPERTIES(11, FLUSH, VIRTUAL(4) REQUESTS, VIRTUAL_VALUES, .requests_max = 1)
PROPERTIES(12, FLUSH, VIRTUAL(8) REQUESTS PLACE, VIRTUAL_VALUES, .requests_max = 1, .rail = -1,
	.plane = -1)

static enum nccl_result
listen_11(void *context, int device, void *handle, void **listener)
{
	(void)context;
	return coll_listen(device, handle, listener);
}

static enum nccl_result
allreduce_8(void *comm, void *send, void *recv, int count, int dtype, int op,
	void *send_registration, void *recv_registration, void **request)
{
	return coll_allreduce(comm, send, recv, (size_t)count, dtype, op, send_registration,
		recv_registration, request);
}

static enum nccl_result
register_dmabuf(void *comm, void *data, size_t size, int memory, uint64_t offset, int fd,
	void **registration)
{
	(void)comm, (void)data, (void)size, (void)memory, (void)offset, (void)fd;
	*registration = NULL;
	return NCCL_INVALID_USAGE;
}

/* Flushes are for memory of GPUs. No request: it is done. */
static enum nccl_result
flush(void *comm, void *data, int size, void *registration, void **request)
{
	(void)comm, (void)data, (void)size, (void)registration;
	*request = NULL;
	return NCCL_SUCCESS;
}

static enum nccl_result
point_register(void *comm, void *data, size_t size, int memory, void **registration)
{
	(void)comm, (void)data, (void)size;
	*registration = NULL;
	return memory == NCCL_PTR_HOST ? NCCL_SUCCESS : NCCL_INVALID_USAGE;
}

static enum nccl_result
point_deregister(void *comm, void *registration)
{
	(void)comm, (void)registration;
	return NCCL_SUCCESS;
}

static enum nccl_result
point_flush(void *comm, int n, void **data, int *sizes, void **registrations, void **request)
{
	(void)n, (void)sizes, (void)registrations;
	return flush(comm, data, 0, NULL, request);
}

/* All versions' tables are a name and functions, in NCCL's order. Those behind the last one here may be NULL. */
struct table {
	const char *name;
	void (*functions[21])(void);
};
#define F(function) (void (*)(void))(function)

#define COLLNET(version, init, properties, listen, allreduce, finalize)                            \
	extern const struct table ncclCollNetPlugin_v##version;                                    \
	EXPORT const struct table ncclCollNetPlugin_v##version = {"Weir",                          \
		{F(init), F(devices), F(properties), F(listen), F(coll_connect),                   \
			F(coll_reduce_support), F(coll_register), F(register_dmabuf),              \
			F(coll_deregister), F(allreduce), F(coll_allgather),                       \
			F(coll_reducescatter), F(flush), F(coll_test), F(coll_close),              \
			F(coll_close_listener), NULL /* a virtual device */, F(finalize)}};

COLLNET(8, init_8, properties_8, coll_listen, allreduce_8, NULL)
COLLNET(9, init_8, properties_9, coll_listen, coll_allreduce, NULL)
COLLNET(10, init_8, properties_9, coll_listen, coll_allreduce, NULL)
COLLNET(11, init_11, properties_11, listen_11, coll_allreduce, finalize)
COLLNET(12, init_11, properties_12, listen_11, coll_allreduce, finalize)

extern const struct table ncclNetPlugin_v8;
EXPORT const struct table ncclNetPlugin_v8 = {"Weir",
	{F(init_8), F(devices), F(properties_8), F(point_listen), F(point_connect), F(point_accept),
		F(point_register), F(register_dmabuf), F(point_deregister), F(point_send),
		F(point_receive), F(point_flush), F(point_test), F(point_close), F(point_close),
		F(point_close_listener)}};
