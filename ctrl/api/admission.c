/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: limits, and which one is closed when a listener is full. */
#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctrl/api/server_priv.h"

/* The owner of an IPv6 address usually has its whole /64. */
uint64_t
api_network(const struct sockaddr *address)
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
	return network;
}

void
api_close(struct api_connection *c)
{
	c->closing = true;
	shutdown(c->fd, SHUT_RDWR);
}

static void
name_caller(struct api_connection *c, const struct sockaddr *address)
{
	struct api_caller *caller = &c->caller;
	char text[INET6_ADDRSTRLEN] = "?";
	uint16_t port = 0;

	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
		port = ntohs(in.sin_port);
		caller->ip = ntohl(in.sin_addr.s_addr);
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof(text));
		port = ntohs(in6.sin6_port);
	}
	snprintf(caller->name, sizeof(caller->name), "address=%s port=%u", text, port);
}

static struct api_connection *
meet(struct api_listener *listener, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	const union MHD_ConnectionInfo *peer =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct api_connection *c = calloc(1, sizeof(*c));
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	if (c == NULL)
		return NULL;
	c->listener = listener;
	c->fd = fd->connect_fd;
	c->began = ctrl_monotonic();
	c->deadline = c->began + API_HEAD_S;
	c->caller.private = listener->tls;
	if (listener->config->address.any.sa_family != AF_UNIX) {
		name_caller(c, peer->client_addr);
		c->network = api_network(peer->client_addr);
	} else if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0) {
		c->caller.local = c->caller.private = true;
		c->caller.uid = credentials.uid;
		c->caller.pid = credentials.pid;
		c->rank = credentials.uid == 0 || credentials.uid == geteuid()
			? API_RANK_ADMIN
			: API_RANK_UNAUTHENTICATED;
		c->own_rank = c->rank;
		snprintf(c->caller.name, sizeof(c->caller.name), "uid=%u pid=%d", credentials.uid,
			credentials.pid);
	} else {
		free(c);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&listener->server->connections, c, next);
	return c;
}

void
api_notify(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct api_listener *listener = cls;
	struct api_connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = meet(listener, connection); /* NULL: its requests are refused */
	} else if (c != NULL) {
		TAILQ_REMOVE(&listener->server->connections, c, next);
		free(c);
		*context = NULL;
	}
}

void
api_meet_tenant(struct api_connection *c, const struct ctrl_tenant *tenant)
{
	c->tenant = tenant;
	c->rank = tenant->admin ? API_RANK_ADMIN : API_RANK_TENANT;
}

/* The tenant of this token, in another configuration. */
static const struct ctrl_tenant *
find_again(const struct ctrl_api *api, const struct ctrl_tenant *former)
{
	for (unsigned int i = 0; i < api->nb_tenants; i++)
		if (memcmp(api->tenant[i].token_sha256, former->token_sha256, CTRL_HASH_BYTES) == 0)
			return &api->tenant[i];
	return NULL;
}

void
api_meet_again(struct api_server *server, const struct ctrl_api *api)
{
	struct api_connection *c;

	TAILQ_FOREACH (c, &server->connections, next) {
		const struct ctrl_tenant *tenant =
			c->tenant == NULL ? NULL : find_again(api, c->tenant);

		if (tenant != NULL) {
			api_meet_tenant(c, tenant);
		} else if (c->tenant != NULL) {
			c->tenant = NULL;
			c->rank = c->own_rank;
		}
	}
}

/* Do both belong to the same owner? Without a token, the owner is the network or the user. */
static bool
same_owner(const struct api_connection *a, const struct api_connection *b)
{
	return a->rank == b->rank && a->tenant == b->tenant &&
		(a->tenant != NULL || (a->network == b->network && a->caller.uid == b->caller.uid));
}

static unsigned int
count_of_owner(const struct api_connection *one)
{
	const struct api_connection *c;
	unsigned int n = 0;

	TAILQ_FOREACH (c, &one->listener->server->connections, next)
		n += c->listener == one->listener && !c->closing && same_owner(c, one);
	return n;
}

/* Has the connection shown no token for too long? */
static bool
is_unauthenticated(const struct api_connection *c, double now)
{
	return c->rank == API_RANK_UNAUTHENTICATED && now - c->began > API_TOKEN_S;
}

/* The lower, the sooner the connection is closed. `count`: its owner's connections. A new connection ranks above
 * those of a tenant beyond its share: in one turn many arrive before any of them can show a token. */
static unsigned int
standing(const struct api_connection *c, unsigned int count, double now)
{
	if (is_unauthenticated(c, now))
		return 0;
	if (c->rank == API_RANK_TENANT && count > API_SHARE)
		return 1;
	return 2 + c->rank;
}

/*
 * The connection to close: of those with the lowest standing, one of the owner with the most connections; of
 * these the oldest, and an idle one first. Activity does not protect a connection without a token: otherwise
 * an endless request would keep it.
 */
static struct api_connection *
choose(const struct api_listener *listener, double now)
{
	struct api_connection *c, *best = NULL;
	unsigned int most = 0, lowest = UINT_MAX;
	bool best_busy = false;

	/* The list is in the order of arrival: a later one has to be better. */
	TAILQ_FOREACH (c, &listener->server->connections, next) {
		bool busy = c->serving && c->rank != API_RANK_UNAUTHENTICATED;
		unsigned int count, its;

		if (c->listener != listener || c->closing)
			continue;
		count = count_of_owner(c);
		its = standing(c, count, now);
		if (its > lowest || (its == lowest && count < most) ||
			(its == lowest && count == most && (busy || !best_busy)))
			continue;
		best = c;
		lowest = its;
		most = count;
		best_busy = busy;
	}
	return best;
}

enum MHD_Result
api_accept(void *cls, const struct sockaddr *address, socklen_t length)
{
	const struct api_listener *listener = cls;
	bool local = listener->config->address.any.sa_family == AF_UNIX;
	uint64_t network = local ? 0 : api_network(address);
	unsigned int all = 0, here = 0, unauthenticated = 0;
	struct api_connection *c;
	double now = ctrl_monotonic();

	(void)length;
	TAILQ_FOREACH (c, &listener->server->connections, next) {
		if (c->listener != listener || c->closing)
			continue;
		all++;
		if (!local && c->network == network) {
			here++;
			unauthenticated += is_unauthenticated(c, now);
		}
	}
	if (here >= API_PER_ADDRESS || unauthenticated >= API_NO_TOKEN)
		return MHD_NO;
	if (all < API_CONNECTIONS)
		return MHD_YES;
	c = choose(listener, now);
	if (c->rank == API_RANK_ADMIN && c->serving)
		return MHD_NO;
	api_close(c);
	return MHD_YES;
}
