/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an application can make of faults: partial results as it wants them, contributions that are
 * fed back, a generation begun anew. Against the reference switch, over loopback UDP.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>

#define HOSTS 3
#define LATE  2 /* the host that is late */
#define COUNT 150 /* elements: three blocks */

/* Of a block, and how late the late one is: hosts that share a busy CPU are late too, but not so
 * much. */
#define TIMEOUT_MS 300
#define LATE_MS    1000
#define ROUNDS     20 /* at most, until all have met */
#define BUFFERS    1000

#define HOST_FIELDS                                                                                \
	bool in_place;                                                                             \
	enum weir_dtype dtype;                                                                     \
	int second, third; /* what the calls after `code` returned */                              \
	struct weir_result first; /* of the first call */                                          \
	uint64_t owed;                                                                             \
	uint32_t given[COUNT], got[COUNT]; /* sums of all that was contributed, and delivered */   \
	int32_t integers[COUNT];                                                                   \
	float floats[COUNT];
#include "tests/unit/hosts.h"

static void
start(uint8_t policy, uint32_t timeout_ms, int (*body)(struct host *host))
{
	struct fake_switch_config c = switch_config(HOSTS);

	c.job.window = 64;
	c.job.policy = policy;
	c.job.timeout_ms = timeout_ms;
	start_switch(&c);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].body = body;
		hosts[h].dtype = WEIR_DTYPE_INT32;
	}
}

/* One AllReduce of this value in round k, added to what was given and got. */
static int
round_of(struct host *h, unsigned int k, bool zero, uint32_t *send, uint32_t *recv)
{
	int code;

	for (unsigned int i = 0; i < COUNT; i++) {
		send[i] = zero ? 0 : (h->id + 1) * 0x3000001u * (k + 1) + i;
		h->given[i] += send[i];
	}
	code = weir_allreduce(h->weir, send, recv, COUNT, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	for (unsigned int i = 0; i < COUNT; i++)
		h->got[i] += recv[i];
	return code;
}

/* One is late in some rounds; then all meet, and nobody contributes any more. */
static int
feeds_back(struct host *h)
{
	uint32_t send[COUNT], other[COUNT], *recv = h->in_place ? send : other;

	for (unsigned int k = 0; k < 8 && h->code >= 0; k++) {
		if (h->id == LATE && k % 3 == 1)
			sleep_ms(LATE_MS);
		h->code = round_of(h, k, false, send, recv);
	}
	if (h->code >= 0)
		h->code = weir_rejoin(h->weir);
	/* All see the same result, so they go on alike. */
	for (unsigned int k = 0, met = 0; k < ROUNDS && met < 2 && h->code >= 0; k++) {
		h->second = h->code = round_of(h, k, true, send, recv);
		met = h->code == 0 ? met + 1 : 0;
	}
	h->owed = weir_error_feedback_forget(h->weir, NULL);
	return h->code;
}

static void
all_is_delivered(bool in_place)
{
	start(MODEL_PARTIAL, TIMEOUT_MS, feeds_back);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].config.error_feedback = true;
		hosts[h].in_place = in_place;
	}
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_geq(hosts[h].code, 0, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].second, 0, "host %u: not all met", h);
		cr_expect_eq(hosts[h].owed, 0u);
		for (unsigned int i = 0; i < COUNT; i++)
			cr_assert_eq(hosts[h].got[i],
				hosts[0].given[i] + hosts[1].given[i] + hosts[2].given[i],
				"host %u, element %u", h, i);
	}
	cr_expect_gt(hosts[LATE].stats.fed_back, 0u);
}

Test(weir_faults, error_feedback_is_delivered, .timeout = 90)
{
	all_is_delivered(false);
}

Test(weir_faults, error_feedback_is_delivered_in_place, .timeout = 90)
{
	all_is_delivered(true);
}

