/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources that contribute nothing, and acknowledge: the others go on, and nothing else changes. */
#include "tests/eal/bench.h"

#define WINDOW  2
#define SOURCES 3

static void
start_with(enum ppe_policy policy)
{
	start(.sources = SOURCES, .window = WINDOW, .policy = policy);
}

/* Two contribute; all get what they have, after the timeout. */
static void
two(uint32_t block)
{
	contribute(0, block);
	contribute(1, block);
	expect_all(block, WEIR_STATUS_PARTIAL, 3);
}

/* Acknowledged while they are open, so that nobody is ever held back, or when they are over. */
Test(ppe_ack, acknowledgements_release_blocks, .timeout = 90)
{
	start_with(PPE_POLICY_PARTIAL);
	for (uint32_t block = 0; block < 12; block += 2) {
		contribute(0, block);
		contribute(1, block);
		acknowledge(2, block);
		expect_all(block, WEIR_STATUS_PARTIAL, 3);
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
	contribute_all(12);
	expect_all(12, WEIR_STATUS_OK, 7);
	stop();
}

Test(ppe_ack, unacknowledged_blocks_hold_others_back, .timeout = 90)
{
	start_with(PPE_POLICY_PARTIAL);
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
	start_with(PPE_POLICY_WAIT);
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
	expect_all(0, WEIR_STATUS_OK, 7);
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
	start_with(PPE_POLICY_PARTIAL);
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
	start_with(PPE_POLICY_PARTIAL);
	two(0);
	two(2);
#define ACK(change, from, n, reason, answer)                                                       \
	WRONG(note(2, 4, WEIR_COLLECTIVE_ACKNOWLEDGE), change, from, n, reason, answer)
	ACK(h.block_id += WINDOW /* of a result that is not out */, 2, 0, PPE_DROP_WINDOW,
		NO_ANSWER);
	ACK(h.block_id += 1000 * WINDOW, 2, 0, PPE_DROP_WINDOW, NO_ANSWER);
	ACK(, 2, 1, PPE_DROP_LENGTH, NO_ANSWER);
	ACK(, 2, 16, PPE_DROP_LENGTH, NO_ANSWER);
	ACK(h.grad_cnt = 1, 2, 0, PPE_DROP_LENGTH, NO_ANSWER);
	ACK(h.grad_cnt = 1, 2, 1, PPE_DROP_LENGTH, NO_ANSWER);
	ACK(h.grad_cnt = 1, 2, 4, PPE_DROP_LENGTH, NO_ANSWER);
	ACK(h.status = 1, 2, 0, PPE_DROP_NOT_A_CONTRIBUTION, NO_ANSWER);
	ACK(h.job_id = 9, 2, 0, PPE_DROP_UNKNOWN_JOB, WEIR_STATUS_REFUSED);
	ACK(h.src_id = 7, 2, 0, PPE_DROP_UNKNOWN_SOURCE, WEIR_STATUS_REFUSED);
	ACK(, 1, 0, PPE_DROP_ADDRESS, WEIR_STATUS_REFUSED);
	ACK(h.gen_id ^= 1, 2, 0, PPE_DROP_STALE, WEIR_STATUS_STALE);
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
	start_with(PPE_POLICY_WAIT);
	for (uint32_t block = 0; block < 20; block++) {
		for (unsigned int s = 0; s < SOURCES; s++) {
			acknowledge(s, block);
			contribute(s, block);
		}
		expect_all(block, WEIR_STATUS_OK, 7);
	}
	cr_expect_eq(job_stats(1).blocks_complete, 20);
	cr_expect_eq(job_stats(1).contributions, 60);
	stop();
}

/* ---- probes ---- */

/* The answer to a source's probe: these sources are in the block. */
static void
expect_told(unsigned int s, uint32_t block, uint8_t sources)
{
	expect(s, block, WEIR_STATUS_WAITING, sources);
	cr_assert_eq(got.collective, WEIR_COLLECTIVE_PROBE);
}

Test(ppe_ack, probes_are_answered_with_the_bitmap, .timeout = 90)
{
	start_with(PPE_POLICY_WAIT);
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
	expect_all(0, WEIR_STATUS_OK, 7);
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
	start_with(PPE_POLICY_PARTIAL);
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
	start_with(PPE_POLICY_WAIT);
	contribute(0, 0);
#define PROBE(change, from, n, reason, answer)                                                     \
	WRONG(note(1, 0, WEIR_COLLECTIVE_PROBE), change, from, n, reason, answer)
	PROBE(, 1, 4, PPE_DROP_LENGTH, NO_ANSWER);
	PROBE(h.grad_cnt = 1, 1, 4, PPE_DROP_LENGTH, NO_ANSWER);
	PROBE(, 2, 0, PPE_DROP_ADDRESS, WEIR_STATUS_REFUSED);
	PROBE(h.gen_id ^= 1, 1, 0, PPE_DROP_STALE, WEIR_STATUS_STALE);
	cr_expect_eq(job_stats(1).probes, 0);
	stop();
}

static void
in_turn(struct rig_config *config)
{
	config->job[0].dtype = WEIR_DTYPE_FP32;
	config->job[0].deterministic = true;
}

/* A contribution that waits for its turn is there. */
Test(ppe_ack, probes_of_a_deterministic_job, .timeout = 90)
{
	struct weir_header h;

	start(.sources = SOURCES, .window = WINDOW, .change = in_turn);
	h = contribution(2, 0);
	h.dtype = WEIR_DTYPE_FP32;
	offer(&h);
	probe(2, 0);
	expect_told(2, 0, 4);
	cr_expect_eq(job_stats(1).out_of_turn, 1);
	stop();
}

/* A probe that waits in one burst behind its contribution does not overtake it. */
Test(ppe_ack, probes_do_not_overtake, .timeout = 90)
{
	start_with(PPE_POLICY_WAIT);
	for (uint32_t block = 0; block < 40; block++) {
		contribute(0, block);
		probe(0, block);
		expect_told(0, block, 1);
		contribute(1, block);
		contribute(2, block);
		expect_all(block, WEIR_STATUS_OK, 7);
	}
	stop();
}
