/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application that computes for long while the others go on: their results are there when it
 * calls, and nobody has waited. Against the reference switch, over loopback UDP, with faults on a
 * seed.
 */
#include "tests/random.h"

#define HOSTS   3
#define LATE    2 /* the host that computes */
#define BLOCKS  3 /* of an operation */
#define COUNT   150 /* elements: a block has 64 */
#define ROUNDS  16
#define LONG    (64 * 40) /* elements of an operation of 40 blocks */
#define TIMEOUT 50 /* ms */
#define NAP     (40 * TIMEOUT)

#define HOST_FIELDS                                                                                \
	int second;                                                                                \
	uint64_t ahead, left;                                                                      \
	unsigned int fetched; /* rounds that were there when they were called */                   \
	uint32_t data[COUNT]; /* in place; error feedback knows it by its address */               \
	uint32_t given[COUNT], got[COUNT]; /* sums of all that was contributed, and delivered */
#include "tests/unit/hosts.h"

static void
start(double faults, int (*body)(struct host *host))
{
	struct fake_switch_config c = switch_config(HOSTS);

	c.loss = c.duplicate = c.reorder = faults;
	c.seed = faults > 0 ? random_seed() : 0;
	c.job.window = 8;
	c.job.policy = MODEL_PARTIAL;
	c.job.timeout_ms = TIMEOUT;
	start_switch(&c);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].config.join_timeout_ms = hosts[h].config.op_timeout_ms = 20000;
		hosts[h].config.error_feedback = true;
		hosts[h].body = body;
	}
}

/* One AllReduce, added to what was given and got. */
static int
round_of(struct host *h, unsigned int k, bool zero)
{
	uint32_t *data = h->data;
	int code;

	for (unsigned int i = 0; i < COUNT; i++) {
		data[i] = zero ? 0 : (h->id + 1) * 0x3000001u * (k + 1) + i;
		h->given[i] += data[i];
	}
	code = weir_allreduce(h->weir, data, data, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	for (unsigned int i = 0; i < COUNT; i++)
		h->got[i] += data[i];
	return code;
}

/* All rounds, and a long nap of one after the first; then all meet, and what is owed is
 * delivered. */
static int
rounds(struct host *h)
{
	unsigned int k = 1;

	h->code = round_of(h, 0, false);
	if (h->id == LATE) {
		sleep_ms(NAP);
		h->ahead = weir_unexpected(h->weir);
		for (; h->code >= 0 && k < ROUNDS && weir_unexpected(h->weir) >= BLOCKS; k++)
			h->code = round_of(h, k, false);
		h->fetched = k - 1;
	}
	for (; k < ROUNDS && h->code >= 0; k++)
		h->code = round_of(h, k, false);
	h->left = weir_unexpected(h->weir);
	if (h->code >= 0)
		h->code = weir_rejoin(h->weir);
	for (unsigned int n = 0; n < 4 && h->code >= 0; n++)
		h->second = h->code = round_of(h, 0, true);
	return h->code;
}

static void
check_rounds(void)
{
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_assert_geq(hosts[h].code, 0, "host %u: %s", h, hosts[h].error);
		for (unsigned int i = 0; i < COUNT; i++)
			cr_assert_eq(hosts[h].got[i],
				hosts[0].given[i] + hosts[1].given[i] + hosts[2].given[i],
				"host %u, element %u", h, i);
	}
	cr_expect_geq(hosts[LATE].stats.unexpected, hosts[LATE].fetched * (uint64_t)BLOCKS);
	cr_expect_geq(hosts[LATE].stats.acknowledged, hosts[LATE].stats.unexpected);
}

static void
others_go_on(bool base_form, unsigned int window_limit)
{
	start(0, rounds);
	for (unsigned int h = 0; h < HOSTS; h++)
		hosts[h].config.base_form = base_form;
	hosts[LATE].config.window_limit = window_limit;
	check_rounds();
	/* A round takes a timeout; the nap is longer than all. Without acknowledgements they
	 * wait. */
	cr_expect_geq(hosts[LATE].fetched, ROUNDS / 2, "%u rounds", hosts[LATE].fetched);
	cr_expect_geq(hosts[LATE].ahead, hosts[LATE].fetched * (uint64_t)BLOCKS);
}

Test(weir_unexpected, late_host_does_not_delay_others, .timeout = 90)
{
	others_go_on(false, 0);
	cr_expect_eq(hosts[LATE].left, 0u);
	cr_expect_eq(hosts[LATE].stats.unexpected_full, 0u);
}

Test(weir_unexpected, late_host_does_not_delay_others_in_base_form, .timeout = 90)
{
	others_go_on(true, 0);
}

/* Of its own, and smaller than the job's, by whose residues is acknowledged. */
Test(weir_unexpected, with_a_smaller_window, .timeout = 90)
{
	others_go_on(false, 2);
}

Test(weir_unexpected, late_host_under_loss, .timeout = 120)
{
	start(0.05, rounds);
	check_rounds();
	cr_expect_gt(hosts[LATE].fetched, 0u);
}

