/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
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

	if (!server->is_starting)
		return;
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

/* -- TLS: each handshake looks the certificate up, so that a new one needs no new listener */

static struct {
	pthread_mutex_t lock;
	struct api_pem now;
} identity = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Parse a certificate and its key; after an error, nothing is left to free. */
static int
parse_pems(const struct api_pem *pem, gnutls_pcert_st chain[API_CHAIN_MAX], unsigned int *length,
	gnutls_privkey_t *key)
{
	const gnutls_datum_t certificate = {
		(unsigned char *)pem->certificate, (unsigned int)strlen(pem->certificate)};
	const gnutls_datum_t secret = {(unsigned char *)pem->key, (unsigned int)strlen(pem->key)};
	int rc = gnutls_privkey_init(key);

	if (rc < 0)
		return rc;
	*length = API_CHAIN_MAX;
	rc = gnutls_privkey_import_x509_raw(*key, &secret, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (rc == 0)
		rc = gnutls_pcert_list_import_x509_raw(
			chain, length, &certificate, GNUTLS_X509_FMT_PEM, 0);
	if (rc < 0)
		gnutls_privkey_deinit(*key);
	return rc;
}

/* As gnutls_certificate_retrieve_function3: gnutls frees what it gets. */
static int
retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **chain,
	unsigned int *length, gnutls_ocsp_data_st **ocsp, unsigned int *nb_ocsp,
	gnutls_privkey_t *key, unsigned int *flags)
{
	int rc;

	(void)session;
	(void)info;
	*ocsp = NULL;
	*nb_ocsp = 0;
	*chain = gnutls_calloc(API_CHAIN_MAX, sizeof(**chain));
	if (*chain == NULL)
		return -1;
	pthread_mutex_lock(&identity.lock);
	rc = parse_pems(&identity.now, *chain, length, key);
	pthread_mutex_unlock(&identity.lock);
	*flags = GNUTLS_CERT_RETR_DEINIT_ALL;
	if (rc == 0)
		return 0;
	gnutls_free(*chain);
	return -1;
}

/* Do certificate and key fit, and can each handshake parse them? 0, or -EINVAL with a line. */
static int
check_pems(const struct api_pem *pem, char *error, size_t size)
{
	const gnutls_datum_t certificate = {
		(unsigned char *)pem->certificate, (unsigned int)strlen(pem->certificate)};
	const gnutls_datum_t secret = {(unsigned char *)pem->key, (unsigned int)strlen(pem->key)};
	gnutls_certificate_credentials_t both;
	gnutls_pcert_st chain[API_CHAIN_MAX];
	gnutls_privkey_t own;
	unsigned int length;
	int rc = gnutls_certificate_allocate_credentials(&both);

	if (rc == 0) {
		rc = gnutls_certificate_set_x509_key_mem(
			both, &certificate, &secret, GNUTLS_X509_FMT_PEM);
		gnutls_certificate_free_credentials(both);
	}
	if (rc >= 0)
		rc = parse_pems(pem, chain, &length, &own);
	if (rc == 0) {
		gnutls_privkey_deinit(own);
		while (length > 0)
			gnutls_pcert_deinit(&chain[--length]);
		return 0;
	}
	return api_fail(error, size, -EINVAL, "api.tls.certificate and api.tls.key: %s",
		gnutls_strerror(rc));
}

/* -- threads */

/* Let the control thread go first. Called by a thread of libmicrohttpd when a connection begins. */
void
api_thread_begin(const struct api_listener *listener)
{
	static __thread bool begun;

	if (!begun && listener->config.address.any.sa_family != AF_UNIX)
		setpriority(PRIO_PROCESS, (id_t)gettid(), API_NICE);
	begun = true;
}

/* Resumes connections whose changes are made, and closes late ones. */
static void *
keep(void *arg)
{
	struct api_server *server = arg;
	struct pollfd event = {server->made_event, POLLIN, 0};
	double tick = ctrl_monotonic();

	while (!__atomic_load_n(&server->ends, __ATOMIC_ACQUIRE)) {
		double now;

		poll(&event, 1, 1000);
		now = ctrl_monotonic();
		api_changes_resume(server, now);
		if (now < tick)
			continue;
		tick = now + 1;
		api_close_late(server, now);
	}
	api_changes_resume(server, ctrl_monotonic());
	return NULL;
}

