/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A waiting call polls before it sleeps, while answers come soon, and only as long as it was told.
 * Against the reference switch, over loopback UDP; ppoll and sched_yield are watched. Each host is a thread, which
 * returns codes; only the main thread asserts.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "apps/libweir/timing.h"
#include "apps/libweir/weir.h"
#include "tests/model/fake_switch.h"

#define HOSTS    2
#define WATCHED  0 /* its waits are looked at */
#define LATE     1 /* contributes when the other one sleeps */
#define JOB      3
#define ROUNDS   12
#define LIMIT_MS 10000

static struct host {
	struct weir_config config;
	struct weir *weir;
	char address[16], error[512];
	unsigned int id;
	int code;
	bool late;
	unsigned int polled[ROUNDS], slept[ROUNDS]; /* times, by operation */
	pthread_t thread;
} hosts[HOSTS];

static struct fake_switch *fake;

static _Thread_local unsigned int *polled, *slept; /* of the operation under way */
static atomic_uint asleep; /* the round in which the watched one sleeps or slept, and 1 */

int __real_ppoll(struct pollfd *polls, nfds_t n, const struct timespec *wait, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *polls, nfds_t n, const struct timespec *wait, const sigset_t *mask);
int __real_sched_yield(void);
int __wrap_sched_yield(void);

int
__wrap_ppoll(struct pollfd *polls, nfds_t n, const struct timespec *wait, const sigset_t *mask)
{
	bool at_once = wait != NULL && wait->tv_sec == 0 && wait->tv_nsec == 0;

	if (slept != NULL && !at_once) {
		++*slept;
		atomic_store(&asleep, (unsigned int)(slept - hosts[WATCHED].slept) + 1);
	}
	return __real_ppoll(polls, n, wait, mask);
}

/* Between two polls. */
int
__wrap_sched_yield(void)
{
	if (polled != NULL)
		++*polled;
	return __real_sched_yield();
}

static void
nap(unsigned int ms)
{
	const struct timespec t = {0, (long)ms * 1000000};

	nanosleep(&t, NULL);
}

static void *
run_host(void *argument)
{
	struct host *h = argument;
	int32_t data[8];

	h->code = weir_open(&h->config, &h->weir);
	for (unsigned int k = 0; k < ROUNDS && h->code == 0; k++) {
		if (h->id == WATCHED) {
			polled = &h->polled[k];
			slept = &h->slept[k];
		} else if (h->late) {
			for (unsigned int ms = 0; ms < LIMIT_MS && atomic_load(&asleep) < k + 1;
				ms++)
				nap(1);
			nap(5);
		} else {
			nap(1);
		}
		for (unsigned int i = 0; i < 8; i++)
			data[i] = (int32_t)(k + i);
		h->code = weir_allreduce(h->weir, data, data, 8, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		polled = slept = NULL;
		for (unsigned int i = 0; i < 8 && h->code == 0; i++)
			if (data[i] != (int32_t)(HOSTS * (k + i)))
				h->code = 1;
	}
	snprintf(h->error, sizeof(h->error), "%s", weir_last_error(h->weir));
	weir_close(h->weir);
	return NULL;
}

static void
run(int spin_us, bool late)
{
	const struct fake_switch_config c = {.address = "127.0.0.1",
		.job = {.job = JOB,
			.sources = HOSTS,
			.window = 8,
			.elements = 64,
			.dtype = WEIR_DTYPE_INT32,
			.op = WEIR_OP_SUM,
			.policy = MODEL_WAIT,
			.timeout_ms = 1000}};
	int code = fake_switch_start(&c, &fake);

	cr_assert_eq(code, 0, "fake switch: %s", strerror(-code));
	for (unsigned int h = 0; h < HOSTS; h++) {
		snprintf(hosts[h].address, sizeof(hosts[h].address), "127.0.0.%u", 90 + h);
		hosts[h].config = (struct weir_config){
			.switch_address = "127.0.0.1",
			.address = hosts[h].address,
			.port_base = fake_switch_port(fake, false),
			.port_ext = fake_switch_port(fake, true),
			.job = JOB,
			.source = (int)h,
			.spin_us = spin_us,
		};
		hosts[h].id = h;
		hosts[h].late = late;
		cr_assert_eq(pthread_create(&hosts[h].thread, NULL, run_host, &hosts[h]), 0);
	}
	for (unsigned int h = 0; h < HOSTS; h++)
		pthread_join(hosts[h].thread, NULL);
	fake_switch_stop(fake, NULL);
	for (unsigned int h = 0; h < HOSTS; h++)
		cr_assert_eq(hosts[h].code, 0, "host %u: %s", h, hosts[h].error);
}

Test(weir_spin, polls_then_sleeps, .timeout = 90)
{
	unsigned int last = ROUNDS - 1;

	run(0, true);
	/* The late one waited for the sleep: so it was slept each time. */
	for (unsigned int k = 0; k < ROUNDS; k++)
		cr_expect_gt(hosts[WATCHED].slept[k], 0, "operation %u never slept", k);
	cr_expect_gt(hosts[WATCHED].polled[0], 0, "the first operation did not poll");
	cr_expect_eq(hosts[WATCHED].polled[last], 0, "polled after %u long waits", last);
}

Test(weir_spin, sleeps_at_once_when_told, .timeout = 90)
{
	run(-1, false);
	for (unsigned int k = 0; k < ROUNDS; k++)
		cr_expect_eq(hosts[WATCHED].polled[k], 0, "operation %u polled", k);
}

Test(weir_spin, polls_for_as_long_as_told, .timeout = 90)
{
	unsigned int all = 0;

	run(1000000, false);
	/* All answers come within a second: nobody sleeps. (An answer that the progress thread still takes
	 * is not waited for.) */
	for (unsigned int k = 0; k < ROUNDS; k++) {
		all += hosts[WATCHED].polled[k];
		cr_expect_eq(hosts[WATCHED].slept[k], 0, "operation %u slept", k);
	}
	cr_expect_gt(all, 0, "it never polled");
}

Test(weir_spin, refuses_what_is_no_time, .timeout = 90)
{
	struct weir_config config = {
		.switch_address = "127.0.0.1", .address = "127.0.0.1", .spin_us = -2};
	struct weir *weir;

	cr_expect_eq(weir_open(&config, &weir), -EINVAL);
	cr_expect_str_eq(weir_last_error(weir), "spin_us: -2 is not in [-1, 1000000]");
	weir_close(weir);
}

Test(weir_spin, follows_the_waits)
{
	struct weir_spin spin;
	unsigned int n;

	weir_spin_init(&spin, 100000);
	cr_expect_eq(weir_spin_next(&spin), 100000u);
	for (n = 0; n < 100 && weir_spin_next(&spin) != 0; n++)
		weir_spin_sample(&spin, UINT64_C(3600) * 1000000000);
	cr_expect_leq(n, 4, "%u long waits and it still polls", n);
	for (n = 0; n < 100; n++)
		weir_spin_sample(&spin, UINT64_MAX);
	cr_expect_eq(weir_spin_next(&spin), 0u);
	for (n = 0; n < 100 && weir_spin_next(&spin) == 0; n++)
		weir_spin_sample(&spin, 20000);
	cr_expect_leq(n, 12, "%u short waits and it does not poll yet", n);
	weir_spin_init(&spin, 0);
	cr_expect_eq(weir_spin_next(&spin), 0u);
}
