/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations of a job: what a new one forgets, and who is told of it; and a table that is swapped. */
#include "tests/eal/bench.h"

Test(ppe_generation, a_new_generation_forgets_the_old_one, .timeout = 90)
{
	uint16_t first;

	start();
	first = generation;
	contribute(0, 0);
	generation = rig_join(&rig, 0, false);
	cr_expect_neq(generation, first);
	cr_expect_neq(generation, 0);
	cr_expect_neq(rig_join(&rig, 0, false), 0, "generation 0 is reserved");
	generation = rig_join(&rig, 0, false);
	contribute(0, 0);
	/* To a block that is open in the new one. */
	WRONG(contribution(1, 0), h.gen_id = first, 1, 32, PPE_DROP_STALE, WEIR_STATUS_STALE);
	contribute(1, 0);
	expect_all(0, WEIR_STATUS_OK, 0);
	stop();
}

Test(ppe_generation, a_fixed_generation_needs_no_join, .timeout = 90)
{
	start(.generation = 5);
	for (uint32_t block = 0; block < 10; block++)
		reduce(block);
	stop();
}

static void
another_job(struct rig_config *config)
{
	config->jobs = 2;
	config->job[1] = rig_job(9, 2, 4, 8);
}

Test(ppe_generation, a_job_table_is_swapped_while_packets_run, .timeout = 90)
{
	start(.generation = 5, .change = another_job);
	contribute(0, 0);
	rig_rest(&rig); /* a block of job 1 is open */
	publish(NULL);
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 6); /* it had 5 */
	cr_expect_eq(ppe_generation_after(rig.ppe, 9), 0);
	cr_expect(!ppe_job_is_leaving(rig.ppe, 1, rig.job[0].instance));
	WRONG(contribution(1, 0), /* of a job that has left */, 1, 32, PPE_DROP_UNKNOWN_JOB,
		WEIR_STATUS_REFUSED);
	use_job(1); /* which does not notice */
	reduce(0);
	use_job(0);
	publish(&rig.job[0]);
	contribute(1, 0); /* the open block is forgotten: this is the first one's */
	expect_silence();
	contribute(0, 0);
	expect_all(0, WEIR_STATUS_OK, 0);
	stop();
}

/* Joins of job 2 are collected by the first worker, where a walk begins. */
static void
is_job_2(struct rig_config *config)
{
	config->job[0].id = 2;
}

/* Late copies of a former join, on the heels of the one that begins the next generation: they meet it
 * while it is being made known to all workers. */
Test(ppe_generation, a_former_join_is_not_told_the_next_generation, .timeout = 90)
{
	start(.late = true, .change = is_job_2);
	for (uint32_t nonce = 1; nonce < 30; nonce++) {
		asks(0, nonce, 1);
		join(1, nonce);
		for (unsigned int i = 0; nonce > 1 && i < 40; i++)
			join(0, nonce - 1);
		while (received(0)) {
			if (got.status != WEIR_STATUS_OK)
				continue;
			if (got.block_id == nonce)
				generation = got.gen_id;
			cr_assert_eq(got.gen_id, generation, "nonce %u of %u", got.block_id, nonce);
		}
		discard();
	}
	cr_assert_neq(generation, 0);
	stop();
}

/* A packet of source 0, as if its network interface had another MAC address. */
static void
offer_from_mac(uint8_t last, struct weir_header h)
{
	unsigned int n = write_frame(&h, 4u * h.grad_cnt);

	frame[11] = last;
	rig_send(&rig, 0, frame, n);
}

/* The source's MAC address in the accepted join was damaged, or has changed since: a repeat corrects it in all shards. */
Test(ppe_generation, a_repeated_join_moves_its_source, .timeout = 90)
{
	static const uint32_t nonce[] = {7, 9};
	static const uint8_t macs[] = {0x55, 0x66};

	start(.late = true, .change = is_job_2);
	asks(1, 9, 2);
	offer_from_mac(0x44, note(0, 7, WEIR_COLLECTIVE_JOIN));
	expect_joined(nonce);
	for (unsigned int i = 0; i < 2; i++) {
		offer_from_mac(macs[i], note(0, 7, WEIR_COLLECTIVE_JOIN));
		cr_assert(receive(0) && got.status == WEIR_STATUS_OK && got.gen_id == generation);
		cr_assert_eq(frame[5], macs[i], "answered where it came from");
		for (uint32_t block = 4 * i; block < 4 * i + 4; block++) { /* of both workers */
			offer_from_mac(macs[i], contribution(0, block));
			contribute(1, block);
			cr_assert(receive(1) && got.block_id == block);
			cr_assert(receive(0) && got.block_id == block);
			cr_assert_eq(frame[5], macs[i]);
		}
	}
	/* Another join than the accepted one moves nothing, and is another host's. */
	offer_from_mac(0x77, note(0, 8, WEIR_COLLECTIVE_JOIN));
	expect_drop(PPE_DROP_ADDRESS, 1);
	offer_from_mac(0x77, contribution(0, 8));
	expect_drop(PPE_DROP_ADDRESS, 2);
	stop();
}