/* What one operation with one late host returns, and after it one with all. */
static int
late_once(struct host *h)
{
	bool floats = h->dtype == WEIR_DTYPE_FP32;
	unsigned int barriers = 0;
	void *data = floats ? (void *)h->floats : (void *)h->integers;

	if (h->id == LATE)
		sleep_ms(LATE_MS);
	h->code = weir_allreduce(h->weir, data, data, COUNT, h->dtype, WEIR_OP_SUM);
	weir_last_result(h->weir, &h->first);
	if (h->code == -ENOMEM)
		return h->code;
	h->second = weir_rejoin(h->weir);
	do {
		h->third = weir_barrier(h->weir);
	} while ((h->third == WEIR_PARTIAL || h->third == -EIO) && ++barriers < ROUNDS);
	return h->code;
}

Test(weir_faults, integers_are_rescaled, .timeout = 90)
{
	/* Of two of three: times 1.5, halves away from 0, no further than the type. */
	static const int32_t in[][2] = {
		{10, 20}, {5, 10}, {-5, -10}, {0, 0}, {1 << 30, 1 << 29}, {-(1 << 30), -(1 << 29)}};
	static const int32_t out[] = {45, 23, -23, 0, INT32_MAX, INT32_MIN};

	start(MODEL_PARTIAL, TIMEOUT_MS, late_once);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].config.partial = WEIR_PARTIAL_RESCALE;
		for (unsigned int i = 0; i < 6; i++)
			hosts[h].integers[i] = h == LATE ? 1000 : in[i][h];
		hosts[h].integers[COUNT - 1] = 2;
	}
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].code, WEIR_PARTIAL, "host %u: %d %s", h, hosts[h].code,
			hosts[h].error);
		for (unsigned int i = 0; i < 6; i++)
			cr_expect_eq(hosts[h].integers[i], out[i], "host %u, %u: %d", h, i,
				hosts[h].integers[i]);
		cr_expect_eq(hosts[h].integers[COUNT - 1], 6);
		cr_expect_eq(hosts[h].third, 0);
	}
}

Test(weir_faults, floats_are_rescaled, .timeout = 90)
{
	start(MODEL_PARTIAL, TIMEOUT_MS, late_once);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].config.partial = WEIR_PARTIAL_RESCALE;
		hosts[h].dtype = WEIR_DTYPE_FP32;
		for (unsigned int i = 0; i < COUNT; i++)
			hosts[h].floats[i] = (float)(h + 1) * 0.1f;
	}
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].code, WEIR_PARTIAL);
		for (unsigned int i = 0; i < COUNT; i++)
			cr_assert_eq(hosts[h].floats[i], (float)((double)(0.1f + 0.2f) * 3 / 2));
	}
}

Test(weir_faults, partial_results_fail_where_that_is_wanted, .timeout = 90)
{
	start(MODEL_PARTIAL, TIMEOUT_MS, late_once);
	for (unsigned int h = 1; h < HOSTS; h++)
		hosts[h].config.partial = WEIR_PARTIAL_FAIL;
	run_all();
	cr_expect_eq(hosts[0].code, WEIR_PARTIAL);
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].first.degraded, 3u);
		cr_expect_eq(hosts[h].first.without_own, h == LATE ? 3u : 0u, "host %u", h);
	}
	for (unsigned int h = 1; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].code, -EIO, "host %u: %d", h, hosts[h].code);
		cr_expect_eq(hosts[h].second, 0);
		cr_expect_eq(hosts[h].third, 0);
	}
}

/* ---- what is late to a call that others begun ---- */

static bool begun, over; /* the root has sent, and has its result */

static void
wait_until(bool *flag)
{
	for (unsigned int ms = 0; ms < 20000 && !__atomic_load_n(flag, __ATOMIC_ACQUIRE); ms++)
		sleep_ms(1);
}

static void
set(bool *flag)
{
	__atomic_store_n(flag, true, __ATOMIC_RELEASE);
}

/* The root's data are there before anybody else is, and the late one comes when all is over. */
static int
late_to_the_root(struct host *h)
{
	bool scatters = h->dtype == WEIR_DTYPE_UINT32;
	struct weir_request *request = NULL;
	int code;

	if (h->id != 0)
		wait_until(h->id == LATE ? &over : &begun);
	if (scatters)
		code = weir_iscatter(
			h->weir, h->integers, h->got, COUNT / HOSTS, h->dtype, 0, &request);
	else
		code = weir_ibroadcast(h->weir, h->integers, h->got, COUNT, h->dtype, 0, &request);
	set(&begun);
	h->code = code == 0 ? weir_wait(&request) : code;
	weir_last_result(h->weir, &h->first);
	h->owed = strlen(weir_last_error(h->weir));
	if (h->id == 0)
		set(&over);
	return h->code;
}

