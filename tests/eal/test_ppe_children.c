/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parent of a tree, turned by hand, whose children the test plays: what it takes from them, what it drops, and the parts
 * that each gets (docs/tree.md, "On the wire"). Generations are fixed.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ppe/ppe_priv.h"
#include "tests/eal/blocks.h"
#include "tests/fuzz/turned.h"
#include "tests/model/reduction_model.h"

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
#define L3       34
#define L4       42
#define TIMEOUT  10 /* ms */
#define ALL      0xffu

/* Their ranks, and their ids. */
static const uint8_t first_of[CHILDREN] = {0, 3, 4};
static const uint8_t ranks_of[CHILDREN] = {3, 1, 4};
static const uint8_t rank_ids[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct rig rig;
static uint8_t frame[RIG_FRAME_MAX];

/* The last packet that was taken from a port. */
static struct weir_header got;
static const uint8_t *payload;
static unsigned int payload_bytes;

static struct ppe_job
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

static void
start_job(unsigned int workers, const struct ppe_job *job)
{
	struct rig_config config = {
		.workers = workers, .threads = 8, .ports = PORTS, .jobs = 2, .job[0] = *job};

	config.job[1] = rig_job(JOB_HOST, 3, WINDOW, ELEMENTS);
	config.job[1].fixed_generation = GEN;
	turned_start(&rig, &config);
}

static void
start(unsigned int workers)
{
	const struct ppe_job job = parent_job();

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
	Test(ppe_children, name, .timeout = 90)                                                    \
	{                                                                                          \
		name(1);                                                                           \
	}                                                                                          \
	Test(ppe_children, name##_two_workers, .timeout = 90)                                      \
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

/* ---- children ---- */

static unsigned int
ranks_mask(unsigned int child)
{
	return ((1u << ranks_of[child]) - 1) << first_of[child];
}

static struct block_plan
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
static unsigned int
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

static struct weir_header
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
static unsigned int
put_bitmap(uint8_t *to, unsigned int n, unsigned int ranks)
{
	memset(to + n, 0, WEIR_BITMAP_BYTES);
	to[n] = (uint8_t)ranks;
	return n + WEIR_BITMAP_BYTES;
}

static void
offer(unsigned int child, const struct weir_header *h, const void *bytes, unsigned int n)
{
	rig_offer(&rig, child, h, bytes, n);
}

/* The child's contribution, complete or partial. */
static void
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
static void
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
	turned_rest(&rig); /* after what the others have sent */
	offer(child, &h, bytes, n);
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

static void
expect_silence(void)
{
	for (unsigned int port = 0; port < PORTS; port++)
		cr_assert_not(receive(port), "port %u gets a packet: block %u, collective %u, %s",
			port, got.block_id, got.collective, weir_status_text(got.status));
}

static void
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
static void
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
static void
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

static void
expect_results(const struct block_plan *plan)
{
	for (unsigned int child = 0; child < CHILDREN; child++)
		expect_result(plan, child);
	expect_silence();
}

static void
run_block(const struct block_plan *plan)
{
	for (unsigned int child = 0; child < CHILDREN; child++)
		contribute(plan, child);
	expect_results(plan);
}

/* Each shard learns where the children are. Returns the next block. */
static uint32_t
run_first_blocks(void)
{
	uint32_t block = 0;

	for (; block < WINDOW; block++) {
		const struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);

		run_block(&plan);
	}
	return block;
}

/* ---- collectives ---- */

static void
run_all(const struct block_plan *of, uint32_t *block, uint64_t absent)
{
	const struct collective_row *row = &collective_table[of->collective];
	struct block_plan plan = *of;

	for (plan.root = 0; plan.root < (row->rooted ? RANKS : 1u); plan.root++) {
		if (row->contribution == CONTRIBUTION_ROOT && (absent >> plan.root & 1) != 0)
			continue;
		plan.block = (*block)++;
		plan.seed = plan.block;
		plan.final = plan.block % 3 == 0;
		plan.absent = absent;
		run_block(&plan);
	}
}

BOTH(all_collectives)
{
	/* Nobody; two children lack some; one all but one. */
	static const uint64_t absent[] = {0, 0x25, 0x70};
	uint32_t block = 0;

	start(workers);
	for (unsigned int round = 0; round < 2; round++) {
		rig.seed = round; /* whole packets, then pieces */
		for (unsigned int c = 0; c < 16; c++)
			for (unsigned int i = 0; collective_table[c].served && i < RTE_DIM(absent);
				i++) {
				struct block_plan plan = plan_of((enum weir_collective)c, 0);

				run_all(&plan, &block, absent[i]);
				plan.elements = plan.elements == 0 ? 0 : RANKS - 3;
				run_all(&plan, &block, absent[i]);
			}
	}
	stop();
}

static uint64_t
batched(void)
{
	uint64_t n = 0;

	for (unsigned int w = 0; w < rig.config.workers; w++)
		n += rig.ppe->worker[w]->count.worker.batched;
	return n;
}

/* Complete contributions are alike, so batches take them; a degraded one does not change that. */
BOTH(complete_ones_take_the_short_way)
{
	uint32_t block = 0;
	uint64_t before;

	start(workers);
	for (; block < 4 * WINDOW; block++) {
		const struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);

		run_block(&plan);
	}
	for (; block < 12 * WINDOW; block++) {
		struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);

		plan.absent = block % 4 == 1 ? 0x20 : 0;
		before = batched();
		run_block(&plan);
		if (rig.config.batch != 1)
			cr_assert_eq(batched() - before, plan.absent == 0 ? CHILDREN : CHILDREN - 1,
				"block %u: %" PRIu64 " in batches", block, batched() - before);
	}
	cr_assert_eq(stats().contributions, 12 * WINDOW * CHILDREN);
	cr_assert_eq(stats().blocks_partial, 2 * WINDOW);
	stop();
}

