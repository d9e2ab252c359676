/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP transport over the loopback interface: whatever the kernel cuts and joins on the way,
 * datagrams come as they were sent. sendmmsg is watched: a kernel or an interface may refuse to cut
 * messages.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/libweir/handle.h"
#include "tests/random.h"

#define DATAGRAMS 300
#define BYTES_MAX 4200
#define PIECES    3
#define LIMIT_NS  (10000 * WEIR_NS_PER_MS)

static const struct weir_transport_ops *const udp = &weir_transport_udp;

static int refuse_cutting; /* errno of messages that are to be cut; 0: pass them on */
static unsigned int calls, cut; /* of sendmmsg; messages that the kernel was to cut */

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags);

int
__wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags)
{
	calls++;
	for (unsigned int i = 0; i < n; i++) {
		if (messages[i].msg_hdr.msg_controllen == 0)
			continue;
		cut++;
		if (refuse_cutting != 0) {
			if (i > 0)
				return __real_sendmmsg(fd, messages, i, flags);
			errno = refuse_cutting;
			return -1;
		}
	}
	return __real_sendmmsg(fd, messages, n, flags);
}

/* Two transports, each the other's switch, and what one of them sends. */
static struct pair {
	struct weir_transport *from, *to;
	struct weir_tx tx[DATAGRAMS];
	struct iovec pieces[DATAGRAMS * PIECES];
	uint8_t bytes[DATAGRAMS][BYTES_MAX];
	unsigned int received;
} pair;
static in_port_t port; /* that of `to` */

