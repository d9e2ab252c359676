/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HTTP to the switch's control API, by libcurl: over TCP, TLS or a Unix socket. Each request is
 * bounded in time, each answer in size. No proxy, no redirection, no signal.
 */
#ifndef APPS_LIBWEIR_HTTP_H
#define APPS_LIBWEIR_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_HTTP_BODY_MAX ((size_t)64 << 10) /* bytes of an answer */

struct weir_http;

/* Write a text for people, and return `code`. */
int weir_error_text(char *text, size_t size, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

struct weir_http_config {
	const char *address; /* http://HOST:PORT, https://HOST:PORT or unix:PATH */
	const char *token; /* NULL: none */
	const char *ca_file; /* certificates to trust instead of the system's; NULL */
	/* Called at least once a second while a request waits; true ends it. NULL: none. */
	bool (*interrupted)(void *argument);
	void *argument;
};

struct weir_http_answer {
	long status; /* of HTTP */
	size_t length;
	char body[WEIR_HTTP_BODY_MAX];
};

/*
 * Errors are -errno with the reason in text. The strings of the configuration must live as long as
 * the handle. Nothing is sent yet.
 */
int weir_http_open(
	const struct weir_http_config *config, struct weir_http **http, char *text, size_t size);
void weir_http_close(struct weir_http *http); /* NULL is fine */
/* Replace what the configuration has for these. */
void weir_http_interrupt(
	struct weir_http *http, bool (*interrupted)(void *argument), void *argument);

/* A request, and where its answer goes. */
struct weir_http_request {
	const char *method, *path; /* path is such as "/v1/status" */
	const char *body; /* JSON; NULL: none */
	uint64_t timeout_ns; /* until the whole answer is there */
	/* Takes the next bytes of the answer; false: they do not fit. */
	bool (*take)(void *to, const char *bytes, size_t length);
	void *to;
	size_t most; /* bytes that are taken */
};

/* As weir_http_ask(); -EINTR: interrupted() returned true. */
int weir_http_request(struct weir_http *http, const struct weir_http_request *request, long *status,
	char *text, size_t size);

/*
 * One request. path is such as "/v1/status"; body JSON or NULL.
 *
 *   -ECONNREFUSED, -EHOSTUNREACH, -ENOENT...   no connection
 *   -ECONNRESET   the connection was closed without an answer
 *   -ETIMEDOUT    no whole answer in time
 *   -EPROTO       the answer is not HTTP, or too large; or TLS does not trust the other side
 */
int weir_http_ask(struct weir_http *http, const char *method, const char *path, const char *body,
	uint64_t timeout_ns, struct weir_http_answer *answer, char *text, size_t size);

/* A segment of a path, escaped; the caller frees it. NULL: no memory. */
char *weir_http_escape(const char *segment);

#endif
