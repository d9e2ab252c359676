/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/server.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_common.h>

#include "ctrl/api/server_priv.h"
#include "ctrl/config/files.h"

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static void keep_reason(void *cls, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/* Keep libmicrohttpd's last message, to explain a start that fails. */
static void
keep_reason(void *cls, const char *format, va_list args)
{
	struct api_server *server = cls;

	vsnprintf(server->reason, sizeof(server->reason), format, args);
	server->reason[strcspn(server->reason, "\n")] = '\0';
}

/* -- start and end */

static int
read_pem(const char *path, char **text, char *error, size_t size)
{
	const char *why;
	size_t length;

	*text = ctrl_read_file(path, &length, &why);
	if (*text == NULL)
		return api_fail(error, size, -errno, "%s: %s", path, why);
	if (length == 0)
		return api_fail(error, size, -EINVAL, "%s is empty", path);
	return 0;
}

static void
free_pems(struct api_pem *pem)
{
	if (pem->key != NULL)
		explicit_bzero(pem->key, strlen(pem->key));
	free(pem->certificate);
	free(pem->key);
	*pem = (struct api_pem){0};
}

static int
read_pems(const struct ctrl_api *api, struct api_pem *pem, char *error, size_t size)
{
	int rc = 0;

	if (api->certificate[0] != '\0')
		rc = read_pem(api->certificate, &pem->certificate, error, size);
	if (rc == 0 && api->key[0] != '\0')
		rc = read_pem(api->key, &pem->key, error, size);
	return rc;
}

/* Start a daemon on the listening socket fd, which it owns then. NULL: the reason is in `error`. */
static struct MHD_Daemon *
start_daemon(
	struct api_listener *listener, int fd, const struct api_pem *pem, char *error, size_t size)
{
	struct api_server *server = listener->server;
	struct epoll_event event = {.events = EPOLLIN};
	const union MHD_DaemonInfo *info;
	struct MHD_Daemon *daemon;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, pem->certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, pem->key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
		{MHD_OPTION_END, 0, NULL},
	};
	unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
		(listener->tls ? MHD_USE_TLS : 0);

	daemon = MHD_start_daemon(flags, 0, api_accept, listener, api_request_serve, listener,
		MHD_OPTION_EXTERNAL_LOGGER, keep_reason,
		server, /* first, because the other options may log errors */
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		API_CONNECTIONS + API_CLOSING, MHD_OPTION_CONNECTION_TIMEOUT, API_IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)API_HEAD_BYTES,
		MHD_OPTION_URI_LOG_CALLBACK, api_request_begin, listener,
		MHD_OPTION_NOTIFY_COMPLETED, api_request_end, listener,
		MHD_OPTION_NOTIFY_CONNECTION, api_notify, listener, MHD_OPTION_ARRAY,
		listener->tls ? tls : &tls[3], MHD_OPTION_END);
	if (daemon == NULL) {
		api_fail(error, size, 0, "%s does not start: %s%s", listener->config->text,
			server->reason,
			listener->tls ? ": do api.tls.certificate and api.tls.key fit?" : "");
		return NULL;
	}
	info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (info != NULL && epoll_ctl(server->epoll, EPOLL_CTL_ADD, info->epoll_fd, &event) == 0)
		return daemon;
	api_fail(error, size, 0, "%s: epoll: %s", listener->config->text, strerror(errno));
	MHD_stop_daemon(daemon);
	return NULL;
}

static int
open_listener(
	struct api_server *server, const struct ctrl_listener *config, char *error, size_t size)
{
	struct api_listener *listener = &server->listener[server->nb_listeners];
	int rc;

	listener->server = server;
	listener->config = config;
	listener->tls = server->pem.certificate != NULL && config->address.any.sa_family != AF_UNIX;
	rc = api_listen(
		config, server->running->config->api.socket_group, &listener->socket, error, size);
	if (rc < 0)
		return rc;
	server->nb_listeners++;
	listener->daemon[0] =
		start_daemon(listener, listener->socket.fd, &server->pem, error, size);
	return listener->daemon[0] == NULL ? -EIO : 0;
}

int
api_server_create(
	struct ctrl_running *running, struct api_server **out, char *error, size_t error_size)
{
	const struct ctrl_api *api = &running->config->api;
	struct api_server *server = calloc(1, sizeof(*server));
	int rc = 0;

