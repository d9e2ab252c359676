/* SPDX-License-Identifier: BSD-3-Clause */
/* The bare kernel: what the arithmetic alone takes. */
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "apps/bench/generator_priv.h"

#define BATCH    64 /* packets between looks at the clock */
#define PREFETCH 1024u /* bytes of a payload: 7 % faster at 4 KiB than without, as 32 lines are */

static size_t
buffer_bytes(const struct generator_work *work)
{
	/* A line apart, as DataMemory's headers keep them. */
	return RTE_ALIGN(work->elements * rmw_type_size(work->type) + WEIR_BITMAP_BYTES, 64u) + 64;
}

int
bare_create(struct bare *bare, const struct generator_work *work)
{
	unsigned int n = 2 * work->window;

	bare->memory = rte_malloc("bare", n * buffer_bytes(work), 4096);
	bare->free = calloc(n, sizeof(*bare->free));
	bare->buffer = calloc(work->depth, sizeof(*bare->buffer));
	bare->kept = calloc(work->window, sizeof(*bare->kept));
	bare->left = calloc(work->depth, sizeof(*bare->left));
	bare->residue = calloc(work->depth, sizeof(*bare->residue));
	if (bare->memory == NULL)
		return -1;
	/* The first buffer on top. */
	for (unsigned int i = n; i-- > 0;)
		bare->free[bare->nb_free++] = bare->memory + i * buffer_bytes(work);
	bare->reduce = rmw_reduction(work->type, RMW_OP_SUM)->reduce;
	bare->copy = rmw_kernel_copy();
	return 0;
}

void
bare_destroy(struct bare *bare)
{
	rte_free(bare->memory);
	free(bare->free);
	free(bare->buffer);
	free(bare->kept);
	free(bare->left);
	free(bare->residue);
}

static void
finish(struct bare *bare, unsigned int slot)
{
	unsigned int residue = bare->residue[slot];

	if (bare->kept[residue] != NULL)
		bare->free[bare->nb_free++] = bare->kept[residue];
	bare->kept[residue] = bare->buffer[slot];
}

static inline const uint8_t *
payload(const struct generator *g)
{
	uint32_t step = g->step[g->bare.at];
	unsigned int row = g->bare.round * g->work->depth + (step >> 16);

	return g->frames->payload[row * g->work->sources + (step & 0xffff)];
}

/* The switch has its next payloads prefetched, and so has this: the limit is the best that is
 * known. */
static inline void
prefetch(const uint8_t *payload, unsigned int bytes)
{
	for (unsigned int at = 0; at < RTE_MIN(bytes, PREFETCH); at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(payload + at);
}

static inline void
one(struct generator *g, uint32_t step, const uint8_t *from)
{
	struct bare *bare = &g->bare;
	unsigned int slot = step >> 16, elements = g->work->elements;

	if (bare->left[slot] == 0) {
		bare->left[slot] = g->work->sources;
		bare->residue[slot] = bare->next_residue++ & (g->work->window - 1);
		bare->buffer[slot] = bare->free[--bare->nb_free];
		bare->copy(bare->buffer[slot], from, elements * (size_t)4);
	} else {
		bare->reduce(bare->buffer[slot], from, elements);
	}
	if (--bare->left[slot] == 0)
		finish(bare, slot);
	bare->packets++;
}

void
bare_run(struct generator *g, uint64_t end)
{
	unsigned int bytes = g->work->elements * rmw_type_size(g->work->type);
	const uint8_t *next = payload(g);

	while (rte_rdtsc() < end) {
		for (unsigned int i = 0; i < BATCH; i++) {
			uint32_t step = g->step[g->bare.at];
			const uint8_t *from = next;

			if (++g->bare.at == g->steps) {
				g->bare.at = 0;
				if (++g->bare.round == g->work->copies)
					g->bare.round = 0;
			}
			next = payload(g);
			prefetch(next, bytes);
			one(g, step, from);
		}
	}
}
