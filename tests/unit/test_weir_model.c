/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference switch itself, packet by packet: it is what others are compared with. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/model/switch_model.h"

#define JOB      7
#define SOURCES  3
#define WINDOW   4
#define ELEMENTS 8
#define TIMEOUT  100

static struct model *model;
static struct model_packet packets[64];
static uint8_t bytes[64][512];
static unsigned int count;

static void
keep(void *argument, const struct model_packet *p)
{
	(void)argument;
	cr_assert_lt(count, 64u);
	packets[count] = *p;
	memcpy(bytes[count], p->bytes, p->size);
	packets[count].bytes = bytes[count];
	count++;
}

static void
create(enum model_policy policy)
{
	struct model_config c = {
		.job = JOB,
		.sources = SOURCES,
		.window = WINDOW,
		.elements = ELEMENTS,
		.dtype = WEIR_DTYPE_INT32,
		.op = WEIR_OP_SUM,
		.policy = policy,
		.timeout_ms = TIMEOUT,
	};

	model = model_create(&c);
	cr_assert_not_null(model);
}

static struct model_peer
peer(uint8_t source)
{
	return (struct model_peer){
		.address = 0x7f000001u + source, .port = (uint16_t)(1000 + source)};
}

static const char *
input(const struct weir_header *h, const int32_t *values, uint64_t now)
{
	uint8_t packet[256];
	size_t size = weir_header_write(h, packet);
	struct model_peer from = peer(h->src_id);

	if (values != NULL) {
		memcpy(packet + size, values, h->grad_cnt * 4u);
		size += h->grad_cnt * 4u;
	}
	count = 0;
	return model_input(model, now, h->extended, &from, packet, size, keep, NULL);
}

static const char *
join(uint8_t source, uint32_t nonce)
{
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = source,
		.block_id = nonce,
		.collective = WEIR_COLLECTIVE_JOIN};

	return input(&h, NULL, 0);
}

static const char *
contribute(uint8_t source, uint32_t block, int32_t value, uint64_t now)
{
	const int32_t values[2] = {value, -value};
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = source,
		.block_id = block,
		.gen_id = model_generation(model),
		.grad_cnt = 2,
		.dtype = WEIR_DTYPE_INT32};

	return input(&h, values, now);
}

static struct weir_header
out(unsigned int i, const uint8_t **payload, size_t *size)
{
	struct weir_header h = {.extended = true};

	cr_assert_lt(i, count);
	weir_header_read(&h, packets[i].bytes);
	*payload = packets[i].bytes + WEIR_EXT_BYTES;
	*size = packets[i].size - WEIR_EXT_BYTES;
	return h;
}

static void
expect(unsigned int i, uint8_t source, uint8_t status, size_t size)
{
	const uint8_t *payload;
	size_t got;
	struct weir_header h = out(i, &payload, &got);

	cr_expect_eq(h.src_id, source);
	cr_expect_eq(h.status, status, "status %u instead of %u", h.status, status);
	cr_expect_eq(got, size);
	cr_expect_eq(packets[i].to.port, peer(source).port);
}

static void
join_all(void)
{
	cr_assert_str_eq(join(0, 10), "join");
	expect(0, 0, WEIR_STATUS_WAITING, 32);
	join(1, 11);
	cr_assert_str_eq(join(2, 12), "join");
	cr_assert_eq(count, 3u);
}

/* A job of this policy, whose first generation has begun. */
static void
begin(enum model_policy policy)
{
	create(policy);
	join_all();
}

static void
destroy(void)
{
	model_destroy(model);
}

TestSuite(weir_model, .fini = destroy, .timeout = 90);

Test(weir_model, join_begins_a_generation)
{
	struct weir_join_reply r;
	const uint8_t *payload;
	size_t size;
	struct weir_header h;

	create(MODEL_WAIT);
	cr_expect_str_eq(contribute(0, 0, 1, 0), "not_joined");
	join_all();
	h = out(2, &payload, &size);
	cr_assert_eq(size, sizeof(r));
	memcpy(&r, payload, sizeof(r));
	cr_expect_eq(h.block_id, 12u);
	cr_expect_eq(h.gen_id, 1);
	cr_expect_eq(weir_get16(r.window), WINDOW);
	cr_expect_eq(weir_get16(r.elements), ELEMENTS);
	cr_expect_eq(weir_get16(r.sources), SOURCES);
	cr_expect_eq(weir_get32(r.timeout_ms), (uint32_t)TIMEOUT);
	/*
	 * the same nonce again: the same answer, to it alone; another: the next generation collects
	 */
	join(1, 11);
	cr_expect_eq(count, 1u);
	expect(0, 1, WEIR_STATUS_OK, sizeof(r));
	join(1, 99);
	expect(0, 1, WEIR_STATUS_WAITING, 32);
	cr_expect_eq(model_generation(model), 1);
	join(0, 98);
	join(2, 97);
	cr_expect_eq(model_generation(model), 2);
	cr_expect_str_eq(join(3, 1), "unknown_source");
	expect(0, 3, WEIR_STATUS_REFUSED, 0);
}

