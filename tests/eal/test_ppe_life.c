/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a block where all does not go well: late, repeated, early, disagreeing. */
#include <rte_cycles.h>

#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"

Test(ppe_life, partial_result_has_the_bitmap, .timeout = 90)
{
	start(.policy = PPE_POLICY_PARTIAL);
	contribute(1, 0);
	expect_all(0, WEIR_STATUS_PARTIAL, 2);
	cr_expect_eq(got.src_cnt, 1);
	/* The straggler comes, is told, and does not change the result. */
	contribute(0, 0);
	expect(0, 0, WEIR_STATUS_PARTIAL, 2);
	expect_drop(PPE_DROP_LATE, 1);
	stop();
}

/* As when the machine is suspended, once before a block is open and once while it waits. */
Test(ppe_life, stragglers_are_found_after_the_tsc_goes_back, .timeout = 90)
{
	uint64_t hour;

	start(.policy = PPE_POLICY_PARTIAL);
	hour = 3600 * rte_get_tsc_hz();
	for (uint32_t block = 0; block < 3; block++) {
		if (block < 2)
			__atomic_sub_fetch(&ppe_clock_step, hour, __ATOMIC_RELAXED);
		contribute(1, block);
		if (block == 1)
			__atomic_sub_fetch(&ppe_clock_step, hour, __ATOMIC_RELAXED);
		expect_all(block, WEIR_STATUS_PARTIAL, 2);
	}
	stop();
}

Test(ppe_life, error_policy_fails_the_block_for_all, .timeout = 90)
{
	start(.policy = PPE_POLICY_ERROR);
	contribute(0, 0);
	expect_all(0, WEIR_STATUS_ERROR, 1);
	cr_expect_eq(got.grad_cnt, 0);
	stop();
}

Test(ppe_life, waiting_reply_has_the_bitmap, .timeout = 90)
{
	start(.timeout_ms = 20);
	contribute(1, 0);
	expect_silence(); /* nothing comes by itself */
	contribute(1, 0);
	expect(1, 0, WEIR_STATUS_WAITING, 2);
	expect_drop(PPE_DROP_DUPLICATE, 1);
	stop();
}

Test(ppe_life, repeats_do_not_hide_a_straggler, .timeout = 90)
{
	uint64_t began;

	start(.policy = PPE_POLICY_PARTIAL, .timeout_ms = 60);
	began = now_us();
	for (unsigned int ms = 0; ms < 62; ms++) {
		contribute(1, 0); /* within each visit of the aging scan */
		pass_ms(1);
	}
	expect(0, 0, WEIR_STATUS_PARTIAL, 2);
	cr_expect_lt(now_us() - began, 63000);
	stop_unread();
}

Test(ppe_life, expired_window_stale_and_held_back, .timeout = 90)
{
	start();
	WRONG(contribution(0, 4), /* window 4: before block 0 */, 0, 32, PPE_DROP_WINDOW,
		WEIR_STATUS_WINDOW);
	for (uint32_t block = 0; block <= 8; block += 4) /* one residue, twice round */
		reduce(block);
	WRONG(contribution(0, 4), /* completed with block 8: released */, 0, 32, PPE_DROP_EXPIRED,
		WEIR_STATUS_EXPIRED);
	contribute(0, 8); /* kept */
	expect(0, 8, WEIR_STATUS_OK, 0);
	WRONG(contribution(0, 12), h.gen_id++, 0, 32, PPE_DROP_STALE, WEIR_STATUS_STALE);
	stop();
}

Test(ppe_life, a_third_buffer_is_held_back, .timeout = 90)
{
	start(.policy = PPE_POLICY_PARTIAL);
	for (uint32_t block = 0; block <= 4; block += 4) { /* source 0 contributes to neither */
		contribute(1, block);
		expect_all(block, WEIR_STATUS_PARTIAL, 2);
	}
	contribute(1, 8);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	/* Its late contribution to block 4 says that it has block 0: that one is released. */
	contribute(0, 4);
	expect(0, 4, WEIR_STATUS_PARTIAL, 2);
	reduce(8);
	cr_expect_eq(job_stats(1).buffers_used, 1);
	cr_expect_eq(job_stats(1).held_back, 1);
	cr_expect_eq(job_stats(1).late, 1);
	stop();
}

/* Source 0's contribution to block 4 is lost, and block 4 goes out without it: to source 0, too, which
 * therefore never sends it again. */
Test(ppe_life, a_contribution_acknowledges_a_block_that_it_is_not_in, .timeout = 90)
{
	start(.policy = PPE_POLICY_PARTIAL);
	reduce(0);
	contribute(1, 4);
	expect_all(4, WEIR_STATUS_PARTIAL, 2);
	contribute(1, 8); /* nobody knows yet whether source 0 has block 0 */
	expect_drop(PPE_DROP_HELD_BACK, 1);
	contribute(0, 8);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	contribute(1, 8);
	expect_all(8, WEIR_STATUS_OK, 0);
	expect_drop(PPE_DROP_HELD_BACK, 1);
	cr_expect_eq(job_stats(1).buffers_used, 1);
	cr_expect_eq(job_stats(1).held_back, 1);
	cr_expect_eq(job_stats(1).late, 0);
	stop();
}

Test(ppe_life, a_disagreement_fails_the_block_for_all, .timeout = 90)
{
	struct weir_header h;

	start();
	contribute(0, 0);
	rig_rest(&rig);
	h = contribution(1, 0);
	h.grad_cnt = 7;
	offer(&h);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, 0, WEIR_STATUS_MISMATCH, 0);
		cr_expect_eq(payload_bytes, sizeof(struct weir_mismatch));
		cr_expect_eq(payload[0], WEIR_FIELD_LENGTH);
		cr_expect_eq(weir_get16(payload + 2), 8);
		cr_expect_eq(weir_get16(payload + 6), 7);
	}
	expect_drop(PPE_DROP_MISMATCH, 1);
	stop();
}
