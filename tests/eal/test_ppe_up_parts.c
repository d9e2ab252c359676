/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a block goes up and comes down: to which parent, in which order, each collective's parts, and narrow types. */
#include "tests/eal/bench_tree.h"
#include "tests/eal/blocks.h"

#define RANKS      8
#define FIRST      4
#define OWN        3
#define WINDOW     2
#define TIMEOUT    10 /* ms */

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_up, name)

#define start_leaf(...)                                                                            \
	start(.workers = workers, .first_rank = FIRST, .tree_ranks = RANKS, .window = WINDOW,      \
		.elements = 200, .timeout_ms = TIMEOUT, .generation = 7, __VA_ARGS__)

/* ---- more than one of something ---- */

/* Blocks go to the parents by turns, and each answers for its own. */
BOTH(two_parents)
{
	struct ppe_block_info info[4];
	struct ppe_parent_stats at;

	start_leaf(.parents = 2);
	cr_assert_eq(ppe_parent_stats_read(rig.ppe, 1, 0, &at), 0);
	cr_assert_eq(at.generation, generation);
	cr_assert(at.serves);
	cr_assert_not(at.heard);
	for (uint32_t block = 0; block < 4 * WINDOW; block++) {
		struct weir_header h;

		go_up(block);
		cr_assert_eq(parent_of(block), block % 2);
		cr_assert_eq(ppe_blocks_read(rig.ppe, 1, true, 0, info, 4), 1);
		cr_assert(info[0].open && info[0].up);
		cr_assert_eq(info[0].parent, block % 2);
		cr_assert_eq(info[0].heard_count, 2);
		h = from_above(block, WEIR_STATUS_OK, 0);
		h.grad_cnt = 0;
		h.job_id = rig.job[0].parent[1 - block % 2].job;
		say(1 - block % 2, &h, NULL, 0); /* the other parent */
		expect_drop(PPE_DROP_NOT_FROM_PARENT, block + 1);
		come_down(block); /* and the right one */
		cr_assert_eq(ppe_blocks_read(rig.ppe, 1, true, 0, info, 4), 0);
	}
	cr_assert_eq(ppe_parent_stats_read(rig.ppe, 1, 1, &at), 0);
	cr_assert(at.heard);
	stop();
}

/* Four numbers of a host. */
static void
contribute_floats(unsigned int rank, uint32_t block, const float values[4])
{
	struct weir_header h = contribution(rank, block);

	h.dtype = WEIR_DTYPE_FP32;
	h.grad_cnt = 4;
	offer_payload(&h, values, 16);
}

/* Contributions that wait for their turn are dropped with the rest when the parent's result comes first. */
BOTH(in_order)
{
	struct weir_header h;

	start_leaf(.parents = 1, .sources = OWN, .policy = PPE_POLICY_PARTIAL,
		.deterministic = true);
	for (unsigned int times = 0; times < 3; times++) {
		float values[4] = {0, 2 + (float)times}, sum;
		uint32_t block = times * WINDOW;

		contribute_floats(FIRST + 2, block, values);
		contribute_floats(FIRST + 1, block, values);
		rig_rest(&rig);
		if (times == 1)
			rig_pass_us(1200 * TIMEOUT);
		if (times == 2)
			contribute_floats(FIRST, block, values);
		if (times != 0) {
			take_up(block, WEIR_COLLECTIVE_ALLREDUCE,
				times == 1 ? WEIR_STATUS_PARTIAL : WEIR_STATUS_OK);
			memcpy(&sum, payload + 4, 4);
			cr_assert_eq(sum, times == 1 ? 6 : 12);
		}
		expect_silence();
		h = from_above(block, WEIR_STATUS_OK, 0);
		h.dtype = WEIR_DTYPE_FP32;
		h.grad_cnt = 4;
		say(0, &h, values, sizeof(values));
		/* The first host has no endpoint before its first packet. */
		for (unsigned int rank = times == 0 ? FIRST + 1 : FIRST; rank < FIRST + OWN; rank++)
			expect_status(rank, WEIR_STATUS_OK);
		if (times != 2) {
			contribute_floats(FIRST, block, values);
			expect_status(FIRST, WEIR_STATUS_OK);
			cr_assert_arr_eq(payload, values, sizeof(values));
		}
		expect_silence();
	}
	stop();
}

