/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir believes nothing: a switch that sends, before each right result, one packet of every kind
 * that must not be taken, each with wrong sums in it. All are counted, none is delivered. And one
 * that tells what is true and rare: sources with gaps between their ids, a generation that is gone.
 */
#include <stdatomic.h>

#include "tests/unit/switch_player.h"

#define SOURCE  2
#define SOURCES 3
#define BLOCKS  5

/* What a lie changes of the right result. */
struct lie {
	const char *what;
	void (*change)(struct weir_header *h);
	int bytes; /* added to the length of the datagram */
	bool from_base_port;
	bool malformed; /* counted so; else foreign */
};

#define CHANGE(name, statement)                                                                    \
	static void name(struct weir_header *h)                                                    \
	{                                                                                          \
		statement;                                                                         \
	}
CHANGE(nothing, (void)h)
CHANGE(job, h->job_id++)
CHANGE(generation, h->gen_id++)
CHANGE(stale_of_ours, h->status = WEIR_STATUS_STALE)
CHANGE(other_source, h->src_id++)
CHANGE(fewer_sources, h->src_cnt--)
CHANGE(more_sources, h->src_cnt++)
CHANGE(other_type, h->dtype = WEIR_DTYPE_FP32)
CHANGE(other_op, h->op = WEIR_OP_MAX)
CHANGE(other_collective, h->collective = WEIR_COLLECTIVE_REDUCE)
CHANGE(fewer_elements, h->grad_cnt--)
CHANGE(degraded_but_ok, h->degraded = true)
CHANGE(partial_without_bitmap, h->status = WEIR_STATUS_PARTIAL)
CHANGE(unknown_status, h->status = 12)

static const struct lie lies[] = {
	{"another job", job, 0, false, false},
	{"another generation", generation, 0, false, false},
	{"stale, of this generation", stale_of_ours, 0, false, false},
	{"another source", other_source, 0, false, false},
	{"the port of the other form", nothing, 0, true, false},
	{"a source less in it", fewer_sources, 0, false, true},
	{"a source more in it", more_sources, 0, false, true},
	{"another type", other_type, 0, false, true},
	{"another operation", other_op, 0, false, true},
	{"another collective", other_collective, 0, false, true},
	{"fewer elements", fewer_elements, -4, false, true},
	{"grad_cnt is not the length", fewer_elements, 0, false, true},
	{"too short", nothing, -4, false, true},
	{"too long", nothing, 4, false, true},
	{"longer than any result", nothing, 64, false, true},
	{"shorter than a header", nothing, -(int)(ELEMENTS * 4 + 1), false, true},
	{"degraded, but ok", degraded_but_ok, 0, false, true},
	{"partial without bitmap", partial_without_bitmap, 0, false, true},
	{"a status that does not exist", unknown_status, 0, false, true},
};
#define LIES (sizeof(lies) / sizeof(lies[0]))

static atomic_bool stop;

static void
send_back(bool extended, const struct weir_header *h, const void *payload, int bytes)
{
	uint8_t packet[512] = {0};
	unsigned int header = weir_header_write(h, packet);

	if (payload != NULL)
		memcpy(packet + header, payload, ELEMENTS * 4);
	say_bytes(sockets[extended], packet, (size_t)bytes);
}

static void
answer_join(struct weir_header *h)
{
	const struct weir_join_reply r = join_reply(4, SOURCES, 100);
	uint8_t payload[ELEMENTS * 4] = {0};

	memcpy(payload, &r, sizeof(r));
	h->gen_id = GENERATION;
	send_back(true, h, payload, WEIR_EXT_BYTES + (int)sizeof(r));
}

/* The right result of a block, after every lie. */
static void
answer_with_lies(struct weir_header *h)
{
	int right = WEIR_EXT_BYTES + ELEMENTS * 4;
	int32_t sums[ELEMENTS];

	h->src_cnt = SOURCES;
	for (unsigned int i = 0; i < LIES; i++) {
		struct weir_header lie = *h;

		for (int e = 0; e < ELEMENTS; e++)
			sums[e] = -1000 - (int)i;
		lies[i].change(&lie);
		send_back(!lies[i].from_base_port, &lie, sums, right + lies[i].bytes);
	}
	h->block_id += 4; /* not in flight: whatever it says, it is not for us yet */
	send_back(true, h, sums, right);
	h->block_id -= 4;
	for (int e = 0; e < ELEMENTS; e++)
		sums[e] = (int32_t)h->block_id * 100 + e;
	send_back(true, h, sums, right);
	send_back(true, h, sums, right);
}

/* Of sources 2, 7 and 200: blocks 0 and 2 are without 200, block 1 is without 7. */
static void
answer_without_some(struct weir_header *h)
{
	uint8_t packet[512] = {0}, *bitmap = packet + WEIR_EXT_BYTES + ELEMENTS * 4;
	unsigned int other = h->block_id == 1 ? 200 : 7;

	h->src_cnt = SOURCES - 1;
	h->degraded = true;
	h->status = WEIR_STATUS_PARTIAL;
	weir_header_write(h, packet);
	bitmap[SOURCE / 8] |= 1u << SOURCE % 8;
	bitmap[other / 8] |= (uint8_t)(1u << other % 8);
	say_bytes(sockets[1], packet, WEIR_EXT_BYTES + ELEMENTS * 4 + WEIR_BITMAP_BYTES);
}

