/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/auth.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

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

bool
api_authenticate(const struct ctrl_api *api, const char *authorization, struct api_caller *caller)
{
	size_t used = strlen(caller->name);

	caller->tenant = NULL;
	caller->admin = caller->local &&
		(caller->uid == 0 || caller->uid == geteuid() || api->nb_tenants == 0);
	if (authorization == NULL)
		return true;
	if (strncasecmp(authorization, SCHEME, strlen(SCHEME)) == 0)
		caller->tenant = find_tenant(api, authorization + strlen(SCHEME));
	caller->admin = caller->tenant != NULL && caller->tenant->admin;
	if (caller->tenant != NULL)
		snprintf(caller->name + used, sizeof(caller->name) - used, " tenant=%s",
			caller->tenant->name);
	return caller->tenant != NULL;
}

enum api_verdict
api_may(const struct ctrl_api *api, const struct api_caller *caller, enum api_access access)
{
	bool tenants = api->nb_tenants > 0, token = caller->tenant != NULL;
	bool may = false;

	if (caller->admin)
		return API_ALLOWED;
	switch (access) {
	case API_PUBLIC: may = api->open_read || token; break;
	case API_READ: may = token || (!tenants && api->open_read); break;
	case API_READ_ALL: may = !tenants && api->open_read; break;
	case API_JOIN: may = token || !tenants; break;
	case API_CHANGE: may = token; break;
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
	if (caller->admin || api->nb_tenants == 0)
		return true;
	return caller->tenant != NULL && caller->tenant == owner;
}
