/* SPDX-License-Identifier: BSD-3-Clause */
/* What a parent makes of its children's contributions, and the parts that each gets (docs/tree.md, "What each collective sends"). */
#include <inttypes.h>

#include "apps/verify/verify.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/bench_tree.h"
#include "tests/eal/blocks.h"

#define RANKS    8
#define CHILDREN 3
#define WINDOW   2
#define ELEMENTS 200
#define TIMEOUT  10 /* ms */
#define ALL      0xffu

static const uint8_t child[CHILDREN] = {0, 3, 4}; /* by their first ranks, which are 3, 1 and 4 */

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_children, name)

#define start_parent(...)                                                                          \
	start(.workers = workers, .children = {3, 1, 4}, .window = WINDOW, .elements = ELEMENTS,   \
		.timeout_ms = TIMEOUT, .generation = 7, __VA_ARGS__)

/* ---- collectives ---- */

static struct block_plan
plan_of(enum weir_collective collective, uint32_t block)
{
	static const uint8_t ids[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

	return (struct block_plan){.job = 1,
		.generation = generation,
		.n = RANKS,
		.ids = ids,
		.collective = collective,
		.dtype = WEIR_DTYPE_INT32,
		.elements = collective == WEIR_COLLECTIVE_BARRIER ? 0
			: collective == WEIR_COLLECTIVE_ALLTOALL  ? 23
								  : 101,
		.block = block,
		.seed = 1000 + block,
		.filler = 0xee};
}

/* The header of a child's contribution to the plan; some ranks are absent. */
static struct weir_header
header_of(const struct block_plan *plan, unsigned int of)
{
	struct weir_header h = (plan->absent & ranks_of(of)) != 0
		? partial_contribution(of, plan->block, plan->absent)
		: contribution(of, plan->block);

	h.collective = (uint8_t)plan->collective;
	h.dtype = (uint8_t)plan->dtype;
	h.op = (uint8_t)plan->op;
	h.root = (uint8_t)plan->root;
	h.grad_cnt = (uint16_t)plan->elements;
	h.final = plan->final;
	return h;
}

/* The child's contribution with this payload of n bytes, and the bitmap if it lacks ranks. */
static void
offer_of(const struct block_plan *plan, unsigned int of, uint8_t *bytes, unsigned int n)
{
	const struct weir_header h = header_of(plan, of);

	if (h.degraded)
		n = put_bitmap(bytes, n, ranks_of(of) & ~plan->absent);
	offer_payload(&h, bytes, n);
}

static void
contribute_plan(const struct block_plan *plan, unsigned int of)
{
	static uint8_t bytes[2 * BLOCK_BYTES_MAX];

	offer_of(plan, of, bytes,
		block_up(plan, of, (unsigned int)__builtin_popcountll(ranks_of(of)), bytes));
}

/* The next packet to the child has this payload, and the bitmap if ranks are absent. */
static void
expect_result(const struct block_plan *plan, unsigned int of, uint8_t *bytes, unsigned int n)
{
	expect_status(of, plan->absent == 0 ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
	cr_assert_eq(got.block_id, plan->block);
	cr_assert_eq(got.collective, plan->collective);
	cr_assert_eq(got.grad_cnt, plan->elements);
	cr_assert_eq(got.root, plan->root);
	cr_assert_eq(got.src_cnt, __builtin_popcountll(ALL & ~plan->absent));
	if (plan->absent != 0)
		n = put_bitmap(bytes, n, ALL & ~plan->absent);
	expect_same(bytes, n);
}

static void
expect_plan(const struct block_plan *plan, unsigned int of)
{
	static uint8_t bytes[2 * BLOCK_BYTES_MAX];
	struct block_plan result = *plan;

	result.filler = 0;
	expect_result(plan, of, bytes,
		block_down(&result, of, (unsigned int)__builtin_popcountll(ranks_of(of)), bytes));
}

static void
run_plan(const struct block_plan *plan)
{
	for (unsigned int c = 0; c < CHILDREN; c++)
		contribute_plan(plan, child[c]);
	for (unsigned int c = 0; c < CHILDREN; c++)
		expect_plan(plan, child[c]);
	expect_silence();
}

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
		run_plan(&plan);
	}
}

