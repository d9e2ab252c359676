/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's life in one shard: made with all its memory by the control thread, taken by the worker when
 * a job table names it, given back when none does, destroyed when its last buffer has come home.
 */
#include <errno.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_memory.h>

#include "ppe/collective/auth.h"
#include "ppe/collective/block.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/hooks.h"
#include "ppe/collective/join.h"
#include "ppe/collective/order.h"
#include "ppe/collective/way.h"
#include "ppe/programs/programs.h"

/* The smallest huge page: what is one piece for a device that knows physical addresses. Larger
 * pages, and devices that use our addresses, don't mind. */
#define DEVICE_PAGE (UINT32_C(2) << 20)

/* Devices read the payloads where they lie. */
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
		(job->authenticated ? job_keys_bytes(ppe_job_source_end(job)) : 0);
	if (residues > 0)
		memory->data_memory +=
			rmw_pool_bytes(ppe_job_buffer_bytes(job), 2 * residues, DEVICE_PAGE);
	if (residues > 0 && ppe_job_kept(job) > 0) {
		memory->block_tables += order_bytes(job);
		memory->data_memory += order_pool_bytes(job, residues);
	}
}

static int
create_pool(struct job_shard *js, const struct ppe_setup *setup, uint32_t bytes, uint32_t count)
{
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
	js->pool = rmw_pool_create(&config);
	if (js->pool == NULL) {
		rte_free(config.memory);
		return -EINVAL;
	}
	return rmw_pool_reserve(js->pool, &js->quota, count);
}

/* Set records of the block table aside for the job. */
static int
book(struct job_shard *js, struct collective_ledger *ledger, uint32_t records)
{
	if (records > ledger->capacity - ledger->reserved)
		return -ENOSPC;
	ledger->reserved += records;
	js->ledger = ledger;
	js->records = records;
	return 0;
}

