/* SPDX-License-Identifier: BSD-3-Clause */
/* A parent's blocks that lack ranks or fail, which packets of its children it drops, and which it holds back. */
#include "tests/eal/bench_tree.h"
#include "tests/model/tags.h"

#define WINDOW     2
#define JOB_HOST   2 /* of hosts: sources 0 to 2 */
#define ELEMENTS   101
#define TIMEOUT    10 /* ms */

#define BOTH(name) ONE_WORKER_AND_TWO(ppe_children, name)

/* Children 0, 3 and 4. */
#define start_parent(...)                                                                          \
	start(.workers = workers, .children = {3, 1, 4}, .window = WINDOW, .elements = ELEMENTS,   \
		.timeout_ms = TIMEOUT, .generation = 7, __VA_ARGS__)

/* Each shard learns where the children are. */
static void
run_first_blocks(void)
{
	for (uint32_t block = 0; block < WINDOW; block++)
		run_block(block);
}

/* ---- degraded blocks ---- */

/* A child that repeats an overdue contribution learns which ranks are in the block. */
BOTH(waiting)
{
	start_parent();
	contribute_without(4, 0, 0x20);
	contribute_without(4, 0, 0x20);
	expect_silence();
	rig_pass_us(1200 * TIMEOUT);
	contribute_without(4, 0, 0x20);
	expect(4, 0, WEIR_STATUS_WAITING, 0xd0);
	contribute(0, 0);
	contribute(3, 0);
	expect_all(0, WEIR_STATUS_PARTIAL, 0xdf);
	cr_assert_eq(job_stats(1).duplicates, 2);
	contribute_without(4, 0, 0x20); /* it is over: this child alone is answered */
	expect(4, 0, WEIR_STATUS_PARTIAL, 0xdf);
	expect_silence();
	cr_assert_eq(job_stats(1).asked_again, 1);
	stop();
}

/* An error below fails the block at once, whichever contribution it is; later ones are told. */
BOTH(an_error_below)
{
	uint32_t block = WINDOW;

	start_parent();
	run_first_blocks();
	/* The last but one, after a partial one. */
	contribute_without(4, block, 0x40);
	contribute_failure(0, block, WEIR_STATUS_ERROR, 0x5, NULL);
	expect_all(block, WEIR_STATUS_ERROR, 0xb5);
	contribute(3, block);
	expect(3, block, WEIR_STATUS_ERROR, 0xb5);
	/* A repetition. */
	contribute_failure(0, block, WEIR_STATUS_ERROR, 0x5, NULL);
	expect(0, block, WEIR_STATUS_ERROR, 0xb5);
	/* The first one. */
	block++;
	contribute_failure(3, block, WEIR_STATUS_ERROR, 0x8, NULL);
	expect_all(block, WEIR_STATUS_ERROR, 0x8);
	contribute(0, block);
	expect(0, block, WEIR_STATUS_ERROR, 0x8);
	contribute(4, block);
	expect(4, block, WEIR_STATUS_ERROR, 0x8);
	expect_silence();
	cr_assert_eq(job_stats(1).blocks_error, 2);
	/* The next ones are not harmed. */
	block++;
	contribute(3, block);
	contribute(0, block);
	contribute(4, block);
	expect_all(block, WEIR_STATUS_OK, 0);
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

	start_parent();
	run_first_blocks();
	for (uint32_t block = WINDOW; block < 2 * WINDOW; block++) {
		if (block == WINDOW)
			contribute(0, block);
		contribute_failure(4, block, WEIR_STATUS_MISMATCH, 0xf0, &mismatch);
		expect_payload(block, WEIR_STATUS_MISMATCH, &mismatch, sizeof(mismatch));
		contribute(3, block);
		expect(3, block, WEIR_STATUS_MISMATCH, 0);
		expect_silence();
	}
	cr_assert_eq(job_stats(1).blocks_mismatch, 2);
	stop();
}

