/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libnccl-net-weir.so: NCCL's CollNet on a Weir switch. NCCL stages the memory of GPUs in the hosts', so all buffers are in
 * host memory.
 *
 * NCCL uses CollNet only of the plug-in that also carries its point-to-point messages, and loads no plug-in that does not.
 * So there is a plain transport over TCP, too.
 *
 *	tables.c   what NCCL looks up: a table of functions for each version of its interface
 *	coll.c     CollNet: a temporary job for each communicator
 *	point.c    point to point
 *	device.c   the device, which is the interface towards the switch
 *
 * This file has all that Weir must know of NCCL: it builds without NCCL and CUDA.
 */
#ifndef APPS_NCCL_PLUGIN_H
#define APPS_NCCL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

enum {
	NCCL_HANDLE_BYTES = 128, /* of listen and connect */
	NCCL_REQUESTS = 32, /* of a connection, at once */
	NCCL_PTR_HOST = 1, /* a bit: the kind of memory */
};

enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR,
	NCCL_INVALID_ARGUMENT,
	NCCL_INVALID_USAGE,
	NCCL_REMOTE_ERROR,
};

/* A part of a buffer. The size is a uint32_t in version 8; Weir does not read it. */
struct nccl_part {
	void *registration;
	void *address;
	size_t size;
};

enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
enum nccl_log_part { NCCL_LOG_INIT = 0x1, NCCL_LOG_NET = 0x10 }; /* bits */

typedef void (*nccl_logger)(enum nccl_log_level level, unsigned long parts, const char *file,
	int line, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* NCCL's, from the last initialization; a process has one NCCL. */
extern nccl_logger device_logger;

#define SAY(level, ...)                                                                            \
	device_logger(                                                                             \
		level, NCCL_LOG_INIT | NCCL_LOG_NET, __func__, __LINE__, "NET/Weir: " __VA_ARGS__)
#define WARN(...) SAY(NCCL_LOG_WARN, __VA_ARGS__)
#define INFO(...) SAY(NCCL_LOG_INFO, __VA_ARGS__)

/* The interface towards the switch: NCCL's only device. Found once, then constant. */
struct nccl_device {
	char name[16];
	char path[256]; /* of its PCI device; "": none */
	uint32_t address; /* network order */
	int mbit_s;
};

/* NULL, and a line in the log, if WEIR_SWITCH is not set or the switch does not answer. Blocks until it is known. */
const struct nccl_device *device_find(void);
unsigned int device_timeout_ms(void); /* WEIR_NCCL_TIMEOUT_S, or 20 s */
void device_warn(void *context, const char *text); /* weir_config.warn: to the log */

/*
 * CollNet. A rank is a node. All ranks call the collectives of a communicator in the same order. A collective does not
 * block; *request is NULL if it has to be called again. A request ends with the test that says that it is done. connect
 * blocks; if it fails, NCCL goes on without CollNet.
 *
 * Of the data of all ranks, bytes_per_rank from each, allgather and reducescatter move the window [offset,
 * offset + bytes) alone. The one part is the window. The other buffer begins where this rank's data meets the window.
 */
enum nccl_result coll_listen(int device, void *handle, void **listener);
enum nccl_result coll_connect(void *handles[], int ranks, int rank, void *listener, void **comm);
enum nccl_result coll_reduce_support(int dtype, int op, int *supported);
enum nccl_result coll_register(
	void *comm, void *data, size_t size, int memory, void **registration);
enum nccl_result coll_deregister(void *comm, void *registration);
enum nccl_result coll_allreduce(void *comm, void *send, void *recv, size_t count, int dtype, int op,
	void *send_registration, void *recv_registration, void **request);
enum nccl_result coll_allgather(void *comm, void *send, int parts, struct nccl_part *recv,
	size_t bytes_per_rank, size_t offset, size_t bytes, void *registration, void **request);
enum nccl_result coll_reducescatter(void *comm, int parts, struct nccl_part *send, void *recv,
	size_t bytes_per_rank, size_t offset, size_t bytes, int dtype, int op, void *registration,
	void **request);
enum nccl_result coll_test(void *request, int *done, int *size);
enum nccl_result coll_close(void *comm);
enum nccl_result coll_close_listener(void *listener);

/*
 * Point to point. connect and accept are called again, with the same handle, while they return *comm NULL. Messages of a
 * connection arrive in the order of send. Requests as above.
 */
enum nccl_result point_listen(int device, void *handle, void **listener);
enum nccl_result point_connect(int device, void *handle, void **comm, void **device_comm);
enum nccl_result point_accept(void *listener, void **comm, void **device_comm);
enum nccl_result point_send(
	void *comm, void *data, int size, int tag, void *registration, void **request);
enum nccl_result point_receive(void *comm, int n, void **data, int *sizes, int *tags,
	void **registrations, void **request);
enum nccl_result point_test(void *request, int *done, int *sizes);
enum nccl_result point_close(void *comm);
enum nccl_result point_close_listener(void *listener);

#endif
