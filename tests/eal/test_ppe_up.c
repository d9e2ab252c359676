/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A leaf, turned by hand, between three hosts and a parent that the test plays: each transition of a block on its way up
 * (docs/tree.md), each loss, and each collective's parts. Generations are fixed.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/eal/blocks.h"
#include "tests/fuzz/turned.h"

#define RANKS    8 /* of the tree */
#define FIRST    4 /* of the leaf: hosts FIRST, FIRST + 1, ... at ports 0, 1, ... */
#define OWN      3
#define PORTS    4
#define ABOVE    3 /* the parent's port */
#define WINDOW   2
#define GEN      7
#define JOB      1
#define JOB_UP   9 /* its id at the parent */
#define ELEMENTS 200
#define L3       34
#define L4       42
#define IP_ABOVE 0x0a4e00fe /* 10.78.0.254 */
#define TIMEOUT  10 /* ms */

static const uint8_t mac_above[6] = {0x02, 0x50, 0, 0, 0, 1};

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX], sent[RIG_FRAME_MAX];

/* The last packet that was taken from a port. */
static struct weir_header got;
static const uint8_t *payload;
static unsigned int payload_bytes;

static struct ppe_job
leaf_job(void)
{
	static const uint8_t ids[OWN] = {FIRST, FIRST + 1, FIRST + 2};
	struct ppe_job job = rig_job_of(JOB, ids, OWN, WINDOW, ELEMENTS);

	job.fixed_generation = GEN;
	job.first_rank = FIRST;
	job.tree_ranks = RANKS;
	job.timeout_ms = TIMEOUT;
	job.nb_parents = 1;
	job.parent[0] = (struct ppe_parent){.name = "spine",
		.address = IP_ABOVE,
		.port = ABOVE,
		.udp = WEIR_PORT_EXT,
		.job = JOB_UP};
	memcpy(job.parent[0].mac, mac_above, sizeof(mac_above));
	return job;
}

static void
start_job(unsigned int workers, const struct ppe_job *job)
{
	struct rig_config config = {
		.workers = workers, .threads = 8, .ports = PORTS, .jobs = 1, .job[0] = *job};

	turned_start(&rig, &config);
}

static void
start(unsigned int workers)
{
	const struct ppe_job job = leaf_job();

	start_job(workers, &job);
}

static void
stop(void)
{
	struct ppe_leaks leaks;

	turned_rest(&rig);
	for (unsigned int port = 0; port < PORTS; port++)
		cr_assert_eq(rig_receive(&rig, port, frame, 0), 0, "port %u has a packet", port);
	turned_check_packets(&rig);
	ppe_destroy(rig.ppe, &leaks);
#define X(name, help) cr_expect_eq(leaks.name, 0, #name ": " help);
	PPE_LEAKS(X)
#undef X
	rig_stop_eal();
}

