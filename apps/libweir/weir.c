/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/weir.h"
#include "apps/libweir/engine.h"
#include "apps/libweir/control.h"
#include "apps/libweir/work.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS       30000
#define FEEDBACK_BYTES   (UINT64_C(256) << 20)
#define UNEXPECTED_BYTES (UINT64_C(64) << 20)

bool
weir_inherited(const struct weir *weir)
{
	return weir->h.process != weir_process();
}

int
weir_check_process(const struct weir *weir)
{
	if (!weir_inherited(weir))
		return 0;
	return weir_error_return(&weir->h, -EINVAL,
		"the handle is of the process that forked: open one in this process");
}

static int
read_config(struct weir *weir, const struct weir_config *c)
{
	struct weir_handle *h = &weir->h;

	if (c->sources > WEIR_SOURCES_MAX)
		return weir_error_set(h, -EINVAL, "sources: %u is not in [0, 256]", c->sources);
	if (c->spin_us < -1 || c->spin_us > WEIR_SPIN_US_MAX)
		return weir_error_set(
			h, -EINVAL, "spin_us: %d is not in [-1, %d]", c->spin_us, WEIR_SPIN_US_MAX);
	if ((unsigned int)c->partial > WEIR_PARTIAL_FAIL)
		return weir_error_set(h, -EINVAL, "partial: %u is none of WEIR_PARTIAL_...",
			(unsigned int)c->partial);
	h->switch_base.sin_family = h->switch_ext.sin_family = h->own.sin_family = AF_INET;
	h->base_form = c->base_form;
	h->window_limit = c->window_limit;
	h->join_timeout = (c->join_timeout_ms ? c->join_timeout_ms : TIMEOUT_MS) * WEIR_NS_PER_MS;
	h->contact_timeout =
		c->contact_timeout_ms ? c->contact_timeout_ms * WEIR_NS_PER_MS : h->join_timeout;
	h->op_timeout = (c->op_timeout_ms ? c->op_timeout_ms : TIMEOUT_MS) * WEIR_NS_PER_MS;
	h->silence_timeout =
		c->silence_timeout_ms ? c->silence_timeout_ms * WEIR_NS_PER_MS : h->op_timeout;
	h->partial = c->partial;
	h->error_feedback = c->error_feedback;
	h->error_feedback_limit =
		c->error_feedback_bytes ? c->error_feedback_bytes : FEEDBACK_BYTES;
	h->warn = c->warn;
	h->warn_context = c->warn_context;
	weir->unexpected.limit = c->unexpected_bytes ? c->unexpected_bytes : UNEXPECTED_BYTES;
	weir_spin_init(&weir->spin,
		c->spin_us < 0 ? 0 : (c->spin_us ? (uint64_t)c->spin_us : WEIR_SPIN_US) * 1000);
	return 0;
}

/* Read the addresses of the switch and this host from the configuration. */
static int
read_addresses(struct weir_handle *h, const struct weir_config *c)
{
	uint16_t base = c->port_base ? c->port_base : WEIR_PORT_BASE;
	uint16_t ext = c->port_ext ? c->port_ext : WEIR_PORT_EXT;

	h->switch_base.sin_port = htons(base);
	h->switch_ext.sin_port = htons(ext);
	if (c->switch_address == NULL)
		return weir_error_set(h, -EINVAL,
			"where is the switch? Set WEIR_SWITCH, or control, to its control API's "
			"address, such as http://10.0.0.1:8080; or give switch_address and "
			"address");
	if (inet_pton(AF_INET, c->switch_address, &h->switch_ext.sin_addr) != 1)
		return weir_error_set(h, -EINVAL, "switch_address: \"%s\" is not an IPv4 address",
			c->switch_address);
	h->switch_base.sin_addr = h->switch_ext.sin_addr;
	if (c->address == NULL)
		return weir_error_set(h, -EINVAL,
			"address: with switch_address it is this host's own IPv4 address, of the "
			"interface towards the switch");
	if (inet_pton(AF_INET, c->address, &h->own.sin_addr) != 1 ||
		h->own.sin_addr.s_addr == htonl(INADDR_ANY))
		return weir_error_set(
			h, -EINVAL, "address: \"%s\" is not an IPv4 address of a host", c->address);
	if (base == ext)
		return weir_error_set(h, -EINVAL, "port_base and port_ext are both %u", base);
	if (c->source < 0 || c->source >= WEIR_SOURCES_MAX)
		return weir_error_set(h, -EINVAL, "source: %d is not in [0, 256)", c->source);
	h->job = c->job;
	h->source = (uint8_t)c->source;
	h->expected = c->sources;
	snprintf(h->job_text, sizeof(h->job_text), "job %u", h->job);
	return 0;
}