/* ---- accumulators ---- */

static uint32_t
bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return bits;
}

/* What a child has collected: fp32 that does not round to the narrow type, or a sum of 32 bits. */
static uint32_t
accumulator(enum weir_dtype type, unsigned int child, unsigned int i)
{
	if (weir_dtype_is_float(type))
		return bits_of(0.37f + (float)(i % 5) * 0.219f + (float)child * 0.0413f);
	return (type == WEIR_DTYPE_UINT8 || type == WEIR_DTYPE_UINT16 ? 0 : -300) + i * 7 +
		child * 301;
}

static void
run_wide(enum weir_dtype type, enum weir_op op, uint32_t block, unsigned int absent)
{
	const enum weir_dtype wide = weir_dtype_is_float(type) ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32;
	const enum weir_op sum = op == WEIR_OP_AVG ? WEIR_OP_SUM : op;
	const unsigned int count = (unsigned int)__builtin_popcount(ALL & ~absent);
	const unsigned int size = weir_dtype_bytes(type);
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);
	uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];

	plan.dtype = type;
	plan.op = op;
	plan.elements = ELEMENTS;
	for (unsigned int child = 0; child < CHILDREN; child++) {
		unsigned int ranks = ranks_mask(child) & ~absent, n = 4 * ELEMENTS;
		const struct weir_header h = header_of(&plan, child, ranks);

		for (unsigned int i = 0; i < ELEMENTS; i++) {
			uint32_t v = accumulator(type, child, i);

			memcpy(bytes + 4 * i, &v, 4);
		}
		if (h.degraded)
			n = put_bitmap(bytes, n, ranks);
		offer(child, &h, bytes, n);
	}
	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, block, absent == 0 ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
		cr_assert_eq(got.grad_cnt, ELEMENTS);
		cr_assert_eq(
			payload_bytes, size * ELEMENTS + (absent == 0 ? 0 : WEIR_BITMAP_BYTES));
		for (unsigned int i = 0; i < ELEMENTS; i++) {
			uint64_t x[CHILDREN], acc, wanted, is = 0;

			for (unsigned int c = 0; c < CHILDREN; c++)
				x[c] = accumulator(type, c, i);
			acc = reduction_model(wide, sum, x, CHILDREN);
			wanted = op == WEIR_OP_AVG ? reduction_model_average(type, acc, count)
						   : reduction_model_round(type, (uint32_t)acc);
			memcpy(&is, payload + size * i, size);
			cr_assert_eq(is, wanted, "%s %s: element %u is %#" PRIx64 ", not %#" PRIx64,
				weir_dtype_text(type), weir_op_text(op), i, is, wanted);
		}
	}
	expect_silence();
}

