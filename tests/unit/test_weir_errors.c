/* SPDX-License-Identifier: BSD-3-Clause */
/* What libweir's calls return and say when something is missing, late, wrong or refused, and
 * what they say while they wait for long. */
#include <stdatomic.h>

#include "tests/unit/hosts.h"

#define ALL_BUT_ONE_MS 1000 /* in which the hosts that contribute do so, on a busy machine too */

Test(weir_errors, open_names_the_missing, .timeout = 90)
{
	serve(4);
	for (unsigned int h = 0; h < 2; h++)
		hosts[h].config.join_timeout_ms = 2000;
	run_hosts(0, 2);
	fake_switch_stop(fake, NULL);
	for (unsigned int h = 0; h < 2; h++)
		expect_failed(h, -ETIMEDOUT, "missing: sources 2-3 (2 of 4 are in)");
}

Test(weir_errors, open_without_switch_is_bounded, .timeout = 90)
{
	serve(1);
	fake_switch_stop(fake, NULL); /* its ports are closed now */
	hosts[0].config.join_timeout_ms = 300;
	run_hosts(0, 1);
	expect_failed(0, -ETIMEDOUT, "is it running");
	expect_failed(0, -ETIMEDOUT, "refused");
}

Test(weir_errors, open_is_refused, .timeout = 90)
{
	serve(2);
	run_hosts(5, 6);
	expect_failed(5, -EACCES, "source 5");
	fake_switch_stop(fake, NULL);
}

static atomic_uint ended; /* what host 1 waits for */

static void
wait_ended(unsigned int n)
{
	while (ended < n)
		sleep_ms(5);
}

/* Host 1 comes to its first operation only when that of both others has ended. */
static int
late(struct host *h)
{
	if (h->id == 1)
		wait_ended(2);
	reduce(h);
	ended++;
	return h->code;
}

static void
limit_operations(unsigned int ms)
{
	for (unsigned int h = 0; h < HOSTS_MAX; h++)
		hosts[h].config.op_timeout_ms = ms;
}

Test(weir_errors, straggler_is_named_when_the_operation_times_out, .timeout = 90)
{
	serve(3);
	limit_operations(1500);
	play(late, 500);
	expect_failed(0, -ETIMEDOUT, "missing: source 1 ");
	expect_failed(2, -ETIMEDOUT, "missing: source 1 ");
	cr_expect_gt(hosts[0].stats.waiting, 0u);
	/* 8 blocks, waiting for 1.5 s: probes, not floods */
	cr_expect_lt(hosts[0].stats.packets_sent, 100u, "%llu packets",
		(unsigned long long)hosts[0].stats.packets_sent);
}

static void *
intrude(void *argument)
{
	struct host *h = argument;

	sleep_ms(200);
	h->opened = weir_rejoin(h->weir);
	snprintf(h->error, sizeof(h->error), "%s", weir_last_error(h->weir));
	ended++;
	return NULL;
}

/* Host 1 keeps host 0 waiting, which meanwhile would begin a generation in another thread. */
static int
two_at_once(struct host *h)
{
	pthread_t thread;

	if (h->id == 1)
		wait_ended(1);
	if (h->id == 0) {
		hosts[2].weir = h->weir;
		if (pthread_create(&thread, NULL, intrude, &hosts[2]) != 0)
			return h->code = -1;
	}
	h->code = weir_barrier(h->weir);
	if (h->id == 0)
		pthread_join(thread, NULL);
	return h->code;
}

Test(weir_errors, concurrent_call_is_busy, .timeout = 90)
{
	serve(2);
	play(two_at_once, 0);
	expect_right(2);
	cr_expect_eq(hosts[2].opened, -EBUSY);
	cr_expect_not_null(strstr(hosts[2].error, "another thread's"), "%s", hosts[2].error);
	cr_expect_str_empty(hosts[0].error, "%s", hosts[0].error);
}