int
weir_query_job(struct weir *weir, int code)
{
	uint8_t waiting[WEIR_BITMAP_BYTES];
	char text[WEIR_ERROR_MAX];
	bool has_waiting;
	int found;

	if (weir->h.control == NULL || (code != -ETIMEDOUT && code != -EACCES && code != -ENOENT))
		return code;
	pthread_mutex_lock(&weir->lock);
	has_waiting = weir->h.has_waiting;
	memcpy(waiting, weir->h.waiting, sizeof(waiting));
	pthread_mutex_unlock(&weir->lock);
	found = weir_control_query(&weir->h, has_waiting ? waiting : NULL, text, sizeof(text));
	pthread_mutex_lock(&weir->lock);
	if (weir->is_closing) /* all requests have ended with weir->failed: keep its text */
		code = weir->failed;
	else if (found < 0)
		code = weir_error_set(&weir->h, found, "%s", text);
	else if (code == -ETIMEDOUT)
		weir_error_add(&weir->h, text);
	pthread_mutex_unlock(&weir->lock);
	return code;
}

/* Read the configuration, which is not used afterwards. Does not wait. */
static int
prepare(struct weir *weir, const struct weir_config *config)
{
	const char *variable = secure_getenv("WEIR_SWITCH");
	struct weir_handle *h = &weir->h;
	bool joins_over_api;
	int code;

	if (config == NULL)
		return weir_error_set(h, -EINVAL, "config is NULL");
	joins_over_api = config->control != NULL ||
		(config->switch_address == NULL && variable != NULL && variable[0] != '\0');
	code = read_config(weir, config);
	if (code == 0)
		code = joins_over_api ? weir_control_prepare(h, config) : read_addresses(h, config);
	h->is_key_configured = config->key != NULL;
	if (code == 0 && h->is_key_configured && config->base_form)
		code = weir_error_set(
			h, -EINVAL, "the base form has no place for an authenticated job's tag");
	else if (code == 0 && h->is_key_configured && config->key_bytes != WEIR_KEY_BYTES)
		code = weir_error_set(
			h, -EINVAL, "key_bytes: %zu is not %u", config->key_bytes, WEIR_KEY_BYTES);
	else if (code == 0 && h->is_key_configured)
		code = weir_auth_use(h, config->key, !config->key_of_source);
	h->known[h->source / 8] |= (uint8_t)(1u << h->source % 8);
	return code;
}

/* Make a handle, and read its configuration. 0, or -errno: *out has the reason, or is NULL if there
 * is no memory. */
static int
create(const struct weir_config *config, struct weir **out)
{
	static uint64_t handles;
	struct weir *weir;
	int code;

	if (out == NULL)
		return -EINVAL;
	*out = weir = calloc(1, sizeof(*weir));
	if (weir == NULL)
		return -ENOMEM;
	weir->h.number = __atomic_add_fetch(&handles, 1, __ATOMIC_RELAXED);
	weir->h.process = weir_process();
	weir->place = -1;
	weir->h.noun = "source";
	weir->h.wake_fd = weir->ended_fd = -1;
	pthread_mutex_init(&weir->h.warn_lock, NULL);
	pthread_mutex_init(&weir->lock, NULL);
	pthread_cond_init(&weir->ended, NULL);
	TAILQ_INIT(&weir->requests);
	TAILQ_INIT(&weir->ended_requests);
	code = prepare(weir, config);
	weir->joining.deadline = weir_now() + weir->h.join_timeout;
	return code < 0 ? weir_generation_set(weir, code) : 0;
}