	*out = NULL;
	if (server == NULL)
		return api_fail(error, error_size, -ENOMEM, "the API: %s", strerror(ENOMEM));
	server->running = running;
	api_limits_set(&server->limits, api);
	TAILQ_INIT(&server->connections);
	TAILQ_INIT(&server->waiting);
	api_turns_init(&server->turns);
	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0)
		rc = api_fail(error, error_size, -errno, "epoll: %s", strerror(errno));
	if (rc == 0)
		rc = read_pems(api, &server->pem, error, error_size);
	for (unsigned int i = 0; rc == 0 && i < api->nb_listeners; i++)
		rc = open_listener(server, &api->listener[i], error, error_size);
	if (rc < 0) {
		api_server_destroy(server);
		return rc;
	}
	*out = server;
	return 0;
}

/* Close a socket, unless libmicrohttpd has done so: it may when a daemon does not start. */
static void
close_socket(int fd)
{
	if (fcntl(fd, F_GETFD) >= 0)
		close(fd);
}

void
api_server_destroy(struct api_server *server)
{
	struct api_connection *c;

	if (server == NULL)
		return;
	/* libmicrohttpd aborts if a connection is suspended when its daemon stops. */
	server->is_stopping = true;
	TAILQ_FOREACH (c, &server->connections, next)
		if (c->suspended != NULL)
			api_request_abandon(c->suspended);
	for (unsigned int i = 0; i < server->nb_listeners; i++) {
		struct api_listener *listener = &server->listener[i];

		api_unlisten(listener->config, &listener->socket);
		if (listener->daemon[0] == NULL)
			close_socket(listener->socket.fd);
		for (unsigned int d = 0; d < RTE_DIM(listener->daemon); d++) {
			if (listener->daemon[d] == NULL)
				continue;
			MHD_run(listener->daemon[d]); /* sends the answers of resumed requests */
			MHD_stop_daemon(listener->daemon[d]); /* closes the socket, too */
		}
	}
	if (server->epoll >= 0)
		close(server->epoll);
	free_pems(&server->pem);
	api_turns_free(&server->turns);
	free(server);
}

/* -- change of the certificate */

static bool
same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* A place for the replaced daemon; NULL: too many former ones still have connections. */
static struct MHD_Daemon **
place_to_retire(struct api_listener *listener)
{
	for (unsigned int d = 1; d < RTE_DIM(listener->daemon); d++)
		if (listener->daemon[d] == NULL)
			return &listener->daemon[d];
	return NULL;
}

/* Start a second daemon on the same socket, with the new certificate. */
static int
stage_listener(struct api_listener *listener, char *error, size_t size)
{
	if (place_to_retire(listener) == NULL)
		return api_fail(error, size, -EBUSY,
			"%s: connections with former certificates are not over: again in a minute",
			listener->config->text);
	listener->staged_fd = fcntl(listener->socket.fd, F_DUPFD_CLOEXEC, 0);
	if (listener->staged_fd < 0)
		return api_fail(
			error, size, -errno, "%s: %s", listener->config->text, strerror(errno));
	listener->staged =
		start_daemon(listener, listener->staged_fd, &listener->server->staged, error, size);
	if (listener->staged != NULL)
		return 0;
	close_socket(listener->staged_fd);
	return -EIO;
}

int
api_server_stage(
	struct api_server *server, const struct ctrl_config *next, char *error, size_t error_size)
{
	int rc = read_pems(&next->api, &server->staged, error, error_size);

	if (rc == 0 && same_text(server->staged.certificate, server->pem.certificate) &&
		same_text(server->staged.key, server->pem.key)) {
		free_pems(&server->staged);
		return 0;
	}
	for (unsigned int i = 0; rc == 0 && i < server->nb_listeners; i++)
		if (server->listener[i].tls)
			rc = stage_listener(&server->listener[i], error, error_size);
	if (rc < 0)
		api_server_unstage(server);
	return rc;
}

void
api_server_unstage(struct api_server *server)
{
	for (unsigned int i = 0; i < server->nb_listeners; i++) {
		struct api_listener *listener = &server->listener[i];

		if (listener->staged != NULL)
			MHD_stop_daemon(listener->staged); /* and its socket */
		listener->staged = NULL;
	}
	free_pems(&server->staged);
}

