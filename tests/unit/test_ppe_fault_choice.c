/* SPDX-License-Identifier: BSD-3-Clause */
/* The dice of the faults: chances, bursts, delays and windows, from fixed seeds. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>

#include "ppe/faults/faults_priv.h"

#define PACKETS 200000

static struct ppe_fault_stream
stream_of(uint64_t seed)
{
	return (struct ppe_fault_stream){.key = ppe_fault_key(seed, 0, 1, 0, PPE_FAULT_IN)};
}

static unsigned int
count(const struct ppe_fault_rule *rule, uint64_t seed)
{
	struct ppe_fault_stream stream = stream_of(seed);
	unsigned int hits = 0;

	for (uint64_t n = 1; n <= PACKETS; n++)
		hits += ppe_fault_choose(rule, &stream, n);
	return hits;
}

Test(ppe_fault_choice, chances_are_kept)
{
	const double chances[] = {0, 0.001, 0.01, 0.2, 1};

	for (unsigned int i = 0; i < 5; i++) {
		struct ppe_fault_rule rule = {.probability = chances[i]};
		double mean = chances[i] * PACKETS, off = sqrt(mean * (1 - chances[i]));

		cr_expect_leq(fabs(count(&rule, i) - mean), 4 * off, "chance %g", chances[i]);
	}
}

Test(ppe_fault_choice, keys_differ_by_seed_rule_and_queue)
{
	uint64_t key = ppe_fault_key(1, 2, 3, 4, PPE_FAULT_IN);

	cr_expect_neq(key, ppe_fault_key(2, 2, 3, 4, PPE_FAULT_IN));
	cr_expect_neq(key, ppe_fault_key(1, 3, 3, 4, PPE_FAULT_IN));
	cr_expect_neq(key, ppe_fault_key(1, 2, 4, 4, PPE_FAULT_IN));
	cr_expect_neq(key, ppe_fault_key(1, 2, 3, 5, PPE_FAULT_IN));
	cr_expect_neq(key, ppe_fault_key(1, 2, 3, 4, PPE_FAULT_OUT));
}

/* Gilbert and Elliott: as many packets in bursts, and bursts as long, as the two chances say. */
Test(ppe_fault_choice, bursts_are_as_long_as_said)
{
	const struct ppe_fault_rule rule = {
		.choice = PPE_FAULT_BURST, .enter = 0.01, .leave = 0.2, .bad = 1};
	struct ppe_fault_stream stream = stream_of(5);
	unsigned int lost = 0, bursts = 0;
	bool before = false;

	for (uint64_t n = 1; n <= PACKETS; n++) {
		bool now = ppe_fault_choose(&rule, &stream, n);

		lost += now;
		bursts += now && !before;
		before = now;
	}
	cr_expect_float_eq((double)lost / PACKETS, 0.01 / 0.21, 0.005);
	cr_expect_float_eq((double)lost / bursts, 5, 0.3);
}

static double
mean_delay(const struct ppe_fault_rule *rule, uint64_t *least, uint64_t *most)
{
	struct ppe_fault_stream stream = stream_of(9);
	double sum = 0;

	*least = UINT64_MAX;
	*most = 0;
	for (uint64_t n = 1; n <= PACKETS; n++) {
		uint64_t us = ppe_fault_delay_us(rule, &stream, n);

		*least = RTE_MIN(*least, us);
		*most = RTE_MAX(*most, us);
		sum += (double)us;
	}
	return sum / PACKETS;
}

Test(ppe_fault_choice, delays_have_their_distributions)
{
	struct ppe_fault_rule rule = {.us = 1000, .most_us = 3000, .shape = 3};
	uint64_t least, most;

	cr_expect_eq(mean_delay(&rule, &least, &most), 1000);
	rule.delay = PPE_FAULT_UNIFORM;
	cr_expect_float_eq(mean_delay(&rule, &least, &most), 2000, 10);
	cr_expect(least >= 1000 && least < 1010 && most <= 3000 && most > 2990);
	rule.most_us = PPE_FAULT_DELAY_MAX_US;
	rule.delay = PPE_FAULT_EXPONENTIAL;
	cr_expect_float_eq(mean_delay(&rule, &least, &most), 1000, 15);
	rule.delay = PPE_FAULT_PARETO;
	cr_expect_float_eq(mean_delay(&rule, &least, &most), 1500, 30);
	cr_expect_geq(least, 1000);
	rule.most_us = 1200;
	mean_delay(&rule, &least, &most);
	cr_expect_eq(most, 1200);
}

Test(ppe_fault_choice, windows_come_again)
{
	struct ppe_fault_rule rule = {.from_ms = 10, .to_ms = 20};

	cr_expect(!ppe_fault_in_window(&rule, 9) && ppe_fault_in_window(&rule, 10));
	cr_expect(ppe_fault_in_window(&rule, 19) && !ppe_fault_in_window(&rule, 20));
	cr_expect(!ppe_fault_in_window(&rule, 110));
	rule.repeat_ms = 100;
	cr_expect(ppe_fault_in_window(&rule, 110) && !ppe_fault_in_window(&rule, 120));
	rule = (struct ppe_fault_rule){.from_ms = 10};
	cr_expect(!ppe_fault_in_window(&rule, 9) && ppe_fault_in_window(&rule, 1000000));
}

/* The heap gives packets back by time, and those of one time in the order in which they came. */
Test(ppe_fault_choice, what_is_held_comes_back_in_order)
{
	struct ppe_fault_store *store = calloc(1, sizeof(*store));
	struct ppe_fault_stream stream = stream_of(3);
	struct ppe_held last = {0};

	for (uint64_t i = 0; i < 1000; i++)
		ppe_held_push(store,
			(struct ppe_held){
				.due = ppe_fault_draw(&stream, i, 0) % 50 + 1, .serial = i});
	for (unsigned int i = 0; i < 500; i++) {
		struct ppe_held held = ppe_held_pop(store);

		cr_expect(held.due > last.due ||
			(held.due == last.due && (i == 0 || held.serial > last.serial)));
		last = held;
	}
	ppe_held_all_due(store);
	last.serial = 0;
	while (store->used > 0) {
		struct ppe_held held = ppe_held_pop(store);

		cr_expect(held.serial >= last.serial);
		last = held;
	}
	free(store);
}

/* A seed that somebody has written down is worth something as long as it means the same packets: also
 * after a restart, on another machine, in another version. */
Test(ppe_fault_choice, a_seed_means_the_same_for_ever)
{
	static const struct {
		uint64_t seed;
		unsigned int rule, port, queue;
		enum ppe_fault_direction direction;
		uint64_t hit[6];
	} known[] = {
		{1, 0, 0, 0, PPE_FAULT_IN, {3, 40, 47, 61, 75, 82}},
		{1, 0, 0, 0, PPE_FAULT_OUT, {6, 36, 47, 79, 173, 207}},
		{INT64_MAX, 63, 3, 2, PPE_FAULT_IN, {79, 82, 121, 213, 250, 304}},
	};
	const struct ppe_fault_rule rule = {.probability = 0.05};

	for (unsigned int i = 0; i < 3; i++) {
		struct ppe_fault_stream stream = {
			.key = ppe_fault_key(known[i].seed, known[i].rule, known[i].port,
				known[i].queue, known[i].direction)};
		unsigned int hits = 0;

		for (uint64_t n = 1; hits < 6; n++)
			if (ppe_fault_choose(&rule, &stream, n))
				cr_expect_eq(n, known[i].hit[hits++], "hit %u of %u is %lu", hits,
					i, (unsigned long)n);
	}
}
