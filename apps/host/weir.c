/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/host/weir.h"
#include "apps/host/weir_priv.h"
#include "apps/host/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS  30000
#define CARRY_BYTES (UINT64_C(256) << 20)
#define AHEAD_BYTES (UINT64_C(64) << 20)
#define SILENCE_NS  (2000 * WEIR_NS_PER_MS) /* of the switch, before its control API is asked */

/*
 * The handle, by its number, whose operation of another thread kept this thread's from beginning: the
 * error text is that operation's, so this thread is told from here. 0: none.
 */
static _Thread_local uint64_t kept_out_by;

static int
read_config(struct weir *weir, const struct weir_config *c)
{
	if (c->sources > WEIR_SOURCES_MAX)
		return weir_explain(weir, -EINVAL, "sources: %u is not in [0, 256]", c->sources);
	weir->switch_base.sin_family = weir->switch_ext.sin_family = AF_INET;
	weir->own.sin_family = AF_INET;
	weir->base_form = c->base_form;
	weir->window_limit = c->window_limit;
	weir->join_timeout =
		(c->join_timeout_ms ? c->join_timeout_ms : TIMEOUT_MS) * WEIR_NS_PER_MS;
	weir->join_patience = weir->join_timeout;
	weir->op_timeout = (c->op_timeout_ms ? c->op_timeout_ms : TIMEOUT_MS) * WEIR_NS_PER_MS;
	if ((unsigned int)c->partial > WEIR_PARTIAL_FAIL)
		return weir_explain(weir, -EINVAL, "partial: %u is none of WEIR_PARTIAL_...",
			(unsigned int)c->partial);
	weir->partial = c->partial;
	weir->carry = c->carry;
	weir->ahead.limit = c->ahead_bytes != 0 ? c->ahead_bytes : AHEAD_BYTES;
	weir->carry_limit = c->carry_bytes != 0 ? c->carry_bytes : CARRY_BYTES;
	return 0;
}

/* Where the switch is and who this host is, all given. */
static int
read_addresses(struct weir *weir, const struct weir_config *c)
{
	uint16_t base = c->port_base ? c->port_base : WEIR_PORT_BASE;
	uint16_t ext = c->port_ext ? c->port_ext : WEIR_PORT_EXT;

	weir->switch_base.sin_port = htons(base);
	weir->switch_ext.sin_port = htons(ext);
	if (c->switch_address == NULL ||
		inet_pton(AF_INET, c->switch_address, &weir->switch_ext.sin_addr) != 1)
		return weir_explain(weir, -EINVAL, "switch_address: \"%s\" is not an IPv4 address",
			c->switch_address ? c->switch_address : "");
	weir->switch_base.sin_addr = weir->switch_ext.sin_addr;
	if (c->address == NULL || inet_pton(AF_INET, c->address, &weir->own.sin_addr) != 1)
		return weir_explain(weir, -EINVAL, "address: \"%s\" is not an IPv4 address",
			c->address ? c->address : "");
	if (base == ext)
		return weir_explain(weir, -EINVAL, "port_base and port_ext are both %u", base);
	if (c->source < 0 || c->source >= WEIR_SOURCES_MAX)
		return weir_explain(weir, -EINVAL, "source: %d is not in [0, 256)", c->source);
	weir->job = c->job;
	weir->source = (uint8_t)c->source;
	weir->expected = c->sources;
	snprintf(weir->job_text, sizeof(weir->job_text), "job %u", weir->job);
	return 0;
}

/* The same, given or learned from the control API; the join has what is left of its time. */
static int
find_switch(struct weir *weir, const struct weir_config *config)
{
	uint64_t deadline = weir_now() + weir->join_timeout, now;
	int code;

	if (!weir_control_wanted(config))
		return read_addresses(weir, config);
	code = weir_control_join(weir, config, deadline);
	now = weir_now();
	weir->join_timeout = deadline > now ? deadline - now : 1;
	return code;
}

void
weir_keep_out(const struct weir *weir, bool kept)
{
	kept_out_by = kept ? weir->number : 0;
}

int
weir_use_key(struct weir *weir, const uint8_t *key, size_t bytes)
{
	int code;

	if (weir->base_form)
		return weir_explain(
			weir, -EINVAL, "the base form has no place for an authenticated job's tag");
	weir_auth_destroy(weir->auth);
	code = weir_auth_create(&weir->auth, key, bytes, weir->source);
	if (code == -EINVAL)
		return weir_explain(weir, code, "key_bytes: %zu is neither %u nor %u", bytes,
			WEIR_KEY_BYTES, 2 * WEIR_KEY_BYTES);
	return code == 0 ? 0 : weir_explain(weir, code, "out of memory");
}

