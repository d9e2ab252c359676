/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that come and go while the switch runs: docs/architecture.md, "Jobs come and go". */
#include "ppe/jobs.h"

#include <errno.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>

#include "ppe/ppe_priv.h"

#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_log, "weir: " __VA_ARGS__)

/* How long to wait for a turn of the slowest worker, before leaving the rest to the next tick. */
#define POLL_US 50
#define WAIT_US 500000

/* If a source sends other packets so long after its request to join, two processes use its id. */
#define CONTESTED_US UINT64_C(1000000)

/* Free memory that may hold keys. */
static void
forget(void *memory, size_t bytes)
{
	if (memory != NULL)
		explicit_bzero(memory, bytes);
	rte_free(memory);
}

/* The operations of a program that has jobs; NULL: it has none, or there is no program. */
static const struct ppe_jobs_ops *
ops(const struct ppe *ppe, unsigned int p)
{
	return ppe->slot[p] == NULL ? NULL : ppe->slot[p]->program->jobs;
}

static void
destroy_shards_of(struct ppe *ppe, struct ppe_job_shards *shards, unsigned int p,
	struct ppe_program_leaks *leaks)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (shards->of[w][p] != NULL) {
			ops(ppe, p)->destroy(shards->of[w][p], leaks);
			shards->of[w][p] = NULL;
		}
}

static void
destroy_shards(struct ppe *ppe, struct ppe_job_shards *shards, struct ppe_program_leaks *leaks)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		destroy_shards_of(ppe, shards, p, leaks);
	forget(shards, sizeof(*shards));
}

/* Make the shards of a job in one program. An error leaves some. */
static int
create_shards_of(struct ppe *ppe, const struct ppe_slot *slot, const struct ppe_job *job,
	struct ppe_job_shards *shards)
{
	int rc = 0;

	for (unsigned int w = 0; rc == 0 && w < ppe->config.workers; w++) {
		struct ppe_setup setup = ppe_setup_of(ppe, w);

		setup.serial = shards->serial;
		rc = slot->program->jobs->create(
			&setup, slot->state[w], job, &shards->of[w][slot->index]);
	}
	return rc;
}

static int
create_shards(struct ppe *ppe, const struct ppe_job *job, struct ppe_job_shards **out)
{
	struct ppe_program_leaks none = {0};
	struct ppe_job_shards *shards = rte_zmalloc("weir_shards", sizeof(*shards), 0);
	int rc = shards == NULL ? -ENOMEM : 0;

	if (shards != NULL)
		shards->serial = ++ppe->serials;
	for (unsigned int p = 0; rc == 0 && p < PPE_PROGRAMS_MAX; p++)
		if (ops(ppe, p) != NULL && ppe->slot[p]->phase <= PPE_PROGRAM_RUNNING)
			rc = create_shards_of(ppe, ppe->slot[p], job, shards);
	if (rc == 0) {
		shards->job = *job;
		*out = shards;
	} else if (shards != NULL) {
		destroy_shards(ppe, shards, &none);
	}
	return rc;
}

/* Is b the running job a with other attributes, if any? a's shards fit b's shape and sources. */
static bool
same_job(const struct ppe_job *a, const struct ppe_job *b)
{
	return a->instance == b->instance && a->window == b->window && a->elements == b->elements &&
		a->nb_sources == b->nb_sources && a->block_shift == b->block_shift &&
		ppe_job_source_end(b) <= ppe_job_source_end(a) &&
		a->fixed_generation == b->fixed_generation &&
		a->deterministic == b->deterministic && a->proved == b->proved &&
		a->authenticated == b->authenticated && a->narrow == b->narrow &&
		a->alltoall == b->alltoall && a->integrity == b->integrity &&
		a->nb_parents == b->nb_parents && a->first_rank == b->first_rank &&
		a->tree_ranks == b->tree_ranks && memcmp(a->key, b->key, sizeof(a->key)) == 0 &&
		memcmp(a->ranks, b->ranks, sizeof(a->ranks)) == 0 &&
		memcmp(a->parent, b->parent, sizeof(a->parent)) == 0;
}

static struct ppe_published *
copy_table(const struct ppe_jobs *jobs)
{
	struct ppe_published *table;
	size_t bytes = sizeof(*table);
	unsigned int n = 0;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		bytes += jobs->by_id[id] == NULL ? 0 : sizeof(table->job[0]);
	table = rte_zmalloc("weir_jobs", bytes, 0);
	if (table == NULL)
		return NULL;
	table->bytes = bytes;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		if (jobs->by_id[id] == NULL)
			continue;
		table->job[n] = *jobs->by_id[id];
		table->jobs.by_id[id] = &table->job[n++];
	}
	return table;
}

