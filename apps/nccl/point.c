/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: a TCP connection for each pair of communicators, which begins with the key of the listener's handle. A
 * message is a header and its bytes. NCCL's proxy thread makes progress with its tests; there are no other threads.
 */
#include "apps/nccl/plugin.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAGIC     UINT64_C(0x574a) /* the upper 16 bits of a header; the others are the size */
#define KEY_BYTES 16
#define CALLERS   16 /* connections that have not shown the key yet; the oldest of more is closed */

struct handle {
	uint64_t magic;
	struct sockaddr_in address;
	uint8_t key[KEY_BYTES]; /* random: strangers do not know it */
	int connecting; /* of the side that connects, between its calls: the socket + 1 */
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "fits NCCL's handle");

struct message {
	struct stream *stream; /* NULL: free */
	char *data;
	size_t size, header_moved, moved;
	uint64_t header;
};

struct listener {
	int fd;
	uint8_t key[KEY_BYTES];
	unsigned int next; /* caller to replace */
	struct caller {
		int fd; /* -1: none */
		size_t bytes; /* of the key that have come */
		uint8_t key[KEY_BYTES];
	} callers[CALLERS];
};

/* A communicator. */
struct stream {
	int fd;
	bool sends;
	enum nccl_result result; /* of the first failure, after which no more bytes are moved */
	unsigned int moving,
		next; /* numbers of messages: the one that moves, and the next; they wrap */
	struct message messages[NCCL_REQUESTS];
};

static enum nccl_result
failed(const char *what, int code)
{
	WARN("%s: %s", what, strerror(code));
	return code == ECONNRESET || code == EPIPE || code == ECONNREFUSED || code == ETIMEDOUT
		? NCCL_REMOTE_ERROR
		: NCCL_SYSTEM_ERROR;
}