/* Narrow types come as 4 bytes, and are rounded and divided once, by the ranks that are in. */
BOTH(wide)
{
	uint32_t block = 0;

	start(workers);
	for (unsigned int round = 0; round < 2; round++) {
		rig.seed = round;
		for (unsigned int type = 0; type < WEIR_DTYPES; type++)
			for (unsigned int op = 0; op < WEIR_OPS && weir_dtype_bytes(type) < 4; op++)
				if (op == WEIR_OP_AVG ||
					(weir_dtype_is_float(type) && op <= WEIR_OP_PROD)) {
					run_wide(type, op, block++, 0);
					run_wide(type, op, block++, 0x21);
				}
	}
	cr_assert_geq(block, 4 * 16);
	stop();
}

/* Finished numbers are not accumulators. */
BOTH(a_narrow_one_is_too_short)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	uint8_t bytes[2 * ELEMENTS] = {0};
	struct weir_header h;

	start(workers);
	plan.dtype = WEIR_DTYPE_FP16;
	plan.elements = ELEMENTS;
	h = header_of(&plan, 0, ranks_mask(0));
	offer(0, &h, bytes, sizeof(bytes));
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_LENGTH), 1);
	/* Minimum and maximum do not round: they come as they are. */
	plan.op = WEIR_OP_MAX;
	for (unsigned int child = 0; child < CHILDREN; child++) {
		h = header_of(&plan, child, ranks_mask(child));
		offer(child, &h, bytes, sizeof(bytes));
	}
	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, 0, WEIR_STATUS_OK);
		cr_assert_eq(payload_bytes, 2 * ELEMENTS);
	}
	expect_silence();
	stop();
}

/* In a narrow job they come rounded, and averages are not served. */
BOTH(narrow)
{
	struct ppe_job job = parent_job();
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	uint8_t bytes[2 * ELEMENTS];
	struct weir_header h;

	job.narrow = true;
	start_job(workers, &job);
	plan.dtype = WEIR_DTYPE_FP16;
	plan.elements = ELEMENTS;
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		bytes[2 * i] = 0;
		bytes[2 * i + 1] = 0x3c; /* 1 */
	}
	for (unsigned int child = 0; child < CHILDREN; child++) {
		h = header_of(&plan, child, ranks_mask(child));
		offer(child, &h, bytes, sizeof(bytes));
	}
	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, 0, WEIR_STATUS_OK);
		cr_assert_eq(payload_bytes, 2 * ELEMENTS);
		for (unsigned int i = 0; i < ELEMENTS; i++)
			cr_assert_eq(payload[2 * i] | payload[2 * i + 1] << 8, 0x4200); /* 3 */
	}
	plan.op = WEIR_OP_AVG;
	plan.block = 1;
	for (unsigned int again = 0; again < 2; again++) {
		h = header_of(&plan, 0, ranks_mask(0));
		offer(0, &h, bytes, sizeof(bytes));
		expect(0, 1, WEIR_STATUS_UNSUPPORTED);
		cr_assert_eq(got.src_cnt, 0);
	}
	expect_silence();
	stop();
}

/* ---- degraded blocks ---- */

static void
start_with_policy(unsigned int workers, enum ppe_policy policy)
{
	struct ppe_job job = parent_job();

	job.policy = (uint8_t)policy;
	start_job(workers, &job);
}

