/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits on connections, and which connection is closed when a listener is full. */
#include <arpa/inet.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctrl/api/server_priv.h"

/* The network that a connection counts against, never 0. The owner of an IPv6 address usually has
 * its whole /64. */
static uint64_t
network_of(const struct sockaddr *address)
{
	uint64_t network = 0;

	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		network = in.sin_addr.s_addr;
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		memcpy(&network, &in6.sin6_addr, sizeof(network));
	}
	return network == 0 ? 1 : network; /* ::1 */
}

static bool
is_local(const struct api_listener *listener)
{
	return listener->config.address.any.sa_family == AF_UNIX;
}

/* libmicrohttpd finds it closed later; if its request waits for the control thread, after that. */
static void
close_connection(struct api_connection *c)
{
	c->is_closing = true;
	shutdown(c->fd, SHUT_RDWR);
}

void
api_close_late(struct api_server *server, double now)
{
	struct api_connection *c;

	pthread_mutex_lock(&server->lock);
	TAILQ_FOREACH (c, &server->connections, next)
		if (now > c->deadline && !c->is_closing)
			close_connection(c);
	pthread_mutex_unlock(&server->lock);
}

static void
name_caller(struct api_caller *caller, const struct sockaddr *address)
{
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "0";
	socklen_t length = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6);

	getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
		NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(caller->name, sizeof(caller->name), "address=%s port=%s", host, port);
	if (address->sa_family == AF_INET)
		caller->ip = ntohl((uint32_t)network_of(address));
}

static struct api_connection *
begin_connection(struct api_listener *listener, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info; /* the next call may overwrite it */
	struct api_connection *c = calloc(1, sizeof(*c));
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (c == NULL)
		return NULL;
	c->listener = listener;
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	c->fd = info->connect_fd;
	c->began = ctrl_monotonic();
	c->deadline = c->began + API_HEAD_S;
	c->caller.is_private = listener->tls;
	if (!is_local(listener)) {
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
		name_caller(&c->caller, info->client_addr);
		c->network = network_of(info->client_addr);
	} else if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
		c->caller.is_local = c->caller.is_private = true;
		c->caller.uid = credentials.uid;
		c->caller.pid = credentials.pid;
		snprintf(c->caller.name, sizeof(c->caller.name), "uid=%u pid=%d", credentials.uid,
			credentials.pid);
	} else {
		free(c);
		return NULL;
	}
	pthread_mutex_lock(&listener->server->lock);
	TAILQ_INSERT_TAIL(&listener->server->connections, c, next);
	pthread_mutex_unlock(&listener->server->lock);
	return c;
}

void
api_notify(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct api_listener *listener = cls;
	struct api_connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		api_thread_begin(listener);
		/* NULL: its requests are refused. */
		*context = begin_connection(listener, connection);
	} else if (c != NULL) {
		pthread_mutex_lock(&listener->server->lock);
		TAILQ_REMOVE(&listener->server->connections, c, next);
		pthread_mutex_unlock(&listener->server->lock);
		free(c);
		*context = NULL;
	}
}

/* What the peer of a connection has proved. */
enum rights {
	RIGHTS_UNAUTHENTICATED,
	RIGHTS_TENANT,
	RIGHTS_ADMIN, /* an administrator's token; root or the switch's user on the Unix socket */
};

/* The tenant of a token; NULL: there is none any more. */
static const struct ctrl_tenant *
tenant_of(const struct api_connection *c, const struct ctrl_api *api)
{
	for (unsigned int i = 0; c->has_token && i < api->nb_tenants; i++)
		if (memcmp(api->tenant[i].token_sha256, c->token_sha256, CTRL_HASH_BYTES) == 0)
			return &api->tenant[i];
	return NULL;
}

static enum rights
rights_of(const struct api_connection *c, const struct ctrl_api *api)
{
	const struct ctrl_tenant *tenant = tenant_of(c, api);

	if (tenant != NULL)
		return tenant->admin ? RIGHTS_ADMIN : RIGHTS_TENANT;
	if (c->has_rank_token)
		return RIGHTS_TENANT;
	return c->caller.is_local && (c->caller.uid == 0 || c->caller.uid == geteuid())
		? RIGHTS_ADMIN
		: RIGHTS_UNAUTHENTICATED;
}

