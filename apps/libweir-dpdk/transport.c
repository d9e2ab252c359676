/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over a device of DPDK (docs/libweir.md, "Transports").
 *
 * Poll-mode devices wake no thread. So a thread that waits polls; and what it does between two polls is WEIR_DPDK_IDLE:
 *
 *	spin    nothing. It needs a CPU of its own.
 *	yield   it lets other threads run.
 *	sleep   the default: it yields while the result is expected soon (weir_config.spin_us), and at least for YIELD; after
 *		that it naps, each nap longer than the one before, up to NAP_MOST.
 *
 * The descriptor of a handle, for threads that sleep on many, is a timer: it becomes readable when it is time to poll
 * again, at once when another thread has received something for the handle. It is set anew only when a look has found
 * nothing; so it costs nothing while a thread waits in wait(). In silence the looks become rarer, down to one in LOOK_MOST.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rte_pause.h>
#include <rte_random.h>

#include "apps/libweir-dpdk/device.h"

#define US         UINT64_C(1000)
#define YIELD      (30 * US) /* a nap costs more than an answer of a switch on the same machine takes */
#define NAP_LEAST  (2 * US)
#define NAP_MOST   (50 * US)
#define LOOK_LEAST (50 * US)
#define LOOK_MOST  (1000 * US)
#define ASK_AGAIN  (100000 * US) /* ARP */
#define SILENT     (1000000 * US) /* since when the switch's MAC address is asked for again */
#define PORT_FIRST 49152 /* of those that a host may take for itself (RFC 6335) */
#define WAKE_TURNS 16 /* polls of the device for one of wake_fd */

static struct end *
end_of(struct weir_transport *t)
{
	return (struct end *)(void *)t;
}

