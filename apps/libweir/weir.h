/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir: collectives through a Weir switch, from plain C, over UDP sockets.
 *
 *	struct weir_config config = {
 *		.switch_address = "10.0.0.1", .address = "10.0.0.10", .job = 1, .source = 0,
 *	};
 *	struct weir *weir;
 *
 *	if (weir_open(&config, &weir) < 0 ||
 *		weir_allreduce(weir, data, data, count, WEIR_DTYPE_FP32, WEIR_OP_SUM) != 0)
 *		fprintf(stderr, "%s\n", weir_last_error(weir));
 *	weir_close(weir);
 *
 * Where the switch has a control API, a host needs no address at all:
 *
 *	struct weir_config config = {
 *		.control = "http://10.0.0.1:8080", .job_name = "resnet50", .create = true,
 *	};
 *
 * and needs none of these fields if WEIR_SWITCH and WEIR_JOB are set. weir_open then joins the job
 * over HTTP, and takes the other settings from the answer. weir_close leaves the job. The launcher
 * sets rank and size. A field of the configuration overrides its variable:
 *
 *	WEIR_SWITCH                      control
 *	WEIR_JOB                         job_name
 *	WEIR_RANK, WEIR_SIZE             source, sources; otherwise the variables of Open MPI
 *	                                 (OMPI_COMM_WORLD_RANK, ..._SIZE), PMI (PMI_RANK,
 *	                                 PMI_SIZE), Slurm (SLURM_PROCID, SLURM_NTASKS) or torchrun
 *	                                 (RANK, WORLD_SIZE): both from the first that has a rank
 *	WEIR_TOKEN, or WEIR_TOKEN_FILE   token, token_file
 *	WEIR_CA                          ca_file
 *	WEIR_SETTINGS                    settings
 *
 * WEIR_TRANSPORT names the transport, with or without a control address (weir_use_transport).
 *
 * The library reads these variables only when there is a control address, and never in a
 * set-user-ID program.
 *
 * A handle is one source of one job, for one generation: weir_open joins and returns when every
 * source of the job has joined. From then on all sources must call the same operations in the same
 * order with the same count, type, operation and root. A process may have any number of handles, of
 * one job or of several. Several sources may share an address: each has its own UDP port.
 *
 * Threads: a process has one progress thread for all its handles, and one control thread while it
 * has work. Any thread may call any function, and several threads may use one handle at once. But
 * weir_open, weir_rejoin and weir_close must each be the only call on their handle. Operations run
 * in the order of the calls. This order must be the same on all sources, so threads that share a
 * handle must agree on it. Handles are independent of each other.
 *
 * A handle does not survive fork(): open a new one in the child. In the child, functions that
 * return a code return -EINVAL for the parent's handles and their requests, and change nothing.
 * weir_close closes the child's descriptors. Other functions return the state at the time of the
 * fork, or nothing.
 *
 * Return values: 0, -errno, or the positive WEIR_PARTIAL. After any value other than 0,
 * weir_last_error() returns a description to the thread that made the call. No call waits forever:
 * weir_open waits for at most join_timeout_ms, and an operation fails if no block of this handle
 * completes for op_timeout_ms, or if the switch does not answer for silence_timeout_ms.
 *
 * A failed operation (a negative value other than -EINVAL, -EBUSY, -EMSGSIZE for too few elements,
 * and the -EIO of WEIR_PARTIAL_FAIL) ends the generation for this handle: the sources may have sent
 * different data. All other operations in progress and all later ones fail with the same value and
 * text. weir_rejoin on every source (or weir_close and weir_open) begins a new generation. After a
 * failure the content of the receive buffer is undefined. (A call that cannot begin, because of
 * -ENOMEM or of -EMSGSIZE for too few elements, sends nothing and does not change the handle.
 * Sources that can begin the operation wait for this source.)
 *
 * Cost: one system call sends up to 512 packets, or receives up to 64 (with UDP_GRO up to 32
 * messages, each of which may hold several packets). Sending copies nothing; receiving copies once.
 * See spin_us for the cost of waiting.
 */