Test(weir_unexpected, unexpected_results_are_bounded, .timeout = 90)
{
	start(0, rounds);
	hosts[LATE].config.unexpected_bytes = 4000;
	check_rounds();
	cr_expect_gt(hosts[LATE].stats.unexpected_full, 0u);
	cr_expect_gt(hosts[LATE].fetched, 0u);
	cr_expect_leq(hosts[LATE].ahead, 4000u / 256u);
}

/* One operation of many windows; the late one calls when all of it is there, or a part. */
static int
one_long(struct host *h)
{
	static int32_t data[HOSTS][LONG];
	const struct weir_degraded *blocks;
	size_t n, sum = 0;

	for (unsigned int i = 0; i < LONG; i++)
		data[h->id][i] = 1 << h->id;
	if (h->id == LATE)
		sleep_ms(h->config.op_timeout_ms / 20);
	h->ahead = weir_unexpected(h->weir);
	h->code = weir_allreduce(
		h->weir, data[h->id], data[h->id], LONG, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	n = weir_degraded(h->weir, &blocks);
	for (size_t b = 0; b < n; b++) {
		if (blocks[b].present[0] != 3)
			h->second = -1;
		for (size_t i = 0; i < blocks[b].count; i++)
			if (data[h->id][blocks[b].first + i] != 3)
				h->second = -2;
		sum += blocks[b].count;
	}
	for (unsigned int i = 0; i < LONG; i++)
		h->got[0] += (uint32_t)data[h->id][i];
	/* Each element that is not in a degraded block is the sum of all. */
	if (h->got[0] != 3 * sum + 7 * (LONG - sum))
		h->second = -3;
	h->fetched = (unsigned int)(sum / 64);
	return h->code;
}

static void
long_operation(unsigned int nap_ms, bool whole)
{
	start(0, one_long);
	hosts[LATE].config.op_timeout_ms = nap_ms * 20;
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].code, WEIR_PARTIAL, "%d %s", hosts[h].code, hosts[h].error);
		cr_expect_eq(hosts[h].second, 0, "host %u: %d", h, hosts[h].second);
		cr_expect_eq(hosts[h].fetched, hosts[0].fetched);
	}
	if (whole) {
		cr_expect_eq(hosts[LATE].ahead, LONG / 64u, "%" PRIu64, hosts[LATE].ahead);
		cr_expect_eq(hosts[LATE].stats.packets_sent, 0u, "it contributes nothing");
		cr_expect_eq(hosts[LATE].stats.fed_back, LONG / 64u);
	} else {
		cr_expect(hosts[LATE].ahead > 0 && hosts[LATE].ahead < LONG / 64u, "%" PRIu64,
			hosts[LATE].ahead);
		cr_expect_lt(hosts[0].fetched, LONG / 64u, "from then on it contributes");
	}
}

Test(weir_unexpected, operation_completes_before_its_call, .timeout = 90)
{
	long_operation(NAP, true);
}

Test(weir_unexpected, operation_is_called_half_way, .timeout = 90)
{
	long_operation(TIMEOUT * 5 / 2, false);
}

/* What is there is of another length than what is called. */
static int
another(struct host *h)
{
	int32_t data[64] = {0};

	if (h->id == LATE)
		sleep_ms(4 * TIMEOUT);
	h->ahead = weir_unexpected(h->weir);
	h->code = weir_allreduce(
		h->weir, data, data, h->id == LATE ? 30 : 20, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	h->left = weir_unexpected(h->weir);
	return h->code;
}

Test(weir_unexpected, mismatched_late_call_is_an_error, .timeout = 90)
{
	start(0, another);
	run_all();
	cr_expect_eq(hosts[0].code, WEIR_PARTIAL);
	cr_expect_eq(hosts[LATE].ahead, 1u);
	expect_failed(LATE, -EPROTO, "something else");
	expect_failed(LATE, -EPROTO, "20 elements");
	expect_failed(LATE, -EPROTO, "30 of");
}

/* What was kept is of a generation that is over. */
static int
rejoins(struct host *h)
{
	if (h->id == LATE)
		sleep_ms(6 * TIMEOUT);
	else
		h->code = round_of(h, 0, false);
	h->ahead = weir_unexpected(h->weir);
	h->second = weir_rejoin(h->weir);
	h->left = weir_unexpected(h->weir);
	weir_error_feedback_forget(h->weir, NULL);
	return round_of(h, 1, true);
}

Test(weir_unexpected, a_new_generation_forgets, .timeout = 90)
{
	start(0, rejoins);
	run_all();
	cr_expect_eq(hosts[LATE].ahead, (uint64_t)BLOCKS);
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].second, 0);
		cr_expect_eq(hosts[h].left, 0u);
	}
	cr_expect_eq(hosts[LATE].stats.results_ok, (uint64_t)BLOCKS);
	cr_expect_eq(hosts[LATE].stats.results_partial, 0u);
}
