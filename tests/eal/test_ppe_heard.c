/* SPDX-License-Identifier: BSD-3-Clause */
/* A source is heard by what it sends, and not by what others send in its name. */
#include "tests/eal/bench.h"

#define WINDOW   4
#define PAUSE_MS 400
#define PAUSE_US 390000 /* the clock of `silent_us` is coarse */
#define AT_ONCE  1000 /* us */

/* A contribution of source 0, to each shard, twice alike but for the block. */
static void
offer_window(unsigned int port, bool forged)
{
	for (uint32_t block = 0; block < WINDOW; block++) {
		const struct weir_header h = contribution(0, block);
		unsigned int n = write_frame(&h, 32);

		frame[11] ^= forged ? 0x55 : 0; /* of the MAC; no checksum covers it */
		rig_send(&rig, port, frame, n);
	}
	rig_rest(&rig);
}

static void
heard_by_its_own(unsigned int workers)
{
	start(.workers = workers, .timeout_ms = 1000);
	cr_expect(source_stats(0).heard, "it joined");
	pass_ms(PAUSE_MS);
	offer_window(0, true);
	cr_expect_geq(source_stats(0).silent_us, PAUSE_US, "heard from another MAC");
	offer_window(1, false);
	cr_expect_geq(source_stats(0).silent_us, PAUSE_US, "heard at another port");
	offer_window(0, false);
	cr_expect_lt(source_stats(0).silent_us, AT_ONCE);
	pass_ms(PAUSE_MS);
	generation++;
	offer_window(0, false);
	cr_expect_lt(source_stats(0).silent_us, AT_ONCE, "in whatever generation");
	stop_unread();
}

CASE(ppe_heard, by_its_own_packets, heard_by_its_own(1))
CASE(ppe_heard, by_its_own_packets_on_two_workers, heard_by_its_own(2))

static void
with_a_key(struct rig_config *config)
{
	config->job[0].proved = config->job[0].authenticated = true;
}

#define PROOF_BYTES 52
#define WRONG_JOIN(source, from, reason)                                                           \
	WRONG(note(source, 1, WEIR_COLLECTIVE_JOIN), h.flags = WEIR_FLAG_AUTHENTICATED, from,      \
		PROOF_BYTES, reason, NO_ANSWER)

/* A stranger's join costs a look at the table, and no HMAC: so its tag is not what it is dropped for. */
Test(ppe_heard, a_stranger_is_known_by_its_address, .timeout = 90)
{
	start(.workers = 1, .late = true, .change = with_a_key);
	WRONG_JOIN(0, 5, PPE_DROP_ADDRESS);
	WRONG_JOIN(5, 5, PPE_DROP_UNKNOWN_SOURCE);
	expect_drop(PPE_DROP_FORGED, 0);
	stop();
}

Test(ppe_heard, join_without_the_key_is_not_heard, .timeout = 90)
{
	start(.late = true, .change = with_a_key);
	offer_window(0, false);
	WRONG_JOIN(0, 0, PPE_DROP_FORGED);
	cr_expect_not(source_stats(0).heard);
	expect_drop(PPE_DROP_NOT_JOINED, WINDOW);
	stop();
}
