/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults at their limits: many rules, much that is held, many changes, jobs that leave, damage. */
#include <errno.h>
#include <inttypes.h>

#include <rte_malloc.h>

#include "tests/eal/fault_rig.h"

#define SOURCES  2
#define ELEMENTS 256 /* of results that are too large to be copied: both refer to one payload */

static void
start_with(unsigned int workers, bool job)
{
	start(.workers = workers, .elements = ELEMENTS, .timeout_ms = 1000, .base_form = true,
		.change = job ? NULL : without_jobs);
	faults = (struct ppe_faults){.seed = 1, .held = 1024};
}

static unsigned int
take(unsigned int port, unsigned int ms)
{
	unsigned int n = 0;

	while (rig_receive(&rig, port, frame, ms) > 0)
		n++;
	return n;
}

/* Is the frame a whole result, and the sum of what contribute() sends? */
static bool
is_the_sum(unsigned int bytes)
{
	if (!rig_checksums_hold(frame) ||
		!rig_parse(frame, bytes, &got, &payload, &payload_bytes) ||
		payload_bytes != 4 * ELEMENTS)
		return false;
	for (unsigned int e = 0; e < ELEMENTS; e++) {
		uint32_t sum = bench_value(0, got.block_id, e) + bench_value(1, got.block_id, e);

		if (memcmp(payload + 4 * e, &sum, 4) != 0)
			return false;
	}
	return true;
}

Test(ppe_faults_edges, the_last_of_64_rules_is_as_good_as_the_first, .timeout = 90)
{
	struct ppe_fault_stats stats;
	struct ppe_fault_rule *r;

	start_with(2, false);
	while (faults.nb_rules < PPE_FAULT_RULES_MAX - 1)
		rule(PPE_FAULT_OUT, PPE_FAULT_CORRUPT)->probability = 0;
	r = rule(PPE_FAULT_OUT, PPE_FAULT_DROP);
	r->port = 1;
	r->choice = PPE_FAULT_LIST;
	for (r->ordinals = 0; r->ordinals < PPE_FAULT_ORDINALS_MAX; r->ordinals++)
		r->ordinal[r->ordinals] = 2 * (PPE_FAULT_ORDINALS_MAX - r->ordinals);
	publish_faults();
	send_numbers(100);
	for (uint32_t number = 1; number <= 100; number++) {
		if (number % 2 == 0 && number <= 2 * PPE_FAULT_ORDINALS_MAX)
			continue;
		cr_assert_gt(rig_receive(&rig, 1, frame, 1000), 0, "frame %u", number);
		cr_expect_eq(weir_get32(frame + 14), number);
	}
	cr_expect_eq(take(1, 50), 0);
	stats = read_faults();
	cr_expect_eq(stats.hit[PPE_FAULT_RULES_MAX - 1], PPE_FAULT_ORDINALS_MAX);
	cr_expect_eq(stats.matched[0], 100);
	cr_expect_eq(stats.hit[0], 0);
	faults.nb_rules++;
	cr_expect_eq(ppe_publish_faults(rig.ppe, &faults), -EINVAL);
	stop();
}

/* More copies than there are buffers or room: each that is missing is charged to its rule. */
Test(ppe_faults_edges, all_rules_copy_a_flood, .timeout = 90)
{
	struct ppe_fault_stats stats;
	uint64_t spared = 0;

	start_with(2, false);
	while (faults.nb_rules < PPE_FAULT_RULES_MAX)
		rule(faults.nb_rules % 2 ? PPE_FAULT_IN : PPE_FAULT_OUT, PPE_FAULT_DUPLICATE);
	publish_faults();
	send_numbers(2000);
	cr_expect_gt(take(1, 100), 2000);
	stats = read_faults();
	for (unsigned int i = 0; i < PPE_FAULT_RULES_MAX; i++)
		spared += stats.spared[i];
	cr_expect_gt(spared, 0);
	cr_expect_eq(spared, stats.spared_ever);
	stop();
}

