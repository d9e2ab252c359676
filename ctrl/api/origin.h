/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What browsers tell about a request, and what pages of other sites can't forge: the name that the
 * page's user sees as the server's (Host), and the page's own (Origin).
 *
 * A page whose name its owner points at this switch after it was loaded (DNS rebinding) is of the
 * "same origin" as the switch for its browser. Its Host is that name, which is none of the switch's.
 */
#ifndef CTRL_API_ORIGIN_H
#define CTRL_API_ORIGIN_H

#include <stdbool.h>

#include "ctrl/config/config.h"

/*
 * Is this value of Host, with a port or without, one that no name server decides about: an IP
 * address, "localhost", or one of api.names? Letters' case does not matter.
 */
bool api_host_is_own(const struct ctrl_api *api, const char *host);

/* Is this value of Origin a page that came from `host`? Not: "null", other hosts or ports. */
bool api_origin_is_host(const char *origin, const char *host);

#endif