/* Each test with one worker and with two. */
#define BOTH(name)                                                                                 \
	static void name(unsigned int workers);                                                    \
	Test(ppe_up, name, .timeout = 90)                                                          \
	{                                                                                          \
		name(1);                                                                           \
	}                                                                                          \
	Test(ppe_up, name##_two_workers, .timeout = 90)                                            \
	{                                                                                          \
		name(2);                                                                           \
	}                                                                                          \
	static void name(unsigned int workers)

static struct ppe_job_stats
stats(void)
{
	struct ppe_job_stats job;

	cr_assert_eq(ppe_job_stats_read(rig.ppe, JOB, &job), 0);
	return job;
}

static uint64_t
drops(enum ppe_drop reason)
{
	struct ppe_stats all;

	ppe_stats_read(rig.ppe, &all);
	return all.drops[reason];
}

/* ---- hosts ---- */

static uint32_t
value(unsigned int rank, uint32_t block, unsigned int i)
{
	return (rank + 1) * 1000 + block * 10 + i;
}

static void
offer(unsigned int rank, const struct weir_header *h, const void *bytes, unsigned int n)
{
	rig_offer(&rig, rank - FIRST, h, bytes, n);
}

static void
contribute(unsigned int rank, uint32_t block)
{
	const struct weir_header h = rig_contribution(JOB, GEN, rank, block, ELEMENTS);
	uint32_t values[ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		values[i] = value(rank, block, i);
	offer(rank, &h, values, sizeof(values));
}

static void
contribute_all(uint32_t block)
{
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		contribute(rank, block);
}

static void
acknowledge(unsigned int rank, uint32_t block)
{
	struct weir_header h = rig_contribution(JOB, GEN, rank, block, 0);

	h.collective = WEIR_COLLECTIVE_ACKNOWLEDGE;
	h.dtype = 0;
	offer(rank, &h, NULL, 0);
}

/* ---- what leaves ---- */

static bool
receive(unsigned int port)
{
	unsigned int n, udp;

	turned_rest(&rig);
	n = rig_receive(&rig, port, frame, 0);
	if (n == 0)
		return false;
	udp = weir_get16(frame + L3 + 4);
	cr_assert_eq(n, L3 + udp, "port %u", port);
	cr_assert(rig_checksums_hold(frame), "port %u: checksums", port);
	got = (struct weir_header){.extended = true};
	weir_header_read(&got, frame + L4);
	payload = frame + L4 + WEIR_EXT_BYTES;
	payload_bytes = udp - 8 - WEIR_EXT_BYTES;
	return true;
}

/* Nobody gets anything more. */
static void
expect_silence(void)
{
	for (unsigned int port = 0; port < PORTS; port++)
		cr_assert_not(receive(port), "port %u gets a packet: block %u, collective %u, %s",
			port, got.block_id, got.collective, weir_status_text(got.status));
}

/* The next packet to the parent. */
static void
expect_above(uint32_t block, enum weir_collective collective, enum weir_status status)
{
	cr_assert(receive(ABOVE), "block %u does not go up", block);
	cr_assert_arr_eq(frame, mac_above, 6);
	cr_assert_arr_eq(frame + 6, rig_switch_mac, 6);
	cr_assert_eq(weir_get32(frame + 26), RIG_SWITCH_IP);
	cr_assert_eq(weir_get32(frame + 30), IP_ABOVE);
	cr_assert_eq(weir_get16(frame + L3), WEIR_PORT_UP);
	cr_assert_eq(weir_get16(frame + L3 + 2), WEIR_PORT_EXT);
	cr_assert_eq(got.job_id, JOB_UP);
	cr_assert_eq(got.src_id, FIRST);
	cr_assert_eq(got.gen_id, GEN);
	cr_assert_eq(got.block_id, block, "block %u, not %u", got.block_id, block);
	cr_assert_eq(got.collective, collective);
	cr_assert_eq(got.flags, WEIR_FLAG_UP);
	cr_assert_eq(got.status, status, "%s", weir_status_text(got.status));
	cr_assert_eq(got.degraded, status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR);
}

/* It is the sum of these ranks: bits. */
static void
expect_sum_above(uint32_t block, unsigned int ranks)
{
	bool all = ranks == 0x70;
	unsigned int end = all ? 0 : WEIR_BITMAP_BYTES;

	expect_above(block, WEIR_COLLECTIVE_ALLREDUCE, all ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
	cr_assert_eq(got.src_cnt, __builtin_popcount(ranks));
	cr_assert_eq(got.grad_cnt, ELEMENTS);
	cr_assert_eq(payload_bytes, 4 * ELEMENTS + end);
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		uint32_t sum = 0, is;

		for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
			sum += (ranks >> rank & 1) != 0 ? value(rank, block, i) : 0;
		memcpy(&is, payload + 4 * i, 4);
		cr_assert_eq(is, sum, "element %u of block %u: %u, not %u", i, block, is, sum);
	}
	if (!all)
		cr_assert_eq(payload[4 * ELEMENTS], ranks);
}

/* The next packet to a host is this result. */
static void
expect_below(unsigned int rank, uint32_t block, enum weir_status status)
{
	cr_assert(receive(rank - FIRST), "rank %u gets nothing of block %u", rank, block);
	cr_assert_eq(weir_get16(frame + L3), WEIR_PORT_EXT);
	cr_assert_eq(got.job_id, JOB);
	cr_assert_eq(got.src_id, rank);
	cr_assert_eq(got.gen_id, GEN);
	cr_assert_eq(got.block_id, block, "block %u, not %u", got.block_id, block);
	cr_assert_eq(got.status, status, "%s", weir_status_text(got.status));
	cr_assert_eq(got.flags, 0);
}

/* ---- the parent ---- */

static unsigned int
write_above(const struct weir_header *h, const void *bytes, unsigned int n)
{
	unsigned int size = rig_frame(sent, 0, h, bytes, n);

	memcpy(sent + 6, mac_above, 6);
	weir_put32(sent + 26, IP_ABOVE);
	weir_put16(sent + L3, WEIR_PORT_EXT);
	weir_put16(sent + L3 + 2, WEIR_PORT_UP);
	rig_fix_checksums(sent);
	return size;
}

static void
say(const struct weir_header *h, const void *bytes, unsigned int n)
{
	turned_rest(&rig); /* after what the hosts have sent */
	rig_send(&rig, ABOVE, sent, write_above(h, bytes, n));
}

static struct weir_header
header_above(uint32_t block, enum weir_status status)
{
	return (struct weir_header){.job_id = JOB_UP,
		.block_id = block,
		.gen_id = GEN,
		.src_id = FIRST,
		.src_cnt = status == WEIR_STATUS_OK ? RANKS : 5,
		.status = (uint8_t)status,
		.degraded = status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR ||
			status == WEIR_STATUS_WAITING,
		.grad_cnt = status <= WEIR_STATUS_PARTIAL ? ELEMENTS : 0,
		.dtype = WEIR_DTYPE_INT32,
		.extended = true};
}

/* Which ranks are in a degraded result, as the test plays the parent. */
static const uint8_t bitmap[WEIR_BITMAP_BYTES] = {0x5e};

static uint32_t
result(uint32_t block, unsigned int i)
{
	return 5000000 + block * 1000 + i;
}

static void
answer(uint32_t block, enum weir_status status)
{
	const struct weir_header h = header_above(block, status);
	uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];
	unsigned int n = 4u * h.grad_cnt;

	for (unsigned int i = 0; i < h.grad_cnt; i++) {
		uint32_t v = result(block, i);

		memcpy(bytes + 4 * i, &v, 4);
	}
	if (h.degraded) {
		memcpy(bytes + n, bitmap, sizeof(bitmap));
		n += sizeof(bitmap);
	}
	say(&h, bytes, n);
}

static void
expect_result(unsigned int rank, uint32_t block, enum weir_status status)
{
	unsigned int end = status == WEIR_STATUS_OK ? 0 : WEIR_BITMAP_BYTES;

	expect_below(rank, block, status);
	cr_assert_eq(got.grad_cnt, ELEMENTS);
	cr_assert_eq(got.src_cnt, status == WEIR_STATUS_OK ? RANKS : 5);
	cr_assert_eq(got.degraded, status != WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, 4 * ELEMENTS + end);
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		uint32_t is;

		memcpy(&is, payload + 4 * i, 4);
		cr_assert_eq(is, result(block, i), "element %u of block %u", i, block);
	}
	cr_assert_arr_eq(payload + 4 * ELEMENTS, bitmap, end);
}