static void
without_the_straggler(uint8_t policy, size_t count)
{
	struct fake_switch_config c = switch_config(3);

	c.job.policy = policy;
	c.job.timeout_ms = ALL_BUT_ONE_MS;
	start_switch(&c);
	play(late, count);
}

Test(weir_errors, partial_is_returned, .timeout = 90)
{
	without_the_straggler(MODEL_PARTIAL, 16 * 64);
	for (unsigned int h = 0; h < 3; h++) {
		expect_failed(h, WEIR_PARTIAL, "source(s) 1 ");
		cr_expect_eq(hosts[h].result.degraded, 16u);
		cr_expect_eq(hosts[h].result.completed, 16u);
		cr_expect_eq(hosts[h].result.sources_least, 2u);
		cr_expect_eq(hosts[h].result.missing[0], 0x2);
	}
}

Test(weir_errors, error_policy_fails_the_operation, .timeout = 90)
{
	without_the_straggler(MODEL_ERROR, 64);
	for (unsigned int h = 0; h < 3; h++)
		expect_failed(h, -EIO, "missing: source 1 ");
}

Test(weir_errors, mismatch_names_field_and_sources, .timeout = 90)
{
	serve(2);
	for (unsigned int h = 0; h < 2; h++) {
		hosts[h].body = reduce;
		hosts[h].count = 10 + h;
	}
	run_all();
	for (unsigned int h = 0; h < 2; h++) {
		expect_failed(h, -EPROTO, "disagree about the length in block 0");
		expect_failed(h, -EPROTO, "source 1 has 1");
	}
}

static int
unserved(struct host *h)
{
	double x[4] = {0};

	h->code = weir_allreduce(h->weir, x, x, 4, WEIR_DTYPE_FP64, WEIR_OP_BOR);
	return h->code;
}

/* Before anything is sent: the generation goes on. */
Test(weir_errors, unsupported_operation_is_named, .timeout = 90)
{
	serve(1);
	hosts[0].body = unserved;
	run_hosts(0, 1);
	expect_failed(0, -EINVAL, "bor is for integers");
	hosts[0].config.base_form = true;
	run_all();
	expect_failed(0, -EINVAL, ""); /* the base form has one type only */
}

static int
mute_the_switch(struct host *h)
{
	h->code = weir_barrier(h->weir);
	if (h->code != 0)
		return h->code;
	fake_switch_mute(fake, true);
	return reduce(h);
}

Test(weir_errors, silent_switch_is_named, .timeout = 90)
{
	serve(1);
	limit_operations(1500);
	play(mute_the_switch, 64);
	expect_failed(0, -ETIMEDOUT, "has not answered");
}

/* Host 1 stops the switch, rather than contribute, when the switch has told host 0 that it
 * waits. */
static int
mute_when_waiting(struct host *h)
{
	struct weir_stats stats = {0};

	h->code = weir_barrier(h->weir);
	if (h->id == 0)
		return reduce(h);
	for (unsigned int ms = 0; stats.waiting == 0 && ms < 20000; ms++) {
		sleep_ms(1);
		weir_stats(hosts[0].weir, &stats);
	}
	fake_switch_mute(fake, true);
	return h->code;
}

Test(weir_errors, switch_that_waited_and_fell_silent_is_silent, .timeout = 90)
{
	serve(2);
	limit_operations(4000);
	play(mute_when_waiting, 64);
	expect_failed(0, -ETIMEDOUT, "has not answered");
}

static int
reduce_alone(struct host *h)
{
	h->code = weir_barrier(h->weir);
	if (h->code == 0 && h->id == 0)
		h->code = reduce(h);
	return h->code;
}

static void
reduce_without_one(bool without_probes, const char *words)
{
	struct fake_switch_config c = switch_config(2);

	c.job.timeout_ms = 60000;
	c.job.without_probes = without_probes;
	start_switch(&c);
	limit_operations(2500);
	play(reduce_alone, 64);
	expect_failed(0, -ETIMEDOUT, words);
	cr_expect_eq(hosts[0].stats.foreign, 0u);
}