/* ---- the collectives' parts ---- */

/* A block of any collective up and down; absent: ranks that do not contribute. */
static void
run_plan(struct block_plan *plan, unsigned int absent)
{
	static uint8_t bytes[BLOCK_BYTES_MAX];
	struct weir_header h;
	unsigned int n;
	bool root_absent = (absent >> plan->root & 1) != 0 &&
		collective_table[plan->collective].contribution == CONTRIBUTION_ROOT;

	plan->absent = absent;
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		h = block_header(plan, rank);
		if ((absent >> rank & 1) == 0)
			offer_payload(&h, bytes, block_contribution(plan, rank, bytes));
	}
	if (absent != 0) {
		expect_silence();
		rig_pass_us(1200 * TIMEOUT);
	}
	take_up(plan->block, plan->collective,
		root_absent           ? WEIR_STATUS_ERROR
			: absent != 0 ? WEIR_STATUS_PARTIAL
				      : WEIR_STATUS_OK);
	n = root_absent ? 0 : block_up(plan, FIRST, OWN, bytes);
	cr_assert_eq(got.grad_cnt, root_absent ? 0 : plan->elements);
	cr_assert_eq(got.root, plan->root);
	if (absent != 0)
		n = put_bitmap(bytes, n, 0x70 & ~absent);
	expect_same(bytes, n);
	/* The parent has all others, and, perhaps later, the absent ones, too. */
	plan->absent = 0;
	h = block_header(plan, FIRST);
	h.job_id = rig.job[0].parent[0].job;
	h.src_cnt = RANKS;
	say(0, &h, bytes, block_down(plan, FIRST, OWN, bytes));
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		n = block_result(plan, rank, bytes);
		expect_bytes(rank, plan->block, WEIR_STATUS_OK, bytes, n);
	}
	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++)
		if ((absent >> rank & 1) != 0)
			acknowledge(rank, plan->block + WINDOW);
	if (absent != 0)
		expect_note_up(plan->block + WINDOW, WEIR_COLLECTIVE_ACKNOWLEDGE);
	expect_silence();
	plan->block++;
	plan->seed++;
}

