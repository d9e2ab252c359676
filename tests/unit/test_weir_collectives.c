/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All collectives of libweir in one stream, against the reference switch: calls, roots and counts on a seed, in
 * place and not, several under way, over loopback UDP with losses. Threads return codes; only the main
 * thread asserts.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/libweir/weir.h"
#include "tests/model/fake_switch.h"
#include "tests/random.h"

#define HOSTS_MAX 5
#define CALLS     120
#define FLYING    6 /* calls under way at most */
#define MOST      300 /* elements of a slice, or of a whole buffer */
#define ROOM      (MOST * HOSTS_MAX)
#define UNTOUCHED 0x5a5a5a5a

static struct host {
	struct weir_config config;
	struct weir *weir;
	unsigned int id;
	bool late; /* it lets the others wait, now and then */
	int code;
	size_t wrong, of; /* elements that are wrong; the first call that had them */
	pthread_t thread;
} hosts[HOSTS_MAX];

/* A call, as all hosts have it. */
static struct call {
	unsigned int collective, root;
	size_t count;
} calls[CALLS];

/* A call, as a host has it. */
struct flying {
	struct weir_request *request;
	unsigned int call;
	int32_t *send, *recv; /* where they are, in: */
	int32_t first[ROOM], second[ROOM];
};

static unsigned int hosts_count;
static uint64_t seed;

static int32_t
value(unsigned int rank, unsigned int call, size_t at)
{
	return (int32_t)(rank * 1000003 + call * 10007 + at);
}

/* Elements of the buffers of a call, for a rank. */
static size_t
extent(const struct call *c, unsigned int rank, bool send)
{
	size_t all = c->count * hosts_count;
	bool root = rank == c->root;

	switch (c->collective) {
	case WEIR_COLLECTIVE_REDUCE: return send || root ? c->count : 0;
	case WEIR_COLLECTIVE_BROADCAST: return !send || root ? c->count : 0;
	case WEIR_COLLECTIVE_REDUCESCATTER: return send ? all : c->count;
	case WEIR_COLLECTIVE_SCATTER: return !send ? c->count : root ? all : 0;
	case WEIR_COLLECTIVE_GATHER: return send ? c->count : root ? all : 0;
	case WEIR_COLLECTIVE_ALLGATHER: return send ? c->count : all;
	case WEIR_COLLECTIVE_ALLTOALL: return all;
	case WEIR_COLLECTIVE_BARRIER: return 0;
	default: return c->count;
	}
}

/* The element that a rank has to get. */
static int32_t
expected(unsigned int call, unsigned int rank, size_t at)
{
	const struct call *c = &calls[call];
	size_t slice = at / c->count, in = at % c->count;
	uint32_t sum = 0;

	if (c->collective == WEIR_COLLECTIVE_REDUCESCATTER)
		at += rank * c->count;
	for (unsigned int r = 0; r < hosts_count; r++)
		sum += (uint32_t)value(r, call, at);
	switch (c->collective) {
	case WEIR_COLLECTIVE_BROADCAST: return value(c->root, call, at);
	case WEIR_COLLECTIVE_SCATTER: return value(c->root, call, rank * c->count + at);
	case WEIR_COLLECTIVE_GATHER:
	case WEIR_COLLECTIVE_ALLGATHER: return value((unsigned int)slice, call, in);
	case WEIR_COLLECTIVE_ALLTOALL:
		return value((unsigned int)slice, call, rank * c->count + in);
	default: return (int32_t)sum;
	}
}

/* Where the smaller of the buffers lies in the larger, in place. */
static size_t
shift(const struct call *c, unsigned int rank)
{
	return c->collective == WEIR_COLLECTIVE_REDUCESCATTER ||
			c->collective == WEIR_COLLECTIVE_SCATTER ||
			c->collective == WEIR_COLLECTIVE_GATHER ||
			c->collective == WEIR_COLLECTIVE_ALLGATHER
		? rank * c->count
		: 0;
}

static int
begin(struct host *h, struct flying *f, unsigned int call, bool in_place)
{
	const struct call *c = &calls[call];
	size_t sends = extent(c, h->id, true), receives = extent(c, h->id, false);
	const enum weir_dtype type = WEIR_DTYPE_INT32;
	struct weir_request **request = &f->request;
	struct weir *weir = h->weir;

	f->call = call;
	f->send = f->first;
	f->recv = f->second;
	for (size_t i = 0; i < ROOM; i++)
		f->first[i] = f->second[i] = UNTOUCHED;
	if (in_place && sends != 0 && receives != 0) {
		f->recv = f->first;
		*(sends > receives ? &f->recv : &f->send) += shift(c, h->id);
	}
	for (size_t i = 0; i < sends; i++)
		f->send[i] = value(h->id, call, i);
	if (sends == 0)
		f->send = NULL;
	if (receives == 0)
		f->recv = NULL;
	switch (c->collective) {
	case WEIR_COLLECTIVE_ALLREDUCE:
		return weir_iallreduce(
			weir, f->send, f->recv, c->count, type, WEIR_OP_SUM, request);
	case WEIR_COLLECTIVE_REDUCE:
		return weir_ireduce(
			weir, f->send, f->recv, c->count, type, WEIR_OP_SUM, c->root, request);
	case WEIR_COLLECTIVE_REDUCESCATTER:
		return weir_ireducescatter(
			weir, f->send, f->recv, c->count, type, WEIR_OP_SUM, request);
	case WEIR_COLLECTIVE_BROADCAST:
		return weir_ibroadcast(weir, f->send, f->recv, c->count, type, c->root, request);
	case WEIR_COLLECTIVE_SCATTER:
		return weir_iscatter(weir, f->send, f->recv, c->count, type, c->root, request);
	case WEIR_COLLECTIVE_GATHER:
		return weir_igather(weir, f->send, f->recv, c->count, type, c->root, request);
	case WEIR_COLLECTIVE_ALLGATHER:
		return weir_iallgather(weir, f->send, f->recv, c->count, type, request);
	case WEIR_COLLECTIVE_ALLTOALL:
		return weir_ialltoall(weir, f->send, f->recv, c->count, type, request);
	default: return weir_ibarrier(weir, request);
	}
}

