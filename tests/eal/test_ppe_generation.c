/* SPDX-License-Identifier: BSD-3-Clause */
/* Generations of a job: what a new one forgets, and who is told of it; and a table that is swapped. */
#include <criterion/criterion.h>

#include <string.h>

#include "tests/eal/life.h"

Test(ppe_generation, a_new_generation_forgets_the_old_one, .timeout = 90)
{
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t first, second;
	int32_t got;

	start(PPE_POLICY_WAIT, 1000);
	first = rig_join(&rig, 0, false);
	h = rig_contribution(1, first, 0, 0, 8);
	offer(&h, 32);
	second = rig_join(&rig, 0, false);
	cr_expect_neq(first, second);
	cr_expect_neq(second, 0);
	cr_expect_neq(rig_join(&rig, 0, false), 0, "generation 0 is reserved");
	second = rig_join(&rig, 0, false);
	h = rig_contribution(1, second, 0, 0, 8);
	offer(&h, 32);
	h = rig_contribution(1, first, 1, 0, 8); /* to a block that is open in the new one */
	offer(&h, 32);
	expect(1, WEIR_STATUS_STALE, &payload, &bytes);
	h = rig_contribution(1, second, 1, 0, 8);
	offer(&h, 32);
	for (unsigned int s = 0; s < 2; s++) {
		expect(s, WEIR_STATUS_OK, &payload, &bytes);
		memcpy(&got, payload, 4);
		cr_expect_eq(got, 2);
	}
	stop();
}

Test(ppe_generation, a_fixed_generation_needs_no_join, .timeout = 90)
{
	start(PPE_POLICY_WAIT, 1000);
	for (uint32_t b = 0; b < 10; b++) {
		offer_both(9, 5, b);
		expect_both(WEIR_STATUS_OK);
	}
	stop();
}

Test(ppe_generation, a_job_table_is_swapped_while_packets_run, .timeout = 90)
{
	struct ppe_jobs without = {0};
	const uint8_t *payload;
	unsigned int bytes;
	struct weir_header h;
	uint16_t generation;

	start(PPE_POLICY_WAIT, 1000);
	generation = rig_join(&rig, 0, false);
	without.by_id[1] = &rig.job[0];
	h = rig_contribution(9, 5, 0, 0, 8);
	offer(&h, 32); /* a block of job 9 is open */
	expect_drop(PPE_DROP_UNKNOWN_JOB, 0);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &without), 0);
	cr_expect_eq(ppe_generation_after(rig.ppe, 9), 6); /* it had 5 */
	cr_expect_eq(ppe_generation_after(rig.ppe, 1), 0);
	cr_expect(!ppe_job_is_leaving(rig.ppe, 9, rig.jobs.by_id[9]->instance));
	h = rig_contribution(9, 5, 1, 0, 8);
	offer(&h, 32);
	expect(1, WEIR_STATUS_REFUSED, &payload, &bytes);
	expect_drop(PPE_DROP_UNKNOWN_JOB, 1);
	offer_both(1, generation, 0); /* job 1 does not notice */
	expect_both(WEIR_STATUS_OK);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), 0);
	h = rig_contribution(9, 5, 1, 0, 8);
	offer(&h, 32); /* the open block is forgotten: this is the first one's */
	cr_assert_eq(rig_receive(&rig, 0, frame, 10), 0);
	h = rig_contribution(9, 5, 0, 0, 8);
	offer(&h, 32);
	expect_both(WEIR_STATUS_OK);
	stop();
}

static struct weir_header
join_header(unsigned int source, uint32_t nonce)
{
	struct weir_header h = rig_contribution(2, WEIR_GEN_JOIN, source, nonce, 0);

	h.extended = true;
	h.collective = WEIR_COLLECTIVE_JOIN;
	return h;
}

static void
offer_join(unsigned int source, uint32_t nonce)
{
	struct weir_header h = join_header(source, nonce);

	rig_send(&rig, 0, frame, rig_frame(frame, source, &h, NULL, 0));
}

/* Late copies of a former join, on the heels of the one that begins the next generation: they meet it
 * while it is being made known to all workers. */
