/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication and rights of callers, and how often tenants may change something.
 *
 * On the Unix socket, the permissions of its file decide who connects. Root and the switch's own user are
 * administrators; without tenants in the configuration, all users are. Elsewhere, and for other users, a
 * bearer token names a tenant. A token always decides, also for root: a wrong token is refused, and a
 * tenant's token gives that tenant's rights.
 *
 * A token is compared by its SHA-256, in constant time, with those of all tenants.
 *
 * A rank's token (ctrl/jobs/tokens.h) instead lets its bearer join and leave as that rank and read its job, with and
 * without tenants, and from any address, like the job's owner. Else it gives only what is public.
 *
 * Each tenant has a bucket of `changes_burst` changes that fills by `changes_per_s`. A change costs the
 * control thread a loop turn of the slowest worker and a write of the state file; without the limit, one
 * tenant could occupy that thread. A caller without a tenant may only join and leave, and has a bucket by its
 * address, unless it is an administrator. A bucket is the time when it is full again, as in ATM's generic cell rate
 * algorithm: nothing has to run to fill it, and a rate changed by a reload holds from the next request on.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_API_AUTH_H
#define CTRL_API_AUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctrl/config/config.h"
#include "ctrl/jobs/running.h"

/* The right that a route asks of its caller. */
enum api_access {
	API_PUBLIC, /* all callers while api.open_read, else any token */
	API_READ, /* tenants, of what is theirs; without tenants like API_PUBLIC */
	API_READ_JOB, /* like API_READ; and rank tokens, of their job (api_may_see) */
	API_READ_ALL, /* administrators; without tenants like API_PUBLIC */
	API_JOIN, /* tenants; rank tokens, as their rank; without tenants all callers */
	API_CHANGE, /* tenants, of what is theirs; without tenants administrators */
	API_OPEN, /* like API_CHANGE; and over TCP callers without a token, if api.open_jobs admits any */
	API_ADMIN,
};

struct api_caller {
	bool is_local; /* over the Unix socket; then uid and pid are known */
	bool is_private; /* the Unix socket, or TLS: the traffic can't be read on the way */
	bool admin;
	const struct ctrl_tenant *tenant; /* whose token was given, or NULL */
	const struct ctrl_tenant
		*payer; /* whose budgets the requests take: that tenant, or the owner
					   of the job whose rank token was given; or NULL */
	uint32_t
		instance; /* of the job whose rank token was given (ppe_job.instance); 0: none was */
	unsigned int rank; /* that token's */
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

/* The same for a token that no tenant has, after api_authenticate: is it a rank's? False: it is wrong. */
bool api_authenticate_rank(
	struct ctrl_running *running, const char *authorization, struct api_caller *caller);

enum api_verdict api_may(
	const struct ctrl_api *api, const struct api_caller *caller, enum api_access access);

/* Is it a caller over TCP without a token? Of the jobs it may change those that such callers have made. */
static inline bool
api_is_stranger(const struct api_caller *caller)
{
	return !caller->admin && caller->tenant == NULL && caller->instance == 0;
}

/* May the caller see, and if admitted change, what this tenant owns? owner: NULL: no tenant. Not with a rank token. */
bool api_owns(const struct ctrl_api *api, const struct api_caller *caller,
	const struct ctrl_tenant *owner);

/*
 * Pages of other sites can't forge two headers of a browser's request: the server's name (Host) and the page's
 * own (Origin). With DNS rebinding, the owner of a page points the page's name at this switch after the page was
 * loaded, and the browser takes both for the same origin; but Host is that name, which is not the switch's.
 */

/*
 * Is this value of Host, with a port or without, an IP address, "localhost", or one of api.names? No name server
 * decides about these. Letters' case does not matter.
 */
bool api_host_is_own(const struct ctrl_api *api, const char *host);

/* Is this value of Origin that of a page from `host`? "null", other hosts and other ports are not. */
bool api_origin_is_host(const char *origin, const char *host);

struct api_bucket {
	char tenant[CTRL_NAME_BYTES];
	double full_at; /* CLOCK_MONOTONIC, s */
};

/*
 * Changes of an address without a tenant. The burst is all ranks of the largest job. Where api.open_jobs admits
 * jobs, a program makes and leaves hundreds of them in a row.
 */
#define API_ADDRESS_CHANGES_PER_S 50
#define API_ADDRESS_CHANGES_BURST WEIR_SOURCES_MAX
#define API_OPEN_CHANGES_PER_S    500
#define API_OPEN_CHANGES_BURST    1024
#define API_ADDRESSES             1024

struct api_address_bucket {
	uint64_t network; /* struct api_connection's */
	double full_at;
};

/* The buckets of a configuration's tenants, in its order, and of other callers. All zero: none. */
struct api_limits {
	unsigned int count;
	struct api_bucket bucket[CTRL_TENANTS_MAX];
	unsigned int address_per_s, address_burst;
	struct api_address_bucket address[API_ADDRESSES]; /* of the last ones to be in debt */
};

/* Set the tenants. A tenant of the same name as before keeps its bucket. */
void api_limits_set(struct api_limits *limits, const struct ctrl_api *api);

/*
 * Take a change from a tenant's bucket. 0: it may go on; else the seconds until the next change, and nothing is
 * taken. A tenant that was not set is not limited.
 */
double api_limits_take(struct api_limits *limits, const struct ctrl_tenant *tenant, double now);

/*
 * Likewise, from the bucket of a network. When all buckets are in use, a new network gets the fullest one as it
 * is, so that many addresses get no more than the buckets.
 */
double api_limits_take_address(struct api_limits *limits, uint64_t network, double now);

#endif
