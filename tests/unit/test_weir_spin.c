/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A waiting call polls before it sleeps, while answers come soon, and only as long as it was told.
 * Against the reference switch, over loopback UDP; ppoll and sched_yield are watched.
 */
#include <poll.h>
#include <stdatomic.h>

#include "apps/libweir/timing.h"

#define HOSTS    2
#define WATCHED  0 /* its waits are looked at */
#define LATE     1 /* contributes when the other one sleeps */
#define ROUNDS   12
#define LIMIT_MS 10000

#define HOST_FIELDS                                                                                \
	bool late;                                                                                 \
	unsigned int polled[ROUNDS], slept[ROUNDS]; /* times, by operation */
#include "tests/unit/hosts.h"

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

static int
sums(struct host *h)
{
	int32_t data[8];

	for (unsigned int k = 0; k < ROUNDS && h->code == 0; k++) {
		if (h->id == WATCHED) {
			polled = &h->polled[k];
			slept = &h->slept[k];
		} else if (h->late) {
			for (unsigned int ms = 0; ms < LIMIT_MS && atomic_load(&asleep) < k + 1;
				ms++)
				sleep_ms(1);
			sleep_ms(5);
		} else {
			sleep_ms(1);
		}
		for (unsigned int i = 0; i < 8; i++)
			data[i] = (int32_t)(k + i);
		h->code = weir_allreduce(h->weir, data, data, 8, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		polled = slept = NULL;
		for (unsigned int i = 0; i < 8 && h->code == 0; i++)
			if (data[i] != (int32_t)(HOSTS * (k + i)))
				h->code = 1;
	}
	return h->code;
}

static void
run(int spin_us, bool late)
{
	struct fake_switch_config c = switch_config(HOSTS);

	c.job.timeout_ms = 1000;
	start_switch(&c);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].config.spin_us = spin_us;
		hosts[h].late = late;
	}
	play(sums, 8);
	expect_right(HOSTS);
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
	/* All answers come within a second: nobody sleeps. (An answer that the progress thread
	 * still takes is not waited for.) */
	for (unsigned int k = 0; k < ROUNDS; k++) {
		all += hosts[WATCHED].polled[k];
		cr_expect_eq(hosts[WATCHED].slept[k], 0, "operation %u slept", k);
	}
	cr_expect_gt(all, 0, "it never polled");
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
