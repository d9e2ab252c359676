/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's state on one worker, and a job's life in one shard. */
#include "ppe/collective/collective.h"

#include <errno.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_memory.h>

#include "hashengine/deadline_fast.h"
#include "ppe/collective/block/block.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/membership/membership.h"
#include "ppe/collective/tree/tree.h"
#include "ppe/ppe_priv.h"

/* Block records that all jobs can need in this shard; at least 1. */
static uint32_t
records_needed(const struct ppe_jobs *jobs, unsigned int shard, unsigned int shards)
{
	uint32_t n = 0;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (jobs->by_id[id] != NULL)
			n += 2 * ppe_job_residues(jobs->by_id[id], shard, shards);
	return RTE_MAX(n, 1u);
}

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
	}
}

/* The period of the timeout scan until the first job sets it. */
#define FIRST_PERIOD_US 1000000

static void
fill_reductions(struct collective *state)
{
	for (unsigned int type = 0; type < WEIR_DTYPES; type++)
		for (unsigned int op = 0; op < WEIR_OPS; op++) {
			state->reduction[type][op] = rmw_reduction(type, op);
			rmw_reduction_wide(type, op, &state->wide[type][op]);
		}
}

int
collective_state_create(const struct ppe_setup *setup, void **out)
{
	uint32_t records = records_of(setup->config, setup->jobs, setup->worker_id);
	const struct ppe_timer timer = {.segment = timeout_scan,
		.period_us = FIRST_PERIOD_US,
		.slices = setup->config->timer_threads,
		.together = true,
		.earliest = timeout_earliest};
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
	state->ns_per_cycle = (UINT64_C(1000000000) << 32) / rte_get_tsc_hz();
	state->slices = setup->config->timer_threads;
	state->forget_blocks = block_forget_all;
	fill_reductions(state);
	flow_cache_create(state, &setup->config->identity);
	for (unsigned int type = 0; type < RTE_DIM(state->dtype_bytes); type++)
		state->dtype_bytes[type] = (uint8_t)weir_dtype_bytes(type);
	for (unsigned int p = 0; p < setup->nb_ports; p++) {
		state->sums |= setup->worker->port[p]->tx_checksum == PKTBUF_CHECKSUM_SOFTWARE;
		state->verifies |= setup->worker->port[p]->rx_checksum != PKTBUF_CHECKSUM_OFF;
	}
	state->records = rte_zmalloc_socket("weir_blocks",
		hash_records_bytes(records, sizeof(struct block)), 64, setup->socket);
	table.records = state->records;
	state->blocks = state->records == NULL ? NULL : hash_create(&table);
	state->deadlines = hash_deadlines_create(records, setup->socket);
	state->budget = rte_zmalloc("weir_budget", sizeof(*state->budget), 0);
	state->hmac = pktbuf_hmac_create();
	if (state->blocks == NULL || state->deadlines == NULL || state->budget == NULL ||
		state->hmac == NULL || block_batch_create(state, setup->socket) < 0)
		return -ENOMEM;
	state->budget->capacity = records;
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
	rte_free(state->budget);
	pktbuf_hmac_destroy(state->hmac);
	block_batch_destroy(state);
	rte_free(state);
}

void
collective_job_room(const void *arg, const struct ppe_job *job, unsigned int shard,
	unsigned int shards, struct ppe_room *room)
{
	const struct collective *state = arg;

	room->records_needed =
		RTE_MAX(room->records_needed, 2 * ppe_job_residues(job, shard, shards));
	room->records_free =
		RTE_MIN(room->records_free, state->budget->capacity - state->budget->reserved);
}

/* A job's life in one shard: the control thread creates it with all its memory, the worker takes it
 * when a job table contains it and gives it up when no job table does, and the control thread
 * destroys it when its last buffer has returned. */

/* The smallest huge page: contiguous for a device that uses physical addresses. */
#define DEVICE_PAGE (UINT32_C(2) << 20)

static uint64_t
iova_of(const void *address)
{
	const struct rte_memseg *page = rte_mem_virt2memseg(address, NULL);

	if (page == NULL || page->iova == RTE_BAD_IOVA)
		return RTE_BAD_IOVA;
	return page->iova + RTE_PTR_DIFF(address, page->addr);
}