static void
run_collectives(unsigned int workers, unsigned int absent)
{
	static const uint8_t ids[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
	static const unsigned int roots[] = {0, 3, 4, 6, 7};
	static const unsigned int elements[] = {1, 4, 7, 8, 50};
	struct block_plan plan = {.job = 1,
		.generation = 7,
		.n = RANKS,
		.ids = ids,
		.dtype = WEIR_DTYPE_INT32,
		.elements = 9,
		.seed = 1};

	start_leaf(.parents = 1, .sources = OWN, .policy = PPE_POLICY_PARTIAL);
	while (plan.block < WINDOW) /* all get endpoints */
		run_plan(&plan, 0);
	for (unsigned int c = 0; c < WEIR_COLLECTIVES; c++)
		for (unsigned int r = 0; r < (collective_table[c].rooted ? RTE_DIM(roots) : 1); r++)
			for (unsigned int e = 0; e < RTE_DIM(elements); e++) {
				plan.collective = (enum weir_collective)c;
				plan.root = roots[r];
				plan.elements = c == WEIR_COLLECTIVE_BARRIER ? 0 : elements[e];
				plan.dtype = c == WEIR_COLLECTIVE_BARRIER ? 0 : WEIR_DTYPE_INT32;
				run_plan(&plan, absent);
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

#define SIX 0x40c00000 /* in fp32 */

/* The hosts contribute these numbers; up goes `sum`, of so many bytes each. */
struct narrow {
	enum weir_dtype dtype;
	enum weir_op op;
	uint32_t bits[OWN], sum;
	unsigned int bytes;
};

static const uint32_t fp16_3 = 0x4200, bf16_1 = 0x3f80;

#define FP16                                                                                       \
	{                                                                                          \
		0x3c00, 0x4000, 0x4200                                                             \
	}
#define BF16                                                                                       \
	{                                                                                          \
		0x3f80, 0x4000, 0x4040                                                             \
	}
#define FP32                                                                                       \
	{                                                                                          \
		0x3f800000, 0x40000000, 0x40400000                                                 \
	}
#define INTS                                                                                       \
	{                                                                                          \
		1, 2, 3                                                                            \
	}

static void
run_narrow(const struct narrow *of, uint32_t block)
{
	struct weir_header h;
	unsigned int size = weir_dtype_bytes(of->dtype);
	uint8_t values[37 * 4];

	for (unsigned int rank = FIRST; rank < FIRST + OWN; rank++) {
		for (unsigned int i = 0; i < 37; i++)
			memcpy(values + i * size, &of->bits[rank - FIRST], size);
		h = rig_contribution(1, generation, rank, block, 37);
		h.dtype = (uint8_t)of->dtype;
		h.op = (uint8_t)of->op;
		offer_payload(&h, values, 37 * size);
	}
	take_up(block, WEIR_COLLECTIVE_ALLREDUCE, WEIR_STATUS_OK);
	cr_assert_eq(payload_bytes, 37 * of->bytes, "%s of %s: %u bytes", weir_op_text(of->op),
		weir_dtype_text(of->dtype), payload_bytes);
	for (unsigned int i = 0; i < 37; i++)
		cr_assert(memcmp(payload + i * of->bytes, &of->sum, of->bytes) == 0,
			"%s of %s, element %u", weir_op_text(of->op), weir_dtype_text(of->dtype),
			i);
	h.job_id = rig.job[0].parent[0].job;
	h.src_id = FIRST;
	h.src_cnt = RANKS;
	say(0, &h, values, 37 * size);
	expect_payload(block, WEIR_STATUS_OK, values, 37 * size);
}

/* Sums of narrow types go up unrounded, and averages undivided. */
BOTH(narrow_types)
{
	const struct narrow all[] = {
		{WEIR_DTYPE_FP16, WEIR_OP_SUM, FP16, SIX, 4},
		{WEIR_DTYPE_FP16, WEIR_OP_AVG, FP16, SIX, 4},
		{WEIR_DTYPE_BF16, WEIR_OP_PROD, BF16, SIX, 4},
		{WEIR_DTYPE_FP16, WEIR_OP_MAX, FP16, fp16_3, 2},
		{WEIR_DTYPE_BF16, WEIR_OP_MIN, BF16, bf16_1, 2},
		{WEIR_DTYPE_INT8, WEIR_OP_AVG, INTS, 6, 4},
		{WEIR_DTYPE_INT8, WEIR_OP_PROD, INTS, 6, 1},
		{WEIR_DTYPE_INT16, WEIR_OP_SUM, INTS, 6, 2},
		{WEIR_DTYPE_INT16, WEIR_OP_AVG, INTS, 6, 4},
		{WEIR_DTYPE_INT32, WEIR_OP_AVG, INTS, 6, 4},
		{WEIR_DTYPE_FP32, WEIR_OP_AVG, FP32, SIX, 4},
	};

	start_leaf(.parents = 1, .sources = OWN);
	for (uint32_t i = 0; i < RTE_DIM(all); i++)
		run_narrow(&all[i], i);
	stop();
}

BOTH(narrow_job)
{
	const struct narrow all[] = {
		{WEIR_DTYPE_FP16, WEIR_OP_SUM, FP16, 0x4600, 2},
		{WEIR_DTYPE_BF16, WEIR_OP_PROD, BF16, 0x40c0, 2},
		{WEIR_DTYPE_FP16, WEIR_OP_MAX, FP16, fp16_3, 2},
		{WEIR_DTYPE_FP32, WEIR_OP_SUM, FP32, SIX, 4},
	};

	start_leaf(.parents = 1, .sources = OWN, .narrow = true);
	for (uint32_t i = 0; i < RTE_DIM(all); i++)
		run_narrow(&all[i], i);
	stop();
}