int
weir_open(const struct weir_config *config, struct weir **out)
{
	int code = create(config, out);

	return code < 0 ? code : weir_generation_set(*out, weir_begin(*out));
}

/* ---- in the control thread ---- */

static void destroy(struct weir *weir);

static void
open_step(struct weir_work *work)
{
	struct weir *weir = work->owner;
	uint64_t until = 0;
	bool abandoned;
	int code;

	pthread_mutex_lock(&weir->lock);
	abandoned = weir->is_abandoned;
	pthread_mutex_unlock(&weir->lock);
	code = abandoned ? -ECANCELED : weir_begin_step(weir, &until);
	if (code == 0) {
		(void)weir_work_submit(work, until); /* cannot fail: the thread runs */
		return;
	}
	(void)weir_generation_set(weir, weir_begin_end(weir, code));
	pthread_mutex_lock(&weir->lock);
	weir->is_opening = false;
	weir->has_open_result = true;
	weir->unclaimed++;
	weir_fd_update(weir);
	abandoned = weir->is_abandoned;
	pthread_mutex_unlock(&weir->lock);
	if (abandoned) {
		weir_work_cancel(work);
		destroy(weir);
	}
}

int
weir_iopen(const struct weir_config *config, struct weir **out)
{
	int code = create(config, out);
	struct weir *weir;

	if (code < 0)
		return code;
	weir = *out;
	weir->open_work = (struct weir_work){.run = open_step, .owner = weir, .fd = -1};
	weir->is_opening = true;
	code = weir_work_submit(&weir->open_work, 0);
	if (code < 0) {
		weir->is_opening = false;
		weir_error_set(
			&weir->h, code, "cannot start the control thread: %s", strerror(-code));
		(void)weir_generation_set(weir, code);
	}
	return code;
}

int
weir_open_test(struct weir *weir, bool *done)
{
	int code = weir != NULL ? weir_check_process(weir) : -EINVAL;

	*done = true;
	if (code < 0)
		return code;
	pthread_mutex_lock(&weir->lock);
	*done = !weir->is_opening;
	if (weir->has_open_result) {
		weir->has_open_result = false;
		weir->unclaimed--;
		weir_fd_update(weir);
	}
	code = weir->is_opening ? 0 : weir->failed;
	if (code < 0)
		weir_error_return(&weir->h, code, "%s", weir->failure);
	pthread_mutex_unlock(&weir->lock);
	return code;
}

/* ---- closing ---- */

/* End all requests, and wait until no thread waits for them. */
static void
cancel(struct weir *weir)
{
	struct weir_request *o;

	pthread_mutex_lock(&weir->lock);
	weir->is_closing = true;
	if (!TAILQ_EMPTY(&weir->requests))
		weir_fail(weir, weir_error_set(&weir->h, -ECANCELED, "the handle was closed"));
	while (weir->waiters > 0 || weir->held_requests > 0)
		pthread_cond_wait(&weir->ended, &weir->lock);
	while ((o = TAILQ_FIRST(&weir->ended_requests)) != NULL) {
		TAILQ_REMOVE(&weir->ended_requests, o, link);
		weir_request_free(o);
	}
	pthread_mutex_unlock(&weir->lock);
}

static void
close_descriptors(struct weir *weir, bool in_child)
{
	struct weir_transport *t = weir->h.transport;

	if (t != NULL)
		t->ops->close(t, in_child);
	if (weir->h.wake_fd >= 0)
		close(weir->h.wake_fd);
	if (weir->ended_fd >= 0)
		close(weir->ended_fd);
}

/* No other thread uses the handle any more. */
static void
destroy(struct weir *weir)
{
	weir_end(weir);
	weir_control_leave(weir->h.control);
	weir_error_feedback_drop(&weir->h, NULL);
	close_descriptors(weir, false);
	weir_auth_destroy(weir->h.auth);
	free(weir->degraded);
	pthread_cond_destroy(&weir->ended);
	pthread_mutex_destroy(&weir->lock);
	pthread_mutex_destroy(&weir->h.warn_lock);
	free(weir);
}