int
weir_inquire(struct weir *weir, int code)
{
	char text[WEIR_ERROR_MAX];
	size_t used;
	int verdict;

	if (weir->control == NULL || (code != -ETIMEDOUT && code != -EACCES && code != -ENOENT))
		return code;
	verdict = weir_control_inquire(
		weir, weir->have_waiting ? weir->waiting : NULL, text, sizeof(text));
	if (verdict < 0)
		return weir_explain(weir, verdict, "%s", text);
	used = strlen(weir->error);
	if (code == -ETIMEDOUT)
		snprintf(weir->error + used, sizeof(weir->error) - used, "%s", text);
	return code;
}

static int
open_handle(struct weir *weir, const struct weir_config *config)
{
	int code = read_config(weir, config);

	if (code == 0)
		code = find_switch(weir, config);
	weir->known[weir->source / 8] |= (uint8_t)(1u << weir->source % 8);
	weir->key_given = config->key != NULL;
	if (code == 0 && weir->key_given)
		code = weir_use_key(weir, config->key, config->key_bytes);
	if (code == 0)
		code = weir_socket_open(weir);
	if (code < 0)
		return weir_inquire(weir, code);
	return weir_begin(weir);
}

int
weir_open(const struct weir_config *config, struct weir **out)
{
	static uint64_t handles;
	struct weir *weir = calloc(1, sizeof(*weir));

	*out = weir;
	if (weir == NULL)
		return -ENOMEM;
	weir->number = __atomic_add_fetch(&handles, 1, __ATOMIC_RELAXED);
	weir->rank = "source";
	weir->fd = weir->group_fd = weir->wake_fd = -1;
	pthread_mutex_init(&weir->lock, NULL);
	pthread_cond_init(&weir->finished, NULL);
	weir->failed = open_handle(weir, config);
	return weir->failed;
}

void
weir_close(struct weir *weir)
{
	if (weir == NULL)
		return;
	weir_end(weir);
	weir_control_leave(weir->control);
	weir_carry_forget(weir, NULL);
	if (weir->fd >= 0)
		close(weir->fd);
	if (weir->wake_fd >= 0)
		close(weir->wake_fd);
	weir_auth_destroy(weir->auth);
	free(weir->degraded);
	pthread_cond_destroy(&weir->finished);
	pthread_mutex_destroy(&weir->lock);
	free(weir);
}

/*
 * Wait for the end of the operation; under the lock. When the switch is silent for some seconds, ask
 * its control API whether there is anything to wait for: a job that is gone need not take the whole
 * time limit. The progress thread goes on meanwhile.
 */
static void
await(struct weir *weir, struct weir_operation *operation, char *text, size_t size)
{
	uint64_t heard = __atomic_load_n(&weir->stats.packets_received, __ATOMIC_RELAXED);
	uint64_t interval = SILENCE_NS;

	while (!operation->finished && weir->control == NULL)
		pthread_cond_wait(&weir->finished, &weir->lock);
	while (!operation->finished) {
		uint64_t at = weir_now() + interval, packets;
		struct timespec until = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
		int rc = 0;

		while (!operation->finished && rc == 0)
			rc = pthread_cond_clockwait(
				&weir->finished, &weir->lock, CLOCK_MONOTONIC, &until);
		packets = __atomic_load_n(&weir->stats.packets_received, __ATOMIC_RELAXED);
		if (!operation->finished && packets == heard && weir->verdict == 0) {
			int verdict;

			pthread_mutex_unlock(&weir->lock);
			verdict = weir_control_inquire(weir, NULL, text, size);
			pthread_mutex_lock(&weir->lock);
			weir->verdict = verdict;
			weir_wake(weir);
			interval *= 2;
		}
		heard = packets;
	}
}

/* Hand an operation over and wait for its end. */
static int
run(struct weir *weir, struct weir_operation *operation)
{
	char text[WEIR_ERROR_MAX];
	int verdict, code;

	pthread_mutex_lock(&weir->lock);
	if (weir->busy) {
		pthread_mutex_unlock(&weir->lock);
		weir_keep_out(weir, true);
		return -EBUSY;
	}
	weir->busy = true;
	weir->error[0] = '\0';
	weir->degraded_count = 0;
	weir->result = (struct weir_result){
		.blocks = operation->blocks,
		.sources_least = weir->sources,
	};
	operation->code = weir_partial_begin(weir, operation);
	if (operation->code == -EINVAL) {
		weir->busy = false;
		pthread_mutex_unlock(&weir->lock);
		return operation->code;
	}
	weir->submitted = operation;
	weir_wake(weir);
	weir->verdict = 0;
	await(weir, operation, text, sizeof(text));
	verdict = weir->verdict;
	weir_carry_end(weir, operation);
	code = operation->code >= 0 ? weir_partial_conclude(weir, operation) : operation->code;
	weir->busy = false;
	pthread_mutex_unlock(&weir->lock);
	if (operation->code >= 0)
		return code;
	if (verdict != 0 && operation->code == verdict)
		return weir_explain(weir, verdict, "%s", text);
	weir->failed = weir_inquire(weir, operation->code);
	return weir->failed;
}

