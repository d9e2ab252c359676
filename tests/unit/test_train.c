/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-train without a switch: its data, its model, its slow hosts, and that it learns. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/stragglers/train.h"
#include "tests/random.h"

/* Large, so not on the stack. */
static struct train_model model;
static struct train_set set;
static struct train_run run;

Test(train, random_numbers_are_of_their_distribution, .timeout = 10)
{
	enum { COUNT = 100000 };
	uint64_t seed = random_seed();
	double u = 0, u2 = 0, n = 0, n2 = 0, together = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		double x = train_uniform(seed, TRAIN_STREAM_TRAIN, i);
		double y = train_normal(seed, TRAIN_STREAM_TEST, i);

		cr_assert(x >= 0 && x < 1);
		u += x;
		u2 += x * x;
		n += y;
		n2 += y * y;
		together += (x - 0.5) * (train_uniform(seed, TRAIN_STREAM_SLOW, i) - 0.5);
	}
	/* All within 6 standard deviations. */
	cr_expect_lt(fabs(u / COUNT - 0.5), 6 * sqrt(1 / 12.0 / COUNT));
	cr_expect_lt(fabs(u2 / COUNT - 1 / 3.0), 6 * sqrt(4 / 45.0 / COUNT));
	cr_expect_lt(fabs(n / COUNT), 6 * sqrt(1.0 / COUNT));
	cr_expect_lt(fabs(n2 / COUNT - 1), 6 * sqrt(2.0 / COUNT));
	cr_expect_lt(fabs(together / COUNT), 6 / 12.0 / sqrt(COUNT), "streams are independent");
}

Test(train, shares_are_a_partition_in_every_epoch, .timeout = 10)
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
		train_share_destroy(&share);
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

Test(train, data_are_a_function_of_seed_and_stream, .timeout = 10)
{
	struct train_set again, test, other;

	cr_assert_eq(train_set_make(&set, 5, TRAIN_STREAM_TRAIN, 100), 0);
	cr_assert_eq(train_set_make(&again, 5, TRAIN_STREAM_TRAIN, 100), 0);
	cr_assert_eq(train_set_make(&test, 5, TRAIN_STREAM_TEST, 100), 0);
	cr_assert_eq(train_set_make(&other, 6, TRAIN_STREAM_TRAIN, 100), 0);
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
Test(train, every_share_has_all_classes, .timeout = 10)
{
	enum { POINTS = 6000 };
	uint64_t seed = random_seed();

	cr_assert_eq(train_set_make(&set, seed, TRAIN_STREAM_TRAIN, POINTS), 0);
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
Test(train, gradient_is_that_of_the_loss, .timeout = 60)
{
	enum { POINTS = 20 };
	static float gradient[TRAIN_WEIGHTS], ignored[TRAIN_WEIGHTS];
	uint64_t seed = random_seed();
	uint32_t points[POINTS];
	double worst = 0, norm = 0;

	cr_assert_eq(train_set_make(&set, seed, TRAIN_STREAM_TRAIN, POINTS), 0);
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

Test(train, packed_sums_are_divided_block_by_block, .timeout = 10)
{
	static const unsigned int blocks[] = {
		2, 3, 17, 256, TRAIN_WEIGHTS, TRAIN_WEIGHTS + 1, 4096};
	static float gradient[TRAIN_WEIGHTS], packed[TRAIN_ELEMENTS_MAX], sum[TRAIN_ELEMENTS_MAX];
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
	train_pack(NULL, 256, packed);
	for (unsigned int e = 0; e < train_elements(256); e++)
		cr_assert_eq(packed[e], 0);
}

Test(train, a_checksum_sees_every_bit, .timeout = 10)
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

Test(train, slow_hosts_are_as_many_and_as_slow_as_asked, .timeout = 10)
{
	enum { COUNT = 60000, RANKS = 6 };
	struct train_options o = {.seed = random_seed(),
		.compute_ms = 10,
		.slow_ppm = 160000,
		.slow_min = 0.5,
		.slow_max = 2};
	unsigned int slow = 0, points[3] = {0}, together = 0;
	double sum = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		enum train_point point, again;
		double ms = train_slow_ms(&o, i % RANKS, i / RANKS, &point);

		cr_assert_eq(train_slow_ms(&o, i % RANKS, i / RANKS, &again), ms);
		cr_assert_eq(again, point);
		if (ms == 0)
			continue;
		cr_assert(ms >= 5 && ms <= 20, "%g ms", ms);
		together += train_slow_ms(&o, (i + 1) % RANKS, i / RANKS, &again) > 0;
		points[point]++;
		slow++;
		sum += ms;
	}
	cr_expect_lt(fabs((double)slow / COUNT - 0.16), 6 * sqrt(0.16 * 0.84 / COUNT));
	cr_expect_lt(fabs((double)together / slow - 0.16), 6 * sqrt(0.16 * 0.84 / slow), "pairs");
	cr_expect_lt(fabs(sum / slow - 12.5), 6 * 4.4 / sqrt(slow));
	for (unsigned int p = 0; p < 3; p++)
		cr_expect_lt(fabs((double)points[p] / slow - 1 / 3.0), 6 * 0.48 / sqrt(slow));
}

/* Train all hosts in this process. Returns the iterations that it took; 0: did not reach it. */
static unsigned int
train_alone(const struct train_options *options)
{
	unsigned int took;

	memset(&run, 0, sizeof(run));
	/* As rank 1, which prints nothing. */
	cr_assert_eq(train_prepare(&run, options, NULL, 1, 6), 0);
	cr_assert_eq(train_run_alone(&run), 0);
	took = run.reached ? run.iteration : 0;
	train_destroy(&run);
	return took;
}

Test(train, it_learns_whoever_is_late, .timeout = 100)
{
	struct train_options o = {.alone = true,
		.target = 0.95,
		.iterations = 1000,
		.every = 5,
		.batch = 64,
		.rate = 0.05,
		.momentum = 0.9,
		.compute_ms = 1,
		.slow_min = 0.5,
		.slow_max = 2};
	unsigned int all = 0, partial = 0, fed_back = 0;

	for (o.seed = 1; o.seed <= 3; o.seed++) {
		unsigned int took[3];

		o.slow_ppm = 0;
		took[0] = train_alone(&o);
		if (o.seed == 1)
			cr_expect_eq(train_alone(&o), took[0], "a function of the seed");
		o.slow_ppm = 160000;
		took[1] = train_alone(&o);
		o.weir.error_feedback = true;
		took[2] = train_alone(&o);
		o.weir.error_feedback = false;
		for (unsigned int i = 0; i < 3; i++)
			cr_expect(took[i] != 0, "seed %u, way %u: not reached",
				(unsigned int)o.seed, i);
		all += took[0];
		partial += took[1];
		fed_back += took[2];
	}
	/* A sixth of the gradients is missing, and it takes hardly longer. */
	cr_expect_lt(partial, all * 5 / 4, "%u iterations, and %u whole", partial, all);
	cr_expect_lt(fed_back, all * 5 / 4, "%u iterations, and %u whole", fed_back, all);
}
