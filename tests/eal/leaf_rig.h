/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A leaf, turned by hand, between three hosts and a parent that the test plays. Generations are fixed. For one test file
 * each; main thread.
 */
#ifndef TESTS_EAL_LEAF_RIG_H
#define TESTS_EAL_LEAF_RIG_H

#include "tests/eal/blocks.h"
#include "tests/eal/tree_rig.h"

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
#define IP_ABOVE 0x0a4e00fe /* 10.78.0.254 */
#define TIMEOUT  10 /* ms */

static const uint8_t mac_above[6] = {0x02, 0x50, 0, 0, 0, 1};
static uint8_t sent[RIG_FRAME_MAX];

static inline struct ppe_job
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

static inline void
start_job(unsigned int workers, const struct ppe_job *job)
{
	struct rig_config config = {
		.workers = workers, .threads = 8, .ports = PORTS, .jobs = 1, .job[0] = *job};

	rig_start(&rig, &config);
}

static inline void
start(unsigned int workers)
{
	const struct ppe_job job = leaf_job();

	start_job(workers, &job);
}

static inline void
start_with_policy(unsigned int workers, enum ppe_policy policy)
{
	struct ppe_job job = leaf_job();

	job.policy = (uint8_t)policy;
	start_job(workers, &job);
}

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_up, name)

/* ---- hosts ---- */

static inline uint32_t
value(unsigned int rank, uint32_t block, unsigned int i)
{
	return (rank + 1) * 1000 + block * 10 + i;
}

static inline void
offer(unsigned int rank, const struct weir_header *h, const void *bytes, unsigned int n)
{
	rig_offer(&rig, rank - FIRST, h, bytes, n);
}

static inline void
contribute(unsigned int rank, uint32_t block)
{
	const struct weir_header h = rig_contribution(JOB, GEN, rank, block, ELEMENTS);
	uint32_t values[ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		values[i] = value(rank, block, i);
	offer(rank, &h, values, sizeof(values));
}

static inline void
contribute_all(uint32_t block)
{
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		contribute(rank, block);
}

/* An acknowledgement or a probe. */
static inline void
note(unsigned int rank, uint32_t block, enum weir_collective which)
{
	struct weir_header h = rig_contribution(JOB, GEN, rank, block, 0);

	h.collective = (uint8_t)which;
	h.dtype = 0;
	offer(rank, &h, NULL, 0);
}

static inline void
acknowledge(unsigned int rank, uint32_t block)
{
	note(rank, block, WEIR_COLLECTIVE_ACKNOWLEDGE);
}

/* ---- what leaves ---- */

/* The next packet to the parent. */
static inline void
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
static inline void
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
static inline void
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

static inline unsigned int
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

static inline void
say(const struct weir_header *h, const void *bytes, unsigned int n)
{
	rig_rest(&rig); /* after what the hosts have sent */
	rig_send(&rig, ABOVE, sent, write_above(h, bytes, n));
}

static inline struct weir_header
header_to_parent(uint32_t block, enum weir_status status)
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

static inline uint32_t
result(uint32_t block, unsigned int i)
{
	return 5000000 + block * 1000 + i;
}

static inline void
answer(uint32_t block, enum weir_status status)
{
	const struct weir_header h = header_to_parent(block, status);
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

static inline void
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

static inline void
expect_results(uint32_t block, enum weir_status status)
{
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		expect_result(rank, block, status);
	expect_silence();
}

/* A whole block. */
static inline void
run_block(uint32_t block)
{
	contribute_all(block);
	expect_sum_above(block, 0x70);
	answer(block, WEIR_STATUS_OK);
	expect_results(block, WEIR_STATUS_OK);
}

/* Send the frame with a byte of the headers changed. */
static inline void
disguised(unsigned int port, unsigned int at, unsigned int bytes, uint8_t bits)
{
	sent[at] ^= bits;
	rig_fix_checksums(sent);
	rig_send(&rig, port, sent, bytes);
	sent[at] ^= bits;
	rig_fix_checksums(sent);
	rig_rest(&rig);
}

#endif
