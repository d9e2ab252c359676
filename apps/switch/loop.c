/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What the loop waits for. */
struct loop {
	const struct loop_handlers *handlers;
	struct api_server *server;
	int epoll, signals, timer;
	bool stop;
};

sigset_t
loop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	return set;
}

static int
watch(const struct loop *loop, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int
open_loop(struct loop *loop)
{
	static const struct itimerspec second = {{1, 0}, {1, 0}};
	sigset_t set = loop_signals();
	int rc;

	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop->epoll < 0 || loop->signals < 0 || loop->timer < 0 ||
		timerfd_settime(loop->timer, 0, &second, NULL) < 0)
		return -errno;
	rc = watch(loop, loop->signals);
	if (rc == 0)
		rc = watch(loop, loop->timer);
	if (rc == 0 && loop->server != NULL)
		rc = watch(loop, api_server_fd(loop->server));
	return rc;
}

static void
close_loop(struct loop *loop)
{
	const int fds[] = {loop->epoll, loop->signals, loop->timer};

	for (unsigned int i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void
take_signal(struct loop *loop, const struct signalfd_siginfo *info)
{
	const struct loop_handlers *handlers = loop->handlers;
	struct ctrl_log_who who = ctrl_log_who_process(info->ssi_uid, (pid_t)info->ssi_pid);

	if (info->ssi_signo == SIGUSR1) {
		handlers->report(handlers->context);
	} else if (info->ssi_signo == SIGHUP) {
		handlers->reload(handlers->context, &who);
	} else if (!loop->stop) {
		loop->stop = true;
		handlers->stop(
			handlers->context, &who, info->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
	}
}

static void
take_signals(struct loop *loop)
{
	struct signalfd_siginfo info;

	while (read(loop->signals, &info, sizeof(info)) == sizeof(info)) {
		take_signal(loop, &info);
	}
}

static void
take_tick(struct loop *loop)
{
	uint64_t missed; /* several missed ticks count as one */

	if (read(loop->timer, &missed, sizeof(missed)) != sizeof(missed))
		return;
	loop->handlers->tick(loop->handlers->context);
	if (loop->server != NULL)
		api_server_tick(loop->server);
}

/* One round. Signals come first, so that a busy switch stops at once. */
static int
turn(struct loop *loop)
{
	struct epoll_event event[3];
	int wait = loop->server == NULL ? -1 : api_server_timeout(loop->server);
	int n = epoll_wait(loop->epoll, event, 3, wait);

	/* EINTR: drivers use signals too (net_tap: real-time ones). */
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	take_signals(loop);
	for (int i = 0; i < n; i++)
		if (event[i].data.fd == loop->timer)
			take_tick(loop);
	if (loop->server != NULL)
		api_server_run(loop->server);
	loop->handlers->settle(loop->handlers->context);
	return 0;
}

int
loop_run(const struct loop_handlers *handlers, struct api_server *server)
{
	struct loop loop = {handlers, server, -1, -1, -1, false};
	int rc = open_loop(&loop);

	while (rc == 0 && !loop.stop)
		rc = turn(&loop);
	close_loop(&loop);
	return rc;
}
