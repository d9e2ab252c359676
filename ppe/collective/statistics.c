/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's shard as the control thread reads it while its worker runs. Counters are aligned words
 * that only grow. Records stay mapped; a record that is reused during a read has another key. */
#include "ppe/collective/collective.h"

#include <rte_cycles.h>

#include "ppe/collective/block/block_fast.h"
#include "ppe/collective/membership/membership.h"
#include "ppe/collective/tree/tree.h"

bool
collective_job_heard(const void *shard, uint8_t source, uint64_t now, uint32_t seconds)
{
	const struct job_shard *js = shard;
	uint32_t heard = __atomic_load_n(&js->flow[source].heard, __ATOMIC_RELAXED);

	return heard != 0 &&
		ticks_since(heard, heard_now(now)) < seconds * rte_get_tsc_hz() >> HEARD_SHIFT;
}

static void
add_histogram(struct ppe_histogram *sum, const struct ppe_histogram *histogram)
{
	for (unsigned int i = 0; i < PPE_BUCKETS; i++)
		sum->bucket[i] += histogram->bucket[i];
	sum->sum_ns += histogram->sum_ns;
}

static uint64_t
us_of(uint64_t cycles)
{
	return (uint64_t)((double)cycles * 1e6 / (double)rte_get_tsc_hz());
}

static uint64_t
ticks_us(uint32_t tick, uint64_t now)
{
	return us_of((uint64_t)ticks_since(tick, heard_now(now)) << HEARD_SHIFT);
}

/* The silence since `tick`, unless something was heard later. */
static void
read_heard(bool *heard, uint64_t *silent_us, uint32_t tick, uint64_t now)
{
	if (tick == 0)
		return;
	*heard = true;
	*silent_us = RTE_MIN(*silent_us, ticks_us(tick, now));
}

static bool
is_asking(const struct job_home *home, unsigned int source, uint64_t now)
{
	return mask_test(home->pending, (uint8_t)source) &&
		!join_has_expired(home, source, heard_now(now));
}

static void
read_joins(
	const struct job_home *home, uint8_t source, uint64_t now, struct ppe_source_stats *stats)
{
	const struct join_request *asked = &home->request[source];

	read_heard(&stats->heard, &stats->silent_us, asked->accepted, now);
	stats->joining = is_asking(home, source, now);
	if (!stats->joining)
		return;
	stats->joining_us = ticks_us(asked->since, now);
	stats->contested = asked->contested != 0 &&
		ticks_us(asked->contested, now) < home->kept_s * UINT64_C(1000000);
}

static void
read_membership(const struct job_home *home, unsigned int source_end, struct ppe_job_stats *stats)
{
	uint64_t now = ppe_clock();

	memcpy(stats->present, home->present, sizeof(stats->present));
	for (unsigned int s = 0; s < source_end; s++)
		if (is_asking(home, s, now))
			mask_set(stats->joining, (uint8_t)s);
}

void
collective_job_stats(const void *shard, struct ppe_job_stats *stats)
{
	const struct job_shard *js = shard;

#define X(name, help) stats->name += js->count.name;
	PPE_JOB_COUNTERS(X)
#undef X
	add_histogram(&stats->latency, &js->count.latency);
	add_histogram(&stats->spread, &js->count.spread);
	stats->generation = js->hop.generation;
	if (js->home != NULL)
		read_membership(js->home, js->source_end, stats);
	stats->buffers_used += js->quota.used + js->row_quota.used;
	stats->buffers_reserved += js->quota.limit + js->row_quota.limit;
	for (unsigned int r = 0; r < js->window; r++) {
		const struct block *current =
			__atomic_load_n(&js->slot[r].current, __ATOMIC_RELAXED);

		stats->blocks_in_flight += current != NULL && current->state != BLOCK_DONE;
	}
}

