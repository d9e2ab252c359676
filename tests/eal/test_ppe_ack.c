/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources that contribute nothing, and acknowledge: the others go on, and nothing else changes. */
#include <string.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/one_rig.h"

#define WINDOW  2
#define SOURCES 3
#define TIMEOUT 300 /* ms, in which both workers have a CPU on a busy machine, too */

static uint8_t frame[RIG_FRAME_MAX];
static uint16_t generation;

static void
start(uint8_t policy, uint32_t timeout_ms)
{
	struct rig_config config = {.workers = 2, .threads = 4, .ports = SOURCES, .jobs = 1};

	config.job[0] = rig_job(1, SOURCES, WINDOW, 16);
	config.job[0].timeout_ms = timeout_ms;
	config.job[0].policy = policy;
	rig_start(&rig, &config);
	generation = rig_join(&rig, 0, false);
}

static void
contribute(unsigned int s, uint32_t block)
{
	const uint32_t values[2] = {1u << s, block};
	const struct weir_header h = rig_contribution(1, generation, s, block, 2);

	rig_offer(&rig, s, &h, values, sizeof(values));
}

static struct weir_header
acknowledgement(unsigned int s, uint32_t block)
{
	return (struct weir_header){.job_id = 1,
		.block_id = block,
		.src_id = (uint8_t)s,
		.gen_id = generation,
		.collective = WEIR_COLLECTIVE_ACKNOWLEDGE,
		.extended = true};
}

static void
offer(unsigned int s, struct weir_header h, unsigned int bytes)
{
	static const uint8_t payload[16];

	rig_send(&rig, s, frame, rig_frame(frame, s, &h, payload, bytes));
}

static void
acknowledge(unsigned int s, uint32_t block)
{
	offer(s, acknowledgement(s, block), 0);
}

/* The next packet to a source is this. */
static void
expect(unsigned int s, uint32_t block, enum weir_status status, uint32_t sum)
{
	struct weir_header h;
	const uint8_t *payload;
	unsigned int n = rig_receive(&rig, s, frame, 1000), bytes;
	uint32_t got = 0;

	cr_assert_gt(n, 0, "source %u gets nothing of block %u", s, block);
	cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
	cr_assert_eq(h.block_id, block);
	cr_assert_eq(h.status, status, "%s", weir_status_text(h.status));
	if (bytes >= 4)
		memcpy(&got, payload, 4);
	cr_assert_eq(got, sum, "block %u: %u, not %u", block, got, sum);
}

static void
expect_silence(void)
{
	for (unsigned int s = 0; s < SOURCES; s++)
		cr_assert_eq(rig_receive(&rig, s, frame, 20), 0, "source %u gets something", s);
}

/* Two contribute; all get what they have, after the timeout. */
static void
two(uint32_t block)
{
	contribute(0, block);
	contribute(1, block);
	for (unsigned int s = 0; s < SOURCES; s++)
		expect(s, block, WEIR_STATUS_PARTIAL, 3);
}

/* Acknowledged while they are open, so that nobody is ever held back, or when they are over. */
Test(ppe_ack, acknowledgements_release_blocks, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, TIMEOUT);
	for (uint32_t block = 0; block < 12; block += 2) {
		contribute(0, block);
		contribute(1, block);
		acknowledge(2, block);
		for (unsigned int s = 0; s < SOURCES; s++)
			expect(s, block, WEIR_STATUS_PARTIAL, 3);
	}
	for (uint32_t block = 1; block < 13; block += 2) {
		two(block);
		acknowledge(2, block + WINDOW);
		expect_drop(PPE_DROP_WINDOW, 0); /* and it has been taken */
	}
	cr_expect_eq(job_stats(1).held_back, 0);
	cr_expect_eq(job_stats(1).blocks_partial, 12);
	cr_expect_eq(job_stats(1).acknowledged, 5 + 6); /* before the very first there is nothing */
	/* The third is back: whole sums again. */
	for (unsigned int s = 0; s < SOURCES; s++)
		contribute(s, 12);
	for (unsigned int s = 0; s < SOURCES; s++)
		expect(s, 12, WEIR_STATUS_OK, 7);
	stop();
}

Test(ppe_ack, unacknowledged_blocks_hold_others_back, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, TIMEOUT);
	two(0);
	two(2);
	contribute(0, 4);
	contribute(1, 4);
	expect_drop(PPE_DROP_HELD_BACK, 2);
	acknowledge(2, 4);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 1);
	two(4);
	stop();
}

