/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over UDP sockets: one for the handle, and another one for multicast results.
 *
 * Most of a host's time goes into the kernel's work per datagram (docs/benchmarks.md, "Hosts"). So
 * the kernel sends and delivers several datagrams at a time, if it can. UDP_SEGMENT: datagrams of
 * one size to one port, up to 64 KB, pass the network stack as one message, which is then cut.
 * UDP_GRO: datagrams that the stack has joined arrive as one message. Source: udp(7); Willem de
 * Bruijn and Eric Dumazet, "Optimizing UDP for content delivery: GSO, pacing and zerocopy", Linux
 * Plumbers Conference 2018.
 */
#include "apps/libweir/transport.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/libweir/handle.h"

#define BUFFER_LEAST (256 * 1024) /* bytes: small windows get duplicates and replies too */
#define MESSAGES     64 /* of the kernel in one system call; each has one datagram or several */
/* Datagrams that the kernel cuts a message into at most: UDP_MAX_SEGMENTS of Linux 4.18. */
#define SEGMENTS       64
#define MESSAGE_BYTES  65507 /* of UDP over IPv4 */
#define DATAGRAM_FIRST 2048 /* bytes: replies to joins, before size() */
/* Not 64 KB: then the first cache lines of all messages would share the same cache sets. */
#define JOINED_STRIDE (65536 + 4160)

union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

/* Where messages are received into: `messages` buffers in one allocation. */
struct inbox {
	uint8_t *bytes;
	size_t stride;
	unsigned int messages;
	unsigned int count; /* messages received last */
	unsigned int next; /* the next message to hand out */
	bool is_group; /* the messages are from the group's socket */
	bool may_have_more; /* the last receive call filled all messages */
	uint32_t offset; /* of the next datagram within its message */
	struct mmsghdr header[MESSAGES];
	struct iovec vector[MESSAGES];
	struct sockaddr_in from[MESSAGES];
	union control control[MESSAGES];
};

struct udp {
	struct weir_transport transport;
	struct in_addr switch_address;
	bool has_gro; /* UDP_GRO: the socket receives joined datagrams */
	bool has_gso; /* UDP_SEGMENT: the kernel cuts messages; false once it has refused */
	struct inbox inbox;
	struct mmsghdr out[MESSAGES];
	struct sockaddr_in to[MESSAGES];
	union control cut[MESSAGES];
};

static struct udp *
udp_of(struct weir_transport *t)
{
	return (struct udp *)(void *)t;
}

static int
refuse(char *text, size_t size, const char *what)
{
	int error = errno;

	snprintf(text, size, "%s: %s", what, strerror(error));
	return -error;
}

bool
weir_soft_error(int error)
{
	switch (error) {
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case EADDRNOTAVAIL:
	case EINVAL: /* from some kernels if the own address is gone; others: ENETUNREACH */
	case EPERM: /* a firewall rule */ return true;
	default: return false;
	}
}

/* ---- opening ---- */

/* Ask for a buffer, beyond the system's limit if that is permitted. Returns the granted bytes. */
static uint64_t
set_buffer(int fd, int force, int option, uint64_t wanted)
{
	int value = wanted > INT32_MAX / 2 ? INT32_MAX / 2 : (int)wanted;
	socklen_t size = sizeof(value);

	if (setsockopt(fd, SOL_SOCKET, force, &value, sizeof(value)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, option, &value, sizeof(value));
	if (getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0)
		return 0;
	/* The kernel doubles what is asked for and counts its own overhead against it. */
	return (uint64_t)value;
}

static uint64_t
receive_buffer(int fd, uint64_t wanted)
{
	return set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, wanted);
}

/* Reset the message's fields, which the kernel overwrites when it receives into them. */
static void
prepare(struct inbox *in, unsigned int message)
{
	in->vector[message] = (struct iovec){in->bytes + (size_t)message * in->stride, in->stride};
	in->header[message].msg_hdr = (struct msghdr){
		.msg_name = &in->from[message],
		.msg_namelen = sizeof(in->from[message]),
		.msg_iov = &in->vector[message],
		.msg_iovlen = 1,
		.msg_control = &in->control[message],
		.msg_controllen = sizeof(in->control[message]),
	};
}