/* As much as can be held, for as long as can be said; a stop waits for none of it. */
static void
holds(enum ppe_fault_direction direction)
{
	const unsigned int sent = 3000; /* the ring that they leave by takes them all */
	struct ppe_fault_stats stats;
	struct ppe_fault_rule *r;

	start_with(1, false);
	faults.held = PPE_FAULT_HELD_MAX;
	r = rule(direction, PPE_FAULT_DELAY);
	r->port = direction == PPE_FAULT_IN ? 0 : 1;
	r->us = PPE_FAULT_DELAY_MAX_US / 2;
	r->most_us = PPE_FAULT_DELAY_MAX_US;
	r->delay = PPE_FAULT_UNIFORM;
	publish_faults();
	for (unsigned int i = 0; i < sent / 100; i++) {
		send_numbers(100);
		pass_ms(1);
	}
	for (unsigned int ms = 0; ms < 2000 && read_faults().held < sent; ms += 10)
		pass_ms(10);
	stats = read_faults();
	cr_expect_eq(stats.held + stats.spared_ever, sent, "%" PRIu64 " are held", stats.held);
	cr_expect_eq(ppe_stop(rig.ppe, 3000), 0);
	cr_expect_gt(take(1, 0), 1000, "what is held leaves");
	stop();
}

CASE(ppe_faults_edges, thousands_are_held_in_front, holds(PPE_FAULT_IN))
CASE(ppe_faults_edges, thousands_are_held_behind, holds(PPE_FAULT_OUT))

/* Each packet has its own delay: all come, in another order. */
Test(ppe_faults_edges, delayed_packets_leave_when_due, .timeout = 90)
{
	struct ppe_fault_rule *r;
	uint32_t before = 0;
	unsigned int n = 0, turned = 0;

	start_with(1, false);
	r = rule(PPE_FAULT_OUT, PPE_FAULT_DELAY);
	r->port = 1;
	r->us = 1000;
	r->most_us = 100000;
	r->delay = PPE_FAULT_UNIFORM;
	publish_faults();
	send_numbers(1000);
	for (; rig_receive(&rig, 1, frame, 500) > 0; n++) {
		turned += weir_get32(frame + 14) < before;
		before = weir_get32(frame + 14);
	}
	cr_expect_eq(n, 1000, "%u came", n);
	cr_expect_gt(turned, 300);
	cr_expect_eq(read_faults().held, 0);
	stop();
}

/* Delays add up, but not beyond what one rule may say: or nothing that waits for a buffer is bounded. */
Test(ppe_faults_edges, delays_add_up_to_ten_seconds, .timeout = 90)
{
	uint64_t began;

	start_with(1, false);
	while (faults.nb_rules < 8)
		rule(PPE_FAULT_OUT, PPE_FAULT_DELAY)->us = PPE_FAULT_DELAY_MAX_US;
	publish_faults();
	send_numbers(1);
	began = now_us();
	cr_assert_gt(rig_receive(&rig, 1, frame, 15000), 0, "it is held for longer");
	cr_expect_geq(now_us() - began, 9900000);
	stop();
}

Test(ppe_faults_edges, a_thousand_changes_under_traffic, .timeout = 120)
{
	uint64_t random = rig_seed();

	start_with(2, true);
	for (unsigned int round = 0; round < 1000; round++) {
		faults.nb_rules = 0;
		faults.seed = round;
		for (uint64_t i = rig_random(&random) % 5; i > 0; i--) {
			struct ppe_fault_rule *r =
				rule(rig_random(&random) % 2 ? PPE_FAULT_IN : PPE_FAULT_OUT,
					(enum ppe_fault_action)(rig_random(&random) % 6));

			r->probability = 0.3;
			r->us = (uint32_t)(rig_random(&random) % 20000);
			r->distance = 1 + (uint32_t)(rig_random(&random) % 100);
			r->job = rig_random(&random) % 2 ? 1 : -1;
		}
		publish_faults();
		send_numbers(2);
		for (unsigned int source = 0; source < SOURCES; source++)
			contribute(source, round / 8);
		for (unsigned int port = 0; port < 2; port++)
			while (rig_receive(&rig, port, frame, 0) > 0)
				;
	}
	stop_unread();
}

