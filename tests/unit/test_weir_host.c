/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir against the reference switch, over loopback UDP: several handles in one process, each
 * driven by a thread of its own. Threads return codes; only the main thread asserts.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/host/weir.h"
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
	bool in_place;
	uint64_t seed;
	int opened; /* code of weir_open */
	int code; /* of the first operation that did not return 0 */
	size_t wrong; /* elements */
	struct weir_result result;
	int (*body)(struct host *host);
	pthread_t thread;
};

static struct host hosts[HOSTS_MAX];
static struct fake_switch *fake;

static uint64_t
seed(void)
{
	const char *text = getenv("WEIR_SEED");
	uint64_t s = text ? strtoull(text, NULL, 0)
			  : (uint64_t)time(NULL) * 1000003u ^ (uint64_t)getpid();

	cr_log_info("WEIR_SEED=%llu", (unsigned long long)s);
	fprintf(stderr, "WEIR_SEED=%llu\n", (unsigned long long)s);
	return s;
}

static void
sleep_ms(unsigned int ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

/* Element i of source r in round k. */
static int32_t
element(uint64_t s, unsigned int r, unsigned int k, size_t i)
{
	uint64_t z = s + r * UINT64_C(0x9e3779b97f4a7c15) + k * UINT64_C(0xd1342543de82ef95) + i;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (int32_t)(uint32_t)(z ^ z >> 31);
}

static struct fake_switch_config
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

static void
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

/* `rounds` AllReduces of count elements, each checked in full. */
static int
reduce(struct host *h)
{
	int32_t *data = malloc((h->count + 1) * 4), *result = data;

	if (!h->in_place)
		result = malloc((h->count + 1) * 4);
	for (unsigned int k = 0; k < h->rounds && h->code == 0; k++) {
		for (size_t i = 0; i < h->count; i++)
			data[i] = element(h->seed, h->id, k, i);
		result[h->count] = 0x5a5a5a5a;
		h->code = weir_allreduce(
			h->weir, data, result, h->count, WEIR_DTYPE_INT32, WEIR_OP_SUM);
		for (size_t i = 0; i < h->count && h->code == 0; i++) {
			uint32_t sum = 0;

			for (unsigned int r = 0; r < h->hosts; r++)
				sum += (uint32_t)element(h->seed, r, k, i);
			h->wrong += (uint32_t)result[i] != sum;
		}
		h->wrong += result[h->count] != 0x5a5a5a5a;
	}
	if (!h->in_place)
		free(result);
	free(data);
	return h->code;
}

static void *
run_host(void *argument)
{
	struct host *h = argument;

	h->opened = weir_open(&h->config, &h->weir);
	if (h->opened == 0) {
		h->body(h);
		weir_last_result(h->weir, &h->result);
		weir_stats(h->weir, &h->stats);
	}
	snprintf(h->error, sizeof(h->error), "%s", weir_last_error(h->weir));
	weir_close(h->weir);
	return NULL;
}

static void
run_hosts(unsigned int from, unsigned int to)
{
	for (unsigned int h = from; h < to; h++)
		cr_assert_eq(pthread_create(&hosts[h].thread, NULL, run_host, &hosts[h]), 0);
	for (unsigned int h = from; h < to; h++)
		pthread_join(hosts[h].thread, NULL);
}

static void
expect_right(unsigned int n)
{
	for (unsigned int h = 0; h < n; h++) {
		cr_expect_eq(hosts[h].opened, 0, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].code, 0, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].wrong, 0u, "host %u: %zu wrong", h, hosts[h].wrong);
	}
}

static void
reduce_on_all(unsigned int n, size_t count, unsigned int rounds, bool in_place, uint64_t s)
{
	for (unsigned int h = 0; h < n; h++) {
		hosts[h].body = reduce;
		hosts[h].count = count;
		hosts[h].rounds = rounds;
		hosts[h].in_place = in_place;
		hosts[h].seed = s;
	}
	run_hosts(0, n);
	expect_right(n);
}