/* A child that does not come lacks all its ranks. */
BOTH(a_missing_child)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLGATHER, 0);

	start_with_policy(workers, PPE_POLICY_PARTIAL);
	run_block(&plan); /* all have endpoints then */
	plan.block = WINDOW;
	plan.absent = 0x12;
	contribute(&plan, 0);
	contribute(&plan, 2);
	expect_silence();
	turned_wait_us(&rig, 1200 * TIMEOUT);
	plan.absent = 0x1a;
	expect_results(&plan);
	/* It gets the result, and is not in it. */
	plan.absent = 0;
	contribute(&plan, 1);
	plan.absent = 0x1a;
	expect_result(&plan, 1);
	expect_silence();
	cr_assert_eq(stats().late, 1);
	cr_assert_eq(stats().blocks_partial, 1);
	stop();
}

/* Without the root's rank there is no result: the ranks that contributed are in the error. */
BOTH(a_missing_root)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_BROADCAST, 0);

	start(workers);
	plan.root = 1;
	plan.absent = 2;
	for (unsigned int child = 0; child < CHILDREN; child++)
		contribute(&plan, child);
	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, 0, WEIR_STATUS_ERROR);
		cr_assert_eq(got.grad_cnt, 0);
		expect_ranks(0, ALL & ~2u);
	}
	expect_silence();
	stop();
}

/* A child that repeats an overdue contribution learns which ranks are in the block. */
BOTH(waiting)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);

	start(workers);
	plan.absent = 0x20;
	contribute(&plan, 2);
	contribute(&plan, 2);
	expect_silence();
	turned_wait_us(&rig, 1200 * TIMEOUT);
	contribute(&plan, 2);
	expect(2, 0, WEIR_STATUS_WAITING);
	expect_ranks(0, 0xd0);
	contribute(&plan, 0);
	contribute(&plan, 1);
	for (unsigned int child = 0; child < CHILDREN; child++)
		expect_result(&plan, child);
	cr_assert_eq(stats().duplicates, 2);
	contribute(&plan, 2); /* it is over: this child alone is answered */
	expect_result(&plan, 2);
	expect_silence();
	cr_assert_eq(stats().asked_again, 1);
	stop();
}

static void
expect_errors(uint32_t block, unsigned int ranks)
{
	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, block, WEIR_STATUS_ERROR);
		cr_assert_eq(got.grad_cnt, 0);
		expect_ranks(0, ranks);
	}
	expect_silence();
}

/* An error below fails the block at once, whichever contribution it is; later ones are told. */
BOTH(an_error_below)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	uint32_t block;

	start(workers);
	block = run_first_blocks();
	/* The last but one, after a partial one. */
	plan.block = block;
	plan.absent = 0x40;
	contribute(&plan, 2);
	contribute_failure(block, 0, WEIR_STATUS_ERROR, 0x5, NULL);
	expect_errors(block, 0xb5);
	contribute(&plan, 1);
	expect(1, block, WEIR_STATUS_ERROR);
	expect_ranks(0, 0xb5);
	/* A repetition. */
	contribute_failure(block, 0, WEIR_STATUS_ERROR, 0x5, NULL);
	expect(0, block, WEIR_STATUS_ERROR);
	expect_ranks(0, 0xb5);
	/* The first one. */
	contribute_failure(block + 1, 1, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_errors(block + 1, 0x8);
	plan.absent = 0;
	plan.block = block + 1;
	contribute(&plan, 0);
	expect(0, block + 1, WEIR_STATUS_ERROR);
	contribute(&plan, 2);
	expect(2, block + 1, WEIR_STATUS_ERROR);
	expect_silence();
	cr_assert_eq(stats().blocks_error, 2);
	/* The next ones are not harmed. */
	plan.block = block + 2;
	contribute(&plan, 1);
	contribute(&plan, 0);
	contribute(&plan, 2);
	expect_results(&plan);
	stop();
}

