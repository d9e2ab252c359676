/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/handle.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BUFFER_LEAST (256 * 1024) /* bytes: small windows get duplicates and replies too */

bool
weir_socket_soft_error(int error)
{
	switch (error) {
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case EADDRNOTAVAIL:
	case EINVAL: /* some kernels' word for an own address that is gone; others': ENETUNREACH */
	case EPERM: /* a firewall's verdict */ return true;
	default: return false;
	}
}

/* Ask for a buffer, beyond the system's limit if we may; what was granted. */
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

int
weir_socket_open(struct weir_handle *h)
{
	const int on = 1, discover = IP_PMTUDISC_DO;
	socklen_t size = sizeof(h->own);

	h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (h->wake_fd < 0)
		return weir_error_set(h, -errno, "eventfd: %s", strerror(errno));
	h->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (h->fd < 0)
		return weir_error_set(h, -errno, "socket: %s", strerror(errno));
	/*
	 * IP_RECVERR: an unconnected socket hears of ICMP errors only so. They end nothing, but
	 * an error text that says "connection refused" saves its reader an hour.
	 */
	if (setsockopt(h->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)) < 0 ||
		setsockopt(h->fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)) < 0)
		return weir_error_set(h, -errno, "setsockopt: %s", strerror(errno));
	if (bind(h->fd, (const struct sockaddr *)&h->own, sizeof(h->own)) < 0)
		return weir_error_set(h, -errno,
			"cannot bind the own address: %s; is `address` one of this host's "
			"interfaces?",
			strerror(errno));
	/* The port, too: joins prove where they come from. */
	if (getsockname(h->fd, (struct sockaddr *)&h->own, &size) < 0)
		return weir_error_set(h, -errno, "getsockname: %s", strerror(errno));
	(void)receive_buffer(h->fd, BUFFER_LEAST);
	return 0;
}

int
weir_socket_join_group(struct weir_handle *h)
{
	const int on = 1, off = 0;
	struct ip_mreq group = {.imr_multiaddr = h->group, .imr_interface = h->own.sin_addr};
	struct sockaddr_in to = h->base_form ? h->switch_base : h->switch_ext;

	to.sin_addr = h->group;
	h->group_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (h->group_fd < 0 ||
		setsockopt(h->group_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		setsockopt(h->group_fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) < 0 ||
		bind(h->group_fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
		setsockopt(h->group_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		return weir_error_set(h, -errno,
			"cannot join the multicast group of the job's results: %s",
			strerror(errno));
	return 0;
}

uint32_t
weir_socket_size(struct weir_handle *h, size_t datagram)
{
	/*
	 * The kernel counts whole pages and its packet structures against the buffer: about
	 * twice the datagram and a kilobyte. A window of results may arrive at once.
	 */
	uint64_t each = 2 * (uint64_t)datagram + 1024, granted, room;
	uint32_t window = h->window_job;
	uint64_t wanted = window * each > BUFFER_LEAST ? window * each : BUFFER_LEAST;

	granted = receive_buffer(h->fd, wanted);
	if (h->group_fd >= 0)
		granted = receive_buffer(h->group_fd, wanted);
	(void)set_buffer(h->fd, SO_SNDBUFFORCE, SO_SNDBUF, wanted);
	room = granted / each;
	while (window > 1 && (window > room || (h->window_limit && window > h->window_limit)))
		window /= 2;
	WEIR_SET(h, window, window);
	WEIR_SET(h, window_job, h->window_job);
	WEIR_SET(h, receive_buffer, granted);
	return window;
}

void
weir_socket_close(struct weir_handle *h)
{
	if (h->fd >= 0)
		close(h->fd);
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	if (h->group_fd >= 0)
		close(h->group_fd);
}

void
weir_sleep(struct pollfd *polls, nfds_t count, uint64_t due)
{
	struct timespec wait, *timeout = NULL;

	if (due != UINT64_MAX) {
		uint64_t now = weir_now();

		due = due > now ? due - now : 0;
		wait.tv_sec = (time_t)(due / 1000000000);
		wait.tv_nsec = (long)(due % 1000000000);
		timeout = &wait;
	}
	if (ppoll(polls, count, timeout, NULL) < 0)
		for (nfds_t i = 0; i < count; i++)
			polls[i].revents = 0;
}

void
weir_socket_drain_errors(struct weir_handle *h)
{
	char control[512];
	struct msghdr message;

	for (int i = 0; i < WEIR_BATCH; i++) {
		struct cmsghdr *c;

		memset(&message, 0, sizeof(message));
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		if (recvmsg(h->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		for (c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
			struct sock_extended_err error;

			if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR)
				continue;
			memcpy(&error, CMSG_DATA(c), sizeof(error));
			WEIR_COUNT(h, send_errors, 1);
			if (weir_socket_soft_error((int)error.ee_errno))
				h->network_error = (int)error.ee_errno;
		}
	}
}
