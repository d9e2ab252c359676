/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts for tests of libweir: several handles in one process, each driven by a thread of its own,
 * at the reference switch on the loopback interface. Threads return codes; only the main thread
 * asserts. HOST_FIELDS, defined before: more fields of a host.
 */
#ifndef TESTS_UNIT_HOSTS_H
#define TESTS_UNIT_HOSTS_H

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <criterion/criterion.h>

#include "apps/libweir/weir.h"
#include "tests/model/fake_switch.h"

#define HOSTS_MAX 8
#define JOB       3

/* The cluster of a test: its switch, and one thread per host that runs `body`. */
struct host {
	struct weir_config config;
	struct weir *weir;
	struct weir_stats stats;
	char address[INET_ADDRSTRLEN];
	char error[1024];
	unsigned int id, hosts;
	size_t count;
	unsigned int rounds;
	int opened; /* code of weir_open */
	int code; /* of the first operation that did not return 0 */
	size_t wrong; /* elements */
	struct weir_result result; /* of the last operation */
#ifdef HOST_FIELDS
	HOST_FIELDS
#endif
	int (*body)(struct host *host);
	pthread_t thread;
};

static struct host hosts[HOSTS_MAX];
static struct fake_switch *fake;
static struct fake_switch_stats fake_stats; /* of the last run_all() */

