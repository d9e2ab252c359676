/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed and open loop. */
#include "apps/bench/contributions.h"

#include <stdio.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "apps/bench/contributions_priv.h"
#include "apps/bench/slice.h"

#define REPEAT_MS  50
#define GIVE_UP_MS 5000 /* a device that shares its CPU with much else may take seconds */

/* Send contributions of the sources that are not in `but`. Those that the ring has no room for are
 * left to the repetition. */
static unsigned int
send_block(struct contributions *c, struct place *place, uint64_t but)
{
	unsigned int sent = 0;

	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		struct rte_mbuf *list[TARGET_SOURCES_MAX];
		uint16_t n = 0, taken;

		for (unsigned int s = p; s < c->config.sources; s += LINK_PORTS)
			if ((but >> s & 1) == 0)
				list[n++] = contributions_prepare(c, s, place->block);
		taken = n == 0 ? 0 : rte_eth_tx_burst(c->config.target->link.port[p], 0, list, n);
		rte_pktmbuf_free_bulk(list + taken, n - taken);
		sent += taken;
	}
	place->sent = rte_rdtsc();
	return sent;
}

static void
open_place(struct contributions *c, struct place *place)
{
	place->open = true;
	place->missed = false;
	place->got = 0;
	c->open_count++;
	send_block(c, place, 0);
}

/* Repeat what is late. A multicast result says nothing of sources: all repeat. */
static void
repeat(struct contributions *c)
{
	uint64_t late = rte_rdtsc() - rte_get_tsc_hz() / 1000 * REPEAT_MS;
	bool by_source = !c->config.multicast || !c->config.target->is_switch;

	for (unsigned int i = 0; i < c->config.window; i++) {
		struct place *place = &c->place[i];

		if (!place->open || place->sent >= late)
			continue;
		if (!place->missed)
			c->count.lost += (uint64_t)__builtin_popcountll(c->all & ~place->got);
		place->missed = true;
		c->count.repeated += send_block(c, place, by_source ? place->got : 0);
	}
}

/* Which block waits for whom? */
static int
give_up(struct contributions *c)
{
	char what[256];
	size_t at;

	for (unsigned int i = 0; i < c->config.window; i++) {
		const struct place *place = &c->place[i];

		if (!place->open)
			continue;
		at = (size_t)snprintf(what, sizeof(what),
			"block %u of job %u (%u elements): nothing within %u ms for %s",
			place->block, c->job, c->config.elements, GIVE_UP_MS,
			c->config.multicast && c->config.target->is_switch ? "ports" : "sources");
		for (unsigned int s = 0; s < 64 && at < sizeof(what) - 8; s++)
			if ((c->all & ~place->got) >> s & 1)
				at += (size_t)snprintf(what + at, sizeof(what) - at, " %u", s);
		break;
	}
	target_blame(c->config.target, what);
	return -1;
}

/* Loop until `end` (TSC; 0: until nothing is in flight). *idle: adds cycles without work; slices:
 * may be NULL. */
static int
loop(struct contributions *c, uint64_t end, uint64_t *idle, struct slices *slices)
{
	uint64_t ms = rte_get_tsc_hz() / 1000, now = rte_rdtsc(), checked = now, progress = now;

	while (end != 0 ? now < end : c->open_count > 0) {
		uint64_t before = now, blocks = c->count.blocks;
		unsigned int n;

		n = contributions_poll(c);
		for (unsigned int i = 0; i < c->done_count; i++) {
			struct place *place = &c->place[c->done[i]];

			place->block += c->config.window;
			if (end != 0)
				open_place(c, place);
		}
		now = rte_rdtsc();
		if (n == 0)
			*idle += now - before;
		if (slices != NULL)
			slices_turn(slices, now, c->count.blocks);
		if (c->count.blocks != blocks)
			progress = now;
		if (now - checked > ms) {
			checked = now;
			repeat(c);
			if (now - progress > GIVE_UP_MS * ms || child_interrupted())
				return give_up(c);
		}
		if (unlikely(c->count.wrong > 0))
			return -1;
	}
	return 0;
}

