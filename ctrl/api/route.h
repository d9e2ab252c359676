/* SPDX-License-Identifier: BSD-3-Clause */
/* From a request's method and target to its line in the route table. */
#ifndef CTRL_API_ROUTE_H
#define CTRL_API_ROUTE_H

#include "ctrl/api/call.h"

/*
 * Fill call->parameter and return the route, or answer 404, or 405 with Allow, and return NULL.
 * method: as in the request; HEAD is served as GET. call->target is set.
 */
const struct api_route *api_route_find(struct api_call *call, const char *method);

/* Every key of the query is one of the route's, and there once. False: answered. */
bool api_route_query(struct api_call *call, const struct api_route *route);

/* "GET". */
const char *api_method_text(enum api_method method);

#endif
