/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport: how the datagrams of one handle reach the switch and come back. The engine (engine.h) knows no socket
 * and no device; it sends a batch, receives a batch, and waits.
 *
 *	udp     udp.c: UDP sockets of the kernel. The default.
 *	dpdk    libweir-dpdk.so, loaded when it is asked for: any device of DPDK, without the kernel.
 *
 * WEIR_TRANSPORT names the transport of a process, and weir_use_transport() overrides it. What a handle does is the same
 * over each: a transport may lose, repeat and reorder datagrams, as UDP does. It never alters, joins or splits them.
 *
 * Threads: one thread at a time calls functions of a transport (under the handle's lock). But wait() is called without the
 * lock, and meanwhile another thread may call send(). Transports of different handles are independent of each other. No
 * function but open(), join() and wait() sleeps.
 */
#ifndef APPS_LIBWEIR_TRANSPORT_H
#define APPS_LIBWEIR_TRANSPORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Of this interface. A library with another one is refused. */
#define WEIR_TRANSPORT_VERSION 1
/* The symbol of a loaded library: const struct weir_transport_ops *. */
#define WEIR_TRANSPORT_SYMBOL "weir_transport"

/*
 * A datagram to send: `count` pieces, in order; behind them in the array are those of the next datagram. A transport has
 * read them when send() returns; but `lasting` pieces, from the second on, are of the operation's buffer, to which a
 * device may refer longer. That memory stays until the operation has ended. Its bytes may change once the block's result
 * has come; whatever such a datagram carries then, the switch no longer adds it.
 */
struct weir_tx {
	const struct iovec *pieces;
	unsigned int count; /* [1, WEIR_SOURCES_MAX + 2] */
	unsigned int lasting; /* [0, count) */
	uint32_t bytes; /* of all pieces */
	in_port_t port; /* UDP port of the switch, network byte order */
};

/* A datagram that has come. Valid until the next receive(). */
struct weir_rx {
	const uint8_t *bytes;
	uint32_t
		length; /* more than there is room for (size()): it was cut off, and is only counted */
	const struct sockaddr_in *from;
	bool group; /* it was sent to the multicast group */
};

/* What wait() has seen. */
#define WEIR_READY_RX    0x1 /* receive() may have datagrams */
#define WEIR_READY_GROUP 0x2 /* the same of the group */
#define WEIR_READY_TX    0x4 /* send() may have room */
#define WEIR_READY_ERROR 0x8 /* errors() has one */
#define WEIR_READY_WOKEN 0x10 /* wake_fd is readable */

struct weir_transport_config {
	struct sockaddr_in own; /* address; port 0: any. open() sets the port */
	struct in_addr switch_address;
	unsigned int spin_us; /* how long a waiting call of this handle may poll; 0: not at all */
};

struct weir_transport {
	const struct weir_transport_ops *ops;
	int fd; /* readable when wait() would return WEIR_READY_RX, for poll(2) and epoll(7); -1: not yet open */
	int group_fd; /* the same of WEIR_READY_GROUP; -1: there is no group, or `fd` tells of both */
	bool more; /* receive() sets it: there may be more datagrams than it has handed out */
};

struct weir_transport_ops {
	uint32_t version; /* WEIR_TRANSPORT_VERSION */

	/* Open: bind the own address. 0; or -errno with a text for people. `config` is read and written during the call. */
	int (*open)(struct weir_transport_config *config, struct weir_transport **transport,
		char *text, size_t size);
	/* Close and free. NULL is fine. After fork(), in the child, only the descriptors are closed. */
	void (*close)(struct weir_transport *transport, bool in_child);

	/* Receive what comes to this multicast group and UDP port, too. 0; or -errno with a text. leave: no longer. */
	int (*join)(struct weir_transport *transport, const struct sockaddr_in *group, char *text,
		size_t size);
	void (*leave)(struct weir_transport *transport);

	/*
	 * Make room for so many datagrams that come at once, of so many bytes each at most. Returns for how many there is
	 * room; *granted is the receive buffer in bytes. 0: no memory.
	 */
	uint32_t (*size)(struct weir_transport *transport, size_t bytes, uint32_t datagrams,
		uint64_t *granted);

	/*
	 * Send n datagrams, in order. Returns how many were taken, at least 1; or -errno of the first one:
	 *   -EAGAIN      full: again after WEIR_READY_TX
	 *   -ENOBUFS, -ENOMEM, -EINTR   again a little later
	 *   -EMSGSIZE    it does not fit the MTU
	 *   other errors of the host's network: weir_soft_error() says whether repetition may help
	 */
	int (*send)(struct weir_transport *transport, const struct weir_tx *tx, unsigned int n);
	/* Take up to n datagrams that have come; group: after WEIR_READY_GROUP. Returns how many, and sets `more`. One call
	 * costs at most one system call. */
	unsigned int (*receive)(
		struct weir_transport *transport, bool group, struct weir_rx *rx, unsigned int n);

	/* Take the errors that the network has reported since the last call (ICMP). Returns their number; *soft is the last
	 * one that repetition may repair, or unchanged. */
	unsigned int (*errors)(struct weir_transport *transport, int *soft);

	/*
	 * Wait until there is something to receive, wake_fd is readable (-1: none) or, with `tx`, there is room to send; or
	 * until `due` (CLOCK_MONOTONIC, ns; UINT64_MAX: without end). Until `spin` poll, and yield the CPU between polls;
	 * then sleep. Returns WEIR_READY_ flags; 0: none until then.
	 */
	unsigned int (*wait)(struct weir_transport *transport, int wake_fd, bool tx, uint64_t spin,
		uint64_t due);
};

/* transport.c: the operations of the transport that this process uses. NULL with a text: it cannot be loaded. */
const struct weir_transport_ops *weir_transport_find(int *code, char *text, size_t size);

/* udp.c */
extern const struct weir_transport_ops weir_transport_udp;

/* Repetition may repair this errno: of the network, not of this host's program. */
bool weir_soft_error(int error);

#endif