static void
expect_results(uint32_t block, enum weir_status status)
{
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		expect_result(rank, block, status);
	expect_silence();
}

/* A whole block. */
static void
run_block(uint32_t block)
{
	contribute_all(block);
	expect_sum_above(block, 0x70);
	answer(block, WEIR_STATUS_OK);
	expect_results(block, WEIR_STATUS_OK);
}

/* ---- the transitions ---- */

BOTH(up_and_down)
{
	start(workers);
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		contribute(FIRST, block);
		contribute(FIRST + 1, block);
		expect_silence();
		contribute(FIRST + 2, block);
		expect_sum_above(block, 0x70);
		expect_silence();
		answer(block, WEIR_STATUS_OK);
		expect_results(block, WEIR_STATUS_OK);
	}
	cr_assert_eq(stats().upward, 4 * WINDOW);
	cr_assert_eq(stats().upward_repeats, 0);
	cr_assert_eq(stats().answers, 4 * WINDOW);
	cr_assert_eq(stats().blocks_complete, 4 * WINDOW);
	stop();
}

/* Any packet of any host about the block repeats it, at most once per millisecond, byte for byte. */
BOTH(a_repetition_goes_up_once_per_millisecond)
{
	static uint8_t first[RIG_FRAME_MAX];

	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	memcpy(first, frame, L4 + WEIR_EXT_BYTES + payload_bytes);
	contribute_all(0);
	expect_silence(); /* within the same millisecond */
	turned_turn_after_us(&rig, 1001);
	contribute_all(0);
	acknowledge(FIRST, 0);
	expect_sum_above(0, 0x70);
	cr_assert_arr_eq(frame, first, L4 + WEIR_EXT_BYTES + payload_bytes);
	expect_silence();
	turned_turn_after_us(&rig, 1001);
	acknowledge(FIRST + 1, 0); /* of the block before: it asks for this one's result, too */
	expect_sum_above(0, 0x70);
	cr_assert_eq(stats().upward, 3);
	cr_assert_eq(stats().upward_repeats, 2);
	cr_assert_eq(stats().duplicates, 6);
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), 6);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	turned_turn_after_us(&rig, 1001);
	contribute(FIRST + 1, 0); /* it is done: this host alone is answered */
	expect_result(FIRST + 1, 0, WEIR_STATUS_OK);
	answer(0, WEIR_STATUS_OK); /* the answer to a repetition */
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), 7);
	stop();
}

/* The leaf repeats nothing of its own accord. */
BOTH(no_timer_repeats)
{
	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	turned_wait_us(&rig, 10 * 1000 * TIMEOUT);
	expect_silence();
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

/* The leaf tells the parent that it has a block's result, when a host's packet asks for the next one. */
BOTH(acknowledgements)
{
	start(workers);
	run_block(0);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		acknowledge(rank, WINDOW);
	expect_above(WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, 0);
	cr_assert_eq(got.grad_cnt, 0);
	expect_silence();
	acknowledge(FIRST, WINDOW);
	expect_silence();
	turned_turn_after_us(&rig, 1001);
	acknowledge(FIRST, WINDOW);
	expect_above(WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	cr_assert_eq(stats().acknowledged, OWN);
	cr_assert_eq(stats().upward, 3);
	/* A block that some contribute to is not acknowledged: they will complete it. */
	contribute(FIRST, WINDOW);
	turned_turn_after_us(&rig, 1001);
	acknowledge(FIRST, WINDOW);
	acknowledge(FIRST, 2 * WINDOW);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_WINDOW), 1);
	contribute(FIRST + 1, WINDOW);
	contribute(FIRST + 2, WINDOW);
	expect_sum_above(WINDOW, 0x70);
	answer(WINDOW, WEIR_STATUS_OK);
	expect_results(WINDOW, WEIR_STATUS_OK);
	stop();
}

/* A contribution that is held back, because a host has not said that it has an older result, acknowledges the newer one. */
BOTH(held_back)
{
	start(workers);
	run_block(0);
	/* The parent ends the next block without this rack. */
	answer(WINDOW, WEIR_STATUS_PARTIAL);
	expect_results(WINDOW, WEIR_STATUS_PARTIAL);
	turned_turn_after_us(&rig, 1001);
	contribute(FIRST, 2 * WINDOW);
	contribute(FIRST + 1, 2 * WINDOW);
	expect_above(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_HELD_BACK), 2);
	/* A result for which there is no buffer comes again later. */
	answer(2 * WINDOW, WEIR_STATUS_PARTIAL);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_HELD_BACK), 3);
	contribute(FIRST + 2, 2 * WINDOW); /* now all have the old one */
	turned_rest(&rig);
	contribute(FIRST, 2 * WINDOW);
	contribute(FIRST + 1, 2 * WINDOW);
	expect_sum_above(2 * WINDOW, 0x70);
	answer(2 * WINDOW, WEIR_STATUS_OK);
	expect_results(2 * WINDOW, WEIR_STATUS_OK);
	stop();
}

