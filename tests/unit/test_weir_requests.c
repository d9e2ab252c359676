/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir's operations that are not waited for at once, against the reference switch, over loopback
 * UDP: the handles are of one process and have one address. Threads return codes; only the main
 * thread asserts.
 */
#include <poll.h>

#include "apps/libweir/weir.h"
#include "tests/random.h"

#define HOSTS    3
#define WINDOW   8
#define ELEMENTS 16
#define CALLS    60
#define MOST     (3 * WINDOW * ELEMENTS + 5) /* elements of a call */

struct call {
	struct weir_request *request;
	size_t count; /* 0: a barrier, if it is odd; else an allreduce of nothing */
	bool in_place;
	int32_t send[MOST], recv[MOST];
};

#define HOST_FIELDS struct call calls[CALLS];
#include "tests/unit/hosts.h"

static uint64_t seed;

static void
start(void)
{
	seed = random_seed();
	open_handles(HOSTS, 0, seed);
}

static void
start_with_losses(void)
{
	seed = random_seed();
	open_handles(HOSTS, 0.02, seed);
}

TestSuite(weir_requests, .init = start, .fini = close_handles, .timeout = 90);
TestSuite(weir_requests_lost, .init = start_with_losses, .fini = close_handles, .timeout = 90);

/* Each host calls this, and gets what is right. */
static void
each_host(void *(*body)(void *))
{
	all_call(HOSTS, body);
	expect_right(HOSTS);
}

static int
begin(struct host *h, unsigned int k)
{
	struct call *c = &h->calls[k];

	for (size_t i = 0; i < c->count; i++)
		c->send[i] = (int32_t)(h->id * 1000000 + k * 10000 + i);
	if (c->count == 0 && k % 2 != 0)
		return weir_ibarrier(h->weir, &c->request);
	return weir_iallreduce(h->weir, c->send, c->in_place ? c->send : c->recv, c->count,
		WEIR_DTYPE_INT32, WEIR_OP_SUM, &c->request);
}

/* What a call has brought. */
static void
check(struct host *h, unsigned int k)
{
	const struct call *c = &h->calls[k];
	const int32_t *data = c->in_place ? c->send : c->recv;

	for (size_t i = 0; i < c->count; i++)
		h->wrong += data[i] !=
			(int32_t)(HOSTS * (HOSTS - 1) / 2 * 1000000 + HOSTS * (k * 10000 + i));
	if (c->request != NULL) /* it was waited for */
		h->code = -EFAULT;
}

/* Wait for what is left of calls[0 .. n), one way or another. */
static void
wait_somehow(struct host *h, unsigned int n, uint64_t *random)
{
	struct weir_request *pending[CALLS];
	unsigned int k = (unsigned int)(random_bits(random) % n);
	bool done = false;
	size_t which;

	switch (random_bits(random) % 4) {
	case 0:
		h->code = weir_wait(&h->calls[k].request);
		check(h, k);
		break;
	case 1:
		h->code = weir_test(&h->calls[k].request, &done);
		if (done)
			check(h, k);
		break;
	case 2:
		h->code = weir_wait_for(
			&h->calls[k].request, (unsigned int)(random_bits(random) % 4), &done);
		if (done)
			check(h, k);
		break;
	default:
		for (unsigned int i = 0; i < n; i++)
			pending[i] = h->calls[i].request;
		h->code = weir_wait_any(pending, n, &which);
		if (h->code == -ENOENT && which == n) {
			h->code = 0;
		} else {
			h->calls[which].request = pending[which];
			check(h, (unsigned int)which);
		}
	}
}

/* Each host calls the same, and waits as it likes. */
static void *
stream(void *argument)
{
	struct host *h = argument;
	uint64_t sizes = seed, own = seed + h->id + 1;

	h->wrong = 0;
	for (unsigned int k = 0; k < CALLS && h->code == 0; k++) {
		struct call *c = &h->calls[k];
		unsigned int kind = (unsigned int)(random_bits(&sizes) % 6);

		c->count = kind == 0 ? 0 : kind == 1 ? 1 : random_bits(&sizes) % MOST;
		c->in_place = random_bits(&own) % 2 == 0;
		h->code = begin(h, k);
		while (h->code == 0 && random_bits(&own) % 4 == 0)
			wait_somehow(h, k + 1, &own);
	}
	for (unsigned int k = 0; k < CALLS && h->code == 0; k++) {
		h->code = weir_wait(&h->calls[k].request);
		check(h, k);
	}
	return NULL;
}