_Static_assert(API_THREADS *CTRL_LISTENERS_MAX <= CTRL_READERS_MAX, "a place for each reader");

static int
start_daemon(struct api_listener *listener, char *error, size_t size)
{
	struct api_server *server = listener->server;
	bool is_local = listener->config.address.any.sa_family == AF_UNIX;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)retrieve},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
		{MHD_OPTION_END, 0, NULL},
	};
	unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
		MHD_USE_ERROR_LOG | (listener->tls ? MHD_USE_TLS : 0);
	unsigned int threads = is_local ? API_THREADS / 2 : API_THREADS;

	/* Each thread of the pool takes its share of the limit; api_accept has the real one. */
	listener->daemon = MHD_start_daemon(flags, 0, api_accept, listener, api_request_serve,
		listener, MHD_OPTION_EXTERNAL_LOGGER, keep_reason,
		server, /* first, because the other options may log errors */
		MHD_OPTION_LISTEN_SOCKET, listener->socket.fd, MHD_OPTION_THREAD_POOL_SIZE, threads,
		MHD_OPTION_CONNECTION_LIMIT, threads * (API_CONNECTIONS + API_CLOSING),
		MHD_OPTION_CONNECTION_TIMEOUT, API_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)API_HEAD_BYTES, MHD_OPTION_URI_LOG_CALLBACK, api_request_begin, listener,
		MHD_OPTION_NOTIFY_COMPLETED, api_request_end, listener,
		MHD_OPTION_NOTIFY_CONNECTION, api_notify, listener, MHD_OPTION_ARRAY,
		listener->tls ? tls : &tls[2], MHD_OPTION_END);
	if (listener->daemon != NULL)
		return 0;
	return api_fail(
		error, size, -EIO, "%s does not start: %s", listener->config.text, server->reason);
}

static int
open_listener(
	struct api_server *server, const struct ctrl_listener *config, char *error, size_t size)
{
	struct api_listener *listener = &server->listener[server->nb_listeners];
	int rc;

	listener->server = server;
	listener->config = *config;
	listener->tls =
		identity.now.certificate != NULL && config->address.any.sa_family != AF_UNIX;
	rc = api_listen(&listener->config, server->running->config->api.socket_group,
		&listener->socket, error, size);
	if (rc < 0)
		return rc;
	server->nb_listeners++;
	return start_daemon(listener, error, size);
}

static int
open_events(struct api_server *server)
{
	struct epoll_event event = {.events = EPOLLIN};

	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	server->asked_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	server->made_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (server->epoll < 0 || server->asked_event < 0 || server->made_event < 0 ||
		epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->asked_event, &event) < 0 ||
		epoll_ctl(server->epoll, EPOLL_CTL_ADD, ctrl_snapshots_fd(server->snapshots),
			&event) < 0)
		return -errno;
	server->has_keeper = pthread_create(&server->keeper, NULL, keep, server) == 0;
	return server->has_keeper ? 0 : -EAGAIN;
}

int
api_server_create(
	struct ctrl_running *running, struct api_server **out, char *error, size_t error_size)
{
	const struct ctrl_api *api = &running->config->api;
	struct api_server *server = calloc(1, sizeof(*server));
	int rc;

	*out = NULL;
	if (server == NULL)
		return api_fail(error, error_size, -ENOMEM, "the API: %s", strerror(ENOMEM));
	server->running = running;
	server->is_starting = true;
	server->epoll = server->asked_event = server->made_event = -1;
	pthread_mutex_init(&server->lock, NULL);
	TAILQ_INIT(&server->connections);
	TAILQ_INIT(&server->waiting);
	server->snapshots = ctrl_snapshots_create();
	rc = server->snapshots == NULL ? -ENOMEM : open_events(server);
	if (rc < 0)
		api_fail(error, error_size, rc, "the API: %s", strerror(-rc));
	if (rc == 0)
		rc = read_pems(api, &identity.now, error, error_size);
	if (rc == 0 && identity.now.certificate != NULL)
		rc = check_pems(&identity.now, error, error_size);
	if (rc == 0)
		ctrl_snapshots_renew(server->snapshots, running);
	for (unsigned int i = 0; rc == 0 && i < api->nb_listeners; i++)
		rc = open_listener(server, &api->listener[i], error, error_size);
	if (rc < 0) {
		api_server_destroy(server);
		return rc;
	}
	server->is_starting = false;
	*out = server;
	return 0;
}

