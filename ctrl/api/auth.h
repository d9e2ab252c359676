/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication and rights of callers, and how often tenants may change something.
 *
 * On the Unix socket, the permissions of its file decide who connects. Root and the switch's own
 * user are administrators; without tenants in the configuration, all users are. Elsewhere, and for
 * other users, a bearer token names a tenant. If there is a token, it decides, also for root: a
 * wrong token is refused, and a tenant's token gives that tenant's rights.
 *
 * A token is compared by its SHA-256, in constant time, with those of all tenants.
 *
 * A rank's token (ctrl/jobs/tokens.h) lets its bearer join and leave as that rank and read the
 * rank's job, from any address, as the job's owner may, whether or not there are tenants. Otherwise
 * it gives access to public resources only.
 *
 * Each tenant has a bucket of `changes_burst` changes that fills by `changes_per_s`. A change costs
 * the control thread a loop turn of the slowest worker and a write of the state file; without the
 * limit, one tenant could occupy that thread. A caller without a tenant may only join and leave,
 * and has a bucket by its address, unless it is an administrator. A bucket is stored as the time
 * when it is full again, as in ATM's generic cell rate algorithm: no timer fills it, and a rate
 * changed by a reload applies from the next request on.
 *
 * Thread safety: any thread; the limits are guarded by their owner.
 */
#ifndef CTRL_API_AUTH_H
#define CTRL_API_AUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctrl/api/operations.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/running.h"

struct api_caller {
	bool is_local; /* connected over the Unix socket: uid and pid are known */
	bool is_private; /* Unix socket or TLS: the traffic can't be read in transit */
	bool admin;
	const struct ctrl_tenant *tenant; /* the owner of the token; or NULL */
	/* The tenant whose budgets pay for the requests: `tenant`, or the owner of the job whose
	 * rank token was given; or NULL. */
	const struct ctrl_tenant *payer;
	/* Instance of the job whose rank token was given (ppe_job.instance); 0: none was. */
	uint32_t instance;
	unsigned int rank; /* the rank of that token */
	uid_t uid;
	pid_t pid;
	uint32_t ip; /* IPv4 of the peer, host order; 0: none */
	char name[112]; /* for logs: "uid=0 pid=12", "address=10.77.0.1:4711 tenant=vision" */
};

enum api_verdict {
	API_ALLOWED,
	API_UNAUTHORIZED, /* a token is needed */
	API_FORBIDDEN, /* this caller lacks the right */
};

/* Set the other fields of a caller whose is_local, uid, pid and ip are set, by the value of its
 * Authorization header (NULL: none). False: the token is wrong. */
bool api_authenticate(
	const struct ctrl_api *api, const char *authorization, struct api_caller *caller);

struct api_call;

/* After api_authenticate has refused a token: is it a rank's of a job that the call sees? If so,
 * set the caller's fields. False: the token is wrong. */
bool api_authenticate_rank(
	const struct api_call *call, const char *authorization, struct api_caller *caller);

enum api_verdict api_may(
	const struct ctrl_api *api, const struct api_caller *caller, enum api_access access);

/* Is this a TCP caller without a token? It may change only jobs that such callers have made. */
static inline bool
api_is_stranger(const struct api_caller *caller)
{
	return !caller->admin && caller->tenant == NULL && caller->instance == 0;
}

/* May the caller see, and if admitted change, what this tenant owns? False for rank tokens. owner:
 * NULL means no tenant. */
bool api_owns(const struct ctrl_api *api, const struct api_caller *caller,
	const struct ctrl_tenant *owner);

/*
 * Pages of other sites can't forge two headers of a browser's request: the server's name (Host) and
 * the page's own (Origin). With DNS rebinding, the owner of a page points the page's name at this
 * switch after the page was loaded, and the browser takes both for the same origin; but Host is
 * that name, which is not the switch's.
 */

/* Is this value of Host, with a port or without, an IP address, "localhost", or one of api.names? A
 * foreign name server controls none of these. Case does not matter. */
bool api_host_is_own(const struct ctrl_api *api, const char *host);

/* Is this value of Origin that of a page from `host`? False for "null", other hosts and other
 * ports. */
bool api_origin_is_host(const char *origin, const char *host);

struct api_bucket {
	char tenant[CTRL_NAME_BYTES];
	double full_at; /* CLOCK_MONOTONIC, s */
};

/* Limits on changes by an address without a tenant. The burst covers all ranks of the largest job.
 * Where api.open_jobs admits jobs, a program makes and leaves hundreds of them in a row. */
#define API_ADDRESS_CHANGES_PER_S 50
#define API_ADDRESS_CHANGES_BURST WEIR_SOURCES_MAX
#define API_OPEN_CHANGES_PER_S    500
#define API_OPEN_CHANGES_BURST    1024
#define API_ADDRESSES             1024

struct api_address_bucket {
	uint64_t network; /* as in struct api_connection */
	double full_at;
};

/* The buckets of a configuration's tenants, in its order, and of other callers. All zero: none. */
struct api_limits {
	unsigned int count;
	struct api_bucket bucket[CTRL_TENANTS_MAX];
	unsigned int address_per_s, address_burst;
	struct api_address_bucket address[API_ADDRESSES]; /* the networks that were in debt last */
};

/* Set the tenants. A tenant of the same name as before keeps its bucket. */
void api_limits_set(struct api_limits *limits, const struct ctrl_api *api);

/* Take a change from a tenant's bucket. Returns 0 if the change may proceed. Otherwise nothing is
 * taken; returns the seconds until the next change. A tenant that was not set has no limit. */
double api_limits_take(struct api_limits *limits, const struct ctrl_tenant *tenant, double now);

/*
 * As api_limits_take, from the bucket of a network. When all buckets are in use, a new network
 * takes over the fullest bucket at its current level, so that many addresses get no more than the
 * buckets allow.
 */
double api_limits_take_address(struct api_limits *limits, uint64_t network, double now);

#endif
