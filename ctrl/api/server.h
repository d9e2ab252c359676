/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control API's HTTP server, for an event loop that belongs to somebody else.
 *
 * It makes no threads and never waits: sockets don't block, and a client that is slow, or sends
 * nothing, holds a connection and nothing else. Each listener has 64 connections, 16 per network (an
 * IPv4 address, or the /64 of an IPv6 one) and 8 of those without a token, so what comes over TCP
 * takes no place of the Unix socket's. When they are all taken, who comes gets the place of one: of
 * those without a token first (on the Unix socket: of users that are no administrators), then of a
 * tenant with more than 16, of other tenants, of administrators; there of the network, user or tenant
 * that has the most, and of these the oldest, a tenant's rather while it does nothing. A connection
 * that is idle for 15 s, takes 5 s over the head of a request, 30 s over all of it, or 1 s over the
 * body of one that is refused, is
 * closed. Heads of requests have at most some 12 KiB, bodies 64 KiB.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_API_SERVER_H
#define CTRL_API_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "ctrl/jobs/running.h"

struct api_server;

/*
 * Open every listener of running->config->api; the exception interface is up. 0, or -errno with
 * the reason in `error` (a line), and nothing is left. No listeners: 0, and a server that does
 * nothing. `running` outlives the server.
 */
int api_server_create(
	struct ctrl_running *running, struct api_server **server, char *error, size_t error_size);

/*
 * A reload: read the certificate of `next`, and if it is another one, get ready to show it. 0; or
 * -errno with the reason in `error`, and everything is as before. Then one of:
 */
int api_server_stage(
	struct api_server *server, const struct ctrl_config *next, char *error, size_t error_size);

/*
 * `next` is in force, and running->config; the former may go. Its listeners are the same.
 * With another certificate, connections of the former one that do nothing are closed, and others
 * with their next answer. True: it is another one.
 */
bool api_server_commit(struct api_server *server, const struct ctrl_config *next);

/* It is not. */
void api_server_unstage(struct api_server *server);

/* Close all connections and remove the Unix sockets. server: NULL is fine. */
void api_server_destroy(struct api_server *server);

/* Readable when api_server_run has something to do. It stays the same. */
int api_server_fd(const struct api_server *server);

/* In how many ms api_server_run is wanted, even if nothing becomes readable; -1: never. */
int api_server_timeout(const struct api_server *server);

/* Do all there is to do, without waiting. Cost: per request that is complete, its handler. */
void api_server_run(struct api_server *server);

/* Once a second: close what takes too long. */
void api_server_tick(struct api_server *server);

#endif