/* Free a table and its shards, except those that `kept` has, too; NULL: no table. */
static void
destroy_table(struct ppe *ppe, struct ppe_published *table, const struct ppe_published *kept,
	struct ppe_program_leaks *leaks)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (table->shards[id] != NULL &&
			(kept == NULL || table->shards[id] != kept->shards[id]))
			destroy_shards(ppe, table->shards[id], leaks);
	forget(table, table->bytes);
}

/* Make the table of these jobs. Jobs that stay keep their shards; others get new ones. */
static int
make_table(struct ppe *ppe, const struct ppe_jobs *jobs, struct ppe_published **out)
{
	const struct ppe_published *old = ppe->table;
	struct ppe_program_leaks none = {0};
	struct ppe_published *table = copy_table(jobs);
	int rc = table == NULL ? -ENOMEM : 0;

	for (unsigned int id = 0; rc == 0 && id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *job = table->jobs.by_id[id];

		if (job == NULL)
			continue;
		if (old != NULL && old->shards[id] != NULL && same_job(&old->shards[id]->job, job))
			table->shards[id] = old->shards[id];
		else
			rc = create_shards(ppe, job, &table->shards[id]);
	}
	if (rc == 0) {
		ppe_list_programs(ppe, table);
		table->jobs.version = old == NULL ? 0 : old->jobs.version + 1;
		*out = table;
		return 0;
	}
	if (table != NULL)
		destroy_table(ppe, table, old, &none);
	return rc;
}

/* The shard of a job that a worker with this table uses in program p; NULL: none. */
static void *
shard_of(const struct ppe_worker *worker, const struct ppe_published *table, unsigned int id,
	unsigned int p)
{
	if (table == NULL || table->shards[id] == NULL || table->slot[p] == NULL)
		return NULL;
	return table->shards[id]->of[worker->id][p];
}

static void
tell_program(struct ppe_worker *worker, const struct ppe_published *old,
	const struct ppe_published *table, const struct ppe_slot *slot)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		void *after = shard_of(worker, table, id, slot->index);

		if (shard_of(worker, old, id, slot->index) != after)
			slot->program->jobs->take(slot->state[worker->id], (uint8_t)id, after);
	}
}

static void
tell_programs(struct ppe_worker *worker, const struct ppe_published *old,
	const struct ppe_published *table)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_slot *slot = table == NULL ? NULL : table->slot[p];

		if (slot == NULL && old != NULL)
			slot = old->slot[p];
		if (slot != NULL && slot->program->jobs != NULL)
			tell_program(worker, old, table, slot);
	}
}

void
ppe_take_table(struct ppe_worker *worker, const struct ppe_published *table)
{
	const struct ppe_published *old = worker->table;

	worker->table = table;
	worker->jobs = &table->jobs;
	ppe_take_programs(worker, table);
	tell_programs(worker, old, table);
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
		if (table->slot[p] != NULL && table->slot[p]->program->jobs != NULL)
			table->slot[p]->program->jobs->taken(worker->state[p]);
	/* Release: the worker is done with the former table. */
	__atomic_store_n(&worker->taken, table, __ATOMIC_RELEASE);
}

int
ppe_first_jobs(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	int rc = make_table(ppe, jobs, &ppe->table);

	for (unsigned int w = 0; rc == 0 && w < ppe->config.workers; w++)
		ppe_take_table(ppe->worker[w], ppe->table);
	return rc;
}

bool
ppe_running(const struct ppe *ppe)
{
	return ppe->state == PPE_STATE_RUNNING || ppe->state == PPE_STATE_DRAINING;
}

/* Wait for what takes workers a turn; false: a worker did not turn. */
static bool
wait_until(const struct ppe *ppe, bool (*over)(const struct ppe *, void *), void *arg)
{
	/* Use the clock: on a busy machine a sleep takes longer. */
	const uint64_t limit = rte_get_tsc_hz() / 1000000 * WAIT_US, began = ppe_clock();

	while (!over(ppe, arg)) {
		if (ppe_clock() - began >= limit)
			return false;
		rte_delay_us_sleep(POLL_US);
	}
	return true;
}

/* Has every worker taken the present table? If not, *first is the first that has not. (An RCU
 * quiescent state is not enough: threads outlive a turn.) */