/* A mismatch below is passed on as it is. */
BOTH(a_mismatch_below)
{
	const struct weir_mismatch mismatch = {.field = WEIR_FIELD_LENGTH,
		.source = 4,
		.block = {1, 2},
		.other = 6,
		.offered = {3, 4}};
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);

	start(workers);
	for (plan.block = run_first_blocks(); plan.block < 2 * WINDOW; plan.block++) {
		if (plan.block == WINDOW)
			contribute(&plan, 0);
		contribute_failure(plan.block, 2, WEIR_STATUS_MISMATCH, 0xf0, &mismatch);
		for (unsigned int child = 0; child < CHILDREN; child++) {
			expect(child, plan.block, WEIR_STATUS_MISMATCH);
			cr_assert_eq(payload_bytes, sizeof(mismatch));
			cr_assert_arr_eq(payload, &mismatch, sizeof(mismatch));
		}
		contribute(&plan, 1);
		expect(1, plan.block, WEIR_STATUS_MISMATCH);
		expect_silence();
	}
	cr_assert_eq(stats().blocks_mismatch, 2);
	stop();
}

/* Children that disagree: their first ranks are named. */
BOTH(a_mismatch_between_children)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	struct weir_mismatch mismatch;

	start(workers);
	plan.block = run_first_blocks();
	contribute(&plan, 1);
	turned_rest(&rig);
	plan.op = WEIR_OP_MAX;
	plan.absent = 0x20; /* a partial one, too */
	contribute(&plan, 2);
	for (unsigned int child = 0; child < CHILDREN; child++) {
		expect(child, plan.block, WEIR_STATUS_MISMATCH);
		cr_assert_eq(payload_bytes, sizeof(mismatch));
		memcpy(&mismatch, payload, sizeof(mismatch));
		cr_assert_eq(mismatch.field, WEIR_FIELD_OP);
		cr_assert_eq(mismatch.source, 3);
		cr_assert_eq(mismatch.other, 4);
		cr_assert_eq(weir_get16(mismatch.offered), WEIR_OP_MAX);
	}
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_MISMATCH), 1);
	stop();
}

/* ---- what is dropped ---- */

struct wrong {
	const char *what;
	enum ppe_drop drop;
	enum weir_status status;
	int degraded; /* else as it should be: -1 */
	unsigned int ranks, count; /* of the bitmap, in the header */
	int bytes; /* more than there should be */
	unsigned int elements;
};