#ifndef APPS_LIBWEIR_WEIR_H
#define APPS_LIBWEIR_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/wire/types.h" /* enum weir_dtype, _op, _collective; weir_dtype_bytes() */

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API __attribute__((visibility("default")))

/*
 * The operation completed, but some sources are missing from at least one block of its result: they
 * were late, and the job's policy is `partial`. weir_last_result() returns the number of blocks and
 * the missing sources, weir_degraded() the elements. The value is positive, so that `!= 0` catches
 * it. The handle stays usable.
 *
 * Broadcast and scatter (and an alltoall made of scatters: docs/collectives.md) never return it:
 * only the root has data, and without the root there is no result. If other sources are late, these
 * operations return 0, and the same two functions name the late sources.
 */
#define WEIR_PARTIAL 1

/* What the library does with partial results. Each source chooses for itself; the switch sends the
 * same results to all. */
enum weir_partial {
	/* Each block is the result of the sources that contributed to it; the call returns
	 * WEIR_PARTIAL. */
	WEIR_PARTIAL_AS_IS,
	/*
	 * Sums (of allreduce, reduce and reducescatter) are multiplied by (sources of the job) /
	 * (sources in the block), block by block, and the call returns WEIR_PARTIAL. The types are
	 * int32, uint32, int64, uint64, fp32 and fp64; sums of other types are refused (-EINVAL),
	 * other operations are unchanged. fp32 is computed in fp64 and rounded once, to nearest
	 * even; fp64 is multiplied, then divided, with two roundings. Integers are rounded to
	 * nearest, halves away from 0, and saturate; a sum that wrapped is scaled as it is.
	 */
	WEIR_PARTIAL_RESCALE,
	/* The call returns -EIO in place of WEIR_PARTIAL, and the text names the missing sources.
	 * The handle stays usable: the sources still agree on the next operation. */
	WEIR_PARTIAL_FAIL,
};

/*
 * The configuration of a handle. Zero it first: every zero is a default, or an error that weir_open
 * reports. Set either `control` and the fields below it, or the addresses and numbers of the first
 * part.
 */
struct weir_config {
	const char *switch_address; /* IPv4 of the switch, dotted */
	/* Own IPv4, of the interface towards the switch. NULL with control: the source address of
	 * this host's packets to the switch. */
	const char *address;
	uint16_t port_base; /* UDP port of the base form at the switch; 0: 12000 */
	uint16_t port_ext; /* UDP port of the extended form; 0: 12001; not port_base */
	uint8_t job; /* the job's id; unused with control */
	bool base_form; /* send the 12-byte form: only the job's own type and operation */
	/* This rank's source id, [0, 256). With control: -1, or 0 if sources is also 0, takes the
	 * launcher's rank. */
	int source;
	/* The job must have this number of sources. 0: any; with control: the launcher's number. */
	unsigned int sources;
	unsigned int join_timeout_ms; /* 0: 30000 */
	/* For the control API's first answer, within join_timeout_ms. 0: join_timeout_ms. */
	unsigned int contact_timeout_ms;
	/* An operation fails if no block completes for this time. Time in which the process was
	 * stopped does not count. 0: 30000. */
	unsigned int op_timeout_ms;
	/* It also fails if the switch sends nothing for this time, not even that it waits for other
	 * sources. Time in which the process was stopped does not count. 0: op_timeout_ms. */
	unsigned int silence_timeout_ms;
	enum weir_partial partial; /* what to do with partial results */
	/*
	 * Error feedback: a contribution that missed its block is added to the contribution of the
	 * next call with the same buffer (the address of `send`, count and type), until it is
	 * delivered. So, once nothing is left to deliver, the sum of all results is the sum of all
	 * contributions. It applies to sums of allreduce, also in place, of int32, uint32, int64,
	 * uint64, fp32 and fp64; other types have none. The kept contributions belong to the handle
	 * and survive weir_rejoin (if the job then has another number of elements per block, they
	 * are kept, but not sent). An operation that fails does not change them. They take memory
	 * for a copy of each missed block, and for another copy during the next call:
	 * error_feedback_bytes at most (0: 256 MiB). An operation that needs more fails with
	 * -ENOMEM.
	 */
	bool error_feedback;
	uint64_t error_feedback_bytes;
	/*
	 * While the application computes, operations of the other sources may time out without it
	 * (job policy `partial`). The library keeps their results for later calls, and acknowledges
	 * them, so that the other sources continue. It keeps unexpected_bytes at most (0: 64 MiB).
	 * Beyond that the other sources wait, until their operations fail. This source then sends
	 * once a second, so a job with a dead_after_ms of at most 1000 expels it.
	 */
	uint64_t unexpected_bytes;
	/* Blocks in flight at most, rounded down to a power of two. 0: the job's window. */
	unsigned int window_limit;
	/* [-1, 1000000]: how long a waiting call polls before it sleeps, if answers usually come
	 * that soon. It yields the CPU between polls. 0: 100; -1: it sleeps at once. */
	int spin_us;

