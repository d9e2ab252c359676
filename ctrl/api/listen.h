/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets that the control API listens on. */
#ifndef CTRL_API_LISTEN_H
#define CTRL_API_LISTEN_H

#include <stddef.h>
#include <sys/stat.h>

#include "ctrl/config.h"

/* A socket that listens. */
struct api_socket {
	int fd;
	struct stat file; /* of a Unix socket: which one it is */
};

/*
 * Listen, without blocking. A Unix socket has mode 0660, in a folder that is made with 0755 when
 * it is missing; one that nobody listens on any more is replaced. 0, or -errno with a line that
 * says what to do in `error` (-EADDRINUSE: somebody listens there).
 */
int api_listen(
	const struct ctrl_listener *listener, struct api_socket *s, char *error, size_t size);

/* Remove a Unix socket's file, if it is still ours. The descriptor is closed by its owner. */
void api_unlisten(const struct ctrl_listener *listener, const struct api_socket *s);

#endif