/* Do both belong to the same owner? Without a token, the owner is the network or the user. */
static bool
same_owner(
	const struct api_connection *a, const struct api_connection *b, const struct ctrl_api *api)
{
	const struct ctrl_tenant *tenant = tenant_of(a, api);

	return tenant == tenant_of(b, api) &&
		(tenant != NULL || (a->network == b->network && a->caller.uid == b->caller.uid));
}

static unsigned int
count_of_owner(const struct api_connection *one, const struct ctrl_api *api)
{
	const struct api_connection *c;
	unsigned int n = 0;

	TAILQ_FOREACH (c, &one->listener->server->connections, next)
		n += c->listener == one->listener && !c->is_closing && same_owner(c, one, api);
	return n;
}

/* Did a request come without a token, or no token for API_TOKEN_S? */
static bool
is_unauthenticated(const struct api_connection *c, const struct ctrl_api *api, double now)
{
	return rights_of(c, api) == RIGHTS_UNAUTHENTICATED &&
		(c->is_anonymous || now - c->began > API_TOKEN_S);
}

/*
 * The connection with the lowest standing is closed first. The standing depends on the owner's
 * rights, then on the number of the owner's connections, then on whether the connection is in use.
 * A new connection ranks above those of a tenant beyond its share, because many may arrive
 * at once before any of them can send a token. Use does not protect a connection without a token:
 * otherwise an endless request would keep it.
 */
static unsigned int
standing(const struct api_connection *c, const struct ctrl_api *api, double now)
{
	unsigned int count = count_of_owner(c, api), rights = 2 + rights_of(c, api);
	bool is_busy = c->is_serving && rights_of(c, api) != RIGHTS_UNAUTHENTICATED;

	if (is_unauthenticated(c, api, now))
		rights = 0;
	else if (rights_of(c, api) == RIGHTS_TENANT && count > API_SHARE)
		rights = 1;
	return rights << 16 | (API_CONNECTIONS + API_CLOSING - count) << 1 | is_busy;
}

/* Does the connection count against this listener and network? network: 0 means all networks. */
static bool
is_among(const struct api_connection *c, const struct api_listener *listener, uint64_t network)
{
	return c->listener == listener && !c->is_closing && (network == 0 || c->network == network);
}

static unsigned int
count_among(const struct api_listener *listener, uint64_t network)
{
	const struct api_connection *c;
	unsigned int n = 0;

	TAILQ_FOREACH (c, &listener->server->connections, next)
		n += is_among(c, listener, network);
	return n;
}

/* Close the connection with the lowest standing; of several, the oldest. False: there is none, or
 * it is an administrator's that is in use. */
static bool
make_room(const struct api_listener *listener, uint64_t network, const struct ctrl_api *api,
	double now)
{
	struct api_connection *c, *worst = NULL;
	unsigned int least = UINT_MAX;

	/* The list is in order of arrival. */
	TAILQ_FOREACH (c, &listener->server->connections, next) {
		unsigned int s = is_among(c, listener, network) ? standing(c, api, now) : UINT_MAX;

		if (s < least) {
			worst = c;
			least = s;
		}
	}
	if (worst == NULL || (rights_of(worst, api) == RIGHTS_ADMIN && worst->is_serving))
		return false;
	close_connection(worst);
	return true;
}

static bool
admit(const struct api_listener *listener, uint64_t network, const struct ctrl_api *api)
{
	double now = ctrl_monotonic();

	if (network != 0 && count_among(listener, network) >= API_PER_ADDRESS)
		return make_room(listener, network, api, now);
	return count_among(listener, 0) < API_CONNECTIONS || make_room(listener, 0, api, now);
}

enum MHD_Result
api_accept(void *cls, const struct sockaddr *address, socklen_t length)
{
	static const struct ctrl_api nobody;
	const struct api_listener *listener = cls;
	struct api_server *server = listener->server;
	const struct ctrl_snapshot *last = ctrl_snapshot_last(server->snapshots);
	bool fits;

	(void)length;
	pthread_mutex_lock(&server->lock);
	fits = admit(listener, is_local(listener) ? 0 : network_of(address),
		last == NULL ? &nobody : &last->config->api);
	pthread_mutex_unlock(&server->lock);
	if (last != NULL)
		ctrl_snapshot_put(last);
	return fits ? MHD_YES : MHD_NO;
}