/* Each host has many under way, of which some packets are lost. */
Test(weir_requests_lost, are_one_stream)
{
	for (int again = 0; again < 3; again++)
		each_host(stream);
}

static void *
wait_for_one(void *argument)
{
	struct call *c = argument;

	return (void *)(intptr_t)weir_wait(&c->request);
}

/* A thread for each request: the last is waited for first, and who drives leaves before the
 * others. */
static void *
threads(void *argument)
{
	struct host *h = argument;
	pthread_t waiting[10];

	for (unsigned int k = 0; k < 10; k++) {
		h->calls[k].count = 40 * k + 1;
		h->calls[k].in_place = true;
		h->code = h->code ? h->code : begin(h, k);
	}
	for (unsigned int k = 10; k-- > 0 && h->code == 0;)
		if (pthread_create(&waiting[k], NULL, wait_for_one, &h->calls[k]) != 0)
			h->code = -EAGAIN;
	for (unsigned int k = 0; k < 10 && h->code == 0; k++) {
		void *code;

		pthread_join(waiting[k], &code);
		h->code = (int)(intptr_t)code;
		check(h, k);
	}
	return NULL;
}

Test(weir_requests_lost, each_may_have_a_thread_that_waits)
{
	each_host(threads);
}

Test(weir_requests, one_thread_waits_for_those_of_several_handles)
{
	struct weir_request *requests[HOSTS];
	unsigned int seen = 0;
	size_t which;

	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].calls[0].count = 200;
		cr_assert_eq(begin(&hosts[h], 0), 0);
		requests[h] = hosts[h].calls[0].request;
		hosts[h].calls[0].request = NULL;
	}
	for (unsigned int i = 0; i < HOSTS; i++) {
		cr_assert_eq(weir_wait_any(requests, HOSTS, &which), 0);
		cr_assert(which < HOSTS && requests[which] == NULL);
		seen |= 1u << which;
		check(&hosts[which], 0);
		cr_expect_eq(hosts[which].wrong, 0u);
	}
	cr_expect_eq(seen, (1u << HOSTS) - 1);
	cr_expect_eq(weir_wait_any(requests, HOSTS, &which), -ENOENT);
	cr_expect_eq(which, (size_t)HOSTS);
	cr_expect_eq(weir_wait_all(requests, HOSTS), 0);
}

/* Host 0 differs in the second call: the third and fourth end as that does, without a packet
 * perhaps. */
Test(weir_requests, a_failure_ends_all_that_are_under_way)
{
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int k = 0; k < 4; k++) {
			hosts[h].calls[k].count = k == 1 && h == 0 ? 20 : 40;
			hosts[h].code = begin(&hosts[h], k);
			cr_assert(hosts[h].code == 0 || hosts[h].code == -EPROTO);
		}
	for (unsigned int h = 0; h < HOSTS; h++)
		for (unsigned int k = 1; k < 4; k++)
			if (hosts[h].calls[k].request != NULL) {
				cr_expect_eq(weir_wait(&hosts[h].calls[k].request), -EPROTO);
				cr_expect_not_null(strstr(weir_last_error(hosts[h].weir),
							   "disagree about the length"),
					"%s", weir_last_error(hosts[h].weir));
			}
	for (unsigned int h = 0; h < HOSTS; h++) {
		(void)weir_wait(&hosts[h].calls[0].request);
		cr_expect_eq(weir_barrier(hosts[h].weir), -EPROTO);
	}
}

/* Nobody else calls: it can only end with the handle. */
Test(weir_requests, closing_cancels_them)
{
	struct weir *first = hosts[0].weir;
	pthread_t thread;
	void *code;

	hosts[0].calls[0].count = hosts[0].calls[1].count = 5;
	cr_assert_eq(begin(&hosts[0], 0), 0);
	cr_assert_eq(begin(&hosts[0], 1), 0); /* nobody waits for this one */
	cr_expect_eq(weir_rejoin(first), -EBUSY);
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_one, &hosts[0].calls[0]), 0);
	sleep_ms(200);
	hosts[0].weir = NULL;
	weir_close(first);
	pthread_join(thread, &code);
	cr_expect_eq((int)(intptr_t)code, -ECANCELED);
}