static bool
taken(const struct ppe *ppe, void *first)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		/* Acquire pairs with the release in ppe_take_table: it is done with the old one. */
		if (__atomic_load_n(&ppe->worker[w]->taken, __ATOMIC_ACQUIRE) != ppe->table) {
			*(unsigned int *)first = w;
			return false;
		}
	return true;
}

/* The workers no longer use the shards, so their generations are final. After an incomplete
 * announcement some are one ahead. */
static void
note_generation(struct ppe *ppe, const struct ppe_job_shards *shards)
{
	uint16_t *last = &ppe->last_generation[shards->job.id];

	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
			struct ppe_job_stats stats = {0};

			if (shards->of[w][p] == NULL || ops(ppe, p)->stats == NULL)
				continue;
			ops(ppe, p)->stats(shards->of[w][p], &stats);
			if (stats.generation != 0 &&
				(*last == 0 || (int16_t)(stats.generation - *last) > 0))
				*last = stats.generation;
		}
}

/* Is the job in the former table only? A worker may still use it. */
static bool
is_given_up(const struct ppe_published *table, uint8_t id, uint32_t instance)
{
	const struct ppe_published *former = table->former;

	return former != NULL && former->shards[id] != NULL &&
		former->shards[id] != table->shards[id] &&
		former->shards[id]->job.instance == instance;
}

bool
ppe_job_is_leaving(const struct ppe *ppe, uint8_t id, uint32_t instance)
{
	if (is_given_up(ppe->table, id, instance))
		return true;
	for (const struct ppe_job_shards *s = ppe->leaving; s != NULL; s = s->next)
		if (s->job.id == id && s->job.instance == instance)
			return true;
	return false;
}

/* All workers have the table: remove jobs that are not in it, and free the former table. */
static void
settle(struct ppe *ppe)
{
	struct ppe_published *table = ppe->table, *former = table->former;
	unsigned int stuck;

	if (former == NULL || !taken(ppe, &stuck))
		return;
	table->former = NULL;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		if (former->shards[id] == NULL || former->shards[id] == table->shards[id])
			continue;
		note_generation(ppe, former->shards[id]);
		former->shards[id]->next = ppe->leaving;
		ppe->leaving = former->shards[id];
	}
	forget(former, former->bytes);
}

uint16_t
ppe_generation_after(struct ppe *ppe, uint8_t id)
{
	const struct ppe_published *former;
	uint16_t last;

	settle(ppe);
	former = ppe->table->former;
	last = ppe->last_generation[id];
	/* The former job may begin one more. */
	if (former != NULL && former->shards[id] != NULL &&
		former->shards[id] != ppe->table->shards[id])
		last = 0;
	if (last == 0)
		return 0;
	return last == UINT16_MAX ? 1 : (uint16_t)(last + 1);
}

/* The table to publish next. */
static int
make_next(struct ppe *ppe, const struct ppe_jobs *jobs, struct ppe_published **table)
{
	settle(ppe);
	return ppe->table->former != NULL ? -EBUSY : make_table(ppe, jobs, table);
}

int
ppe_check_jobs(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	struct ppe_program_leaks none = {0};
	struct ppe_published *table;
	int rc = make_next(ppe, jobs, &table);

	if (rc == 0)
		destroy_table(ppe, table, ppe->table, &none);
	return rc;
}

bool
ppe_all_taken(struct ppe *ppe)
{
	settle(ppe);
	return ppe->table->former == NULL;
}

/* Publish a table, and wait for the workers. Returns whether all have taken it. */
static bool
publish(struct ppe *ppe, struct ppe_published *table)
{
	unsigned int stuck;

	table->former = ppe->table;
	ppe_trace_note_jobs(ppe, ppe->table, table);
	/* Release: the table's contents before its address. */
	__atomic_store_n(&ppe->table, table, __ATOMIC_RELEASE);
	for (unsigned int w = 0; !ppe_running(ppe) && w < ppe->config.workers; w++)
		ppe_take_table(ppe->worker[w], table);
	if (wait_until(ppe, taken, &stuck))
		return true;
	LOG(WARNING, "worker %u is stuck: it has not taken the new jobs and programs yet\n", stuck);
	return false;
}

int
ppe_publish_jobs(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	struct ppe_published *table;
	int rc = make_next(ppe, jobs, &table);

	if (rc == 0 && publish(ppe, table))
		ppe_jobs_leaving(ppe);
	return rc;
}

int
ppe_publish_programs(struct ppe *ppe)
{
	struct ppe_published *table;
	int rc = make_next(ppe, &ppe->table->jobs, &table);

	if (rc == 0)
		publish(ppe, table);
	return rc;
}