/* Results that are held keep their job's buffers: it leaves when they have, and not before. */
Test(ppe_faults_edges, a_job_leaves_when_nothing_of_it_is_held, .timeout = 90)
{
	struct ppe_port_queue queue[SOURCES] = {{.is_copied = true}};
	unsigned int left = 1;
	uint32_t block = 0;

	start_with(2, true);
	/* Results refer to buffers when the ports have shown that they give packets back. */
	for (; queue[0].is_copied || queue[1].is_copied; block++) {
		cr_assert_lt(block, 1000);
		contribute(0, block);
		contribute(1, block);
		for (unsigned int p = 0; p < SOURCES; p++) {
			cr_assert(is_the_sum(rig_receive(&rig, p, frame, 1000)));
			ppe_port_queue_read(rig.ppe, p, &queue[p]);
		}
		pass_ms(3);
	}
	rule(PPE_FAULT_OUT, PPE_FAULT_DELAY)->us = PPE_FAULT_DELAY_MAX_US;
	publish_faults();
	contribute(0, block);
	contribute(1, block);
	for (unsigned int ms = 0; ms < 2000 && read_faults().held < SOURCES; ms++)
		pass_ms(1);
	cr_assert_eq(read_faults().held, SOURCES);
	publish(NULL);
	pass_ms(50);
	cr_expect_eq(ppe_jobs_leaving(rig.ppe), 1);
	cr_assert_eq(ppe_publish_faults(rig.ppe, NULL), 0);
	cr_expect(is_the_sum(rig_receive(&rig, 0, frame, 1000)), "a result of a job that has gone");
	cr_expect(is_the_sum(rig_receive(&rig, 1, frame, 1000)));
	for (unsigned int ms = 0; ms < 2000 && left != 0; ms++) {
		pass_ms(1);
		left = ppe_jobs_leaving(rig.ppe);
	}
	cr_expect_eq(left, 0);
	stop();
}

/* Results refer to one payload: damage to one of them is seen by nobody else, nor when the block is
 * asked for again. */
Test(ppe_faults_edges, a_shared_payload_stays_whole, .timeout = 90)
{
	struct ppe_fault_rule *r;
	unsigned int damaged = 0;

	start_with(2, true);
	r = rule(PPE_FAULT_OUT, PPE_FAULT_CORRUPT);
	r->what = PPE_FAULT_RESULT;
	r->source = 1;
	r->bits = PPE_FAULT_BITS_MAX;
	publish_faults();
	for (uint32_t block = 0; block < 4; block++) {
		contribute(0, block);
		contribute(1, block);
		cr_expect(is_the_sum(rig_receive(&rig, 0, frame, 2000)), "block %u", block);
		for (unsigned int again = 0; again < 10; again++) {
			damaged += !is_the_sum(rig_receive(&rig, 1, frame, 2000));
			contribute(1, block);
		}
		damaged += !is_the_sum(rig_receive(&rig, 1, frame, 2000));
	}
	cr_expect_eq(damaged, 44);
	cr_assert_eq(ppe_publish_faults(rig.ppe, NULL), 0);
	for (uint32_t block = 0; block < 4; block++) {
		contribute(1, block);
		cr_expect(is_the_sum(rig_receive(&rig, 1, frame, 2000)), "block %u later", block);
	}
	stop();
}

/* Contributions in random segments, half of them damaged. Returns the results that came, `wrong` of
 * them. */