int
contributions_run(struct contributions *c, uint64_t ms, struct closed_loop *result)
{
	uint64_t hz = rte_get_tsc_hz(), began, waited = 0, ignored = 0, lost = c->count.lost;
	struct slices slices;

	for (unsigned int i = 0; i < c->config.window; i++)
		open_place(c, &c->place[i]);
	/* The device wakes up, caches fill. */
	if (loop(c, rte_rdtsc() + hz / 1000 * (ms / 4 + 1), &ignored, NULL) < 0)
		return -1;
	began = rte_rdtsc();
	slices_begin(&slices, began, c->count.blocks);
	/* On a busy machine the device may not even run in a short time. */
	do {
		if (loop(c, rte_rdtsc() + hz / 1000 * ms, &waited, &slices) < 0)
			return -1;
	} while (c->count.blocks == slices.begin_units &&
		rte_rdtsc() - began < hz / 1000 * GIVE_UP_MS);
	result->rate = slices_rate(&slices, c->count.blocks) * c->config.sources;
	result->whole = slices_whole_rate(&slices, c->count.blocks) * c->config.sources;
	result->idle = (double)waited / (double)(slices.turn - began);
	result->good = slices_good(&slices);
	result->enough = slices_suffice(&slices);
	/* What is missing now is noticed here. */
	if (loop(c, 0, &ignored, NULL) < 0)
		return -1;
	result->lost = c->count.lost - lost;
	return 0;
}

/* Open loop: the next n contributions in order, the first of them due at `due` and each later one
 * by `step`. A contribution whose window is not open yet stays; returns how many are on their way,
 * or lost because the device does not take them. */
static unsigned int
send_due(void *context, unsigned int n, double due, double step)
{
	struct contributions *c = context;
	struct rte_mbuf *list[LINK_PORTS][LINK_BURST];
	uint16_t count[LINK_PORTS] = {0};
	unsigned int i;

	n = RTE_MIN(n, (unsigned int)LINK_BURST);
	for (i = 0; i < n; i++) {
		unsigned int source = c->next % c->config.sources;
		struct place *place = &c->place[c->next / c->config.sources];
		unsigned int p = source % LINK_PORTS;

		/* A frame of one source and variant exists once, and may be in the list already. */
		if (contributions_in_use(c, source, place->block) || (source == 0 && place->open))
			break;
		if (source == 0) {
			place->open = true;
			place->missed = false;
			place->got = 0;
			c->open_count++;
		}
		place->due = (uint64_t)(due + step * i);
		place->sent = c->now;
		list[p][count[p]++] = contributions_prepare(c, source, place->block);
		if (++c->next == c->config.sources * c->config.window)
			c->next = 0;
	}
	for (unsigned int p = 0; p < LINK_PORTS; p++) {
		uint16_t taken = count[p] == 0
			? 0
			: rte_eth_tx_burst(c->config.target->link.port[p], 0, list[p], count[p]);

		rte_pktmbuf_free_bulk(list[p] + taken, count[p] - taken);
	}
	return i;
}

/* Blocks that are complete open their place for the next. */
static unsigned int
poll_done(void *context)
{
	struct contributions *c = context;
	uint64_t blocks = c->count.blocks;

	contributions_poll(c);
	for (unsigned int i = 0; i < c->done_count; i++)
		c->place[c->done[i]].block += c->config.window;
	return (unsigned int)(c->count.blocks - blocks) * c->config.sources;
}

int
contributions_offer(struct contributions *c, double rate, uint64_t ms, struct samples *samples,
	struct open_loop *result)
{
	const struct open_loop_load load = {c, send_due, poll_done, c->config.sources};
	uint64_t ignored = 0;
	int rc;

	c->samples = samples;
	c->next = 0;
	open_loop_run(&load, rate, ms, result);
	/* What was lost is repeated, so that the job can go on, and its latency is the repair's. */
	rc = loop(c, 0, &ignored, NULL);
	c->samples = NULL;
	return c->count.wrong > 0 ? -1 : rc;
}
