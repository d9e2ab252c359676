/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls libnccl-net-weir.so as NCCL's proxy does. One rank:
 *
 *	weir-nccl-loader PLUGIN FOLDER RANK RANKS SEED SCENARIO
 *
 * Ranks exchange handles by files in FOLDER, as NCCL does by its bootstrap network. Prints what the plug-in logs, and
 * "ok SCENARIO", or what is wrong.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/verify/verify.h"
#include "tests/functional/nccl_tables.h"

#define STEPS   8 /* in flight */
#define SLOT    ((size_t)64 << 10)
#define REGION  (2 * STEPS * SLOT) /* of a communicator: sends, then receives */
#define DTYPES  12
#define OPS     4
#define PLANNED (DTYPES * OPS + 24) /* steps, of which the last have windows */

static const char *folder;
static unsigned int rank, ranks, version;
static uint64_t seed;
static void *library;

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("rank %u, version %u: ", rank, version);
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	exit(1);
}

#define CHECK(good, ...)                                                                           \
	do {                                                                                       \
		if (!(good))                                                                       \
			die(__VA_ARGS__);                                                          \
	} while (0)
#define CALL(call)                                                                                 \
	do {                                                                                       \
		enum nccl_result call_result = (call);                                             \
		CHECK(call_result == NCCL_SUCCESS, "%s: %d", #call, call_result);                  \
	} while (0)

static void __attribute__((format(printf, 5, 6))) logger(enum nccl_log_level level,
	unsigned long parts, const char *file, int line, const char *format, ...)
{
	va_list arguments;

	(void)parts;
	va_start(arguments, format);
	printf("%s %s:%d ", level == NCCL_LOG_WARN ? "WARN" : "INFO", file, line);
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
}

/* The same on all ranks for the same arguments. */
static uint64_t
draw(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t x = seed ^ a * UINT64_C(0x9e3779b97f4a7c15) ^ b * UINT64_C(0xc2b2ae3d27d4eb4f) ^
		c * UINT64_C(0x165667b19e3779f9);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Files */

static void
put(const char *name, const void *data, size_t size)
{
	char path[512], whole[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%u.part", folder, name, rank);
	snprintf(whole, sizeof(whole), "%s/%s.%u", folder, name, rank);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0 &&
			rename(path, whole) == 0,
		"%s: %m", path);
}

static void
get(const char *name, unsigned int from, void *data, size_t size)
{
	char path[512];
	int fd = -1;

	snprintf(path, sizeof(path), "%s/%s.%u", folder, name, from);
	for (int i = 0; i < 60000 && (fd = open(path, O_RDONLY)) < 0; i++)
		usleep(2000);
	CHECK(fd >= 0 && read(fd, data, size) == (ssize_t)size, "%s: %m", path);
	close(fd);
}

static void
barrier(const char *name, unsigned int n)
{
	char one = 0;

	put(name, &one, 1);
	for (unsigned int i = 0; i < n; i++)
		get(name, i, &one, 1);
}

/* The tables. Members that all versions have alike are called through that of version 12. */

static union {
	void *symbol;
	const struct nccl_collnet_v8 *v8;
	const struct nccl_collnet_v9 *v9;
	const struct nccl_collnet_v10 *v10;
	const struct nccl_collnet_v11 *v11;
	const struct nccl_collnet_v12 *v12;
} coll;
static const struct nccl_net_v8 *net;
static void *context = (void *)1;

/* The common fields are right; those of the version are checked by their place. */
#define PROPERTIES(number, ...)                                                                    \
	case number: {                                                                             \
		struct nccl_properties_v##number p;                                                \
                                                                                                   \
		memset(&p, 0xee, sizeof(p));                                                       \
		CALL(coll.v##number->properties(0, &p));                                           \
		CHECK(strcmp(p.name, "eth0") == 0 && p.path == NULL &&                             \
				p.memory == NCCL_PTR_HOST && p.registration_is_global == 0 &&      \
				p.mbit_s > 0 && p.connections_max > 0 && p.receives_max == 1 &&    \
				p.device_type == 0 && p.device_version == 0 __VA_ARGS__,           \
			"properties");                                                             \
		break;                                                                             \
	}
#define VIRTUAL                                                                                    \
	&&p.flush == 0 && p.physical.n == 1 && p.physical.devices[0] == 0 &&                       \
		p.send_max > 1 << 20 && p.collective_max > 1 << 20 &&                              \
		p.collective_max <= (size_t)1 << 40

static void
load(const char *path)
{
	char name[32];
	int n = -1;

	library = library != NULL ? library : dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(library != NULL, "%s", dlerror());
	net = dlsym(library, "ncclNetPlugin_v8");
	snprintf(name, sizeof(name), "ncclCollNetPlugin_v%u", version);
	coll.symbol = dlsym(library, name);
	CHECK(net != NULL && coll.symbol != NULL, "%s", dlerror());
	CHECK(strcmp(net->name, "Weir") == 0 && strcmp(coll.v12->name, "Weir") == 0, "names");
	CALL(net->init(logger));
	if (version >= 11)
		CALL(coll.v12->init(&context, draw(0, 0, 0), logger));
	else
		CALL(coll.v8->init(logger));
	CALL(net->devices(&n));
	CALL(coll.v12->devices(&n));
	if (n == 0) {
		printf("no device\n");
		exit(0);
	}
	CHECK(n == 1, "%d devices", n);
	switch (version) {
		PROPERTIES(8)
		PROPERTIES(9, VIRTUAL)
		PROPERTIES(10, VIRTUAL)
		PROPERTIES(11, VIRTUAL && p.requests_max == 1)
		PROPERTIES(12, VIRTUAL && p.requests_max == 1 && p.rail == -1 && p.plane == -1)
	default: die("no such version");
	}
}

static void
unload(void)
{
	if (version >= 11)
		CALL(coll.v12->finalize(context));
}

/* NCCL's numbers of types and operations. */
static const enum weir_dtype dtypes[DTYPES] = {WEIR_DTYPE_INT8, WEIR_DTYPE_UINT8, WEIR_DTYPE_INT32,
	WEIR_DTYPE_UINT32, WEIR_DTYPE_INT64, WEIR_DTYPE_UINT64, WEIR_DTYPE_FP16, WEIR_DTYPE_FP32,
	WEIR_DTYPE_FP64, WEIR_DTYPE_BF16, WEIR_DTYPE_FP8_E4M3, WEIR_DTYPE_FP8_E5M2};
static const enum weir_op ops[OPS] = {WEIR_OP_SUM, WEIR_OP_PROD, WEIR_OP_MAX, WEIR_OP_MIN};

/* Communicators */

struct step {
	enum weir_collective what;
	int dtype, op;
	size_t bytes_per_rank, offset, bytes; /* the window, [0, bytes) of an allreduce */
	size_t own, own_bytes; /* this rank's part of the window, from its begin */
	struct verify data;
};

struct comm {
	char name[32];
	uint64_t number;
	void *comm, *registrations[2];
	char *region;
	void *requests[STEPS];
	unsigned int posted, done;
};

static enum nccl_result
join(struct comm *comm, const char *name, unsigned int n)
{
	static char handles[256][NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES] = {0};
	void *pointers[256], *listener;
	enum nccl_result result;

	memset(comm, 0, sizeof(*comm));
	snprintf(comm->name, sizeof(comm->name), "%s-v%u", name, version);
	comm->number = draw(version, (uint64_t)name[0], 0);
	if (version >= 11)
		CALL(coll.v12->listen(context, 0, mine, &listener));
	else
		CALL(coll.v8->listen(0, mine, &listener));
	CHECK(listener != NULL, "no listener");
	put(comm->name, mine, sizeof(mine));
	for (unsigned int i = 0; i < n; i++) {
		get(comm->name, i, handles[i], sizeof(handles[i]));
		pointers[i] = handles[i];
	}
	result = coll.v12->connect(pointers, (int)n, (int)rank, listener, &comm->comm);
	if (result != NCCL_SUCCESS)
		return result;
	CALL(coll.v12->close_listener(listener));
	comm->region =
		mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(comm->region != MAP_FAILED, "mmap: %m");
	/* The proxy of the receiver registers the region, and then that of the sender. */
	for (int i = 0; i < 2; i++) {
		CALL(coll.v12->register_memory(
			comm->comm, comm->region, REGION, NCCL_PTR_HOST, &comm->registrations[i]));
		CHECK(comm->registrations[i] != NULL, "no registration");
	}
	return NCCL_SUCCESS;
}

/* In NCCL's order: the memory is gone before the communicator is closed. */
static void
leave(struct comm *comm)
{
	for (int i = 0; i < 2; i++)
		CALL(coll.v12->deregister(comm->comm, comm->registrations[i]));
	munmap(comm->region, REGION);
	CALL(coll.v12->close_comm(comm->comm));
}

/* All types and operations, then windows, again and again. */
static struct step
plan(const struct comm *comm, unsigned int step_number)
{
	unsigned int number = step_number % PLANNED;
	uint64_t at = comm->number + number, size, begin, end;
	struct step step = {.what = WEIR_COLLECTIVE_ALLREDUCE,
		.dtype = (int)(number % DTYPES),
		.op = (int)(number / DTYPES % OPS)};

	if (number >= DTYPES * OPS) {
		step.what = number % 2 ? WEIR_COLLECTIVE_ALLGATHER : WEIR_COLLECTIVE_REDUCESCATTER;
		step.dtype =
			step.what == WEIR_COLLECTIVE_ALLGATHER ? 1 : (int)(draw(at, 1, 0) % DTYPES);
	}
	size = weir_dtype_bytes(dtypes[step.dtype]);
	step.bytes_per_rank = size * (1 + draw(at, 2, 0) % (SLOT / ranks / size));
	step.data = (struct verify){
		.call = {.collective = step.what,
			.count = step.bytes_per_rank / size,
			.dtype = dtypes[step.dtype],
			.op = ops[step.op]},
		.rank = rank,
		.ranks = ranks,
		.seed = comm->number,
		.iteration = step_number,
	};
	if (step.what == WEIR_COLLECTIVE_ALLREDUCE) {
		step.bytes = step.own_bytes = step.bytes_per_rank;
		return step;
	}
	end = step.bytes_per_rank * ranks / size;
	begin = number % 3 ? draw(at, 3, 0) % end : 0;
	end = number % 3 ? begin + 1 + draw(at, 4, 0) % (end - begin) : end;
	step.offset = begin * size;
	step.bytes = (end - begin) * size;
	begin = rank * step.bytes_per_rank;
	end = begin + step.bytes_per_rank;
	begin = begin > step.offset ? begin - step.offset : 0;
	end = end > step.offset ? end - step.offset : 0;
	end = end < step.bytes ? end : step.bytes;
	step.own = begin;
	step.own_bytes = begin < end ? end - begin : 0;
	return step;
}

/* Post the next step. False: not now. */
static bool
post(struct comm *comm)
{
	struct step step = plan(comm, comm->posted);
	unsigned int slot = comm->posted % STEPS;
	char *send = comm->region + slot * SLOT, *recv = send + STEPS * SLOT;
	bool gathers = step.what == WEIR_COLLECTIVE_ALLGATHER;
	size_t size = weir_dtype_bytes(dtypes[step.dtype]), first = step.offset;
	struct nccl_part part = {comm->registrations[0], gathers ? recv : send, step.bytes};
	void **request = &comm->requests[slot];

	if (gathers && step.own_bytes != 0)
		first += step.own - rank * step.bytes_per_rank;
	verify_fill(&step.data, rank, first / size, (gathers ? step.own_bytes : step.bytes) / size,
		send);
	memset(recv, 0xa5, SLOT);
	*request = NULL;
	if (gathers)
		CALL(coll.v12->iallgather(comm->comm, send, 1, &part, step.bytes_per_rank,
			step.offset, step.bytes, comm->registrations[1], request));
	else if (step.what == WEIR_COLLECTIVE_REDUCESCATTER)
		CALL(coll.v12->ireducescatter(comm->comm, 1, &part, recv, step.bytes_per_rank,
			step.offset, step.bytes, step.dtype, step.op, comm->registrations[0],
			request));
	else if (version == 8)
		CALL(coll.v8->iallreduce(comm->comm, send, recv, (int)(step.bytes / size),
			step.dtype, step.op, comm->registrations[1], comm->registrations[0],
			request));
	else
		CALL(coll.v12->iallreduce(comm->comm, send, recv, step.bytes / size, step.dtype,
			step.op, comm->registrations[1], comm->registrations[0], request));
	comm->posted += *request != NULL;
	return *request != NULL;
}

/* Every byte of the result, and that nothing behind it was written. */
static void
verify(const struct comm *comm, const struct step *step)
{
	const char *recv = comm->region + (STEPS + comm->done % STEPS) * SLOT;
	bool scatters = step->what == WEIR_COLLECTIVE_REDUCESCATTER;
	size_t size = weir_dtype_bytes(dtypes[step->dtype]), first = step->offset,
	       bytes = scatters ? step->own_bytes : step->bytes, wrong;

	if (scatters && bytes != 0)
		first += step->own - rank * step->bytes_per_rank;
	wrong = verify_wrong_part(&step->data, NULL, first / size, bytes / size, recv);
	CHECK(wrong == 0, "%s step %u, %s type %d op %d: %zu of %zu elements are wrong", comm->name,
		comm->done, weir_collective_text(step->what), step->dtype, step->op, wrong,
		bytes / size);
	for (size_t i = bytes; i < SLOT; i++)
		CHECK(recv[i] == (char)0xa5, "%s step %u: byte %zu behind the result", comm->name,
			comm->done, i);
}

/* Test the oldest step. Returns what the plug-in does. */
static enum nccl_result
finish(struct comm *comm)
{
	struct step step = plan(comm, comm->done);
	int done = -1, size = -1;
	enum nccl_result result = coll.v12->test(comm->requests[comm->done % STEPS], &done, &size);
	void *flush = (void *)1;

	if (result != NCCL_SUCCESS || done == 0)
		return result;
	CHECK(done == 1 && (size_t)size <= step.bytes, "done %d, size %d", done, size);
	CHECK(step.what != WEIR_COLLECTIVE_ALLREDUCE || (size_t)size == step.bytes, "size %d",
		size);
	CALL(coll.v12->iflush(comm->comm, comm->region, size, comm->registrations[0], &flush));
	CHECK(flush == NULL, "a flush of host memory");
	verify(comm, &step);
	comm->done++;
	return NCCL_SUCCESS;
}

/* Steps of several communicators side by side, each rank in another order. */
static void
progress(struct comm *comms, unsigned int n, unsigned int steps)
{
	unsigned int ended = 0;

	for (unsigned int turn = rank; ended < n; turn++) {
		struct comm *comm = &comms[turn % n];

		while (comm->posted < steps && comm->posted < comm->done + STEPS && post(comm))
			;
		if (comm->done < comm->posted)
			CALL(finish(comm));
		ended = 0;
		for (unsigned int i = 0; i < n; i++)
			ended += comms[i].done == steps;
	}
}

/* Point to point: to the next rank, from the one before */

#define STRANGERS 40

/* Connections to a listener that do not come from NCCL: silent, closed at once, with a part of a key, and with another. */
static void
call_as_strangers(const char *handle, int fds[STRANGERS])
{
	static const char bytes[64] = "GET / HTTP/1.0\r\n";
	struct sockaddr_in address;

	memcpy(&address, handle + sizeof(uint64_t), sizeof(address));
	for (int i = 0; i < STRANGERS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(connect(fds[i], (struct sockaddr *)&address, sizeof(address)) == 0,
			"stranger %d: %m", i);
		if (i % 4 == 1)
			shutdown(fds[i], SHUT_RDWR);
		else if (i % 4 > 1)
			CHECK(send(fds[i], bytes, i % 4 == 2 ? 5 : sizeof(bytes), 0) > 0, "send");
	}
}

/* To the next rank, and from the one before; strangers call first. */
static void
link_up(const char *name, void **to, void **from)
{
	char handle[NCCL_HANDLE_BYTES];
	int strangers[STRANGERS];
	void *listener;

	CALL(net->listen(0, handle, &listener));
	call_as_strangers(handle, strangers);
	put(name, handle, sizeof(handle));
	get(name, (rank + 1) % ranks, handle, sizeof(handle));
	*to = *from = NULL;
	while (*to == NULL || *from == NULL) {
		if (*to == NULL)
			CALL(net->connect(0, handle, to, NULL));
		if (*from == NULL)
			CALL(net->accept(listener, from, NULL));
	}
	CALL(net->close_listener(listener));
	for (int i = 0; i < STRANGERS; i++)
		close(strangers[i]);
}

/* A message that is larger than the receiver's buffer, which may have no bytes. Both sides hear of the error again and again. */
static void
too_large(unsigned int bytes)
{
	static char data[1000];
	void *to, *from, *send, *receive = NULL, *at = data;
	enum nccl_result result = NCCL_SUCCESS;
	char name[32];
	int done = 0, size = (int)bytes;

	snprintf(name, sizeof(name), "large-%u", bytes);
	link_up(name, &to, &from);
	CALL(net->isend(to, data, sizeof(data), 1, NULL, &send));
	CALL(net->irecv(from, 1, &at, &size, &(int){1}, &(void *){NULL}, &receive));
	while (done == 0)
		CALL(net->test(send, &done, NULL));
	for (done = 0; result == NCCL_SUCCESS;) {
		result = net->test(receive, &done, &size);
		CHECK(done == 0, "a message of %d bytes in a buffer of %u", size, bytes);
	}
	for (int i = 0; i < 3; i++)
		CHECK(net->test(receive, &done, &size) == result && done == 0,
			"success after an error");
	CHECK(net->irecv(from, 1, &at, &size, &(int){1}, &(void *){NULL}, &receive) == result,
		"a connection that failed is used again");
	printf("error %d\n", result);
	strcat(name, "-end");
	barrier(name, ranks);
	CALL(net->close_send(to));
	CALL(net->close_recv(from));
}

/* Nothing listens at the handle's address any more: each try says so, and takes no descriptor of others. */
static void
refused(void)
{
	char handle[NCCL_HANDLE_BYTES];
	void *listener, *to = NULL;
	int fds[3];

	CALL(net->listen(0, handle, &listener));
	put("refused", handle, sizeof(handle));
	CALL(net->close_listener(listener));
	barrier("refused-closed", ranks);
	get("refused", (rank + 1) % ranks, handle, sizeof(handle));
	for (int i = 0; i < 3; i++) {
		enum nccl_result result;

		do
			result = net->connect(0, handle, &to, NULL);
		while (result == NCCL_SUCCESS && to == NULL);
		CHECK(result == NCCL_REMOTE_ERROR, "connect %d", result);
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		for (int j = 0; j <= i; j++)
			CHECK(fcntl(fds[j], F_GETFD) >= 0, "file %d was closed by try %d", j, i);
	}
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

static void
messages(unsigned int n)
{
	char *sent = malloc(STEPS * (SLOT + 1)), *got = malloc(STEPS * (SLOT + 1));
	void *to, *from, *sends[STEPS] = {0}, *receives[STEPS] = {0}, *data;
	unsigned int posted[2] = {0}, ended[2] = {0}, before = (rank + ranks - 1) % ranks;
	int done, size;

	link_up("messages", &to, &from);
	while (ended[0] < n || ended[1] < n) {
		unsigned int slot = posted[0] % STEPS;

		if (posted[0] < n && posted[0] < ended[0] + STEPS) {
			memset(sent + slot * SLOT, (int)(rank + posted[0]), SLOT);
			CALL(net->isend(to, sent + slot * SLOT,
				(int)(draw(rank, posted[0], 7) % SLOT), 1, NULL, &sends[slot]));
			posted[0] += sends[slot] != NULL;
		}
		slot = posted[1] % STEPS;
		data = got + slot * SLOT;
		size = (int)SLOT;
		if (posted[1] < n && posted[1] < ended[1] + STEPS) {
			CALL(net->irecv(from, 1, &data, &size, &(int){1}, &(void *){NULL},
				&receives[slot]));
			posted[1] += receives[slot] != NULL;
		}
		if (ended[0] < posted[0]) {
			CALL(net->test(sends[ended[0] % STEPS], &done, &size));
			ended[0] += done == 1;
		}
		if (ended[1] < posted[1]) {
			slot = ended[1] % STEPS;
			CALL(net->test(receives[slot], &done, &size));
			if (done == 0)
				continue;
			CHECK((size_t)size == draw(before, ended[1], 7) % SLOT,
				"message %u: %d bytes", ended[1], size);
			for (int i = 0; i < size; i++)
				CHECK(got[slot * SLOT + (unsigned int)i] ==
						(char)(before + ended[1]),
					"message %u", ended[1]);
			ended[1]++;
		}
	}
	CALL(net->close_send(to));
	CALL(net->close_recv(from));
	free(sent);
	free(got);
}

/* Scenarios */

static void
all(void)
{
	struct comm comms[2];
	int supported;

	for (int dtype = -1; dtype <= DTYPES; dtype++)
		for (int op = -1; op <= OPS; op++) {
			CALL(coll.v12->reduce_support(dtype, op, &supported));
			CHECK(supported == (dtype >= 0 && dtype < DTYPES && op >= 0 && op < OPS),
				"type %d op %d: %d", dtype, op, supported);
		}
	CALL(join(&comms[0], "first", ranks));
	CALL(join(&comms[1], "second", ranks));
	progress(comms, 2, PLANNED);
	leave(&comms[0]);
	leave(&comms[1]);
}

/* Wait for the error that comes. */
static void
fail(struct comm *comm)
{
	enum nccl_result result = NCCL_SUCCESS;
	void *registration;

	while (result == NCCL_SUCCESS) {
		if (comm->posted < comm->done + STEPS)
			post(comm);
		result = finish(comm);
	}
	/* NCCL tests again, and frees memory. */
	for (int i = 0; i < 3; i++) {
		CHECK(finish(comm) == result, "another result after an error");
		CALL(coll.v12->register_memory(
			comm->comm, comm->region, REGION, NCCL_PTR_HOST, &registration));
		CALL(coll.v12->deregister(comm->comm, registration));
	}
	printf("error %d\n", result);
}

/* All but the last rank begin 8 steps and give up; the other communicator continues. */
static void
aborted(void)
{
	struct comm comms[2];

	CALL(join(&comms[0], "first", ranks));
	CALL(join(&comms[1], "second", ranks));
	for (int i = 0; i < STEPS && rank + 1 < ranks; i++)
		CHECK(post(&comms[0]), "no request for step %d", i);
	if (rank + 1 < ranks)
		leave(&comms[0]);
	progress(&comms[1], 1, STEPS * 2);
	barrier("left", ranks);
	if (rank + 1 == ranks) {
		fail(&comms[0]);
		leave(&comms[0]);
	}
	leave(&comms[1]);
}

static void
killed(void)
{
	struct comm comm;

	CALL(join(&comm, "first", ranks));
	printf("running\n");
	fail(&comm);
	leave(&comm);
}

static void
absent(void)
{
	struct comm comm;
	char handle[NCCL_HANDLE_BYTES] = {0};

	if (rank + 1 == ranks) {
		put("first-v8", handle, sizeof(handle));
		return;
	}
	printf("connect %d\n", join(&comm, "first", ranks));
	CHECK(comm.comm == NULL, "a communicator");
}

int
main(int argc, char **argv)
{
	const char *scenario = argv[argc - 1];

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(argc == 7, "usage");
	folder = argv[2];
	rank = (unsigned int)atoi(argv[3]);
	ranks = (unsigned int)atoi(argv[4]);
	seed = strtoull(argv[5], NULL, 10);
	for (version = 8; version <= (strcmp(scenario, "all") == 0 ? 12U : 8U); version++) {
		load(argv[1]);
		if (strcmp(scenario, "all") == 0)
			all();
		else if (strcmp(scenario, "messages") == 0)
			messages(100);
		else if (strcmp(scenario, "large") == 0)
			refused(), too_large(0), too_large(10);
		else if (strcmp(scenario, "aborted") == 0)
			aborted();
		else if (strcmp(scenario, "killed") == 0)
			killed();
		else if (strcmp(scenario, "absent") == 0)
			absent();
		unload();
	}
	printf("ok %s\n", scenario);
	return 0;
}