static void
answer_that_none_runs(struct weir_header *h)
{
	h->gen_id = WEIR_GEN_JOIN;
	h->status = WEIR_STATUS_STALE;
	h->grad_cnt = 0;
	send_back(true, h, NULL, WEIR_EXT_BYTES);
}

/* As a switch that is older than its hosts. */
static void
answer_that_it_is_not_served(struct weir_header *h)
{
	h->status = WEIR_STATUS_UNSUPPORTED;
	h->grad_cnt = 0;
	send_back(true, h, NULL, WEIR_EXT_BYTES);
}

static void (*answer)(struct weir_header *h);

static void *
liar(void *argument)
{
	(void)argument;
	while (!stop) {
		struct weir_header h = {.extended = true};
		uint8_t packet[512];

		if (receive(packet, 20) < 0)
			continue;
		weir_header_read(&h, packet);
		if (h.collective == WEIR_COLLECTIVE_JOIN) {
			answer_join(&h);
			continue;
		}
		answer(&h);
	}
	return NULL;
}

static void
open_handle(void)
{
	int code;

	open_switch(SOURCE);
	cr_assert_eq(pthread_create(&thread, NULL, liar, NULL), 0);
	code = weir_open(&config, &weir);
	cr_assert_eq(code, 0, "%s", weir_last_error(weir));
}

static void
close_handle(void)
{
	stop = true;
	pthread_join(thread, NULL);
	close_switch();
}

TestSuite(weir_liar, .init = open_handle, .fini = close_handle, .timeout = 90);

Test(weir_liar, nothing_but_the_right_result_is_taken)
{
	int32_t data[BLOCKS * ELEMENTS] = {0};
	unsigned int malformed = 0;
	struct weir_stats stats;
	int code;

	answer = answer_with_lies;
	code = weir_allreduce(weir, data, data, BLOCKS * ELEMENTS, WEIR_DTYPE_INT32, WEIR_OP_SUM);
	cr_expect_eq(code, 0, "%d: %s", code, weir_last_error(weir));
	for (int i = 0; i < BLOCKS * ELEMENTS; i++)
		cr_expect_eq(
			data[i], i / ELEMENTS * 100 + i % ELEMENTS, "element %d is %d", i, data[i]);
	for (unsigned int i = 0; i < LIES; i++)
		malformed += lies[i].malformed;
	weir_stats(weir, &stats);
	/* The duplicate of the last block may still be on its way; a busy machine may see
	 * repetitions. */
	cr_expect_geq(stats.malformed, (uint64_t)malformed * BLOCKS);
	cr_expect_geq(stats.foreign, (uint64_t)(LIES - malformed) * BLOCKS);
	cr_expect_geq(stats.duplicates, 2u * (BLOCKS - 1));
	cr_expect_eq(stats.results_ok, (uint64_t)BLOCKS);
}

/* Reduce this many blocks more: it ends with this code, and these words in its text. */
static void
ends(int blocks, int code, const char *words)
{
	int32_t data[BLOCKS * ELEMENTS] = {0};
	int got = weir_allreduce(
		weir, data, data, (size_t)blocks * ELEMENTS, WEIR_DTYPE_INT32, WEIR_OP_SUM);

	cr_expect_eq(got, code, "%d: %s", got, weir_last_error(weir));
	cr_expect_not_null(strstr(weir_last_error(weir), words), "%s", weir_last_error(weir));
}

Test(weir_liar, the_missing_are_named_also_where_ids_have_gaps)
{
	struct weir_result result;

	answer = answer_without_some;
	/* Nobody has told that there is a source 200. */
	ends(1, WEIR_PARTIAL, "; all but source(s) 2, 7 came later");
	weir_last_result(weir, &result);
	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		cr_expect_eq(result.missing[i], 0, "%u", i);
	ends(2, WEIR_PARTIAL, "; source(s) 7, 200 came later");
	weir_last_result(weir, &result);
	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		cr_expect_eq(result.missing[i], i == 0 ? 1 << 7 : i == 25 ? 1 : 0, "%u", i);
	ends(1, WEIR_PARTIAL, "; source(s) 200 came later");
}

/* Before the host has called: it can't be in the result already. */
Test(weir_liar, a_result_that_has_the_host_s_own_is_malformed_before_the_call)
{
	struct weir_header h = {.extended = true,
		.job_id = JOB,
		.src_id = SOURCE,
		.gen_id = GENERATION,
		.grad_cnt = ELEMENTS,
		.dtype = WEIR_DTYPE_INT32};
	struct weir_stats stats = {0};

	answer_without_some(&h);
	for (unsigned int ms = 0; stats.malformed == 0 && ms < 20000; ms++) {
		usleep(1000);
		weir_stats(weir, &stats);
	}
	cr_expect_eq(stats.malformed, 1u);
}

Test(weir_liar, what_is_not_served_is_named)
{
	answer = answer_that_it_is_not_served;
	ends(1, -EOPNOTSUPP, "does not serve this operation, allreduce (sum of int32)");
}

Test(weir_liar, a_generation_that_is_gone_is_told_from_another)
{
	answer = answer_that_none_runs;
	ends(1, -ESTALE, "job 9 has no generation at the switch");
	cr_expect_not_null(strstr(weir_last_error(weir), "Join again on every host"));
	cr_expect_null(strstr(weir_last_error(weir), "generation 0"), "%s", weir_last_error(weir));
}