int
weir_allreduce(struct weir *weir, const void *send, void *recv, size_t count, enum weir_dtype dtype,
	enum weir_op op)
{
	struct weir_operation operation = {
		.send = send,
		.recv = recv,
		.count = count,
		.element_bytes = weir_dtype_bytes(dtype),
		.collective = WEIR_COLLECTIVE_ALLREDUCE,
		.dtype = (uint8_t)dtype,
		.op = (uint8_t)op,
	};
	size_t blocks;

	kept_out_by = 0;
	if (weir->failed != 0)
		return weir->failed;
	if (operation.element_bytes == 0 || (unsigned int)op > WEIR_OP_LXOR)
		return weir_explain(weir, -EINVAL, "type %u or operation %u does not exist",
			(unsigned int)dtype, (unsigned int)op);
	if (weir->base_form && (dtype != weir->job_dtype || op != weir->job_op))
		return weir_explain(weir, -EINVAL,
			"the base form carries only the job's own type (%u) and operation (%u), "
			"not %u "
			"and %u: open without base_form",
			weir->job_dtype, weir->job_op, (unsigned int)dtype, (unsigned int)op);
	if (count == 0) {
		weir->result = (struct weir_result){.sources_least = weir->sources};
		weir->degraded_count = 0;
		return 0;
	}
	if (send == NULL || recv == NULL)
		return weir_explain(weir, -EINVAL, "%s is NULL and count is %zu",
			send == NULL ? "send" : "recv", count);
	operation.per_block = weir_elements(weir, dtype);
	blocks = count / operation.per_block + (count % operation.per_block != 0);
	if (blocks > INT32_MAX)
		return weir_explain(
			weir, -EINVAL, "%zu elements are more than 2^31 - 1 blocks", count);
	operation.blocks = (uint32_t)blocks;
	return run(weir, &operation);
}

int
weir_barrier(struct weir *weir)
{
	struct weir_operation operation = {
		.collective = WEIR_COLLECTIVE_BARRIER,
		.per_block = 1,
		.blocks = 1,
	};

	kept_out_by = 0;
	if (weir->failed != 0)
		return weir->failed;
	return run(weir, &operation);
}

const char *
weir_last_error(const struct weir *weir)
{
	if (weir == NULL)
		return "no memory for a handle";
	if (weir->number == kept_out_by)
		return "another thread's operation is under way on this handle: wait for its end, "
		       "or open a handle for each thread";
	return weir->error;
}

void
weir_last_result(const struct weir *weir, struct weir_result *result)
{
	*result = weir->result;
}

size_t
weir_degraded(const struct weir *weir, const struct weir_degraded **blocks)
{
	*blocks = weir->degraded;
	return weir->degraded_count;
}

void
weir_stats(const struct weir *weir, struct weir_stats *stats)
{
#define X(name, help) stats->name = __atomic_load_n(&weir->stats.name, __ATOMIC_RELAXED);
	WEIR_STATS_LIST(X)
#undef X
}

unsigned int
weir_source(const struct weir *weir)
{
	return weir->source;
}

unsigned int
weir_job(const struct weir *weir)
{
	return weir->job;
}

unsigned int
weir_sources(const struct weir *weir)
{
	return weir->sources;
}

unsigned int
weir_window(const struct weir *weir)
{
	return weir->ring.window;
}

unsigned int
weir_timeout_ms(const struct weir *weir)
{
	return weir->timeout_ms;
}

unsigned int
weir_generation(const struct weir *weir)
{
	return weir->generation;
}

enum weir_dtype
weir_job_dtype(const struct weir *weir)
{
	return (enum weir_dtype)weir->job_dtype;
}

enum weir_op
weir_job_op(const struct weir *weir)
{
	return (enum weir_op)weir->job_op;
}

unsigned int
weir_elements(const struct weir *weir, enum weir_dtype dtype)
{
	unsigned int elements = weir_dtype_bytes(dtype) > 4 ? weir->elements / 2 : weir->elements;

	return elements == 0 ? weir->elements : elements;
}