static void
whole_without_the_late(enum weir_dtype dtype)
{
	bool scatters = dtype == WEIR_DTYPE_UINT32;

	start(MODEL_PARTIAL, TIMEOUT_MS, late_to_the_root);
	for (unsigned int h = 0; h < HOSTS; h++) {
		hosts[h].dtype = dtype;
		hosts[h].config.partial = h == 1 ? WEIR_PARTIAL_FAIL : WEIR_PARTIAL_AS_IS;
		for (unsigned int i = 0; i < COUNT; i++)
			hosts[h].integers[i] = h == 0 ? (int32_t)i + 7 : -1;
	}
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		const struct weir_result *r = &hosts[h].first;

		cr_expect_eq(hosts[h].code, 0, "host %u: %d %s", h, hosts[h].code, hosts[h].error);
		cr_expect_eq(hosts[h].owed, 0u, "host %u: %s", h, hosts[h].error);
		cr_expect_gt(r->degraded, 0u, "host %u", h);
		cr_expect_neq(r->missing[0] & 1u << LATE, 0);
		cr_expect_lt(r->sources_least, (unsigned int)HOSTS);
		for (unsigned int i = 0; i < (scatters ? COUNT / HOSTS : COUNT); i++)
			cr_assert_eq(hosts[h].got[i], i + 7 + (scatters ? h * (COUNT / HOSTS) : 0),
				"host %u, element %u", h, i);
	}
}

Test(weir_faults, broadcast_is_whole_without_a_late_receiver, .timeout = 90)
{
	whole_without_the_late(WEIR_DTYPE_INT32);
}

Test(weir_faults, scatter_is_whole_without_a_late_receiver, .timeout = 90)
{
	whole_without_the_late(WEIR_DTYPE_UINT32);
}

/* Two partial results, of which the first has more blocks. */
static int
late_to_two(struct host *h)
{
	struct weir_request *requests[2] = {NULL, NULL};

	if (h->id == LATE)
		wait_until(&over);
	h->code = weir_iallreduce(
		h->weir, h->integers, h->integers, COUNT, h->dtype, WEIR_OP_SUM, &requests[0]);
	if (h->code == 0)
		h->code = weir_iallreduce(
			h->weir, h->got, h->got, 1, h->dtype, WEIR_OP_SUM, &requests[1]);
	h->code = weir_wait_all(requests, 2);
	set(&over);
	h->owed = strstr(weir_last_error(h->weir), "3 of 3 blocks") != NULL;
	return h->code;
}

Test(weir_faults, later_requests_report_the_first_partial, .timeout = 90)
{
	start(MODEL_PARTIAL, TIMEOUT_MS, late_to_two);
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		cr_expect_eq(hosts[h].code, WEIR_PARTIAL);
		cr_expect_eq(hosts[h].owed, 1u, "host %u: %s", h, hosts[h].error);
	}
}

Test(weir_faults, error_feedback_is_bounded, .timeout = 90)
{
	start(MODEL_PARTIAL, TIMEOUT_MS, late_once);
	hosts[LATE].config.error_feedback = true;
	hosts[LATE].config.error_feedback_bytes = 100;
	for (unsigned int h = 0; h < LATE; h++)
		hosts[h].config.join_timeout_ms = 2000;
	run_all();
	expect_failed(LATE, -ENOMEM, "error feedback");
}

/* Three calls; what the first owes has no room in the second. */
static int
owes_too_much(struct host *h)
{
	int32_t *first = h->integers, second[COUNT];

	if (h->id == LATE)
		sleep_ms(LATE_MS);
	memset(first, 0, sizeof(h->integers));
	h->code = weir_allreduce(h->weir, first, first, COUNT, h->dtype, WEIR_OP_SUM);
	if (h->id != LATE) /* the others had the result a timeout after they began */
		sleep_ms(LATE_MS - TIMEOUT_MS);
	for (unsigned int i = 0; i < COUNT; i++) {
		first[i] = 1;
		second[i] = 100;
	}
	h->second = weir_allreduce(h->weir, first, first, COUNT, h->dtype, WEIR_OP_SUM);
	h->third = weir_allreduce(h->weir, second, second, COUNT, h->dtype, WEIR_OP_SUM);
	memcpy(h->got, second, sizeof(second));
	return h->third;
}