/* Close idle connections now and the others after their next answer: otherwise a client could keep
 * the former certificate, and its daemon, forever. */
static void
retire_connections(struct api_listener *listener)
{
	struct api_connection *c;

	TAILQ_FOREACH (c, &listener->server->connections, next) {
		if (c->listener != listener || c->has_former_certificate)
			continue;
		c->has_former_certificate = true;
		if (c->has_answered && !c->is_serving)
			api_close(c);
	}
}

/* Serve new connections with the new certificate. */
static void
take_staged(struct api_listener *listener)
{
	int fd = MHD_quiesce_daemon(listener->daemon[0]);

	retire_connections(listener);
	*place_to_retire(listener) = listener->daemon[0];
	if (fd >= 0)
		close(fd);
	listener->daemon[0] = listener->staged;
	listener->socket.fd = listener->staged_fd;
	listener->staged = NULL;
}

bool
api_server_commit(struct api_server *server, const struct ctrl_config *next)
{
	bool changed = server->staged.certificate != NULL;

	api_limits_set(&server->limits, &next->api);
	api_update_tenants(server, &next->api);
	for (unsigned int i = 0; i < server->nb_listeners; i++) {
		server->listener[i].config = &next->api.listener[i];
		if (server->listener[i].staged != NULL)
			take_staged(&server->listener[i]);
	}
	if (changed) {
		free_pems(&server->pem);
		server->pem = server->staged;
		server->staged = (struct api_pem){0};
	}
	return changed;
}

/* Stop a daemon with a former certificate, if it has no connections any more. */
static void
end_retired(struct MHD_Daemon **daemon)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(*daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	if (info == NULL || info->num_connections > 0)
		return;
	MHD_stop_daemon(*daemon);
	*daemon = NULL;
}

/* -- for the event loop */

int
api_server_fd(const struct api_server *server)
{
	return server->epoll;
}

/* Milliseconds until the time; negative: never. */
static double
sooner(double wait, struct MHD_Daemon *daemon)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (daemon == NULL || MHD_get_timeout(daemon, &ms) != MHD_YES)
		return wait;
	return wait < 0 || (double)ms < wait ? (double)ms : wait;
}

int
api_server_timeout(const struct api_server *server)
{
	const struct api_request *request;
	double now = ctrl_monotonic(), wait = api_turns_wait(&server->turns, now) * 1e3;
	double daemons = -1;

	TAILQ_FOREACH (request, &server->waiting, next)
		wait = fmin(wait, fmax(0, request->wait_ends - now) * 1e3);
	/* Round up: a request must be due when the timeout ends. */
	wait = wait > 0 ? fmin(wait, 60000) + 1 : 0;
	for (unsigned int i = 0; i < server->nb_listeners; i++)
		for (unsigned int d = 0; d < RTE_DIM(server->listener[i].daemon); d++)
			daemons = sooner(daemons, server->listener[i].daemon[d]);
	return (int)(daemons < 0 ? wait : fmin(wait, daemons));
}

static void
run_daemons(struct api_server *server)
{
	for (unsigned int i = 0; i < server->nb_listeners; i++)
		for (unsigned int d = 0; d < RTE_DIM(server->listener[i].daemon); d++)
			if (server->listener[i].daemon[d] != NULL)
				MHD_run(server->listener[i].daemon[d]);
}

void
api_server_run(struct api_server *server)
{
	run_daemons(server);
	if (api_requests_serve(server))
		run_daemons(server); /* sends the answers */
}

void
api_server_tick(struct api_server *server)
{
	double now = ctrl_monotonic();
	struct api_connection *c;

	TAILQ_FOREACH (c, &server->connections, next)
		if (now > c->deadline)
			api_close(c);
	api_requests_refuse_late(server);
	api_server_run(server);
	for (unsigned int i = 0; i < server->nb_listeners; i++)
		for (unsigned int d = 1; d < RTE_DIM(server->listener[i].daemon); d++)
			if (server->listener[i].daemon[d] != NULL)
				end_retired(&server->listener[i].daemon[d]);
}
