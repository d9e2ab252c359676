/* SPDX-License-Identifier: BSD-3-Clause */
/* The orders of arrival, as laps. */
#include "apps/bench/order.h"

#include <stdbool.h>
#include <stdlib.h>

#include <rte_common.h>

#include "apps/bench/bench.h"

static struct step
step_of(const struct order_config *c, unsigned int row, unsigned int source)
{
	return (struct step){.frame = row * c->sources + source,
		.slot = (uint16_t)(row % c->slots),
		.source = (uint16_t)source};
}

/* The order is the same in each half: what opens blocks opens them in the same order in each window. */
static void
shuffle(struct step *step, unsigned int n)
{
	uint64_t state = 1;

	for (unsigned int i = n; i > 1; i--) {
		unsigned int other = (unsigned int)(bench_random(&state) % i);

		RTE_SWAP(step[i - 1], step[other]);
	}
}

static void
make_halves(const struct order_config *c, struct step *step)
{
	unsigned int half = c->slots > 1 ? c->slots / 2 : 1, n = 0;

	for (unsigned int from = 0, to; from < c->rows; from = to) {
		unsigned int first = n, end = from - from % c->slots + c->slots;

		to = RTE_MIN(from + half, end);
		for (unsigned int i = 0; i < (to - from) * c->sources; i++) {
			bool by_source = c->order == ORDER_SOURCE;
			unsigned int k = by_source ? i % (to - from) : i / c->sources;
			unsigned int s = by_source ? i / (to - from) : i % c->sources;

			step[n++] = step_of(c, from + k, s);
		}
		if (c->order == ORDER_RANDOM)
			shuffle(step + first, n - first);
	}
}

/* sent: by source of one job, blocks. How many more may a source send, out of `blocks`? */
static unsigned int
may_send(const struct order_config *c, const unsigned int *sent, unsigned int source,
	unsigned int blocks)
{
	unsigned int under_way = c->slots / c->jobs, least = blocks;

	for (unsigned int s = 0; s < c->sources; s++)
		least = RTE_MIN(least, sent[s]);
	return RTE_MIN(least + RTE_MAX(under_way / 2, 1u), blocks) - sent[source];
}

/* Any source of any job that may send, sends a run; until all have sent all. */
static int
make_runs(const struct order_config *c, struct step *step)
{
	unsigned int blocks = c->rows / c->jobs, all = c->rows * c->sources;
	unsigned int *sent = calloc((size_t)c->jobs * c->sources, sizeof(*sent));
	uint64_t state = c->seed;

	if (sent == NULL)
		return -1;
	for (unsigned int n = 0; n < all;) {
		unsigned int job = (unsigned int)(bench_random(&state) % c->jobs);
		unsigned int source = (unsigned int)(bench_random(&state) % c->sources);
		unsigned int run = 1 + (unsigned int)(bench_random(&state) % ORDER_RUN);
		unsigned int *own = sent + (size_t)job * c->sources;

		run = RTE_MIN(run, may_send(c, own, source, blocks));
		for (; run > 0; run--)
			step[n++] = step_of(c, own[source]++ * c->jobs + job, source);
	}
	free(sent);
	return 0;
}

struct step *
lap_create(const struct order_config *c)
{
	struct step *step = calloc((size_t)c->rows * c->sources, sizeof(*step));

	if (step == NULL)
		return NULL;
	if (c->order != ORDER_RUNS) {
		make_halves(c, step);
	} else if (make_runs(c, step) < 0) {
		free(step);
		return NULL;
	}
	return step;
}
