/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HTTP connections to control APIs. The process keeps them for a while, because handles are often
 * opened and closed one after the other: one idle connection per switch and token, for
 * WEIR_KEEP_NS. Then the control thread closes it.
 */
#ifndef APPS_LIBWEIR_CONNECTION_H
#define APPS_LIBWEIR_CONNECTION_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/queue.h>

#include "apps/libweir/http.h"

/* Less than the 15 s for which the switch keeps a connection. */
#define WEIR_KEEP_NS UINT64_C(2000000000)

/* Belongs to the thread that took it. */
struct weir_connection {
	struct weir_http *http;
	struct weir_http_answer answer; /* to the last request; status 0: none has come */
	struct in_addr switch_address; /* from the API, on this connection; 0: not yet known */

	TAILQ_ENTRY(weir_connection) link; /* this and all that follows: connection.c's */
	char *address, *token, *ca_file;
	uint64_t until; /* ns: how long it is kept */
};

/*
 * Take a kept connection, or make one. Nothing is sent yet. config: its strings are copied. 0 or
 * -errno with the reason in text. The caller gives it back.
 */
int weir_connection_take(const struct weir_http_config *config, struct weir_connection **connection,
	char *text, size_t size);

/* Give the connection back. It is kept if its last request has been answered. */
void weir_connection_give(struct weir_connection *connection);

#endif
