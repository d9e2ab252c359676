/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs with integrity: what has a wrong CRC is as if it was lost, and what the switch sends has a right one. */
#include <string.h>

#include <criterion/criterion.h>

#include "tests/eal/blocks.h"
#include "tests/eal/one_rig.h"
#include "tests/model/tags.h"

#define SOURCES  3
#define WINDOW   4
#define ELEMENTS 1024
#define NONCE    UINT32_C(0xc0ffee00)
#define HEADERS  (14 + 20 + 8)

/* What happened to a packet on its way. */
enum damage { NONE, HEADER, PAYLOAD, CRC, NO_CRC, CUT_OFF, DAMAGES };

static const uint8_t ids[SOURCES] = {0, 1, 2};
static uint8_t frame[RIG_FRAME_MAX], data[BLOCK_BYTES_MAX];
static struct block_plan plan = {.job = 1, .n = SOURCES, .ids = ids, .dtype = WEIR_DTYPE_INT32};

static uint32_t
crc_at(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
offer(struct weir_header h, unsigned int bytes, enum damage damage)
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
	offer(block_header(&plan, s), block_contribution(&plan, s, data), damage);
}

static void
contribute(unsigned int s)
{
	contribute_damaged(s, NONE);
}

static void
note(unsigned int s, enum weir_collective collective, enum damage damage)
{
	struct weir_header h = block_header(&plan, s);

	h.collective = (uint8_t)collective;
	h.dtype = 0;
	h.grad_cnt = 0;
	offer(h, 0, damage);
}

/* The next packet to a source has this status, and a right CRC behind `bytes`, which it returns. */
static const uint8_t *
receive(unsigned int s, struct weir_header *h, enum weir_status status, unsigned int bytes)
{
	unsigned int n = rig_receive(&rig, s, frame, 5000), there;
	uint8_t covered[WEIR_EXT_BYTES];
	const uint8_t *payload;
	struct weir_header c;

	cr_assert_gt(n, 0, "source %u gets nothing of block %u", s, plan.block);
	cr_assert(rig_parse(frame, n, h, &payload, &there) && rig_checksums_hold(frame));
	cr_assert_eq(h->status, status, "%s", weir_status_text(h->status));
	cr_assert_eq(there, bytes + 4, "%u bytes, not %u and a CRC", there, bytes);
	c = *h;
	if (!h->extended) {
		c.extended = true;
		c.flags = WEIR_FLAG_CRC;
		c.dtype = WEIR_DTYPE_INT32;
	}
	cr_assert(h->collective == WEIR_COLLECTIVE_JOIN || c.flags == WEIR_FLAG_CRC);
	if (h->collective == WEIR_COLLECTIVE_ALLREDUCE && status <= WEIR_STATUS_PARTIAL)
		c.src_id = 0;
	if (h->grad_cnt == 0)
		c.dtype = 0;
	weir_header_write(&c, covered);
	cr_assert_eq(crc_at(payload + bytes),
		tags_crc32c(tags_crc32c(0, covered, sizeof(covered)), payload, bytes),
		"block %u, source %u: a wrong CRC", plan.block, s);
	return payload;
}

