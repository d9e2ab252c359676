/* SPDX-License-Identifier: BSD-3-Clause */
/* From a request's method and target to its line in the route table. */
#include "ctrl/api/call.h"

#include <string.h>

#include <bsd/string.h>

#include "ctrl/config/schema.h"

const char *
api_method_text(enum api_method method)
{
	static const char *const texts[] = {"GET", "POST", "PATCH", "PUT", "DELETE"};

	return texts[method];
}

static bool
is_method(const struct api_route *route, const char *method)
{
	if (strcmp(method, "HEAD") == 0)
		method = "GET";
	return strcmp(api_method_text(route->method), method) == 0;
}

const struct api_route *
api_route_find(struct api_call *call, const char *method)
{
	char allow[64] = "";

	for (size_t i = 0; i < api_routes_count; i++) {
		const struct api_route *route = &api_routes[i];

		if (!api_target_fits(call->target, route->path, call->parameter))
			continue;
		if (is_method(route, method))
			return route;
		if (allow[0] != '\0')
			strlcat(allow, ", ", sizeof(allow));
		strlcat(allow, api_method_text(route->method), sizeof(allow));
		if (route->method == API_GET)
			strlcat(allow, ", HEAD", sizeof(allow));
	}
	if (allow[0] == '\0') {
		api_error(call, 404, "unknown_path", NULL,
			"nothing is here: docs/openapi.yaml lists the paths");
		return NULL;
	}
	api_error(call, 405, "method_not_allowed", NULL, "%.32s is not for this path: it takes %s",
		method, allow);
	api_header(call, "Allow", "%s", allow);
	return NULL;
}

bool
api_route_query(struct api_call *call, const struct api_route *route)
{
	for (unsigned int i = 0; i < call->target->nb_query; i++) {
		const char *key = call->target->query[i].key;

		if (route->query != NULL && ctrl_parse_word(route->query, key) >= 0)
			continue;
		api_error(call, 400, "unknown_key", key, "the query has an unknown key; known: %s",
			route->query == NULL ? "none" : route->query);
		return false;
	}
	if (call->target->twice == NULL)
		return true;
	api_error(call, 400, "duplicate", call->target->twice, "the query has this key twice");
	return false;
}
