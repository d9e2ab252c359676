/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective program's state on one worker: made before start, freed after stop. */
#include <errno.h>
#include <stdio.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_memory.h>

#include "ppe/programs/collective_priv.h"
#include "ppe/programs/programs.h"

/* Buffers of `bytes` that the jobs of this size need in this shard. */
static uint32_t
buffers_of_size(
	const struct ppe_jobs *jobs, uint32_t bytes, unsigned int shard, unsigned int shards)
{
	uint32_t n = 0;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *j = jobs->by_id[id];

		if (j != NULL && ppe_job_buffer_bytes(j) == bytes)
			n += 2 * ppe_job_residues(j, shard, shards);
	}
	return n;
}

/* Is this job the first of its buffer size? Each size is a pool. */
static bool
first_of_size(const struct ppe_jobs *jobs, unsigned int id)
{
	for (unsigned int other = 0; other < id; other++)
		if (jobs->by_id[other] != NULL &&
			ppe_job_buffer_bytes(jobs->by_id[other]) ==
				ppe_job_buffer_bytes(jobs->by_id[id]))
			return false;
	return true;
}

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

/* The smallest huge page: what is one piece for a device that knows physical addresses. Larger
 * pages, and devices that use our addresses, don't mind. */
#define DEVICE_PAGE (UINT32_C(2) << 20)

void
collective_memory(
	const struct ppe_config *config, const struct ppe_jobs *jobs, struct ppe_memory *memory)
{
	for (unsigned int shard = 0; shard < config->workers; shard++) {
		uint32_t records = records_needed(jobs, shard, config->workers);

		memory->block_tables += hash_records_bytes(records, sizeof(struct block)) +
			hash_table_bytes(records);
		for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
			const struct ppe_job *j = jobs->by_id[id];
			uint32_t bytes = j == NULL ? 0 : ppe_job_buffer_bytes(j);

			if (j == NULL)
				continue;
			memory->block_tables +=
				sizeof(struct job_shard) + j->window * sizeof(struct slot);
			if (first_of_size(jobs, id))
				memory->data_memory += rmw_pool_bytes(bytes,
					buffers_of_size(jobs, bytes, shard, config->workers),
					DEVICE_PAGE);
		}
	}
}

/* Devices read the payloads where they lie. */
static uint64_t
iova_of(const void *address)
{
	const struct rte_memseg *page = rte_mem_virt2memseg(address, NULL);

	if (page == NULL || page->iova == RTE_BAD_IOVA)
		return RTE_BAD_IOVA;
	return page->iova + RTE_PTR_DIFF(address, page->addr);
}

/* The pool for buffers of this size, made when it is met first. */
static struct rmw_pool *
pool_for(struct collective *state, const struct ppe_setup *setup, uint32_t bytes)
{
	struct rmw_pool_config config = {
		.shard = (uint16_t)setup->worker_id,
		.bytes = bytes,
		.page = DEVICE_PAGE,
		.iova_of = iova_of,
	};
	const struct rte_memzone *memory;
	char name[RTE_MEMZONE_NAMESIZE];

	for (unsigned int p = 0; p < state->nb_pools; p++)
		if (rmw_pool_buffer_bytes(state->pool[p]) == bytes)
			return state->pool[p];
	config.count = buffers_of_size(setup->jobs, bytes, setup->worker_id, setup->workers);
	config.length = rmw_pool_bytes(bytes, config.count, DEVICE_PAGE);
	snprintf(name, sizeof(name), "weir_data_%u_%u", setup->worker_id, state->nb_pools);
	memory = rte_memzone_reserve_aligned(
		name, config.length, setup->socket, 0, RTE_CACHE_LINE_SIZE);
	if (memory == NULL)
		return NULL;
	config.memory = memory->addr;
	state->pool_memory[state->nb_pools] = memory;
	state->pool[state->nb_pools] = rmw_pool_create(&config);
	return state->pool[state->nb_pools++];
}