/* Takes fd; below 0: an error, and errno. */
static enum nccl_result
stream_make(int fd, bool sends, void **to)
{
	struct stream *stream = fd >= 0 ? calloc(1, sizeof(*stream)) : NULL;
	int on = 1;

	*to = stream;
	if (stream == NULL) {
		enum nccl_result result = failed("no connection", errno);

		if (fd >= 0)
			close(fd);
		return result;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	stream->fd = fd;
	stream->sends = sends;
	return NCCL_SUCCESS;
}

enum nccl_result
point_close(void *comm)
{
	struct stream *stream = comm;

	close(stream->fd);
	free(stream);
	return NCCL_SUCCESS;
}

enum nccl_result
point_close_listener(void *of)
{
	struct listener *listener = of;

	for (unsigned int i = 0; i < CALLERS; i++)
		if (listener->callers[i].fd >= 0)
			close(listener->callers[i].fd);
	if (listener->fd >= 0)
		close(listener->fd);
	free(listener);
	return NCCL_SUCCESS;
}

enum nccl_result
point_listen(int device, void *to, void **of)
{
	const struct nccl_device *at = device_find();
	struct handle handle = {.magic = MAGIC, .address.sin_family = AF_INET};
	struct sockaddr *address = (struct sockaddr *)&handle.address;
	socklen_t size = sizeof(handle.address);
	struct listener *listener;

	*of = NULL;
	if (at == NULL || device != 0)
		return NCCL_INVALID_ARGUMENT;
	listener = calloc(1, sizeof(*listener));
	if (listener == NULL)
		return failed("cannot listen", ENOMEM);
	for (unsigned int i = 0; i < CALLERS; i++)
		listener->callers[i].fd = -1;
	listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	handle.address.sin_addr.s_addr = at->address;
	if (listener->fd < 0 || bind(listener->fd, address, size) < 0 ||
		listen(listener->fd, SOMAXCONN) < 0 ||
		getsockname(listener->fd, address, &size) < 0 ||
		getrandom(handle.key, KEY_BYTES, 0) != KEY_BYTES) {
		enum nccl_result result = failed("cannot listen", errno);

		point_close_listener(listener);
		return result;
	}
	memcpy(listener->key, handle.key, KEY_BYTES);
	memset(to, 0, NCCL_HANDLE_BYTES);
	memcpy(to, &handle, sizeof(handle));
	*of = listener;
	return NCCL_SUCCESS;
}

enum nccl_result
point_connect(int device, void *of, void **comm, void **device_comm)
{
	struct handle handle;
	enum nccl_result result;
	int fd;

	(void)device, (void)device_comm;
	*comm = NULL;
	memcpy(&handle, of, sizeof(handle));
	if (handle.magic != MAGIC) {
		WARN("the peer uses another plug-in: has its host the same WEIR_SWITCH, and does "
		     "the switch answer there?");
		return NCCL_INVALID_USAGE;
	}
	fd = handle.connecting > 0 ? handle.connecting - 1
				   : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return failed("cannot connect", errno);
	handle.connecting = 0; /* the caller may try again after an error */
	memcpy(of, &handle, sizeof(handle));
	if (connect(fd, (const struct sockaddr *)&handle.address, sizeof(handle.address)) == 0 ||
		errno == EISCONN) {
		/* A new socket has room for it. */
		if (send(fd, handle.key, KEY_BYTES, MSG_NOSIGNAL) == KEY_BYTES)
			return stream_make(fd, true, comm);
	} else if (errno == EINPROGRESS || errno == EALREADY) {
		handle.connecting = fd + 1;
		memcpy(of, &handle, sizeof(handle));
		return NCCL_SUCCESS;
	}
	result = failed("cannot connect", errno);
	close(fd);
	return result;
}

/* Read what has come of the key. 1: it is the key; 0: there will be more; below 0: it is another one, or none. */
static int
identify(const struct listener *listener, struct caller *caller)
{
	ssize_t n = recv(caller->fd, caller->key + caller->bytes, KEY_BYTES - caller->bytes, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	caller->bytes += (size_t)n;
	if (caller->bytes < KEY_BYTES)
		return 0;
	return memcmp(caller->key, listener->key, KEY_BYTES) == 0 ? 1 : -1;
}

/* The connection of a caller who has the key; others, such as port scanners, are closed. */
enum nccl_result
point_accept(void *of, void **comm, void **device_comm)
{
	struct listener *listener = of;
	int fd = -1;

	(void)device_comm;
	*comm = NULL;
	for (unsigned int i = 0; i < CALLERS; i++) {
		struct caller *caller;

		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		caller = &listener->callers[listener->next++ % CALLERS];
		if (caller->fd >= 0)
			close(caller->fd);
		*caller = (struct caller){.fd = fd};
		if (identify(listener, caller) > 0) {
			caller->fd = -1;
			return stream_make(fd, false, comm);
		}
	}
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		return failed("cannot accept", errno);
	for (unsigned int i = 0; i < CALLERS; i++) {
		struct caller *caller = &listener->callers[i];
		int known = caller->fd >= 0 ? identify(listener, caller) : 0;

		if (known == 0)
			continue;
		fd = caller->fd;
		caller->fd = -1;
		if (known > 0)
			return stream_make(fd, false, comm);
		INFO("a connection without the handle's key is closed");
		close(fd);
	}
	return NCCL_SUCCESS;
}

/* *request NULL: all are in use. */
static enum nccl_result
begin(struct stream *stream, void *data, int size, void **request)
{
	struct message *message = &stream->messages[stream->next % NCCL_REQUESTS];

	*request = NULL;
	if (message->stream != NULL || stream->result != NCCL_SUCCESS)
		return stream->result;
	*message = (struct message){
		.stream = stream,
		.data = data,
		.size = (size_t)size,
		.header = MAGIC << 48 | (uint64_t)size,
	};
	stream->next++;
	*request = message;
	return NCCL_SUCCESS;
}

enum nccl_result
point_send(void *comm, void *data, int size, int tag, void *registration, void **request)
{
	(void)tag, (void)registration;
	return begin(comm, data, size, request);
}

enum nccl_result
point_receive(
	void *comm, int n, void **data, int *sizes, int *tags, void **registrations, void **request)
{
	(void)tags, (void)registrations;
	return n == 1 ? begin(comm, data[0], sizes[0], request) : NCCL_INVALID_USAGE;
}

/* Move bytes of one message. *more: call again; it has ended, or the socket may have more. */
static enum nccl_result
move(struct stream *stream, struct message *message, bool *more)
{
	size_t head = sizeof(message->header) - message->header_moved, n;
	struct iovec parts[] = {
		{(char *)&message->header + message->header_moved, head},
		{message->data + message->moved, message->size - message->moved},
	};
	/* What follows the header is not known before it: another message, perhaps. */
	struct msghdr what = {.msg_iov = head > 0 ? parts : parts + 1,
		.msg_iovlen = head > 0 && stream->sends ? 2 : 1};
	ssize_t moved = stream->sends ? sendmsg(stream->fd, &what, MSG_NOSIGNAL)
				      : recvmsg(stream->fd, &what, 0);

	uint64_t size;

	*more = false;
	if (moved < 0 && (errno == EAGAIN || errno == EINTR))
		return NCCL_SUCCESS;
	if (moved < 0)
		return failed(stream->sends ? "cannot send" : "cannot receive", errno);
	if (moved == 0)
		return failed("the peer has closed the connection", ECONNRESET);
	*more = true;
	n = (size_t)moved < head ? (size_t)moved : head;
	message->header_moved += n;
	message->moved += (size_t)moved - n;
	if (head == 0 || n < head || stream->sends)
		return NCCL_SUCCESS;
	size = message->header ^ MAGIC << 48;
	if (size > message->size) {
		message->moved = message->size + 1; /* it never ends */
		WARN("a message of %#llx bytes for a buffer of %zu: has the peer another plug-in?",
			(unsigned long long)size, message->size);
		return NCCL_INTERNAL_ERROR;
	}
	message->size = size;
	return NCCL_SUCCESS;
}

static bool
ended(const struct message *message)
{
	return message->header_moved == sizeof(message->header) && message->moved == message->size;
}

enum nccl_result
point_test(void *request, int *done, int *sizes)
{
	struct message *asked = request;
	struct stream *stream = asked->stream;
	bool more = stream->result == NCCL_SUCCESS;

	*done = 0;
	while (more && stream->moving != stream->next) {
		struct message *message = &stream->messages[stream->moving % NCCL_REQUESTS];

		stream->result = move(stream, message, &more);
		if (stream->result != NCCL_SUCCESS)
			break;
		if (ended(message))
			stream->moving++;
	}
	if (!ended(asked))
		return stream->result;
	*done = 1;
	if (sizes != NULL)
		sizes[0] = (int)asked->size;
	asked->stream = NULL;
	return NCCL_SUCCESS;
}
