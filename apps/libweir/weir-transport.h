/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport: how the datagrams of one handle reach the switch and come back. The engine knows no
 * socket and no device; it sends a batch, receives a batch, and waits.
 *
 *	udp     UDP sockets of the kernel, in libweir. The default.
 *	dpdk    libweir-dpdk.so, loaded on demand: any device of DPDK, without the kernel.
 *	NAME    yours: libweir-NAME.so, where the dynamic linker looks; or a path with a '/'.
 *
 * WEIR_TRANSPORT names the transport of a process, and weir_use_transport() overrides it. A handle
 * works the same over each transport. A transport may lose, repeat and reorder datagrams, as UDP
 * does. It never alters, joins or splits them.
 *
 * A library of your own, in C or C++, includes this header, needs no symbol of libweir, and
 * defines one:
 *
 *	static const struct weir_transport_ops ops = {.version = WEIR_TRANSPORT_VERSION, ...};
 *	const struct weir_transport_ops *const weir_transport = &ops;
 *
 * All functions are required from open() on. libweir loads the library when a handle is opened, and
 * never unloads it. examples/ci/lossy.c is a whole one.
 *
 * Threads: one thread at a time calls functions of a transport, under the handle's lock. But wait()
 * is called without the lock, and meanwhile another thread may call send(). Transports of different
 * handles are independent of each other: threads may call their functions, and open(), at the same
 * time. Only open(), join() and wait() may sleep.
 */
#ifndef APPS_LIBWEIR_WEIR_TRANSPORT_H
#define APPS_LIBWEIR_WEIR_TRANSPORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. libweir refuses a library with another one. */
#define WEIR_TRANSPORT_VERSION 2
/* The symbol of a loaded library: const struct weir_transport_ops *. */
#define WEIR_TRANSPORT_SYMBOL "weir_transport"
/* Of a datagram at most: a header, a slice for each of 256 sources, and a tag. */
#define WEIR_TRANSPORT_PIECES 258

/*
 * A datagram to send: `count` pieces, in order; the next datagram's pieces follow them in the
 * array. A transport has read the pieces when send() returns, except `lasting` pieces, from the
 * second on. These are in the operation's buffer, and a device may read them later: the memory
 * stays until the operation has ended. Its bytes may change once the block's result has come. That
 * does no harm, because the switch no longer adds such a datagram.
 */
struct weir_tx {
	const struct iovec *pieces;
	unsigned int count; /* [1, WEIR_TRANSPORT_PIECES] */
	unsigned int lasting; /* [0, count) */
	uint32_t bytes; /* of all pieces */
	in_port_t port; /* UDP port of the switch, network byte order */
};

/* A datagram that has come. Valid until the next receive(). */
struct weir_rx {
	const uint8_t *bytes;
	/* If it exceeds the room (size()), the datagram was cut off, and is only counted. */
	uint32_t length;
	const struct sockaddr_in *from;
	bool group; /* sent to the multicast group */
};

/* What wait() has seen. */
#define WEIR_READY_RX    0x1 /* receive() may have datagrams */
#define WEIR_READY_GROUP 0x2 /* receive() may have datagrams of the group */
#define WEIR_READY_TX    0x4 /* send() may have room */
#define WEIR_READY_ERROR 0x8 /* errors() has one */
#define WEIR_READY_WOKEN 0x10 /* wake_fd is readable */

struct weir_transport_config {
	struct sockaddr_in own; /* address; port 0: any. open() sets the port */
	struct in_addr switch_address;
	unsigned int spin_us; /* how long a waiting call of this handle may poll; 0: not at all */
	const struct weir_transport_ops *udp; /* libweir's own, for a transport that wraps it */
};

/* The first member of what open() makes. A transport that wraps another one puts its own operations
 * here after the other's open(). join() and leave() may change group_fd. */
struct weir_transport {
	const struct weir_transport_ops *ops;
	/*
	 * For poll(2) and epoll(7): readable when wait() would return WEIR_READY_RX. -1: not open.
	 */
	int fd;
	/* Readable when wait() would return WEIR_READY_GROUP. -1: no group, or `fd` covers both. */
	int group_fd;
	bool more; /* set by receive(): there may be more datagrams to receive */
};

struct weir_transport_ops {
	uint32_t version; /* WEIR_TRANSPORT_VERSION */

	/* Open: bind the own address. 0, and *transport is the caller's until close(); or -errno
	 * with a text for people of `size` bytes at most. `config` is read and written during the
	 * call only. */
	int (*open)(struct weir_transport_config *config, struct weir_transport **transport,
		char *text, size_t size);
	/* Close and free. NULL is fine. After fork(), in the child, only the descriptors are
	 * closed. */
	void (*close)(struct weir_transport *transport, bool in_child);

	/* Receive datagrams to this multicast group and UDP port, too. 0; or -errno with a text.
	 * leave() ends this. */
	int (*join)(struct weir_transport *transport, const struct sockaddr_in *group, char *text,
		size_t size);
	void (*leave)(struct weir_transport *transport);

	/*
	 * Make room for this many datagrams that come at once, each of `bytes` at most. Returns the
	 * number of datagrams that there is room for; 0: no memory. *granted is the receive buffer
	 * in bytes.
	 */
	uint32_t (*size)(struct weir_transport *transport, size_t bytes, uint32_t datagrams,
		uint64_t *granted);

	/*
	 * Send n datagrams, in order. Returns how many were taken, at least 1; or -errno of the
	 * first datagram:
	 *   -EAGAIN      full: again after WEIR_READY_TX
	 *   -ENOBUFS, -ENOMEM, -EINTR   again a little later
	 *   -EMSGSIZE    it does not fit the MTU
	 *   other errors: the call repeats those of the network, such as -ENETUNREACH, until its
	 *   timeout, and fails with others
	 */
	int (*send)(struct weir_transport *transport, const struct weir_tx *tx, unsigned int n);
	/* Take up to n datagrams that have come; group: after WEIR_READY_GROUP. Returns how many,
	 * and sets `more`. One call costs at most one system call. */
	unsigned int (*receive)(
		struct weir_transport *transport, bool group, struct weir_rx *rx, unsigned int n);

	/* Take the errors that the network has reported since the last call (ICMP). Returns their
	 * number; *soft is the last one that repetition may repair, or unchanged. */
	unsigned int (*errors)(struct weir_transport *transport, int *soft);

	/*
	 * Wait until there is something to receive, wake_fd is readable (-1: none) or, with `tx`,
	 * there is room to send; or until `due` (CLOCK_MONOTONIC, ns; UINT64_MAX: without end).
	 * Poll until `spin`, and yield the CPU between polls; then sleep. Returns WEIR_READY_
	 * flags; 0: nothing happened until `due`.
	 */
	unsigned int (*wait)(struct weir_transport *transport, int wake_fd, bool tx, uint64_t spin,
		uint64_t due);
};

/* Yours: libweir has no such symbol, and looks for it in your library. */
extern const struct weir_transport_ops *const weir_transport __attribute__((visibility("default")));

#ifdef __cplusplus
}
#endif

#endif