/* The parent's result counts, whatever the leaf has of the block. */
BOTH(not_asked_for)
{
	start(workers);
	/* Nothing. */
	answer(0, WEIR_STATUS_PARTIAL);
	expect_silence(); /* no host has an endpoint yet */
	contribute_all(0);
	expect_results(0, WEIR_STATUS_PARTIAL);
	cr_assert_eq(stats().late, OWN);
	/* A part of it. */
	contribute(FIRST, WINDOW);
	answer(WINDOW, WEIR_STATUS_PARTIAL);
	expect_results(WINDOW, WEIR_STATUS_PARTIAL);
	contribute(FIRST + 1, WINDOW);
	expect_result(FIRST + 1, WINDOW, WEIR_STATUS_PARTIAL);
	cr_assert_eq(stats().upward, 0);
	cr_assert_eq(stats().blocks_partial, 2);
	/* Older and newer ones are not taken. */
	answer(0, WEIR_STATUS_OK);
	answer(2 * WINDOW + 2 * WINDOW, WEIR_STATUS_OK);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_DUPLICATE), 1);
	cr_assert_eq(drops(PPE_DROP_WINDOW), 1);
	cr_assert_eq(stats().answers, 2);
	contribute_all(2 * WINDOW); /* one may still want the first */
	expect_above(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	expect_silence();
	contribute_all(2 * WINDOW);
	expect_sum_above(2 * WINDOW, 0x70);
	answer(2 * WINDOW, WEIR_STATUS_OK);
	expect_results(2 * WINDOW, WEIR_STATUS_OK);
	stop();
}

/* The parent finished the block as another one than the hosts here send: they are told what it is. */
BOTH(another_block)
{
	struct weir_header h;

	start(workers);
	h = rig_contribution(JOB, GEN, FIRST, 0, 0);
	h.collective = WEIR_COLLECTIVE_BARRIER;
	h.dtype = 0;
	offer(FIRST, &h, NULL, 0);
	answer(0, WEIR_STATUS_PARTIAL);
	expect_result(FIRST, 0, WEIR_STATUS_PARTIAL);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_ALLREDUCE);
	expect_silence();
	stop();
}

static void
start_with_policy(unsigned int workers, enum ppe_policy policy)
{
	struct ppe_job job = leaf_job();

	job.policy = (uint8_t)policy;
	start_job(workers, &job);
}

/* The timeout ends the collection: what is there goes up, and the late host is not added. */
BOTH(partial)
{
	start_with_policy(workers, PPE_POLICY_PARTIAL);
	run_block(0);
	for (unsigned int round = 1; round < 4; round++) {
		uint32_t block = round * WINDOW;

		contribute(FIRST, block);
		contribute(FIRST + 2, block);
		expect_silence();
		turned_wait_us(&rig, 1200 * TIMEOUT);
		expect_sum_above(block, 0x50);
		expect_silence();
		turned_turn_after_us(&rig, 1001);
		contribute(FIRST + 1, block);
		expect_sum_above(block, 0x50);
		expect_silence();
		contribute(FIRST + 1, block);
		expect_silence();
		cr_assert_eq(stats().late, round);
		cr_assert_eq(stats().duplicates, round);
		answer(block, WEIR_STATUS_PARTIAL);
		expect_results(block, WEIR_STATUS_PARTIAL);
	}
	cr_assert_eq(drops(PPE_DROP_LATE), 3);
	cr_assert_eq(stats().blocks_partial, 3);
	stop();
}

BOTH(error)
{
	start_with_policy(workers, PPE_POLICY_ERROR);
	run_block(0);
	contribute(FIRST + 1, WINDOW);
	turned_wait_us(&rig, 1200 * TIMEOUT);
	for (unsigned int times = 0; times < 2; times++) {
		expect_above(WINDOW, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_ERROR);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(got.src_cnt, 1);
		cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
		cr_assert_eq(payload[0], 0x20);
		expect_silence();
		turned_turn_after_us(&rig, 1001);
		if (times == 0)
			contribute(FIRST + 1, WINDOW);
	}
	answer(WINDOW, WEIR_STATUS_ERROR);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, WINDOW, WEIR_STATUS_ERROR);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
		cr_assert_arr_eq(payload, bitmap, sizeof(bitmap));
	}
	cr_assert_eq(stats().blocks_error, 1);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		acknowledge(rank, 2 * WINDOW);
	expect_above(2 * WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	stop();
}

/* With the policy wait the timeout changes nothing. */
BOTH(wait)
{
	start(workers);
	contribute(FIRST, 0);
	contribute(FIRST + 1, 0);
	turned_wait_us(&rig, 3000 * TIMEOUT);
	expect_silence();
	contribute(FIRST, 0);
	expect_below(FIRST, 0, WEIR_STATUS_WAITING); /* the leaf's own answer */
	cr_assert_eq(payload[0], 0x30);
	expect_silence();
	contribute(FIRST + 2, 0);
	expect_sum_above(0, 0x70);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

BOTH(mismatch)
{
	static const uint8_t others[8] = {WEIR_FIELD_OP, 1, 0, 0, 6, 0, 0, 2};
	struct weir_header h;

	start(workers);
	run_block(0);
	contribute(FIRST, WINDOW);
	h = rig_contribution(JOB, GEN, FIRST + 1, WINDOW, 0);
	offer(FIRST + 1, &h, NULL, 0);
	for (unsigned int times = 0; times < 2; times++) {
		expect_above(WINDOW, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_MISMATCH);
		cr_assert_eq(got.grad_cnt, 0);
		cr_assert_eq(payload_bytes, sizeof(struct weir_mismatch));
		cr_assert_eq(payload[0], WEIR_FIELD_LENGTH);
		cr_assert_eq(payload[1], FIRST);
		cr_assert_eq(weir_get16(payload + 2), ELEMENTS);
		cr_assert_eq(payload[4], FIRST + 1);
		cr_assert_eq(weir_get16(payload + 6), 0);
		expect_silence();
		turned_turn_after_us(&rig, 1001);
		if (times == 0)
			contribute(FIRST + 2, WINDOW);
	}
	cr_assert_eq(drops(PPE_DROP_MISMATCH), 1);
	/* Another rack's may come first. */
	h = header_above(WINDOW, WEIR_STATUS_MISMATCH);
	say(&h, others, sizeof(others));
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, WINDOW, WEIR_STATUS_MISMATCH);
		cr_assert_eq(payload_bytes, sizeof(others));
		cr_assert_arr_eq(payload, others, sizeof(others));
	}
	cr_assert_eq(stats().blocks_mismatch, 1);
	stop();
}

