/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <stdlib.h>

#define RECENT 16 /* steps that can be repeated */

struct order {
	const struct plan *plan;
	uint64_t random;
	uint32_t window;
	uint64_t block,
		base; /* of the orders that count: where they are, where the window begins */
	unsigned int source;
	struct order_step *half; /* random order: what is left of half a window, shuffled */
	uint64_t nb_half;
	uint64_t *begun; /* by residue: the newest block that was begun, plus one */
	uint16_t *heard; /* by residue: sources that are in it */
	struct order_step recent[RECENT];
	uint64_t nb_recent; /* ever */
};

uint64_t
order_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Is block b one of the capture? */
static bool
within(const struct order *order, uint64_t b)
{
	return order->plan->blocks == 0 || b < order->plan->blocks;
}

struct order *
capture_order_create(const struct plan *plan)
{
	struct order *order = calloc(1, sizeof(*order));
	uint32_t window = plan->job.window;

	if (order == NULL)
		return NULL;
	*order = (struct order){.plan = plan, .random = plan->seed, .window = window};
	order->begun = calloc(window, sizeof(*order->begun));
	order->heard = calloc(window, sizeof(*order->heard));
	order->half = calloc((size_t)window * plan->nb_sources, sizeof(*order->half));
	if (order->begun == NULL || order->heard == NULL || order->half == NULL) {
		capture_order_destroy(order);
		return NULL;
	}
	return order;
}

void
capture_order_destroy(struct order *order)
{
	if (order == NULL)
		return;
	free(order->begun);
	free(order->heard);
	free(order->half);
	free(order);
}

/* `blocks` blocks of one source, then the same of the next source; then the next blocks. */
static bool
in_turn(struct order *order, uint64_t blocks, struct order_step *step)
{
	uint64_t end = order->base + blocks;

	if (!within(order, order->block))
		return false;
	*step = (struct order_step){.block = order->block, .source = order->source};
	if (++order->block < end && within(order, order->block))
		return true;
	order->block = order->base;
	if (++order->source == order->plan->nb_sources) {
		order->source = 0;
		order->block = order->base = end;
	}
	return true;
}

/*
 * Any order within half a window of blocks, one half after the other. So between a block and the
 * next of its residue lies a whole half, from the last one to the first one of the next loop, too:
 * a source needs a moment from a result to its next contribution, and a switch works on several
 * packets at a time.
 */
static bool
at_random(struct order *order, struct order_step *step)
{
	uint64_t end = order->base + (order->window > 1 ? order->window / 2 : 1), chosen;

	if (order->nb_half == 0) {
		for (uint64_t b = order->base; b < end && within(order, b); b++)
			for (unsigned int s = 0; s < order->plan->nb_sources; s++)
				order->half[order->nb_half++] =
					(struct order_step){.block = b, .source = s};
		order->base = end;
	}
	if (order->nb_half == 0)
		return false;
	chosen = order_random(&order->random) % order->nb_half;
	*step = order->half[chosen];
	order->half[chosen] = order->half[--order->nb_half];
	return true;
}

/* One of the last steps, if its block was not yet followed by the next of its residue: then its
 * source may still be waiting for the result. */
static bool
repeat(struct order *order, struct order_step *step)
{
	uint64_t have = order->nb_recent < RECENT ? order->nb_recent : RECENT;

	if (have == 0 || order_random(&order->random) % 100 >= order->plan->duplicates)
		return false;
	*step = order->recent[order_random(&order->random) % have];
	step->duplicate = true;
	step->completes = false;
	return order->begun[step->block % order->window] == step->block + 1;
}

bool
order_next(struct order *order, struct order_step *step)
{
	uint64_t residue;
	bool more = false;

	if (order->plan->duplicates > 0 && repeat(order, step))
		return true;
	switch (order->plan->order) {
	case CAPTURE_BLOCKS: more = in_turn(order, 1, step); break;
	case CAPTURE_SOURCES: more = in_turn(order, order->window, step); break;
	case CAPTURE_RANDOM: more = at_random(order, step); break;
	}
	if (!more)
		return false;
	residue = step->block % order->window;
	order->begun[residue] = step->block + 1;
	step->completes = ++order->heard[residue] == order->plan->nb_sources;
	if (step->completes)
		order->heard[residue] = 0;
	order->recent[order->nb_recent++ % RECENT] = *step;
	return true;
}