	/* The switch's control API: http://HOST:PORT, https://HOST:PORT or unix:PATH. NULL:
	 * WEIR_SWITCH, if switch_address is NULL. */
	const char *control;
	const char *job_name; /* the job's name */
	bool create; /* create the job if it does not exist; over TCP this needs a tenant's token */
	/*
	 * Settings of the job that is created, such as "elements=1024 policy=partial": those of
	 * POST /v1/jobs (docs/configuration.md, "Jobs"). NULL: WEIR_SETTINGS, or else the switch's
	 * defaults.
	 */
	const char *settings;
	/*
	 * The job that is created is temporary: the switch removes it when its last member leaves
	 * or expires. An operation that waits for a member that has left or expired fails with
	 * -ECONNABORTED.
	 */
	bool temporary;
	/* The tenant's token, or this rank's. Readable on the wire unless control is https. */
	const char *token;
	const char *token_file; /* a file with the token, in one line; token overrides it */
	/*
	 * For a job with a key file: the job's key, WEIR_KEY_BYTES; or, with key_of_source, the key
	 * of this source, which is derived from the job's key (docs/security.md, "Authenticated
	 * jobs"). Only the job's hosts may read the job's key, and only this host the source's key.
	 * NULL: with control the key that the switch gives to this member; otherwise no key. Must
	 * be NULL with base_form.
	 */
	const uint8_t *key;
	size_t key_bytes;
	bool key_of_source;
	const char *ca_file; /* PEM: certificates to trust for https; NULL: the system's */

	/*
	 * Called when a join, or an operation without progress, has waited for 3 s, and again each
	 * time the wait has doubled; text names what it waits for. With control also called at once
	 * when the MTU towards the switch is larger than the switch's, or too small for the job's
	 * blocks. It runs in a thread that waits, or in the progress thread, and must not call the
	 * library. NULL: the text goes to stderr, after "weir: ".
	 */
	void (*warn)(void *context, const char *text);
	void *warn_context;
};

struct weir;

/*
 * Join the job and wait for the other sources; all within join_timeout_ms. config is only read
 * during the call.
 *
 * On success 0, and *weir is a handle. On failure -errno, and *weir is a handle for
 * weir_last_error() and weir_close() only; it is NULL only for -ENOMEM (weir_last_error(NULL) is
 * fine). In either case the caller owns *weir and closes it.
 *
 *   -EINVAL      config: a required field is missing, or out of its range
 *   -ETIMEDOUT   the switch did not answer, or not all sources joined; the text
 *                says which
 *   -EACCES      refused: this source is not in the job, or its address is not
 *                the source's
 *   -EEXIST      a newer join has taken this source's place; the text says where
 *                it came from
 *   -EPROTO      the switch's reply is invalid (another version?), or the job's
 *                number of sources is not config.sources
 *   -ENOMEM      no memory
 *   others       from socket(2), bind(2), setsockopt(2), pthread_create(3)
 *
 * and with control
 *
 *   -EINVAL      also: no job name, no rank or size, or the switch refuses a
 *                setting
 *   -ECONNREFUSED, -EHOSTUNREACH, -ENOENT (a socket) and similar: no process listens there
 *   -ETIMEDOUT   also: the control API does not answer, within contact_timeout_ms
 *   -EACCES      also: the token is wrong or missing
 *   -ENOENT      there is no such job, and create is not set
 *   -ECONNABORTED  another member left the job before it began; the text names
 *                  its rank
 *   -EADDRINUSE  another living host has this rank
 *   -EMSGSIZE    the job's blocks do not fit the MTU of this host's interface
 *   -ENOSPC      the switch has no memory for the job; -EDQUOT: the tenant's
 *                quota is used up
 *   -EBUSY       the switch is too busy, or the tenant asks too often, until the
 *                end of join_timeout_ms
 *   -EPROTO      also: the address is not a control API, or TLS does not trust
 *                it; or the job has another size
 *   -EOPNOTSUPP  the library was built without the control API
 *
 * All failures but -ETIMEDOUT and -EBUSY return at once; within 3 s if the API closes connections
 * without an answer.
 */
