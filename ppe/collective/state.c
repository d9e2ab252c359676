/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective program's state on one worker: made before start, freed after stop. */
#include <errno.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "hashengine/deadline_fast.h"
#include "ppe/collective/hooks.h"
#include "ppe/collective/way.h"
#include "ppe/programs/programs.h"

/* Block records that all jobs together can need in this shard; at least 1. */
static uint32_t
records_needed(const struct ppe_jobs *jobs, unsigned int shard, unsigned int shards)
{
	uint32_t n = 0;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (jobs->by_id[id] != NULL)
			n += 2 * ppe_job_residues(jobs->by_id[id], shard, shards);
	return RTE_MAX(n, 1u);
}

/* The size of the block table. */
static uint32_t
records_of(const struct ppe_config *config, const struct ppe_jobs *jobs, unsigned int shard)
{
	return RTE_MAX(records_needed(jobs, shard, config->workers), config->blocks);
}

void
collective_memory(
	const struct ppe_config *config, const struct ppe_jobs *jobs, struct ppe_memory *memory)
{
	for (unsigned int shard = 0; shard < config->workers; shard++) {
		uint32_t records = records_of(config, jobs, shard);

		memory->block_tables += hash_records_bytes(records, sizeof(struct block)) +
			hash_table_bytes(records) + hash_deadlines_bytes(records);
		for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
			if (jobs->by_id[id] != NULL)
				collective_job_memory(
					jobs->by_id[id], shard, config->workers, memory);
	}
}

/* Of the aging scan: so that nothing straggles unseen while there are no jobs to set it. */
#define FIRST_PERIOD_US 1000000

/* The wire's numbers are the kernels' numbers. */
#define X(name, code, text, bytes)                                                                 \
	static_assert((int)RMW_TYPE_##name == (int)WEIR_DTYPE_##name, "type " text);
WEIR_DTYPE_LIST(X)
#undef X
#define X(name, code, text)                                                                        \
	static_assert((int)RMW_OP_##name == (int)WEIR_OP_##name, "operation " text);
WEIR_OP_LIST(X)
#undef X

static void
fill_reductions(struct collective *state)
{
	for (unsigned int type = 0; type < RMW_TYPE_COUNT; type++)
		for (unsigned int op = 0; op < RMW_OP_COUNT; op++)
			state->reduction[type][op] =
				rmw_reduction((enum rmw_type)type, (enum rmw_op)op);
}

int
collective_state_create(const struct ppe_setup *setup, void **out)
{
	uint32_t records = records_of(setup->config, setup->jobs, setup->worker_id);
	const struct ppe_timer timer = {.segment = age,
		.period_us = FIRST_PERIOD_US,
		.slices = setup->config->timer_threads,
		.together = true,
		.earliest = age_earliest};
	struct hash_config table = {
		.name = "blocks",
		.capacity = records,
		.record_size = sizeof(struct block),
		.socket = setup->socket,
	};
	struct collective *state = rte_zmalloc_socket(
		"weir_collective", sizeof(*state), RTE_CACHE_LINE_SIZE, setup->socket);

	if (state == NULL)
		return -ENOMEM;
	*out = state;
	state->worker = setup->worker;
	state->tsc_per_ms = rte_get_tsc_hz() / 1000;
	state->tsc_per_us = rte_get_tsc_hz() / 1000000;
	state->slices = setup->config->timer_threads;
	if (refusals_init(state, setup->config->refusals) < 0)
		return -EINVAL;
	fill_reductions(state);
	for (unsigned int type = 0; type < RTE_DIM(state->dtype_bytes); type++)
		state->dtype_bytes[type] = (uint8_t)weir_dtype_bytes(type);
	for (unsigned int p = 0; p < setup->nb_ports; p++)
		state->sums |= setup->worker->port[p]->tx_checksum == PKTBUF_CHECKSUM_SOFTWARE;
	state->records = rte_zmalloc_socket("weir_blocks",
		hash_records_bytes(records, sizeof(struct block)), 64, setup->socket);
	table.records = state->records;
	state->blocks = state->records == NULL ? NULL : hash_create(&table);
	if (state->blocks == NULL)
		return -ENOMEM;
	state->deadlines = hash_deadlines_create(records, setup->socket);
	if (state->deadlines == NULL)
		return -ENOMEM;
	state->ledger = rte_zmalloc("weir_ledger", sizeof(*state->ledger), 0);
	if (state->ledger == NULL)
		return -ENOMEM;
	state->ledger->capacity = records;
	state->hmac = pktbuf_hmac_create();
	if (state->hmac == NULL)
		return -ENOMEM;
	return ppe_timer_add(setup, &timer);
}

void
collective_state_destroy(void *arg, struct ppe_program_leaks *leaks)
{
	struct collective *state = arg;

	if (state == NULL)
		return;
	if (state->blocks != NULL)
		leaks->records += hash_count(state->blocks);
	hash_destroy(state->blocks);
	hash_deadlines_destroy(state->deadlines);
	rte_free(state->records);
	rte_free(state->ledger);
	pktbuf_hmac_destroy(state->hmac);
	rte_free(state);
}

void
collective_stats(const void *arg, struct ppe_stats *stats)
{
	const struct collective *state = arg;

	stats->blocks_used += hash_count(state->blocks);
}

void
collective_room(const struct ppe *ppe, struct ppe_room *room)
{
	const struct collective *state;

	for (unsigned int w = 0; (state = ppe_program_state(ppe, &collective_program, w)) != NULL;
		w++)
		room->records_free = RTE_MIN(
			room->records_free, state->ledger->capacity - state->ledger->reserved);
}

void
collective_records(const struct ppe *ppe, uint32_t *size, uint32_t *free)
{
	const struct collective *state;

	*size = *free = 0;
	for (unsigned int w = 0; (state = ppe_program_state(ppe, &collective_program, w)) != NULL;
		w++) {
		*size += state->ledger->capacity;
		*free += state->ledger->capacity - state->ledger->reserved;
	}
}
