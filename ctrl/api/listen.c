/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/listen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#define BACKLOG 64

static int complain(char *error, size_t size, int rc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int
complain(char *error, size_t size, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, size, format, args);
	va_end(args);
	return rc;
}

static int
open_socket(const struct ctrl_listener *listener)
{
	int fd = socket(
		listener->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

/* Does somebody listen on this path? A full backlog is somebody, too. */
static bool
is_served(const struct ctrl_listener *listener)
{
	int fd = open_socket(listener);
	bool served = fd >= 0 &&
		(connect(fd, &listener->address.any, listener->length) == 0 || errno == EAGAIN);

	if (fd >= 0)
		close(fd);
	return served;
}

/* Make room at the path: its folder, and nothing there but perhaps a socket that nobody serves. */
static int
clear_path(const struct ctrl_listener *listener, char *error, size_t size)
{
	const char *path = listener->address.un.sun_path;
	char folder[sizeof(listener->address.un.sun_path)];
	struct stat found;

	strlcpy(folder, path, sizeof(folder));
	*strrchr(folder, '/') = '\0';
	if (folder[0] != '\0' && mkdir(folder, 0755) == 0)
		chmod(folder, 0755); /* whatever the umask is */
	if (lstat(path, &found) < 0)
		return 0; /* nothing there; or bind will tell */
	if (!S_ISSOCK(found.st_mode))
		return complain(error, size, -EEXIST,
			"%s exists and is no socket: remove it, or choose another path", path);
	if (is_served(listener))
		return complain(error, size, -EADDRINUSE,
			"somebody listens on %s already: is another switch running?", path);
	if (unlink(path) < 0)
		return complain(error, size, -errno, "%s is stale and can't be removed: %s", path,
			strerror(errno));
	return 0;
}

/* The new file is nobody else's to connect to before it has its mode: umask has no part in it. */
static int
bind_unix(const struct ctrl_listener *listener, struct api_socket *s, char *error, size_t size)
{
	const char *path = listener->address.un.sun_path;
	int rc = clear_path(listener, error, size);

	if (rc < 0)
		return rc;
	if (fchmod(s->fd, 0600) < 0 || bind(s->fd, &listener->address.any, listener->length) < 0 ||
		chmod(path, 0660) < 0 || lstat(path, &s->file) < 0)
		return complain(error, size, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int
bind_tcp(const struct ctrl_listener *listener, const struct api_socket *s, char *error, size_t size)
{
	static const int yes = 1;

	setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listener->address.any.sa_family == AF_INET6)
		setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (bind(s->fd, &listener->address.any, listener->length) == 0)
		return 0;
	return complain(error, size, -errno, "%s: %s%s", listener->text, strerror(errno),
		errno == EADDRINUSE              ? ": choose another port"
			: errno == EADDRNOTAVAIL ? ": no interface here has this address"
						 : "");
}

int
api_listen(const struct ctrl_listener *listener, struct api_socket *s, char *error, size_t size)
{
	int rc;

	s->fd = open_socket(listener);
	if (s->fd < 0)
		return complain(error, size, s->fd, "%s: %s", listener->text, strerror(-s->fd));
	if (listener->address.any.sa_family == AF_UNIX)
		rc = bind_unix(listener, s, error, size);
	else
		rc = bind_tcp(listener, s, error, size);
	if (rc == 0 && listen(s->fd, BACKLOG) < 0)
		rc = complain(error, size, -errno, "%s: %s", listener->text, strerror(errno));
	if (rc < 0) {
		close(s->fd);
		s->fd = -1;
	}
	return rc;
}

void
api_unlisten(const struct ctrl_listener *listener, const struct api_socket *s)
{
	const char *path = listener->address.un.sun_path;
	struct stat now;

	if (listener->address.any.sa_family != AF_UNIX || lstat(path, &now) < 0)
		return;
	if (now.st_ino == s->file.st_ino && now.st_dev == s->file.st_dev)
		unlink(path);
}
