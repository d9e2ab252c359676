/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-train without a switch: data, model, tensors, slow hosts, and that the model learns. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/stragglers/train.h"
#include "tests/random.h"

/* Large, so not on the stack. */
static struct train_model model;
static struct train_set set;
static float sum[TRAIN_ELEMENTS_MAX], packed[TRAIN_ELEMENTS_MAX];

Test(train, random_numbers_are_of_their_distribution, .timeout = 90)
{
	enum { COUNT = 100000 };
	uint64_t seed = random_seed(), one = train_stream(seed, 1), other = train_stream(seed, 2);
	double u = 0, u2 = 0, together = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		double x = train_uniform(one, i);

		cr_assert(x >= 0 && x < 1);
		u += x;
		u2 += x * x;
		together += (x - 0.5) * (train_uniform(other, i) - 0.5);
	}
	/* All within 6 standard deviations. */
	cr_expect_lt(fabs(u / COUNT - 0.5), 6 * sqrt(1 / 12.0 / COUNT));
	cr_expect_lt(fabs(u2 / COUNT - 1 / 3.0), 6 * sqrt(4 / 45.0 / COUNT));
	cr_expect_lt(fabs(together / COUNT), 6 / 12.0 / sqrt(COUNT), "streams are independent");
}

Test(train, shares_are_a_partition_in_every_epoch, .timeout = 90)
{
	enum { POINTS = 1003, RANKS = 4, BATCH = 50 };
	static unsigned int seen[3][POINTS];
	static uint32_t first[2][BATCH];
	uint64_t seed = random_seed();

	for (unsigned int r = 0; r < RANKS; r++) {
		struct train_share share;

		cr_assert_eq(train_share_make(&share, seed, POINTS, r, RANKS), 0);
		cr_expect_eq(share.count, r < POINTS % RANKS ? 251u : 250u);
		for (unsigned int epoch = 0; epoch < 3; epoch++)
			for (unsigned int b = 0; b < share.count / BATCH; b++) {
				const uint32_t *batch = train_share_next(&share, BATCH);

				if (b == 0 && epoch < 2)
					memcpy(first[epoch], batch, sizeof(first[0]));
				cr_expect_eq(share.epoch, epoch);
				for (unsigned int i = 0; i < BATCH; i++) {
					cr_assert_lt(batch[i], POINTS);
					cr_assert_eq(batch[i] % RANKS, r);
					seen[epoch][batch[i]]++;
				}
			}
		cr_expect_neq(memcmp(first[0], first[1], sizeof(first[0])), 0, "shuffled anew");
		free(share.order);
	}
	for (unsigned int epoch = 0; epoch < 3; epoch++) {
		unsigned int points = 0;

		for (unsigned int p = 0; p < POINTS; p++) {
			cr_assert_leq(seen[epoch][p], 1u, "point %u twice", p);
			points += seen[epoch][p];
		}
		cr_expect_eq(points, RANKS * (250u / BATCH) * BATCH);
	}
}

Test(train, data_are_a_function_of_seed_and_stream, .timeout = 90)
{
	struct train_set again, test, other;

	cr_assert_eq(train_set_make(&set, train_stream(5, TRAIN_STREAM_TRAIN), 100), 0);
	cr_assert_eq(train_set_make(&again, train_stream(5, TRAIN_STREAM_TRAIN), 100), 0);
	cr_assert_eq(train_set_make(&test, train_stream(5, TRAIN_STREAM_TEST), 100), 0);
	cr_assert_eq(train_set_make(&other, train_stream(6, TRAIN_STREAM_TRAIN), 100), 0);
	cr_expect_eq(memcmp(set.x, again.x, 100 * sizeof(*set.x)), 0);
	cr_expect_eq(memcmp(set.label, again.label, 100), 0);
	for (unsigned int i = 0; i < 100; i++) {
		cr_expect_neq(memcmp(set.x[i], test.x[i], sizeof(*set.x)), 0, "held out");
		cr_expect_neq(memcmp(set.x[i], other.x[i], sizeof(*set.x)), 0, "seed");
	}
	train_set_destroy(&set);
	train_set_destroy(&again);
	train_set_destroy(&test);
	train_set_destroy(&other);
}