WEIR_API int weir_open(const struct weir_config *config, struct weir **weir);

/*
 * Choose the transport of handles that are opened later: "udp", the kernel's sockets; "dpdk",
 * devices of DPDK without the kernel, from libweir-dpdk (docs/libweir.md, "Transports"); another
 * name for libweir-NAME.so, or the path of a library (weir-transport.h). NULL: the value of
 * WEIR_TRANSPORT, or else "udp". weir_open fails if the transport cannot be loaded. Returns 0, or
 * -EINVAL if the name is too long. Any thread; not in a set-user-ID program.
 */
WEIR_API int weir_use_transport(const char *name);

/*
 * Begin to open a handle, as weir_open does, and return without waiting for the switch or for other
 * sources: the library's control thread does the rest. config, and a token file, are only read
 * during the call. 0: weir_open_test() tells when the opening has ended. Other values as for
 * weir_open: nothing was begun, and the caller closes *weir.
 *
 * A process may open any number of handles at once, in any order. Until the opening has ended, only
 * weir_open_test, weir_fd, weir_close, weir_last_error and weir_stats may be called with the
 * handle; other calls that return a code return -EBUSY.
 */
WEIR_API int weir_iopen(const struct weir_config *config, struct weir **weir);

/*
 * Test whether weir_iopen has ended. If not, *done is false, and the call returns 0. If so, *done
 * is true, and the call returns what weir_open would have returned; later calls return the same.
 * Any thread, at any time between weir_iopen and weir_close. For a handle from weir_open, *done is
 * true. Costs a mutex.
 */
WEIR_API int weir_open_test(struct weir *weir, bool *done);