Test(weir_host, sums_are_right, .timeout = 30)
{
	struct fake_switch_config c = switch_config(4);

	start_switch(&c);
	reduce_on_all(4, 16 * 64 * 3 + 5, 3, false, 1);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, in_place_one_element_and_none, .timeout = 30)
{
	const size_t counts[] = {0, 1, 63, 64, 65, 16 * 64, 16 * 64 + 1};
	struct fake_switch_config c = switch_config(2);

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		start_switch(&c);
		reduce_on_all(2, counts[i], 4, true, i);
		fake_switch_stop(fake, NULL);
	}
}

Test(weir_host, base_form, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	start_switch(&c);
	hosts[0].config.base_form = hosts[2].config.base_form = true;
	reduce_on_all(3, 3000, 2, true, 5);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, multicast_results, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	c.job.group = 0xefff0001; /* 239.255.0.1 */
	c.loss = 0.02;
	start_switch(&c);
	hosts[1].config.base_form = true;
	reduce_on_all(3, 5000, 2, true, 6);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, survives_loss_duplication_reordering, .timeout = 60)
{
	struct fake_switch_stats stats;
	struct fake_switch_config c = switch_config(4);
	uint64_t s = seed(), repeated = 0;

	c.loss = 0.05;
	c.duplicate = 0.05;
	c.reorder = 0.1;
	c.seed = s;
	start_switch(&c);
	reduce_on_all(4, 20000, 3, true, s);
	fake_switch_stop(fake, &stats);
	for (unsigned int h = 0; h < 4; h++) {
		repeated += hosts[h].stats.retransmissions;
		cr_expect_eq(hosts[h].stats.results_ok, 3u * 313u);
	}
	cr_expect_gt(stats.lost, 0u);
	cr_expect_gt(stats.reordered, 0u);
	cr_expect_gt(repeated, 0u);
}

Test(weir_host, first_window_lost_too, .timeout = 60)
{
	struct fake_switch_config c = switch_config(2);
	uint64_t s = seed();

	c.loss = 0.5;
	c.seed = s;
	start_switch(&c);
	reduce_on_all(2, 300, 3, true, s);
	fake_switch_stop(fake, NULL);
}

static int
barriers(struct host *h)
{
	for (unsigned int i = 0; i < 20 && h->code == 0; i++)
		h->code = weir_barrier(h->weir);
	return h->code;
}

Test(weir_host, barrier, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	start_switch(&c);
	for (unsigned int h = 0; h < 3; h++)
		hosts[h].body = barriers;
	run_hosts(0, 3);
	expect_right(3);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, open_names_the_missing, .timeout = 30)
{
	struct fake_switch_config c = switch_config(4);

	start_switch(&c);
	for (unsigned int h = 0; h < 2; h++)
		hosts[h].config.join_timeout_ms = 700;
	run_hosts(0, 2);
	fake_switch_stop(fake, NULL);
	cr_expect_eq(hosts[0].opened, -ETIMEDOUT);
	cr_expect_eq(hosts[1].opened, -ETIMEDOUT);
	for (unsigned int h = 0; h < 2; h++)
		cr_expect_not_null(strstr(hosts[h].error, "missing: sources 2-3 (2 of 4 are in)"),
			"%s", hosts[h].error);
}

Test(weir_host, open_without_switch_is_bounded, .timeout = 30)
{
	struct fake_switch_config c = switch_config(1);

	start_switch(&c);
	fake_switch_stop(fake, NULL); /* its ports are closed now */
	hosts[0].config.join_timeout_ms = 300;
	run_hosts(0, 1);
	cr_expect_eq(hosts[0].opened, -ETIMEDOUT);
	cr_expect_not_null(strstr(hosts[0].error, "is it running"), "%s", hosts[0].error);
	cr_expect_not_null(strstr(hosts[0].error, "refused"), "%s", hosts[0].error);
}

