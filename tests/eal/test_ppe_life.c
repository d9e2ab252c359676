/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a block where all does not go well: late, repeated, early, disagreeing, hostile. */
#include <criterion/criterion.h>

#include <string.h>

#include <rte_cycles.h>

#include "ppe/ppe_priv.h"
#include "tests/eal/life.h"

Test(ppe_life, partial_result_has_the_bitmap, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;
	int32_t got;

	start(PPE_POLICY_PARTIAL, 50);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 1, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		h = expect(s, WEIR_STATUS_PARTIAL, &payload, &bytes);
		cr_expect(h.degraded && h.src_cnt == 1 && bytes == 32 + 32);
		memcpy(&got, payload, 4);
		cr_expect_eq(got, 1);
		cr_expect_eq(payload[32], 2, "bitmap %02x", payload[32]);
	}
	/* The straggler comes, is told, and does not change the result. */
	h = rig_contribution(1, generation, 0, 0, 8);
	offer(&h, 32);
	h = expect(0, WEIR_STATUS_PARTIAL, &payload, &bytes);
	memcpy(&got, payload, 4);
	cr_expect_eq(got, 1);
	expect_drop(PPE_DROP_LATE, 1);
	stop();
}

/* As when the machine is suspended, once before a block is open and once while it waits. */
Test(ppe_life, stragglers_are_found_after_the_tsc_goes_back, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	uint16_t generation;
	uint64_t hour;

	start(PPE_POLICY_PARTIAL, 50);
	hour = 3600 * rte_get_tsc_hz();
	generation = rig_join(&rig, 0, false);
	for (uint32_t block = 0; block < 3; block++) {
		struct weir_header h = rig_contribution(1, generation, 1, block, 8);

		if (block < 2)
			__atomic_sub_fetch(&ppe_clock_step, hour, __ATOMIC_RELAXED);
		offer(&h, 32);
		if (block == 1)
			__atomic_sub_fetch(&ppe_clock_step, hour, __ATOMIC_RELAXED);
		for (unsigned int s = 0; s < 2; s++) {
			h = expect(s, WEIR_STATUS_PARTIAL, &payload, &bytes);
			cr_expect_eq(h.block_id, block);
		}
	}
	stop();
}

Test(ppe_life, error_policy_fails_the_block_for_all, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_ERROR, 50);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 0, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		h = expect(s, WEIR_STATUS_ERROR, &payload, &bytes);
		cr_expect(h.degraded && h.grad_cnt == 0 && bytes == 32 && payload[0] == 1);
	}
	stop();
}

Test(ppe_life, waiting_reply_has_the_bitmap, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_WAIT, 20);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 1, 0, 8);
	offer(&h, 32);
	rig_receive(&rig, 1, frame, 100); /* nothing comes by itself */
	offer(&h, 32);
	expect(1, WEIR_STATUS_WAITING, &payload, &bytes);
	cr_expect(bytes == 32 && payload[0] == 2);
	expect_drop(PPE_DROP_DUPLICATE, 1);
	stop();
}

Test(ppe_life, repeats_do_not_hide_a_straggler, .timeout = 90)
{
	struct weir_header h, got = {0};
	const uint8_t *payload;
	unsigned int bytes, n = 0;

	start(PPE_POLICY_PARTIAL, 60);
	h = rig_contribution(1, rig_join(&rig, 0, false), 1, 0, 8);
	for (unsigned int ms = 0; ms < 2000 && n == 0; ms++) {
		offer(&h, 32); /* many within each visit of the aging scan */
		n = rig_receive(&rig, 0, frame, 1);
	}
	cr_assert_gt(n, 0, "no partial result");
	cr_assert(rig_parse(frame, n, &got, &payload, &bytes));
	cr_expect_eq(got.status, WEIR_STATUS_PARTIAL);
	stop();
}

