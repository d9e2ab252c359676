/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/connection.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "apps/libweir/handle.h"
#include "apps/libweir/work.h"

static void close_old(struct weir_work *work);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static TAILQ_HEAD(, weir_connection) kept = TAILQ_HEAD_INITIALIZER(kept); /* the oldest first */
static struct weir_work closing = {.run = close_old, .fd = -1};

static bool
same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool
copy(char **to, const char *from)
{
	*to = from == NULL ? NULL : strdup(from);
	return *to != NULL || from == NULL;
}

static void
destroy(struct weir_connection *c)
{
	if (c == NULL)
		return;
	weir_http_close(c->http);
	if (c->token != NULL)
		explicit_bzero(c->token, strlen(c->token));
	free(c->token);
	free(c->address);
	free(c->ca_file);
	free(c);
}

/* ---- fork ---- */

/* The child shares its parent's sockets, and must neither use nor shut them down. */
static void
in_child(void)
{
	TAILQ_INIT(&kept);
	pthread_mutex_unlock(&lock);
}

WEIR_SEES_FORKS(&lock, in_child)

/* ---- connections ---- */

static struct weir_connection *
find(const struct weir_http_config *config)
{
	struct weir_connection *c;

	TAILQ_FOREACH (c, &kept, link)
		if (same(c->address, config->address) && same(c->token, config->token) &&
			same(c->ca_file, config->ca_file))
			return c;
	return NULL;
}

int
weir_connection_take(const struct weir_http_config *config, struct weir_connection **out,
	char *text, size_t size)
{
	struct weir_http_config own = *config;
	struct weir_connection *c;
	int code;

	(void)sees_forks();
	pthread_mutex_lock(&lock);
	*out = c = find(config);
	if (c != NULL)
		TAILQ_REMOVE(&kept, c, link);
	pthread_mutex_unlock(&lock);
	if (c != NULL) {
		c->answer.status = 0;
		weir_http_interrupt(c->http, config->interrupted, config->argument);
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL || !copy(&c->address, config->address) || !copy(&c->token, config->token) ||
		!copy(&c->ca_file, config->ca_file)) {
		destroy(c);
		return weir_error_text(text, size, -ENOMEM, "out of memory");
	}
	own.address = c->address;
	own.token = c->token;
	own.ca_file = c->ca_file;
	code = weir_http_open(&own, &c->http, text, size);
	if (code < 0)
		destroy(c);
	else
		*out = c;
	return code;
}

void
weir_connection_give(struct weir_connection *c)
{
	bool good = c->answer.status != 0;

	/* It may contain a key, even if it was cut off. */
	explicit_bzero(c->answer.body, c->answer.length);
	c->until = weir_now() + WEIR_KEEP_NS;
	/* Keep the connection only if the control thread can close it later. */
	good = good && weir_work_submit(&closing, c->until) == 0;
	pthread_mutex_lock(&lock);
	good = good &&
		find(&(struct weir_http_config){
			.address = c->address, .token = c->token, .ca_file = c->ca_file}) == NULL;
	if (good)
		TAILQ_INSERT_TAIL(&kept, c, link);
	pthread_mutex_unlock(&lock);
	if (!good)
		destroy(c);
}

/* In the control thread. */
static void
close_old(struct weir_work *work)
{
	uint64_t now = weir_now(), until = 0;
	struct weir_connection *c;

	do {
		pthread_mutex_lock(&lock);
		c = TAILQ_FIRST(&kept);
		if (c != NULL && c->until > now) {
			until = c->until;
			c = NULL;
		}
		if (c != NULL)
			TAILQ_REMOVE(&kept, c, link);
		pthread_mutex_unlock(&lock);
		destroy(c);
	} while (c != NULL);
	if (until != 0)
		(void)weir_work_submit(work, until);
}