BOTH(all_collectives)
{
	/* Nobody; two children lack some; one all but one. */
	static const uint64_t absent[] = {0, 0x25, 0x70};
	uint32_t block = 0;

	start_parent();
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

/* A child that does not come lacks all its ranks. */
BOTH(a_missing_child)
{
	struct block_plan plan;

	start_parent(.policy = PPE_POLICY_PARTIAL);
	plan = plan_of(WEIR_COLLECTIVE_ALLGATHER, 0);
	run_plan(&plan); /* all have endpoints then */
	plan.block = WINDOW;
	plan.absent = 0x12;
	contribute_plan(&plan, 0);
	contribute_plan(&plan, 4);
	expect_silence();
	rig_pass_us(1200 * TIMEOUT);
	plan.absent = 0x1a;
	for (unsigned int c = 0; c < CHILDREN; c++)
		expect_plan(&plan, child[c]);
	/* It gets the result, and is not in it. */
	plan.absent = 0;
	contribute_plan(&plan, 3);
	plan.absent = 0x1a;
	expect_plan(&plan, 3);
	expect_silence();
	cr_assert_eq(job_stats(1).late, 1);
	cr_assert_eq(job_stats(1).blocks_partial, 1);
	stop();
}

/* Without the root's rank there is no result: the ranks that contributed are in the error. */
BOTH(a_missing_root)
{
	struct block_plan plan;

	start_parent();
	plan = plan_of(WEIR_COLLECTIVE_BROADCAST, 0);
	plan.root = 1;
	plan.absent = 2;
	for (unsigned int c = 0; c < CHILDREN; c++)
		contribute_plan(&plan, child[c]);
	expect_all(0, WEIR_STATUS_ERROR, ALL & ~2u);
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
	uint64_t before;

	start_parent();
	for (uint32_t block = 0; block < 12 * WINDOW; block++) {
		bool lacks = block >= 4 * WINDOW && block % 4 == 1;

		before = batched();
		contribute(0, block);
		contribute(3, block);
		if (lacks)
			contribute_without(4, block, 0x20);
		else
			contribute(4, block);
		expect_all(block, lacks ? WEIR_STATUS_PARTIAL : WEIR_STATUS_OK,
			lacks ? ALL & ~0x20u : 0);
		if (rig.config.batch != 1 && block >= 4 * WINDOW)
			cr_assert_eq(batched() - before, lacks ? CHILDREN - 1 : CHILDREN,
				"block %u: %" PRIu64 " in batches", block, batched() - before);
	}
	cr_assert_eq(job_stats(1).contributions, 12 * WINDOW * CHILDREN);
	cr_assert_eq(job_stats(1).blocks_partial, 2 * WINDOW);
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
accumulator(enum weir_dtype type, unsigned int c, unsigned int i)
{
	if (weir_dtype_is_float(type))
		return bits_of(0.37f + (float)(i % 5) * 0.219f + (float)c * 0.0413f);
	return (type == WEIR_DTYPE_UINT8 || type == WEIR_DTYPE_UINT16 ? 0 : -300) + i * 7 + c * 301;
}

/* A plan of accumulators. */
static struct block_plan
wide_plan(enum weir_dtype type, enum weir_op op, uint32_t block, uint64_t absent)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, block);

	plan.dtype = type;
	plan.op = op;
	plan.elements = ELEMENTS;
	plan.absent = absent;
	return plan;
}

/* Each child contributes what it has collected: a number for each element. */
static void
contribute_wide(const struct block_plan *plan)
{
	uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];

	for (unsigned int c = 0; c < CHILDREN; c++) {
		for (unsigned int i = 0; i < ELEMENTS; i++) {
			uint32_t v = accumulator(plan->dtype, c, i);

			memcpy(bytes + 4 * i, &v, 4);
		}
		offer_of(plan, child[c], bytes, 4 * ELEMENTS);
	}
}

