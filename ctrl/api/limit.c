/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/api/limit.h"

#include <string.h>

#include <bsd/string.h>

static struct api_bucket *
find(struct api_limits *limits, const char *tenant)
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
	for (unsigned int i = 0; i < api->nb_tenants; i++) {
		const struct api_bucket *known = find(&former, api->tenant[i].name);
		struct api_bucket *bucket = &limits->bucket[i];

		strlcpy(bucket->tenant, api->tenant[i].name, sizeof(bucket->tenant));
		bucket->full_at = known == NULL ? 0 : known->full_at;
	}
}

double
api_limits_take(struct api_limits *limits, const struct ctrl_tenant *tenant, double now)
{
	const struct ctrl_quota *quota = &tenant->quota;
	struct api_bucket *bucket = find(limits, tenant->name);
	double interval, lacks;

	if (bucket == NULL || quota->changes_per_s == 0)
		return 0;
	interval = 1.0 / quota->changes_per_s;
	/* The bucket's deficit after this request, in seconds of filling. */
	lacks = (bucket->full_at > now ? bucket->full_at - now : 0) + interval;
	if (lacks > quota->changes_burst * interval + interval / 1e6)
		return lacks - quota->changes_burst * interval;
	bucket->full_at = now + lacks;
	return 0;
}
