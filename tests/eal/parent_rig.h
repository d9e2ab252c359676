/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parent of a tree, turned by hand, whose children the test plays. Generations are fixed. For one test file each; main
 * thread.
 */
#ifndef TESTS_EAL_PARENT_RIG_H
#define TESTS_EAL_PARENT_RIG_H

#include "tests/eal/blocks.h"
#include "tests/eal/tree_rig.h"

#define RANKS    8
#define CHILDREN 3 /* at ports 0, 1, 2 */
#define PORTS    4
#define ABOVE    3 /* the port of a middle switch's parent */
#define WINDOW   2
#define GEN      7
#define JOB      1
#define JOB_HOST 2 /* of hosts: sources 0 to 2 */
#define JOB_UP   9
#define ELEMENTS 200
#define TIMEOUT  10 /* ms */
#define ALL      0xffu

/* Their ranks, and their ids. */
static const uint8_t first_of[CHILDREN] = {0, 3, 4};
static const uint8_t ranks_of[CHILDREN] = {3, 1, 4};
static const uint8_t rank_ids[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

static inline struct ppe_job
parent_job(void)
{
	struct ppe_job job = rig_job_of(JOB, first_of, CHILDREN, WINDOW, ELEMENTS);

	job.fixed_generation = GEN;
	job.children = true;
	job.timeout_ms = TIMEOUT;
	for (unsigned int c = 0; c < CHILDREN; c++)
		job.ranks[first_of[c]] = ranks_of[c];
	return job;
}

static inline void
start_job(unsigned int workers, const struct ppe_job *job)
{
	struct rig_config config = {
		.workers = workers, .threads = 8, .ports = PORTS, .jobs = 2, .job[0] = *job};

	config.job[1] = rig_job(JOB_HOST, 3, WINDOW, ELEMENTS);
	config.job[1].fixed_generation = GEN;
	rig_start(&rig, &config);
}

static inline void
start(unsigned int workers)
{
	const struct ppe_job job = parent_job();

	start_job(workers, &job);
}

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_children, name)

/* ---- children ---- */

static inline unsigned int
ranks_mask(unsigned int child)
{
	return ((1u << ranks_of[child]) - 1) << first_of[child];
}

static inline struct block_plan
plan_of(enum weir_collective collective, uint32_t block)
{
	const struct collective_row *row = &collective_table[collective];

	return (struct block_plan){.job = JOB,
		.generation = GEN,
		.n = RANKS,
		.ids = rank_ids,
		.collective = collective,
		.dtype = WEIR_DTYPE_INT32,
		.elements = collective == WEIR_COLLECTIVE_BARRIER ? 0
			: row->contribution == CONTRIBUTION_ROW   ? 23
								  : 101,
		.block = block,
		.seed = 1000 + block};
}

/* What the child sends of the plan's ranks, but for the absent ones: there is garbage in place of their slices. Its
 * bytes. */
static inline unsigned int
collected(const struct block_plan *plan, unsigned int child, uint8_t *to)
{
	static uint8_t one[RANKS][BLOCK_BYTES_MAX];
	const struct collective_row *row = &collective_table[plan->collective];
	unsigned int bytes[RANKS], at = 0, first = first_of[child], end = first + ranks_of[child];

	for (unsigned int r = first; r < end; r++) {
		bytes[r] = block_contribution(plan, r, one[r]);
		if ((plan->absent >> r & 1) != 0 && row->contribution != CONTRIBUTION_REDUCE)
			memset(one[r], 0xee, bytes[r]);
	}
	if (row->contribution == CONTRIBUTION_REDUCE) {
		uint32_t sum, v;

		for (at = 0; at < bytes[first]; at += 4) {
			sum = 0;
			for (unsigned int r = first; r < end; r++) {
				memcpy(&v, one[r] + at, 4);
				sum += v;
			}
			memcpy(to + at, &sum, 4);
		}
		return at;
	}
	for (unsigned int c = 0, from = 0; row->contribution == CONTRIBUTION_ROW && c < RANKS;
		c++) {
		unsigned int n = 4 * block_slice(plan, c);

		for (unsigned int r = first; r < end; r++, at += n)
			memcpy(to + at, one[r] + from, n);
		from += n;
	}
	for (unsigned int r = first; row->contribution != CONTRIBUTION_ROW && r < end; r++) {
		memcpy(to + at, one[r], bytes[r]);
		at += bytes[r];
	}
	return at;
}

static inline struct weir_header
header_of(const struct block_plan *plan, unsigned int child, unsigned int ranks)
{
	struct weir_header h = block_header(plan, first_of[child]);

	h.flags = WEIR_FLAG_UP;
	h.src_cnt = (uint8_t)__builtin_popcount(ranks);
	if (ranks != ranks_mask(child)) {
		h.status = WEIR_STATUS_PARTIAL;
		h.degraded = true;
	}
	return h;
}

/* Behind a payload of n bytes; returns the bytes then. */
static inline unsigned int
put_bitmap(uint8_t *to, unsigned int n, unsigned int ranks)
{
	memset(to + n, 0, WEIR_BITMAP_BYTES);
	to[n] = (uint8_t)ranks;
	return n + WEIR_BITMAP_BYTES;
}