void
collective_job_memory(const struct ppe_job *job, unsigned int shard, unsigned int shards,
	struct ppe_memory *memory)
{
	unsigned int residues = ppe_job_residues(job, shard, shards);
	bool home = job->fixed_generation == 0 && ppe_job_shard(job, 0, shards) == shard;

	memory->block_tables += sizeof(struct job_shard) + job->window * sizeof(struct slot) +
		(home ? sizeof(struct job_home) : 0) +
		(home && job->nb_parents != 0 ? sizeof(struct parents_home) : 0) + keys_bytes(job) +
		parents_bytes(job);
	if (residues > 0)
		memory->data_memory += rmw_pool_bytes(
			ppe_job_buffer_bytes(job), PPE_JOB_BUFFERS * residues, DEVICE_PAGE);
	if (residues > 0 && job->alltoall == PPE_ALLTOALL_FULL)
		memory->data_memory += rmw_pool_bytes(
			ppe_job_row_bytes(job), PPE_JOB_BUFFERS * residues, DEVICE_PAGE);
	if (residues > 0 && ppe_job_kept(job) > 0) {
		memory->block_tables += order_bytes(job);
		memory->data_memory += order_pool_bytes(job, residues);
	}
}

static int
create_pool(struct rmw_pool **pool, struct rmw_quota *quota, const struct ppe_setup *setup,
	uint32_t bytes, unsigned int residues)
{
	const uint32_t count = PPE_JOB_BUFFERS * residues;
	struct rmw_pool_config config = {
		.shard = (uint16_t)setup->worker_id,
		.bytes = bytes,
		.count = count,
		.length = rmw_pool_bytes(bytes, count, DEVICE_PAGE),
		.page = DEVICE_PAGE,
		.iova_of = iova_of,
	};

	config.memory =
		rte_malloc_socket("weir_data", config.length, RTE_CACHE_LINE_SIZE, setup->socket);
	if (config.memory == NULL)
		return -ENOMEM;
	*pool = rmw_pool_create(&config);
	if (*pool == NULL) {
		rte_free(config.memory);
		return -EINVAL;
	}
	quota->held_max = residues;
	return rmw_pool_reserve(*pool, quota, count);
}

static void
destroy_pool(struct rmw_pool *pool, struct ppe_program_leaks *leaks)
{
	if (pool == NULL)
		return;
	leaks->buffers += rmw_pool_used(pool);
	leaks->faults += rmw_pool_faults(pool);
	rmw_pool_destroy(pool);
	rte_free(pool); /* it is at the beginning of its memory */
}

static int
reserve_records(struct job_shard *js, struct record_budget *budget, uint32_t records)
{
	if (records > budget->capacity - budget->reserved)
		return -ENOSPC;
	budget->reserved += records;
	js->budget = budget;
	js->records = records;
	return 0;
}

static void
describe(struct job_shard *js, const struct ppe_setup *setup, const struct ppe_job *job)
{
	js->job = js->hop.job = job->id;
	js->serial = setup->serial;
	js->nb_sources = job->nb_sources;
	js->target = job->nb_sources;
	js->nb_ranks = ppe_job_tree_ranks(job);
	js->first_rank = job->first_rank;
	js->tree = job->children || job->nb_parents != 0 ? &tree_ops : NULL;
	js->own_ranks = ppe_job_ranks(job);
	js->children = job->children;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		js->covers[s] = job->children ? job->ranks[s] : 1;
	js->narrow = job->narrow;
	js->window = job->window;
	js->block_shift = job->block_shift;
	js->hop.generation = job->fixed_generation;
	js->first_generation = job->first_generation != 0 ? job->first_generation
							  : setup->config->first_generation;
	js->source_end = ppe_job_source_end(job);
	js->version = 1;
	js->block_mask = UINT32_MAX >> job->block_shift;
	js->residue_mask = (uint16_t)(job->window - 1);
	if (rte_is_power_of_2(setup->workers)) {
		js->home_mask = (uint16_t)(setup->workers - 1);
		js->home_bits = (uint16_t)((setup->worker_id - job->id) & js->home_mask);
	} else {
		js->home_bits = 1;
	}
}