void
collective_job_source(const void *shard, uint8_t source, struct ppe_source_stats *stats)
{
	const struct job_shard *js = shard;
	const struct pktbuf_endpoint *endpoint = &js->endpoint[source];
	uint64_t now = ppe_clock();
	uint64_t waited_us;

	stats->last += js->late[source].last;
	/* The maximum: blocks of several shards wait at the same time. */
	waited_us = us_of(js->late[source].waited);
	stats->waited_us = RTE_MAX(stats->waited_us, waited_us);
	read_heard(&stats->heard, &stats->silent_us, js->flow[source].heard, now);
	if (js->home != NULL)
		read_joins(js->home, source, now, stats);
	if (!endpoint->valid || stats->located)
		return;
	stats->located = true;
	stats->port = endpoint->port;
	stats->udp = endpoint->udp;
	memcpy(stats->mac, endpoint->mac, sizeof(stats->mac));
}

/* Is a join at the parent still being repeated? */
static bool
is_joining_parent(const struct job_home *home, unsigned int parent, uint64_t now)
{
	const struct parents_home *parents = home->parents;

	return (parents->set >> parent & 1) != 0 && !parents->used && parents->last != 0 &&
		ticks_us(parents->last, now) < home->kept_s * UINT64_C(1000000);
}

void
collective_job_parent(const void *shard, unsigned int parent, struct ppe_parent_stats *stats)
{
	const struct job_shard *js = shard;
	const struct parent *known = &js->parents->parent[parent];
	const struct parent_join *join;
	uint64_t now = ppe_clock();

	stats->generation = known->hop.generation;
	for (unsigned int i = 0; i < js->parents->nb_serving; i++)
		stats->serves |= js->parents->serving[i] == parent;
	read_heard(&stats->heard, &stats->silent_us, known->heard, now);
	if (js->home == NULL || js->home->parents == NULL)
		return;
	join = &js->home->parents->parent[parent];
	read_heard(&stats->heard, &stats->silent_us, join->heard, now);
	stats->given_up = join->given_up;
	stats->refused = join->refused.setting;
	stats->ours = join->refused.ours;
	stats->theirs = join->refused.theirs;
	stats->joining = is_joining_parent(js->home, parent, now);
	if (!stats->joining)
		return;
	stats->joining_us = ticks_us(js->home->parents->begun, now);
	memcpy(stats->joined, join->joined, sizeof(stats->joined));
}

bool
collective_copy_block(const struct block *block, struct block *copy)
{
	const volatile uint64_t *key = &block->hash.key;
	uint64_t before = *key;

	rte_compiler_barrier();
	memcpy(copy, block, sizeof(*copy));
	rte_compiler_barrier();
	/* The key of a new block is set before the rest. */
	return copy->hash.live && *key == before &&
		before == block_key((uint16_t)(before >> 40), copy->job, copy->block_id);
}

static uint64_t
us_since(uint64_t tsc, uint64_t now)
{
	return (int64_t)(now - tsc) < 0 ? 0 : us_of(now - tsc);
}

unsigned int
collective_job_blocks(const void *shard, bool open, uint64_t idle_us, struct ppe_block_info *blocks,
	unsigned int max)
{
	const struct job_shard *js = shard;
	uint64_t now = ppe_clock();
	unsigned int n = 0;

	const struct block *listed = NULL;

	for (unsigned int i = 0; i < 2u * js->window; i++) {
		const struct slot *slot = &js->slot[i / 2];
		/* A block that becomes the previous one between two reads is listed once. */
		const struct block *block = __atomic_load_n(
			i % 2 == 0 ? &slot->current : &slot->previous, __ATOMIC_RELAXED);
		struct block copy;

		if (block == NULL || block == listed || !collective_copy_block(block, &copy) ||
			copy.job != js->job || (open && copy.state == BLOCK_DONE) ||
			us_since(copy.progress, now) < idle_us)
			continue;
		listed = block;
		if (n < max) {
			blocks[n] = (struct ppe_block_info){.block = copy.block_id,
				.generation = (uint16_t)(copy.hash.key >> 40),
				.job = copy.job,
				.open = copy.state != BLOCK_DONE,
				.up = copy.state == BLOCK_UP,
				.parent = copy.state == BLOCK_UP
					? (uint8_t)parent_of_block(js, copy.block_id)
					: 0,
				.heard_count = (uint16_t)mask_count(copy.heard),
				.opened_us = us_since(0, copy.opened),
				.age_us = us_since(copy.opened, now),
				.idle_us = us_since(copy.progress, now)};
			memcpy(blocks[n].heard, copy.heard, sizeof(copy.heard));
		}
		n++;
	}
	return n;
}
