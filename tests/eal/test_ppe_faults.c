/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults on the bench: each kind alone, the same seed twice, what is held, and packet accounting. */
#include "tests/eal/fault_rig.h"

#define FRAMES 200

static void
start_with(unsigned int workers)
{
	start(.workers = workers, .change = without_jobs);
	faults = (struct ppe_faults){.seed = 1, .held = 1024};
}

static void
clear(void)
{
	cr_assert_eq(ppe_publish_faults(rig.ppe, NULL), 0);
	faults.nb_rules = 0;
}

/* The numbers that leave by port 1, until nothing did for `ms`. */
static unsigned int
take_numbers(uint32_t *numbers, unsigned int most, unsigned int ms)
{
	unsigned int n = 0;

	while (n < most && rig_receive(&rig, 1, frame, ms) > 0)
		numbers[n++] = weir_get32(frame + 14);
	return n;
}

static unsigned int
play(uint32_t *numbers, unsigned int count)
{
	publish_faults();
	send_numbers(count);
	return take_numbers(numbers, 2 * count, 100);
}

static void
drops_a_list(unsigned int workers, enum ppe_fault_direction direction)
{
	uint32_t came[40];
	struct ppe_fault_rule *r;
	unsigned int n;

	start_with(workers);
	r = rule(direction, PPE_FAULT_DROP);
	r->port = direction == PPE_FAULT_IN ? 0 : 1;
	r->choice = PPE_FAULT_LIST;
	r->ordinals = 2;
	r->ordinal[0] = 2;
	r->ordinal[1] = 5;
	n = play(came, 8);
	cr_assert_eq(n, 6, "%u frames came", n);
	for (unsigned int i = 0; i < 6; i++)
		cr_expect_eq(came[i], ((const uint32_t[]){1, 3, 4, 6, 7, 8})[i]);
	cr_expect_eq(drops(PPE_DROP_FAULT_DROP), 2);
	cr_expect_eq(read_faults().matched[0], 8);
	cr_expect_eq(read_faults().hit[0], 2);
	stop();
}

CASE(ppe_faults, a_list_is_dropped_on_the_way_in, drops_a_list(1, PPE_FAULT_IN))
CASE(ppe_faults, a_list_is_dropped_on_the_way_out, drops_a_list(2, PPE_FAULT_OUT))

Test(ppe_faults, every_third_is_dropped_and_none_when_cleared, .timeout = 90)
{
	uint32_t came[60];
	struct ppe_fault_rule *r;

	start_with(1);
	r = rule(PPE_FAULT_OUT, PPE_FAULT_DROP);
	r->choice = PPE_FAULT_EVERY;
	r->nth = 3;
	cr_expect_eq(play(came, 30), 20);
	for (unsigned int i = 0; i < 20; i++)
		cr_expect_neq(came[i] % 3, 0);
	clear();
	cr_expect_null(ppe_faults_of(rig.ppe));
	send_numbers(30);
	cr_expect_eq(take_numbers(came, 60, 100), 30);
	stop();
}

/* Each rule copies what comes, once, and in its place. */
static void
duplicates(enum ppe_fault_direction direction, unsigned int rules)
{
	uint32_t came[4 * FRAMES];
	uint64_t spared = 0;
	unsigned int n;

	start_with(1);
	for (unsigned int i = 0; i < rules; i++)
		rule(direction, PPE_FAULT_DUPLICATE)->port = direction == PPE_FAULT_IN ? 0 : 1;
	publish_faults();
	send_numbers(FRAMES);
	n = take_numbers(came, RTE_DIM(came), 100);
	for (unsigned int i = 0; i < rules; i++)
		spared += read_faults().spared[i];
	cr_expect_eq(read_faults().spared_ever, spared);
	cr_assert_eq(n + spared, (rules + 1) * FRAMES, "%u frames came", n);
	cr_expect_gt(n, rules * FRAMES);
	for (unsigned int i = 1; i < n; i++)
		cr_expect(came[i] == came[i - 1] || came[i] == came[i - 1] + 1);
	stop();
}

CASE(ppe_faults, frames_come_twice, duplicates(PPE_FAULT_IN, 1))
CASE(ppe_faults, frames_leave_twice, duplicates(PPE_FAULT_OUT, 1))
CASE(ppe_faults, each_rule_copies_what_comes, duplicates(PPE_FAULT_IN, 3))
CASE(ppe_faults, each_rule_copies_what_leaves, duplicates(PPE_FAULT_OUT, 3))

/* Nobody is overtaken by more than the distance, and somebody is. */
static void
reorders(enum ppe_fault_direction direction)
{
	uint32_t came[2 * FRAMES], most = 0;
	struct ppe_fault_rule *r;
	unsigned int n;

	start_with(1);
	r = rule(direction, PPE_FAULT_REORDER);
	r->port = direction == PPE_FAULT_IN ? 0 : 1;
	r->choice = PPE_FAULT_EVERY;
	r->nth = 10;
	r->distance = 4;
	n = play(came, FRAMES);
	cr_assert_eq(n, FRAMES, "%u frames came", n);
	for (unsigned int i = 0; i < n; i++) {
		uint32_t late = i + 1 > came[i] ? i + 1 - came[i] : 0;

		if (came[i] % 10 == 0 && came[i] != FRAMES)
			cr_expect(late >= 1 && late <= 4, "%u came as %u", came[i], i + 1);
		else
			cr_expect_eq(late, 0);
		most = RTE_MAX(most, late);
	}
	cr_expect_gt(most, 1);
	stop();
}

CASE(ppe_faults, frames_are_overtaken_on_the_way_in, reorders(PPE_FAULT_IN))
CASE(ppe_faults, frames_are_overtaken_on_the_way_out, reorders(PPE_FAULT_OUT))

