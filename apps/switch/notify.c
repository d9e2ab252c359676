/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol is documented and stable, so libsystemd is not needed. */
#include "apps/switch/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctrl/jobs/running.h"
#include "ctrl/log.h"

#define TICK_US UINT64_C(1000000)

static struct {
	int fd;
	struct sockaddr_un address;
	socklen_t length;
	uint64_t every_us; /* 0: no watchdog */
	uint64_t told_us; /* when the last WATCHDOG=1 was sent */
	bool stopping;
} manager = {.fd = -1};

static uint64_t
monotonic_us(void)
{
	return (uint64_t)(ctrl_monotonic() * 1e6);
}

static void
open_socket(const char *path)
{
	size_t length = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || length >= sizeof(manager.address.sun_path)) {
		ctrl_log(CTRL_LOG_SWITCH, RTE_LOG_WARNING, "NOTIFY_SOCKET is not a socket path",
			"path=%s", ctrl_log_quote(path).text);
		return;
	}
	manager.address.sun_family = AF_UNIX;
	memcpy(manager.address.sun_path, path, length);
	if (path[0] == '@')
		manager.address.sun_path[0] = '\0';
	manager.length =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] == '/'));
	manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* WATCHDOG_PID, if set, names the process that the watchdog is for. */
static uint64_t
watchdog_us(void)
{
	const char *time = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (time == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	return strtoull(time, NULL, 10);
}

void
notify_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");

	if (path != NULL) {
		open_socket(path);
		manager.every_us = watchdog_us() / 2;
		manager.told_us = monotonic_us();
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static void
tell(const char *text)
{
	if (manager.fd < 0)
		return;
	if (sendto(manager.fd, text, strlen(text), MSG_NOSIGNAL,
		    (const struct sockaddr *)&manager.address, manager.length) < 0)
		ctrl_log_limited(CTRL_LOG_SITE, CTRL_LOG_SWITCH, RTE_LOG_WARNING,
			"the service manager cannot be reached", "error=%s",
			ctrl_log_quote(strerror(errno)).text);
}

void
notify_ready(void)
{
	tell("READY=1");
}

void
notify_reloading(void)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, monotonic_us());
	tell(text);
}

void
notify_status(const char *format, ...)
{
	char text[256] = "STATUS=";
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
	text[strcspn(text, "\n")] = '\0';
	tell(text);
}

void
notify_stopping(const char *why)
{
	char text[256];

	manager.stopping = true;
	snprintf(text, sizeof(text), "STOPPING=1\nSTATUS=stopping: %s", why);
	tell(text);
}

/* Rather half a tick early than half a tick late. */
void
notify_tick(bool workers_alive)
{
	uint64_t now = monotonic_us();

	if (manager.stopping || manager.every_us == 0 || !workers_alive ||
		now + TICK_US / 2 < manager.told_us + manager.every_us)
		return;
	manager.told_us = now;
	tell("WATCHDOG=1");
}
