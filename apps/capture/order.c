/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/order.h"

#include <stdlib.h>

#define RECENT 16 /* steps that can be repeated */

struct order {
	struct order_config c;
	uint64_t random;
	uint64_t block,
		base; /* of the orders that count: where they are, where the window begins */
	unsigned int source;
	struct order_step *ready; /* random order: what may be sent by now */
	uint64_t nb_ready;
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
	return order->c.blocks == 0 || b < order->c.blocks;
}

/* Every source may send block b. */
static void
make_ready(struct order *order, uint64_t b)
{
	for (unsigned int s = 0; within(order, b) && s < order->c.sources; s++)
		order->ready[order->nb_ready++] = (struct order_step){.block = b, .source = s};
}

struct order *
order_create(const struct order_config *config)
{
	struct order *order = calloc(1, sizeof(*order));

	if (order == NULL)
		return NULL;
	order->c = *config;
	order->random = config->seed;
	order->begun = calloc(config->window, sizeof(*order->begun));
	order->heard = calloc(config->window, sizeof(*order->heard));
	if (config->order == CAPTURE_RANDOM)
		order->ready =
			calloc((size_t)config->window * config->sources, sizeof(*order->ready));
	if (order->begun == NULL || order->heard == NULL ||
		(config->order == CAPTURE_RANDOM && order->ready == NULL)) {
		order_destroy(order);
		return NULL;
	}
	for (uint32_t b = 0; order->ready != NULL && b < config->window; b++)
		make_ready(order, b);
	return order;
}

void
order_destroy(struct order *order)
{
	if (order == NULL)
		return;
	free(order->begun);
	free(order->heard);
	free(order->ready);
	free(order);
}

static bool
by_blocks(struct order *order, struct order_step *step)
{
	if (!within(order, order->block))
		return false;
	*step = (struct order_step){.block = order->block, .source = order->source};
	if (++order->source == order->c.sources) {
		order->source = 0;
		order->block++;
	}
	return true;
}

static bool
by_sources(struct order *order, struct order_step *step)
{
	uint64_t end = order->base + order->c.window;

	if (!within(order, order->block))
		return false;
	*step = (struct order_step){.block = order->block, .source = order->source};
	if (++order->block < end && within(order, order->block))
		return true;
	order->block = order->base;
	if (++order->source == order->c.sources) {
		order->source = 0;
		order->block = order->base = end;
	}
	return true;
}

static bool
at_random(struct order *order, struct order_step *step)
{
	uint64_t chosen;

	if (order->nb_ready == 0)
		return false;
	chosen = order_random(&order->random) % order->nb_ready;
	*step = order->ready[chosen];
	order->ready[chosen] = order->ready[--order->nb_ready];
	return true;
}

/* One of the last steps, if its block was not yet followed by the next of its residue: then its
 * source may still be waiting for the result. */
static bool
repeat(struct order *order, struct order_step *step)
{
	uint64_t have = order->nb_recent < RECENT ? order->nb_recent : RECENT;

	if (have == 0 || order_random(&order->random) % 100 >= order->c.duplicates)
		return false;
	*step = order->recent[order_random(&order->random) % have];
	step->duplicate = true;
	step->completes = false;
	return order->begun[step->block % order->c.window] == step->block + 1;
}

bool
order_next(struct order *order, struct order_step *step)
{
	uint64_t residue;
	bool more = false;

	if (order->c.duplicates > 0 && repeat(order, step))
		return true;
	switch (order->c.order) {
	case CAPTURE_BLOCKS: more = by_blocks(order, step); break;
	case CAPTURE_SOURCES: more = by_sources(order, step); break;
	case CAPTURE_RANDOM: more = at_random(order, step); break;
	}
	if (!more)
		return false;
	residue = step->block % order->c.window;
	order->begun[residue] = step->block + 1;
	step->completes = ++order->heard[residue] == order->c.sources;
	if (step->completes) {
		order->heard[residue] = 0;
		if (order->ready != NULL)
			make_ready(order, step->block + order->c.window);
	}
	order->recent[order->nb_recent++ % RECENT] = *step;
	return true;
}
