/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HTTP connections to control APIs, which the process keeps for a while: handles are often opened and closed one
 * after the other. One per switch and token that is not in use, for WEIR_KEEP_NS; then the control thread closes it.
 */
#ifndef APPS_LIBWEIR_CONNECTION_H
#define APPS_LIBWEIR_CONNECTION_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/queue.h>

#include "apps/libweir/http.h"

/* Less than the switch keeps it, 15 s. */
#define WEIR_KEEP_NS UINT64_C(2000000000)

/* The taker's: no other thread uses it. */
struct weir_connection {
	struct weir_http *http;
	struct weir_http_answer answer; /* to the last request; status 0: none has come */
	struct in_addr switch_address; /* as the API told it on this connection; 0: not yet */

	TAILQ_ENTRY(weir_connection) link; /* connection.c's, as all that follows */
	char *address, *token, *ca_file;
	uint64_t until; /* ns: how long it is kept */
};

/*
 * Take a kept connection, or make one. Nothing is sent yet. config: its strings are copied. 0 or -errno with the reason
 * in text. The caller gives it back.
 */
int weir_connection_take(const struct weir_http_config *config, struct weir_connection **connection,
	char *text, size_t size);

/* It is kept if its last request has been answered. */
void weir_connection_give(struct weir_connection *connection);

#endif
