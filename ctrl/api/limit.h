/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often tenants may change something: each has a bucket of `changes_burst` requests that fills
 * by `changes_per_s`. A change costs the control thread a loop turn of the slowest worker and a write
 * of the state file, and all tenants wait for that one thread: so none may have it for itself.
 *
 * A bucket is the time when it is full again, as in ATM's generic cell rate algorithm: nothing has to
 * run to fill it, and another rate of a reload holds from the next request on.
 *
 * Thread safety: for the one control thread.
 */
#ifndef CTRL_API_LIMIT_H
#define CTRL_API_LIMIT_H

#include "ctrl/config/config.h"

struct api_bucket {
	char tenant[CTRL_NAME_BYTES];
	double full_at; /* CLOCK_MONOTONIC, s */
};

/* Of each tenant of a configuration, in its order. All zero: of none. */
struct api_limits {
	unsigned int count;
	struct api_bucket bucket[CTRL_TENANTS_MAX];
};

/* The tenants are these from now on; who was one before, by name, keeps what it has used. */
void api_limits_set(struct api_limits *limits, const struct ctrl_api *api);

/*
 * A request of a tenant that could change something, at a time. 0: go on; else the seconds until it
 * may, and this one was not counted. Who is none of the tenants set is not limited.
 */
double api_limits_take(struct api_limits *limits, const struct ctrl_tenant *tenant, double now);

#endif
