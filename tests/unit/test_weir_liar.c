/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir believes nothing: a switch that sends, before each right result, one packet of every kind
 * that must not be taken, each with wrong sums in it. All are counted, none is delivered. And one that
 * tells what is true and rare: sources with gaps between their ids, a generation that is gone.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/libweir/weir.h"
#include "pktbuf/wire/wire.h"

#define JOB        9
#define SOURCE     2
#define SOURCES    3
#define GENERATION 5
#define ELEMENTS   8
#define BLOCKS     5

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

static int sockets[2]; /* base, extended */
static uint16_t ports[2];
static volatile bool stop;

static void
send_to(bool extended, const struct sockaddr_in *to, const struct weir_header *h,
	const void *payload, int bytes)
{
	uint8_t packet[512] = {0};
	unsigned int header = weir_header_write(h, packet);

	if (payload != NULL)
		memcpy(packet + header, payload, ELEMENTS * 4);
	sendto(sockets[extended], packet, (size_t)bytes, 0, (const struct sockaddr *)to,
		sizeof(*to));
}

static void
answer_join(const struct sockaddr_in *to, struct weir_header *h)
{
	struct weir_join_reply r = {.dtype_op = WEIR_DTYPE_INT32 << 4};
	uint8_t payload[ELEMENTS * 4] = {0};

	weir_put16(r.window, 4);
	weir_put16(r.elements, ELEMENTS);
	weir_put16(r.sources, SOURCES);
	weir_put32(r.timeout_ms, 100);
	memcpy(payload, &r, sizeof(r));
	h->gen_id = GENERATION;
	send_to(true, to, h, payload, WEIR_EXT_BYTES + (int)sizeof(r));
}

/* The right result of a block, after every lie. */
static void
answer_with_lies(const struct sockaddr_in *to, struct weir_header *h)
{
	int right = WEIR_EXT_BYTES + ELEMENTS * 4;
	int32_t sums[ELEMENTS];

	h->src_cnt = SOURCES;
	for (unsigned int i = 0; i < LIES; i++) {
		struct weir_header lie = *h;

		for (int e = 0; e < ELEMENTS; e++)
			sums[e] = -1000 - (int)i;
		lies[i].change(&lie);
		send_to(!lies[i].from_base_port, to, &lie, sums, right + lies[i].bytes);
	}
	h->block_id += 4; /* not in flight: whatever it says, it is not for us yet */
	send_to(true, to, h, sums, right);
	h->block_id -= 4;
	for (int e = 0; e < ELEMENTS; e++)
		sums[e] = (int32_t)h->block_id * 100 + e;
	send_to(true, to, h, sums, right);
	send_to(true, to, h, sums, right);
}

/* Of sources 2, 7 and 200: blocks 0 and 2 are without 200, block 1 is without 7. */
static void
answer_without_some(const struct sockaddr_in *to, struct weir_header *h)
{
	uint8_t packet[512] = {0}, *bitmap = packet + WEIR_EXT_BYTES + ELEMENTS * 4;
	unsigned int other = h->block_id == 1 ? 200 : 7;

	h->src_cnt = SOURCES - 1;
	h->degraded = true;
	h->status = WEIR_STATUS_PARTIAL;
	weir_header_write(h, packet);
	bitmap[SOURCE / 8] |= 1u << SOURCE % 8;
	bitmap[other / 8] |= (uint8_t)(1u << other % 8);
	sendto(sockets[1], packet, WEIR_EXT_BYTES + ELEMENTS * 4 + WEIR_BITMAP_BYTES, 0,
		(const struct sockaddr *)to, sizeof(*to));
}

static void
answer_that_none_runs(const struct sockaddr_in *to, struct weir_header *h)
{
	h->gen_id = WEIR_GEN_JOIN;
	h->status = WEIR_STATUS_STALE;
	h->grad_cnt = 0;
	send_to(true, to, h, NULL, WEIR_EXT_BYTES);
}

/* As a switch that is older than its hosts. */
static void
answer_that_it_is_not_served(const struct sockaddr_in *to, struct weir_header *h)
{
	h->status = WEIR_STATUS_UNSUPPORTED;
	h->grad_cnt = 0;
	send_to(true, to, h, NULL, WEIR_EXT_BYTES);
}

static void (*answer)(const struct sockaddr_in *to, struct weir_header *h);

static void *
liar(void *argument)
{
	(void)argument;
	while (!stop) {
		struct weir_header h = {.extended = true};
		struct sockaddr_in from;
		socklen_t size = sizeof(from);
		uint8_t packet[512];

		if (recvfrom(sockets[1], packet, sizeof(packet), 0, (struct sockaddr *)&from,
			    &size) < 0)
			continue;
		weir_header_read(&h, packet);
		if (h.collective == WEIR_COLLECTIVE_JOIN) {
			answer_join(&from, &h);
			continue;
		}
		answer(&from, &h);
	}
	return NULL;
}

static struct weir *weir;
static pthread_t thread;

static void
open_sockets(void)
{
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in own = {
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		struct timeval wait = {.tv_usec = 20000};
		socklen_t size = sizeof(own);

		sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
		setsockopt(sockets[i], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
		cr_assert_eq(bind(sockets[i], (struct sockaddr *)&own, sizeof(own)), 0);
		cr_assert_eq(getsockname(sockets[i], (struct sockaddr *)&own, &size), 0);
		ports[i] = ntohs(own.sin_port);
	}
}

static void
open_handle(void)
{
	struct weir_config config = {.switch_address = "127.0.0.1",
		.address = "127.0.0.2",
		.job = JOB,
		.source = SOURCE,
		.op_timeout_ms = 5000};
	int code;

	open_sockets();
	config.port_base = ports[0];
	config.port_ext = ports[1];
	cr_assert_eq(pthread_create(&thread, NULL, liar, NULL), 0);
	code = weir_open(&config, &weir);
	cr_assert_eq(code, 0, "%s", weir_last_error(weir));
}

static void
close_handle(void)
{
	weir_close(weir);
	stop = true;
	pthread_join(thread, NULL);
	close(sockets[0]);
	close(sockets[1]);
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