static inline void
offer(unsigned int child, const struct weir_header *h, const void *bytes, unsigned int n)
{
	rig_offer(&rig, child, h, bytes, n);
}

/* The child's contribution, complete or partial. */
static inline void
contribute(const struct block_plan *plan, unsigned int child)
{
	static uint8_t bytes[BLOCK_BYTES_MAX];
	unsigned int ranks = ranks_mask(child) & ~(unsigned int)plan->absent;
	const struct weir_header h = header_of(plan, child, ranks);
	unsigned int n = collected(plan, child, bytes);

	if (h.degraded)
		n = put_bitmap(bytes, n, ranks);
	offer(child, &h, bytes, n);
}

/* A contribution without elements, which says that the child's block failed. */
static inline void
contribute_failure(uint32_t block, unsigned int child, enum weir_status status, unsigned int ranks,
	const struct weir_mismatch *mismatch)
{
	const struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);
	struct weir_header h = header_of(&plan, child, ranks);
	uint8_t bytes[WEIR_BITMAP_BYTES];
	unsigned int n = sizeof(*mismatch);

	h.status = (uint8_t)status;
	h.degraded = status == WEIR_STATUS_ERROR;
	h.grad_cnt = 0;
	if (h.degraded)
		n = put_bitmap(bytes, 0, ranks);
	else
		memcpy(bytes, mismatch, n);
	rig_rest(&rig); /* after what the others have sent */
	offer(child, &h, bytes, n);
}

/* ---- what leaves ---- */

static inline void
expect(unsigned int child, uint32_t block, enum weir_status status)
{
	cr_assert(receive(child), "child %u gets nothing of block %u", child, block);
	cr_assert_eq(got.job_id, JOB);
	cr_assert_eq(got.src_id, first_of[child]);
	cr_assert_eq(got.gen_id, GEN);
	cr_assert_eq(got.block_id, block, "block %u, not %u", got.block_id, block);
	cr_assert_eq(got.status, status, "%s", weir_status_text(got.status));
	cr_assert_eq(got.flags, 0);
	cr_assert_eq(got.degraded,
		status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR ||
			status == WEIR_STATUS_WAITING);
}

/* The bitmap behind a payload of n bytes, and the count. */
static inline void
expect_ranks(unsigned int n, unsigned int ranks)
{
	static const uint8_t zeros[WEIR_BITMAP_BYTES];

	cr_assert_eq(payload_bytes, n + WEIR_BITMAP_BYTES, "%u bytes, not %u", payload_bytes,
		n + WEIR_BITMAP_BYTES);
	cr_assert_eq(payload[n], ranks, "ranks %x, not %x", payload[n], ranks);
	cr_assert_arr_eq(payload + n + 1, zeros, WEIR_BITMAP_BYTES - 1);
	if (got.status != WEIR_STATUS_WAITING)
		cr_assert_eq(got.src_cnt, __builtin_popcount(ranks));
}

/* The parts of the child's ranks, one after the other. */
static inline void
expect_result(const struct block_plan *plan, unsigned int child)
{
	static uint8_t one[BLOCK_BYTES_MAX], part[RANKS * BLOCK_BYTES_MAX];
	const struct collective_row *row = &collective_table[plan->collective];
	unsigned int n = 0;

	for (unsigned int r = first_of[child]; r < first_of[child] + ranks_of[child]; r++) {
		unsigned int bytes = block_result(plan, r, one);

		if (row->result == RESULT_WHOLE && bytes > 0)
			n = 0; /* all get the same */
		memcpy(part + n, one, bytes);
		n += bytes;
	}
	expect(child, plan->block, plan->absent == 0 ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
	cr_assert_eq(got.collective, plan->collective);
	cr_assert_eq(got.grad_cnt, plan->elements);
	cr_assert_eq(got.root, plan->root);
	if (plan->absent == 0) {
		cr_assert_eq(got.src_cnt, RANKS);
		cr_assert_eq(payload_bytes, n, "%u bytes, not %u", payload_bytes, n);
	} else {
		expect_ranks(n, ALL & ~(unsigned int)plan->absent);
	}
	for (unsigned int i = 0; i < n; i++)
		cr_assert_eq(payload[i], part[i],
			"collective %u, child %u: byte %u of %u is %u, not %u", plan->collective,
			child, i, n, payload[i], part[i]);
}

static inline void
expect_results(const struct block_plan *plan)
{
	for (unsigned int child = 0; child < CHILDREN; child++)
		expect_result(plan, child);
	expect_silence();
}

static inline void
run_block(const struct block_plan *plan)
{
	for (unsigned int child = 0; child < CHILDREN; child++)
		contribute(plan, child);
	expect_results(plan);
}

/* Each shard learns where the children are. Returns the next block. */
static inline uint32_t
run_first_blocks(void)
{
	uint32_t block = 0;

	for (; block < WINDOW; block++) {
		const struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);

		run_block(&plan);
	}
	return block;
}

#endif
