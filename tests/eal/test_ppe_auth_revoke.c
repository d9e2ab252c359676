/* SPDX-License-Identifier: BSD-3-Clause */
/* A generation of an authenticated job that is revoked: only by who knows the key and is there now, and
 * its sources are told under tags. */
#include "tests/eal/auth_rig.h"

static uint64_t
count_of_revokes(void)
{
	struct ppe_job_stats stats;
	struct ppe_stats all;

	rig_settle(&rig, &all);
	ppe_job_stats_read(rig.ppe, 1, &stats);
	return stats.revokes;
}

Test(ppe_auth_revoke, only_a_fresh_join_ends_a_generation, .timeout = 90)
{
	uint8_t challenge[16], nonce[16];
	struct weir_header h;
	const uint8_t *payload;
	unsigned int bytes;

	job_revokes = true;
	start(2, 8, PPE_POLICY_WAIT, 1000);
	enter();
	whole_block(0, 8);
	/* One that quotes no challenge, or an old one, may be of any time. */
	ask_challenge(challenge);
	draw(nonce);
	rig_send(&rig, 2, frame, join_frame(2, now.challenge, nonce));
	cr_assert_eq(take(2, &payload, &bytes).status, WEIR_STATUS_WAITING);
	cr_expect_eq(count_of_revokes(), 0);
	whole_block(1, 8);
	rig_send(&rig, 2, frame, join_frame(2, challenge, nonce));
	cr_assert_eq(take(2, &payload, &bytes).status, WEIR_STATUS_WAITING);
	cr_expect_eq(count_of_revokes(), 1);
	for (uint32_t block = 0; block < 3 * WINDOW; block++) {
		h = header(&now, 0, block, 4);
		rig_send(&rig, 0, frame, contribution(&h, now.source[0], block));
		memcpy(nonce, frame + HEADER + 16 + 16, 16); /* its tag */
		h = take(0, &payload, &bytes);
		cr_expect_eq(h.status, WEIR_STATUS_STALE, "%s", weir_status_text(h.status));
		cr_expect_eq(h.gen_id, WEIR_GEN_JOIN);
		cr_expect(reply_holds(0, nonce, bytes), "block %u", block);
	}
	/* Without the key nobody is told anything, as before. */
	h = header(&now, 0, 1, 4);
	rig_send(&rig, 0, frame, contribution(&h, now.source[1], 1));
	expect_silence(0);
	/* The others come, and all begin the next one, with that challenge. */
	draw(nonce);
	rig_send(&rig, 0, frame, join_frame(0, challenge, nonce));
	cr_assert_eq(take(0, &payload, &bytes).status, WEIR_STATUS_WAITING);
	rig_send(&rig, 1, frame, join_frame(1, challenge, nonce));
	for (unsigned int s = 0; s < SOURCES; s++) {
		h = take(s, &payload, &bytes);
		cr_expect_eq(h.status, WEIR_STATUS_OK);
		cr_expect_neq(h.gen_id, now.generation);
		cr_expect_arr_eq(payload + 16, challenge, 16);
	}
	cr_expect_eq(count_of_revokes(), 1);
	stop();
}
