/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of the server, its connections and requests. */
#ifndef CTRL_API_SERVER_PRIV_H
#define CTRL_API_SERVER_PRIV_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include <microhttpd.h>

#include "ctrl/api/call.h"
#include "ctrl/api/server.h"
#include "ctrl/api/turns.h"

#define API_BODY_BYTES  65536
#define API_CONNECTIONS 256
#define API_CLOSING     16 /* further ones, closed by the switch and not yet by libmicrohttpd */
#define API_PER_ADDRESS 128 /* above API_BACKLOG: a burst does not close its own */
#define API_BACKLOG     64
#define API_SHARE       64 /* of a tenant; those beyond are closed first */
#define API_TOKEN_S     0.5 /* time for a new connection to send a token */
#define API_SLICE_S     0.010 /* for requests, before the loop serves signals and timers */
#define API_TURN_S      0.002 /* for a caller's request, before the next caller's turn */
#define API_PATIENCE_S  5 /* that a request may wait for its caller's budget */
#define API_HEAD_BYTES  16384 /* of a connection, for heads of requests and answers */
#define API_IDLE_S      15
#define API_REQUEST_S   30
#define API_HEAD_S      5
#define API_REFUSED_S   1 /* for the body of a request that is already refused */
#define API_FORMER_MAX  4 /* former certificates that connections may still have */
/* Bytes that are read of a body that is too large, so that the client reads the answer. */
#define API_DISCARD_BYTES (1u << 20)

/* A socket that listens. */
struct api_socket {
	int fd;
	int lock; /* of a Unix socket: held on PATH.lock */
	struct stat file; /* of a Unix socket: identifies its file */
};

/* Write a line to `error` and return rc. */
int api_fail(char *error, size_t size, int rc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Listen, without blocking. A Unix socket has mode 0660 and this group ("": the process's). Its
 * folder is made with 0755 if it is missing; a folder that all users may write to is refused. A
 * socket that no process listens on is replaced. PATH.lock is held until api_unlisten. 0, or -errno
 * with a line that says what to do in `error` (-EADDRINUSE: another process listens there); then no
 * file is left.
 */
int api_listen(const struct ctrl_listener *listener, const char *group, struct api_socket *s,
	char *error, size_t size);

/* Remove a Unix socket's file, if it is still this switch's, and its lock. The descriptor stays
 * open. */
void api_unlisten(const struct ctrl_listener *listener, struct api_socket *s);

/* Certificate and key, PEM; NULL: no TLS. libmicrohttpd reads them when a daemon starts. */
struct api_pem {
	char *certificate, *key;
};

struct api_listener {
	struct api_server *server;
	const struct ctrl_listener *config;
	struct api_socket socket;
	/* [0] accepts connections; the others serve those with a former certificate. */
	struct MHD_Daemon *daemon[1 + API_FORMER_MAX];
	struct MHD_Daemon *staged; /* with a new certificate, not in use yet */
	int staged_fd; /* a duplicate of the socket */
	bool tls;
};

/* One connection; in libmicrohttpd's socket context. */
struct api_connection {
	TAILQ_ENTRY(api_connection) next;
	struct api_listener *listener;
	int fd;
	uint64_t network; /* the peer's IPv4 address, or the /64 of its IPv6 address */
	double began;
	const struct ctrl_tenant *tenant; /* of the last token, in running->config; or NULL */
	bool has_rank_token;
	bool is_anonymous; /* the head of a request came without a token */
	bool has_former_certificate; /* it is closed after the next answer */
	bool is_serving; /* between the head of a request and the end of its answer */
	bool has_answered; /* at least one request has been answered */
	struct api_request *suspended; /* the request that is queued or waits; or NULL */
	bool is_closing; /* it is shut down, and libmicrohttpd has not noticed */
	double deadline; /* CLOCK_MONOTONIC, s: when it is closed; INFINITY: its request waits */
	struct api_caller caller; /* without its token */
};

/* One request; libmicrohttpd's connection context. While it is queued or waits, its connection is
 * suspended. */
struct api_request {
	TAILQ_ENTRY(api_request) next; /* while it waits */
	struct api_turn turn;
	struct MHD_Connection *connection;
	struct api_connection *peer; /* NULL until api_request_serve has been called for it */
	const struct api_route *route; /* NULL: not admitted yet, or refused */
	uint32_t reloads; /* of the configuration that admitted it */
	bool is_target_valid;
	bool is_waiting; /* its handler called api_wait */
	bool is_answered; /* by its handler */
	double wait_ends; /* CLOCK_MONOTONIC, s */
	char *text; /* the body so far, API_BODY_BYTES */
	size_t length; /* of the body so far; above API_BODY_BYTES: `text` is freed */
	struct api_caller caller;
	struct api_target target;
	struct api_call call;
};

struct api_server {
	struct ctrl_running *running;
	int epoll;
	unsigned int nb_listeners;
	struct api_listener listener[CTRL_LISTENERS_MAX];
	struct api_pem pem;
	struct api_pem staged; /* of listeners' staged daemons */
	struct api_limits limits;
	char reason[256]; /* libmicrohttpd's last message */
	bool is_stopping; /* requests are no longer queued */
	TAILQ_HEAD(, api_connection) connections;
	TAILQ_HEAD(, api_request) waiting;
	struct api_turns turns;
};

/* Callbacks of libmicrohttpd; cls: the listener. ctrl/api/request.c */
void *api_request_begin(void *cls, const char *uri, struct MHD_Connection *connection);
enum MHD_Result api_request_serve(void *cls, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **context);
void api_request_end(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode why);

/* Serve requests in turn, for API_SLICE_S plus at most one step of a handler. Returns whether any
 * was answered. */
bool api_requests_serve(struct api_server *server);

/* Refuse requests that have waited too long for their callers' budgets. */
void api_requests_refuse_late(struct api_server *server);

/* Answer a suspended request with 503, unless it has an answer. It is not served again. */
void api_request_abandon(struct api_request *request);

/* A client connects. When its network or the listener has too many connections, the one with the
 * lowest standing is closed. MHD_NO: all others are administrators'. ctrl/api/admission.c */
enum MHD_Result api_accept(void *cls, const struct sockaddr *address, socklen_t length);

/* A connection begins, or has ended. */
void api_notify(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code);

/* At a reload, assign each connection to the tenant that has its token now. The former tenants
 * still exist. */
void api_update_tenants(struct api_server *server, const struct ctrl_api *api);

/* Close a connection, whatever its state. libmicrohttpd finds it closed later. */
void api_close(struct api_connection *c);

/* The server's part of a connection, or NULL. */
struct api_connection *api_connection_of(struct MHD_Connection *connection);

#endif
