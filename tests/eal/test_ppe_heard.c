/* SPDX-License-Identifier: BSD-3-Clause */
/* A source is heard by what it sends, and not by what others send in its name. */
#include <string.h>

#include <criterion/criterion.h>
#include <rte_cycles.h>

#include "tests/eal/one_rig.h"

#define WINDOW   4
#define PAUSE_US 400000 /* half of it is longer than a machine is busy */

static uint8_t frame[RIG_FRAME_MAX];

static void
start(unsigned int workers, bool authenticated)
{
	struct rig_config config = {.workers = workers, .threads = 4, .ports = 2, .jobs = 1};

	config.job[0] = rig_job(1, 2, WINDOW, 16);
	config.job[0].proved = config.job[0].authenticated = authenticated;
	rig_start(&rig, &config);
}

/* A contribution of source 0, to each shard, twice alike but for the block. */
static void
contribute(uint16_t generation, unsigned int port, bool forged)
{
	const uint32_t values[4] = {0};
	struct ppe_stats stats;

	for (uint32_t block = 0; block < WINDOW; block++) {
		const struct weir_header h = rig_contribution(1, generation, 0, block, 4);
		unsigned int bytes = rig_frame(frame, 0, &h, values, sizeof(values));

		frame[11] ^= forged ? 0x55 : 0; /* of the MAC; no checksum covers it */
		rig_send(&rig, port, frame, bytes);
	}
	rig_settle(&rig, &stats);
}

static struct ppe_source_stats
source_0(void)
{
	struct ppe_source_stats s;

	cr_assert_eq(ppe_source_stats_read(rig.ppe, 1, 0, &s), 0);
	return s;
}

static uint64_t
us_since(uint64_t tsc)
{
	return (ppe_tsc() - tsc) * 1000000 / rte_get_tsc_hz() + 1;
}

/* Is the source heard when it contributes? A worker's clock is that of its turn, which may have begun long before on a
 * busy machine: so a later contribution counts, too. */
static bool
heard_when_it_contributes(uint16_t generation)
{
	for (unsigned int i = 0; i < 50; i++) {
		uint64_t since = ppe_tsc();

		contribute(generation, 0, false);
		if (source_0().silent_us <= us_since(since))
			return true;
	}
	return false;
}

static void
heard_by_its_own(unsigned int workers)
{
	uint16_t generation;

	start(workers, false);
	generation = rig_join(&rig, 0, false);
	cr_expect(source_0().heard, "it joined");
	rte_delay_us_sleep(PAUSE_US);
	contribute(generation, 0, true);
	cr_expect_geq(source_0().silent_us, PAUSE_US / 2, "heard from another MAC");
	contribute(generation, 1, false);
	cr_expect_geq(source_0().silent_us, PAUSE_US / 2, "heard at another port");
	cr_expect(heard_when_it_contributes(generation));
	rte_delay_us_sleep(PAUSE_US);
	cr_expect(heard_when_it_contributes((uint16_t)(generation + 1)), "in whatever generation");
	stop();
}

CASE(ppe_heard, by_its_own_packets, heard_by_its_own(1))
CASE(ppe_heard, by_its_own_packets_on_two_workers, heard_by_its_own(2))

/* A stranger's join costs a look at the table, and no HMAC: so its tag is not what it is dropped for. */
Test(ppe_heard, a_stranger_is_known_by_its_address, .timeout = 90)
{
	struct weir_header h = {.job_id = 1,
		.block_id = 1,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.extended = true};
	const uint8_t proof[52] = {0};
	struct ppe_stats stats;

	start(1, true);
	rig_send(&rig, 0, frame, rig_frame(frame, 5, &h, proof, sizeof(proof)));
	h.src_id = 5;
	rig_send(&rig, 0, frame, rig_frame(frame, 5, &h, proof, sizeof(proof)));
	rig_settle(&rig, &stats);
	cr_expect_eq(stats.drops[PPE_DROP_ADDRESS], 1);
	cr_expect_eq(stats.drops[PPE_DROP_UNKNOWN_SOURCE], 1);
	cr_expect_eq(stats.drops[PPE_DROP_FORGED], 0);
	cr_expect_eq(rig_receive(&rig, 0, frame, 20), 0, "a stranger is answered");
	stop();
}

Test(ppe_heard, join_without_the_key_is_not_heard, .timeout = 90)
{
	const struct weir_header h = {.job_id = 1,
		.block_id = 1,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.extended = true};
	const uint8_t proof[52] = {0};
	struct ppe_stats stats;

	start(2, true);
	contribute(1, 0, false);
	rig_send(&rig, 0, frame, rig_frame(frame, 0, &h, proof, sizeof(proof)));
	rig_settle(&rig, &stats);
	cr_expect_not(source_0().heard);
	cr_expect_eq(stats.drops[PPE_DROP_FORGED], 1);
	cr_expect_eq(stats.drops[PPE_DROP_NOT_JOINED], WINDOW);
	stop();
}