/* Answer all changes, and let no more come: libmicrohttpd aborts if a connection is suspended when
 * its daemon stops. */
static void
end_changes(struct api_server *server)
{
	bool are_over = false;

	pthread_mutex_lock(&server->lock);
	server->is_stopping = true;
	pthread_mutex_unlock(&server->lock);
	while (!are_over) {
		api_changes_refuse(server);
		pthread_mutex_lock(&server->lock);
		are_over = TAILQ_EMPTY(&server->waiting);
		pthread_mutex_unlock(&server->lock);
		if (!are_over)
			usleep(1000);
	}
	__atomic_store_n(&server->ends, true, __ATOMIC_RELEASE);
	api_wake(server->made_event);
	pthread_join(server->keeper, NULL);
	ctrl_snapshots_end(server->snapshots);
}

void
api_server_destroy(struct api_server *server)
{
	if (server == NULL)
		return;
	if (server->has_keeper)
		end_changes(server);
	for (unsigned int i = 0; i < server->nb_listeners; i++) {
		struct api_listener *listener = &server->listener[i];

		api_unlisten(&listener->config, &listener->socket);
		if (listener->daemon != NULL)
			MHD_stop_daemon(listener->daemon); /* closes the socket, too */
		else if (fcntl(listener->socket.fd, F_GETFD) >= 0)
			close(listener->socket.fd); /* libmicrohttpd may have done so */
	}
	ctrl_snapshots_destroy(server->snapshots);
	for (unsigned int i = 0; i < 3; i++) {
		int fd = (const int[]){server->epoll, server->asked_event, server->made_event}[i];

		if (fd >= 0)
			close(fd);
	}
	free_pems(&identity.now);
	free_pems(&server->staged);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

/* -- reload */

static bool
same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

int
api_server_stage(
	struct api_server *server, const struct ctrl_config *next, char *error, size_t error_size)
{
	int rc = read_pems(&next->api, &server->staged, error, error_size);

	if (rc == 0 && server->staged.certificate != NULL)
		rc = check_pems(&server->staged, error, error_size);
	if (rc < 0 ||
		(same_text(server->staged.certificate, identity.now.certificate) &&
			same_text(server->staged.key, identity.now.key)))
		free_pems(&server->staged);
	return rc;
}

bool
api_server_unstage(struct api_server *server)
{
	bool changed = server->staged.certificate != NULL;

	free_pems(&server->staged);
	return changed;
}

bool
api_server_commit(struct api_server *server)
{
	bool changed = server->staged.certificate != NULL;

	if (changed) {
		/* A handshake holds the lock while it parses the former one. */
		pthread_mutex_lock(&identity.lock);
		free_pems(&identity.now);
		identity.now = server->staged;
		pthread_mutex_unlock(&identity.lock);
		server->staged = (struct api_pem){0};
	}
	ctrl_snapshots_renew(server->snapshots, server->running);
	return changed;
}

bool
api_server_uses(const struct api_server *server, const struct ctrl_config *config)
{
	return ctrl_snapshots_have(server->snapshots, config);
}

/* -- for the event loop */

int
api_server_fd(const struct api_server *server)
{
	return server->epoll;
}

int
api_server_timeout(const struct api_server *server)
{
	int snapshots = ctrl_snapshots_timeout(server->snapshots);

	if (snapshots < 0 || server->wait_ms < 0)
		return RTE_MAX(snapshots, server->wait_ms);
	return RTE_MIN(snapshots, server->wait_ms);
}

void
api_server_run(struct api_server *server)
{
	server->wait_ms = api_changes_make(server);
	ctrl_snapshots_serve(server->snapshots, server->running);
}

void
api_server_tick(struct api_server *server)
{
	if (server->nb_listeners > 0)
		ctrl_snapshots_tick(server->snapshots, server->running);
}