/* However many hosts there are: a share without some class would be missed when its host is late. */
Test(train, every_share_has_all_classes, .timeout = 90)
{
	enum { POINTS = 6000 };
	uint64_t seed = random_seed();

	cr_assert_eq(train_set_make(&set, train_stream(seed, TRAIN_STREAM_TRAIN), POINTS), 0);
	for (unsigned int ranks = 1; ranks <= 8; ranks++) {
		unsigned int of[8][TRAIN_CLASSES] = {0};

		for (unsigned int p = 0; p < POINTS; p++)
			of[p % ranks][set.label[p]]++;
		for (unsigned int r = 0; r < ranks; r++)
			for (unsigned int class = 0; class < TRAIN_CLASSES; class ++) {
				double n = (double)POINTS / ranks / TRAIN_CLASSES;

				cr_expect_lt(fabs(of[r][class] - n), 6 * sqrt(n), "%u of %u: %u", r,
					ranks, of[r][class]);
			}
	}
	train_set_destroy(&set);
}

/* Central differences of the loss: what is left is of the order of step^2. */
Test(train, gradient_is_that_of_the_loss, .timeout = 90)
{
	enum { POINTS = 20 };
	static float gradient[TRAIN_WEIGHTS], ignored[TRAIN_WEIGHTS];
	uint64_t seed = random_seed();
	uint32_t points[POINTS];
	double worst = 0, norm = 0;

	cr_assert_eq(train_set_make(&set, train_stream(seed, TRAIN_STREAM_TRAIN), POINTS), 0);
	train_model_init(&model, seed);
	for (uint32_t i = 0; i < POINTS; i++)
		points[i] = POINTS - 1 - i;
	train_gradient(&model, &set, points, POINTS, gradient);
	for (unsigned int i = 0; i < TRAIN_WEIGHTS; i++) {
		float was = model.weights[i], up = was + 1e-3f, down = was - 1e-3f;
		double above, below, slope;

		model.weights[i] = up;
		above = train_gradient(&model, &set, points, POINTS, ignored);
		model.weights[i] = down;
		below = train_gradient(&model, &set, points, POINTS, ignored);
		model.weights[i] = was;
		slope = (above - below) / ((double)up - (double)down);
		worst = fmax(worst, fabs(slope - (double)gradient[i]));
		norm += slope * slope;
	}
	cr_expect_lt(worst, 2e-5 * fmax(1, sqrt(norm)), "off by %g, |gradient| is %g", worst,
		sqrt(norm));
	cr_expect_gt(sqrt(norm), 0.01);
	train_set_destroy(&set);
}

Test(train, packed_sums_are_divided_block_by_block, .timeout = 90)
{
	static const unsigned int blocks[] = {
		2, 3, 17, 256, TRAIN_WEIGHTS, TRAIN_WEIGHTS + 1, 4096};
	static float gradient[TRAIN_WEIGHTS];
	static float expected[TRAIN_WEIGHTS];

	for (unsigned int i = 0; i < TRAIN_WEIGHTS; i++)
		gradient[i] = (float)i / 1024 - 0.5f;
	for (unsigned int k = 0; k < sizeof(blocks) / sizeof(blocks[0]); k++) {
		unsigned int block = blocks[k], elements = train_elements(block);
		unsigned int counted = 0, first = 0;

		cr_assert_leq(elements, (unsigned int)TRAIN_ELEMENTS_MAX);
		train_model_init(&model, 1);
		memcpy(expected, model.weights, sizeof(expected));
		train_pack(gradient, block, packed);
		/* Blocks in turn of 3, 0, 1 and 2 gradients. */
		for (unsigned int e = 0; e < elements; e++) {
			unsigned int hosts = (3 + e / block) % 4;
			bool last = e % block == block - 1 || e == elements - 1;

			sum[e] = packed[e] * (float)hosts;
			counted += last && packed[e] == 1;
			if (!last && hosts != 0)
				expected[first] -= 0.5f * (sum[e] / (float)hosts);
			first += !last;
		}
		cr_assert_eq(first, (unsigned int)TRAIN_WEIGHTS, "block %u: %u", block, first);
		cr_expect_eq(counted, (elements + block - 1) / block);
		train_step(&model, sum, block, 0.5f, 0.9f);
		cr_expect_eq(
			memcmp(model.weights, expected, sizeof(expected)), 0, "block %u", block);
	}
}

Test(train, a_checksum_sees_every_bit, .timeout = 90)
{
	uint64_t before;

	train_model_init(&model, 1);
	before = train_checksum(&model);
	cr_expect_eq(train_checksum(&model), before);
	((uint8_t *)&model.weights[TRAIN_WEIGHTS - 1])[0] ^= 1;
	cr_expect_neq(train_checksum(&model), before);
	train_model_init(&model, 1);
	((uint8_t *)&model.velocity[TRAIN_WEIGHTS / 2])[3] ^= 0x80;
	cr_expect_neq(train_checksum(&model), before);
}

