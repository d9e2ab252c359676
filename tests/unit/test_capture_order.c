/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders of arrival: everything once, and never a block before its window. */
#include <string.h>

#include <criterion/criterion.h>

#include "apps/capture/capture.h"
#include "tests/random.h"

#define SOURCES_MAX 7
#define BLOCKS      150 /* no multiple of a window */

/* What the steps so far have said. */
struct heard {
	bool in[BLOCKS][SOURCES_MAX];
	unsigned int count[BLOCKS];
	uint64_t last[BLOCKS]; /* step of the last contribution */
	unsigned int steps, duplicates;
};

static void
take(struct heard *heard, const struct plan *c, const struct order_step *step)
{
	uint64_t b = step->block;

	cr_assert_lt(b, BLOCKS);
	cr_assert_lt(step->source, c->nb_sources);
	if (b >= c->job.window)
		cr_assert_eq(heard->count[b - c->job.window], c->nb_sources,
			"block %" PRIu64 " before block %" PRIu64 " is complete", b,
			b - c->job.window);
	if (step->duplicate) {
		cr_assert(heard->in[b][step->source], "a repeat comes first");
		cr_assert(b + c->job.window >= BLOCKS || heard->count[b + c->job.window] == 0,
			"block %" PRIu64 " is repeated after its result was used", b);
		cr_assert(!step->completes);
		heard->duplicates++;
		return;
	}
	cr_assert(!heard->in[b][step->source], "block %" PRIu64 ", source %u: twice", b,
		step->source);
	/* A switch works on many packets at a time: it has to be done with the block before. */
	if (b >= c->job.window && c->job.window > 1)
		cr_assert_geq(heard->steps - heard->last[b - c->job.window],
			(uint64_t)c->job.window / 2, "block %" PRIu64 " comes too soon", b);
	heard->in[b][step->source] = true;
	heard->last[b] = heard->steps;
	heard->count[b]++;
	heard->steps++;
	cr_assert_eq(step->completes, heard->count[b] == c->nb_sources);
}

static void
check_order(const struct plan *c)
{
	struct heard heard;
	struct order *order = capture_order_create(c);
	struct order_step step;

	memset(&heard, 0, sizeof(heard));
	cr_assert_not_null(order);
	while (order_next(order, &step))
		take(&heard, c, &step);
	cr_assert_eq(heard.steps, BLOCKS * c->nb_sources);
	if (c->duplicates == 0)
		cr_assert_eq(heard.duplicates, 0);
	else if (c->nb_sources > 1 && c->job.window >= 16)
		cr_assert_gt(heard.duplicates, heard.steps / 20);
	capture_order_destroy(order);
}

/* The same seed gives the same order, another one another. */
static void
check_seed(struct plan plan)
{
	struct plan another = plan;
	struct order *order = capture_order_create(&plan), *again = capture_order_create(&plan),
		     *other;
	struct order_step x, y, z;
	bool differs = false;

	another.seed++;
	other = capture_order_create(&another);
	while (order_next(order, &x)) {
		cr_assert(order_next(again, &y));
		cr_assert(x.block == y.block && x.source == y.source);
		differs |= order_next(other, &z) && (x.block != z.block || x.source != z.source);
	}
	cr_assert(differs, "another seed, and the same order");
	capture_order_destroy(order);
	capture_order_destroy(again);
	capture_order_destroy(other);
}

Test(capture_order, everything_once_and_in_its_window, .timeout = 90)
{
	static const uint16_t windows[] = {1, 2, 16, 64, 256};
	uint64_t from = random_seed();

	for (unsigned int w = 0; w < sizeof(windows) / sizeof(windows[0]); w++)
		for (unsigned int s = 1; s <= SOURCES_MAX; s += 2)
			for (unsigned int o = CAPTURE_BLOCKS; o <= CAPTURE_RANDOM; o++)
				for (unsigned int d = 0; d <= 30; d += 30) {
					struct plan c = {.order = (enum capture_order)o,
						.nb_sources = s,
						.job.window = windows[w],
						.blocks = BLOCKS,
						.seed = from + w,
						.duplicates = d};

					check_order(&c);
					if (o == CAPTURE_RANDOM && windows[w] >= 16 && s > 1)
						check_seed(c);
				}
}

Test(capture_order, counting_orders_count, .timeout = 90)
{
	struct plan c = {.nb_sources = 2, .job.window = 2, .blocks = 3};
	/* source, block */
	static const unsigned int by_blocks[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}};
	static const unsigned int by_sources[][2] = {
		{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {1, 2}};

	for (unsigned int o = CAPTURE_BLOCKS; o <= CAPTURE_SOURCES; o++) {
		const unsigned int(*want)[2] = o == CAPTURE_BLOCKS ? by_blocks : by_sources;
		struct order_step step;
		struct order *order;

		c.order = (enum capture_order)o;
		order = capture_order_create(&c);
		for (unsigned int i = 0; i < 6; i++) {
			cr_assert(order_next(order, &step));
			cr_expect_eq(step.source, want[i][0]);
			cr_expect_eq(step.block, want[i][1]);
		}
		cr_expect(!order_next(order, &step));
		capture_order_destroy(order);
	}
}