Test(ppe_ack, acknowledgement_is_no_contribution, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000);
	for (unsigned int s = 0; s < SOURCES; s++)
		acknowledge(s, 0); /* nothing is there yet */
	expect_drop(PPE_DROP_KNOWN, SOURCES);
	cr_expect_eq(job_stats(1).blocks_opened, 0);
	contribute(0, 0);
	contribute(1, 0);
	acknowledge(2, 0); /* does not complete it */
	expect_drop(PPE_DROP_KNOWN, SOURCES + 1);
	cr_expect_eq(job_stats(1).blocks_complete, 0);
	expect_silence();
	contribute(2, 0);
	for (unsigned int s = 0; s < SOURCES; s++)
		expect(s, 0, WEIR_STATUS_OK, 7);
	/* It releases no block that others may ask for, nor the one that it speaks of. */
	acknowledge(2, 2);
	contribute(0, 2);
	contribute(0, 0);
	expect(0, 0, WEIR_STATUS_OK, 7);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 1);
	stop();
}

Test(ppe_ack, acknowledgement_gets_a_lost_result, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, TIMEOUT);
	two(0);
	acknowledge(2, 0); /* the first of its residue */
	expect(2, 0, WEIR_STATUS_PARTIAL, 3);
	two(2);
	acknowledge(2, 0); /* the second is out, too */
	expect(2, 0, WEIR_STATUS_PARTIAL, 3);
	acknowledge(2, 2);
	expect(2, 2, WEIR_STATUS_PARTIAL, 3);
	cr_expect_eq(job_stats(1).asked_again, 3);
	cr_expect_eq(job_stats(1).acknowledged, 1);
	/* Overtaken and repeated: nobody needs an answer. */
	acknowledge(2, 4);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 1);
	acknowledge(2, 0);
	acknowledge(2, 2);
	acknowledge(2, 4);
	expect_drop(PPE_DROP_KNOWN, 3);
	expect_silence();
	two(4);
	acknowledge(2, 0); /* gone */
	expect_drop(PPE_DROP_KNOWN, 4);
	expect_silence();
	stop();
}

Test(ppe_ack, wrong_acknowledgements_are_dropped, .timeout = 90)
{
	struct weir_header h;

	start(PPE_POLICY_PARTIAL, TIMEOUT);
	two(0);
	two(2);
	acknowledge(2, 6); /* of a result that is not out */
	h = acknowledgement(2, 4 + 1000 * WINDOW);
	offer(2, h, 0);
	expect_drop(PPE_DROP_WINDOW, 2);
	h = acknowledgement(2, 4);
	offer(2, h, 1);
	offer(2, h, 16);
	h.grad_cnt = 1;
	offer(2, h, 0);
	offer(2, h, 1);
	offer(2, h, 4);
	expect_drop(PPE_DROP_LENGTH, 5);
	h = acknowledgement(2, 4);
	h.status = 1;
	offer(2, h, 0);
	expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, 1);
	h = acknowledgement(2, 4);
	h.job_id = 9;
	offer(2, h, 0);
	expect_drop(PPE_DROP_UNKNOWN_JOB, 1);
	expect(2, 4, WEIR_STATUS_REFUSED, 0);
	h = acknowledgement(7, 4);
	offer(2, h, 0);
	expect_drop(PPE_DROP_UNKNOWN_SOURCE, 1);
	expect(2, 4, WEIR_STATUS_REFUSED, 0);
	offer(1, acknowledgement(2, 4), 0); /* as another source */
	expect_drop(PPE_DROP_ADDRESS, 1);
	expect(1, 4, WEIR_STATUS_REFUSED, 0);
	h = acknowledgement(2, 4);
	h.gen_id ^= 1;
	offer(2, h, 0);
	expect_drop(PPE_DROP_STALE, 1);
	expect(2, 4, WEIR_STATUS_STALE, 0);
	expect_silence();
	/* None of them has acknowledged anything. */
	contribute(0, 4);
	contribute(1, 4);
	expect_drop(PPE_DROP_HELD_BACK, 2);
	expect_drop(PPE_DROP_ACKNOWLEDGED, 0);
	stop();
}

/* A contribution between acknowledgements is not parsed again for them, and they are no contribution. */
Test(ppe_ack, acknowledgements_between_contributions, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000);
	for (uint32_t block = 0; block < 20; block++) {
		for (unsigned int s = 0; s < SOURCES; s++) {
			acknowledge(s, block);
			contribute(s, block);
		}
		for (unsigned int s = 0; s < SOURCES; s++)
			expect(s, block, WEIR_STATUS_OK, 7);
	}
	cr_expect_eq(job_stats(1).blocks_complete, 20);
	cr_expect_eq(job_stats(1).contributions, 60);
	stop();
}

/* ---- probes ---- */

static void
probe(unsigned int s, uint32_t block)
{
	struct weir_header h = acknowledgement(s, block);

	h.collective = WEIR_COLLECTIVE_PROBE;
	offer(s, h, 0);
}