BOTH(malformed)
{
	/* Of child 2, which has the ranks 0xf0. */
	static const struct wrong wrong[] = {
		{"complete, one too few", PPE_DROP_LENGTH, WEIR_STATUS_OK, -1, 0, 3, 0, 9},
		{"complete, one too many", PPE_DROP_LENGTH, WEIR_STATUS_OK, -1, 0, 5, 0, 9},
		{"complete, as a host", PPE_DROP_LENGTH, WEIR_STATUS_OK, -1, 0, 0, 0, 9},
		{"complete, longer", PPE_DROP_LENGTH, WEIR_STATUS_OK, -1, 0, 4, 4, 9},
		{"complete, with a bitmap", PPE_DROP_LENGTH, WEIR_STATUS_OK, -1, 0, 4, 32, 9},
		{"complete, degraded", PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_OK, 1, 0xf0, 4, 0,
			9},
		{"partial, not degraded", PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_PARTIAL, 0, 0x70,
			3, 0, 9},
		{"of another's rank", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0x38, 3, 0, 9},
		{"of others' ranks alone", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0x0f, 4, 0, 9},
		{"more ranks than counted", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0x70, 2, 0,
			9},
		{"fewer ranks than counted", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0x30, 3, 0,
			9},
		{"no rank", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0, 0, 0, 9},
		{"no bitmap", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0x30, 2, -32, 9},
		{"half a bitmap", PPE_DROP_LENGTH, WEIR_STATUS_PARTIAL, -1, 0x30, 2, -16, 1},
		{"error with elements", PPE_DROP_LENGTH, WEIR_STATUS_ERROR, -1, 0x30, 2, 0, 9},
		{"error of another's rank", PPE_DROP_LENGTH, WEIR_STATUS_ERROR, -1, 0x38, 3, 0, 0},
		{"error, longer", PPE_DROP_LENGTH, WEIR_STATUS_ERROR, -1, 0x30, 2, 1, 0},
		{"error without a bitmap", PPE_DROP_LENGTH, WEIR_STATUS_ERROR, -1, 0x30, 2, -32, 0},
		{"error, not degraded", PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_ERROR, 0, 0x30, 2,
			0, 0},
		{"mismatch, shorter", PPE_DROP_LENGTH, WEIR_STATUS_MISMATCH, -1, 0, 4, -1, 0},
		{"mismatch, longer", PPE_DROP_LENGTH, WEIR_STATUS_MISMATCH, -1, 0, 4, 1, 0},
		{"mismatch, degraded", PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_MISMATCH, 1, 0x30,
			2, 0, 0},
		{"mismatch with elements", PPE_DROP_LENGTH, WEIR_STATUS_MISMATCH, -1, 0, 4, 0, 9},
		{"waiting", PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_WAITING, 1, 0x30, 2, 0, 0},
		{"stale", PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_STALE, 0, 0, 0, 0, 0},
	};
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);

	start(workers);
	for (unsigned int i = 0; i < RTE_DIM(wrong); i++) {
		const struct wrong *w = &wrong[i];
		struct weir_header h = header_of(&plan, 2, 0xf0);
		uint8_t bytes[256] = {0};
		unsigned int n = 4 * w->elements;
		uint64_t before = drops(w->drop);

		h.status = (uint8_t)w->status;
		h.grad_cnt = (uint16_t)w->elements;
		h.src_cnt = (uint8_t)w->count;
		h.degraded = w->degraded >= 0
			? w->degraded > 0
			: w->status == WEIR_STATUS_PARTIAL || w->status == WEIR_STATUS_ERROR;
		if (h.degraded)
			n = put_bitmap(bytes, n, w->ranks);
		if (w->status == WEIR_STATUS_MISMATCH)
			n += sizeof(struct weir_mismatch);
		offer(2, &h, bytes, n + (unsigned int)w->bytes);
		expect_silence();
		cr_assert_eq(drops(w->drop), before + 1, "%s", w->what);
		/* From an endpoint that is known, too. */
		if (i == RTE_DIM(wrong) / 2)
			run_block(&plan);
		plan.block += i == RTE_DIM(wrong) / 2;
	}
	cr_assert_eq(stats().blocks_opened, 1);
	cr_assert_eq(stats().contributions, CHILDREN);
	/* All of it again is no hindrance. */
	run_block(&plan);
	stop();
}

/* Who is a switch and who is a host, the configuration says. */
BOTH(the_flag)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	uint8_t bytes[4 * ELEMENTS] = {0};
	struct weir_header h;
	unsigned int wrong = 0;

	start(workers);
	for (unsigned int round = 0; round < 2; round++) {
		const enum weir_collective collectives[] = {WEIR_COLLECTIVE_ALLREDUCE,
			WEIR_COLLECTIVE_BARRIER, WEIR_COLLECTIVE_ACKNOWLEDGE};

		for (unsigned int i = 0; i < RTE_DIM(collectives); i++)
			for (unsigned int job = JOB; job <= JOB_HOST; job++) {
				h = rig_contribution((uint8_t)job, GEN, 0, plan.block,
					i == 0 ? plan.elements : 0);
				h.collective = (uint8_t)collectives[i];
				h.dtype = i == 0 ? WEIR_DTYPE_INT32 : 0;
				h.flags = job == JOB ? 0 : WEIR_FLAG_UP;
				offer(0, &h, bytes, 4u * h.grad_cnt);
				expect_silence();
				cr_assert_eq(drops(PPE_DROP_NOT_A_CONTRIBUTION), ++wrong,
					"collective %u, job %u", collectives[i], job);
			}
		/* The base form has no flags. */
		h = rig_contribution(JOB, GEN, 0, plan.block, plan.elements);
		h.extended = false;
		offer(0, &h, bytes, 4 * plan.elements);
		expect_silence();
		cr_assert_eq(drops(PPE_DROP_NOT_A_CONTRIBUTION), ++wrong);
		run_block(&plan); /* and once more, with endpoints */
		plan.block++;
	}
	cr_assert_eq(stats().contributions, 2 * CHILDREN);
	stop();
}