/* Nobody else calls: the time ends first, and the request stays. */
Test(weir_requests, a_wait_may_have_an_end)
{
	struct call *c = &hosts[0].calls[0];
	bool done = true;

	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].calls[0].count = 2 * WINDOW * ELEMENTS;
		if (h > 0)
			continue;
		cr_assert_eq(begin(&hosts[h], 0), 0);
		for (unsigned int ms = 0; ms < 3; ms++) {
			cr_expect_eq(weir_wait_for(&c->request, ms, &done), 0);
			cr_expect(!done && c->request != NULL);
		}
	}
	for (unsigned int h = 1; h < HOSTS; h++)
		cr_assert_eq(begin(&hosts[h], 0), 0);
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(weir_wait_for(&hosts[h].calls[0].request, 60000, &done), 0);
		cr_expect(done);
		check(&hosts[h], 0);
		cr_expect_eq(hosts[h].wrong, 0u);
		done = false;
		cr_expect_eq(weir_wait_for(&hosts[h].calls[0].request, 1, &done), 0);
		cr_expect(done, "what is waited for has ended");
	}
}

/* Readable within so many ms? */
static bool
readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

static void *
one_call(void *argument)
{
	struct host *h = argument;
	int32_t one = 1;

	h->code = weir_allreduce(h->weir, &one, &one, 1, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	return NULL;
}

Test(weir_requests, a_descriptor_tells_that_one_has_ended)
{
	bool done = false;
	int fd;

	fd = weir_fd(hosts[0].weir);
	cr_assert_geq(fd, 0);
	cr_expect_eq(weir_fd(hosts[0].weir), fd);
	cr_expect(!readable(fd, 0));
	for (unsigned int k = 0; k < 2; k++)
		for (unsigned int h = 0; h < HOSTS; h++) {
			hosts[h].calls[k].count = 40 * WINDOW * k + 3;
			cr_assert_eq(begin(&hosts[h], k), 0);
		}
	cr_expect(readable(fd, 60000));
	cr_expect_eq(weir_wait(&hosts[0].calls[1].request), 0);
	cr_expect(readable(fd, 0), "the first one was not waited for");
	cr_expect_eq(weir_test(&hosts[0].calls[0].request, &done), 0);
	cr_expect(done && !readable(fd, 0));
	for (unsigned int h = 1; h < HOSTS; h++)
		for (unsigned int k = 0; k < 2; k++)
			cr_expect_eq(weir_wait(&hosts[h].calls[k].request), 0);
	/* Blocking calls tell nothing; one asked for late tells of what has ended before. */
	each_host(one_call);
	cr_expect(!readable(fd, 0));
	hosts[1].calls[0].count = 0;
	cr_assert_eq(begin(&hosts[1], 0), 0);
	cr_expect(readable(weir_fd(hosts[1].weir), 0));
	cr_expect_eq(weir_wait(&hosts[1].calls[0].request), 0);
	cr_expect(!readable(weir_fd(hosts[1].weir), 0));
	cr_expect_eq(weir_fd(NULL), -EINVAL);
}

static struct weir_request *several[CALLS];

static void *
wait_for_any(void *argument)
{
	size_t which;

	return (void *)(intptr_t)weir_wait_any(argument, CALLS, &which);
}

static void *
wait_for_all(void *argument)
{
	return (void *)(intptr_t)weir_wait_all(argument, CALLS);
}

/* The handle and its requests stay until the thread that waits for several has left them. */
static void
close_under(void *(*wait)(void *))
{
	struct weir *first = hosts[0].weir;
	pthread_t thread;
	void *code;

	for (unsigned int k = 0; k < CALLS; k++) {
		hosts[0].calls[k].count = 5;
		cr_assert_eq(begin(&hosts[0], k), 0);
		several[k] = hosts[0].calls[k].request;
	}
	cr_assert_eq(pthread_create(&thread, NULL, wait, several), 0);
	sleep_ms(200);
	hosts[0].weir = NULL;
	weir_close(first);
	pthread_join(thread, &code);
	cr_expect_eq((int)(intptr_t)code, -ECANCELED);
	cr_expect_null(several[0]);
}

Test(weir_requests, close_ends_wait_for_any)
{
	close_under(wait_for_any);
}

Test(weir_requests, close_ends_wait_for_all)
{
	close_under(wait_for_all);
	for (unsigned int k = 0; k < CALLS; k++)
		cr_expect_null(several[k], "request %u was not waited for", k);
}

/* Rank 0 calls functions by their names; the others have calls with garbage where a collective
 * has nothing. */
static void *
call_collectives(void *argument)
{
	struct host *h = argument;
	struct weir_request *request = NULL;
	struct weir_call barrier = {
		WEIR_COLLECTIVE_BARRIER, h, h, 7, WEIR_DTYPE_FP64, WEIR_OP_BAND, 9};
	int32_t own = (int32_t)(100 + h->id), all[HOSTS] = {0};
	struct weir_call gather = {
		WEIR_COLLECTIVE_ALLGATHER, &own, all, 1, WEIR_DTYPE_INT32, (enum weir_op)77, 99};

	h->code = h->id == 0 ? weir_barrier(h->weir) : weir_collective(h->weir, &barrier, NULL);
	if (h->code == 0 && h->id == 0)
		h->code = weir_allgather(h->weir, &own, all, 1, WEIR_DTYPE_INT32);
	else if (h->code == 0)
		h->code = weir_collective(h->weir, &gather, NULL);
	for (unsigned int k = 0; k < HOSTS; k++)
		h->wrong += all[k] != (int32_t)(100 + k);
	if (h->code == 0 && h->id == 0)
		h->code = weir_ibarrier(h->weir, &request);
	else if (h->code == 0)
		h->code = weir_collective(h->weir, &barrier, &request);
	if (h->code == 0 && request == NULL)
		h->code = -EFAULT;
	if (h->code == 0)
		h->code = weir_wait(&request);
	return NULL;
}

Test(weir_requests, a_collective_is_a_value)
{
	each_host(call_collectives);
}

Test(weir_requests, what_makes_no_sense_is_refused_at_once)
{
	struct weir_request *request;
	struct weir_call call = {0};
	struct weir *weir = hosts[1].weir;
	float data[4 * HOSTS] = {0};

	cr_expect_eq(weir_allreduce(weir, data, data, 1, WEIR_DTYPE_FP32, WEIR_OP_BAND), -EINVAL);
	cr_expect_str_eq(weir_last_error(weir), "band is for integers, not for fp32");
	cr_expect_eq(weir_broadcast(weir, data, data, 1, WEIR_DTYPE_FP32, HOSTS), -EINVAL);
	cr_expect_str_eq(weir_last_error(weir), "root: 3 is not in [0, 3)");
	cr_expect_eq(weir_igather(weir, NULL, data, 1, WEIR_DTYPE_FP32, 0, &request), -EINVAL);
	cr_expect_null(request);
	cr_expect_str_eq(weir_last_error(weir), "send is NULL and count is 1");
	cr_expect_eq(weir_reduce(weir, data, NULL, 1, WEIR_DTYPE_FP32, WEIR_OP_MAX, 1), -EINVAL);
	cr_expect_eq(weir_allgather(weir, data, data, 1, (enum weir_dtype)WEIR_DTYPES), -EINVAL);
	cr_expect_eq(weir_rank(weir), 1u);
	for (unsigned int collective = WEIR_COLLECTIVES; collective < 18; collective++) {
		call.collective = (enum weir_collective)collective;
		cr_expect_eq(weir_collective(weir, &call, &request), -EINVAL);
		cr_expect_null(request);
		cr_expect_eq(weir_collective(weir, &call, NULL), -EINVAL);
		cr_expect_str_neq(weir_last_error(weir), "");
	}
	cr_expect_str_eq(weir_last_error(weir), "collective 17 does not exist");
	call = (struct weir_call){
		.collective = WEIR_COLLECTIVE_ALLGATHER, .dtype = (enum weir_dtype)15};
	cr_expect_eq(weir_collective(weir, &call, NULL), -EINVAL);
	cr_expect_str_eq(weir_last_error(weir), "type 15 or operation 0 does not exist");
	/* Nothing was sent, and all is well. */
	cr_expect_eq(weir_iallgather(weir, NULL, NULL, 0, WEIR_DTYPE_FP32, &request), 0);
	cr_expect_not_null(request);
	cr_expect_eq(weir_wait(&request), 0);
	cr_expect_eq(weir_wait(&request), 0, "what is waited for is NULL");
}