/*
 * The collectives. Arguments are in NCCL's order, after the handle. n is weir_sources(), and a
 * source's rank is weir_rank(), [0, n): its position among the sources. All sources pass the same
 * count, type, operation and root; root is a rank. If a buffer is made of n slices, slice i belongs
 * to rank i, and `count` is the number of elements of ONE slice.
 *
 *                  send                  recv                  in place
 *   allreduce      count                 count, reduced        send == recv
 *   reduce         count                 root: count, reduced  send == recv
 *   reducescatter  n * count             count, reduced        own slice of send
 *   broadcast      root: count           count                 send == recv
 *   scatter        root: n * count       count                 own slice of send
 *   gather         count                 root: n * count       own slice of recv
 *   allgather      count                 n * count             own slice of recv
 *   alltoall       n * count             n * count             send == recv
 *
 * The own slice begins at rank * count: recv == send + rank * count, or send == recv + rank *
 * count. Any other overlap is refused (-EINVAL). (An alltoall in place copies `send` if a block has
 * no room for a slice of each pair of sources.) Buffers of allreduce, reduce and reducescatter are
 * aligned as the type; the data of the others is only moved, and needs no alignment. Buffers stay
 * the caller's, and are used only until the operation ends; send is not written to, except in
 * place. In broadcast and scatter, `send` is used only at the root; in reduce and gather, `recv`
 * is. At other sources it is not touched and may be NULL. count 0 sends nothing; like every count,
 * it must be the same on all sources.
 *
 * Operations: all for integers; sum, prod, min, max and avg for floating-point types.
 * docs/collectives.md defines them to the last bit.
 *
 * The blocking functions return when this rank's result is complete and its peers no longer need
 * it. 0: recv holds the whole result; WEIR_PARTIAL: see there; or
 *
 *   -EINVAL      unknown collective, type or operation, or an operation that the
 *                type does not have; no such root; base form and not an allreduce
 *                of the job's type and operation; NULL instead of a buffer;
 *                buffers that overlap other than in place; more than 2^31 - 1
 *                blocks. Nothing was sent.
 *   -EBUSY       weir_rejoin is in progress on this handle
 *   -ETIMEDOUT   no block completed for op_timeout_ms; the text names the missing
 *                sources, or says that the switch is silent
 *   -EIO         status error: a source was late and the job's policy is `error`,
 *                or the root's data is missing; or a result is partial, and
 *                weir_config.partial is WEIR_PARTIAL_FAIL
 *   -ENOMEM      no memory for `error_feedback`, or for the operation
 *   -EPROTO      mismatch: the sources called different operations; the text says
 *                how they differ
 *   -EOPNOTSUPP  the switch does not serve this collective, type or operation
 *   -ESTALE      the job has a new generation, without this handle; or none: the
 *                switch was restarted, or a source joins again and the job
 *                revokes the others
 *   -ENODATA     expired: the switch no longer has the block's result
 *   -ERANGE      out-of-window: the switch and the library disagree about the
 *                window
 *   -ENOENT      the job is gone: it was deleted, or the switch was restarted
 *                without it; or, without control, this source is no longer in it
 *   -EACCES      this source is no longer in the job, as the control API says
 *   -EEXIST      a newer join has taken this source's place; the text says where
 *                it came from
 *   -EMSGSIZE    a block does not fit the MTU of the interface; or the job's
 *                blocks have fewer elements than the job has sources, too few for
 *                slices: then no source has sent anything, and the handle is
 *                unchanged
 *   -ECANCELED   the handle was closed during the call
 *   others       of the transport: from sendmmsg(2)
 *
 * With control the library asks the control API when the switch is silent for seconds, and when the
 * operation fails. So the operation fails before op_timeout_ms when the job is gone, and the text
 * gives the addresses of missing sources. A call that fails takes up to 2 s longer; this also holds
 * for weir_open and weir_rejoin.
 */
WEIR_API int weir_allreduce(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, enum weir_op op);
WEIR_API int weir_reduce(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, enum weir_op op, unsigned int root);
WEIR_API int weir_reducescatter(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, enum weir_op op);
WEIR_API int weir_broadcast(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, unsigned int root);
WEIR_API int weir_scatter(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, unsigned int root);
WEIR_API int weir_gather(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, unsigned int root);
WEIR_API int weir_allgather(
	struct weir *weir, const void *send, void *recv, size_t count, enum weir_dtype dtype);
WEIR_API int weir_alltoall(
	struct weir *weir, const void *send, void *recv, size_t count, enum weir_dtype dtype);
/* Return when every source has called it: one block without payload. */
WEIR_API int weir_barrier(struct weir *weir);

/*
 * Start a collective and return without waiting. 0: wait for *request with one of the functions
 * below, even if count is 0. Negative: nothing was started, and *request is NULL. Operations are
 * served in the order of the calls, as many at a time as the window has room for, and may be waited
 * for in any order. Waiting for a request frees it; weir_close frees the others.
 */
struct weir_request;
WEIR_API int weir_iallreduce(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, enum weir_op op, struct weir_request **request);
WEIR_API int weir_ireduce(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, enum weir_op op, unsigned int root, struct weir_request **request);
WEIR_API int weir_ireducescatter(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, enum weir_op op, struct weir_request **request);
WEIR_API int weir_ibroadcast(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, unsigned int root, struct weir_request **request);
WEIR_API int weir_iscatter(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, unsigned int root, struct weir_request **request);
WEIR_API int weir_igather(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, unsigned int root, struct weir_request **request);
WEIR_API int weir_iallgather(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, struct weir_request **request);
WEIR_API int weir_ialltoall(struct weir *weir, const void *send, void *recv, size_t count,
	enum weir_dtype dtype, struct weir_request **request);
WEIR_API int weir_ibarrier(struct weir *weir, struct weir_request **request);

/* The arguments of any collective. A field that the collective does not use is ignored: a barrier
 * uses only the first. */