/* ---- what is as with hosts ---- */

/* A child acknowledges without its ranks. What it says releases the block before. */
BOTH(acknowledgements)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	struct weir_header h = header_of(&plan, 0, 0);

	h.collective = WEIR_COLLECTIVE_ACKNOWLEDGE;
	h.status = 0;
	h.degraded = false;
	h.grad_cnt = h.dtype = 0;
	start_with_policy(workers, PPE_POLICY_PARTIAL);
	run_block(&plan);
	/* A child contributes no more, but it acknowledges. */
	for (plan.block = WINDOW; plan.block < 6 * WINDOW; plan.block += WINDOW) {
		plan.absent = 0;
		contribute(&plan, 1);
		contribute(&plan, 2);
		turned_wait_us(&rig, 1200 * TIMEOUT);
		plan.absent = 7;
		expect_results(&plan);
		h.block_id = plan.block + WINDOW;
		offer(0, &h, NULL, 0);
		turned_rest(&rig);
	}
	cr_assert_eq(stats().acknowledged, 5);
	cr_assert_eq(stats().held_back, 0);
	h.src_cnt = 3;
	offer(0, &h, NULL, 0);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_NOT_A_CONTRIBUTION), 1);
	stop();
}

/* Nobody has said that child 0 has the result of the first block: partial ones are held back, and answered, too. */
BOTH(held_back)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);

	start_with_policy(workers, PPE_POLICY_PARTIAL);
	run_block(&plan);
	plan.block = WINDOW;
	contribute(&plan, 1);
	contribute(&plan, 2);
	turned_wait_us(&rig, 1200 * TIMEOUT);
	plan.absent = 7;
	expect_results(&plan);
	plan.block = 2 * WINDOW;
	plan.absent = 0x20;
	contribute(&plan, 2);
	expect(2, plan.block, WEIR_STATUS_WAITING);
	expect_ranks(0, 0xf8);
	cr_assert_eq(drops(PPE_DROP_HELD_BACK), 1);
	/* Further ahead is outside of the window. */
	plan.block = 3 * WINDOW;
	contribute(&plan, 2);
	expect(2, plan.block, WEIR_STATUS_WINDOW);
	/* The first one is kept. */
	plan.block = 0;
	contribute(&plan, 2);
	plan.absent = 0;
	expect_result(&plan, 2);
	expect_silence();
	stop();
}

