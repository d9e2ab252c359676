/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordinary frames in place of contributions. See generator.h. */
#include <string.h>

#include <rte_ring.h>

#include "apps/bench/generator_priv.h"

uint16_t
generator_forward_give(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	unsigned int sources = g->work->sources;
	uint16_t n = 0;

	while (n < max && g->packets - g->forwarded < g->steps) {
		uint32_t step = g->step[g->at];
		unsigned int row = g->copy * g->work->depth + (step >> 16);

		packets[n++] = g->frames->mbuf[row * sources + (step & 0xffff)];
		g->packets++;
		generator_step(g);
	}
	return n;
}

void
generator_forward_take(struct generator *g, const struct rte_mbuf *packet, unsigned int port)
{
	const uint8_t *f = rte_pktmbuf_mtod(packet, const uint8_t *);
	uint8_t to[6];

	/* A copy of a flood: before the station is known, and the frame that makes it known. */
	if (port != g->work->workers)
		return;
	g->forwarded++;
	if (likely(g->phase >= 0))
		return;
	frames_station(to, g->work->workers, 0);
	g->verified++;
	g->wrong += packet->pkt_len != g->frames->bytes || memcmp(f, to, 6) != 0;
}

struct frames *
generator_forward_teach(const struct generator_work *work, const struct pktbuf_identity *identity,
	struct rte_ring *receive)
{
	const struct frames_config config = {.id = work->workers,
		.sources = 1,
		.rows = 1,
		.elements = 1,
		.type = work->type,
		.ordinary = true,
		.identity = identity};
	struct frames *frames = frames_create(&config);

	if (frames != NULL && rte_ring_enqueue(receive, frames->mbuf[0]) == 0)
		return frames;
	frames_destroy(frames);
	return NULL;
}