static inline void
sleep_ms(unsigned int ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

/* Element i of source r in round k. */
static inline int32_t
element(unsigned int r, unsigned int k, size_t i)
{
	uint64_t z = r * UINT64_C(0x9e3779b97f4a7c15) + k * UINT64_C(0xd1342543de82ef95) + i;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (int32_t)(uint32_t)(z ^ z >> 31);
}

/* A job of int32 sums with small blocks, and no faults. */
static inline struct fake_switch_config
switch_config(unsigned int sources)
{
	return (struct fake_switch_config){
		.address = "127.0.0.1",
		.job = {.job = JOB,
			.sources = sources,
			.window = 16,
			.elements = 64,
			.dtype = WEIR_DTYPE_INT32,
			.op = WEIR_OP_SUM,
			.timeout_ms = 200},
	};
}

/* Start it, and make the hosts anew: each has an address of its own, and nothing to do yet. */
static inline void
start_switch(const struct fake_switch_config *c)
{
	int code = fake_switch_start(c, &fake);

	cr_assert_eq(code, 0, "fake switch: %s", strerror(-code));
	memset(hosts, 0, sizeof(hosts));
	for (unsigned int h = 0; h < HOSTS_MAX; h++) {
		snprintf(hosts[h].address, sizeof(hosts[h].address), "127.0.0.%u", 10 + h);
		hosts[h].config = (struct weir_config){
			.switch_address = "127.0.0.1",
			.address = hosts[h].address,
			.port_base = fake_switch_port(fake, false),
			.port_ext = fake_switch_port(fake, true),
			.job = JOB,
			.source = (int)h,
			.join_timeout_ms = 10000,
			.op_timeout_ms = 10000,
		};
		hosts[h].id = h;
		hosts[h].hosts = c->job.sources;
		hosts[h].rounds = 1;
	}
}

/* With a switch of this configuration for so many hosts. */
static inline void
serve(unsigned int sources)
{
	struct fake_switch_config c = switch_config(sources);

	start_switch(&c);
}

/* `rounds` AllReduces of count elements, each checked in full. */
static inline int
reduce(struct host *h)
{
	int32_t *data = malloc((h->count + 1) * 4), *result = malloc((h->count + 1) * 4);

	for (unsigned int k = 0; k < h->rounds && h->code == 0; k++) {
		for (size_t i = 0; i < h->count; i++)
			data[i] = element(h->id, k, i);
		result[h->count] = 0x5a5a5a5a;
		h->code = weir_allreduce(
			h->weir, data, result, h->count, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		for (size_t i = 0; i < h->count && h->code == 0; i++) {
			uint32_t sum = 0;

			for (unsigned int r = 0; r < h->hosts; r++)
				sum += (uint32_t)element(r, k, i);
			h->wrong += (uint32_t)result[i] != sum;
		}
		h->wrong += result[h->count] != 0x5a5a5a5a;
	}
	free(result);
	free(data);
	return h->code;
}

static inline void *
run_host(void *argument)
{
	struct host *h = argument;

	h->code = h->opened = weir_open(&h->config, &h->weir);
	if (h->opened == 0) {
		h->body(h);
		weir_last_result(h->weir, &h->result);
		weir_stats(h->weir, &h->stats);
	}
	snprintf(h->error, sizeof(h->error), "%s", weir_last_error(h->weir));
	weir_close(h->weir);
	h->weir = NULL;
	return NULL;
}

/* Hosts [from, to), all at once, each in a thread. */
static inline void
in_threads(unsigned int from, unsigned int to, void *(*call)(void *host))
{
	for (unsigned int h = from; h < to; h++)
		cr_assert_eq(pthread_create(&hosts[h].thread, NULL, call, &hosts[h]), 0);
	for (unsigned int h = from; h < to; h++)
		pthread_join(hosts[h].thread, NULL);
}

/* Open, do what the body says, close: hosts [from, to). */
static inline void
run_hosts(unsigned int from, unsigned int to)
{
	in_threads(from, to, run_host);
}

/* The same, of all that the switch serves; then it stops. */
static inline void
run_all(void)
{
	unsigned int n = hosts[0].hosts;

	run_hosts(0, n);
	fake_switch_stop(fake, &fake_stats);
	for (unsigned int h = 0; h < n; h++)
		cr_expect_eq(hosts[h].opened, 0, "host %u: %s", h, hosts[h].error);
}

/* The same, all with this body and so many elements. */
static inline void
play(int (*body)(struct host *host), size_t count)
{
	for (unsigned int h = 0; h < hosts[0].hosts; h++) {
		hosts[h].body = body;
		hosts[h].count = count;
	}
	run_all();
}

static inline void *
open_host(void *argument)
{
	struct host *h = argument;

	h->code = h->opened = weir_open(&h->config, &h->weir);
	return NULL;
}

/* Hosts [0, n) call this in their threads, and all succeed. */
static inline void
all_call(unsigned int n, void *(*call)(void *host))
{
	in_threads(0, n, call);
	for (unsigned int h = 0; h < n; h++)
		cr_assert_eq(hosts[h].code, 0, "host %u: %d: %s", h, hosts[h].code,
			weir_last_error(hosts[h].weir));
}

/* Handles for the main thread, of one process and of one address, at a switch with small blocks. */
static inline void
open_handles(unsigned int n, double faults, uint64_t random)
{
	struct fake_switch_config c = switch_config(n);

	c.loss = c.reorder = faults;
	c.seed = random;
	c.job.window = 8;
	c.job.elements = 16;
	c.job.timeout_ms = 1000;
	start_switch(&c);
	for (unsigned int h = 0; h < n; h++) {
		hosts[h].config.address = "127.0.0.9";
		hosts[h].config.op_timeout_ms = 20000;
	}
	all_call(n, open_host);
}

static inline void
close_handles(void)
{
	for (unsigned int h = 0; h < HOSTS_MAX; h++)
		weir_close(hosts[h].weir);
	fake_switch_stop(fake, NULL);
}

/* The host's first call that failed returned this, and its message has these words. */
static inline void
expect_failed(unsigned int h, int code, const char *words)
{
	cr_expect_eq(hosts[h].code, code, "host %u: %d %s", h, hosts[h].code, hosts[h].error);
	cr_expect_not_null(strstr(hosts[h].error, words), "host %u: %s", h, hosts[h].error);
}

static inline void
expect_right(unsigned int n)
{
	for (unsigned int h = 0; h < n; h++) {
		cr_expect_eq(hosts[h].opened, 0, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].code, 0, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].wrong, 0u, "host %u: %zu wrong", h, hosts[h].wrong);
	}
}

#endif