/* What the parent says about a block that it has not finished, each host hears when it repeats. */
BOTH(waiting_above)
{
	struct weir_header h;

	start(workers);
	h = header_above(0, WEIR_STATUS_WAITING);
	say(&h, bitmap, sizeof(bitmap)); /* about a block that is not sent yet */
	contribute_all(0);
	expect_sum_above(0, 0x70);
	contribute(FIRST, 0);
	expect_silence();
	say(&h, bitmap, 8);
	say(&h, bitmap, sizeof(bitmap));
	expect_silence();
	contribute_all(0);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, 0, WEIR_STATUS_WAITING);
		cr_assert_eq(got.degraded, 1);
		cr_assert_eq(payload_bytes, sizeof(bitmap));
		cr_assert_arr_eq(payload, bitmap, sizeof(bitmap));
	}
	h = header_above(0, WEIR_STATUS_UNSUPPORTED);
	say(&h, NULL, 0);
	turned_rest(&rig);
	contribute(FIRST + 1, 0);
	expect_below(FIRST + 1, 0, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(payload_bytes, 0);
	cr_assert_eq(drops(PPE_DROP_KNOWN), 1);
	cr_assert_eq(drops(PPE_DROP_LENGTH), 1);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	contribute_all(WINDOW); /* it was about that block */
	expect_sum_above(WINDOW, 0x70);
	contribute(FIRST, WINDOW);
	expect_silence();
	stop();
}

/* ---- who is the parent ---- */

/* Send the frame with a byte of the headers changed. */
static void
disguised(unsigned int port, unsigned int at, unsigned int bytes, uint8_t bits)
{
	sent[at] ^= bits;
	rig_fix_checksums(sent);
	rig_send(&rig, port, sent, bytes);
	sent[at] ^= bits;
	rig_fix_checksums(sent);
	turned_rest(&rig);
}

BOTH(not_from_parent)
{
	const struct weir_header h = header_above(0, WEIR_STATUS_OK);
	static const uint8_t bytes[4 * ELEMENTS];
	unsigned int n;
	uint64_t refused = 0;

	start(workers);
	contribute_all(0);
	expect_sum_above(0, 0x70);
	n = write_above(&h, bytes, sizeof(bytes));
	disguised(0, 6, n, 0); /* another port of the switch */
	disguised(ABOVE, 11, n, 1); /* MAC address */
	disguised(ABOVE, 29, n, 1); /* IPv4 address */
	disguised(ABOVE, L3 + 1, n, 2); /* UDP port */
	disguised(ABOVE, L4, n, 1); /* job id */
	disguised(ABOVE, L4 + 6, n, 1); /* first rank */
	refused += 6;
	cr_assert_eq(drops(PPE_DROP_NOT_FROM_PARENT), refused);
	disguised(ABOVE, L4 + 9, n, 1); /* generation */
	cr_assert_eq(drops(PPE_DROP_STALE), 1);
	disguised(ABOVE, L4 + 11, n, 1); /* length */
	disguised(ABOVE, L4 + 13, n, 0x70); /* type */
	disguised(ABOVE, L4 + 5, n, WEIR_DEGRADED);
	cr_assert_eq(drops(PPE_DROP_LENGTH), 3);
	sent[n - 1] ^= 1;
	rig_send(&rig, ABOVE, sent, n);
	turned_rest(&rig);
	cr_assert_eq(drops(PPE_DROP_UDP_CHECKSUM), 1);
	rig_send(&rig, ABOVE, sent, L4 + 4);
	rig_send(&rig, ABOVE, sent, L4 - 1);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_MALFORMED), 2);
	n = write_above(&h, bytes, 0);
	weir_put16(sent + 16, 20 + 8 + WEIR_EXT_BYTES - 1);
	weir_put16(sent + L3 + 4, 8 + WEIR_EXT_BYTES - 1);
	disguised(ABOVE, 6, n, 0);
	cr_assert_eq(drops(PPE_DROP_TRUNCATED), 1);
	cr_assert_eq(stats().answers, 0);
	answer(0, WEIR_STATUS_OK);
	expect_results(0, WEIR_STATUS_OK);
	stop();
}