Test(ppe_life, expired_window_stale_and_held_back, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	uint16_t generation;
	struct weir_header h;

	start(PPE_POLICY_WAIT, 1000);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 0, 4, 8); /* window 4: block 4 before block 0 */
	offer(&h, 32);
	expect(0, WEIR_STATUS_WINDOW, &payload, &bytes);
	for (uint32_t b = 0; b <= 8; b += 4) { /* one residue, twice round */
		offer_both(1, generation, b);
		expect_both(WEIR_STATUS_OK);
	}
	h = rig_contribution(1, generation, 0, 4, 8); /* completed with block 8: released */
	offer(&h, 32);
	expect(0, WEIR_STATUS_EXPIRED, &payload, &bytes);
	h = rig_contribution(1, generation, 0, 8, 8); /* kept */
	offer(&h, 32);
	expect(0, WEIR_STATUS_OK, &payload, &bytes);
	h = rig_contribution(1, (uint16_t)(generation + 1), 0, 12, 8);
	offer(&h, 32);
	expect(0, WEIR_STATUS_STALE, &payload, &bytes);
	expect_drop(PPE_DROP_STALE, 1);
	expect_drop(PPE_DROP_EXPIRED, 1);
	expect_drop(PPE_DROP_WINDOW, 1);
	stop();
}

Test(ppe_life, a_third_buffer_is_held_back, .timeout = 90)
{
	struct ppe_job_stats stats;
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_PARTIAL, 500); /* both contribute sooner, also on a busy machine */
	generation = rig_join(&rig, 0, false);
	for (uint32_t b = 0; b <= 4; b += 4) { /* source 0 contributes to neither */
		h = rig_contribution(1, generation, 1, b, 8);
		offer(&h, 32);
		expect_both(WEIR_STATUS_PARTIAL);
	}
	h = rig_contribution(1, generation, 1, 8, 8);
	offer(&h, 32);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	/* Its late contribution to block 4 says that it has block 0: that one is released. */
	h = rig_contribution(1, generation, 0, 4, 8);
	offer(&h, 32);
	expect(0, WEIR_STATUS_PARTIAL, &payload, &bytes);
	offer_both(1, generation, 8);
	expect_both(WEIR_STATUS_OK);
	stats = job_stats(1);
	cr_expect_eq(stats.buffers_used, 1, "%u buffers", stats.buffers_used);
	cr_expect_eq(stats.held_back, 1);
	cr_expect_eq(stats.late, 1);
	stop();
}

/* Source 0's contribution to block 4 is lost, and block 4 goes out without it: to source 0, too, which
 * therefore never sends it again. */
Test(ppe_life, a_contribution_acknowledges_a_block_that_it_is_not_in, .timeout = 90)
{
	struct ppe_job_stats stats;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_PARTIAL, 500); /* both contribute sooner, also on a busy machine */
	generation = rig_join(&rig, 0, false);
	offer_both(1, generation, 0);
	expect_both(WEIR_STATUS_OK);
	h = rig_contribution(1, generation, 1, 4, 8);
	offer(&h, 32);
	expect_both(WEIR_STATUS_PARTIAL);
	h = rig_contribution(
		1, generation, 1, 8, 8); /* nobody knows yet whether source 0 has block 0 */
	offer(&h, 32);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	for (unsigned int s = 0; s < 2; s++) {
		h = rig_contribution(1, generation, s, 8, 8);
		offer(&h, 32);
		expect_drop(PPE_DROP_HELD_BACK, 1);
	}
	expect_both(WEIR_STATUS_OK);
	stats = job_stats(1);
	cr_expect_eq(stats.buffers_used, 1, "%u buffers", stats.buffers_used);
	cr_expect_eq(stats.held_back, 1);
	cr_expect_eq(stats.late, 0);
	stop();
}

Test(ppe_life, a_disagreement_fails_the_block_for_all, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_WAIT, 1000);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 0, 0, 8);
	offer(&h, 32);
	expect_drop(PPE_DROP_MISMATCH, 0); /* it is in before the other comes by another port */
	h = rig_contribution(1, generation, 1, 0, 7);
	offer(&h, 28);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, WEIR_STATUS_MISMATCH, &payload, &bytes);
		cr_expect_eq(bytes, sizeof(struct weir_mismatch));
		cr_expect_eq(payload[0], WEIR_FIELD_LENGTH);
		cr_expect_eq(weir_get16(payload + 2), 8);
		cr_expect_eq(weir_get16(payload + 6), 7);
	}
	expect_drop(PPE_DROP_MISMATCH, 1);
	stop();
}

