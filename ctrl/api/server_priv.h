/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of the server, its connections and requests. */
#ifndef CTRL_API_SERVER_PRIV_H
#define CTRL_API_SERVER_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include <microhttpd.h>

#include "ctrl/api/call.h"
#include "ctrl/api/server.h"

#define API_CHAIN_MAX   16 /* certificates */
#define API_THREADS     4 /* of all TCP listeners, each; of a Unix socket: half of them */
#define API_NICE        10 /* of their threads: the control thread goes first */
#define API_BODY_BYTES  65536
#define API_CONNECTIONS 256
#define API_CLOSING     16 /* further ones, closed by the switch and not yet by libmicrohttpd */
#define API_PER_ADDRESS 128 /* above API_BACKLOG: a burst does not close its own */
#define API_BACKLOG     64
#define API_SHARE       64 /* of a tenant; those beyond are closed first */
#define API_CHANGES     64 /* that wait of a caller, if it is no administrator */
#define API_TOKEN_S     0.5 /* time for a new connection to send a token */
#define API_SLICE_S     0.010 /* for changes, before the loop serves signals and timers */
#define API_PATIENCE_S  5 /* that a change waits for the control thread */
#define API_HEAD_BYTES  16384 /* of a connection, for heads of requests and answers */
#define API_ANSWERS     (256u << 20) /* bytes of answers that TCP clients have not read yet */
#define API_IDLE_S      15
#define API_REQUEST_S   30
#define API_HEAD_S      5
#define API_REFUSED_S   1 /* for the body of a request that is already refused */
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

/* Certificate and key, PEM; NULL: no TLS. */
struct api_pem {
	char *certificate, *key;
};

struct api_listener {
	struct api_server *server;
	struct ctrl_listener config;
	struct api_socket socket;
	struct MHD_Daemon *daemon;
	bool tls;
};

/* One connection; in libmicrohttpd's socket context. Guarded by the server's lock, but for what its
 * own thread alone uses. */
struct api_connection {
	TAILQ_ENTRY(api_connection) next;
	struct api_listener *listener;
	int fd;
	uint64_t network; /* the peer's IPv4 address, or the /64 of its IPv6 address */
	double began;
	bool has_token; /* of a tenant, ... */
	uint8_t token_sha256[CTRL_HASH_BYTES]; /* ... the last one */
	bool has_rank_token;
	bool is_anonymous; /* a request came without a token */
	bool is_serving; /* between the head of a request and the end of its answer */
	bool has_answered; /* at least one request has been answered */
	bool is_closing; /* it is shut down, and libmicrohttpd has not noticed */
	double deadline; /* CLOCK_MONOTONIC, s: when it is closed; INFINITY: its change is made */
	struct api_caller caller; /* without its token */
};

/* One request; libmicrohttpd's connection context. */
struct api_request {
	struct api_request *next; /* in a list of the control thread, or of answered changes */
	TAILQ_ENTRY(api_request) waiting; /* in the server's list, while suspended */
	struct MHD_Connection *connection;
	struct api_connection *peer; /* NULL until api_request_serve has been called for it */
	struct api_server *server;
	bool is_target_valid;
	bool is_charged; /* its change was taken from the limits */
	bool is_made; /* the control thread has answered it */
	double queued_at; /* CLOCK_MONOTONIC, s */
	double again_at; /* when the handler of one that waits is called again */
	size_t answer_bytes; /* counted in the server's sum */
	char *text; /* the body so far, API_BODY_BYTES */
	size_t length; /* of the body so far; above API_BODY_BYTES: `text` is freed */
	char owner[CTRL_NAME_BYTES]; /* the tenant that pays for it, or "" */
	struct api_caller caller;
	struct api_target target;
	struct api_call call;
};

struct api_server {
	struct ctrl_running *running; /* the control thread's */
	struct ctrl_snapshots *snapshots;
	unsigned int nb_listeners;
	struct api_listener listener[CTRL_LISTENERS_MAX];
	bool is_starting;
	char reason[256]; /* libmicrohttpd's last message, while it starts */
	struct api_pem staged;
	int epoll; /* readable when the control thread has something to do */
	int wait_ms; /* until it has, as api_changes_make says */

	/* Changes: lists that grow by compare and swap: the control thread takes no lock. */
	struct api_request *asked; /* for the control thread, newest first */
	int asked_event;
	struct api_request *made; /* for the keeper, newest first */
	int made_event; /* also: stop */
	struct api_request *queue; /* the control thread's own, in order */

	pthread_t keeper; /* resumes answered changes, and closes late connections */
	bool has_keeper, ends; /* atomic: the keeper's thread is to end */

	pthread_mutex_t lock; /* guards the fields below; the control thread never takes it */
	struct api_limits limits;
	uint32_t limits_of; /* ctrl_snapshot.reloads + 1 that they were set for; 0: none */
	TAILQ_HEAD(, api_connection) connections;
	TAILQ_HEAD(, api_request) waiting;
	size_t answer_bytes;
	bool is_stopping; /* changes are no longer taken */
};

/* Callbacks of libmicrohttpd; cls: the listener. ctrl/api/request.c */
void *api_request_begin(void *cls, const char *uri, struct MHD_Connection *connection);
enum MHD_Result api_request_serve(void *cls, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **context);
void api_request_end(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode why);

/* Check the caller's rights on the control thread, by the present configuration, and call the
 * handler of a change. */
void api_request_make(struct api_request *request, struct ctrl_running *running);

/* Answer that the switch is busy. */
void api_request_refuse(struct api_request *request);

/* A thread of libmicrohttpd begins a connection. */
void api_thread_begin(const struct api_listener *listener);

/* -- changes: ctrl/api/changes.c */

/* Make an eventfd readable. */
void api_wake(int event);

/* A thread of libmicrohttpd: suspend a request and give it to the control thread. 0; -EBUSY: its
 * caller has too many that wait; -ESHUTDOWN: the server stops. */
int api_change_ask(struct api_request *request);

/* The keeper's thread: resume what is answered. */
void api_changes_resume(struct api_server *server, double now);

/* The control thread: call the handlers, for API_SLICE_S plus one handler. Returns milliseconds
 * until there is something to do; -1: not before asked_event is readable. */
int api_changes_make(struct api_server *server);

/* The control thread: answer all with 503. */
void api_changes_refuse(struct api_server *server);

/* -- connections. ctrl/api/admission.c */

/* A client connects. When its network or the listener has too many connections, the one with the
 * lowest standing is closed. MHD_NO: all others are administrators'. */
enum MHD_Result api_accept(void *cls, const struct sockaddr *address, socklen_t length);

/* A connection begins, or has ended. */
void api_notify(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code);

/* Close the connections that take too long. */
void api_close_late(struct api_server *server, double now);

/* The server's part of a connection, or NULL. */
struct api_connection *api_connection_of(struct MHD_Connection *connection);

#endif