Test(ppe_faults, a_delay_keeps_the_order_and_takes_its_time, .timeout = 90)
{
	uint32_t came[2 * 50];
	struct ppe_fault_rule *r;
	uint64_t began;

	start_with(2);
	r = rule(PPE_FAULT_OUT, PPE_FAULT_DELAY);
	r->us = 50000;
	publish_faults();
	began = now_us();
	send_numbers(50);
	cr_assert_gt(rig_receive(&rig, 1, frame, 2000), 0);
	cr_expect_geq(now_us() - began, 49000);
	cr_expect_eq(weir_get32(frame + 14), 1);
	cr_assert_eq(take_numbers(came, 100, 100), 49);
	for (unsigned int i = 0; i < 49; i++)
		cr_expect_eq(came[i], i + 2);
	cr_expect_eq(read_faults().held, 0);
	stop();
}

static unsigned int
flipped_bits(const uint8_t *now, uint32_t number)
{
	uint8_t then[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
	unsigned int bits = 0;

	weir_put16(then + 12, 0x88b5);
	weir_put32(then + 14, number);
	for (unsigned int i = 0; i < 64; i++)
		bits += (unsigned int)__builtin_popcount((unsigned int)(now[i] ^ then[i]));
	return bits;
}

Test(ppe_faults, one_bit_of_each_frame_is_flipped, .timeout = 90)
{
	unsigned int n = 0;

	start_with(1);
	rule(PPE_FAULT_OUT, PPE_FAULT_CORRUPT);
	publish_faults();
	send_numbers(100);
	while (rig_receive(&rig, 1, frame, 100) > 0) {
		n++;
		cr_expect_eq(flipped_bits(frame, n), 1, "frame %u", n);
	}
	cr_expect_eq(n, 100);
	stop();
}

Test(ppe_faults, a_black_out_ends, .timeout = 90)
{
	uint32_t came[20];
	struct ppe_fault_rule *r;

	start_with(1);
	r = rule(PPE_FAULT_IN, PPE_FAULT_BLACKOUT);
	r->to_ms = 600;
	cr_expect_eq(play(came, 10), 0);
	cr_expect_eq(drops(PPE_DROP_FAULT_BLACKOUT), 10);
	pass_ms(700);
	send_numbers(10);
	cr_expect_eq(take_numbers(came, 20, 100), 10);
	cr_expect_eq(read_faults().matched[0], 20, "what comes outside is counted, too");
	stop();
}

Test(ppe_faults, the_seed_decides, .timeout = 90)
{
	uint32_t came[3][2 * FRAMES];
	unsigned int n[3];

	start_with(2);
	rule(PPE_FAULT_IN, PPE_FAULT_DROP)->probability = 0.3;
	rule(PPE_FAULT_OUT, PPE_FAULT_DUPLICATE)->probability = 0.1;
	n[0] = play(came[0], FRAMES);
	n[1] = play(came[1], FRAMES);
	faults.seed = 2;
	n[2] = play(came[2], FRAMES);
	cr_expect_gt(n[0], FRAMES / 2);
	cr_expect_lt(n[0], FRAMES);
	cr_assert_eq(n[0], n[1]);
	cr_expect_eq(memcmp(came[0], came[1], n[0] * sizeof(uint32_t)), 0);
	cr_expect(n[0] != n[2] || memcmp(came[0], came[2], n[0] * sizeof(uint32_t)) != 0);
	stop();
}

static void
hold_ten(enum ppe_fault_direction direction, uint32_t held)
{
	struct ppe_fault_rule *r = rule(direction, PPE_FAULT_DELAY);

	r->us = PPE_FAULT_DELAY_MAX_US;
	r->port = direction == PPE_FAULT_IN ? 0 : 1;
	faults.held = held;
	publish_faults();
	send_numbers(10);
}

Test(ppe_faults, no_more_is_held_than_allowed, .timeout = 90)
{
	uint32_t came[20];

	start_with(1);
	hold_ten(PPE_FAULT_IN, 4);
	cr_expect_eq(take_numbers(came, 20, 100), 6);
	cr_expect_eq(came[0], 5);
	cr_expect_eq(read_faults().held, 4);
	cr_expect_eq(read_faults().spared_ever, 6);
	clear();
	cr_expect_eq(take_numbers(came, 20, 100), 4);
	cr_expect_eq(came[0], 1);
	stop();
}

Test(ppe_faults, other_faults_let_go_what_is_held, .timeout = 90)
{
	uint32_t came[20];
	struct ppe_stats stats;

	start_with(2);
	hold_ten(PPE_FAULT_OUT, 100);
	cr_expect_eq(take_numbers(came, 20, 100), 0);
	ppe_stats_read(rig.ppe, &stats);
	cr_expect_eq(stats.in_flight, 10);
	faults.nb_rules = 0;
	rule(PPE_FAULT_IN, PPE_FAULT_DROP);
	publish_faults();
	cr_expect_eq(take_numbers(came, 20, 100), 10, "they are not judged again");
	stop();
}

Test(ppe_faults, numbers_out_of_range_are_refused, .timeout = 90)
{
	start_with(1);
	rule(PPE_FAULT_IN, PPE_FAULT_DROP)->port = 2;
	cr_expect_eq(ppe_publish_faults(rig.ppe, &faults), -EINVAL);
	faults.rule[0].port = -1;
	faults.rule[0].probability = 1.5;
	cr_expect_eq(ppe_faults_check(&faults, 2), 0);
	faults.rule[0].probability = 1;
	faults.held = 0;
	cr_expect_eq(ppe_publish_faults(rig.ppe, &faults), -EINVAL);
	stop();
}