#define COUNT 5000
#define RANKS 6

static float all[COUNT];

/* The sum of the ranks of a set, of elements [0, COUNT). */
static void
add_up(uint64_t seed, unsigned int iteration, unsigned int who)
{
	static float x[COUNT];

	memset(all, 0, sizeof(all));
	for (unsigned int r = 0; r < RANKS; r++)
		if ((who >> r & 1) != 0) {
			train_tensors_fill(seed, r, iteration, COUNT, x);
			for (unsigned int i = 0; i < COUNT; i++)
				all[i] += x[i];
		}
}

static size_t
wrong(unsigned int who, unsigned int iteration, size_t first, size_t count)
{
	const uint8_t present[WEIR_BITMAP_BYTES] = {(uint8_t)who};

	return train_tensors_wrong(7, RANKS, present, iteration, first, count, all + first);
}

Test(train, every_subset_has_sums_of_its_own, .timeout = 90)
{
	for (unsigned int who = 1; who < 1u << RANKS; who++) {
		add_up(7, 3, who);
		for (unsigned int other = 1; other < 1u << RANKS; other++) {
			size_t bad = wrong(other, 3, 0, COUNT);

			if (other == who)
				cr_expect_eq(bad, 0u, "who %x", who);
			else
				cr_expect_gt(bad, COUNT * 9u / 10, "set %x for %x", who, other);
		}
	}
	add_up(7, 3, 0x3f);
	cr_expect_eq(train_tensors_wrong(7, RANKS, NULL, 3, 0, COUNT, all), 0u);
	cr_expect_eq(train_tensors_wrong(7, RANKS, NULL, 3, 1000, 500, all + 1000), 0u);
}

Test(train, what_is_out_of_its_place_is_wrong, .timeout = 90)
{
	add_up(7, 3, 0x3f);
	cr_expect_gt(wrong(0x3f, 4, 0, COUNT), COUNT * 9u / 10, "another iteration");
	cr_expect_gt(train_tensors_wrong(7, RANKS, NULL, 3, 1, COUNT - 1, all), COUNT * 9u / 10,
		"shifted by one");
	cr_expect_gt(
		train_tensors_wrong(7, RANKS, NULL, 3, 2048, 2048, all), 2000u, "another block");
	all[4999] += 1;
	cr_expect_eq(wrong(0x3f, 3, 0, COUNT), 1u);
}

/* The largest job: sums in fp32 are exact, whatever the order. */
Test(train, sums_of_256_ranks_are_exact, .timeout = 90)
{
	static float x[COUNT];

	memset(all, 0, sizeof(all));
	for (unsigned int r = 256; r-- > 0;) {
		train_tensors_fill(7, r, 3, COUNT, x);
		for (unsigned int i = 0; i < COUNT; i++)
			all[i] += x[i];
	}
	cr_expect_eq(train_tensors_wrong(7, 256, NULL, 3, 0, COUNT, all), 0u);
}

Test(train, buckets_are_tensors_in_reverse, .timeout = 90)
{
	const size_t counts[] = {100, 10, 7, 50, 1};
	struct train_buckets plan;

	cr_assert_eq(train_buckets_make(&plan, counts, 5, 1, 60), 0);
	cr_assert_eq(plan.buckets, 3u, "%u", plan.buckets);
	cr_expect_eq(plan.first[1], 58u, "1, 50 and 7");
	cr_expect_eq(plan.first[2], 68u, "10");
	cr_expect_eq(plan.first[3], 168u, "100, which is larger than a bucket");
	cr_expect_eq(plan.elements, 168u);
	cr_expect_eq(train_buckets_blocks(&plan, 50), 2u + 1 + 2);
	free(plan.first);
	cr_assert_eq(train_buckets_make(&plan, counts, 5, 20, 0), 0);
	cr_expect_eq(plan.buckets, 1u);
	cr_expect_eq(plan.elements, 5u + 1 + 1 + 3 + 1, "rounded, and never nothing");
	free(plan.first);
}