Test(weir_host, open_refused_and_bad_configs, .timeout = 30)
{
	struct fake_switch_config c = switch_config(2);
	struct weir_config bad;
	struct weir *weir;

	start_switch(&c);
	hosts[5].body = reduce;
	run_hosts(5, 6);
	cr_expect_eq(hosts[5].opened, -EACCES, "%d", hosts[5].opened);
	cr_expect_not_null(strstr(hosts[5].error, "source 5"), "%s", hosts[5].error);
	bad = hosts[0].config;
	bad.source = 256;
	cr_expect_eq(weir_open(&bad, &weir), -EINVAL);
	weir_close(weir);
	bad = hosts[0].config;
	bad.address = NULL;
	cr_expect_eq(weir_open(&bad, &weir), -EINVAL);
	cr_expect_not_null(strstr(weir_last_error(weir), "address"));
	cr_expect_eq(weir_barrier(weir), -EINVAL, "a handle in error state stays so");
	weir_close(weir);
	fake_switch_stop(fake, NULL);
}

/* Host 1 comes to its first operation only after `rounds` ms. */
static int
late(struct host *h)
{
	if (h->id == 1)
		sleep_ms(h->rounds);
	h->rounds = 1;
	return reduce(h);
}

Test(weir_host, straggler_is_named_when_the_operation_times_out, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	start_switch(&c);
	for (unsigned int h = 0; h < 3; h++) {
		hosts[h].body = late;
		hosts[h].count = 500;
		hosts[h].rounds = 2500;
		hosts[h].config.op_timeout_ms = 1500;
	}
	run_hosts(0, 3);
	fake_switch_stop(fake, NULL);
	cr_expect_eq(hosts[0].code, -ETIMEDOUT);
	cr_expect_not_null(strstr(hosts[0].error, "missing: source 1 "), "%s", hosts[0].error);
	cr_expect_not_null(strstr(hosts[2].error, "missing: source 1 "), "%s", hosts[2].error);
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
	return NULL;
}

/* Host 1 keeps host 0 waiting, which meanwhile would begin a generation in another thread. */
static int
two_at_once(struct host *h)
{
	pthread_t thread;

	if (h->id == 1)
		sleep_ms(600);
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

Test(weir_host, who_is_kept_out_is_told, .timeout = 30)
{
	struct fake_switch_config c = switch_config(2);

	start_switch(&c);
	hosts[0].body = hosts[1].body = two_at_once;
	run_hosts(0, 2);
	expect_right(2);
	cr_expect_eq(hosts[2].opened, -EBUSY);
	cr_expect_not_null(strstr(hosts[2].error, "another thread's"), "%s", hosts[2].error);
	cr_expect_str_empty(hosts[0].error, "%s", hosts[0].error);
	fake_switch_stop(fake, NULL);
}

Test(weir_host, straggler_is_waited_for, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	start_switch(&c);
	for (unsigned int h = 0; h < 3; h++) {
		hosts[h].body = late;
		hosts[h].count = 5000;
		hosts[h].rounds = 600;
	}
	run_hosts(0, 3);
	fake_switch_stop(fake, NULL);
	expect_right(3);
}

Test(weir_host, partial_is_told, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	c.job.policy = MODEL_PARTIAL;
	start_switch(&c);
	for (unsigned int h = 0; h < 3; h++) {
		hosts[h].body = late;
		hosts[h].count = 16 * 64;
		hosts[h].rounds = 800;
	}
	run_hosts(0, 3);
	fake_switch_stop(fake, NULL);
	for (unsigned int h = 0; h < 3; h++) {
		cr_expect_eq(hosts[h].code, WEIR_PARTIAL, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].result.degraded, 16u);
		cr_expect_eq(hosts[h].result.completed, 16u);
		cr_expect_eq(hosts[h].result.sources_least, 2u);
		cr_expect_eq(hosts[h].result.missing[0], 0x2);
		cr_expect_not_null(strstr(hosts[h].error, "source(s) 1 "), "%s", hosts[h].error);
	}
}