/* Room for datagrams of so many bytes. False: no memory, and the inbox is as it was. */
static bool
inbox_create(struct udp *u, size_t datagram)
{
	struct inbox *in = &u->inbox;
	size_t stride = u->has_gro ? JOINED_STRIDE : datagram;
	unsigned int messages = u->has_gro ? MESSAGES / 2 : MESSAGES;
	uint8_t *bytes = malloc(messages * stride);

	if (bytes == NULL)
		return false;
	free(in->bytes);
	in->bytes = bytes;
	in->stride = stride;
	in->messages = messages;
	in->count = in->next = 0;
	for (unsigned int i = 0; i < in->messages; i++)
		prepare(in, i);
	return true;
}

static void
udp_close(struct weir_transport *t, bool in_child)
{
	if (t == NULL)
		return;
	if (t->fd >= 0)
		close(t->fd);
	if (t->group_fd >= 0)
		close(t->group_fd);
	if (in_child)
		return;
	free(udp_of(t)->inbox.bytes);
	free(t);
}

static int
bind_own(struct udp *u, struct weir_transport_config *config, char *text, size_t size)
{
	const int on = 1, discover = IP_PMTUDISC_DO, spin = (int)config->spin_us;
	socklen_t length = sizeof(config->own);
	int fd = u->transport.fd;

	/*
	 * IP_RECVERR: without it an unconnected socket gets no ICMP errors. They end no operation,
	 * but error texts name them.
	 */
	if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)) < 0 ||
		setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) < 0)
		return refuse(text, size, "setsockopt");
	if (bind(fd, (const struct sockaddr *)&config->own, sizeof(config->own)) < 0)
		return refuse(text, size,
			"cannot bind the own address (is `address` one of this host's "
			"interfaces?)");
	/* Get the port, too: joins prove their address and port. */
	if (getsockname(fd, (struct sockaddr *)&config->own, &length) < 0)
		return refuse(text, size, "getsockname");
	(void)receive_buffer(fd, BUFFER_LEAST);
	/* Have the kernel poll the device's queue, if the driver can and the system permits it.
	 * Only callers that poll anyway set it. */
	if (spin != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &spin, sizeof(spin));
	u->has_gro = setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0;
	u->has_gso = true;
	return 0;
}

static int
udp_open(struct weir_transport_config *config, struct weir_transport **out, char *text, size_t size)
{
	struct udp *u = calloc(1, sizeof(*u));
	int code;

	if (u == NULL) {
		snprintf(text, size, "out of memory");
		return -ENOMEM;
	}
	u->switch_address = config->switch_address;
	u->transport.ops = &weir_transport_udp;
	u->transport.group_fd = -1;
	u->transport.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	code = u->transport.fd < 0 ? refuse(text, size, "socket") : bind_own(u, config, text, size);
	if (code == 0 && !inbox_create(u, DATAGRAM_FIRST)) {
		snprintf(text, size, "out of memory");
		code = -ENOMEM;
	}
	if (code < 0)
		udp_close(&u->transport, false);
	else
		*out = &u->transport;
	return code;
}