static void
expect_result(unsigned int s, enum weir_status status, const uint8_t *bitmap)
{
	unsigned int bytes = block_result(&plan, s, data);
	struct weir_header h;
	const uint8_t *payload =
		receive(s, &h, status, bytes + (bitmap != NULL ? WEIR_BITMAP_BYTES : 0));

	cr_assert(h.block_id == plan.block && h.grad_cnt == plan.elements);
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
expect_silence(void)
{
	for (unsigned int s = 0; s < SOURCES; s++)
		cr_assert_eq(rig_receive(&rig, s, frame, 20), 0, "source %u gets something", s);
}

/* A switch whose job all sources have joined with these flags. */
static void
start(enum ppe_policy policy, uint8_t flags)
{
	struct rig_config config = {.workers = 2,
		.threads = 8,
		.ports = SOURCES,
		.jobs = 1,
		.job = {rig_job(1, SOURCES, WINDOW, ELEMENTS)}};
	struct weir_header h;

	config.job[0].integrity = PPE_INTEGRITY_CRC32C;
	config.job[0].policy = (uint8_t)policy;
	config.job[0].timeout_ms = policy == PPE_POLICY_WAIT ? 60000 : 20;
	rig_start(&rig, &config);
	for (uint8_t s = 0; s < SOURCES; s++) {
		h = (struct weir_header){.job_id = 1,
			.block_id = NONCE + s,
			.src_id = s,
			.collective = WEIR_COLLECTIVE_JOIN,
			.flags = flags,
			.extended = true};
		rig_offer(&rig, s, &h, NULL, 0);
		if (s + 1 == SOURCES)
			break;
		/* Not complete yet: without a CRC. */
		cr_assert_gt(rig_receive(&rig, s, frame, 5000), 0);
	}
	for (unsigned int s = 0; s < SOURCES; s++) {
		const uint8_t *reply =
			receive(s, &h, WEIR_STATUS_OK, sizeof(struct weir_join_reply));

		cr_assert_eq(reply[2] & 0xf0, 0x80, "options %#x", reply[2]);
	}
	plan.generation = h.gen_id;
	plan.elements = 16;
}

Test(ppe_crc, allreduce, .timeout = 90)
{
	static const unsigned int elements[] = {1, 2, 7, 16, 63, 64, 65, 256, 1000, ELEMENTS};

	start(PPE_POLICY_WAIT, 0);
	for (; plan.block < 20; plan.block++) {
		plan.elements = elements[plan.block % RTE_DIM(elements)];
		plan.final = plan.block % 3 == 0;
		plan.seed = plan.block;
		rig.seed = plan.block < 10 ? 0 : plan.block; /* over segments */
		for (unsigned int s = 0; s < SOURCES; s++)
			contribute((s + plan.block) % SOURCES);
		expect_results();
		contribute(plan.block % SOURCES); /* whose result was lost */
		expect_result(plan.block % SOURCES, WEIR_STATUS_OK, NULL);
	}
	expect_drop(PPE_DROP_CRC, 0);
	stop();
}

/* Each gets another result, and all have a column without the slice that is its own. */
Test(ppe_crc, alltoall_without_own_slices, .timeout = 90)
{
	start(PPE_POLICY_WAIT, WEIR_FLAG_SKIPS_OWN);
	plan.collective = WEIR_COLLECTIVE_ALLTOALL;
	plan.skips_own = 7;
	for (; plan.block < 12; plan.block++) {
		plan.elements = plan.block * 27 + 1;
		for (unsigned int s = 0; s < SOURCES; s++)
			contribute(s);
		expect_results();
	}
	expect_drop(PPE_DROP_CRC, 0);
	stop();
}

Test(ppe_crc, base_form, .timeout = 90)
{
	struct weir_header h;

	start(PPE_POLICY_WAIT, WEIR_FLAG_BASE_RESULTS);
	for (; plan.block < 6; plan.block++) {
		for (unsigned int s = 0; s < SOURCES; s++) {
			h = block_header(&plan, s);
			h.extended = false;
			offer(h, block_contribution(&plan, s, data), CRC);
			offer(h, block_contribution(&plan, s, data), NONE);
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

	start(PPE_POLICY_WAIT, 0);
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
				contribute(s);
		}
		expect_drop(PPE_DROP_CRC, dropped);
		cr_assert_eq(job_stats(1).blocks_complete, plan.block);
		contribute(which);
		expect_results();
	}
	cr_expect_eq(job_stats(1).crc, dropped);
	cr_expect_eq(job_stats(1).duplicates, 0);
	stop();
}

Test(ppe_crc, partial, .timeout = 90)
{
	static const uint8_t two[WEIR_BITMAP_BYTES] = {5};

	start(PPE_POLICY_PARTIAL, 0);
	plan.absent = 2;
	contribute(0);
	contribute(2);
	contribute_damaged(1, PAYLOAD); /* is not in it */
	for (unsigned int s = 0; s < SOURCES; s++)
		expect_result(s, WEIR_STATUS_PARTIAL, two);
	expect_drop(PPE_DROP_CRC, 1);
	/* An acknowledgement for the next of the residue: source 1 has this result. */
	plan.block += 2 * WINDOW;
	for (enum damage damage = HEADER; damage < DAMAGES; damage++)
		if (damage != PAYLOAD)
			note(1, WEIR_COLLECTIVE_ACKNOWLEDGE, damage);
	expect_drop(PPE_DROP_CRC, 1 + DAMAGES - 2);
	plan.block -= WINDOW;
	note(1, WEIR_COLLECTIVE_ACKNOWLEDGE, NONE);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 1);
	cr_expect_eq(job_stats(1).acknowledged, 1);
	stop();
}

Test(ppe_crc, probes, .timeout = 90)
{
	static const uint8_t one[WEIR_BITMAP_BYTES] = {1};
	struct weir_header h;

	start(PPE_POLICY_WAIT, 0);
	contribute(0);
	for (enum damage damage = HEADER; damage < DAMAGES; damage++)
		if (damage != PAYLOAD)
			note(1, WEIR_COLLECTIVE_PROBE, damage);
	expect_drop(PPE_DROP_CRC, DAMAGES - 2);
	expect_silence();
	cr_expect_eq(job_stats(1).probes, 0);
	note(1, WEIR_COLLECTIVE_PROBE, NONE);
	cr_assert_arr_eq(receive(1, &h, WEIR_STATUS_WAITING, sizeof(one)), one, sizeof(one));
	cr_expect_eq(h.collective, WEIR_COLLECTIVE_PROBE);
	cr_expect_eq(h.src_id, 1);
	contribute(1);
	contribute(2);
	expect_results();
	stop();
}