int
ppe_create_shards(struct ppe *ppe, const struct ppe_slot *slot)
{
	struct ppe_program_leaks none = {0};
	int rc = 0;

	for (unsigned int id = 0; slot->program->jobs != NULL && rc == 0 && id < WEIR_JOBS_MAX;
		id++)
		if (ppe->table->shards[id] != NULL)
			rc = create_shards_of(
				ppe, slot, ppe->table->jobs.by_id[id], ppe->table->shards[id]);
	if (rc < 0)
		ppe_destroy_shards(ppe, slot->index, &none);
	return rc;
}

bool
ppe_shards_idle(const struct ppe *ppe, unsigned int slot)
{
	/* Those of deleted jobs go with their jobs. */
	for (const struct ppe_job_shards *s = ppe->leaving; s != NULL; s = s->next)
		for (unsigned int w = 0; w < ppe->config.workers; w++)
			if (s->of[w][slot] != NULL)
				return false;
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job_shards *shards = ppe->table->shards[id];

		for (unsigned int w = 0; shards != NULL && w < ppe->config.workers; w++)
			if (shards->of[w][slot] != NULL &&
				!ops(ppe, slot)->idle(shards->of[w][slot]))
				return false;
	}
	return true;
}

void
ppe_destroy_shards(struct ppe *ppe, unsigned int slot, struct ppe_program_leaks *leaks)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (ppe->table->shards[id] != NULL)
			destroy_shards_of(ppe, ppe->table->shards[id], slot, leaks);
}

static bool
idle(const struct ppe *ppe, const struct ppe_job_shards *shards)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (shards->of[w][p] != NULL && !ops(ppe, p)->idle(shards->of[w][p]))
				return false;
	return true;
}

/* Have all workers ended the turn in which they saw the token? */
static bool
turned(const struct ppe *ppe, void *token)
{
	return !ppe_running(ppe) ||
		rte_rcu_qsbr_check(ppe->qsbr, *(const uint64_t *)token, false) == 1;
}

/* The worker that returned the last buffer may still be in that call: wait for one turn, for all
 * such jobs together. */
static void
note_returned(struct ppe *ppe)
{
	uint64_t token = 0;
	bool any = false;

	for (struct ppe_job_shards *s = ppe->leaving; s != NULL; s = s->next) {
		if (s->all_returned || !idle(ppe, s))
			continue;
		if (!any)
			token = rte_rcu_qsbr_start(ppe->qsbr);
		any = true;
		s->all_returned = true;
		s->token = token;
	}
	if (any)
		wait_until(ppe, turned, &token);
}

unsigned int
ppe_jobs_leaving(struct ppe *ppe)
{
	struct ppe_job_shards **link = &ppe->leaving;
	unsigned int n = 0;

	settle(ppe);
	note_returned(ppe);
	while (*link != NULL) {
		struct ppe_job_shards *shards = *link;

		if (!shards->all_returned || !turned(ppe, &shards->token)) {
			link = &shards->next;
			n++;
			continue;
		}
		*link = shards->next;
		destroy_shards(ppe, shards, &ppe->lost);
	}
	return n;
}

void
ppe_destroy_jobs(struct ppe *ppe, struct ppe_program_leaks *leaks)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (ppe->table != NULL && ppe->worker[w] != NULL)
			tell_programs(ppe->worker[w], ppe->worker[w]->table, NULL);
	if (ppe->table != NULL && ppe->table->former != NULL)
		destroy_table(ppe, ppe->table->former, ppe->table, leaks);
	if (ppe->table != NULL)
		destroy_table(ppe, ppe->table, NULL, leaks);
	ppe->table = NULL;
	while (ppe->leaving != NULL) {
		struct ppe_job_shards *shards = ppe->leaving;

		ppe->leaving = shards->next;
		destroy_shards(ppe, shards, leaks);
	}
}

void
ppe_add_job_memory(
	const struct ppe_config *config, const struct ppe_job *job, struct ppe_memory *memory)
{
	for (const struct ppe_program *const *p = config->programs; *p != NULL; p++)
		for (unsigned int w = 0;
			w < config->workers && (*p)->jobs != NULL && (*p)->jobs->memory != NULL;
			w++)
			(*p)->jobs->memory(job, w, config->workers, memory);
}

void
ppe_job_memory(
	const struct ppe_config *config, const struct ppe_job *job, struct ppe_memory *memory)
{
	memset(memory, 0, sizeof(*memory));
	ppe_add_job_memory(config, job, memory);
	memory->block_tables += sizeof(struct ppe_job_shards) + sizeof(struct ppe_job);
	memory->total = memory->data_memory + memory->block_tables;
}