/* Each number of a result's header, at random, and lengths: nothing is written beyond a buffer, and the next block works. */
BOTH(rubbish_from_above)
{
	uint64_t seed = rig_seed();
	static uint8_t bytes[8192];

	start(workers);
	for (uint32_t block = 0; block < 200; block++) {
		contribute_all(block);
		turned_rest(&rig);
		for (unsigned int times = 0; times < 5; times++) {
			struct weir_header h = header_above(block, WEIR_STATUS_OK);
			uint64_t r = rig_random(&seed);

			h.collective = r & 15;
			h.dtype = r >> 4 & 15;
			h.op = (r >> 8 & 3) == 0 ? r >> 10 & 15 : 0;
			h.root = (r >> 14 & 1) == 0 ? 0 : r >> 15 & 255;
			h.grad_cnt = r >> 23 & 4095;
			h.status = r >> 35 & 15;
			h.degraded = r >> 39 & 1;
			h.src_cnt = (uint8_t)(r >> 40);
			h.block_id += (r >> 48 & 3) == 0 ? (r >> 50 & 7) : 0;
			say(&h, bytes, (unsigned int)(rig_random(&seed) % sizeof(bytes)));
		}
		turned_rest(&rig);
		answer(block, WEIR_STATUS_OK);
		turned_rest(&rig);
		for (unsigned int port = 0; port < PORTS; port++)
			while (rig_receive(&rig, port, frame, 0) > 0)
				;
		/* Whatever it was taken for, it is over. */
		contribute(FIRST, block);
		cr_assert(receive(0));
		cr_assert_eq(got.block_id, block);
	}
	stop();
}

/* Hosts can't take the parent's addresses. */
BOTH(guarded)
{
	start(workers);
	memset(sent, 0, sizeof(sent));
	rig_frame(sent, 0, &(struct weir_header){.job_id = 77, .extended = true}, NULL, 0);
	memcpy(sent, (uint8_t[6]){2, 9, 9, 9, 9, 9}, 6); /* it is forwarded */
	memcpy(sent + 6, mac_above, 6);
	rig_send(&rig, 0, sent, L4 + WEIR_EXT_BYTES);
	rig_source_mac(0, sent + 6);
	weir_put32(sent + 26, IP_ABOVE);
	rig_send(&rig, 0, sent, L4 + WEIR_EXT_BYTES);
	turned_wait_us(&rig,
		100 * 1000 * 1000); /* a silent host's addresses may be taken, a parent's not */
	rig_send(&rig, 0, sent, L4 + WEIR_EXT_BYTES);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_SPOOFED_MEMBER), 3);
	stop();
}

/* ---- more than one of something ---- */

/* Blocks go to the parents by turns, and each answers for its own. */
BOTH(two_parents)
{
	struct ppe_job job = leaf_job();
	struct ppe_block_info info[4];
	struct ppe_parent_stats parent;

	job.nb_parents = 2;
	job.parent[1] = job.parent[0];
	job.parent[1].address++;
	start_job(workers, &job);
	cr_assert_eq(ppe_parent_stats_read(rig.ppe, JOB, 0, &parent), 0);
	cr_assert_eq(parent.generation, GEN);
	cr_assert(parent.serves);
	cr_assert_not(parent.heard);
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		struct weir_header h = header_above(block, WEIR_STATUS_OK);
		unsigned int n;

		contribute_all(block);
		cr_assert(receive(ABOVE));
		cr_assert_eq(weir_get32(frame + 30), IP_ABOVE + block % 2);
		cr_assert_eq(got.block_id, block);
		cr_assert_eq(ppe_blocks_read(rig.ppe, JOB, true, 0, info, 4), 1);
		cr_assert(info[0].open && info[0].up);
		cr_assert_eq(info[0].parent, block % 2);
		cr_assert_eq(info[0].heard_count, OWN);
		h.grad_cnt = 0;
		n = write_above(&h, NULL, 0);
		disguised(ABOVE, 29, n, block % 2 == 0); /* the other parent */
		cr_assert_eq(drops(PPE_DROP_NOT_FROM_PARENT), block + 1);
		disguised(ABOVE, 29, n, block % 2); /* and the right one */
		for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
			expect_below(rank, block, WEIR_STATUS_OK);
		expect_silence();
		cr_assert_eq(ppe_blocks_read(rig.ppe, JOB, true, 0, info, 4), 0);
	}
	cr_assert_eq(ppe_parent_stats_read(rig.ppe, JOB, 1, &parent), 0);
	cr_assert(parent.heard);
	stop();
}

/* Contributions that wait for their turn are dropped with the rest when the parent's result comes first. */
BOTH(in_order)
{
	struct ppe_job job = leaf_job();
	struct weir_header h;
	float values[4] = {0}, sum;

	job.deterministic = true;
	job.policy = PPE_POLICY_PARTIAL;
	start_job(workers, &job);
	for (unsigned int times = 0; times < 3; times++) {
		uint32_t block = times * WINDOW;

		values[1] = 2 + (float)times;
		h = rig_contribution(JOB, GEN, FIRST + 1, block, 4);
		h.dtype = WEIR_DTYPE_FP32;
		for (h.src_id = FIRST + 2; h.src_id > FIRST; h.src_id--)
			offer(h.src_id, &h, values, sizeof(values));
		turned_rest(&rig);
		if (times == 1)
			turned_wait_us(&rig, 1200 * TIMEOUT);
		if (times == 2)
			offer(FIRST, &h, values, sizeof(values));
		if (times != 0) {
			expect_above(block, WEIR_COLLECTIVE_ALLREDUCE,
				times == 1 ? WEIR_STATUS_PARTIAL : WEIR_STATUS_OK);
			memcpy(&sum, payload + 4, 4);
			cr_assert_eq(sum, times == 1 ? 6 : 12);
		}
		expect_silence();
		h = header_above(block, WEIR_STATUS_OK);
		h.dtype = WEIR_DTYPE_FP32;
		h.grad_cnt = 4;
		say(&h, values, sizeof(values));
		/* The first host has no endpoint before its first packet. */
		for (unsigned int rank = times == 0 ? FIRST + 1 : FIRST; rank < FIRST + OWN; rank++)
			expect_below(rank, block, WEIR_STATUS_OK);
		if (times != 2) {
			h = rig_contribution(JOB, GEN, FIRST, block, 4);
			h.dtype = WEIR_DTYPE_FP32;
			offer(FIRST, &h, values, sizeof(values));
			expect_below(FIRST, block, WEIR_STATUS_OK);
			cr_assert_arr_eq(payload, values, sizeof(values));
		}
		expect_silence();
	}
	stop();
}