Test(train, slow_hosts_are_as_many_and_as_slow_as_asked, .timeout = 90)
{
	struct train_options o = {.slow_ppm = 160000,
		.slow_unit_us = 1000000,
		.slow_min = 0.5,
		.slow_max = 2,
		.seed = 3};
	unsigned int slow = 0, points[TRAIN_POINTS] = {0};
	uint64_t us = 0, least = UINT64_MAX, most = 0;

	for (unsigned int k = 0; k < 10000; k++)
		for (unsigned int r = 0; r < RANKS; r++) {
			struct train_slow s = train_slow(&o, r, k);

			if (s.us == 0)
				continue;
			slow++;
			cr_assert_lt(s.point, TRAIN_POINTS);
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
	for (unsigned int p = 0; p < TRAIN_POINTS; p++)
		cr_expect(points[p] > slow / 3 - 190 && points[p] < slow / 3 + 190, "%u: %u of %u",
			p, points[p], slow);
}

Test(train, who_is_slow_is_so_at_each_higher_probability, .timeout = 90)
{
	struct train_options low = {
		.slow_ppm = 40000, .slow_unit_us = 1000, .slow_min = 0.5, .slow_max = 2, .seed = 3};
	struct train_options high = low, other = low;
	unsigned int differ = 0;

	high.slow_ppm = 160000;
	other.seed = 4;
	for (unsigned int k = 0; k < 2000; k++) {
		struct train_slow a = train_slow(&low, 2, k), b = train_slow(&high, 2, k);

		if (a.us != 0)
			cr_expect(a.us == b.us && a.point == b.point, "iteration %u", k);
		differ += (a.us != 0) != (train_slow(&other, 2, k).us != 0);
	}
	cr_expect_gt(differ, 50u, "another seed, other hosts");
	low.slow_ppm = 0;
	cr_expect_eq(train_slow(&low, 0, 0).us, 0u);
}

/* Train RANKS hosts in this process; a slow host misses its iteration. Returns the iterations that it took; 0: the
 * target was not reached. */
static unsigned int
iterations_to_learn(const struct train_options *o)
{
	enum { BLOCK = 256, MOST = 1000 };
	static float owed[RANKS][TRAIN_ELEMENTS_MAX], gradient[TRAIN_WEIGHTS];
	unsigned int elements = train_elements(BLOCK), took = 0;
	struct train_share share[RANKS];
	struct train_set test;

	memset(owed, 0, sizeof(owed));
	cr_assert_eq(train_set_make(&set, train_stream(o->seed, TRAIN_STREAM_TRAIN), 6000), 0);
	cr_assert_eq(train_set_make(&test, train_stream(o->seed, TRAIN_STREAM_TEST), 1000), 0);
	train_model_init(&model, o->seed);
	for (unsigned int r = 0; r < RANKS; r++)
		cr_assert_eq(train_share_make(&share[r], o->seed, 6000, r, RANKS), 0);
	for (unsigned int k = 0; k < MOST && took == 0; k++) {
		memset(sum, 0, sizeof(sum));
		for (unsigned int r = 0; r < RANKS; r++) {
			bool slow = train_slow(o, r, k).us != 0;

			train_gradient(&model, &set, train_share_next(&share[r], 64), 64, gradient);
			train_pack(gradient, BLOCK, packed);
			for (unsigned int i = 0; i < elements; i++) {
				float x = packed[i] + owed[r][i];

				owed[r][i] = slow && o->weir.error_feedback ? x : 0;
				sum[i] += slow ? 0 : x;
			}
		}
		train_step(&model, sum, BLOCK, 0.05f, 0.9f);
		if (k % 5 == 4 && train_evaluate(&model, &test).accuracy >= 0.95)
			took = k + 1;
	}
	for (unsigned int r = 0; r < RANKS; r++)
		free(share[r].order);
	train_set_destroy(&set);
	train_set_destroy(&test);
	return took;
}

Test(train, it_learns_whoever_is_late, .timeout = 100)
{
	struct train_options o = {.compute_us = 1000, .slow_min = 0.5, .slow_max = 2};
	unsigned int all_in = 0, partial = 0, feedback = 0;

	for (o.seed = 1; o.seed <= 3; o.seed++) {
		unsigned int took[3];

		o.slow_ppm = 0;
		took[0] = iterations_to_learn(&o);
		if (o.seed == 1)
			cr_expect_eq(iterations_to_learn(&o), took[0], "a function of the seed");
		o.slow_ppm = 160000;
		took[1] = iterations_to_learn(&o);
		o.weir.error_feedback = true;
		took[2] = iterations_to_learn(&o);
		o.weir.error_feedback = false;
		for (unsigned int i = 0; i < 3; i++)
			cr_expect(took[i] != 0, "seed %u, run %u: not reached",
				(unsigned int)o.seed, i);
		all_in += took[0];
		partial += took[1];
		feedback += took[2];
	}
	/* A sixth of the gradients is missing, and it takes hardly longer. */
	cr_expect_lt(partial, all_in * 5 / 4, "%u iterations, and %u with all", partial, all_in);
	cr_expect_lt(feedback, all_in * 5 / 4, "%u iterations, and %u with all", feedback, all_in);
}
