/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that come and go while the switch runs.
 *
 * What programs keep of a job (its shards) is made by the control thread before any table names
 * the job, is its worker's from the turn in which the worker takes that table, and is the control
 * thread's again when no worker has a table that names it. It is freed when the last packet that
 * refers to its memory has left.
 */
#include "ppe/jobs.h"

#include <errno.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>

#include "ppe/ppe_priv.h"
#include "ppe/programs/programs.h"

RTE_LOG_REGISTER_SUFFIX(ppe_jobs_log, jobs, NOTICE);
#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_jobs_log, "weir: " __VA_ARGS__)

#define TAKE_POLL_US    50
#define TAKE_WARN_US    1000000

static struct ppe_setup
setup_of(struct ppe *ppe, unsigned int worker)
{
	return (struct ppe_setup){.ppe = ppe,
		.config = &ppe->config,
		.worker = ppe->worker[worker],
		.worker_id = worker,
		.workers = ppe->config.workers,
		.nb_ports = ppe->nb_ports,
		.socket = (int)rte_lcore_to_socket_id(ppe->lcore[worker])};
}

static void
destroy_shards(struct ppe *ppe, struct ppe_job_shards *shards, struct ppe_program_leaks *leaks)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < ppe->nb_programs; p++)
			if (shards->of[w][p] != NULL)
				ppe->program[p]->job_destroy(shards->of[w][p], leaks);
	rte_free(shards);
}

static int
create_shards(struct ppe *ppe, const struct ppe_job *job, struct ppe_job_shards **out)
{
	struct ppe_program_leaks none = {0};
	struct ppe_job_shards *shards = rte_zmalloc("weir_shards", sizeof(*shards), 0);
	int rc = shards == NULL ? -ENOMEM : 0;

	for (unsigned int w = 0; rc == 0 && w < ppe->config.workers; w++) {
		struct ppe_setup setup = setup_of(ppe, w);

		for (unsigned int p = 0; rc == 0 && p < ppe->nb_programs; p++)
			if (ppe->program[p]->job_create != NULL)
				rc = ppe->program[p]->job_create(
					&setup, ppe->worker[w]->state[p], job, &shards->of[w][p]);
	}
	if (rc == 0) {
		shards->job = *job;
		*out = shards;
	} else if (shards != NULL) {
		destroy_shards(ppe, shards, &none);
	}
	return rc;
}

/* Is it the job that runs, perhaps with other attributes? Its shards have its shape. */
static bool
same_job(const struct ppe_job *a, const struct ppe_job *b)
{
	return a->instance == b->instance && a->window == b->window && a->elements == b->elements &&
		a->nb_sources == b->nb_sources && a->block_shift == b->block_shift &&
		a->fixed_generation == b->fixed_generation &&
		a->authenticated == b->authenticated && memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

/* The table of these jobs: shards of jobs that stay are the running table's, others are made. */
static int
make_table(struct ppe *ppe, const struct ppe_jobs *jobs, struct ppe_job_table **out)
{
	const struct ppe_job_table *old = ppe->table;
	struct ppe_program_leaks none = {0};
	struct ppe_job_table *table = rte_zmalloc("weir_jobs", sizeof(*table), 0);
	int rc = table == NULL ? -ENOMEM : 0;

	for (unsigned int id = 0; rc == 0 && id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job *job = jobs->by_id[id];

		table->jobs.by_id[id] = job;
		if (job == NULL)
			continue;
		if (old != NULL && old->shards[id] != NULL && same_job(&old->shards[id]->job, job))
			table->shards[id] = old->shards[id];
		else
			rc = create_shards(ppe, job, &table->shards[id]);
	}
	if (rc == 0) {
		table->jobs.version = old == NULL ? 0 : old->jobs.version + 1;
		*out = table;
		return 0;
	}
	for (unsigned int id = 0; table != NULL && id < WEIR_JOBS_MAX; id++)
		if (table->shards[id] != NULL &&
			(old == NULL || table->shards[id] != old->shards[id]))
			destroy_shards(ppe, table->shards[id], &none);
	rte_free(table);
	return rc;
}

/* The worker's programs learn what has changed between two tables. */
static void
tell_programs(struct ppe_worker *worker, const struct ppe_job_table *old,
	const struct ppe_job_table *table)
{
	const struct ppe *ppe = worker->ppe;

	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ppe_job_shards *before = old == NULL ? NULL : old->shards[id];
		const struct ppe_job_shards *after = table == NULL ? NULL : table->shards[id];

		for (unsigned int p = 0; before != after && p < ppe->nb_programs; p++)
			if (ppe->program[p]->job_take != NULL)
				ppe->program[p]->job_take(worker->state[p], (uint8_t)id,
					after == NULL ? NULL : after->of[worker->id][p]);
	}
}