int
collective_job_create(
	const struct ppe_setup *setup, void *arg, const struct ppe_job *job, void **shard)
{
	const struct collective *state = arg;
	unsigned int residues = ppe_job_residues(job, setup->worker_id, setup->workers);
	bool home = job->fixed_generation == 0 &&
		ppe_job_shard(job, 0, setup->workers) == setup->worker_id;
	struct job_shard *js =
		rte_zmalloc_socket("weir_job", sizeof(*js), RTE_CACHE_LINE_SIZE, setup->socket);
	int rc = js == NULL ? -ENOMEM : reserve_records(js, state->budget, 2 * residues);

	if (rc == 0) {
		describe(js, setup, job);
		js->slot = rte_zmalloc_socket("weir_slots", job->window * sizeof(*js->slot),
			RTE_CACHE_LINE_SIZE, setup->socket);
		rc = js->slot == NULL ? -ENOMEM : 0;
	}
	for (uint32_t residue = 0; rc == 0 && residue < job->window; residue++)
		js->slot[residue].next = residue;
	if (rc == 0 && (job->proved || job->authenticated)) {
		js->own = keys_own_create(job, js->source_end, setup->socket);
		rc = js->own == NULL ? -ENOMEM : 0;
	}
	if (rc == 0 && job->authenticated) {
		js->keys = keys_create(js->source_end, setup->socket);
		rc = js->keys == NULL ? -ENOMEM : 0;
	}
	if (rc == 0 && home) {
		js->home = rte_zmalloc_socket(
			"weir_home", sizeof(*js->home), RTE_CACHE_LINE_SIZE, setup->socket);
		rc = js->home == NULL ? -ENOMEM : 0;
		if (rc == 0)
			js->home->kept_s =
				(uint16_t)(setup->config->joins_s != 0 ? setup->config->joins_s
								       : JOIN_FORGOTTEN_S);
		if (rc == 0 && job->nb_parents != 0) {
			js->home->parents = parents_home_create(job, setup->socket);
			rc = js->home->parents == NULL ? -ENOMEM : 0;
		}
		if (rc == 0 && (js->own != NULL || js->home->parents != NULL))
			rc = keys_challenges_create(js->home);
	}
	if (rc == 0 && job->nb_parents != 0) {
		js->parents = parents_create(setup, job);
		rc = js->parents == NULL ? -ENOMEM : 0;
	}
	if (rc == 0 && residues > 0)
		rc = create_pool(&js->pool, &js->quota, setup, ppe_job_buffer_bytes(job), residues);
	if (rc == 0 && residues > 0 && job->alltoall == PPE_ALLTOALL_FULL)
		rc = create_pool(
			&js->row_pool, &js->row_quota, setup, ppe_job_row_bytes(job), residues);
	if (rc == 0 && residues > 0 && ppe_job_kept(job) > 0)
		rc = order_create(js, job, residues, (uint16_t)setup->worker_id, setup->socket);
	if (rc == 0) {
		js->special = js->ordered || js->tree != NULL;
		js->hop.flags = hop_flags(job);
		js->crc_bytes = (js->hop.flags & WEIR_FLAG_CRC) != 0 ? WEIR_CRC_BYTES : 0;
		js->no_average = js->tree != NULL && js->narrow;
		*shard = js;
	} else {
		struct ppe_program_leaks none = {0};

		collective_job_destroy(js, &none);
	}
	return rc;
}

void
collective_job_take(void *arg, uint8_t id, void *shard)
{
	static const uint8_t zeros[WEIR_CHALLENGE_BYTES];
	struct collective *state = arg;
	struct job_shard *js = shard, *former = state->job[id];

	if (former != NULL)
		block_forget_all(state, former, false);
	for (unsigned int s = 0; former != NULL && s < former->source_end; s++)
		source_unbind(state->worker, former, (uint8_t)s);
	if (former != NULL && former->parents != NULL)
		parents_unbind(state->worker, former);
	state->job[id] = js;
	if (js != NULL && js->parents != NULL)
		parents_bind(state->worker, js);
	if (js != NULL && js->keys != NULL && js->hop.generation != 0)
		keys_begin(state, js, js->hop.generation, zeros, NULL);
}