/* Children that disagree: their first ranks are named. */
BOTH(a_mismatch_between_children)
{
	const struct weir_mismatch mismatch = {.field = WEIR_FIELD_OP,
		.source = 3,
		.block = {0, WEIR_OP_SUM},
		.other = 4,
		.offered = {0, WEIR_OP_MAX}};
	uint8_t bytes[4 * ELEMENTS + WEIR_BITMAP_BYTES] = {0};
	struct weir_header h;

	start_parent();
	run_first_blocks();
	contribute(3, WINDOW);
	rig_rest(&rig);
	h = partial_contribution(4, WINDOW, 0x20); /* a partial one, too */
	h.op = WEIR_OP_MAX;
	offer_payload(&h, bytes, put_bitmap(bytes, 4 * ELEMENTS, 0xd0));
	expect_payload(WINDOW, WEIR_STATUS_MISMATCH, &mismatch, sizeof(mismatch));
	expect_silence();
	expect_drop(PPE_DROP_MISMATCH, 1);
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
#define LENGTH  PPE_DROP_LENGTH
#define NO_PART PPE_DROP_NOT_A_CONTRIBUTION
	/* Of child 4, which has the ranks 0xf0. */
	static const struct wrong wrong[] = {
		{"complete, one too few", LENGTH, WEIR_STATUS_OK, -1, 0, 3, 0, 9},
		{"complete, one too many", LENGTH, WEIR_STATUS_OK, -1, 0, 5, 0, 9},
		{"complete, as a host", LENGTH, WEIR_STATUS_OK, -1, 0, 0, 0, 9},
		{"complete, longer", LENGTH, WEIR_STATUS_OK, -1, 0, 4, 4, 9},
		{"complete, with a bitmap", LENGTH, WEIR_STATUS_OK, -1, 0, 4, 32, 9},
		{"complete, degraded", NO_PART, WEIR_STATUS_OK, 1, 0xf0, 4, 0, 9},
		{"partial, not degraded", NO_PART, WEIR_STATUS_PARTIAL, 0, 0x70, 3, 0, 9},
		{"of another's rank", LENGTH, WEIR_STATUS_PARTIAL, -1, 0x38, 3, 0, 9},
		{"of others' ranks alone", LENGTH, WEIR_STATUS_PARTIAL, -1, 0x0f, 4, 0, 9},
		{"more ranks than counted", LENGTH, WEIR_STATUS_PARTIAL, -1, 0x70, 2, 0, 9},
		{"fewer ranks than counted", LENGTH, WEIR_STATUS_PARTIAL, -1, 0x30, 3, 0, 9},
		{"no rank", LENGTH, WEIR_STATUS_PARTIAL, -1, 0, 0, 0, 9},
		{"no bitmap", LENGTH, WEIR_STATUS_PARTIAL, -1, 0x30, 2, -32, 9},
		{"half a bitmap", LENGTH, WEIR_STATUS_PARTIAL, -1, 0x30, 2, -16, 1},
		{"error with elements", LENGTH, WEIR_STATUS_ERROR, -1, 0x30, 2, 0, 9},
		{"error of another's rank", LENGTH, WEIR_STATUS_ERROR, -1, 0x38, 3, 0, 0},
		{"error, longer", LENGTH, WEIR_STATUS_ERROR, -1, 0x30, 2, 1, 0},
		{"error without a bitmap", LENGTH, WEIR_STATUS_ERROR, -1, 0x30, 2, -32, 0},
		{"error, not degraded", NO_PART, WEIR_STATUS_ERROR, 0, 0x30, 2, 0, 0},
		{"mismatch, shorter", LENGTH, WEIR_STATUS_MISMATCH, -1, 0, 4, -1, 0},
		{"mismatch, longer", LENGTH, WEIR_STATUS_MISMATCH, -1, 0, 4, 1, 0},
		{"mismatch, degraded", NO_PART, WEIR_STATUS_MISMATCH, 1, 0x30, 2, 0, 0},
		{"mismatch with elements", LENGTH, WEIR_STATUS_MISMATCH, -1, 0, 4, 0, 9},
		{"waiting", NO_PART, WEIR_STATUS_WAITING, 1, 0x30, 2, 0, 0},
		{"stale", NO_PART, WEIR_STATUS_STALE, 0, 0, 0, 0, 0},
	};
	uint32_t block = 0;

	start_parent();
	for (unsigned int i = 0; i < RTE_DIM(wrong); i++) {
		const struct wrong *w = &wrong[i];
		struct weir_header h = contribution(4, block);
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
		offer_payload(&h, bytes, n + (unsigned int)w->bytes);
		expect_silence();
		cr_assert_eq(drops(w->drop), before + 1, "%s", w->what);
		/* From an endpoint that is known, too. */
		if (i == RTE_DIM(wrong) / 2)
			run_block(block++);
	}
	cr_assert_eq(job_stats(1).blocks_opened, 1);
	cr_assert_eq(job_stats(1).contributions, 3);
	/* All of it again is no hindrance. */
	run_block(block);
	stop();
}

static void
with_job_of_hosts(struct rig_config *config)
{
	config->jobs = 2;
	config->job[1] = rig_job(JOB_HOST, 3, WINDOW, ELEMENTS);
	config->job[1].fixed_generation = config->job[0].fixed_generation;
}

/* Who is a switch and who is a host, the configuration says. */
BOTH(the_flag)
{
	static const enum weir_collective collectives[] = {
		WEIR_COLLECTIVE_ALLREDUCE, WEIR_COLLECTIVE_BARRIER, WEIR_COLLECTIVE_ACKNOWLEDGE};
	struct weir_header h;
	unsigned int wrong = 0;

	start_parent(.change = with_job_of_hosts);
	for (uint32_t block = 0; block < 2; block++) {
		for (unsigned int i = 0; i < RTE_DIM(collectives); i++)
			for (unsigned int job = 1; job <= JOB_HOST; job++) {
				h = rig_contribution(
					(uint8_t)job, generation, 0, block, i == 0 ? ELEMENTS : 0);
				h.collective = (uint8_t)collectives[i];
				h.dtype = i == 0 ? WEIR_DTYPE_INT32 : 0;
				h.flags = job == 1 ? 0 : WEIR_FLAG_UP;
				offer(&h);
				expect_silence();
				expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, ++wrong);
			}
		/* The base form has no flags. */
		h = rig_contribution(1, generation, 0, block, ELEMENTS);
		h.extended = false;
		offer(&h);
		expect_silence();
		expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, ++wrong);
		run_block(block); /* and once more, with endpoints */
	}
	cr_assert_eq(job_stats(1).contributions, 2 * 3);
	stop();
}

