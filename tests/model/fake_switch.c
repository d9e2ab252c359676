/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/fake_switch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/random.h"

#define DATAGRAM_MAX 65536
#define HELD_MAX     8 /* datagrams held to be overtaken */
#define HELD_MS      5 /* at most this long */
#define TICK_MS      5

/* A datagram on its way in or out. */
struct datagram {
	bool in, extended, multicast;
	struct model_peer peer;
	size_t size;
	uint64_t due_ms;
	unsigned int behind; /* datagrams that may still overtake it */
	uint8_t *bytes;
};

struct fake_switch {
	struct fake_switch_config c;
	struct model *model;
	int fd[2]; /* by form: base, extended */
	uint16_t port[2];
	pthread_t thread;
	bool stop, mute; /* atomics */
	uint64_t random;
	struct fake_switch_stats stats;
	struct datagram held[HELD_MAX];
	unsigned int held_count;
};

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A number of [0, 1). */
static double
chance(struct fake_switch *f)
{
	return (double)(random_bits(&f->random) >> 11) * 0x1p-53;
}

static void through(struct fake_switch *f, const struct datagram *d);

/* The model sends: through the network. */
static void
model_sends(void *argument, const struct model_packet *packet)
{
	struct fake_switch *f = argument;
	struct datagram d = {
		.extended = packet->extended,
		.multicast = packet->multicast,
		.peer = packet->to,
		.size = packet->size,
		.bytes = (uint8_t *)(uintptr_t)packet->bytes, /* read only */
	};

	if (d.multicast)
		d.peer.port = f->port[d.extended];
	if ((packet->extended ? packet->bytes[15] : packet->bytes[5] >> 4) == WEIR_STATUS_WAITING)
		f->stats.waiting_replies++;
	through(f, &d);
}

static void
arrive(struct fake_switch *f, const struct datagram *d)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(d->peer.port),
		.sin_addr.s_addr = htonl(d->peer.address),
	};

	if (d->in) {
		model_input(f->model, now_ms(), d->extended, &d->peer, d->bytes, d->size,
			model_sends, f);
		return;
	}
	f->stats.sent++;
	(void)sendto(
		f->fd[d->extended], d->bytes, d->size, 0, (const struct sockaddr *)&to, sizeof(to));
}

/* Release what was overtaken enough, or long enough. */
static void
release(struct fake_switch *f, bool overtaken)
{
	for (unsigned int i = 0; i < f->held_count;) {
		struct datagram d = f->held[i];

		if (overtaken && d.behind > 0)
			f->held[i].behind--;
		if (f->held[i].behind > 0 && now_ms() < d.due_ms) {
			i++;
			continue;
		}
		f->held[i] = f->held[--f->held_count];
		arrive(f, &d);
		free(d.bytes);
	}
}

/* The faulty network. */
static void
through(struct fake_switch *f, const struct datagram *d)
{
	if (__atomic_load_n(&f->mute, __ATOMIC_RELAXED))
		return;
	if (chance(f) < f->c.loss) {
		f->stats.lost++;
		return;
	}
	if (chance(f) < f->c.duplicate) {
		f->stats.duplicated++;
		arrive(f, d);
	}
	if (chance(f) < f->c.reorder && f->held_count < HELD_MAX) {
		struct datagram *h = &f->held[f->held_count];

		*h = *d;
		h->behind = 1 + (unsigned int)(chance(f) * 8);
		h->due_ms = now_ms() + HELD_MS;
		h->bytes = malloc(d->size);
		if (h->bytes != NULL) {
			memcpy(h->bytes, d->bytes, d->size);
			f->held_count++;
			f->stats.reordered++;
			return;
		}
	}
	arrive(f, d);
}

static void
receive(struct fake_switch *f, bool extended, uint8_t *buffer)
{
	struct sockaddr_in from;
	socklen_t from_size = sizeof(from);
	ssize_t size;

	/* Bounded, so that the clock ticks under load. */
	for (int i = 0; i < 64; i++) {
		struct datagram d = {.in = true, .extended = extended, .bytes = buffer};

		size = recvfrom(f->fd[extended], buffer, DATAGRAM_MAX, MSG_DONTWAIT,
			(struct sockaddr *)&from, &from_size);
		if (size < 0)
			return;
		f->stats.received++;
		d.peer.address = ntohl(from.sin_addr.s_addr);
		d.peer.port = ntohs(from.sin_port);
		d.size = (size_t)size;
		through(f, &d);
		release(f, true);
	}
}

static void *
loop(void *argument)
{
	struct fake_switch *f = argument;
	uint8_t *buffer = malloc(DATAGRAM_MAX);

	while (buffer != NULL && !__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
		struct pollfd polls[2] = {
			{.fd = f->fd[0], .events = POLLIN}, {.fd = f->fd[1], .events = POLLIN}};

		(void)poll(polls, 2, TICK_MS);
		receive(f, false, buffer);
		receive(f, true, buffer);
		release(f, false);
		model_tick(f->model, now_ms(), model_sends, f);
	}
	free(buffer);
	return NULL;
}

static int
open_socket(struct fake_switch *f, bool extended)
{
	struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = htons(extended ? f->c.port_ext : f->c.port_base),
	};
	socklen_t size = sizeof(own);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), buffer = 4 << 20;
	struct in_addr interface;

	if (fd < 0)
		return -errno;
	f->fd[extended] = fd;
	if (inet_pton(AF_INET, f->c.address, &own.sin_addr) != 1)
		return -EINVAL;
	interface = own.sin_addr;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof(interface)) < 0 ||
		bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
		getsockname(fd, (struct sockaddr *)&own, &size) < 0)
		return -errno;
	f->port[extended] = ntohs(own.sin_port);
	return 0;
}

int
fake_switch_start(const struct fake_switch_config *config, struct fake_switch **out)
{
	struct fake_switch *f = calloc(1, sizeof(*f));
	int code = 0;

	*out = NULL;
	if (f == NULL)
		return -ENOMEM;
	f->c = *config;
	f->random = config->seed;
	f->fd[0] = f->fd[1] = -1;
	f->model = model_create(&config->job);
	if (f->model == NULL)
		code = -ENOMEM;
	for (int extended = 0; code == 0 && extended < 2; extended++)
		code = open_socket(f, extended != 0);
	if (code == 0)
		code = -pthread_create(&f->thread, NULL, loop, f);
	if (code == 0) {
		*out = f;
		return 0;
	}
	for (int i = 0; i < 2; i++)
		if (f->fd[i] >= 0)
			close(f->fd[i]);
	model_destroy(f->model);
	free(f);
	return code;
}

void
fake_switch_stop(struct fake_switch *f, struct fake_switch_stats *stats)
{
	if (f == NULL)
		return;
	__atomic_store_n(&f->stop, true, __ATOMIC_RELAXED);
	pthread_join(f->thread, NULL);
	if (stats != NULL)
		*stats = f->stats;
	for (unsigned int i = 0; i < f->held_count; i++)
		free(f->held[i].bytes);
	close(f->fd[0]);
	close(f->fd[1]);
	model_destroy(f->model);
	free(f);
}

uint16_t
fake_switch_port(const struct fake_switch *f, bool extended)
{
	return f->port[extended];
}

void
fake_switch_mute(struct fake_switch *f, bool mute)
{
	__atomic_store_n(&f->mute, mute, __ATOMIC_RELAXED);
}