Test(ppe_generation, a_former_join_is_not_told_the_next_generation, .timeout = 90)
{
	struct weir_header h;
	const uint8_t *payload;
	unsigned int bytes, n;
	uint16_t generation = 0;
	/* Joins of job 2 are collected by the first worker, where a walk begins. */
	struct rig_config config = {
		.workers = 2, .threads = 8, .ports = 2, .jobs = 1, .job = {rig_job(2, 2, 4, 8)}};

	rig_start(&rig, &config);
	for (uint32_t nonce = 1; nonce < 30; nonce++) {
		offer_join(0, nonce);
		expect(0, WEIR_STATUS_WAITING, &payload, &bytes);
		offer_join(1, nonce);
		for (unsigned int i = 0; nonce > 1 && i < 40; i++)
			offer_join(0, nonce - 1);
		while ((n = rig_receive(&rig, 0, frame, 20)) > 0) {
			cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
			if (h.status != WEIR_STATUS_OK)
				continue;
			if (h.block_id == nonce)
				generation = h.gen_id;
			else
				cr_assert_eq(
					h.gen_id, generation, "nonce %u of %u", h.block_id, nonce);
		}
		while (rig_receive(&rig, 1, frame, 0) > 0)
			;
	}
	cr_assert_neq(generation, 0);
	stop();
}

/* A frame of source 0 of job 2, as if its network interface had another MAC address. */
static void
send_from_mac(uint8_t last, const struct weir_header *h, unsigned int bytes)
{
	uint8_t payload[64] = {0};
	unsigned int n = rig_frame(frame, 0, h, payload, bytes);

	frame[11] = last;
	rig_send(&rig, 0, frame, n);
}

/* The source's MAC address in the accepted join was damaged, or has changed since: a repeat corrects it in all shards. */
Test(ppe_generation, a_repeated_join_moves_its_source, .timeout = 90)
{
	struct rig_config config = {
		.workers = 2, .threads = 8, .ports = 2, .jobs = 1, .job = {rig_job(2, 2, 4, 8)}};
	struct weir_header h = join_header(1, 9);
	const uint8_t *payload;
	unsigned int bytes, n;
	uint8_t macs[2] = {0x55, 0x66};
	uint16_t generation;

	rig_start(&rig, &config);
	offer(&h, 0);
	expect(1, WEIR_STATUS_WAITING, &payload, &bytes);
	h = join_header(0, 7);
	send_from_mac(0x44, &h, 0);
	generation = expect(1, WEIR_STATUS_OK, &payload, &bytes).gen_id;
	expect(0, WEIR_STATUS_OK, &payload, &bytes);
	for (unsigned int i = 0; i < 2; i++) {
		h = join_header(0, 7);
		send_from_mac(macs[i], &h, 0);
		n = rig_receive(&rig, 0, frame, 5000);
		cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
		cr_assert_eq(h.status, WEIR_STATUS_OK);
		cr_assert_eq(h.gen_id, generation);
		cr_assert_eq(frame[5], macs[i], "answered where it came from");
		for (uint32_t block = 4 * i; block < 4 * i + 4; block++) { /* of both workers */
			h = rig_contribution(2, generation, 0, block, 8);
			send_from_mac(macs[i], &h, 32);
			h = rig_contribution(2, generation, 1, block, 8);
			offer(&h, 32);
			expect(1, WEIR_STATUS_OK, &payload, &bytes);
			n = rig_receive(&rig, 0, frame, 5000);
			cr_assert(rig_parse(frame, n, &h, &payload, &bytes));
			cr_assert_eq(h.block_id, block);
			cr_assert_eq(frame[5], macs[i]);
		}
	}
	/* Another join than the accepted one moves nothing, and is another host's. */
	h = join_header(0, 8);
	send_from_mac(0x77, &h, 0);
	expect_drop(PPE_DROP_ADDRESS, 1);
	h = rig_contribution(2, generation, 0, 8, 8);
	send_from_mac(0x77, &h, 32);
	expect_drop(PPE_DROP_ADDRESS, 2);
	stop();
}