struct weir_call {
	enum weir_collective collective;
	const void *send;
	void *recv;
	size_t count;
	enum weir_dtype dtype;
	enum weir_op op;
	unsigned int root;
};

/*
 * Run the collective that `call` describes; weir_allreduce, weir_iallreduce and the others are such
 * calls. If request is NULL, the call waits, as the blocking function does; otherwise it returns at
 * once, as the nonblocking function does. `call` is only read during the call.
 */
WEIR_API int weir_collective(
	struct weir *weir, const struct weir_call *call, struct weir_request **request);

/*
 * Wait for requests of one handle or of several. These functions return the operation's code, as
 * the blocking function does, free the request and set *request to NULL. Only one thread may wait
 * for a request. A NULL request (already waited for) returns 0 at once, or is skipped.
 *
 *   weir_test      does not wait: *done says whether the operation has ended; if
 *                  not, 0 is returned. It makes progress, as MPI_Test does: if no
 *                  other thread uses the handle's sockets, it receives what has
 *                  come, and sends what is due.
 *   weir_wait_for  waits for ms milliseconds at most, as weir_wait does: it polls
 *                  first (spin_us), then sleeps. 0: as weir_test. If the
 *                  operation has not ended by then, *done is false and 0 is
 *                  returned.
 *   weir_wait_any  waits for one of requests[0 .. n): *which is its index.
 *                  -ENOENT: all are NULL, *which is n.
 *   weir_wait_all  waits for all of them. Returns the first code, in the array's
 *                  order, that is not 0; weir_last_error() has its text, for up
 *                  to 8 failed handles.
 *
 * Between weir_iX and the first of these calls a thread of the library makes progress. While a
 * thread calls them at least every 2 ms, only that thread makes progress. So weir_iX and a loop of
 * weir_wait_for cost as much as the blocking function.
 *
 * -EINVAL for a request from before fork(): no request was waited for or changed; *which is n.
 */
WEIR_API int weir_test(struct weir_request **request, bool *done);
WEIR_API int weir_wait_for(struct weir_request **request, unsigned int ms, bool *done);
WEIR_API int weir_wait(struct weir_request **request);
WEIR_API int weir_wait_any(struct weir_request **requests, size_t n, size_t *which);
WEIR_API int weir_wait_all(struct weir_request **requests, size_t n);

/*
 * Return a descriptor for an event loop with epoll(7) or poll(2). It is readable while a request of
 * this handle has ended and no thread waits for it, or while weir_iopen has ended; weir_test, or
 * weir_open_test, then takes the result. Do not read, write or close the descriptor: it belongs to
 * the handle, and weir_close closes it. The first call makes it. It costs two system calls per
 * request, and nothing if it is never asked for. While a program sleeps on it, the progress thread
 * makes progress. Returns the descriptor, or -errno: -EINVAL for a NULL handle and one from before
 * fork(), others from eventfd(2).
 */
WEIR_API int weir_fd(struct weir *weir);

/*
 * Begin a new generation on this handle, with or without a failure: join again, from the same
 * address and port, and wait for the other sources, within join_timeout_ms. Every source must join,
 * with weir_rejoin, or with weir_open in a new process. This lets the hosts continue after one of
 * them crashed and restarted, or after the switch was restarted.
 *
 * The last operations of two sources may differ by one: one source may have the result of an
 * operation that failed on another. The new generation has no state of the former one, so the
 * sources must agree on where to continue: for example with a sum of one element per source, in
 * which each source sets its own element to its step.
 *
 * A member that joined through the control API joins there again, with the configuration of
 * weir_open. This handles an expired membership, a job that was deleted and created again (by this
 * call, if `create` was set) with another id or other keys, and a switch that has lost its state.
 * While the API does not answer, the request is repeated, for half of join_timeout_ms; then the
 * former membership is used.
 *
 * The job's setting `rejoin` says what happens to the others. With "wait" their operations continue
 * until they fail, or the application calls weir_rejoin; with "revoke" they fail at once, with
 * -ESTALE.
 *
 * In an authenticated job each generation has its own keys, derived from a challenge that the
 * switch never repeats: no key is used twice with a block number, whatever was restarted.
 *
 * 0: the handle is usable again, as after weir_open. -EBUSY: an operation is in progress (or its
 * request was not waited for), and nothing was done. Otherwise as weir_open; the handle is as after
 * a failed operation, and weir_rejoin may be called again. (If weir_open failed, close and open
 * again.)
 */
