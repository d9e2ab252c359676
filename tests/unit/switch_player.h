/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch that a test of libweir plays, packet by packet, on the loopback interface. libweir's
 * calls run in a thread of their own, which returns codes and asserts nothing.
 */
#ifndef TESTS_UNIT_SWITCH_PLAYER_H
#define TESTS_UNIT_SWITCH_PLAYER_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "apps/libweir/weir.h"
#include "pktbuf/wire/wire.h"

#define JOB        9
#define GENERATION 5
#define ELEMENTS   8 /* of a block */

static int sockets[2]; /* base, extended */
static struct sockaddr_in from; /* of the last packet */
static struct weir_config config;
static struct weir *weir;
static pthread_t thread;

/* A socket of this port (0: any), which is told; -1: the port is taken. */
static inline int
bound(uint16_t *number)
{
	struct sockaddr_in own = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(*number)};
	socklen_t size = sizeof(own);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0) {
		close(fd);
		return -1;
	}
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &size), 0);
	*number = ntohs(own.sin_port);
	return fd;
}

/* The switch's sockets, and a host's configuration with their ports. */
static inline void
open_switch(int source)
{
	config = (struct weir_config){.switch_address = "127.0.0.1",
		.address = "127.0.0.3",
		.job = JOB,
		.source = source,
		.op_timeout_ms = 5000};
	sockets[0] = bound(&config.port_base);
	sockets[1] = bound(&config.port_ext);
}

/* Of the handle, too. */
static inline void
close_switch(void)
{
	weir_close(weir);
	close(sockets[0]);
	close(sockets[1]);
}

/* The host's next packet in the extended form: its bytes; -1: none came within `ms`. */
static inline ssize_t
receive(uint8_t packet[512], int ms)
{
	struct pollfd p = {.fd = sockets[1], .events = POLLIN};
	socklen_t size = sizeof(from);

	if (poll(&p, 1, ms) <= 0)
		return -1;
	return recvfrom(sockets[1], packet, 512, 0, (struct sockaddr *)&from, &size);
}

/* Send these bytes to it. */
static inline void
say_bytes(int fd, const uint8_t *packet, size_t bytes)
{
	sendto(fd, packet, bytes, 0, (const struct sockaddr *)&from, sizeof(from));
}

/* What a join is told of a job of int32 sums. */
static inline struct weir_join_reply
join_reply(unsigned int window, unsigned int sources, uint32_t timeout_ms)
{
	struct weir_join_reply r = {.dtype_op = WEIR_DTYPE_INT32 << 4};

	weir_put16(r.window, (uint16_t)window);
	weir_put16(r.elements, ELEMENTS);
	weir_put16(r.sources, (uint16_t)sources);
	weir_put32(r.timeout_ms, timeout_ms);
	return r;
}

#endif