static unsigned int
damaged_contributions(unsigned int bits, unsigned int *wrong)
{
	unsigned int results = 0, bytes;

	start_with(2, true);
	rig.seed = rig_seed();
	rule(PPE_FAULT_IN, PPE_FAULT_CORRUPT)->probability = 0.5;
	faults.rule[0].bits = bits;
	publish_faults();
	for (uint32_t block = 0; block < 100; block++) {
		unsigned int before = results;

		/* Until it is done: others wait for it. */
		for (unsigned int tries = 0; tries < 50 && results == before; tries++) {
			contribute(0, block);
			contribute(1, block);
			while ((bytes = rig_receive(&rig, 0, frame, 2)) > 0 ||
				(bytes = rig_receive(&rig, 1, frame, 2)) > 0) {
				/* Else a status, or flooded on its way to nobody. */
				if (!rig_parse(frame, bytes, &got, &payload, &payload_bytes) ||
					payload_bytes != 4 * ELEMENTS ||
					memcmp(frame + 26, (const uint8_t[]){10, 77, 0, 254}, 4) !=
						0)
					continue;
				*wrong += !is_the_sum(bytes);
				results++;
			}
		}
	}
	stop();
	return results;
}

/* A flipped bit in what comes, anywhere: found, or harmless; no sum is ever wrong. */
Test(ppe_faults_edges, damage_on_the_way_in_changes_no_sum, .timeout = 90)
{
	unsigned int wrong = 0;

	cr_expect_geq(damaged_contributions(1, &wrong), 100);
	cr_expect_eq(wrong, 0);
}

/* Many bits may cancel each other out in a checksum, but nothing is read or written beyond a frame,
 * and each packet has an end. */
Test(ppe_faults_edges, heavy_damage_harms_nothing_else, .timeout = 90)
{
	unsigned int wrong = 0;

	(void)damaged_contributions(PPE_FAULT_BITS_MAX, &wrong);
}

static size_t
heap_free(void)
{
	struct rte_malloc_socket_stats heap;

	cr_assert_eq(rte_malloc_get_socket_stats((int)rte_socket_id(), &heap), 0);
	return heap.heap_freesz_bytes;
}

Test(ppe_faults_edges, no_more_memory_is_taken_than_said, .timeout = 90)
{
	size_t before, after;
	uint64_t most;

	start_with(2, false);
	before = heap_free();
	while (faults.nb_rules < PPE_FAULT_RULES_MAX)
		rule(PPE_FAULT_OUT, PPE_FAULT_DROP)->probability = 0;
	most = ppe_faults_bytes(&rig.config, rig.ports, &faults);
	cr_expect_gt(most, 2 * 512 * 1024);
	cr_expect_lt(most, 3 * 512 * 1024);
	publish_faults();
	for (unsigned int i = 0; i < 100; i++)
		publish_faults();
	after = heap_free();
	cr_expect_leq(before - after, most);
	cr_assert_eq(ppe_publish_faults(rig.ppe, NULL), 0);
	cr_expect_gt(heap_free(), after, "the rules are given back");
	faults.nb_rules = 0;
	cr_expect_eq(ppe_faults_bytes(&rig.config, rig.ports, &faults), 0);
	stop();
}

/* No memory for the stores of all workers, then for a set: nothing has changed, and later it goes. */
Test(ppe_faults_edges, without_memory_nothing_changes, .timeout = 90)
{
	static void *taken[4096];
	unsigned int n = 0;

	start_with(2, false);
	rule(PPE_FAULT_OUT, PPE_FAULT_DROP)->port = 1;
	for (size_t bytes = (size_t)32 << 20; bytes >= 1024; bytes /= 2)
		while (n < RTE_DIM(taken) && (taken[n] = rte_malloc(NULL, bytes, 0)) != NULL)
			n++;
	cr_expect_eq(ppe_check_faults(rig.ppe, &faults), -ENOMEM);
	cr_expect_eq(ppe_publish_faults(rig.ppe, &faults), -ENOMEM);
	cr_expect_null(ppe_faults_of(rig.ppe));
	send_numbers(3);
	cr_expect_eq(take(1, 100), 3);
	while (n > 0)
		rte_free(taken[--n]);
	publish_faults();
	send_numbers(3);
	cr_expect_eq(take(1, 100), 0);
	stop();
}
