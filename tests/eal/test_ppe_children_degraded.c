/* SPDX-License-Identifier: BSD-3-Clause */
/* A parent's blocks that lack ranks or fail, which packets of its children it drops, and which it holds back. */
#include "tests/eal/parent_rig.h"
#include "tests/model/tags.h"

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
	rig_pass_us(1200 * TIMEOUT);
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
	rig_pass_us(1200 * TIMEOUT);
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
	rig_rest(&rig);
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

/* A host's packet to a job of switches is a wrong configuration, and no damage: it has no CRC. */
BOTH(a_hosts_packet_does_not_count_as_damaged)
{
	struct ppe_job job = parent_job();
	const struct weir_header h = rig_contribution(JOB, GEN, 0, 0, 0);

	job.integrity = PPE_INTEGRITY_CRC32C;
	start_job(workers, &job);
	offer(0, &h, NULL, 0);
	expect_silence();
	cr_assert_eq(drops(PPE_DROP_NOT_A_CONTRIBUTION), 1);
	cr_assert_eq(drops(PPE_DROP_CRC), 0);
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
		rig_pass_us(1200 * TIMEOUT);
		plan.absent = 7;
		expect_results(&plan);
		h.block_id = plan.block + WINDOW;
		offer(0, &h, NULL, 0);
		rig_rest(&rig);
	}
	cr_assert_eq(stats().acknowledged, 5);
	cr_assert_eq(stats().held_back, 0);
	/* And it asks. */
	contribute(&plan, 1);
	rig_rest(&rig);
	h.collective = WEIR_COLLECTIVE_PROBE;
	offer(0, &h, NULL, 0);
	cr_assert(receive(0));
	cr_assert_eq(got.status, WEIR_STATUS_WAITING);
	cr_assert_eq(payload_bytes, WEIR_BITMAP_BYTES);
	cr_assert_eq(payload[0], ranks_mask(1));
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
	rig_pass_us(1200 * TIMEOUT);
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

/* An answer is tied to the tag of what it answers, which lies behind the bitmap. */
BOTH(an_answer_to_a_degraded_one)
{
	static const uint8_t challenge[WEIR_CHALLENGE_BYTES];
	struct block_plan plan = plan_of(WEIR_COLLECTIVE_ALLREDUCE, 0);
	struct ppe_job job = parent_job();
	uint8_t source[WEIR_KEY_BYTES], key[WEIR_KEY_BYTES], header[WEIR_EXT_BYTES];
	uint8_t bytes[BLOCK_BYTES_MAX], tag[WEIR_TAG_BYTES];
	struct weir_header h;
	unsigned int n;

	job.authenticated = true;
	start_job(workers, &job);
	h = header_of(&plan, 0, ranks_mask(0) & ~1u);
	h.flags |= WEIR_FLAG_AUTHENTICATED;
	h.op = 15; /* not served */
	n = put_bitmap(bytes, collected(&plan, 0, bytes), ranks_mask(0) & ~1u);
	tags_source_key(job.key, first_of[0], 0, source);
	tags_contributions_key(source, challenge, GEN, key);
	weir_header_write(&h, header);
	tags_gmac(key, 0, 0, header, bytes, n, bytes + n);
	offer(0, &h, bytes, n + WEIR_TAG_BYTES);
	cr_assert(receive(0));
	cr_assert_eq(got.status, WEIR_STATUS_UNSUPPORTED, "%s", weir_status_text(got.status));
	cr_assert_eq(payload_bytes, WEIR_TAG_BYTES);
	tags_hmac(source, WEIR_LABEL_REPLY, bytes + n, WEIR_TAG_BYTES, frame + L4, WEIR_EXT_BYTES,
		tag);
	cr_assert_arr_eq(payload, tag, sizeof(tag));
	stop();
}