static int
udp_join(struct weir_transport *t, const struct sockaddr_in *group, char *text, size_t size)
{
	const int on = 1, off = 0;
	struct sockaddr_in own;
	socklen_t length = sizeof(own);
	struct ip_mreq membership = {.imr_multiaddr = group->sin_addr};

	if (getsockname(t->fd, (struct sockaddr *)&own, &length) < 0)
		return refuse(text, size, "getsockname");
	membership.imr_interface = own.sin_addr;
	t->group_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->group_fd < 0 ||
		setsockopt(t->group_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		setsockopt(t->group_fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) < 0 ||
		bind(t->group_fd, (const struct sockaddr *)group, sizeof(*group)) < 0 ||
		setsockopt(t->group_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership,
			sizeof(membership)) < 0)
		return refuse(text, size, "cannot join the multicast group of the job's results");
	if (udp_of(t)->has_gro)
		(void)setsockopt(t->group_fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
	return 0;
}

static void
udp_leave(struct weir_transport *t)
{
	if (t->group_fd >= 0)
		close(t->group_fd);
	t->group_fd = -1;
}

static uint32_t
udp_size(struct weir_transport *t, size_t bytes, uint32_t datagrams, uint64_t *granted)
{
	/*
	 * The kernel counts whole pages and its packet structures against the buffer: about
	 * twice the datagram and a kilobyte. A window of results may arrive at once.
	 */
	uint64_t each = 2 * (uint64_t)bytes + 1024, wanted = datagrams * each;

	if (wanted < BUFFER_LEAST)
		wanted = BUFFER_LEAST;
	*granted = receive_buffer(t->fd, wanted);
	if (t->group_fd >= 0)
		*granted = receive_buffer(t->group_fd, wanted);
	(void)set_buffer(t->fd, SO_SNDBUFFORCE, SO_SNDBUF, wanted);
	if (!inbox_create(udp_of(t), bytes > DATAGRAM_FIRST ? bytes : DATAGRAM_FIRST))
		return 0;
	return (uint32_t)(*granted / each < 1 ? 1 : *granted / each);
}

/* ---- sending ---- */

/* Make message m of the datagrams from tx[0] on, as many as the kernel can cut it into. Returns
 * their number. */
static unsigned int
fill(struct udp *u, unsigned int m, const struct weir_tx *tx, unsigned int n)
{
	struct msghdr *h = &u->out[m].msg_hdr;
	unsigned int taken = 1, pieces = tx->count;
	uint32_t bytes = tx->bytes;

	/* Only the last datagram may be shorter. */
	while (u->has_gso && taken < n && taken < SEGMENTS && tx[taken].port == tx->port &&
		tx[taken].bytes <= tx->bytes && tx[taken - 1].bytes == tx->bytes &&
		bytes + tx[taken].bytes <= MESSAGE_BYTES &&
		pieces + tx[taken].count <= UIO_MAXIOV) {
		bytes += tx[taken].bytes;
		pieces += tx[taken++].count;
	}
	u->to[m] = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = tx->port, .sin_addr = u->switch_address};
	*h = (struct msghdr){
		.msg_name = &u->to[m],
		.msg_namelen = sizeof(u->to[m]),
		.msg_iov = (struct iovec *)(uintptr_t)tx->pieces, /* sendmmsg only reads */
		.msg_iovlen = pieces,
	};
	if (taken > 1) {
		const uint16_t size = (uint16_t)tx->bytes;
		struct cmsghdr *c = &u->cut[m].align;

		h->msg_control = c;
		h->msg_controllen = CMSG_SPACE(sizeof(size));
		*c = (struct cmsghdr){.cmsg_level = IPPROTO_UDP,
			.cmsg_type = UDP_SEGMENT,
			.cmsg_len = CMSG_LEN(sizeof(size))};
		memcpy(CMSG_DATA(c), &size, sizeof(size));
	}
	return taken;
}

static int
udp_send(struct weir_transport *t, const struct weir_tx *tx, unsigned int n)
{
	struct udp *u = udp_of(t);
	unsigned int taken[MESSAGES], messages = 0, packed = 0;
	int sent, datagrams = 0;

	while (packed < n && messages < MESSAGES) {
		taken[messages] = fill(u, messages, &tx[packed], n - packed);
		packed += taken[messages++];
	}
	sent = sendmmsg(t->fd, u->out, messages, MSG_DONTWAIT);
	if (sent < 0 && taken[0] > 1 &&
		(errno == EIO || errno == EINVAL || errno == EOPNOTSUPP || errno == EMSGSIZE)) {
		/* Either the kernel or the interface cannot cut messages, or there is another
		 * error: sending one datagram tells which. */
		u->has_gso = false;
		sent = udp_send(t, tx, 1);
		u->has_gso = sent < 0;
		return sent;
	}
	if (sent < 0)
		return -errno;
	for (int m = 0; m < sent; m++)
		datagrams += (int)taken[m];
	return datagrams;
}

/* ---- receiving ---- */

/* Bytes of each datagram of a message but the last; of the message if it is one datagram. */
static uint32_t
joined(struct msghdr *h, uint32_t bytes)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	int size = 0;

	if (c == NULL || c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
		return bytes;
	memcpy(&size, CMSG_DATA(c), sizeof(size));
	return size > 0 ? (uint32_t)size : bytes;
}

/* Receive what the socket has, unless earlier messages are left to hand out. True: there is
 * something to hand out. */