Test(weir_faults, a_call_that_can_t_begin_ends_the_generation, .timeout = 90)
{
	start(MODEL_PARTIAL, TIMEOUT_MS, owes_too_much);
	hosts[LATE].config.error_feedback = true;
	hosts[LATE].config.error_feedback_bytes = 3 * COUNT * 4 / 2;
	run_all();
	cr_expect_eq(hosts[LATE].code, WEIR_PARTIAL);
	cr_expect_eq(hosts[LATE].second, -ENOMEM, "%d", hosts[LATE].second);
	/* Else it would contribute to the others' second call what is meant for the third. */
	cr_expect_eq(hosts[LATE].third, -ENOMEM, "%d", hosts[LATE].third);
	for (unsigned int i = 0; i < COUNT; i++) {
		cr_assert_eq(hosts[0].integers[i], 2);
		cr_assert_eq(hosts[0].got[i], 200u);
	}
}

/* Bytes allocated by this process. ASan has its own malloc, beside which mallinfo2() may crash. */
#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc 12 has no header for it */
#endif

static size_t
allocated(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __sanitizer_get_current_allocated_bytes();
#else
	return mallinfo2().uordblks;
#endif
}

/* Each call has another buffer, as of a program that allocates its tensors anew. */
static int
new_buffers(struct host *h)
{
	static uint32_t buffers[HOSTS][COUNT + BUFFERS];
	size_t before;

	h->code = weir_barrier(h->weir); /* the others are open, too */
	before = allocated();
	for (unsigned int k = 0; k < BUFFERS && h->code == 0; k++)
		h->code = round_of(h, k, true, buffers[h->id] + k, buffers[h->id] + k);
	h->owed = allocated() - before;
	return h->code;
}

Test(weir_faults, no_error_feedback_takes_no_memory, .timeout = 90)
{
	start(MODEL_WAIT, TIMEOUT_MS, new_buffers);
	for (unsigned int h = 0; h < HOSTS; h++)
		hosts[h].config.error_feedback = true;
	run_all();
	cr_expect_eq(hosts[0].code, 0, "%s", hosts[0].error);
	cr_expect_lt((int64_t)hosts[0].owed, BUFFERS * 64, "%" PRIu64 " bytes", hosts[0].owed);
}

/* One leaves in the middle, as if it had crashed, and comes back as another process would. */
static int
crash(struct host *h)
{
	uint32_t data[COUNT];

	if (h->id == LATE) {
		weir_close(h->weir);
		sleep_ms(100);
		h->second = weir_open(&h->config, &h->weir);
	} else {
		h->code = round_of(h, 0, false, data, data);
		cr_log_info("%s", weir_last_error(h->weir));
		if (weir_barrier(h->weir) == h->code) /* it stays so until they join again */
			h->second = weir_rejoin(h->weir);
	}
	memset(h->given, 0, sizeof(h->given));
	memset(h->got, 0, sizeof(h->got));
	h->third = h->second < 0 ? h->second : round_of(h, 1, false, data, data);
	return h->third;
}

Test(weir_faults, returning_host_begins_a_generation, .timeout = 90)
{
	start(MODEL_WAIT, 100, crash);
	for (unsigned int h = 0; h < HOSTS; h++)
		hosts[h].config.op_timeout_ms = 3000;
	run_all();
	for (unsigned int h = 0; h < HOSTS; h++) {
		if (h != LATE)
			cr_expect_eq(hosts[h].code, -ETIMEDOUT, "host %u: %d", h, hosts[h].code);
		cr_expect_eq(hosts[h].second, 0, "host %u: %s", h, hosts[h].error);
		cr_expect_eq(hosts[h].third, 0, "host %u: %s", h, hosts[h].error);
		for (unsigned int i = 0; i < COUNT; i++)
			cr_assert_eq(hosts[h].got[i],
				hosts[0].given[i] + hosts[1].given[i] + hosts[2].given[i]);
	}
}
