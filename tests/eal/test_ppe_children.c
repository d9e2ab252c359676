/* SPDX-License-Identifier: BSD-3-Clause */
/* What a parent makes of its children's contributions, and the parts that each gets (docs/tree.md, "What each collective sends"). */
#include <inttypes.h>

#include "ppe/ppe_priv.h"
#include "tests/eal/parent_rig.h"
#include "tests/model/reduction_model.h"

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
			rig_rest(&rig);
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
	rig_turn_after_us(&rig, 1001);
	contribute(&plan, 2);
	expect_above(1, WEIR_STATUS_ERROR, 0x8);
	rig_turn_after_us(&rig, 1001);
	contribute_failure(1, 1, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_above(1, WEIR_STATUS_ERROR, 0x8);
	expect_silence();
	stop();
}

/* A switch between answers when its own timeout has passed, or its children would take it for dead. */
BOTH(overdue_in_the_middle)
{
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);

	start_middle(workers);
	for (unsigned int child = 0; child < CHILDREN; child++)
		contribute(&plan, child);
	expect_above(0, WEIR_STATUS_OK, ALL);
	rig_turn_after_us(&rig, 1000 * rig.job[0].timeout_ms / 2);
	contribute(&plan, 1);
	expect_above(0, WEIR_STATUS_OK, ALL);
	expect_silence();
	rig_turn_after_us(&rig, 1000 * rig.job[0].timeout_ms);
	contribute(&plan, 1);
	expect_above(0, WEIR_STATUS_OK, ALL);
	expect(1, 0, WEIR_STATUS_WAITING);
	expect_ranks(0, ALL);
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
