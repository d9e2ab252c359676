/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs with integrity: what has a wrong CRC is as if it was lost, and what the switch sends has a right one. */
#include "tests/eal/bench.h"
#include "tests/eal/blocks.h"
#include "tests/model/tags.h"

#define SOURCES  3
#define WINDOW   4
#define ELEMENTS 1024
#define NONCE    UINT32_C(0xc0ffee00)
#define HEADERS  (14 + 20 + 8)

/* What happened to a packet on its way. */
enum damage { NONE, HEADER, PAYLOAD, CRC, NO_CRC, CUT_OFF, DAMAGES };

static const uint8_t ids[SOURCES] = {0, 1, 2};
static uint8_t data[BLOCK_BYTES_MAX];
static struct block_plan plan = {.job = 1, .n = SOURCES, .ids = ids, .dtype = WEIR_DTYPE_INT32};

static uint32_t
crc_at(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
offer_damaged(struct weir_header h, unsigned int bytes, enum damage damage)
{
	unsigned int header = weir_header_bytes(h.extended), n;
	uint8_t sent[WEIR_EXT_BYTES];
	uint32_t crc;

	h.flags |= h.extended ? WEIR_FLAG_CRC : 0;
	weir_header_write(&h, sent);
	crc = tags_crc32c(tags_crc32c(0, sent, header), data, bytes);
	for (unsigned int i = 0; i < 4; i++)
		data[bytes + i] = (uint8_t)(crc >> 8 * i);
	bytes += damage == NO_CRC ? 0 : damage == CUT_OFF ? 2 : 4;
	n = rig_frame(frame, h.src_id, &h, data, bytes);
	frame[HEADERS + 5] ^= damage == HEADER ? WEIR_FINAL : 0;
	frame[HEADERS + header] ^= damage == PAYLOAD ? 0x10 : 0;
	frame[n - 1] ^= damage == CRC ? 0x80 : 0;
	rig_fix_checksums(frame);
	rig_send(&rig, h.src_id, frame, n);
}

static void
contribute_damaged(unsigned int s, enum damage damage)
{
	offer_damaged(block_header(&plan, s), block_contribution(&plan, s, data), damage);
}

static void
note_damaged(unsigned int s, enum weir_collective collective, enum damage damage)
{
	struct weir_header h = block_header(&plan, s);

	h.collective = (uint8_t)collective;
	h.dtype = 0;
	h.grad_cnt = 0;
	offer_damaged(h, 0, damage);
}

/* The next packet to a source has this status, and a right CRC behind so many bytes. */
static void
expect_crc(unsigned int s, enum weir_status status, unsigned int bytes)
{
	uint8_t covered[WEIR_EXT_BYTES];
	struct weir_header c;

	cr_assert(receive(s), "source %u gets nothing of block %u", s, plan.block);
	cr_assert_eq(got.status, status, "%s", weir_status_text(got.status));
	cr_assert_eq(payload_bytes, bytes + 4, "%u bytes, not %u and a CRC", payload_bytes, bytes);
	c = got;
	if (!c.extended) {
		c.extended = true;
		c.flags = WEIR_FLAG_CRC;
		c.dtype = WEIR_DTYPE_INT32;
	}
	cr_assert(c.collective == WEIR_COLLECTIVE_JOIN || c.flags == WEIR_FLAG_CRC);
	if (c.collective == WEIR_COLLECTIVE_ALLREDUCE && status <= WEIR_STATUS_PARTIAL)
		c.src_id = 0;
	if (c.grad_cnt == 0)
		c.dtype = 0;
	weir_header_write(&c, covered);
	cr_assert_eq(crc_at(payload + bytes),
		tags_crc32c(tags_crc32c(0, covered, sizeof(covered)), payload, bytes),
		"block %u, source %u: a wrong CRC", plan.block, s);
}

static void
expect_result(unsigned int s, enum weir_status status, const uint8_t *bitmap)
{
	unsigned int bytes = block_result(&plan, s, data);

	expect_crc(s, status, bytes + (bitmap != NULL ? WEIR_BITMAP_BYTES : 0));
	cr_assert(got.block_id == plan.block && got.grad_cnt == plan.elements);
	cr_assert_arr_eq(payload, data, bytes, "block %u, source %u", plan.block, s);
	if (bitmap != NULL)
		cr_assert_arr_eq(payload + bytes, bitmap, WEIR_BITMAP_BYTES);
}

static void
expect_results(void)
{
	for (unsigned int s = 0; s < SOURCES; s++)
		expect_result(s, WEIR_STATUS_OK, NULL);
}

static void
with_crcs(struct rig_config *config)
{
	config->job[0].integrity = PPE_INTEGRITY_CRC32C;
}

/* A switch whose job all sources have joined with these flags. */
static void
start_with(enum ppe_policy policy, uint8_t flags)
{
	start(.sources = SOURCES, .window = WINDOW, .elements = ELEMENTS, .policy = policy,
		.timeout_ms = policy == PPE_POLICY_WAIT ? 60000 : 20, .late = true,
		.change = with_crcs);
	for (unsigned int s = 0; s < SOURCES; s++) {
		struct weir_header h = note(s, NONCE + s, WEIR_COLLECTIVE_JOIN);

		h.flags = flags;
		offer(&h);
		if (s + 1 < SOURCES) /* not complete yet: without a CRC */
			expect_joining(s, NONCE + s, (uint8_t)((2u << s) - 1));
	}
	for (unsigned int s = 0; s < SOURCES; s++) {
		expect_crc(s, WEIR_STATUS_OK, sizeof(struct weir_join_reply));
		cr_assert_eq(payload[2] & 0xf0, 0x80, "options %#x", payload[2]);
	}
	plan.generation = got.gen_id;
	plan.elements = 16;
}

Test(ppe_crc, allreduce, .timeout = 90)
{
	static const unsigned int elements[] = {1, 2, 7, 16, 63, 64, 65, 256, 1000, ELEMENTS};

	start_with(PPE_POLICY_WAIT, 0);
	for (; plan.block < 20; plan.block++) {
		plan.elements = elements[plan.block % RTE_DIM(elements)];
		plan.final = plan.block % 3 == 0;
		plan.seed = plan.block;
		rig.seed = plan.block < 10 ? 0 : plan.block; /* over segments */
		for (unsigned int s = 0; s < SOURCES; s++)
			contribute_damaged((s + plan.block) % SOURCES, NONE);
		expect_results();
		contribute_damaged(plan.block % SOURCES, NONE); /* whose result was lost */
		expect_result(plan.block % SOURCES, WEIR_STATUS_OK, NULL);
	}
	expect_drop(PPE_DROP_CRC, 0);
	stop();
}

/* Each gets another result, and all have a column without the slice that is its own. */
Test(ppe_crc, alltoall_without_own_slices, .timeout = 90)
{
	start_with(PPE_POLICY_WAIT, WEIR_FLAG_SKIPS_OWN);
	plan.collective = WEIR_COLLECTIVE_ALLTOALL;
	plan.skips_own = 7;
	for (; plan.block < 12; plan.block++) {
		plan.elements = plan.block * 27 + 1;
		for (unsigned int s = 0; s < SOURCES; s++)
			contribute_damaged(s, NONE);
		expect_results();
	}
	expect_drop(PPE_DROP_CRC, 0);
	stop();
}

Test(ppe_crc, base_form, .timeout = 90)
{
	struct weir_header h;

	start_with(PPE_POLICY_WAIT, WEIR_FLAG_BASE_RESULTS);
	for (; plan.block < 6; plan.block++) {
		for (unsigned int s = 0; s < SOURCES; s++) {
			h = block_header(&plan, s);
			h.extended = false;
			offer_damaged(h, block_contribution(&plan, s, data), CRC);
			offer_damaged(h, block_contribution(&plan, s, data), NONE);
		}
		expect_results();
	}
	expect_drop(PPE_DROP_CRC, 6 * SOURCES);
	stop();
}

/* Alone, and in one burst with others of its block: as the first, which opens it, and as the last. */
Test(ppe_crc, damaged_contributions_are_dropped, .timeout = 90)
{
	uint64_t dropped = 0;

	start_with(PPE_POLICY_WAIT, 0);
	for (unsigned int i = 0; i < 2 * SOURCES * (DAMAGES - 1); i++, plan.block++) {
		const enum damage damage = 1 + i % (DAMAGES - 1);
		const unsigned int which = i / (DAMAGES - 1) % SOURCES;

		if (i % 2 == 0) {
			contribute_damaged(which, damage);
			expect_drop(PPE_DROP_CRC, dropped + 1);
		}
		dropped++;
		for (unsigned int s = 0; s < SOURCES; s++) {
			if (s == which && i % 2 != 0)
				contribute_damaged(s, damage);
			else if (s != which)
				contribute_damaged(s, NONE);
		}
		expect_drop(PPE_DROP_CRC, dropped);
		cr_assert_eq(job_stats(1).blocks_complete, plan.block);
		contribute_damaged(which, NONE);
		expect_results();
	}
	cr_expect_eq(job_stats(1).crc, dropped);
	cr_expect_eq(job_stats(1).duplicates, 0);
	stop();
}

Test(ppe_crc, partial, .timeout = 90)
{
	static const uint8_t two[WEIR_BITMAP_BYTES] = {5};

	start_with(PPE_POLICY_PARTIAL, 0);
	plan.absent = 2;
	contribute_damaged(0, NONE);
	contribute_damaged(2, NONE);
	contribute_damaged(1, PAYLOAD); /* is not in it */
	for (unsigned int s = 0; s < SOURCES; s++)
		expect_result(s, WEIR_STATUS_PARTIAL, two);
	expect_drop(PPE_DROP_CRC, 1);
	/* An acknowledgement for the next of the residue: source 1 has this result. */
	plan.block += 2 * WINDOW;
	for (enum damage damage = HEADER; damage < DAMAGES; damage++)
		if (damage != PAYLOAD)
			note_damaged(1, WEIR_COLLECTIVE_ACKNOWLEDGE, damage);
	expect_drop(PPE_DROP_CRC, 1 + DAMAGES - 2);
	plan.block -= WINDOW;
	note_damaged(1, WEIR_COLLECTIVE_ACKNOWLEDGE, NONE);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 1);
	cr_expect_eq(job_stats(1).acknowledged, 1);
	stop();
}

Test(ppe_crc, probes, .timeout = 90)
{
	static const uint8_t one[WEIR_BITMAP_BYTES] = {1};

	start_with(PPE_POLICY_WAIT, 0);
	contribute_damaged(0, NONE);
	for (enum damage damage = HEADER; damage < DAMAGES; damage++)
		if (damage != PAYLOAD)
			note_damaged(1, WEIR_COLLECTIVE_PROBE, damage);
	expect_drop(PPE_DROP_CRC, DAMAGES - 2);
	expect_silence();
	cr_expect_eq(job_stats(1).probes, 0);
	note_damaged(1, WEIR_COLLECTIVE_PROBE, NONE);
	expect_crc(1, WEIR_STATUS_WAITING, sizeof(one));
	cr_assert_arr_eq(payload, one, sizeof(one));
	cr_expect_eq(got.collective, WEIR_COLLECTIVE_PROBE);
	cr_expect_eq(got.src_id, 1);
	contribute_damaged(1, NONE);
	contribute_damaged(2, NONE);
	expect_results();
	stop();
}
