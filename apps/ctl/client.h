/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HTTP to a switch, over a Unix socket or TCP, with TLS or without. One request at a time, each
 * bounded in time and size. No proxy, no redirection.
 */
#ifndef APPS_CTL_CLIENT_H
#define APPS_CTL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of an answer that is taken: of most, and of the largest, a trace. */
#define CLIENT_BODY_MAX  ((size_t)8 << 20)
#define CLIENT_TRACE_MAX ((size_t)256 << 20)

struct client;

struct client_config {
	const char *address; /* unix:PATH, http://HOST:PORT or https://HOST:PORT */
	const char *token_file; /* where the token is; NULL: `token` */
	const char *token; /* itself, of WEIR_TOKEN; NULL: none */
	const char *ca_file; /* certificates to trust instead of the system's; NULL */
	double timeout; /* seconds that a request takes at most, > 0 */
};

struct client_answer {
	long status; /* of HTTP */
	char *body; /* terminated; may be NULL */
	size_t length;
	size_t room;
	size_t most; /* bytes that are taken */
};

enum client_end {
	CLIENT_ANSWERED,
	CLIENT_FAILED, /* no connection, no answer in time: client_error() says why */
	CLIENT_INTERRUPTED, /* interrupted() said so */
};

/**
 * @param[out] error  when it fails: why, a line
 * @return NULL when the address, the token file or the certificates are wrong
 */
struct client *client_create(const struct client_config *config, char *error, size_t size);

/* Takes NULL. */
void client_destroy(struct client *client);

/* Look at `fd`, too, while waiting for an answer: when it is readable, `interrupted` is called, and
 * ends the request by returning true. */
void client_watch(struct client *client, int fd, bool (*interrupted)(void *), void *argument);

/* Take answers of up to `bytes` from now on; before the first call it is CLIENT_BODY_MAX. */
void client_expect(struct client *client, size_t bytes);

/**
 * Send a request and wait for its answer.
 *
 * @param path    such as "/v1/jobs"
 * @param body    JSON, or NULL
 * @param more    seconds to add to the configured ones
 * @param[out] answer  freed by client_answer_free()
 */
enum client_end client_request(struct client *client, const char *method, const char *path,
	const char *body, double more, struct client_answer *answer);

void client_answer_free(struct client_answer *answer);

/* Why the last request failed and what to do, in a line. */
const char *client_error(const struct client *client);

/* Where it sends to, as configured. */
const char *client_address(const struct client *client);

/* Where the token came from, for people; NULL: there is none. */
const char *client_token_from(const struct client *client);

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