void
ppe_job_room(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *room)
{
	struct ppe_memory memory;

	ppe_job_memory(&ppe->config, job, &memory);
	*room = (struct ppe_room){.memory_needed = memory.total, .records_free = UINT32_MAX};
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		struct rte_malloc_socket_stats heap;

		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (ops(ppe, p) != NULL && ops(ppe, p)->room != NULL)
				ops(ppe, p)->room(
					ppe->slot[p]->state[w], job, w, ppe->config.workers, room);
		if (rte_malloc_get_socket_stats(
			    (int)rte_lcore_to_socket_id(ppe->lcore[w]), &heap) != 0)
			continue;
		room->memory_free = RTE_MAX(room->memory_free, (uint64_t)heap.greatest_free_size);
		room->memory_left = RTE_MAX(room->memory_left, (uint64_t)heap.heap_freesz_bytes);
	}
}

static bool
source_heard(const struct ppe_worker *worker, const struct ppe_job_shards *shards, uint8_t source,
	uint32_t seconds)
{
	for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++) {
		const struct ppe_slot *slot = worker->table->slot[p];

		if (slot == NULL || slot->program->jobs == NULL ||
			slot->program->jobs->heard == NULL)
			continue;
		for (unsigned int w = 0; w < worker->workers; w++)
			if (shards->of[w][p] != NULL &&
				slot->program->jobs->heard(
					shards->of[w][p], source, worker->now, seconds))
				return true;
	}
	return false;
}

bool
ppe_source_heard(const struct ppe_worker *worker, uint32_t address, uint32_t seconds)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job_shards *shards = worker->table->shards[id];
		const struct ppe_job *job = worker->jobs->by_id[id];

		if (job == NULL || shards == NULL)
			continue;
		/* A parent's address is configured, so it counts as heard. */
		for (unsigned int p = 0; p < job->nb_parents; p++)
			if (job->parent[p].address == address)
				return true;
		for (unsigned int s = 0; s < ppe_job_source_end(job); s++)
			if (ppe_job_has(job, (uint8_t)s) && job->address[s] == address &&
				source_heard(worker, shards, (uint8_t)s, seconds))
				return true;
	}
	return false;
}

int
ppe_job_stats_read(const struct ppe *ppe, uint8_t job, struct ppe_job_stats *stats)
{
	const struct ppe_job_shards *shards = ppe->table->shards[job];

	memset(stats, 0, sizeof(*stats));
	if (shards == NULL)
		return -ENOENT;
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (shards->of[w][p] != NULL && ops(ppe, p)->stats != NULL)
				ops(ppe, p)->stats(shards->of[w][p], stats);
	return 0;
}

int
ppe_source_stats_read(
	const struct ppe *ppe, uint8_t job, uint8_t source, struct ppe_source_stats *stats)
{
	const struct ppe_job_shards *shards = ppe->table->shards[job];

	memset(stats, 0, sizeof(*stats));
	stats->silent_us = UINT64_MAX;
	if (shards == NULL)
		return -ENOENT;
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (shards->of[w][p] != NULL && ops(ppe, p)->source != NULL)
				ops(ppe, p)->source(shards->of[w][p], source, stats);
	/* A process that joins again contributes no more; allow for packets in flight. */
	stats->contested |= stats->joining && stats->heard &&
		stats->silent_us + CONTESTED_US < stats->joining_us;
	return 0;
}

int
ppe_parent_stats_read(
	const struct ppe *ppe, uint8_t job, unsigned int parent, struct ppe_parent_stats *stats)
{
	const struct ppe_job_shards *shards = ppe->table->shards[job];

	memset(stats, 0, sizeof(*stats));
	stats->silent_us = UINT64_MAX;
	if (shards == NULL || parent >= shards->job.nb_parents)
		return -ENOENT;
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (shards->of[w][p] != NULL && ops(ppe, p)->parent != NULL)
				ops(ppe, p)->parent(shards->of[w][p], parent, stats);
	return 0;
}

int
ppe_blocks_read(const struct ppe *ppe, uint8_t job, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max)
{
	const struct ppe_job_shards *shards = ppe->table->shards[job];
	unsigned int n = 0;

	if (shards == NULL)
		return -ENOENT;
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < PPE_PROGRAMS_MAX; p++)
			if (shards->of[w][p] != NULL && ops(ppe, p)->blocks != NULL)
				n += ops(ppe, p)->blocks(shards->of[w][p], open, idle_us,
					n < max ? &blocks[n] : NULL, n < max ? max - n : 0);
	return (int)n;
}