void
ppe_take_jobs(struct ppe_worker *worker, const struct ppe_job_table *table)
{
	const struct ppe *ppe = worker->ppe;

	tell_programs(worker, worker->table, table);
	worker->table = table;
	worker->jobs = &table->jobs;
	for (unsigned int p = 0; p < ppe->nb_programs; p++)
		if (ppe->program[p]->jobs_taken != NULL)
			ppe->program[p]->jobs_taken(worker->state[p]);
	/* Release: what the worker did with the former table is done. */
	__atomic_store_n(&worker->taken, table, __ATOMIC_RELEASE);
}

int
ppe_first_jobs(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	int rc = make_table(ppe, jobs, &ppe->table);

	for (unsigned int w = 0; rc == 0 && w < ppe->config.workers; w++)
		ppe_take_jobs(ppe->worker[w], ppe->table);
	return rc;
}

/* Until every worker has passed a turn's end. Those that don't run have nothing to pass. */
static void
wait_for_turns(struct ppe *ppe)
{
	if (ppe->state == PPE_STATE_RUNNING)
		rte_rcu_qsbr_synchronize(ppe->qsbr, RTE_QSBR_THRID_INVALID);
}

/*
 * Until every worker has taken the table. A quiescent state would not do: threads that live on over
 * a turn's end keep their worker at its old table, and the worker alone knows when it changes over.
 */
static void
wait_for_taking(const struct ppe *ppe, const struct ppe_job_table *table)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		struct ppe_worker *worker = ppe->worker[w];
		unsigned int us = 0;

		/* Acquire pairs with the release in ppe_take_jobs: the worker is done with the old one. */
		while (__atomic_load_n(&worker->taken, __ATOMIC_ACQUIRE) != table) {
			rte_delay_us_sleep(TAKE_POLL_US);
			us += TAKE_POLL_US;
			if (us == TAKE_WARN_US)
				LOG(WARNING,
					"worker %u does not turn: a change of jobs waits for it\n",
					w);
		}
	}
}

/* The workers are done with the shards: what they say is final. A walk may have been cut short, and
 * then some are a generation ahead. */
static void
note_generation(struct ppe *ppe, const struct ppe_job_shards *shards)
{
	uint16_t *last = &ppe->last_generation[shards->job.id];

	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < ppe->nb_programs; p++) {
			struct ppe_job_stats stats = {0};

			if (shards->of[w][p] == NULL || ppe->program[p]->job_stats == NULL)
				continue;
			ppe->program[p]->job_stats(shards->of[w][p], &stats);
			if (stats.generation != 0 &&
				(*last == 0 || (int16_t)(stats.generation - *last) > 0))
				*last = stats.generation;
		}
}

uint16_t
ppe_generation_after(const struct ppe *ppe, uint8_t id)
{
	uint16_t last = ppe->last_generation[id];

	if (last == 0)
		return 0;
	return last == UINT16_MAX ? 1 : (uint16_t)(last + 1);
}

bool
ppe_job_is_leaving(const struct ppe *ppe, uint8_t id, uint32_t instance)
{
	for (const struct ppe_job_shards *s = ppe->leaving; s != NULL; s = s->next)
		if (s->job.id == id && s->job.instance == instance)
			return true;
	return false;
}