/* A probe tells before the job's timeout. */
Test(weir_errors, missing_source_is_named, .timeout = 90)
{
	reduce_without_one(false, "missing: source 1");
	cr_expect_eq(hosts[0].stats.retransmissions, 0u, "the switch has the contribution");
}

/* A switch that does not know probes says nothing of the source that is missing, but it answers
 * joins. */
Test(weir_errors, missing_source_is_named_without_probes, .timeout = 90)
{
	reduce_without_one(true, "the switch is up");
	cr_expect_gt(hosts[0].stats.retransmissions, 0u);
}

/* Host 0 opens a second time: a new generation, of which its first handle is told. */
static int
rejoin(struct host *h)
{
	struct weir *second;
	int code = weir_barrier(h->weir), opened = weir_open(&h->config, &second);

	if (code != 0 || opened != 0)
		h->wrong++;
	else if (weir_generation(second) != weir_generation(h->weir) + 1 ||
		weir_barrier(second) != 0)
		h->wrong++;
	weir_close(second);
	h->code = weir_barrier(h->weir);
	h->code = weir_barrier(h->weir); /* and stays failed */
	return h->code;
}

Test(weir_errors, newer_handle_displaces_the_older, .timeout = 90)
{
	serve(2);
	play(rejoin, 0);
	for (unsigned int h = 0; h < 2; h++) {
		cr_expect_eq(hosts[h].wrong, 0u);
		cr_expect_eq(hosts[h].code, -EEXIST, "%s", hosts[h].error);
	}
}

/* ---- what is said while a call waits ---- */

#define WAIT_MS 3300 /* longer than 3 s, and shorter than the 6 s of the next message */

static struct {
	unsigned int count;
	char text[1024];
} said[HOSTS_MAX];

static void
note(void *context, const char *text)
{
	const struct host *h = context;

	said[h->id].count++;
	snprintf(said[h->id].text, sizeof(said[h->id].text), "%s", text);
}

static int
join_alone(struct host *h)
{
	(void)h;
	return 0;
}

static int
sum_late(struct host *h)
{
	if (h->id == 1)
		sleep_ms(WAIT_MS);
	return reduce(h);
}

/* Hosts 0 and 1; and what they said. */
static void
run_noted(int (*body)(struct host *host))
{
	for (unsigned int h = 0; h < 2; h++) {
		hosts[h].body = body;
		hosts[h].count = 5000;
		hosts[h].config.warn = note;
		hosts[h].config.warn_context = &hosts[h];
	}
	run_hosts(0, 2);
	fake_switch_stop(fake, NULL);
}

static void
expect_said(unsigned int h, const char *words)
{
	cr_expect_eq(said[h].count, 1u, "host %u: %u", h, said[h].count);
	cr_expect_not_null(strstr(said[h].text, words), "host %u: %s", h, said[h].text);
}

Test(weir_errors, a_join_says_who_is_missing_and_which_switch_is_silent, .timeout = 90)
{
	serve(3);
	hosts[0].config.join_timeout_ms = hosts[1].config.join_timeout_ms = WAIT_MS;
	hosts[1].config.switch_address = "127.0.0.99"; /* nobody is there */
	run_noted(join_alone);
	cr_expect_eq(hosts[0].opened, -ETIMEDOUT, "%d", hosts[0].opened);
	expect_said(0, "missing: sources 1-2 (1 of 3 are in)");
	expect_said(1, "switch at 127.0.0.99:");
}

Test(weir_errors, an_operation_says_who_is_missing, .timeout = 90)
{
	serve(2);
	run_noted(sum_late);
	expect_right(2);
	expect_said(0, "missing: source 1 (1 of 2 are in)");
	cr_expect_eq(said[1].count, 0u, "it did not wait, and said %s", said[1].text);
}
