/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables that NCCL looks for in a network plug-in, as NCCL calls them. Written from NCCL's headers, not from Weir's
 * plug-in, whose tables are to fit.
 */
#ifndef TESTS_FUNCTIONAL_NCCL_TABLES_H
#define TESTS_FUNCTIONAL_NCCL_TABLES_H

#include <stdint.h>

#include "apps/nccl/plugin.h"

/* A device. What a version has beside the common fields: behind registration_is_global, and at the end. */
#define NCCL_PROPERTIES(version, flush, end)                                                       \
	struct nccl_properties_v##version {                                                        \
		char *name;                                                                        \
		char *path; /* of the PCI device in /sys */                                        \
		uint64_t guid;                                                                     \
		int memory; /* kinds */                                                            \
		int registration_is_global;                                                        \
		flush int mbit_s;                                                                  \
		int port;                                                                          \
		float latency;                                                                     \
		int connections_max;                                                               \
		int receives_max; /* in one call */                                                \
		int device_type, device_version; /* 0: the GPU does not take part */               \
		end                                                                                \
	}
#define NCCL_DEVICES(max)                                                                          \
	struct {                                                                                   \
		int n, devices[max];                                                               \
	} physical;                                                                                \
	size_t send_max, collective_max; /* bytes */

NCCL_PROPERTIES(8, , );
NCCL_PROPERTIES(9, int flush;, NCCL_DEVICES(4));
NCCL_PROPERTIES(10, int flush;, NCCL_DEVICES(4));
NCCL_PROPERTIES(11, int flush;, NCCL_DEVICES(4) int requests_max;);
NCCL_PROPERTIES(12, int flush;, NCCL_DEVICES(8) int requests_max; int16_t rail; int16_t plane;);

/*
 * CollNet. A rank is a node. Collectives and test do not block; all ranks call the collectives of a communicator in the
 * same order. A request ends with the test that says that it is done. *request NULL: call again.
 */
#define NCCL_COLLNET(version, init_arguments, context, count_t, end)                                 \
	struct nccl_collnet_v##version {                                                             \
		const char *name;                                                                    \
		enum nccl_result(*init) init_arguments;                                              \
		enum nccl_result (*devices)(int *n);                                                 \
		enum nccl_result (*properties)(int device, struct nccl_properties_v##version *);     \
		enum nccl_result (*listen)(context int device, void *handle, void **listener);       \
		/* May block. After an error, or with *comm NULL, NCCL goes on without CollNet. */   \
		enum nccl_result (*connect)(                                                         \
			void *handles[], int ranks, int rank, void *listener, void **comm);          \
		enum nccl_result (*reduce_support)(int dtype, int op, int *supported);               \
		enum nccl_result (*register_memory)(                                                 \
			void *comm, void *data, size_t size, int memory, void **registration);       \
		enum nccl_result (*register_dmabuf)(void *comm, void *data, size_t size,             \
			int memory, uint64_t offset, int fd, void **registration);                   \
		enum nccl_result (*deregister)(void *comm, void *registration);                      \
		enum nccl_result (*iallreduce)(void *comm, void *send, void *recv, count_t count,    \
			int dtype, int op, void *send_registration, void *recv_registration,         \
			void **request);                                                             \
		/*                                                                                 \
		 * Of the concatenation of all ranks' data, bytes_per_rank from each, only the     \
		 * window [offset, offset + bytes). A rank's own buffer (send, or recv of          \
		 * ireducescatter) begins where its data meets the window. There is one part.      \
		 */ \
		enum nccl_result (*iallgather)(void *comm, void *send, int parts,                    \
			struct nccl_part *recv, size_t bytes_per_rank, size_t offset,                \
			size_t bytes, void *send_registration, void **request);                      \
		enum nccl_result (*ireducescatter)(void *comm, int parts, struct nccl_part *send,    \
			void *recv, size_t bytes_per_rank, size_t offset, size_t bytes, int dtype,   \
			int op, void *recv_registration, void **request);                            \
		enum nccl_result (*iflush)(                                                          \
			void *comm, void *data, int size, void *registration, void **request);       \
		enum nccl_result (*test)(void *request, int *done, int *size);                       \
		enum nccl_result (*close_comm)(void *comm);                                          \
		enum nccl_result (*close_listener)(void *listener);                                  \
		end                                                                                  \
	}

/* Point to point, of which Weir has version 8 only. */
struct nccl_net_v8 {
	const char *name;
	enum nccl_result (*init)(nccl_logger logger);
	enum nccl_result (*devices)(int *n);
	enum nccl_result (*properties)(int device, struct nccl_properties_v8 *);
	enum nccl_result (*listen)(int device, void *handle, void **listener);
	enum nccl_result (*connect)(int device, void *handle, void **comm, void **device_comm);
	enum nccl_result (*accept)(void *listener, void **comm, void **device_comm);
	enum nccl_result (*register_memory)(
		void *comm, void *data, size_t size, int memory, void **registration);
	enum nccl_result (*register_dmabuf)(void *comm, void *data, size_t size, int memory,
		uint64_t offset, int fd, void **registration);
	enum nccl_result (*deregister)(void *comm, void *registration);
	enum nccl_result (*isend)(
		void *comm, void *data, int size, int tag, void *registration, void **request);
	enum nccl_result (*irecv)(void *comm, int n, void **data, int *sizes, int *tags,
		void **registrations, void **request);
	enum nccl_result (*iflush)(
		void *comm, int n, void **data, int *sizes, void **registrations, void **request);
	enum nccl_result (*test)(void *request, int *done, int *sizes);
	enum nccl_result (*close_send)(void *comm);
	enum nccl_result (*close_recv)(void *comm);
	enum nccl_result (*close_listener)(void *listener);
	void *register_on_device, *received_on_device; /* functions, or NULL */
};

#define NCCL_CONTEXT void *context,
#define NCCL_END_9   void *make_device; /* a function, or NULL */
#define NCCL_END_11  NCCL_END_9 enum nccl_result (*finalize)(void *context);

#define NCCL_INIT_8  (nccl_logger logger)
#define NCCL_INIT_11 (void **context, uint64_t comm, nccl_logger logger)

NCCL_COLLNET(8, NCCL_INIT_8, , int, );
NCCL_COLLNET(9, NCCL_INIT_8, , size_t, NCCL_END_9);
NCCL_COLLNET(10, NCCL_INIT_8, , size_t, NCCL_END_9);
NCCL_COLLNET(11, NCCL_INIT_11, NCCL_CONTEXT, size_t, NCCL_END_11);
NCCL_COLLNET(12, NCCL_INIT_11, NCCL_CONTEXT, size_t, NCCL_END_11);

_Static_assert(sizeof(struct nccl_properties_v8) == 64 &&
		sizeof(struct nccl_properties_v9) == 104 &&
		sizeof(struct nccl_properties_v11) == 112 &&
		sizeof(struct nccl_properties_v12) == 128,
	"as in NCCL");
_Static_assert(sizeof(struct nccl_collnet_v8) == 17 * 8 &&
		sizeof(struct nccl_collnet_v9) == 18 * 8 &&
		sizeof(struct nccl_collnet_v11) == 19 * 8 && sizeof(struct nccl_net_v8) == 19 * 8,
	"as in NCCL");

#endif
