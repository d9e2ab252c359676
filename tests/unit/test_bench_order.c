/* SPDX-License-Identifier: BSD-3-Clause */
/* The orders in which a bench's contributions arrive: each frame once, and inside the window. */
#include "apps/bench/order.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/random.h"

static const struct order_config usual = {
	.rows = 256, .slots = 64, .jobs = 1, .sources = 8, .run_length = 32, .seed = 1};

/* A contribution comes when all sources have contributed to the slot's block before. Returns by how many blocks a source
 * was ahead of another one of its job at most. behind: by how many the first source was behind all others at least,
 * when it contributed before the others' end; may be NULL. */
static unsigned int
check_lap(const struct order_config *c, unsigned int *behind)
{
	unsigned int blocks = c->rows / c->jobs, most = 0;
	unsigned int *sent = calloc((size_t)c->jobs * c->sources, sizeof(*sent));
	struct step *lap = lap_create(c);

	cr_assert(lap != NULL && sent != NULL);
	for (unsigned int n = 0; n < c->rows * c->sources; n++) {
		unsigned int row = lap[n].frame / c->sources, job = row % c->jobs;
		unsigned int least = blocks, others = blocks, furthest = 0;
		unsigned int *own = sent + job * c->sources;

		cr_assert(row < c->rows && lap[n].slot == row % c->slots);
		cr_assert(lap[n].source == lap[n].frame % c->sources);
		if (c->order != ORDER_RANDOM)
			cr_assert(own[lap[n].source] == row / c->jobs,
				"step %u: not the next block", n);
		own[lap[n].source]++;
		for (unsigned int s = 0; s < c->sources; s++) {
			least = own[s] < least ? own[s] : least;
			others = s > 0 && own[s] < others ? own[s] : others;
			furthest = own[s] > furthest ? own[s] : furthest;
		}
		most = furthest - least > most ? furthest - least : most;
		if (behind != NULL && lap[n].source == 0 && others < blocks)
			*behind = others - own[0] < *behind ? others - own[0] : *behind;
	}
	for (unsigned int i = 0; i < c->jobs * c->sources; i++)
		cr_assert(sent[i] == blocks, "a frame is missing, or comes twice");
	free(sent);
	free(lap);
	return most;
}

Test(bench_order, fixed_orders)
{
	for (enum order order = ORDER_BLOCK; order <= ORDER_RANDOM; order++) {
		struct order_config c = usual;

		c.order = order;
		cr_assert(check_lap(&c, NULL) <= 32);
		c.slots = c.rows = 5;
		cr_assert(check_lap(&c, NULL) <= 2);
		c.slots = 1;
		cr_assert(check_lap(&c, NULL) <= 1);
	}
}

Test(bench_order, runs_are_inside_the_window)
{
	uint64_t seed = random_seed();

	for (unsigned int i = 0; i < 200; i++) {
		unsigned int jobs = 1 + (unsigned int)random_below(&seed, 9);
		unsigned int each = 1 + (unsigned int)random_below(&seed, 40);
		unsigned int behind = each, most;
		const struct order_config c = {.order = ORDER_RUNS,
			.jobs = jobs,
			.slots = jobs * each,
			.rows = jobs * each * (1 + (unsigned int)random_below(&seed, 5)),
			.sources = 2 + (unsigned int)random_below(&seed, 20),
			.run_length = 1 + (unsigned int)random_below(&seed, 64),
			.seed = random_bits(&seed),
			.late = random_below(&seed, 2)};

		most = check_lap(&c, &behind);
		cr_assert(most <= (each > 1 ? each / 2 : 1), "%u of %u blocks ahead", most, each);
		cr_assert(!c.late || behind >= each / 4, "late by %u of %u", behind, each);
	}
}

/* Sources are apart, and send in runs that are as long as they may be. */
Test(bench_order, runs_are_runs_with_skew)
{
	struct order_config c = usual;
	struct step *lap = lap_create(&c), *other;
	unsigned int runs = 1, all = c.rows * c.sources;

	cr_assert(lap != NULL);
	for (unsigned int n = 1; n < all; n++)
		runs += lap[n].source != lap[n - 1].source;
	cr_assert(runs > all / 32 && runs < all / 4, "%u runs", runs);
	cr_assert(check_lap(&c, NULL) > 16);
	other = lap_create(&c);
	cr_assert(other != NULL && memcmp(lap, other, all * sizeof(*lap)) == 0, "no seed");
	free(other);
	c.seed = 2;
	other = lap_create(&c);
	cr_assert(other != NULL && memcmp(lap, other, all * sizeof(*lap)) != 0, "one seed");
	free(other);
	free(lap);
}