WEIR_API int weir_rejoin(struct weir *weir);

/*
 * Return how far the other sources are ahead: the number of blocks, from the first block of the
 * next operation, whose results have already arrived. Operations within these blocks complete at
 * once with the others' results and contribute nothing, so a late application need not compute
 * their data. (With `error_feedback` their data is added to the next call.) A block has
 * weir_elements() elements, the last one of an operation may have fewer; a barrier is one block.
 * Any thread.
 */
WEIR_API uint64_t weir_unexpected(const struct weir *weir);

/*
 * Discard what `error_feedback` keeps for this buffer (`send` of former calls), before the buffer
 * is freed or reused for other data. NULL: for all buffers. Returns the number of bytes discarded.
 * Must not be called during an operation.
 */
WEIR_API uint64_t weir_error_feedback_forget(struct weir *weir, const void *buffer);

/*
 * Leave the job, close the sockets, free the handle; with the last handle the progress thread ends.
 * NULL is fine. The other sources still get their results from the switch. A member that joined
 * through the control API leaves through it, within 2 s, unless another handle has joined as this
 * rank since. Operations in progress are canceled: a thread that waits for one of them returns
 * -ECANCELED first. Requests that no thread waits for are freed. A weir_iopen in progress is
 * canceled: the call returns at once, and the control thread leaves the job and frees the handle.
 */
WEIR_API void weir_close(struct weir *weir);

/*
 * The text of the last failure (or WEIR_PARTIAL) that a call with this handle returned to this
 * thread: one line without a newline, or "". As with errno, neither failures of other threads nor
 * calls that succeed change it. A thread keeps the texts of the last 8 handles that failed. Valid
 * until this thread's next call with a handle. NULL: the text for -ENOMEM. Must not be called after
 * weir_close.
 */
WEIR_API const char *weir_last_error(const struct weir *weir);

/* The result of the operation that any thread waited for last, in a blocking call or by its
 * request. */
struct weir_result {
	uint64_t blocks; /* blocks of the operation */
	uint64_t completed; /* blocks that have a result, degraded ones included */
	uint64_t degraded; /* results that lack a source, even if no data is missing */
	uint64_t without_own; /* of these: results that lack this source's contribution */
	unsigned int sources_least; /* sources in the result that has the fewest */
	/* Sources that at least one result lacks: bit (s % 8) of byte (s / 8). If the job's ids are
	 * not [0, sources), only sources seen so far. */
	uint8_t missing[WEIR_BITMAP_BYTES];
};

WEIR_API void weir_last_result(const struct weir *weir, struct weir_result *result);

/*
 * One degraded block of that operation: its elements are [first, first + count) of `recv`, or, if
 * recv is made of slices, of each slice (in an alltoall made of scatters, of recv).
 */
struct weir_degraded {
	size_t first;
	size_t count;
	uint8_t present[WEIR_BITMAP_BYTES]; /* the sources that are in it */
};

/*
 * The degraded blocks of that operation, in no particular order. Returns their number. The handle
 * owns *blocks; it is valid until any thread waits for another operation.
 */
WEIR_API size_t weir_degraded(const struct weir *weir, const struct weir_degraded **blocks);

/*
 * Counters of what happened since weir_open returned. On-the-wire bytes count Ethernet (14), IPv4
 * (20), UDP (8), the aggregation header and the payload, at least 60 a frame; no preamble and no
 * FCS.
 */