void
end_ring(struct end *end, uint64_t at)
{
	const struct itimerspec t = {
		.it_value = {(time_t)(at / 1000000000), (long)(at % 1000000000)}};

	end->rings_at = at;
	/* This cannot fail: the descriptor and the time are valid. */
	(void)timerfd_settime(end->transport.fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* ---- opening ---- */

static const struct end *
holder(rte_be32_t own, rte_be16_t port)
{
	const struct end *end;

	TAILQ_FOREACH (end, &device.ends, link)
		if (end->own == own && end->port == port)
			break;
	return end;
}

/* 0 or -errno. Under `receiving`. */
static int
bind_port(struct end *end)
{
	uint16_t first = (uint16_t)rte_rand_max(UINT16_MAX - PORT_FIRST + 1);

	if (end->port != 0)
		return holder(end->own, end->port) == NULL ? 0 : -EADDRINUSE;
	for (uint32_t i = 0; i <= UINT16_MAX - PORT_FIRST; i++) {
		rte_be16_t port = rte_cpu_to_be_16(
			(uint16_t)(PORT_FIRST + (first + i) % (UINT16_MAX - PORT_FIRST + 1)));

		if (holder(end->own, port) == NULL) {
			end->port = port;
			return 0;
		}
	}
	return -EADDRINUSE;
}

static void
dpdk_close(struct weir_transport *t, bool in_child)
{
	struct end *end = t != NULL ? end_of(t) : NULL;

	if (end == NULL)
		return;
	if (in_child) {
		close(t->fd);
		return;
	}
	pthread_mutex_lock(&device.receiving);
	TAILQ_REMOVE(&device.ends, end, link);
	rte_pktmbuf_free_bulk(end->given, end->given_count);
	while (end->head != end->tail)
		rte_pktmbuf_free(end->inbox[end->head++ % INBOX]);
	pthread_mutex_unlock(&device.receiving);
	close(t->fd);
	free(end);
}

static const struct weir_transport_ops ops;

static int
dpdk_open(
	struct weir_transport_config *config, struct weir_transport **out, char *text, size_t size)
{
	struct end *end;
	int code = device_open(text, size);

	if (code < 0)
		return code;
	end = calloc(1, sizeof(*end));
	if (end == NULL) {
		snprintf(text, size, "out of memory");
		return -ENOMEM;
	}
	end->transport = (struct weir_transport){.ops = &ops, .group_fd = -1};
	end->transport.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	end->own = config->own.sin_addr.s_addr;
	end->port = config->own.sin_port;
	end->switch_address = config->switch_address.s_addr;
	end->switch_mac = device.switch_mac;
	end->pause = LOOK_LEAST;
	code = end->transport.fd < 0 ? -errno : 0;
	pthread_mutex_lock(&device.receiving);
	if (code == 0)
		code = bind_port(end);
	if (code == 0) {
		TAILQ_INSERT_TAIL(&device.ends, end, link);
		end_ring(end, 1);
	}
	pthread_mutex_unlock(&device.receiving);
	if (code < 0) {
		snprintf(text, size, "cannot take the own address: %s", strerror(-code));
		if (end->transport.fd >= 0)
			close(end->transport.fd);
		free(end);
		return code;
	}
	config->own.sin_port = end->port;
	/* With luck the answer is there before the join is sent. */
	if (end->switch_mac == 0)
		device_ask(end);
	*out = &end->transport;
	return 0;
}

static int
dpdk_join(struct weir_transport *t, const struct sockaddr_in *group, char *text, size_t size)
{
	int code = rte_eth_allmulticast_enable(device.port.id);

	if (code < 0 && code != -ENOTSUP) {
		snprintf(text, size, "the device does not receive multicast results: %s",
			rte_strerror(-code));
		return code;
	}
	pthread_mutex_lock(&device.receiving);
	end_of(t)->group = group->sin_addr.s_addr;
	end_of(t)->group_port = group->sin_port;
	pthread_mutex_unlock(&device.receiving);
	return 0;
}

static void
dpdk_leave(struct weir_transport *t)
{
	pthread_mutex_lock(&device.receiving);
	end_of(t)->group = 0;
	pthread_mutex_unlock(&device.receiving);
}

static uint32_t
dpdk_size(struct weir_transport *t, size_t bytes, uint32_t datagrams, uint64_t *granted)
{
	(void)t;
	*granted = (uint64_t)INBOX * bytes;
	return datagrams < INBOX ? datagrams : INBOX;
}

/* ---- sending ---- */

/* The MAC address is not known, or the switch is silent: it may have another one now. 0, or what is wrong. */
static int
resolve(struct end *end, uint64_t now)
{
	if (now >= end->asked_at + ASK_AGAIN) {
		end->asked_at = now;
		end->is_down = device_is_down(now);
		if (device.switch_mac == 0)
			device_ask(end);
	}
	if (end->is_down)
		return -ENETDOWN;
	if (__atomic_load_n(&end->switch_mac, __ATOMIC_RELAXED) != 0)
		return 0;
	if (end->unanswered_since == 0)
		end->unanswered_since = now;
	return now >= end->unanswered_since + SILENT ? -EHOSTUNREACH : -EAGAIN;
}

static int
dpdk_send(struct weir_transport *t, const struct weir_tx *tx, unsigned int n)
{
	struct end *end = end_of(t);
	uint64_t now = now_ns(), mac = __atomic_load_n(&end->switch_mac, __ATOMIC_RELAXED);
	uint64_t known = 0;
	unsigned int fit = 0, sent;

	if (mac == 0 || now >= __atomic_load_n(&end->heard_at, __ATOMIC_RELAXED) + SILENT) {
		int code = resolve(end, now);

		if (code < 0)
			return code;
		mac = __atomic_load_n(&end->switch_mac, __ATOMIC_RELAXED);
	}
	end->unanswered_since = 0;
	memcpy(&known, &end->frame.ether.dst_addr, sizeof(end->frame.ether.dst_addr));
	if (known != mac)
		device_address(end, mac);
	while (fit < n && fit < BURST && tx[fit].bytes + 28 <= device.mtu)
		fit++;
	if (fit == 0)
		return -EMSGSIZE;
	sent = device_send(end, tx, fit);
	end->pause = LOOK_LEAST;
	if (end->rings_at > now + LOOK_LEAST) { /* answers come sooner */
		pthread_mutex_lock(&device.receiving);
		end_ring(end, now + LOOK_LEAST);
		pthread_mutex_unlock(&device.receiving);
	}
	return sent > 0 ? (int)sent : -EAGAIN;
}

/* ---- receiving ---- */

static unsigned int
dpdk_receive(struct weir_transport *t, bool group, struct weir_rx *rx, unsigned int n)
{
	struct end *end = end_of(t);
	unsigned int got = 0;

	(void)group;
	n = n < BURST ? n : BURST;
	pthread_mutex_lock(&device.receiving);
	rte_pktmbuf_free_bulk(end->given, end->given_count);
	__atomic_store_n(&end->polls, true, __ATOMIC_RELAXED);
	/* Frames for others must not keep this thread. */
	for (unsigned int turn = 0; turn < INBOX / BURST && end->tail - end->head < n; turn++)
		if (device_poll() < BURST)
			break;
	__atomic_store_n(&end->polls, false, __ATOMIC_RELAXED);
	while (got < n && end->head != end->tail) {
		struct rte_mbuf *m = end->inbox[end->head++ % INBOX];
		const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
		const struct frame *frame = (const void *)(bytes - sizeof(struct frame));

		end->given[got] = m;
		end->from[got] = (struct sockaddr_in){.sin_family = AF_INET,
			.sin_port = frame->udp.src_port,
			.sin_addr.s_addr = frame->ip.src_addr};
		rx[got] = (struct weir_rx){.bytes = bytes,
			.length = rte_pktmbuf_data_len(m),
			.from = &end->from[got],
			.group = frame->ip.dst_addr != end->own};
		got++;
	}
	end->given_count = got;
	if (got > 0)
		end->pause = LOOK_LEAST;
	else if (!end->waited) {
		uint64_t now = now_ns();

		if (now >= end->rings_at) {
			end_ring(end, now + end->pause);
			end->pause = RTE_MIN(2 * end->pause, LOOK_MOST);
		}
	}
	pthread_mutex_unlock(&device.receiving);
	t->more = got == n;
	if (!t->more)
		end->waited = false;
	return got;
}

/* A device reports no errors. */
static unsigned int
dpdk_errors(struct weir_transport *t, int *soft)
{
	(void)t;
	(void)soft;
	return 0;
}

/* ---- waiting ---- */

/* Poll, unless another thread does. True: there is something in the inbox. */
static bool
look(struct end *end)
{
	bool found = false;

	if (pthread_mutex_trylock(&device.receiving) != 0)
		return false;
	if (end->head == end->tail)
		device_poll();
	found = end->head != end->tail;
	pthread_mutex_unlock(&device.receiving);
	return found;
}

/* Sleep until then, or until the timer or wake_fd is readable. True: wake_fd is. */
static bool
nap(struct end *end, int wake_fd, uint64_t until)
{
	struct pollfd polls[2] = {
		{.fd = end->transport.fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
	bool empty;

	pthread_mutex_lock(&device.receiving);
	empty = end->head == end->tail;
	__atomic_store_n(&end->polls, false, __ATOMIC_RELAXED);
	if (empty)
		end_ring(end, until);
	pthread_mutex_unlock(&device.receiving);
	if (empty && ppoll(polls, 2, NULL, NULL) < 0)
		polls[1].revents = 0;
	__atomic_store_n(&end->polls, true, __ATOMIC_RELAXED);
	return polls[1].revents != 0;
}

static bool
is_readable(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	const struct timespec at_once = {0};

	return fd >= 0 && ppoll(&poll_fd, 1, &at_once, NULL) > 0;
}

static unsigned int
dpdk_wait(struct weir_transport *t, int wake_fd, bool tx, uint64_t spin, uint64_t due)
{
	struct end *end = end_of(t);
	uint64_t now = now_ns(), pause = NAP_LEAST;
	unsigned int ready = 0;

	spin = RTE_MAX(spin, now + YIELD);
	__atomic_store_n(&end->polls, true, __ATOMIC_RELAXED);
	end->waited = true;
	for (unsigned int turn = 0; ready == 0; turn++) {
		if (look(end)) {
			ready = WEIR_READY_RX;
			break;
		}
		if (turn % WAKE_TURNS == WAKE_TURNS - 1 && is_readable(wake_fd))
			ready = WEIR_READY_WOKEN;
		now = now_ns();
		if (ready != 0 || now >= due)
			break;
		if (device.idle == IDLE_SPIN)
			rte_pause();
		else if (device.idle == IDLE_YIELD || now < spin)
			sched_yield();
		else {
			if (nap(end, wake_fd, RTE_MIN(now + pause, due)))
				ready = WEIR_READY_WOKEN;
			pause = RTE_MIN(2 * pause, NAP_MOST);
		}
		/* Nothing tells when the device has room. */
		if (tx)
			ready |= WEIR_READY_TX;
	}
	__atomic_store_n(&end->polls, false, __ATOMIC_RELAXED);
	return ready;
}

static const struct weir_transport_ops ops = {
	.version = WEIR_TRANSPORT_VERSION,
	.open = dpdk_open,
	.close = dpdk_close,
	.join = dpdk_join,
	.leave = dpdk_leave,
	.size = dpdk_size,
	.send = dpdk_send,
	.receive = dpdk_receive,
	.errors = dpdk_errors,
	.wait = dpdk_wait,
};

extern const struct weir_transport_ops *const weir_transport;
__attribute__((visibility("default"))) const struct weir_transport_ops *const weir_transport = &ops;