Test(ppe_life, hostile_packets_are_counted_and_touch_nothing, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes, n;
	struct weir_header h;
	uint16_t generation;
	int32_t got;

	start(PPE_POLICY_WAIT, 1000);
	h = rig_contribution(1, 7, 0, 0, 8);
	offer(&h, 32);
	expect(0, WEIR_STATUS_STALE, &payload, &bytes);
	expect_drop(PPE_DROP_NOT_JOINED, 1);
	generation = rig_join(&rig, 0, false);
	h = rig_contribution(1, generation, 0, 0, 8);
	offer(&h, 32); /* the good one that must survive */

	h = rig_contribution(77, generation, 1, 0, 8);
	offer(&h, 32);
	cr_expect_eq(expect(1, WEIR_STATUS_REFUSED, &payload, &bytes).gen_id, WEIR_GEN_JOIN);
	expect_drop(PPE_DROP_UNKNOWN_JOB, 1);
	h = rig_contribution(1, generation, 3, 0, 8);
	offer(&h, 32);
	cr_expect_eq(expect(1, WEIR_STATUS_REFUSED, &payload, &bytes).gen_id, WEIR_GEN_JOIN);
	expect_drop(PPE_DROP_UNKNOWN_SOURCE, 1);
	h = rig_contribution(1, generation, 1, 0, 8);
	offer(&h, 31);
	offer(&h, 33);
	h.grad_cnt = 9; /* more than the job's block */
	offer(&h, 36);
	expect_drop(PPE_DROP_LENGTH, 3);
	h = rig_contribution(1, generation, 1, 0, 8);
	h.status = WEIR_STATUS_OK + 1;
	offer(&h, 32);
	h.status = 0;
	h.src_cnt = 2;
	offer(&h, 32);
	expect_drop(PPE_DROP_NOT_A_CONTRIBUTION, 2);
	h = rig_contribution(1, generation, 1, 0, 8);
	h.dtype = 15;
	offer(&h, 32);
	expect(1, WEIR_STATUS_UNSUPPORTED, &payload, &bytes);
	h.dtype = WEIR_DTYPE_INT32;
	h.op = 15;
	offer(&h, 32);
	expect(1, WEIR_STATUS_UNSUPPORTED, &payload, &bytes);
	h.op = 0;
	h.collective = 12;
	offer(&h, 32);
	expect(1, WEIR_STATUS_UNSUPPORTED, &payload, &bytes);
	expect_drop(PPE_DROP_UNSUPPORTED, 3);

	h = rig_contribution(1, generation, 1, 0, 8);
	n = rig_frame(frame, 1, &h, NULL, 0);
	frame[24] ^= 0xff; /* IPv4 checksum */
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_IP_CHECKSUM, 1);
	n = rig_frame(frame, 1, &h, NULL, 0);
	frame[42 + 11] ^= 1; /* a bit of grad_cnt, behind the checksum's back */
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_UDP_CHECKSUM, 1);
	n = rig_frame(frame, 0, &h, NULL, 0);
	weir_put32(frame + 26, rig_source_ip(0)); /* source 1 from source 0's address */
	rig_fix_checksums(frame);
	rig_send(&rig, 0, frame, n);
	expect(0, WEIR_STATUS_REFUSED, &payload, &bytes);
	expect_drop(PPE_DROP_ADDRESS, 1);
	n = rig_frame(frame, 1, &h, NULL, 0); /* the right address at the wrong port */
	rig_send(&rig, 0, frame, n);
	expect_drop(PPE_DROP_SPOOFED_MEMBER, 1);
	for (unsigned int cut = 42; cut < 42 + WEIR_EXT_BYTES; cut++) {
		n = rig_frame(frame, 1, &h, NULL, 0);
		weir_put16(frame + 16, (uint16_t)(cut - 14));
		weir_put16(frame + 38, (uint16_t)(cut - 34));
		rig_fix_checksums(frame);
		rig_send(&rig, 1, frame, cut);
	}
	expect_drop(PPE_DROP_TRUNCATED, WEIR_EXT_BYTES);
	for (unsigned int cut = 14; cut < 42; cut++) {
		rig_frame(frame, 1, &h, NULL, 0);
		rig_send(&rig, 1, frame, cut);
	}
	expect_drop(PPE_DROP_MALFORMED, 42 - 14);
	n = rig_frame(frame, 1, &h, NULL, 0);
	weir_put16(frame + 20, 0x2000); /* more fragments */
	rig_fix_checksums(frame);
	rig_send(&rig, 1, frame, n);
	expect_drop(PPE_DROP_IP_FRAGMENT, 1);

	h = rig_contribution(1, generation, 1, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
		memcpy(&got, payload, 4);
		cr_expect_eq(got, 2);
	}
	stop();
}
