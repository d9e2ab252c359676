/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who asks, and what they may.
 *
 * On the Unix socket: its file's permissions decide who connects; root and the switch's own user
 * are administrators, and without tenants everybody there is. Elsewhere, and for other users, a
 * bearer token names a tenant. A token that is given always decides, also for root: a wrong one is
 * refused, and a tenant's gives that tenant's rights.
 *
 * Tokens are compared by their SHA-256, in constant time, with every tenant's.
 */
#ifndef CTRL_API_AUTH_H
#define CTRL_API_AUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctrl/config/config.h"

/* What a route asks of its caller. */
enum api_access {
	API_PUBLIC, /* anybody while api.open_read, else any token */
	API_READ, /* a tenant, who sees its own; without tenants like API_PUBLIC */
	API_READ_ALL, /* administrators; without tenants like API_PUBLIC */
	API_JOIN, /* a tenant; anybody without tenants */
	API_CHANGE, /* a tenant, its own; without tenants administrators */
	API_ADMIN,
};

struct api_caller {
	bool local; /* over the Unix socket; then uid and pid are known */
	bool private; /* nobody on the way can listen: the Unix socket, or TLS */
	bool admin;
	const struct ctrl_tenant *tenant; /* whose token was given, or NULL */
	uid_t uid;
	pid_t pid;
	uint32_t ip; /* IPv4 of the peer, host order; 0: none */
	char name[112]; /* for logs: "uid=0 pid=12", "address=10.77.0.1:4711 tenant=vision" */
};

enum api_verdict {
	API_ALLOWED,
	API_UNAUTHORIZED, /* a token is needed */
	API_FORBIDDEN, /* this caller may not */
};

/*
 * Complete a caller, of whom local, uid, pid and ip are known, by the value of its Authorization
 * header (NULL: none). False: the token is wrong.
 */
bool api_authenticate(
	const struct ctrl_api *api, const char *authorization, struct api_caller *caller);

enum api_verdict api_may(
	const struct ctrl_api *api, const struct api_caller *caller, enum api_access access);

/*
 * May the caller, admitted by API_READ or more, see and change what is this tenant's? owner: NULL
 * for nobody's.
 */
bool api_owns(const struct ctrl_api *api, const struct api_caller *caller,
	const struct ctrl_tenant *owner);

/*
 * What browsers tell about a request, and what pages of other sites can't forge: the name that the
 * page's user sees as the server's (Host), and the page's own (Origin).
 *
 * A page whose name its owner points at this switch after it was loaded (DNS rebinding) is of the
 * "same origin" as the switch for its browser. Its Host is that name, which is none of the switch's.
 */

/*
 * Is this value of Host, with a port or without, one that no name server decides about: an IP
 * address, "localhost", or one of api.names? Letters' case does not matter.
 */
bool api_host_is_own(const struct ctrl_api *api, const char *host);

/* Is this value of Origin a page that came from `host`? Not: "null", other hosts or ports. */
bool api_origin_is_host(const char *origin, const char *host);

#endif