static int
add_job(struct collective *state, const struct ppe_setup *setup, const struct ppe_job *j)
{
	unsigned int residues = ppe_job_residues(j, setup->worker_id, setup->workers);
	struct job_shard *js;

	js = rte_zmalloc_socket("weir_job", sizeof(*js), RTE_CACHE_LINE_SIZE, setup->socket);
	if (js == NULL)
		return -ENOMEM;
	state->job[j->id] = js;
	js->job = j->id;
	js->nb_sources = j->nb_sources;
	js->window = j->window;
	js->block_shift = j->block_shift;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (ppe_job_has(j, (uint8_t)s))
			js->source_end = (uint16_t)(s + 1);
	js->generation = j->fixed_generation;
	js->slot = rte_zmalloc_socket(
		"weir_slots", j->window * sizeof(*js->slot), RTE_CACHE_LINE_SIZE, setup->socket);
	if (js->slot == NULL)
		return -ENOMEM;
	job_shard_clear(state, js);
	if (j->fixed_generation == 0 && ppe_job_shard(j, 0, setup->workers) == setup->worker_id) {
		js->home = rte_zmalloc_socket(
			"weir_home", sizeof(*js->home), RTE_CACHE_LINE_SIZE, setup->socket);
		if (js->home == NULL)
			return -ENOMEM;
	}
	if (residues == 0)
		return 0;
	js->pool = pool_for(state, setup, ppe_job_buffer_bytes(j));
	if (js->pool == NULL)
		return -ENOMEM;
	return rmw_pool_reserve(js->pool, &js->quota, 2 * residues);
}

/* Visits of a record per timeout. REF costs up to two visits, so a straggler is found within
 * 1.1 timeouts. */
#define VISITS 20

static int
add_timer(const struct ppe_setup *setup)
{
	uint32_t shortest = 60000;
	struct ppe_timer timer = {.segment = age, .slices = setup->config->timer_threads};

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (setup->jobs->by_id[id] != NULL)
			shortest = RTE_MIN(shortest, setup->jobs->by_id[id]->timeout_ms);
	timer.period_us = shortest * UINT64_C(1000) / VISITS;
	return ppe_timer_add(setup, &timer);
}

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
fill_kernels(struct collective *state)
{
	for (unsigned int type = 0; type < RMW_TYPE_COUNT; type++)
		for (unsigned int op = 0; op < RMW_OP_COUNT; op++)
			state->kernel[type][op] = rmw_kernel((enum rmw_type)type, (enum rmw_op)op);
}

int
collective_state_create(const struct ppe_setup *setup, void **out)
{
	uint32_t records = records_needed(setup->jobs, setup->worker_id, setup->workers);
	struct hash_config table = {
		.name = "blocks",
		.capacity = records,
		.record_size = sizeof(struct block),
		.socket = setup->socket,
	};
	struct collective *state = rte_zmalloc_socket(
		"weir_collective", sizeof(*state), RTE_CACHE_LINE_SIZE, setup->socket);
	int rc = 0;

	if (state == NULL)
		return -ENOMEM;
	*out = state;
	state->worker = setup->worker;
	state->tsc_per_ms = rte_get_tsc_hz() / 1000;
	state->first_generation = setup->config->first_generation;
	state->slices = setup->config->timer_threads;
	fill_kernels(state);
	state->copy = rmw_kernel_copy();
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
	for (unsigned int id = 0; rc == 0 && id < WEIR_JOBS_MAX; id++)
		if (setup->jobs->by_id[id] != NULL)
			rc = add_job(state, setup, setup->jobs->by_id[id]);
	return rc == 0 ? add_timer(setup) : rc;
}

void
collective_state_destroy(void *arg, struct ppe_program_leaks *leaks)
{
	struct collective *state = arg;

	if (state == NULL)
		return;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (state->job[id] != NULL && state->job[id]->slot != NULL)
			job_shard_clear(state, state->job[id]);
	if (state->blocks != NULL)
		leaks->records += hash_count(state->blocks);
	for (unsigned int p = 0; p < state->nb_pools; p++) {
		leaks->buffers += rmw_pool_used(state->pool[p]);
		leaks->faults += rmw_pool_faults(state->pool[p]);
		rmw_pool_destroy(state->pool[p]);
		rte_memzone_free(state->pool_memory[p]);
	}
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		if (state->job[id] == NULL)
			continue;
		rte_free(state->job[id]->slot);
		rte_free(state->job[id]->home);
		rte_free(state->job[id]);
	}
	hash_destroy(state->blocks);
	rte_free(state->records);
	rte_free(state);
}

void
collective_job_stats(const void *arg, uint8_t job, struct ppe_job_stats *stats)
{
	const struct collective *state = arg;
	const struct job_shard *js = state->job[job];

	if (js == NULL)
		return;
#define X(name, help) stats->name += js->count.name;
	PPE_JOB_COUNTERS(X)
#undef X
	stats->generation = js->generation;
	stats->buffers_used += js->quota.used;
	stats->buffers_reserved += js->quota.limit;
	for (unsigned int r = 0; r < js->window; r++) {
		/* Racy by nature; records are never unmapped, so the worst is an old state. */
		const struct block *current = js->slot[r].current;

		stats->blocks_in_flight += current != NULL && current->state == BLOCK_OPEN;
	}
}

void
collective_stats(const void *arg, struct ppe_stats *stats)
{
	const struct collective *state = arg;

	stats->blocks_used += hash_count(state->blocks);
}
