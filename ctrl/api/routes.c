/* SPDX-License-Identifier: BSD-3-Clause */
/* The route table, in a file of its own: a test of the server has another one. */
#include "ctrl/api/call.h"

const struct api_route api_routes[] = {
#define X(method, path, access, needs, query, handler)                                             \
	{method, path, access, needs, query, handler},
	API_ROUTES(X)
#undef X
};
const size_t api_routes_count = sizeof(api_routes) / sizeof(api_routes[0]);
