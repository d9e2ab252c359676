/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of the server, its connections and requests. */
#ifndef CTRL_API_SERVER_PRIV_H
#define CTRL_API_SERVER_PRIV_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include <microhttpd.h>

#include "ctrl/api/call.h"
#include "ctrl/api/limit.h"
#include "ctrl/api/server.h"

#define API_BODY_BYTES    65536
#define API_CONNECTIONS   64
#define API_CLOSING       16 /* more, that are closed and not gone yet */
#define API_PER_ADDRESS   16
#define API_SHARE         16 /* of a tenant; those beyond make room first */
#define API_NO_TOKEN      8 /* of an address, without a token after API_TOKEN_S */
#define API_TOKEN_S       0.5 /* time for a new connection to send a token */
#define API_HEAD_BYTES    16384 /* of a connection, for heads of requests and answers */
#define API_IDLE_S        15
#define API_REQUEST_S     30
#define API_HEAD_S        5
#define API_REFUSED_S     1 /* for the body of a request that is refused whatever it says */
#define API_RETIRED       4 /* former certificates that connections may still have */
#define API_DISCARD_BYTES (1u << 20) /* of a body too large, read so that the client hears of it */

/* A socket that listens. */
struct api_socket {
	int fd;
	int lock; /* of a Unix socket: held on PATH.lock */
	struct stat file; /* of a Unix socket: which one it is */
};

/*
 * Listen, without blocking. A Unix socket has mode 0660 and this group ("": the process's), in a
 * folder that is made with 0755 when it is missing, and that not everybody may write to; one that
 * no process listens on any more is replaced. While it is there, PATH.lock is held. 0, or -errno with a
 * line that says what to do in `error` (-EADDRINUSE: another process listens there); then no file is left.
 */
int api_listen(const struct ctrl_listener *listener, const char *group, struct api_socket *s,
	char *error, size_t size);

/* Remove a Unix socket's file, if it is still ours, and its lock. The descriptor is its owner's. */
void api_unlisten(const struct ctrl_listener *listener, struct api_socket *s);

/* Certificate and key, PEM; NULL: no TLS. libmicrohttpd reads them when a daemon starts. */
struct api_pem {
	char *certificate, *key;
};

struct api_listener {
	struct api_server *server;
	const struct ctrl_listener *config;
	struct api_socket socket;
	struct MHD_Daemon *daemon;
	struct MHD_Daemon *staged; /* with another certificate, not in use yet */
	struct MHD_Daemon *retired[API_RETIRED]; /* with a former one: ends its connections */
	int staged_fd; /* the socket, once more */
	bool tls;
};

/* What a connection's peer has shown; when a listener is full, the lowest make room. */
enum api_rank {
	API_RANK_UNAUTHENTICATED,
	API_RANK_TENANT,
	API_RANK_ADMIN, /* an administrator's token; root or the switch's user on the Unix socket */
};

/* One connection; in libmicrohttpd's socket context. */
struct api_connection {
	TAILQ_ENTRY(api_connection) next;
	struct api_listener *listener;
	int fd;
	uint64_t network; /* where it comes from: an IPv4 address, or the /64 of an IPv6 one */
	double began;
	enum api_rank rank;
	enum api_rank own_rank; /* without a token */
	const struct ctrl_tenant *tenant; /* of the last token, in running->config; or NULL */
	bool retired; /* it has a former certificate: it ends with the next answer */
	bool serving; /* between the head of a request and the end of its answer */
	bool served; /* a request of it has had its answer */
	bool closing; /* it is shut down, and libmicrohttpd has not found out */
	double deadline; /* CLOCK_MONOTONIC, s: closed then, unless a request waits */
	bool waiting; /* a request of it is in server->waiting */
	struct api_caller caller; /* without its token */
};

/* One request; libmicrohttpd's connection context. */
struct api_request {
	TAILQ_ENTRY(api_request) next; /* while it waits */
	struct MHD_Connection *connection;
	struct api_connection *peer;
	const struct api_route *route; /* NULL: none yet, or the answer is an error already */
	bool begun; /* libmicrohttpd has called for it before */
	uint32_t reloads; /* of the configuration that admitted it */
	bool parsed; /* the target is sound */
	bool waiting;
	double due; /* when it waits no longer */
	char *text; /* the body so far, API_BODY_BYTES */
	size_t length; /* of it; more than API_BODY_BYTES: too large, and what was there is gone */
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
	char reason[256]; /* libmicrohttpd's last complaint */
	TAILQ_HEAD(, api_connection) connections;
	TAILQ_HEAD(, api_request) waiting;
};

/* Callbacks of libmicrohttpd; cls: the listener. ctrl/api/request.c */
void *api_request_begin(void *cls, const char *uri, struct MHD_Connection *connection);
enum MHD_Result api_request_serve(void *cls, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **context);
void api_request_end(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode why);

/*
 * May this one connect? Who has shown no right to be here is kept out first: by its number, and when
 * the listener is full one of those gives its place. ctrl/api/admission.c
 */
enum MHD_Result api_accept(void *cls, const struct sockaddr *address, socklen_t length);

/* A connection begins, or has ended. */
void api_notify(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code);

/* The connection's peer has shown this tenant's token. */
void api_meet_tenant(struct api_connection *c, const struct ctrl_tenant *tenant);

/* A reload: connections are of the tenants that have their tokens now. The former ones are there still. */
void api_meet_again(struct api_server *server, const struct ctrl_api *api);

/* Where a connection comes from, for counting. */
uint64_t api_network(const struct sockaddr *address);

/* End a connection, whatever it does; libmicrohttpd finds it closed. */
void api_close(struct api_connection *c);

/* The connection's own, or NULL. */
struct api_connection *api_connection_of(struct MHD_Connection *connection);

#endif