int
ppe_publish_jobs(struct ppe *ppe, const struct ppe_jobs *jobs)
{
	struct ppe_job_table *old = ppe->table, *table;
	int rc = make_table(ppe, jobs, &table);

	if (rc < 0)
		return rc;
	/* Release: the table's contents before its address. */
	__atomic_store_n(&ppe->table, table, __ATOMIC_RELEASE);
	for (unsigned int w = 0; ppe->state != PPE_STATE_RUNNING && w < ppe->config.workers; w++)
		ppe_take_jobs(ppe->worker[w], table);
	wait_for_taking(ppe, table);
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		if (old->shards[id] == NULL || old->shards[id] == table->shards[id])
			continue;
		note_generation(ppe, old->shards[id]);
		old->shards[id]->next = ppe->leaving;
		ppe->leaving = old->shards[id];
	}
	rte_free(old);
	ppe_jobs_leaving(ppe);
	return 0;
}

static bool
idle(const struct ppe *ppe, const struct ppe_job_shards *shards)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < ppe->nb_programs; p++)
			if (shards->of[w][p] != NULL &&
				!ppe->program[p]->job_idle(shards->of[w][p]))
				return false;
	return true;
}

unsigned int
ppe_jobs_leaving(struct ppe *ppe)
{
	struct ppe_job_shards **link = &ppe->leaving;
	struct ppe_program_leaks none = {0};
	unsigned int left = 0;

	while (*link != NULL) {
		struct ppe_job_shards *shards = *link;

		if (!idle(ppe, shards)) {
			link = &shards->next;
			left++;
			continue;
		}
		*link = shards->next;
		/* The worker that gave the last buffer back may be at it still. */
		wait_for_turns(ppe);
		destroy_shards(ppe, shards, &none);
	}
	return left;
}

void
ppe_destroy_jobs(struct ppe *ppe, struct ppe_program_leaks *leaks)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (ppe->table != NULL && ppe->worker[w] != NULL)
			tell_programs(ppe->worker[w], ppe->worker[w]->table, NULL);
	for (unsigned int id = 0; ppe->table != NULL && id < WEIR_JOBS_MAX; id++)
		if (ppe->table->shards[id] != NULL)
			destroy_shards(ppe, ppe->table->shards[id], leaks);
	rte_free(ppe->table);
	ppe->table = NULL;
	while (ppe->leaving != NULL) {
		struct ppe_job_shards *shards = ppe->leaving;

		ppe->leaving = shards->next;
		destroy_shards(ppe, shards, leaks);
	}
}

void
ppe_job_room(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *room)
{
	struct ppe_memory memory = {0};

	*room = (struct ppe_room){.records_free = UINT32_MAX};
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		uint32_t records = 2 * ppe_job_residues(job, w, ppe->config.workers);
		struct rte_malloc_socket_stats heap;

		collective_job_memory(job, w, ppe->config.workers, &memory);
		room->records_needed = RTE_MAX(room->records_needed, records);
		if (rte_malloc_get_socket_stats(
			    (int)rte_lcore_to_socket_id(ppe->lcore[w]), &heap) == 0)
			room->memory_free =
				RTE_MAX(room->memory_free, (uint64_t)heap.greatest_free_size);
	}
	room->memory_needed = memory.data_memory + memory.block_tables;
	collective_room(ppe, room);
}

int
ppe_job_stats_read(const struct ppe *ppe, uint8_t job, struct ppe_job_stats *stats)
{
	const struct ppe_job_shards *shards = ppe->table->shards[job];

	memset(stats, 0, sizeof(*stats));
	if (shards == NULL)
		return -ENOENT;
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		for (unsigned int p = 0; p < ppe->nb_programs; p++)
			if (shards->of[w][p] != NULL && ppe->program[p]->job_stats != NULL)
				ppe->program[p]->job_stats(shards->of[w][p], stats);
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
		for (unsigned int p = 0; p < ppe->nb_programs; p++)
			if (shards->of[w][p] != NULL && ppe->program[p]->job_source != NULL)
				ppe->program[p]->job_source(shards->of[w][p], source, stats);
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
		for (unsigned int p = 0; p < ppe->nb_programs; p++)
			if (shards->of[w][p] != NULL && ppe->program[p]->job_blocks != NULL)
				n += ppe->program[p]->job_blocks(shards->of[w][p], open, idle_us,
					n < max ? &blocks[n] : NULL, n < max ? max - n : 0);
	return (int)n;
}