static bool
fetch(struct udp *u, bool group, unsigned int most)
{
	struct inbox *in = &u->inbox;
	int count;

	if (in->next < in->count)
		return true;
	most = in->messages < most ? in->messages : most;
	for (unsigned int i = 0; i < in->count; i++)
		prepare(in, i);
	count = recvmmsg(group ? u->transport.group_fd : u->transport.fd, in->header, most,
		MSG_DONTWAIT | MSG_TRUNC, NULL);
	in->count = count > 0 ? (unsigned int)count : 0;
	in->may_have_more = in->count == most;
	in->next = in->offset = 0;
	in->is_group = group;
	return count > 0;
}

static unsigned int
udp_receive(struct weir_transport *t, bool group, struct weir_rx *rx, unsigned int n)
{
	struct udp *u = udp_of(t);
	struct inbox *in = &u->inbox;
	unsigned int got = 0;

	(void)fetch(u, group, n);
	while (in->next < in->count && got < n) {
		uint32_t bytes = in->header[in->next].msg_len;
		uint32_t each = joined(&in->header[in->next].msg_hdr, bytes);
		uint32_t left = bytes - in->offset;

		rx[got++] = (struct weir_rx){
			.bytes = (const uint8_t *)in->vector[in->next].iov_base + in->offset,
			.length = left < each ? left : each,
			.from = &in->from[in->next],
			.group = in->is_group,
		};
		in->offset += each;
		if (in->offset >= bytes) {
			in->next++;
			in->offset = 0;
		}
	}
	t->more = in->may_have_more || in->next < in->count;
	return got;
}

static unsigned int
udp_errors(struct weir_transport *t, int *soft)
{
	unsigned int n = 0;
	char control[512];

	for (; n < MESSAGES; n++) {
		struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
		struct cmsghdr *c;

		if (recvmsg(t->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		for (c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
			struct sock_extended_err error;

			if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR)
				continue;
			memcpy(&error, CMSG_DATA(c), sizeof(error));
			if (weir_soft_error((int)error.ee_errno))
				*soft = (int)error.ee_errno;
		}
	}
	return n;
}

/* ---- waiting ---- */

#define WAKE_TURNS 16 /* receive calls for one look at wake_fd */

/* Poll until there is something to hand out, until wake_fd is readable, or until `end`. Receiving
 * instead of poll(2) saves a system call per batch. True: there is something to hand out. */
static bool
poll_until(struct udp *u, int wake_fd, uint64_t end)
{
	struct pollfd wake = {.fd = wake_fd, .events = POLLIN}; /* -1 is ignored */
	unsigned int turn = 0;

	do {
		if (fetch(u, false, MESSAGES) ||
			(u->transport.group_fd >= 0 && fetch(u, true, MESSAGES)))
			return true;
		if (++turn % WAKE_TURNS == 0 && poll(&wake, 1, 0) > 0)
			return false;
		sched_yield();
	} while (weir_now() < end);
	return false;
}

static unsigned int
udp_wait(struct weir_transport *t, int wake_fd, bool tx, uint64_t spin, uint64_t due)
{
	struct udp *u = udp_of(t);
	struct pollfd polls[3] = {
		{.fd = t->fd, .events = (short)(POLLIN | (tx ? POLLOUT : 0))},
		{.fd = t->group_fd, .events = POLLIN}, /* -1 is ignored */
		{.fd = wake_fd, .events = POLLIN},
	};
	unsigned int ready = 0;

	if (u->inbox.next < u->inbox.count || (spin != 0 && !tx && poll_until(u, wake_fd, spin)))
		return u->inbox.is_group ? WEIR_READY_GROUP : WEIR_READY_RX;
	weir_sleep(polls, 3, due);
	if (polls[0].revents & POLLIN)
		ready |= WEIR_READY_RX;
	if (polls[0].revents & POLLOUT)
		ready |= WEIR_READY_TX;
	if (polls[0].revents & POLLERR)
		ready |= WEIR_READY_ERROR;
	if (polls[1].revents & POLLIN)
		ready |= WEIR_READY_GROUP;
	if (polls[2].revents & POLLIN)
		ready |= WEIR_READY_WOKEN;
	return ready;
}

const struct weir_transport_ops weir_transport_udp = {
	.version = WEIR_TRANSPORT_VERSION,
	.open = udp_open,
	.close = udp_close,
	.join = udp_join,
	.leave = udp_leave,
	.size = udp_size,
	.send = udp_send,
	.receive = udp_receive,
	.errors = udp_errors,
	.wait = udp_wait,
};
