/* SPDX-License-Identifier: BSD-3-Clause */
/* The orders in which a bench's contributions arrive: each frame once, and inside the window. */
#include "apps/bench/order.h"

#include <stdlib.h>

#include <criterion/criterion.h>

/* Each frame comes once, and a contribution when all sources have contributed to the slot's block before. Returns by how
 * many blocks a source was ahead of another one of its job at most. */
static unsigned int
check_lap(const struct order_config *c)
{
	unsigned int blocks = c->rows / c->jobs, most = 0;
	unsigned int *sent = calloc((size_t)c->jobs * c->sources, sizeof(*sent));
	struct step *lap = lap_create(c);

	cr_assert(lap != NULL && sent != NULL);
	for (unsigned int n = 0; n < c->rows * c->sources; n++) {
		unsigned int row = lap[n].frame / c->sources, least = blocks, furthest = 0;
		unsigned int *own = sent + row % c->jobs * c->sources;

		cr_assert(row < c->rows && lap[n].slot == row % c->slots);
		cr_assert(lap[n].source == lap[n].frame % c->sources);
		if (c->order != ORDER_RANDOM)
			cr_assert(own[lap[n].source] == row / c->jobs,
				"step %u: not the next block", n);
		own[lap[n].source]++;
		for (unsigned int s = 0; s < c->sources; s++) {
			least = own[s] < least ? own[s] : least;
			furthest = own[s] > furthest ? own[s] : furthest;
		}
		most = furthest - least > most ? furthest - least : most;
	}
	for (unsigned int i = 0; i < c->jobs * c->sources; i++)
		cr_assert(sent[i] == blocks, "a frame is missing, or comes twice");
	free(sent);
	free(lap);
	return most;
}

Test(bench_order, each_frame_once_inside_the_window)
{
	static const unsigned int each[] = {64, 5, 1}; /* slots of a job */

	for (enum order order = ORDER_RUNS; order < ORDERS; order++)
		for (unsigned int i = 0; i < 3 * 3; i++) {
			unsigned int jobs = order == ORDER_RUNS ? 1 + i % 3 * 4 : 1,
				     n = each[i / 3];
			const struct order_config c = {.order = order,
				.rows = 4 * n * jobs,
				.slots = n * jobs,
				.jobs = jobs,
				.sources = 8,
				.seed = i};
			unsigned int most = check_lap(&c);

			cr_assert(most <= (n > 1 ? n / 2 : 1), "order %u: %u of %u blocks ahead",
				order, most, n);
			cr_assert(order != ORDER_RUNS || n < 64 || most > 16,
				"sources are not apart");
		}
}
