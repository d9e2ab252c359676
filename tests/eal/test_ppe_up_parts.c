/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a block goes up and comes down: to which parent, in which order, each collective's parts, and narrow types. */
#include "tests/eal/leaf_rig.h"

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
		struct weir_header h = header_to_parent(block, WEIR_STATUS_OK);
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
		rig_rest(&rig);
		if (times == 1)
			rig_pass_us(1200 * TIMEOUT);
		if (times == 2)
			offer(FIRST, &h, values, sizeof(values));
		if (times != 0) {
			expect_above(block, WEIR_COLLECTIVE_ALLREDUCE,
				times == 1 ? WEIR_STATUS_PARTIAL : WEIR_STATUS_OK);
			memcpy(&sum, payload + 4, 4);
			cr_assert_eq(sum, times == 1 ? 6 : 12);
		}
		expect_silence();
		h = header_to_parent(block, WEIR_STATUS_OK);
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
	case WEIR_COLLECTIVE_PROBE:
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

	if (block_to_all(plan, 0))
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
		rig_pass_us(1200 * TIMEOUT);
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