/* Visits of a record per timeout. A block may become due just after a visit, and be put off once
 * for waiting packets: two visits are half of the permitted 10 %. */
#define VISITS 40

/* A burst is at least 10 ms at the rate and a window of all sources; two windows if they take at
 * most a second. */
#define BURST_MS     10
#define BURST_TWO_MS 1000
#define BURST_MOST   UINT64_C(57000000) /* bytes, which any policer can count */

static uint32_t
burst_of(const struct ppe_job *job, uint64_t rate, unsigned int residues)
{
	uint64_t frame = PKTBUF_HEAD_BYTES + ppe_job_payload_bytes(job);
	uint64_t window = frame * residues * job->nb_sources;
	uint64_t burst = RTE_MIN(2 * window, rate / 8 * BURST_TWO_MS / 1000);

	burst = RTE_MAX(burst, RTE_MAX(window, rate / 8 * BURST_MS / 1000));
	return (uint32_t)RTE_MIN(burst, BURST_MOST);
}

/* The rate is divided among the shards as the blocks are. A new rate begins with full buckets; a
 * change keeps the levels. */
static void
set_rate(struct job_shard *js, const struct ppe_worker *worker, const struct ppe_job *job)
{
	unsigned int residues = ppe_job_residues(job, worker->id, worker->workers);
	uint64_t rate = UINT64_C(1000000) * job->rate_mbit * residues / job->window;
	uint32_t former = js->rate_mbit;
	struct rmw_policer *const both[] = {&js->policer, &js->sent};

	if (former == job->rate_mbit)
		return;
	js->rate_mbit = residues == 0 ? 0 : job->rate_mbit;
	if (js->rate_mbit == 0)
		return;
	for (unsigned int i = 0; i < RTE_DIM(both); i++)
		(former == 0 ? rmw_policer_init : rmw_policer_change)(both[i], rate,
			burst_of(job, rate, residues), rte_get_tsc_hz(), worker->now);
}

static void
set_timeout(struct collective *state, struct job_shard *js, const struct ppe_job *job)
{
	uint64_t timeout = job->timeout_ms * state->tsc_per_ms;

	if (js->timeout == timeout && js->policy == job->policy)
		return;
	js->timeout = timeout;
	js->policy = job->policy;
	timeout_rearm(state, js);
}

void
collective_jobs_taken(void *arg)
{
	struct collective *state = arg;
	const struct ppe_jobs *jobs = state->worker->jobs;
	uint32_t shortest = 60000;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *job = jobs->by_id[id];
		uint64_t left[MASK_WORDS] = {0};

		if (job == NULL)
			continue;
		shortest = RTE_MIN(shortest, job->timeout_ms);
		if (state->job[id] == NULL)
			continue;
		state->job[id]->version++;
		set_timeout(state, state->job[id], job);
		set_rate(state->job[id], state->worker, job);
		if (source_set_members(state->worker, state->job[id], job, left) &&
			!state->job[id]->pinned) {
			block_regroup(state, state->job[id], left);
			source_set_ranks(state->job[id], job->members);
		}
	}
	ppe_timer_set_period(state->worker, timeout_scan, shortest * UINT64_C(1000) / VISITS);
}

bool
collective_job_idle(const void *shard)
{
	const struct job_shard *js = shard;

	return rmw_pool_used(js->pool) == 0 && rmw_pool_used(js->row_pool) == 0;
}

void
collective_job_destroy(void *shard, struct ppe_program_leaks *leaks)
{
	struct job_shard *js = shard;

	if (js == NULL)
		return;
	destroy_pool(js->pool, leaks);
	destroy_pool(js->row_pool, leaks);
	order_destroy(js->order, leaks);
	if (js->budget != NULL)
		js->budget->reserved -= js->records;
	rte_free(js->slot);
	if (js->home != NULL)
		rte_free(js->home->parents);
	rte_free(js->home);
	rte_free(js->keys);
	rte_free(js->own);
	parents_destroy(js->parents);
	rte_free(js);
}