Test(weir_model, block_completes_repeats_and_expires)
{
	const uint8_t *payload;
	int32_t sum[2];
	size_t size;

	begin(MODEL_WAIT);
	contribute(0, 0, 1, 0);
	cr_expect_eq(count, 0u);
	cr_expect_str_eq(contribute(0, 0, 1, 1), "duplicate");
	cr_expect_eq(count, 0u);
	contribute(1, 0, 2, 0);
	contribute(2, 0, 3, 0);
	cr_assert_eq(count, SOURCES);
	for (uint8_t s = 0; s < SOURCES; s++)
		expect(s, s, WEIR_STATUS_OK, 8);
	cr_expect_eq(out(1, &payload, &size).src_cnt, SOURCES);
	memcpy(sum, payload, sizeof(sum));
	cr_expect_eq(sum[0], 6);
	cr_expect_eq(sum[1], -6);
	/* its result was lost: answered alone */
	cr_expect_str_eq(contribute(1, 0, 2, 0), "late");
	cr_assert_eq(count, 1u);
	expect(0, 1, WEIR_STATUS_OK, 8);
	/* block 0 stays until every source has sent block 4 */
	contribute(0, WINDOW, 1, 0);
	contribute(1, WINDOW, 1, 0);
	cr_expect_str_eq(contribute(2, 0, 3, 0), "late");
	expect(0, 2, WEIR_STATUS_OK, 8);
	contribute(2, WINDOW, 1, 0);
	cr_expect_str_eq(contribute(2, 0, 3, 0), "expired");
	expect(0, 2, WEIR_STATUS_EXPIRED, 0);
}

Test(weir_model, window_stale_address_length)
{
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.grad_cnt = 2,
		.gen_id = 1,
		.dtype = WEIR_DTYPE_INT32};
	const int32_t values[3] = {0};
	uint8_t packet[64];
	struct model_peer wrong = {.address = 0x7f000001u, .port = 2};

	begin(MODEL_WAIT);
	cr_expect_str_eq(contribute(0, WINDOW, 1, 0), "window");
	expect(0, 0, WEIR_STATUS_WINDOW, 0);
	contribute(0, 0, 1, 0);
	cr_expect_str_eq(contribute(0, WINDOW, 1, 0), "window", "block 0 is open");
	h.gen_id = 2;
	cr_expect_str_eq(input(&h, values, 0), "stale");
	expect(0, 0, WEIR_STATUS_STALE, 0);
	h.gen_id = 1;
	h.grad_cnt = 1;
	weir_header_write(&h, packet);
	cr_expect_str_eq(model_input(model, 0, true, &wrong, packet, 20, keep, NULL), "address");
	wrong = peer(0);
	cr_expect_str_eq(model_input(model, 0, true, &wrong, packet, 24, keep, NULL), "length");
	cr_expect_str_eq(model_input(model, 0, true, &wrong, packet, 15, keep, NULL), "truncated");
	h.grad_cnt = 2;
	h.dtype = WEIR_DTYPE_FP32;
	h.op = WEIR_OP_BOR;
	cr_expect_str_eq(input(&h, values, 0), "unsupported");
	expect(0, 0, WEIR_STATUS_UNSUPPORTED, 0);
}

Test(weir_model, mismatch_names_the_field)
{
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = 1,
		.gen_id = 1,
		.grad_cnt = 3,
		.dtype = WEIR_DTYPE_INT32};
	const int32_t values[3] = {0};
	struct weir_mismatch m;
	const uint8_t *payload;
	size_t size;

	begin(MODEL_WAIT);
	contribute(0, 0, 1, 0);
	cr_expect_str_eq(input(&h, values, 0), "mismatch");
	cr_assert_eq(count, SOURCES);
	expect(2, 2, WEIR_STATUS_MISMATCH, sizeof(m));
	out(2, &payload, &size);
	memcpy(&m, payload, sizeof(m));
	cr_expect_eq(m.field, WEIR_FIELD_LENGTH);
	cr_expect_eq(m.source, 0);
	cr_expect_eq(m.other, 1);
	cr_expect_eq(weir_get16(m.block), 2);
	cr_expect_eq(weir_get16(m.offered), 3);
	contribute(2, 0, 1, 0);
	cr_assert_eq(count, 1u);
	expect(0, 2, WEIR_STATUS_MISMATCH, sizeof(m));
}

