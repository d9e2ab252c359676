/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

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