/* ---- the collectives' parts ---- */

static uint8_t bytes_up[BLOCK_BYTES_MAX], bytes_down[BLOCK_BYTES_MAX], part[BLOCK_BYTES_MAX];

/* What the leaf sends: its ranks' contributions reduced, one after the other, or side by side by receiver. */
static unsigned int
whole_contribution(const struct block_plan *plan)
{
	struct block_plan own = *plan;
	unsigned int n = 0;

	switch (plan->collective) {
	case WEIR_COLLECTIVE_ALLREDUCE:
	case WEIR_COLLECTIVE_REDUCE:
	case WEIR_COLLECTIVE_REDUCESCATTER:
		own.collective = WEIR_COLLECTIVE_ALLREDUCE;
		own.absent |= 0x8f;
		return block_result(&own, 0, bytes_up);
	case WEIR_COLLECTIVE_ALLTOALL:
		for (unsigned int to = 0, from = 0; to < RANKS;
			from += 4 * block_slice(plan, to), to++)
			for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
				block_contribution(plan, rank, part);
				memcpy(bytes_up + n, part + from, 4 * block_slice(plan, to));
				n += 4 * block_slice(plan, to);
			}
		return n;
	case WEIR_COLLECTIVE_BROADCAST:
	case WEIR_COLLECTIVE_SCATTER:
	case WEIR_COLLECTIVE_GATHER:
	case WEIR_COLLECTIVE_ALLGATHER:
	case WEIR_COLLECTIVE_BARRIER:
	case WEIR_COLLECTIVE_ACKNOWLEDGE:
	case WEIR_COLLECTIVE_JOIN:
	default:
		for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
			n += block_contribution(plan, rank, bytes_up + n);
		return n;
	}
}

/* What the leaf gets: the same for all, or what its ranks get. */
static unsigned int
whole_result(const struct block_plan *plan)
{
	unsigned int n = 0;

	if (block_to_all(plan))
		return block_result(plan, FIRST, bytes_down);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		n += block_result(plan, rank, bytes_down + n);
	return n;
}

/* A block of any collective up and down; absent: ranks that do not contribute. */
static void
run_plan(struct block_plan *plan, unsigned int absent)
{
	struct weir_header h;
	unsigned int n;
	bool root_absent = absent >> plan->root & 1 &&
		(plan->collective == WEIR_COLLECTIVE_BROADCAST ||
			plan->collective == WEIR_COLLECTIVE_SCATTER);

	plan->absent = absent;
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		h = block_header(plan, rank);
		n = block_contribution(plan, rank, part);
		if ((absent >> rank & 1) == 0)
			offer(rank, &h, part, n);
	}
	if (absent != 0) {
		expect_silence();
		turned_wait_us(&rig, 1200 * TIMEOUT);
	}
	n = whole_contribution(plan);
	expect_above(plan->block, plan->collective,
		root_absent           ? WEIR_STATUS_ERROR
			: absent != 0 ? WEIR_STATUS_PARTIAL
				      : WEIR_STATUS_OK);
	cr_assert_eq(got.grad_cnt, root_absent ? 0 : plan->elements);
	cr_assert_eq(got.root, plan->root);
	if (root_absent)
		n = 0;
	cr_assert_eq(payload_bytes, n + (absent != 0 ? WEIR_BITMAP_BYTES : 0),
		"%s of %u, root %u: %u bytes, not %u", weir_collective_text(plan->collective),
		plan->elements, plan->root, payload_bytes, n);
	cr_assert(memcmp(payload, bytes_up, n) == 0, "%s of %u, root %u, goes up wrong",
		weir_collective_text(plan->collective), plan->elements, plan->root);
	if (absent != 0)
		cr_assert_eq(payload[n], 0x70 & ~absent);
	/* The parent has all others, and, perhaps later, the absent ones, too. */
	plan->absent = 0;
	n = whole_result(plan);
	h = block_header(plan, FIRST);
	h.job_id = JOB_UP;
	h.src_cnt = RANKS;
	say(&h, bytes_down, n);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		n = block_result(plan, rank, part);
		expect_below(rank, plan->block, WEIR_STATUS_OK);
		cr_assert_eq(payload_bytes, n, "%s of %u, root %u: rank %u gets %u bytes, not %u",
			weir_collective_text(plan->collective), plan->elements, plan->root, rank,
			payload_bytes, n);
		cr_assert(memcmp(payload, part, n) == 0, "%s of %u, root %u, rank %u",
			weir_collective_text(plan->collective), plan->elements, plan->root, rank);
	}
	if (absent != 0) {
		for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
			if ((absent >> rank & 1) != 0)
				acknowledge(rank, plan->block + WINDOW);
		expect_above(plan->block + WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE, WEIR_STATUS_OK);
	}
	expect_silence();
	plan->block++;
}