static struct weir_transport *
open_one(in_port_t *own)
{
	struct weir_transport_config config = {
		.own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
		.switch_address.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct weir_transport *t = NULL;
	uint64_t granted = 0;
	char text[256] = "";

	cr_assert_eq(udp->open(&config, &t, text, sizeof(text)), 0, "%s", text);
	cr_assert_neq(config.own.sin_port, 0);
	*own = config.own.sin_port;
	cr_assert_geq(udp->size(t, BYTES_MAX, DATAGRAMS, &granted), DATAGRAMS,
		"%lu bytes are granted", (unsigned long)granted);
	return t;
}

static void
begin(void)
{
	in_port_t own;

	pair.from = open_one(&own);
	pair.to = open_one(&port);
	pair.received = 0;
	calls = cut = 0;
}

static void
end(void)
{
	udp->close(pair.from, false);
	udp->close(pair.to, false);
}

TestSuite(weir_transport, .init = begin, .fini = end);

/* Datagram i has so many bytes, which tell their place. */
static void
make(unsigned int i, uint32_t bytes, in_port_t to)
{
	struct weir_tx *tx = &pair.tx[i];
	struct iovec *pieces =
		i == 0 ? pair.pieces : (struct iovec *)(uintptr_t)(tx[-1].pieces + tx[-1].count);
	uint32_t at = 0;

	for (uint32_t b = 0; b < bytes; b++)
		pair.bytes[i][b] = (uint8_t)(i * 31 + b * 7 + bytes);
	*tx = (struct weir_tx){.pieces = pieces, .bytes = bytes, .port = to};
	for (unsigned int p = 0; p < PIECES && at < bytes; p++) {
		uint32_t left = bytes - at, piece = p == PIECES - 1 ? left : left / 2 + 1;

		pieces[tx->count++] = (struct iovec){pair.bytes[i] + at, piece};
		at += piece;
	}
}

/* Receive all that has come: as sent, in order. */
static void
take(void)
{
	struct weir_rx rx[WEIR_BATCH];
	unsigned int n;

	do {
		n = udp->receive(pair.to, false, rx, WEIR_BATCH);
		for (unsigned int i = 0; i < n; i++, pair.received++) {
			const struct weir_tx *tx = &pair.tx[pair.received];

			cr_assert_lt(pair.received, DATAGRAMS, "a datagram too many");
			cr_assert_eq(rx[i].length, tx->bytes, "datagram %u has %u bytes, not %u",
				pair.received, rx[i].length, tx->bytes);
			cr_assert_eq(memcmp(rx[i].bytes, pair.bytes[pair.received], tx->bytes), 0,
				"datagram %u has other bytes", pair.received);
			cr_assert_not(rx[i].group);
		}
	} while (n == WEIR_BATCH);
}

/* Send the first `count`, and receive them. */
static void
send_all(unsigned int count)
{
	uint64_t until = weir_now() + LIMIT_NS;
	unsigned int sent = 0;

	while (sent < count) {
		int done = udp->send(pair.from, &pair.tx[sent], count - sent);

		cr_assert_gt(done, 0, "send: %s", strerror(-done));
		sent += (unsigned int)done;
	}
	while (pair.received < count) {
		unsigned int ready = udp->wait(pair.to, -1, false, 0, until);

		cr_assert(ready & WEIR_READY_RX, "%u of %u have come", pair.received, count);
		take();
	}
}

Test(weir_transport, datagrams_come_as_they_were_sent)
{
	uint64_t seed = random_seed();

	for (unsigned int round = 0; round < 20; round++) {
		uint32_t bytes = 1;

		/* Runs of one size, as blocks are, with shorter and longer ones between them. */
		for (unsigned int i = 0; i < DATAGRAMS; i++) {
			if (random_below(&seed, 8) == 0)
				bytes = 1 + (uint32_t)random_below(&seed, BYTES_MAX);
			make(i, bytes, port);
		}
		pair.received = 0;
		send_all(DATAGRAMS);
	}
}

Test(weir_transport, a_window_is_one_system_call)
{
	for (unsigned int i = 0; i < DATAGRAMS; i++)
		make(i, i < DATAGRAMS - 1 ? 1456 : 100, port);
	send_all(DATAGRAMS);
	cr_assert_eq(calls, 1);
	cr_assert_geq(cut, DATAGRAMS / 64);
}

Test(weir_transport, datagrams_to_several_ports_are_not_joined)
{
	struct weir_rx rx[WEIR_BATCH];
	struct weir_transport *other;
	in_port_t second;

	other = open_one(&second);
	for (unsigned int i = 0; i < 8; i++)
		make(i, 500, i < 4 ? port : second);
	cr_assert_eq(udp->send(pair.from, pair.tx, 8), 8);
	cr_assert(udp->wait(other, -1, false, 0, weir_now() + LIMIT_NS) & WEIR_READY_RX);
	take();
	cr_assert_eq(pair.received, 4);
	cr_assert_eq(udp->receive(other, false, rx, WEIR_BATCH), 4);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(memcmp(rx[i].bytes, pair.bytes[4 + i], 500), 0);
	udp->close(other, false);
}

/* What handing out has left over is there without another event of the socket. */
Test(weir_transport, a_joined_message_may_be_handed_out_in_parts)
{
	struct weir_rx rx[5];
	unsigned int n;

	for (unsigned int i = 0; i < 40; i++)
		make(i, 700, port);
	cr_assert_eq(udp->send(pair.from, pair.tx, 40), 40);
	while (pair.received < 40) {
		cr_assert(udp->wait(pair.to, -1, false, 0, weir_now() + LIMIT_NS) & WEIR_READY_RX,
			"%u have come", pair.received);
		n = udp->receive(pair.to, false, rx, 5);
		cr_assert_gt(n, 0);
		for (unsigned int i = 0; i < n; i++, pair.received++)
			cr_assert_eq(memcmp(rx[i].bytes, pair.bytes[pair.received], 700), 0);
	}
}

/* EIO: no checksums by the interface, before Linux 6.11; EOPNOTSUPP and EINVAL: others. */
Test(weir_transport, a_kernel_that_does_not_cut_gets_single_datagrams)
{
	const int errors[] = {EIO, EOPNOTSUPP, EINVAL};

	for (unsigned int e = 0; e < 3; e++) {
		refuse_cutting = errors[e];
		for (unsigned int i = 0; i < 100; i++)
			make(i, 1000, port);
		send_all(100);
		cr_assert_gt(cut, 0);
		cut = 0;
		pair.received = 0;
		send_all(100);
		cr_assert_eq(cut, 0, "it is asked again");
		end(); /* another one does not know it yet */
		begin();
	}
}

Test(weir_transport, a_datagram_that_is_too_long_is_refused)
{
	static uint8_t bytes[65535];
	struct iovec piece[2] = {{bytes, 65535}, {bytes, 65535}};
	struct weir_tx tx[2];

	for (unsigned int i = 0; i < 2; i++)
		tx[i] = (struct weir_tx){
			.pieces = &piece[i], .count = 1, .bytes = 65535, .port = port};
	cr_assert_eq(udp->send(pair.from, tx, 2), -EMSGSIZE);
	make(0, 10, port);
	send_all(1);
}

/* The buffers are as large as they have to be, or it is said that they are not. */
Test(weir_transport, a_datagram_that_is_cut_off_says_how_long_it_is)
{
	struct weir_rx rx[1];
	uint64_t granted;

	cr_assert_geq(udp->size(pair.to, 100, 4, &granted), 4);
	make(0, BYTES_MAX, port);
	cr_assert_eq(udp->send(pair.from, pair.tx, 1), 1);
	cr_assert(udp->wait(pair.to, -1, false, 0, weir_now() + LIMIT_NS) & WEIR_READY_RX);
	cr_assert_eq(udp->receive(pair.to, false, rx, 1), 1);
	cr_assert_eq(rx[0].length, BYTES_MAX);
}

Test(weir_transport, wait_ends_at_its_time_and_when_it_is_woken)
{
	struct weir_transport *t = pair.from;
	int wake[2];

	cr_assert_eq(udp->wait(t, -1, false, 0, weir_now()), 0);
	cr_assert_eq(udp->wait(t, -1, false, weir_now() + WEIR_NS_PER_MS, weir_now()), 0);
	cr_assert(udp->wait(t, -1, true, 0, UINT64_MAX) & WEIR_READY_TX);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, wake), 0);
	cr_assert_eq(write(wake[1], "", 1), 1);
	cr_assert_eq(udp->wait(t, wake[0], false, 0, UINT64_MAX), WEIR_READY_WOKEN);
}

Test(weir_transport, other_transports_are_loaded_by_name)
{
	const struct weir_transport_ops *ops;
	char text[512];
	int code;

	unsetenv("WEIR_TRANSPORT");
	cr_assert_eq(weir_transport_find(&code, text, sizeof(text)), udp);
	cr_assert_eq(weir_use_transport("nosuch"), 0);
	ops = weir_transport_find(&code, text, sizeof(text));
	cr_assert_null(ops);
	cr_assert_eq(code, -ENOENT);
	cr_assert_not_null(strstr(text, "nosuch"), "%s", text);
	/* A library, but no transport. */
	cr_assert_eq(weir_use_transport("/lib/x86_64-linux-gnu/libm.so.6"), 0);
	ops = weir_transport_find(&code, text, sizeof(text));
	cr_assert_null(ops);
	cr_assert_eq(code, -ENOEXEC);
	cr_assert_not_null(strstr(text, "is not a transport"), "%s", text);
	cr_assert_eq(weir_use_transport("udp"), 0);
	setenv("WEIR_TRANSPORT", "nosuch", 1);
	cr_assert_eq(weir_transport_find(&code, text, sizeof(text)), udp);
	cr_assert_eq(weir_use_transport(NULL), 0);
	cr_assert_null(weir_transport_find(&code, text, sizeof(text)));
}