/* The answer to a source's probe: these sources are in the block. */
static void
expect_told(unsigned int s, uint32_t block, uint8_t sources)
{
	const uint8_t bitmap[WEIR_BITMAP_BYTES] = {sources};
	struct weir_header h;
	const uint8_t *payload;
	unsigned int n = rig_receive(&rig, s, frame, 1000), bytes;

	cr_assert_gt(n, 0, "source %u is told nothing of block %u", s, block);
	cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
	cr_assert(h.block_id == block && h.status == WEIR_STATUS_WAITING && h.degraded);
	cr_assert_eq(h.collective, WEIR_COLLECTIVE_PROBE);
	cr_assert_eq(bytes, sizeof(bitmap));
	cr_assert_arr_eq(payload, bitmap, bytes, "%#x, not %#x", payload[0], sources);
}

Test(ppe_ack, probes_are_answered_with_the_bitmap, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000);
	probe(1, 0);
	expect_told(1, 0, 0);
	cr_expect_eq(job_stats(1).blocks_opened, 0, "a probe opens nothing");
	contribute(0, 0);
	contribute(2, 0);
	expect_drop(PPE_DROP_PROBED, 1);
	probe(2, 0);
	expect_told(2, 0, 5);
	probe(1, 0);
	expect_told(1, 0, 5);
	cr_expect_eq(job_stats(1).blocks_complete, 0, "nor does it count");
	contribute(1, 0);
	for (unsigned int s = 0; s < SOURCES; s++)
		expect(s, 0, WEIR_STATUS_OK, 7);
	probe(1, 0); /* the result was lost */
	expect(1, 0, WEIR_STATUS_OK, 7);
	contribute(1, 2);
	probe(1, 0); /* of a result that the source has */
	expect_drop(PPE_DROP_KNOWN, 1);
	probe(1, 4); /* ahead of the window */
	expect_drop(PPE_DROP_WINDOW, 1);
	probe(2, 2);
	expect_told(2, 2, 2);
	expect_silence();
	cr_expect_eq(job_stats(1).probes, 6);
	cr_expect_eq(job_stats(1).asked_again, 1);
	cr_expect_eq(job_stats(1).duplicates, 0);
	stop();
}

/* A contribution that is held back is not there. A probe acknowledges as it would. */
Test(ppe_ack, probes_while_held_back, .timeout = 90)
{
	start(PPE_POLICY_PARTIAL, TIMEOUT);
	two(0);
	two(2);
	contribute(0, 4);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	probe(0, 4);
	expect_told(0, 4, 0);
	contribute(1, 4);
	expect_drop(PPE_DROP_HELD_BACK, 2);
	probe(2, 4);
	expect_told(2, 4, 0);
	two(4);
	stop();
}

Test(ppe_ack, wrong_probes_are_dropped, .timeout = 90)
{
	struct weir_header h;

	start(PPE_POLICY_WAIT, 1000);
	contribute(0, 0);
	h = acknowledgement(1, 0);
	h.collective = WEIR_COLLECTIVE_PROBE;
	offer(1, h, 4);
	h.grad_cnt = 1;
	offer(1, h, 4);
	expect_drop(PPE_DROP_LENGTH, 2);
	h.grad_cnt = 0;
	offer(2, h, 0); /* as another source */
	expect_drop(PPE_DROP_ADDRESS, 1);
	expect(2, 0, WEIR_STATUS_REFUSED, 0);
	h.gen_id ^= 1;
	offer(1, h, 0);
	expect_drop(PPE_DROP_STALE, 1);
	expect(1, 0, WEIR_STATUS_STALE, 0);
	expect_silence();
	cr_expect_eq(job_stats(1).probes, 0);
	stop();
}

/* A contribution that waits for its turn is there. */
Test(ppe_ack, probes_of_a_deterministic_job, .timeout = 90)
{
	const float one = 1;
	struct rig_config config = {.workers = 2, .threads = 4, .ports = SOURCES, .jobs = 1};
	struct weir_header h;

	config.job[0] = rig_job(1, SOURCES, WINDOW, 16);
	config.job[0].dtype = WEIR_DTYPE_FP32;
	config.job[0].deterministic = true;
	rig_start(&rig, &config);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 2, 0, 1);
	h.dtype = WEIR_DTYPE_FP32;
	rig_offer(&rig, 2, &h, &one, sizeof(one));
	probe(2, 0);
	expect_told(2, 0, 4);
	cr_expect_eq(job_stats(1).out_of_turn, 1);
	stop();
}

/* A probe that waits in one burst behind its contribution does not overtake it. */
Test(ppe_ack, probes_do_not_overtake, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000);
	for (uint32_t block = 0; block < 40; block++) {
		contribute(0, block);
		probe(0, block);
		expect_told(0, block, 1);
		contribute(1, block);
		contribute(2, block);
		for (unsigned int s = 0; s < SOURCES; s++)
			expect(s, block, WEIR_STATUS_OK, 7);
	}
	stop();
}