static void
with_crc(struct rig_config *config)
{
	config->job[0].integrity = PPE_INTEGRITY_CRC32C;
}

/* A host's packet to a job of switches is a wrong configuration, and no damage: it has no CRC. */
BOTH(a_hosts_packet_does_not_count_as_damaged)
{
	struct weir_header h;

	start_parent(.change = with_crc);
	h = rig_contribution(1, generation, 0, 0, 0);
	offer(&h);
	expect_silence();
	expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, 1);
	expect_drop(PPE_DROP_CRC, 0);
	stop();
}

/* ---- what is as with hosts ---- */

/* A child acknowledges without its ranks. What it says releases the block before. */
BOTH(acknowledgements)
{
	struct weir_header h;
	uint32_t block;

	start_parent(.policy = PPE_POLICY_PARTIAL);
	run_block(0);
	/* A child contributes no more, but it acknowledges. */
	for (block = WINDOW; block < 6 * WINDOW; block += WINDOW) {
		contribute(3, block);
		contribute(4, block);
		rig_pass_us(1200 * TIMEOUT);
		expect_all(block, WEIR_STATUS_PARTIAL, 0xf8);
		acknowledge(0, block + WINDOW);
		rig_rest(&rig);
	}
	cr_assert_eq(job_stats(1).acknowledged, 5);
	cr_assert_eq(job_stats(1).held_back, 0);
	/* And it asks. */
	contribute(3, block);
	rig_rest(&rig);
	probe(0, block);
	expect(0, block, WEIR_STATUS_WAITING, 0x8);
	h = note(0, block, WEIR_COLLECTIVE_PROBE);
	h.src_cnt = 3;
	offer(&h);
	expect_silence();
	expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, 1);
	stop();
}

/* Nobody has said that child 0 has the result of the first block: partial ones are held back, and answered, too. */
BOTH(held_back)
{
	start_parent(.policy = PPE_POLICY_PARTIAL);
	run_block(0);
	contribute(3, WINDOW);
	contribute(4, WINDOW);
	rig_pass_us(1200 * TIMEOUT);
	expect_all(WINDOW, WEIR_STATUS_PARTIAL, 0xf8);
	contribute_without(4, 2 * WINDOW, 0x20);
	expect(4, 2 * WINDOW, WEIR_STATUS_WAITING, 0xf8);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	/* Further ahead is outside of the window. */
	contribute_without(4, 3 * WINDOW, 0x20);
	expect(4, 3 * WINDOW, WEIR_STATUS_WINDOW, 0);
	/* The first one is kept. */
	contribute_without(4, 0, 0x20);
	expect(4, 0, WEIR_STATUS_OK, 0);
	stop();
}

static void
with_tags(struct rig_config *config)
{
	config->job[0].authenticated = true;
}

/* An answer is tied to the tag of what it answers, which lies behind the bitmap. */
BOTH(an_answer_to_a_degraded_one)
{
	static const uint8_t challenge[WEIR_CHALLENGE_BYTES];
	uint8_t source[WEIR_KEY_BYTES], key[WEIR_KEY_BYTES], header[WEIR_EXT_BYTES];
	uint8_t bytes[RIG_FRAME_MAX] = {0}, tag[WEIR_TAG_BYTES];
	struct weir_header h;
	unsigned int n;

	start_parent(.change = with_tags);
	h = partial_contribution(0, 0, 1);
	h.flags |= WEIR_FLAG_AUTHENTICATED;
	h.op = 15; /* not served */
	n = put_bitmap(bytes, 4 * ELEMENTS, 6);
	tags_source_key(rig.job[0].key, 0, 0, source);
	tags_contributions_key(source, challenge, generation, key);
	weir_header_write(&h, header);
	tags_gmac(key, 0, 0, header, bytes, n, bytes + n);
	offer_payload(&h, bytes, n + WEIR_TAG_BYTES);
	expect_status(0, WEIR_STATUS_UNSUPPORTED);
	cr_assert_eq(payload_bytes, WEIR_TAG_BYTES);
	tags_hmac(source, WEIR_LABEL_REPLY, bytes + n, WEIR_TAG_BYTES, frame + L4, WEIR_EXT_BYTES,
		tag);
	cr_assert_arr_eq(payload, tag, sizeof(tag));
	stop();
}
