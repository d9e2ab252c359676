/* SPDX-License-Identifier: BSD-3-Clause */
#include "docs/examples/flowcount.h"

#include <errno.h>
#include <rte_malloc.h>

#include "hashengine/hash_fast.h"
#include "ppe/program_fast.h"
#include "rmw/ops.h"

#define FLOWS 4096 /* per worker */

struct flow {
	struct hash_record hash; /* key: source address, then destination */
	struct rmw_counter count;
} __rte_aligned(64); /* one cache line */

struct flowcount { /* one per worker */
	struct hash_table *table;
	uint8_t forward; /* index of the next program */
	struct flow flow[FLOWS]; /* the table's records */
};

/* The record is in the cache. Confirm it or insert a new one, count, and pass the packet on. */
static struct ppe_next
count(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct flowcount *state = ppe_state(worker, thread);
	struct hash_probe *probe = ppe_lmem(struct hash_probe, thread);
	struct hash_record *record = hash_confirm(state->table, probe);

	if (record != NULL || hash_insert(state->table, probe, &record) == 0)
		rmw_count(&((struct flow *)(void *)record)->count, thread->packet->pkt_len);
	return ppe_pass(worker, thread, state->forward);
}

/* The bucket is in the cache. Prefetch the record. */
static struct ppe_next
find(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct flowcount *state = ppe_state(worker, thread);

	if (hash_find(state->table, ppe_lmem(struct hash_probe, thread)))
		return PPE_RUN(count);
	return count(worker, thread);
}

/* The head is parsed, so the key is known. Prefetch its bucket. */
static struct ppe_next
begin(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct flowcount *state = ppe_state(worker, thread);
	uint64_t key = (uint64_t)thread->head.ip_src << 32 | thread->head.ip_dst;

	hash_begin(state->table, key, ppe_lmem(struct hash_probe, thread));
	return PPE_RUN(find);
}

static int
create(const struct ppe_setup *setup, void **out)
{
	const struct ppe_match ipv4 = {.conditions = PPE_MATCH_ETHER_TYPE, .ether_type = 0x0800};
	struct hash_config table = {.capacity = FLOWS, .record_size = sizeof(struct flow)};
	struct flowcount *state = rte_zmalloc_socket("flows", sizeof(*state), 64, setup->socket);
	int forward = ppe_program_find(setup, "forward");

	*out = state;
	if (state == NULL || forward < 0)
		return state == NULL ? -ENOMEM : forward;
	state->forward = (uint8_t)forward;
	table.records = state->flow;
	state->table = hash_create(&table);
	return state->table == NULL ? -ENOMEM : ppe_match_add(setup, &ipv4);
}

static void
destroy(void *state, struct ppe_program_leaks *leaks __rte_unused)
{
	if (state != NULL)
		hash_destroy(((struct flowcount *)state)->table);
	rte_free(state);
}

void
flowcount_read(const struct ppe *ppe, uint64_t key, uint64_t *packets, uint64_t *bytes)
{
	const struct flowcount *state;

	*packets = *bytes = 0;
	for (unsigned int w = 0; (state = ppe_program_state(ppe, &flowcount_program, w)); w++)
		for (const struct flow *f = state->flow; f < state->flow + FLOWS; f++)
			if (f->hash.live && f->hash.key == key) {
				*packets += f->count.packets;
				*bytes += f->count.bytes;
			}
}

const struct ppe_program flowcount_program = {
	.name = "flowcount", .first = begin, .ordered = true, .create = create, .destroy = destroy};