/* Sums are added in the order of ids, whatever comes first: accumulators, too. */
BOTH(deterministic)
{
	static const uint8_t orders[][CHILDREN] = {
		{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	/* Another order, another sum. */
	static const float part[CHILDREN] = {1e8f, -1e8f, 1.25f};
	struct ppe_job job = parent_job();
	uint32_t block = 0;

	job.deterministic = true;
	start_job(workers, &job);
	for (unsigned int i = 0; i < 2 * RTE_DIM(orders); i++, block++) {
		struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);
		uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];

		plan.dtype = i % 2 == 0 ? WEIR_DTYPE_BF16 : WEIR_DTYPE_FP32;
		plan.elements = ELEMENTS;
		for (unsigned int at = 0; at < CHILDREN; at++) {
			unsigned int child = orders[i / 2][at], n = 4 * ELEMENTS;
			unsigned int ranks = ranks_mask(child) & (i % 4 < 2 ? ALL : ~0x10u);
			const struct weir_header h = header_of(&plan, child, ranks);

			for (unsigned int e = 0; e < ELEMENTS; e++) {
				uint32_t v = bits_of(part[child]);

				memcpy(bytes + 4 * e, &v, 4);
			}
			if (h.degraded)
				n = put_bitmap(bytes, n, ranks);
			offer(child, &h, bytes, n);
			turned_rest(&rig);
		}
		for (unsigned int child = 0; child < CHILDREN; child++) {
			expect(child, block, i % 4 < 2 ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
			for (unsigned int e = 0; e < ELEMENTS; e++) {
				uint32_t is = 0, size = weir_dtype_bytes(plan.dtype);

				memcpy(&is, payload + size * e, size);
				cr_assert_eq(is << 8 * (4 - size), bits_of(1.25f), "block %u: %x",
					block, is);
			}
		}
	}
	cr_assert_gt(stats().out_of_turn, 0);
	stop();
}

/* ---- a switch in the middle ---- */

static void
start_middle(unsigned int workers)
{
	struct ppe_job job = parent_job();

	job.tree_ranks = RANKS + 3;
	job.nb_parents = 1;
	job.parent[0] = (struct ppe_parent){.name = "top",
		.address = 0x0a4e00fe,
		.port = ABOVE,
		.udp = WEIR_PORT_EXT,
		.mac = {2, 0x50, 0, 0, 0, 1},
		.job = JOB_UP};
	start_job(workers, &job);
}

static void
expect_above(uint32_t block, enum weir_status status, unsigned int ranks)
{
	cr_assert(receive(ABOVE), "block %u does not go up", block);
	cr_assert_eq(got.job_id, JOB_UP);
	cr_assert_eq(got.block_id, block);
	cr_assert_eq(got.flags, WEIR_FLAG_UP);
	cr_assert_eq(got.status, status, "%s", weir_status_text(got.status));
	cr_assert_eq(got.src_cnt, __builtin_popcount(ranks), "%u ranks", got.src_cnt);
	cr_assert_eq(got.degraded, status == WEIR_STATUS_PARTIAL || status == WEIR_STATUS_ERROR);
	if (got.degraded)
		cr_assert_eq(payload[payload_bytes - WEIR_BITMAP_BYTES], ranks);
}

/* What goes up from there has the union of the ranks, and is as wide as what comes. */
BOTH(in_the_middle)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];

	start_middle(workers);
	plan.dtype = WEIR_DTYPE_INT8;
	plan.op = WEIR_OP_AVG;
	plan.elements = ELEMENTS;
	for (unsigned int child = 0; child < CHILDREN; child++) {
		unsigned int ranks = ranks_mask(child) & ~0x21u, n = 4 * ELEMENTS;
		const struct weir_header h = header_of(&plan, child, ranks);

		for (unsigned int i = 0; i < ELEMENTS; i++) {
			uint32_t v = 1000 * child + i;

			memcpy(bytes + 4 * i, &v, 4);
		}
		if (h.degraded)
			n = put_bitmap(bytes, n, ranks);
		offer(child, &h, bytes, n);
	}
	expect_above(0, WEIR_STATUS_PARTIAL, ALL & ~0x21u);
	cr_assert_eq(payload_bytes, 4 * ELEMENTS + WEIR_BITMAP_BYTES);
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		uint32_t v;

		memcpy(&v, payload + 4 * i, 4);
		cr_assert_eq(v, 3000 + 3 * i);
	}
	expect_silence();
	contribute_failure(1, 1, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_above(1, WEIR_STATUS_ERROR, 0x8);
	expect_silence();
	/* A late one, and a repetition: nobody is answered, the same goes up again. */
	plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 1);
	plan.absent = 0x40;
	turned_turn_after_us(&rig, 1001);
	contribute(&plan, 2);
	expect_above(1, WEIR_STATUS_ERROR, 0x8);
	turned_turn_after_us(&rig, 1001);
	contribute_failure(1, 1, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_above(1, WEIR_STATUS_ERROR, 0x8);
	expect_silence();
	stop();
}

BOTH(a_mismatch_in_the_middle)
{
	const struct weir_mismatch mismatch = {.field = WEIR_FIELD_ROOT, .source = 4, .other = 7};
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);

	start_middle(workers);
	contribute(&plan, 0);
	contribute_failure(0, 2, WEIR_STATUS_MISMATCH, 0xf0, &mismatch);
	expect_above(0, WEIR_STATUS_MISMATCH, 0xf7);
	cr_assert_eq(payload_bytes, sizeof(mismatch));
	cr_assert_arr_eq(payload, &mismatch, sizeof(mismatch));
	expect_silence();
	stop();
}
