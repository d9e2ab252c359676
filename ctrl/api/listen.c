/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/server_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/files.h"

int
api_fail(char *error, size_t size, int rc, const char *format, ...)
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

/* Check that no process serves the socket at the path. Only ECONNREFUSED shows that: a socket of
 * another type, a path without permission, or a full backlog may be in use. */
static int
check_stale(const struct ctrl_listener *listener, char *error, size_t size)
{
	const char *path = listener->address.un.sun_path;
	int fd = open_socket(listener), reason = 0;

	if (fd < 0)
		return api_fail(error, size, fd, "%s: %s", path, strerror(-fd));
	if (connect(fd, &listener->address.any, listener->length) < 0)
		reason = errno;
	close(fd);
	if (reason == ECONNREFUSED)
		return 0;
	if (reason == 0 || reason == EAGAIN)
		return api_fail(error, size, -EADDRINUSE,
			"another process listens on %s already: is another switch running?", path);
	return api_fail(error, size, -reason,
		"%s is a socket, and whether it is in use can't be told: %s: remove it, or choose "
		"another path",
		path, strerror(reason));
}

/* Make the path's folder if it is missing. Refuse a folder in which any user may rename files. */
static int
take_folder(const char *path, char *error, size_t size)
{
	char folder[CTRL_FILE_BYTES];
	struct stat found;

	strlcpy(folder, path, sizeof(folder));
	strrchr(folder, '/')[folder[0] == '/' && strrchr(folder, '/') == folder] = '\0';
	if (mkdir(folder, 0755) == 0)
		chmod(folder, 0755); /* regardless of umask */
	if (stat(folder, &found) < 0)
		return api_fail(error, size, -errno, "%s: %s", folder, strerror(errno));
	if ((found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0)
		return api_fail(error, size, -EPERM,
			"all users may write to %s, and could replace the socket: chmod o-w it, or "
			"choose another folder",
			folder);
	return 0;
}

/* Lock the path until the switch ends: of two switches that start at once and find a stale socket,
 * the second would remove the socket of the first. */
static int
lock_path(const char *path, struct api_socket *s, char *error, size_t size)
{
	s->lock = ctrl_lock(path);
	if (s->lock >= 0)
		return 0;
	if (s->lock == -EWOULDBLOCK)
		return api_fail(error, size, -EADDRINUSE,
			"another process listens on %s already: is another switch running?", path);
	return api_fail(error, size, s->lock, "%s.lock: %s", path, strerror(-s->lock));
}

static void
unlock_path(const char *path, struct api_socket *s)
{
	ctrl_unlock(path, s->lock);
	s->lock = -1;
}

/* Remove a stale socket; refuse anything else at the path. */
static int
clear_path(const struct ctrl_listener *listener, char *error, size_t size)
{
	const char *path = listener->address.un.sun_path;
	struct stat found;
	int rc;

	if (lstat(path, &found) < 0)
		return 0; /* nothing there; bind reports other errors */
	if (!S_ISSOCK(found.st_mode))
		return api_fail(error, size, -EEXIST,
			"%s exists and is not a socket: remove it, or choose another path", path);
	rc = check_stale(listener, error, size);
	if (rc == 0 && unlink(path) < 0)
		rc = api_fail(error, size, -errno, "%s is stale and can't be removed: %s", path,
			strerror(errno));
	return rc;
}

/* Set the socket's group and mode. */
static int
open_to_group(const char *path, const char *group, char *error, size_t size)
{
	const struct group *found = NULL;

	if (group[0] != '\0') {
		errno = 0;
		found = getgrnam(group);
		if (found == NULL)
			return api_fail(error, size, -ENOENT,
				"api.socket_group: there is no group \"%s\" here", group);
	}
	if (found != NULL && chown(path, (uid_t)-1, found->gr_gid) < 0)
		return api_fail(error, size, -errno, "%s can't be given to the group %s: %s", path,
			group, strerror(errno));
	if (chmod(path, 0660) < 0)
		return api_fail(error, size, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* The socket's file has mode 0600 until its group and mode are set, whatever the umask. */
static int
bind_unix(const struct ctrl_listener *listener, const char *group, struct api_socket *s,
	char *error, size_t size)
{
	const char *path = listener->address.un.sun_path;
	int rc = take_folder(path, error, size);

	if (rc == 0)
		rc = lock_path(path, s, error, size);
	if (rc < 0)
		return rc;
	rc = clear_path(listener, error, size);
	if (rc == 0 &&
		(fchmod(s->fd, 0600) < 0 ||
			bind(s->fd, &listener->address.any, listener->length) < 0))
		rc = api_fail(error, size, -errno, "%s: %s", path, strerror(errno));
	if (rc < 0) {
		unlock_path(path, s);
		return rc;
	}
	rc = open_to_group(path, group, error, size);
	if (rc == 0 && lstat(path, &s->file) < 0)
		rc = api_fail(error, size, -errno, "%s: %s", path, strerror(errno));
	if (rc == 0 && listen(s->fd, API_BACKLOG) < 0)
		rc = api_fail(error, size, -errno, "%s: %s", listener->text, strerror(errno));
	if (rc < 0) {
		unlink(path);
		unlock_path(path, s);
	}
	return rc;
}

static int
bind_tcp(const struct ctrl_listener *listener, const struct api_socket *s, char *error, size_t size)
{
	static const int yes = 1;

	setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listener->address.any.sa_family == AF_INET6)
		setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (bind(s->fd, &listener->address.any, listener->length) == 0 &&
		listen(s->fd, API_BACKLOG) == 0)
		return 0;
	return api_fail(error, size, -errno, "%s: %s%s", listener->text, strerror(errno),
		errno == EADDRINUSE              ? ": choose another port"
			: errno == EADDRNOTAVAIL ? ": no interface here has this address"
						 : "");
}

int
api_listen(const struct ctrl_listener *listener, const char *group, struct api_socket *s,
	char *error, size_t size)
{
	int rc;

	s->lock = -1;
	s->fd = open_socket(listener);
	if (s->fd < 0)
		return api_fail(error, size, s->fd, "%s: %s", listener->text, strerror(-s->fd));
	if (listener->address.any.sa_family == AF_UNIX)
		rc = bind_unix(listener, group, s, error, size);
	else
		rc = bind_tcp(listener, s, error, size);
	if (rc < 0) {
		close(s->fd);
		s->fd = -1;
	}
	return rc;
}

void
api_unlisten(const struct ctrl_listener *listener, struct api_socket *s)
{
	const char *path = listener->address.un.sun_path;
	struct stat now;

	if (listener->address.any.sa_family != AF_UNIX)
		return;
	if (lstat(path, &now) == 0 && now.st_ino == s->file.st_ino && now.st_dev == s->file.st_dev)
		unlink(path);
	unlock_path(path, s);
}