static void
run_collectives(unsigned int workers, unsigned int absent)
{
	static const uint8_t ids[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
	static const unsigned int roots[] = {0, 3, 4, 6, 7};
	static const unsigned int elements[] = {1, 4, 7, 8, 50};
	struct block_plan plan = {.job = JOB,
		.generation = GEN,
		.n = RANKS,
		.ids = ids,
		.dtype = WEIR_DTYPE_INT32,
		.seed = 1};

	start_with_policy(workers, PPE_POLICY_PARTIAL);
	for (; plan.block < WINDOW; plan.seed++) { /* all get endpoints */
		plan.elements = 9;
		run_plan(&plan, 0);
	}
	for (unsigned int c = 0; c <= WEIR_COLLECTIVE_BARRIER; c++)
		for (unsigned int r = 0; r < (collective_table[c].rooted ? RTE_DIM(roots) : 1); r++)
			for (unsigned int e = 0; e < RTE_DIM(elements); e++, plan.seed++) {
				plan.collective = (enum weir_collective)c;
				plan.root = roots[r];
				plan.elements = c == WEIR_COLLECTIVE_BARRIER ? 0 : elements[e];
				plan.dtype = c == WEIR_COLLECTIVE_BARRIER ? 0 : WEIR_DTYPE_INT32;
				run_plan(&plan, absent);
				plan.seed++;
			}
	stop();
}

BOTH(collectives)
{
	run_collectives(workers, 0);
}

BOTH(collectives_partial)
{
	run_collectives(workers, 1u << FIRST);
}

/* ---- narrow types ---- */

/* Three hosts contribute 1, 2 and 3, or `bits` of them; up goes `sum`, of so many bytes each. */
static void
run_narrow(uint32_t block, enum weir_dtype dtype, enum weir_op op, const uint32_t bits[OWN],
	uint32_t sum, unsigned int bytes)
{
	struct weir_header h = rig_contribution(JOB, GEN, FIRST, block, 37);
	unsigned int size = weir_dtype_bytes(dtype);
	uint8_t values[37 * 4];

	h.dtype = (uint8_t)dtype;
	h.op = (uint8_t)op;
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		for (unsigned int i = 0; i < 37; i++)
			memcpy(values + i * size, &bits[rank - FIRST], size);
		h.src_id = (uint8_t)rank;
		offer(rank, &h, values, 37 * size);
	}
	expect_above(block, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, 37 * bytes, "%s of %s: %u bytes", weir_op_text(op),
		weir_dtype_text(dtype), payload_bytes);
	for (unsigned int i = 0; i < 37; i++)
		cr_assert(memcmp(payload + i * bytes, &sum, bytes) == 0, "%s of %s, element %u",
			weir_op_text(op), weir_dtype_text(dtype), i);
	h.job_id = JOB_UP;
	h.src_id = FIRST;
	h.src_cnt = RANKS;
	say(&h, values, 37 * size);
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		expect_below(rank, block, WEIR_STATUS_OK);
		cr_assert_eq(payload_bytes, 37 * size);
		cr_assert(memcmp(payload, values, 37 * size) == 0);
	}
}

static const uint32_t fp16[OWN] = {0x3c00, 0x4000, 0x4200}, bf16[OWN] = {0x3f80, 0x4000, 0x4040},
		      fp32[OWN] = {0x3f800000, 0x40000000, 0x40400000}, ints[OWN] = {1, 2, 3};
#define SIX 0x40c00000 /* in fp32 */

/* Sums of narrow types go up unrounded, and averages undivided. */
BOTH(narrow_types)
{
	uint32_t block = 0;

	start(workers);
	run_narrow(block++, WEIR_DTYPE_FP16, WEIR_OP_SUM, fp16, SIX, 4);
	run_narrow(block++, WEIR_DTYPE_FP16, WEIR_OP_AVG, fp16, SIX, 4);
	run_narrow(block++, WEIR_DTYPE_BF16, WEIR_OP_PROD, bf16, SIX, 4);
	run_narrow(block++, WEIR_DTYPE_FP16, WEIR_OP_MAX, fp16, fp16[2], 2);
	run_narrow(block++, WEIR_DTYPE_BF16, WEIR_OP_MIN, bf16, bf16[0], 2);
	run_narrow(block++, WEIR_DTYPE_INT8, WEIR_OP_AVG, ints, 6, 4);
	run_narrow(block++, WEIR_DTYPE_INT8, WEIR_OP_PROD, ints, 6, 1);
	run_narrow(block++, WEIR_DTYPE_INT16, WEIR_OP_SUM, ints, 6, 2);
	run_narrow(block++, WEIR_DTYPE_INT16, WEIR_OP_AVG, ints, 6, 4);
	run_narrow(block++, WEIR_DTYPE_INT32, WEIR_OP_AVG, ints, 6, 4);
	run_narrow(block++, WEIR_DTYPE_FP32, WEIR_OP_AVG, fp32, SIX, 4);
	stop();
}

BOTH(narrow_job)
{
	struct ppe_job job = leaf_job();

	job.narrow = true;
	start_job(workers, &job);
	run_narrow(0, WEIR_DTYPE_FP16, WEIR_OP_SUM, fp16, 0x4600, 2);
	run_narrow(1, WEIR_DTYPE_BF16, WEIR_OP_PROD, bf16, 0x40c0, 2);
	run_narrow(2, WEIR_DTYPE_FP16, WEIR_OP_MAX, fp16, fp16[2], 2);
	run_narrow(3, WEIR_DTYPE_FP32, WEIR_OP_SUM, fp32, SIX, 4);
	stop();
}
