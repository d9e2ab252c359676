/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/auth.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <bsd/string.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "ctrl/api/call.h"
#include "ctrl/jobs/tokens.h"

#define SCHEME "Bearer "

static const struct ctrl_tenant *
find_tenant(const struct ctrl_api *api, const char *token)
{
	const struct ctrl_tenant *found = NULL;
	uint8_t hash[EVP_MAX_MD_SIZE];

	if (EVP_Digest(token, strlen(token), hash, NULL, EVP_sha256(), NULL) != 1)
		return NULL;
	/* No early return: the time must not tell which tenant matched. */
	for (unsigned int i = 0; i < api->nb_tenants; i++)
		if (CRYPTO_memcmp(hash, api->tenant[i].token_sha256, CTRL_HASH_BYTES) == 0)
			found = &api->tenant[i];
	return found;
}

/* The token of an Authorization header, or NULL. */
static const char *
bearer(const char *authorization)
{
	return strncasecmp(authorization, SCHEME, strlen(SCHEME)) == 0
		? authorization + strlen(SCHEME)
		: NULL;
}

bool
api_authenticate(const struct ctrl_api *api, const char *authorization, struct api_caller *caller)
{
	size_t used = strlen(caller->name);
	const char *token;

	caller->tenant = caller->payer = NULL;
	caller->admin = caller->is_local &&
		(caller->uid == 0 || caller->uid == geteuid() || api->nb_tenants == 0);
	if (authorization == NULL)
		return true;
	token = bearer(authorization);
	caller->tenant = caller->payer = token == NULL ? NULL : find_tenant(api, token);
	caller->admin = caller->tenant != NULL && caller->tenant->admin;
	if (caller->tenant != NULL)
		snprintf(caller->name + used, sizeof(caller->name) - used, " tenant=%s",
			caller->tenant->name);
	return caller->tenant != NULL;
}

bool
api_authenticate_rank(
	const struct api_call *call, const char *authorization, struct api_caller *caller)
{
	const char *token = bearer(authorization);
	size_t used = strlen(caller->name);
	char name[PPE_JOB_NAME_MAX];
	const struct ctrl_job *job;

	if (token == NULL || !ctrl_rank_token_job(token, name))
		return false;
	job = api_job_named(call, name);
	if (!ctrl_rank_token_is(job, token, &caller->rank))
		return false;
	caller->instance = job->job->instance;
	caller->payer = job->tenant;
	snprintf(caller->name + used, sizeof(caller->name) - used, " token=%s~%u", job->job->name,
		caller->rank);
	return true;
}

enum api_verdict
api_may(const struct ctrl_api *api, const struct api_caller *caller, enum api_access access)
{
	bool tenants = api->nb_tenants > 0, token = caller->tenant != NULL;
	bool may = false;

	if (caller->admin)
		return API_ALLOWED;
	if (caller->instance != 0)
		return access == API_PUBLIC || access == API_READ_JOB || access == API_JOIN
			? API_ALLOWED
			: API_FORBIDDEN;
	switch (access) {
	case API_PUBLIC: may = api->open_read || token; break;
	case API_READ_JOB:
	case API_READ: may = token || (!tenants && api->open_read); break;
	case API_READ_ALL: may = !tenants && api->open_read; break;
	case API_JOIN: may = token || !tenants; break;
	case API_CHANGE: may = token; break;
	case API_OPEN: may = token || (!tenants && !caller->is_local && api->open_jobs > 0); break;
	case API_ADMIN: may = false; break;
	}
	if (may)
		return API_ALLOWED;
	return tenants && !token ? API_UNAUTHORIZED : API_FORBIDDEN;
}

bool
api_owns(const struct ctrl_api *api, const struct api_caller *caller,
	const struct ctrl_tenant *owner)
{
	if (caller->instance != 0)
		return false;
	if (caller->admin || api->nb_tenants == 0)
		return true;
	return caller->tenant != NULL && caller->tenant == owner;
}

