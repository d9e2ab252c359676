/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets that the control API listens on. */
#ifndef CTRL_API_LISTEN_H
#define CTRL_API_LISTEN_H

#include <stddef.h>
#include <sys/stat.h>

#include "ctrl/config/config.h"

/* A socket that listens. */
struct api_socket {
	int fd;
	int lock; /* of a Unix socket: held on PATH.lock */
	struct stat file; /* of a Unix socket: which one it is */
};

/*
 * Listen, without blocking. A Unix socket has mode 0660 and this group ("": the process's), in a
 * folder that is made with 0755 when it is missing, and that not everybody may write to; one that
 * nobody listens on any more is replaced. While it is there, PATH.lock is held. 0, or -errno with a
 * line that says what to do in `error` (-EADDRINUSE: somebody listens there); then no file is left.
 */
int api_listen(const struct ctrl_listener *listener, const char *group, struct api_socket *s,
	char *error, size_t size);

/* Remove a Unix socket's file, if it is still ours, and its lock. The descriptor is its owner's. */
void api_unlisten(const struct ctrl_listener *listener, struct api_socket *s);

#endif
