/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contributions of an authenticated job that a worker receives at once: the wrong tag of one of them ends that one,
 * whatever its place among right ones, and changes nothing else.
 */
#include "tests/eal/auth_rig.h"

#define BURST    (SOURCES * WINDOW)
#define PAUSE_MS 400

static void
begin(unsigned int threads, uint16_t elements, bool segmented)
{
	rig_threads = threads;
	start_with(1, elements, PPE_POLICY_WAIT, 60000);
	rig.seed = segmented ? random_state : 0;
	enter();
}

/* Each source's contributions to a window of blocks, all in one burst; bit i of `wrong`: the i-th has a wrong tag. */
static void
send_burst(uint32_t first, unsigned int count, uint32_t wrong)
{
	for (unsigned int i = 0; i < BURST; i++) {
		unsigned int source = i / WINDOW;
		struct weir_header h = header_of(&now, source, first + i % WINDOW, count);
		unsigned int n = write_tagged(&h, now.source[source], h.block_id);

		if ((wrong >> i & 1) != 0) {
			frame[n - 1 - i] ^= (uint8_t)(1u << i % 8);
			rig_fix_checksums(frame);
		}
		rig_send(&rig, source, frame, n);
	}
}

static void
one_wrong_at_each_place(unsigned int threads, unsigned int count, bool segmented)
{
	begin(threads, 1000, segmented);
	for (unsigned int place = 0; place < BURST; place++) {
		uint32_t first = place * WINDOW, wrong = first + place % WINDOW;

		send_burst(first, count, 1u << place);
		for (uint32_t block = first; block < first + WINDOW; block++)
			if (block != wrong)
				expect_result(block, count, WEIR_STATUS_OK, 7);
		expect_drop(PPE_DROP_FORGED, place + 1);
		cr_expect_eq(job_stats(1).contributions, (place + 1) * BURST - 1);
		contribute_tagged(place / WINDOW, wrong, count);
		expect_result(wrong, count, WEIR_STATUS_OK, 7);
	}
	cr_expect_eq(job_stats(1).forged, BURST);
	stop();
}

CASE(ppe_auth_burst, one_wrong, one_wrong_at_each_place(20, 300, false))
CASE(ppe_auth_burst, one_wrong_and_one_thread, one_wrong_at_each_place(1, 300, false))
CASE(ppe_auth_burst, one_wrong_and_few_threads, one_wrong_at_each_place(5, 1000, false))
CASE(ppe_auth_burst, one_wrong_in_segments, one_wrong_at_each_place(20, 193, true))
CASE(ppe_auth_burst, one_wrong_of_barriers, one_wrong_at_each_place(20, 0, false))

Test(ppe_auth_burst, burst_of_wrong_tags_is_dropped, .timeout = 90)
{
	begin(20, 8, false);
	send_burst(0, 8, 0);
	for (uint32_t block = 0; block < WINDOW; block++)
		expect_result(block, 8, WEIR_STATUS_OK, 7);
	pass_ms(PAUSE_MS);
	send_burst(WINDOW, 8, (1u << BURST) - 1);
	expect_drop(PPE_DROP_FORGED, BURST);
	cr_expect_eq(job_stats(1).contributions, BURST);
	cr_expect_geq(source_stats(0).silent_us, PAUSE_MS * 900, "heard by a wrong tag");
	for (uint32_t block = WINDOW; block < 2 * WINDOW; block++)
		whole_block(block, 8);
	stop();
}