Test(weir_host, error_policy_fails_the_operation, .timeout = 30)
{
	struct fake_switch_config c = switch_config(3);

	c.job.policy = MODEL_ERROR;
	start_switch(&c);
	for (unsigned int h = 0; h < 3; h++) {
		hosts[h].body = late;
		hosts[h].count = 64;
		hosts[h].rounds = 800;
	}
	run_hosts(0, 3);
	fake_switch_stop(fake, NULL);
	for (unsigned int h = 0; h < 3; h++) {
		cr_expect_eq(hosts[h].code, -EIO, "host %u: %s", h, hosts[h].error);
		cr_expect_not_null(
			strstr(hosts[h].error, "missing: source 1 "), "%s", hosts[h].error);
	}
}

Test(weir_host, mismatch_names_field_and_sources, .timeout = 30)
{
	struct fake_switch_config c = switch_config(2);

	start_switch(&c);
	for (unsigned int h = 0; h < 2; h++) {
		hosts[h].body = reduce;
		hosts[h].count = 10 + h;
	}
	run_hosts(0, 2);
	fake_switch_stop(fake, NULL);
	for (unsigned int h = 0; h < 2; h++) {
		cr_expect_eq(hosts[h].code, -EPROTO);
		cr_expect_not_null(strstr(hosts[h].error, "disagree about the length in block 0"),
			"%s", hosts[h].error);
		cr_expect_not_null(strstr(hosts[h].error, "source 1 has 1"), "%s", hosts[h].error);
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
Test(weir_host, what_is_not_for_the_type_is_said, .timeout = 30)
{
	struct fake_switch_config c = switch_config(1);

	start_switch(&c);
	hosts[0].body = unserved;
	run_hosts(0, 1);
	cr_expect_eq(hosts[0].code, -EINVAL, "%s", hosts[0].error);
	cr_expect_not_null(strstr(hosts[0].error, "bor is for integers"), "%s", hosts[0].error);
	hosts[0].config.base_form = true;
	hosts[0].code = 0;
	run_hosts(0, 1);
	cr_expect_eq(hosts[0].code, -EINVAL, "the base form has one type only: %s", hosts[0].error);
	fake_switch_stop(fake, NULL);
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

Test(weir_host, silent_switch_is_told_from_missing_sources, .timeout = 30)
{
	struct fake_switch_config c = switch_config(1);

	start_switch(&c);
	hosts[0].body = mute_the_switch;
	hosts[0].count = 64;
	hosts[0].config.op_timeout_ms = 500;
	run_hosts(0, 1);
	fake_switch_stop(fake, NULL);
	cr_expect_eq(hosts[0].code, -ETIMEDOUT);
	cr_expect_not_null(strstr(hosts[0].error, "has not answered"), "%s", hosts[0].error);
}

/* Host 0 opens a second time: a new generation, of which its first handle must learn. */
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

Test(weir_host, old_generation_is_stale, .timeout = 30)
{
	struct fake_switch_config c = switch_config(2);

	start_switch(&c);
	hosts[0].body = hosts[1].body = rejoin;
	run_hosts(0, 2);
	fake_switch_stop(fake, NULL);
	for (unsigned int h = 0; h < 2; h++) {
		cr_expect_eq(hosts[h].wrong, 0u);
		cr_expect_eq(hosts[h].code, -ESTALE, "%s", hosts[h].error);
	}
}

static int
window_of_three(struct host *h)
{
	h->wrong += weir_window(h->weir) != 2;
	h->wrong += weir_elements(h->weir, WEIR_DTYPE_FP64) != 32;
	h->wrong += weir_sources(h->weir) != 2 || weir_timeout_ms(h->weir) != 200;
	return reduce(h);
}

Test(weir_host, window_limit_and_getters, .timeout = 30)
{
	struct fake_switch_config c = switch_config(2);

	start_switch(&c);
	for (unsigned int h = 0; h < 2; h++) {
		hosts[h].body = window_of_three;
		hosts[h].count = 3000;
		hosts[h].config.window_limit = 3;
	}
	run_hosts(0, 2);
	fake_switch_stop(fake, NULL);
	expect_right(2);
}