/* Wait for it, if there is one, and look at all of its buffers. */
static void
end(struct host *h, struct flying *f)
{
	const struct call *c = &calls[f->call];
	size_t receives = extent(c, h->id, false), before = h->wrong;

	if (f->request == NULL)
		return;
	h->code = weir_wait(&f->request);
	for (size_t i = 0; h->code == 0 && i < receives; i++)
		h->wrong += f->recv[i] != expected(f->call, h->id, i);
	/* Nothing is written behind it. */
	for (size_t i = receives; f->recv == f->second && i < ROOM; i++)
		h->wrong += f->second[i] != UNTOUCHED;
	if (before == 0 && h->wrong != 0)
		h->of = f->call;
}

static void *
run_host(void *argument)
{
	struct flying *flying = calloc(FLYING, sizeof(*flying));
	struct host *h = argument;
	uint64_t own = seed + h->id;

	h->code = weir_open(&h->config, &h->weir);
	for (unsigned int k = 0; k < CALLS && h->code == 0; k++) {
		struct flying *f = &flying[random_bits(&own) % FLYING];

		end(h, f);
		if (h->code == 0)
			h->code = begin(h, f, k, random_bits(&own) % 2 == 0);
		if (h->late && random_bits(&own) % 16 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	for (unsigned int i = 0; i < FLYING && h->code == 0; i++)
		end(h, &flying[i]);
	free(flying);
	return NULL;
}

static void
draw_calls(void)
{
	uint64_t random = seed;

	for (unsigned int k = 0; k < CALLS; k++) {
		struct call *c = &calls[k];
		unsigned int size = (unsigned int)(random_bits(&random) % 4);

		c->collective =
			(unsigned int)(random_bits(&random) % (WEIR_COLLECTIVE_BARRIER + 1));
		c->root = (unsigned int)(random_bits(&random) % hosts_count);
		c->count = size == 0 ? 1 : 1 + random_bits(&random) % (size == 1 ? 10 : MOST);
	}
}

/* elements: of a block; fewer than hosts * hosts make an alltoall go as scatters. */
static void
play(unsigned int n, unsigned int elements, double loss)
{
	struct fake_switch_config c = {
		.address = "127.0.0.1",
		.loss = loss,
		.duplicate = loss,
		.reorder = loss,
		.job = {.job = 4,
			.sources = n,
			.window = 8,
			.elements = elements,
			.dtype = WEIR_DTYPE_INT32,
			.timeout_ms = 1000},
	};
	struct fake_switch *fake;

	seed = random_seed();
	hosts_count = n;
	c.seed = seed;
	draw_calls();
	cr_assert_eq(fake_switch_start(&c, &fake), 0);
	for (unsigned int h = 0; h < n; h++) {
		hosts[h].id = h;
		hosts[h].late = h == n - 1;
		hosts[h].config = (struct weir_config){
			.switch_address = "127.0.0.1",
			.address = "127.0.0.9",
			.port_base = fake_switch_port(fake, false),
			.port_ext = fake_switch_port(fake, true),
			.job = 4,
			.source = (int)h,
			.join_timeout_ms = 10000,
			.op_timeout_ms = 20000,
		};
		cr_assert_eq(pthread_create(&hosts[h].thread, NULL, run_host, &hosts[h]), 0);
	}
	for (unsigned int h = 0; h < n; h++)
		pthread_join(hosts[h].thread, NULL);
	for (unsigned int h = 0; h < n; h++) {
		cr_expect_eq(hosts[h].code, 0, "host %u: %d: %s", h, hosts[h].code,
			weir_last_error(hosts[h].weir));
		cr_expect_eq(hosts[h].wrong, 0u,
			"host %u of %u: %zu wrong; first in call %zu, collective %u, %zu elements",
			h, n, hosts[h].wrong, hosts[h].of, calls[hosts[h].of].collective,
			calls[hosts[h].of].count);
		weir_close(hosts[h].weir);
	}
	fake_switch_stop(fake, NULL);
}

Test(weir_collectives, of_one_host, .timeout = 90)
{
	play(1, 16, 0);
}

Test(weir_collectives, of_two, .timeout = 90)
{
	play(2, 33, 0);
}

Test(weir_collectives, of_five_under_loss, .timeout = 90)
{
	play(5, 64, 0.02);
}

/* An alltoall has no room for a row of each source in a block. */
Test(weir_collectives, of_five_in_small_blocks_under_loss, .timeout = 90)
{
	play(5, 7, 0.02);
}