/* Parse the name in "NAME:PORT", "NAME" or "[ADDRESS]:PORT". False: bad syntax. */
static bool
take_name(const char *host, char name[CTRL_HOST_BYTES], bool *bracket)
{
	size_t length;
	const char *end;

	*bracket = host[0] == '[';
	host += *bracket;
	length = strcspn(host, *bracket ? "]" : ":");
	if (length == 0 || length >= CTRL_HOST_BYTES)
		return false;
	memcpy(name, host, length);
	name[length] = '\0';
	end = host + length;
	if (*bracket && *end++ != ']')
		return false;
	if (*end == '\0')
		return true;
	return *end == ':' && end[1 + strspn(end + 1, "0123456789")] == '\0';
}

bool
api_host_is_own(const struct ctrl_api *api, const char *host)
{
	char name[CTRL_HOST_BYTES];
	struct in6_addr address;
	bool bracket;

	if (!take_name(host, name, &bracket))
		return false;
	if (bracket)
		return inet_pton(AF_INET6, name, &address) == 1;
	if (inet_pton(AF_INET, name, &address) == 1 || strcasecmp(name, "localhost") == 0)
		return true;
	for (unsigned int i = 0; i < api->nb_names; i++)
		if (strcasecmp(name, api->name[i]) == 0)
			return true;
	return false;
}

/* Ignores the scheme: a proxy in front of the switch may terminate TLS. */
bool
api_origin_is_host(const char *origin, const char *host)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (unsigned int i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t length = strlen(schemes[i]);

		if (strncasecmp(origin, schemes[i], length) == 0)
			return strcasecmp(origin + length, host) == 0;
	}
	return false;
}

/* -- limits */

static struct api_bucket *
find_bucket(struct api_limits *limits, const char *tenant)
{
	for (unsigned int i = 0; i < limits->count; i++)
		if (strcmp(limits->bucket[i].tenant, tenant) == 0)
			return &limits->bucket[i];
	return NULL;
}

void
api_limits_set(struct api_limits *limits, const struct ctrl_api *api)
{
	struct api_limits former = *limits;

	limits->count = api->nb_tenants;
	limits->address_per_s =
		api->open_jobs > 0 ? API_OPEN_CHANGES_PER_S : API_ADDRESS_CHANGES_PER_S;
	limits->address_burst =
		api->open_jobs > 0 ? API_OPEN_CHANGES_BURST : API_ADDRESS_CHANGES_BURST;
	for (unsigned int i = 0; i < api->nb_tenants; i++) {
		const struct api_bucket *known = find_bucket(&former, api->tenant[i].name);
		struct api_bucket *bucket = &limits->bucket[i];

		strlcpy(bucket->tenant, api->tenant[i].name, sizeof(bucket->tenant));
		bucket->full_at = known == NULL ? 0 : known->full_at;
	}
}

static double
take(double *full_at, unsigned int per_s, unsigned int burst, double now)
{
	double interval = 1.0 / per_s;
	/* The bucket's deficit after this request, in seconds of filling. */
	double lacks = (*full_at > now ? *full_at - now : 0) + interval;

	if (lacks > burst * interval + interval / 1e6)
		return lacks - burst * interval;
	*full_at = now + lacks;
	return 0;
}

double
api_limits_take(struct api_limits *limits, const struct ctrl_tenant *tenant, double now)
{
	const struct ctrl_quota *quota = &tenant->quota;
	struct api_bucket *bucket = find_bucket(limits, tenant->name);

	if (bucket == NULL || quota->changes_per_s == 0)
		return 0;
	return take(&bucket->full_at, quota->changes_per_s, quota->changes_burst, now);
}

double
api_limits_take_address(struct api_limits *limits, uint64_t network, double now)
{
	struct api_address_bucket *bucket = &limits->address[0];

	for (unsigned int i = 0; i < API_ADDRESSES && bucket->network != network; i++) {
		struct api_address_bucket *other = &limits->address[i];

		if (other->network == network || other->full_at < bucket->full_at)
			bucket = other;
	}
	bucket->network = network;
	return take(&bucket->full_at, limits->address_per_s, limits->address_burst, now);
}