static void
run_wide(enum weir_dtype type, enum weir_op op, uint32_t block, uint64_t absent)
{
	const enum weir_dtype wide = weir_dtype_is_float(type) ? WEIR_DTYPE_FP32 : WEIR_DTYPE_INT32;
	const enum weir_op sum = op == WEIR_OP_AVG ? WEIR_OP_SUM : op;
	const unsigned int count = (unsigned int)__builtin_popcountll(ALL & ~absent);
	const unsigned int size = weir_dtype_bytes(type);
	const struct block_plan plan = wide_plan(type, op, block, absent);
	uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];

	contribute_wide(&plan);
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		uint64_t x[CHILDREN], acc, wanted;

		for (unsigned int c = 0; c < CHILDREN; c++)
			x[c] = accumulator(type, c, i);
		acc = verify_reduce(wide, sum, x, CHILDREN);
		wanted = op == WEIR_OP_AVG ? verify_average(type, acc, count)
					   : verify_round(type, (uint32_t)acc);
		memcpy(bytes + size * i, &wanted, size);
	}
	for (unsigned int c = 0; c < CHILDREN; c++)
		expect_result(&plan, child[c], bytes, size * ELEMENTS);
	expect_silence();
}

/* Narrow types come as 4 bytes, and are rounded and divided once, by the ranks that are in. */
BOTH(wide)
{
	uint32_t block = 0;

	start_parent();
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

/* Each child contributes these numbers of 2 bytes, and gets those. */
static void
run_finished(enum weir_op op, uint32_t block, uint16_t ours, uint16_t result)
{
	const struct block_plan plan = wide_plan(WEIR_DTYPE_FP16, op, block, 0);
	uint8_t bytes[2 * ELEMENTS];

	for (unsigned int i = 0; i < ELEMENTS; i++)
		memcpy(bytes + 2 * i, &ours, 2);
	for (unsigned int c = 0; c < CHILDREN; c++)
		offer_of(&plan, child[c], bytes, sizeof(bytes));
	for (unsigned int i = 0; i < ELEMENTS; i++)
		memcpy(bytes + 2 * i, &result, 2);
	for (unsigned int c = 0; c < CHILDREN; c++)
		expect_result(&plan, child[c], bytes, sizeof(bytes));
	expect_silence();
}

/* Finished numbers are not accumulators. */
BOTH(a_narrow_one_is_too_short)
{
	struct block_plan plan;
	uint8_t bytes[2 * ELEMENTS] = {0};

	start_parent();
	plan = wide_plan(WEIR_DTYPE_FP16, WEIR_OP_SUM, 0, 0);
	offer_of(&plan, 0, bytes, sizeof(bytes));
	expect_silence();
	expect_drop(PPE_DROP_LENGTH, 1);
	/* Minimum and maximum do not round: they come as they are. */
	run_finished(WEIR_OP_MAX, 0, 0, 0);
	stop();
}

/* In a narrow job they come rounded, and averages are not served. */
BOTH(narrow)
{
	struct block_plan plan;
	uint8_t bytes[2 * ELEMENTS] = {0};

	start_parent(.narrow = true);
	run_finished(WEIR_OP_SUM, 0, 0x3c00, 0x4200); /* 1 and 3 */
	plan = wide_plan(WEIR_DTYPE_FP16, WEIR_OP_AVG, 1, 0);
	for (unsigned int again = 0; again < 2; again++) {
		offer_of(&plan, 0, bytes, sizeof(bytes));
		expect(0, 1, WEIR_STATUS_UNSUPPORTED, 0);
		cr_assert_eq(got.src_cnt, 0);
	}
	stop();
}

/* Sums are added in the order of ids, whatever comes first: accumulators, too. */
BOTH(deterministic)
{
	static const uint8_t orders[][CHILDREN] = {
		{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	/* Another order, another sum. */
	static const float part[CHILDREN] = {1e8f, -1e8f, 1.25f};

	start_parent(.deterministic = true);
	for (unsigned int i = 0; i < 2 * RTE_DIM(orders); i++) {
		struct block_plan plan = wide_plan(i % 2 == 0 ? WEIR_DTYPE_BF16 : WEIR_DTYPE_FP32,
			WEIR_OP_SUM, i, i % 4 < 2 ? 0 : 0x10);
		uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES];
		unsigned int size = weir_dtype_bytes(plan.dtype);
		uint32_t v;

		for (unsigned int at = 0; at < CHILDREN; at++) {
			v = bits_of(part[orders[i / 2][at]]);
			for (unsigned int e = 0; e < ELEMENTS; e++)
				memcpy(bytes + 4 * e, &v, 4);
			offer_of(&plan, child[orders[i / 2][at]], bytes, 4 * ELEMENTS);
			rig_rest(&rig);
		}
		v = bits_of(1.25f) >> 8 * (4 - size);
		for (unsigned int e = 0; e < ELEMENTS; e++)
			memcpy(bytes + size * e, &v, size);
		for (unsigned int c = 0; c < CHILDREN; c++)
			expect_result(&plan, child[c], bytes, size * ELEMENTS);
	}
	cr_assert_gt(job_stats(1).out_of_turn, 0);
	stop();
}

/* ---- a switch in the middle ---- */

#define start_middle(...) start_parent(.parents = 1, .tree_ranks = RANKS + 3)

/* What goes up from there has the union of the ranks, and is as wide as what comes. */
BOTH(in_the_middle)
{
	struct block_plan plan;

	start_middle();
	plan = wide_plan(WEIR_DTYPE_INT8, WEIR_OP_AVG, 0, 0x21);
	contribute_wide(&plan);
	take_up(0, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_PARTIAL);
	cr_assert_eq(got.src_cnt, RANKS - 2);
	cr_assert_eq(payload_bytes, 4 * ELEMENTS + WEIR_BITMAP_BYTES);
	cr_assert_eq(payload[4 * ELEMENTS], ALL & ~0x21u);
	for (unsigned int i = 0; i < ELEMENTS; i++) {
		uint32_t v, sum = 0;

		for (unsigned int c = 0; c < CHILDREN; c++)
			sum += accumulator(WEIR_DTYPE_INT8, c, i);
		memcpy(&v, payload + 4 * i, 4);
		cr_assert_eq(v, sum);
	}
	expect_silence();
	contribute_failure(3, 1, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_up(1, WEIR_STATUS_ERROR, 0x8);
	expect_silence();
	/* A late one, and a repetition: nobody is answered, the same goes up again. */
	skip_us(1001);
	contribute_without(4, 1, 0x40);
	expect_up(1, WEIR_STATUS_ERROR, 0x8);
	skip_us(1001);
	contribute_failure(3, 1, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_up(1, WEIR_STATUS_ERROR, 0x8);
	stop();
}

/* A switch between answers when its own timeout has passed, or its children would take it for dead. */
BOTH(overdue_in_the_middle)
{
	start_middle();
	go_up(0);
	skip_us(1000 * TIMEOUT / 2);
	contribute(3, 0);
	expect_up(0, WEIR_STATUS_OK, 0);
	expect_silence();
	skip_us(1000 * TIMEOUT);
	contribute(3, 0);
	expect_up(0, WEIR_STATUS_OK, 0);
	expect(3, 0, WEIR_STATUS_WAITING, ALL);
	stop();
}

BOTH(a_mismatch_in_the_middle)
{
	const struct weir_mismatch mismatch = {.field = WEIR_FIELD_ROOT, .source = 4, .other = 7};

	start_middle();
	contribute(0, 0);
	contribute_failure(4, 0, WEIR_STATUS_MISMATCH, 0xf0, &mismatch);
	expect_up(0, WEIR_STATUS_MISMATCH, 0xf7);
	cr_assert_eq(payload_bytes, sizeof(mismatch));
	cr_assert_arr_eq(payload, &mismatch, sizeof(mismatch));
	stop();
}