#define WEIR_STATS_LIST(X)                                                                         \
	X(packets_sent, "contributions sent, repetitions included")                                \
	X(payload_sent, "bytes of elements in them")                                               \
	X(wire_sent, "bytes on the wire of them")                                                  \
	X(packets_received, "packets received, dropped ones included")                             \
	X(payload_received, "bytes of elements in the accepted results")                           \
	X(wire_received, "bytes on the wire of all packets received")                              \
	X(retransmissions, "contributions sent again, for any reason")                             \
	X(timeouts, "of these: nothing came within a timeout")                                     \
	X(gaps, "of these: later blocks were answered first")                                      \
	X(results_ok, "blocks completed with every source in them")                                \
	X(results_partial, "blocks completed with sources missing")                                \
	X(results_error, "replies that failed an operation, of any status")                        \
	X(fed_back, "own contributions that missed their block, kept for the next call")           \
	X(unexpected, "partial results kept for operations that were not called yet")              \
	X(acknowledged, "acknowledgements sent, repetitions included")                             \
	X(unexpected_full, "partial results not kept: unexpected_bytes are used up")               \
	X(waiting, "replies that say that a block waits for sources")                              \
	X(duplicates, "packets about blocks that have their result already")                       \
	X(foreign, "packets of another job, generation or source, or not from the switch")         \
	X(forged, "packets without the right tag, where they need one; ignored")                   \
	X(malformed, "packets from the switch that failed a check of length, type or range")       \
	X(send_errors, "errors of the transport and ICMP errors, repaired by repetition")          \
	X(srtt_ns, "smoothed round-trip time of a block, stragglers' time included")               \
	X(rto_ns, "retransmission timeout")                                                        \
	X(window, "blocks in flight at most")                                                      \
	X(window_job, "blocks in flight that the job allows")                                      \
	X(receive_buffer, "bytes that the kernel granted to the receiving socket")                 \
	X(probes, "questions whether the switch has a contribution")                               \
	X(crc, "packets with a wrong CRC, of a job with integrity crc32c; repaired like losses")

struct weir_stats {
#define WEIR_X(name, help) uint64_t name;
	WEIR_STATS_LIST(WEIR_X)
#undef WEIR_X
};

/*
 * Copy the counters. Any thread, at any time between weir_open and weir_close. weir_stats_sized
 * copies as many as fit `size` bytes, and writes 0 into those that this library does not know: new
 * counters are added at the end of the structure. weir_stats calls it with the size that the
 * program was compiled with. A program that was compiled before weir_stats_sized existed gets the
 * counters that its structure had.
 */
WEIR_API void weir_stats(const struct weir *weir, struct weir_stats *stats);
WEIR_API void weir_stats_sized(const struct weir *weir, struct weir_stats *stats, size_t size);

#define weir_stats(weir, stats) weir_stats_sized(weir, stats, sizeof(struct weir_stats))

/* This rank's source id, and the job's id: [0, 256), from the configuration or the switch; 0 until
 * known. */
WEIR_API unsigned int weir_source(const struct weir *weir);
WEIR_API unsigned int weir_job(const struct weir *weir);

/*
 * The caller's position among the job's sources in the order of their ids, [0, weir_sources()).
 * `root` and the numbers of slices are ranks. If the ids are [0, sources), the rank is the id. 0
 * until joined.
 */
WEIR_API unsigned int weir_rank(const struct weir *weir);

/* The job's settings, from the switch's answer to the join; 0 for a handle that failed to open. */
WEIR_API unsigned int weir_sources(const struct weir *weir); /* [1, 256] */
WEIR_API unsigned int weir_window(const struct weir *weir); /* in use; see window_limit */
WEIR_API unsigned int weir_timeout_ms(const struct weir *weir); /* the job's block timeout */
WEIR_API unsigned int weir_generation(const struct weir *weir); /* [1, 65536) */
WEIR_API enum weir_dtype weir_job_dtype(const struct weir *weir); /* of the base form */
WEIR_API enum weir_op weir_job_op(const struct weir *weir);

/*
 * Elements per block at most, of this type: the job's `elements`, and for types of 8 bytes half of
 * it (at least 1), because the switch sizes its buffers for 4 bytes an element.
 */
WEIR_API unsigned int weir_elements(const struct weir *weir, enum weir_dtype dtype);

/* MTU of this host's interface towards the switch, at the join; 0: unknown, as without control or
 * over dpdk. */
WEIR_API unsigned int weir_mtu(const struct weir *weir);

#ifdef __cplusplus
}
#endif

#endif