Test(weir_model, policy_wait_names_who_is_in)
{
	const uint8_t *payload;
	size_t size;

	begin(MODEL_WAIT);
	contribute(0, 0, 1, 0);
	contribute(2, 0, 1, 0);
	count = 0;
	model_tick(model, 10 * TIMEOUT, keep, NULL);
	cr_expect_eq(count, 0u);
	contribute(0, 0, 1, 10 * TIMEOUT);
	cr_assert_eq(count, 1u);
	expect(0, 0, WEIR_STATUS_WAITING, 32);
	out(0, &payload, &size);
	cr_expect_eq(payload[0], 0x5);
}

Test(weir_model, policy_partial_and_the_straggler)
{
	const uint8_t *payload;
	size_t size;

	begin(MODEL_PARTIAL);
	contribute(0, 0, 10, 0);
	contribute(1, 0, 20, 50);
	count = 0;
	model_tick(model, 50 + TIMEOUT, keep, NULL);
	cr_expect_eq(count, 0u, "not yet: the last contribution came at 50");
	model_tick(model, 51 + TIMEOUT, keep, NULL);
	cr_assert_eq(count, SOURCES);
	expect(2, 2, WEIR_STATUS_PARTIAL, 8 + 32);
	cr_expect(out(2, &payload, &size).degraded);
	cr_expect_eq(out(2, &payload, &size).src_cnt, 2);
	cr_expect_eq(payload[8], 0x3);
	/* the others go on without it for one window, then their third buffer is held back */
	contribute(0, WINDOW, 1, 200);
	contribute(1, WINDOW, 1, 200);
	model_tick(model, 1000, keep, NULL);
	cr_expect_eq(model_blocks(model), 2u);
	cr_expect_str_eq(contribute(0, 2 * WINDOW, 1, 1000), "held_back");
	cr_expect_eq(count, 0u);
	/* the straggler wakes up: answered, alone, and what it sends acknowledges */
	cr_expect_str_eq(contribute(2, 0, 30, 1000), "late");
	cr_assert_eq(count, 1u);
	expect(0, 2, WEIR_STATUS_PARTIAL, 8 + 32);
	cr_expect_str_eq(contribute(2, WINDOW, 30, 1000), "late");
	cr_expect_str_eq(contribute(0, 2 * WINDOW, 1, 1000), "consumed");
}

Test(weir_model, policy_error_sends_no_sum)
{
	begin(MODEL_ERROR);
	contribute(1, 0, 10, 0);
	count = 0;
	model_tick(model, 1 + TIMEOUT, keep, NULL);
	cr_assert_eq(count, SOURCES);
	expect(0, 0, WEIR_STATUS_ERROR, 32);
}

Test(weir_model, base_form_and_barrier)
{
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = WEIR_FLAG_BASE_RESULTS};

	create(MODEL_WAIT);
	for (uint8_t s = 0; s < SOURCES; s++) {
		h.src_id = s;
		h.block_id = s;
		cr_assert_str_eq(input(&h, NULL, 0), "join");
	}
	h = (struct weir_header){.job_id = JOB, .gen_id = 1, .final = true};
	for (uint8_t s = 0; s < SOURCES; s++) {
		h.src_id = s;
		cr_assert_str_eq(input(&h, NULL, 0), "consumed");
	}
	cr_assert_eq(count, SOURCES);
	cr_expect_not(packets[0].extended);
	cr_expect_eq(packets[0].size, WEIR_BASE_BYTES);
	cr_expect_eq(packets[0].bytes[5], WEIR_FINAL);
}

Test(weir_model, memory_is_bounded)
{
	begin(MODEL_WAIT);
	for (uint32_t b = 0; b < 10 * WINDOW; b++) {
		for (uint8_t source = 0; source < SOURCES; source++)
			cr_assert_str_eq(contribute(source, b, 1, 0), "consumed", "block %u", b);
		cr_assert_eq(count, SOURCES);
	}
	cr_expect_leq(model_blocks(model), 2u * WINDOW);
}