void
weir_close(struct weir *weir)
{
	bool opening;

	if (weir == NULL)
		return;
	if (weir_inherited(weir)) {
		/* A thread of the parent may hold the lock, and the membership is the parent's. */
		close_descriptors(weir, true);
		return;
	}
	/* If the control thread is opening the handle, it frees the handle as soon as it can. */
	pthread_mutex_lock(&weir->lock);
	opening = weir->is_abandoned = weir->is_opening;
	if (opening) {
		/* Report nothing more; this waits for a report under way. */
		pthread_mutex_lock(&weir->h.warn_lock);
		weir->h.warn = NULL;
		weir->h.is_muted = true;
		pthread_mutex_unlock(&weir->h.warn_lock);
		weir->open_work.delays_exit = true;
		(void)weir_work_submit(&weir->open_work, 0); /* cannot fail: the thread runs */
	}
	pthread_mutex_unlock(&weir->lock);
	if (opening)
		return;
	cancel(weir);
	destroy(weir);
}

uint64_t
weir_error_feedback_forget(struct weir *weir, const void *buffer)
{
	uint64_t bytes;

	if (weir_inherited(weir))
		return 0;
	pthread_mutex_lock(&weir->lock);
	bytes = weir_error_feedback_drop(&weir->h, buffer);
	pthread_mutex_unlock(&weir->lock);
	return bytes;
}

const char *
weir_last_error(const struct weir *weir)
{
	return weir == NULL ? "no memory for a handle" : weir_error_last(&weir->h);
}

/* The lock of a handle that is only read. */
static pthread_mutex_t *
lock_of(const struct weir *weir)
{
	return &((struct weir *)(uintptr_t)weir)->lock;
}

void
weir_last_result(const struct weir *weir, struct weir_result *result)
{
	*result = (struct weir_result){0};
	if (weir_inherited(weir)) /* a thread of the parent may hold the lock */
		return;
	pthread_mutex_lock(lock_of(weir));
	*result = weir->result;
	pthread_mutex_unlock(lock_of(weir));
}

size_t
weir_degraded(const struct weir *weir, const struct weir_degraded **blocks)
{
	size_t count;

	*blocks = NULL;
	if (weir_inherited(weir))
		return 0;
	pthread_mutex_lock(lock_of(weir));
	*blocks = weir->degraded;
	count = weir->degraded_count;
	pthread_mutex_unlock(lock_of(weir));
	return count;
}

void
weir_stats_sized(const struct weir *weir, struct weir_stats *stats, size_t size)
{
	struct weir_stats own;

#define X(name, help) own.name = __atomic_load_n(&weir->h.stats.name, __ATOMIC_RELAXED);
	WEIR_STATS_LIST(X)
#undef X
	memset(stats, 0, size);
	memcpy(stats, &own, size < sizeof(own) ? size : sizeof(own));
}

/* Programs that call this function were compiled when the structure ended with `receive_buffer`. */
void(weir_stats)(const struct weir *weir, struct weir_stats *stats)
{
	weir_stats_sized(weir, stats,
		offsetof(struct weir_stats, receive_buffer) + sizeof(stats->receive_buffer));
}

/* Values that are fixed for a generation. */
#define GETTER(type, name, value)                                                                  \
	type weir_##name(const struct weir *weir)                                                  \
	{                                                                                          \
		return value;                                                                      \
	}
GETTER(unsigned int, source, weir->h.source)
GETTER(unsigned int, job, weir->h.job)
GETTER(unsigned int, rank, weir->h.rank)
GETTER(unsigned int, sources, weir->h.sources)
GETTER(unsigned int, window, weir->ring.recovery.window)
GETTER(unsigned int, timeout_ms, weir->h.timeout_ms)
GETTER(unsigned int, generation, weir->h.generation)
GETTER(unsigned int, mtu, weir->h.mtu)
GETTER(enum weir_dtype, job_dtype, (enum weir_dtype)weir->h.job_dtype)
GETTER(enum weir_op, job_op, (enum weir_op)weir->h.job_op)

unsigned int
weir_elements(const struct weir *weir, enum weir_dtype dtype)
{
	unsigned int elements =
		weir_dtype_bytes(dtype) > 4 ? weir->h.elements / 2 : weir->h.elements;

	return elements == 0 ? weir->h.elements : elements;
}
