/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may connect, when not everybody can. */
#include <string.h>

#include "ctrl/api/server_priv.h"

/* Whoever has one IPv6 address has its /64, and may come from all of them. */
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

enum MHD_Result
api_accept(void *cls, const struct sockaddr *address, socklen_t length)
{
	const struct api_listener *listener = cls;
	bool local = listener->config->address.any.sa_family == AF_UNIX;
	uint64_t network = local ? 0 : api_network(address);
	unsigned int all = 0, here = 0, strangers = 0;
	struct api_connection *c, *oldest = NULL;
	double now = ctrl_monotonic();

	(void)length;
	TAILQ_FOREACH (c, &listener->server->connections, next) {
		if (c->listener != listener || c->closing)
			continue;
		all++;
		if (!local && c->network == network) {
			here++;
			strangers += !c->known && now - c->began > API_STRANGE_S;
		}
		/* They are in the order in which they came. */
		if (oldest == NULL && !c->known && !c->serving)
			oldest = c;
	}
	if (here >= API_PER_ADDRESS || strangers >= API_STRANGERS)
		return MHD_NO;
	if (all < API_CONNECTIONS)
		return MHD_YES;
	if (oldest == NULL)
		return MHD_NO;
	api_close(oldest);
	return MHD_YES;
}