static void
describe(struct job_shard *js, const struct ppe_setup *setup, const struct ppe_job *job)
{
	js->job = job->id;
	js->serial = setup->serial;
	js->nb_sources = job->nb_sources;
	js->target = job->nb_sources;
	js->window = job->window;
	js->block_shift = job->block_shift;
	js->generation = job->fixed_generation;
	js->first_generation = job->first_generation != 0 ? job->first_generation
							  : setup->config->first_generation;
	js->source_end = ppe_job_source_end(job);
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
	int rc = js == NULL ? -ENOMEM : book(js, state->ledger, 2 * residues);

	if (rc == 0) {
		describe(js, setup, job);
		js->slot = rte_zmalloc_socket("weir_slots", job->window * sizeof(*js->slot),
			RTE_CACHE_LINE_SIZE, setup->socket);
		rc = js->slot == NULL ? -ENOMEM : 0;
	}
	for (uint32_t residue = 0; rc == 0 && residue < job->window; residue++)
		js->slot[residue].next = residue;
	if (rc == 0 && job->authenticated) {
		js->keys = job_keys_create(job, js->source_end, setup->socket);
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
		if (rc == 0 && js->keys != NULL)
			rc = job_challenges_create(js->home);
	}
	if (rc == 0 && residues > 0)
		rc = create_pool(js, setup, ppe_job_buffer_bytes(job), 2 * residues);
	if (rc == 0 && residues > 0 && ppe_job_kept(job) > 0)
		rc = order_create(js, job, residues, (uint16_t)setup->worker_id, setup->socket);
	if (rc == 0) {
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
	struct collective *state = arg;

	if (state->job[id] != NULL)
		job_shard_clear(state, state->job[id], false);
	state->job[id] = shard;
}

/* Visits of a record per timeout. A straggler may be due just after one, and packets that have come
 * meanwhile may make it wait for another: two visits are half of the tenth that it may take. */
#define VISITS 40

/* A burst is what may come at once: 10 ms at the rate, or a window of all sources, or such a job would
 * never fill it. Better are two, of which one is on its way back; but not for more than a second's rate. */
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

/* The rate is divided as the blocks are. A job that had none begins with a full bucket; one that had
 * another keeps what is in it. */
static void
set_rate(struct job_shard *js, const struct ppe_worker *worker, const struct ppe_job *job)
{
	unsigned int residues = ppe_job_residues(job, worker->id, worker->workers);
	uint64_t rate = UINT64_C(1000000) * job->rate_mbit * residues / job->window;
	uint32_t former = js->rate_mbit;

	if (former == job->rate_mbit)
		return;
	js->rate_mbit = residues == 0 ? 0 : job->rate_mbit;
	if (js->rate_mbit == 0)
		return;
	(former == 0 ? rmw_policer_init : rmw_policer_change)(
		&js->policer, rate, burst_of(job, rate, residues), rte_get_tsc_hz(), worker->now);
}

/* The home's part: the source's joins are nobody's any more. One that a walk carries is left alone, for
 * others read it; that walk will come to nothing. */
static void
forget_joins(struct job_home *home, uint8_t source)
{
	mask_clear(home->in, source);
	mask_clear(home->present, source);
	home->asked[source] = (struct asked){0};
	if (!mask_test(home->pending, source))
		return;
	if (home->walking) {
		mask_set(home->gone, source);
		return;
	}
	mask_clear(home->pending, source);
	home->pending_count--;
}

void
rank_sources(struct job_shard *js, const uint64_t sources[MASK_WORDS])
{
	js->ranks = 0;
	for (unsigned int s = 0; s < js->source_end; s++)
		if (mask_test(sources, (uint8_t)s)) {
			js->rank[s] = (uint8_t)js->ranks;
			js->ranked[js->ranks++] = (uint8_t)s;
		}
	js->version++;
}

/* A member that left, or came back from elsewhere, is somebody new: nothing of the former one is
 * left, neither a join nor a place to send results to. */
static void
set_members(struct collective *state, struct job_shard *js, const struct ppe_job *job)
{
	uint64_t left[MASK_WORDS] = {0};
	bool changed = false;

	for (unsigned int s = 0; s < js->source_end; s++) {
		uint32_t address = ppe_job_has(job, (uint8_t)s) ? job->address[s] : 0;

		if (js->address[s] == address)
			continue;
		if (js->address[s] != 0) {
			js->endpoint[s].valid = 0;
			js->memo[s] = (struct memo){0};
			js->seen[s] = (struct source_seen){0};
			js->late[s] = (struct source_late){0};
			js->version++;
			mask_set(left, (uint8_t)s);
		}
		if (js->address[s] != 0 && js->home != NULL)
			forget_joins(js->home, (uint8_t)s);
		js->address[s] = address;
		changed = true;
	}
	if (!changed || js->pinned)
		return;
	job_shard_regroup(state, js, left);
	rank_sources(js, job->members);
}

/* What blocks that are open already are waited for. */
static void
set_timeout(struct collective *state, struct job_shard *js, const struct ppe_job *job)
{
	uint64_t timeout = job->timeout_ms * state->tsc_per_ms;

	if (js->timeout == timeout && js->policy == job->policy)
		return;
	js->timeout = timeout;
	js->policy = job->policy;
	age_anew(state, js);
}

void
collective_jobs_taken(void *arg)
{
	struct collective *state = arg;
	const struct ppe_jobs *jobs = state->worker->jobs;
	uint32_t shortest = 60000;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *job = jobs->by_id[id];

		if (job == NULL)
			continue;
		shortest = RTE_MIN(shortest, job->timeout_ms);
		if (state->job[id] == NULL)
			continue;
		set_timeout(state, state->job[id], job);
		set_rate(state->job[id], state->worker, job);
		set_members(state, state->job[id], job);
	}
	ppe_timer_set_period(state->worker, age, shortest * UINT64_C(1000) / VISITS);
}

bool
collective_job_idle(const void *shard)
{
	const struct job_shard *js = shard;

	return rmw_pool_used(js->pool) == 0;
}

void
collective_job_destroy(void *shard, struct ppe_program_leaks *leaks)
{
	struct job_shard *js = shard;

	if (js == NULL)
		return;
	if (js->pool != NULL) {
		leaks->buffers += rmw_pool_used(js->pool);
		leaks->faults += rmw_pool_faults(js->pool);
		rmw_pool_destroy(js->pool);
		rte_free(js->pool); /* it lies at the beginning of its memory */
	}
	order_destroy(js->order, leaks);
	if (js->ledger != NULL)
		js->ledger->reserved -= js->records;
	rte_free(js->slot);
	rte_free(js->home);
	rte_free(js->keys);
	rte_free(js);
}
