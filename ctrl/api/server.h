/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control API's HTTP server.
 *
 * Requests are served by threads of libmicrohttpd: a pool for each TCP listener, and threads of its
 * own for each Unix socket, so that clients over TCP take nothing from administrators. These
 * threads answer readers from snapshots of the switch (ctrl/stats/snapshot.h). A change is a
 * message to the control thread, which makes it, and answers; its connection is suspended
 * meanwhile. So a client costs the control thread its changes, which are limited (ctrl/api/auth.h),
 * and a part of a snapshot, whatever it does. The control thread takes no lock of these threads but
 * those of the log and of malloc, which are held for a line, or a moment.
 *
 * Each listener has 256 connections. A network (an IPv4 address, or the /64 of an IPv6 one) has at
 * most 128 of them. When all are in use, a new connection replaces another one of its network, or
 * of the listener: first one that has sent no token (on the Unix socket: of a user who is no
 * administrator), then one of a tenant with more than 64, then one of other tenants, then one of
 * administrators. Of these, the network, user or tenant with the most connections loses its oldest
 * one; an idle one of a tenant goes first.
 *
 * A connection is closed after 15 s without a request, 5 s within the head of a request, 30 s
 * within a request, or 1 s within the body of a refused one. Heads of requests have at most some 12
 * KiB, bodies 64 KiB.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_API_SERVER_H
#define CTRL_API_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "ctrl/jobs/running.h"
#include "ctrl/stats/snapshot.h"

struct api_server;

/*
 * Open every listener of running->config->api, after the exception interface is up. Without
 * listeners, the server does nothing. 0, or -errno with a line in `error`, and nothing is left
 * open. `running` must outlive the server.
 */
int api_server_create(
	struct ctrl_running *running, struct api_server **server, char *error, size_t error_size);

/* A reload, first step: read the certificate of `next`. 0, and commit or unstage follows; or -errno
 * with the reason in `error`, and nothing has changed. */
int api_server_stage(
	struct api_server *server, const struct ctrl_config *next, char *error, size_t error_size);

/*
 * Use `next`, which is running->config now. Its listeners are the same. A new certificate is used
 * from the next handshake on; connections go on with the former one. Returns whether the
 * certificate is new.
 */
bool api_server_commit(struct api_server *server);

/* Undo api_server_stage. Returns whether the certificate was new. */
bool api_server_unstage(struct api_server *server);

/* May a request still use this configuration? Free it when none may. */
bool api_server_uses(const struct api_server *server, const struct ctrl_config *config);

/* Close all connections and remove the Unix sockets. server: NULL is fine. */
void api_server_destroy(struct api_server *server);

/* Each second: the last snapshot is a young one. */
void api_server_tick(struct api_server *server);

/* A descriptor that is readable when api_server_run has something to do. It never changes. */
int api_server_fd(const struct api_server *server);

/* Milliseconds until api_server_run may have something to do even if nothing becomes readable; -1:
 * never. */
int api_server_timeout(const struct api_server *server);

/* Make changes and a snapshot, if clients have asked for them. Cost: 10 ms, one handler, and a
 * snapshot. */
void api_server_run(struct api_server *server);

#endif
