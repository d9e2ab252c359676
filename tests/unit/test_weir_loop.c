/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-loop's plan and judgement: buckets, who is slow when, and which sums are right. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "apps/stragglers/loop.h"

#define COUNT 5000
#define RANKS 6

static float sum[COUNT];

/* The sum of the ranks in a set, of elements [0, COUNT). */
static void
add_up(uint64_t seed, unsigned int iteration, unsigned int set)
{
	static float x[COUNT];

	memset(sum, 0, sizeof(sum));
	for (unsigned int r = 0; r < RANKS; r++)
		if ((set >> r & 1) != 0) {
			loop_data_fill(seed, r, iteration, COUNT, x);
			for (unsigned int i = 0; i < COUNT; i++)
				sum[i] += x[i];
		}
}

static size_t
wrong(unsigned int set, unsigned int iteration, size_t first, size_t count)
{
	const uint8_t present[WEIR_BITMAP_BYTES] = {(uint8_t)set};

	return loop_data_wrong(7, RANKS, present, iteration, first, count, sum + first);
}

Test(weir_loop, every_subset_has_sums_of_its_own, .timeout = 10)
{
	for (unsigned int set = 1; set < 1u << RANKS; set++) {
		add_up(7, 3, set);
		for (unsigned int other = 1; other < 1u << RANKS; other++) {
			size_t bad = wrong(other, 3, 0, COUNT);

			if (other == set)
				cr_expect_eq(bad, 0u, "set %x", set);
			else
				cr_expect_gt(bad, COUNT * 9u / 10, "set %x for %x", set, other);
		}
	}
	add_up(7, 3, 0x3f);
	cr_expect_eq(loop_data_wrong(7, RANKS, NULL, 3, 0, COUNT, sum), 0u);
	cr_expect_eq(loop_data_wrong(7, RANKS, NULL, 3, 1000, 500, sum + 1000), 0u);
}

Test(weir_loop, what_is_out_of_its_place_is_wrong, .timeout = 10)
{
	add_up(7, 3, 0x3f);
	cr_expect_gt(wrong(0x3f, 4, 0, COUNT), COUNT * 9u / 10, "another iteration");
	cr_expect_gt(loop_data_wrong(7, RANKS, NULL, 3, 1, COUNT - 1, sum), COUNT * 9u / 10,
		"shifted by one");
	cr_expect_gt(loop_data_wrong(7, RANKS, NULL, 3, 2048, 2048, sum), 2000u, "another block");
	sum[4999] += 1;
	cr_expect_eq(wrong(0x3f, 3, 0, COUNT), 1u);
}

/* The largest job: sums in fp32 are exact, whatever the order. */
Test(weir_loop, sums_of_256_ranks_are_exact, .timeout = 10)
{
	static float x[COUNT];

	memset(sum, 0, sizeof(sum));
	for (unsigned int r = 256; r-- > 0;) {
		loop_data_fill(7, r, 3, COUNT, x);
		for (unsigned int i = 0; i < COUNT; i++)
			sum[i] += x[i];
	}
	cr_expect_eq(loop_data_wrong(7, 256, NULL, 3, 0, COUNT, sum), 0u);
}

Test(weir_loop, buckets_are_tensors_in_reverse, .timeout = 10)
{
	const size_t counts[] = {100, 10, 7, 50, 1};
	struct loop_plan plan;

	cr_assert_eq(loop_plan_make(&plan, counts, 5, 1, 60), 0);
	cr_assert_eq(plan.buckets, 3u, "%u", plan.buckets);
	cr_expect_eq(plan.first[1], 58u, "1, 50 and 7");
	cr_expect_eq(plan.first[2], 68u, "10");
	cr_expect_eq(plan.first[3], 168u, "100, which is larger than a bucket");
	cr_expect_eq(plan.elements, 168u);
	cr_expect_eq(loop_plan_blocks(&plan, 50), 2u + 1 + 2);
	loop_plan_destroy(&plan);
	cr_assert_eq(loop_plan_make(&plan, counts, 5, 20, 0), 0);
	cr_expect_eq(plan.buckets, 1u);
	cr_expect_eq(plan.elements, 5u + 1 + 1 + 3 + 1, "rounded, and never nothing");
	loop_plan_destroy(&plan);
}

Test(weir_loop, slow_hosts_are_as_many_and_as_slow_as_asked, .timeout = 10)
{
	struct loop_options o = {.slow_ppm = 160000,
		.slow_unit_us = 1000000,
		.slow_min = 0.5,
		.slow_max = 2,
		.seed = 3};
	unsigned int slow = 0, points[LOOP_POINTS] = {0};
	uint64_t us = 0, least = UINT64_MAX, most = 0;

	for (unsigned int k = 0; k < 10000; k++)
		for (unsigned int r = 0; r < RANKS; r++) {
			struct loop_slow s = loop_slow(&o, r, k);

			if (s.us == 0)
				continue;
			slow++;
			cr_assert_lt(s.point, LOOP_POINTS);
			points[s.point]++;
			us += s.us;
			least = s.us < least ? s.us : least;
			most = s.us > most ? s.us : most;
		}
	/* Four standard deviations of a binomial: 4 sqrt(n p q). */
	cr_expect(slow > 9600 - 360 && slow < 9600 + 360, "%u of 60000", slow);
	cr_expect(us / slow > 1230000 && us / slow < 1270000, "%f", (double)us / slow);
	cr_expect(least >= 500000 && least < 502000, "%f", (double)least);
	cr_expect(most < 2000000 && most > 1998000, "%f", (double)most);
	for (unsigned int p = 0; p < LOOP_POINTS; p++)
		cr_expect(points[p] > slow / 3 - 190 && points[p] < slow / 3 + 190, "%u: %u of %u",
			p, points[p], slow);
}

Test(weir_loop, who_is_slow_is_so_at_each_higher_probability, .timeout = 10)
{
	struct loop_options low = {
		.slow_ppm = 40000, .slow_unit_us = 1000, .slow_min = 0.5, .slow_max = 2, .seed = 3};
	struct loop_options high = low, other = low;
	unsigned int differ = 0;

	high.slow_ppm = 160000;
	other.seed = 4;
	for (unsigned int k = 0; k < 2000; k++) {
		struct loop_slow a = loop_slow(&low, 2, k), b = loop_slow(&high, 2, k);

		if (a.us != 0)
			cr_expect(a.us == b.us && a.point == b.point, "iteration %u", k);
		differ += (a.us != 0) != (loop_slow(&other, 2, k).us != 0);
	}
	cr_expect_gt(differ, 50u, "another seed, other hosts");
	low.slow_ppm = 0;
	cr_expect_eq(loop_slow(&low, 0, 0).us, 0u);
}
