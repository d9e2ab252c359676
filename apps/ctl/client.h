/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to a switch's control API, by libweir's HTTP client, and the address to send them to. */
#ifndef APPS_CTL_CLIENT_H
#define APPS_CTL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/libweir/http.h"

/* Bytes of an answer that are taken: of most, and of the largest, a trace. */
#define CLIENT_BODY_MAX  ((size_t)8 << 20)
#define CLIENT_TRACE_MAX ((size_t)256 << 20)

struct client {
	struct weir_http_config http;
	const char *token_from; /* where the token is from, for people; NULL: there is none */
	double timeout; /* seconds that a request takes at most, > 0 */
	size_t most; /* bytes of an answer that are taken */
	struct weir_http *handle;
	char token[4096];
	char error[1024]; /* why the last call failed, and what to do: a line */
};

struct client_answer {
	long status; /* of HTTP */
	char *body; /* terminated; may be NULL */
	size_t length, room;
};

/* With http, token_from and timeout set; the token is read from a file when `token_file` is not NULL.
 * False: the address or the token is wrong. */
bool client_open(struct client *client, const char *token_file);
void client_close(struct client *client);

/**
 * Send a request and wait for its answer.
 *
 * @param path    such as "/v1/jobs"
 * @param body    JSON, or NULL
 * @param more    seconds to add to the configured ones
 * @param[out] answer  free `body`
 * @return false: no connection, or no answer in time
 */
bool client_request(struct client *client, const char *method, const char *path, const char *body,
	double more, struct client_answer *answer);

/**
 * The address when none is given: the only socket in a folder.
 *
 * @param[out] text  "unix:PATH", or why there is none
 * @return whether there is one
 */
bool client_find(const char *folder, char *text, size_t size);

/* The same for a switch's configuration: the first Unix socket that it listens on. */
bool client_find_of(const char *file, char *text, size_t size);

#endif
