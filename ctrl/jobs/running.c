/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/running.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctrl/config/tree.h"
#include "ctrl/jobs/jobs_priv.h"
#include "ctrl/jobs/state.h"

#define STUCK_S 1.0

static double
clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double
ctrl_monotonic(void)
{
	return clock_now(CLOCK_MONOTONIC);
}

double
ctrl_unix_time(void)
{
	return clock_now(CLOCK_REALTIME);
}

json_t *
ctrl_running_shown(const struct ctrl_config *config, unsigned int id)
{
	const struct ppe_job *job = config->jobs.by_id[id];
	const json_t *jobs = json_object_get(config->document, "jobs");

	return job == NULL
		? NULL
		: ctrl_tree_shown(job, json_array_get(jobs, (size_t)(job - config->job)));
}

int
ctrl_running_create(
	const struct ctrl_config *config, struct ppe *ppe, struct ctrl_running **running)
{
	struct ctrl_running *r = calloc(1, sizeof(*r));

	*running = NULL;
	if (r == NULL)
		return -ENOMEM;
	r->config = config;
	r->ppe = ppe;
	r->engine = &ctrl_engine_ppe;
	r->started = r->ticked = ctrl_monotonic();
	r->started_at = ctrl_unix_time();
	for (unsigned int i = 0; i < config->nb_jobs; i++) {
		struct ctrl_job *job = ctrl_job_new(&config->job[i]);

		if (job == NULL) {
			ctrl_running_destroy(r);
			return -ENOMEM;
		}
		job->from_file = true;
		job->shown = ctrl_running_shown(config, job->job->id);
		r->by_id[job->job->id] = r->published[job->job->id] = job;
		ctrl_generations_begin(r, job->job);
	}
	for (unsigned int w = 0; w < PPE_WORKERS_MAX; w++)
		r->pulse[w].changed_at = r->started;
	*running = r;
	return 0;
}

void
ctrl_running_destroy(struct ctrl_running *running)
{
	if (running == NULL)
		return;
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++)
		ctrl_job_free(running->by_id[i]);
	while (running->leaving != NULL) {
		struct ctrl_job *job = running->leaving;

		running->leaving = job->leaving_next;
		ctrl_job_free(job);
	}
	json_decref(running->set_aside);
	free(running);
}

void
ctrl_pulse_update(
	struct ctrl_pulse *pulse, const struct ppe_worker_stats *worker, double now, bool tick)
{
	uint64_t turns = worker->turns - pulse->turns,
		 busy = worker->busy_turns - pulse->busy_turns;

	if (worker->turns != pulse->last_turns) {
		pulse->last_turns = worker->turns;
		pulse->changed_at = now;
	}
	if (!tick)
		return;
	pulse->busy = turns == 0 ? 0 : (double)busy / (double)turns;
	pulse->turns = worker->turns;
	pulse->busy_turns = worker->busy_turns;
}

static void
feel(struct ctrl_running *running, bool tick)
{
	double now = ctrl_monotonic();

	ppe_stats_read(running->ppe, &running->stats);
	for (unsigned int w = 0; w < running->config->ppe.workers; w++)
		ctrl_pulse_update(&running->pulse[w], &running->stats.worker[w], now, tick);
}

void
ctrl_running_tick(struct ctrl_running *running)
{
	feel(running, true);
	ctrl_jobs_tick(running);
}

void
ctrl_running_read(struct ctrl_running *running)
{
	feel(running, false);
}

int
ctrl_running_stuck_worker(struct ctrl_running *running)
{
	double now = ctrl_monotonic();

	for (unsigned int w = 0; w < running->config->ppe.workers; w++)
		if (now - running->pulse[w].changed_at > STUCK_S)
			return (int)w;
	return -1;
}

struct ctrl_job *
ctrl_running_next_job(const struct ctrl_running *running, unsigned int id)
{
	while (id < WEIR_JOBS_MAX && running->by_id[id] == NULL)
		id++;
	return id < WEIR_JOBS_MAX ? running->by_id[id] : NULL;
}

struct ctrl_job *
ctrl_running_find_job(const struct ctrl_running *running, const char *name)
{
	CTRL_FOREACH_JOB (job, running)
		if (strcmp(job->job->name, name) == 0)
			return job;
	return NULL;
}

bool
ctrl_job_is_leaving(const struct ctrl_running *running, const struct ctrl_job *job)
{
	return running->by_id[job->job->id] != job;
}

void
ctrl_running_job_stats(
	const struct ctrl_running *running, const struct ctrl_job *job, struct ppe_job_stats *stats)
{
	if (ctrl_job_is_leaving(running, job) ||
		ppe_job_stats_read(running->ppe, job->job->id, stats) < 0)
		memset(stats, 0, sizeof(*stats));
	/* All sources of an abandoned job are gone: its blocks do not count as waiting. */
	if (ctrl_job_is_abandoned(job, stats))
		stats->blocks_in_flight = 0;
}

static uint16_t
generation(const struct ppe *ppe, uint8_t id)
{
	struct ppe_job_stats stats;

	return ppe_job_stats_read(ppe, id, &stats) < 0 ? 0 : stats.generation;
}

static double
silent(const struct ppe *ppe, uint8_t id, uint8_t source)
{
	struct ppe_source_stats stats;

	if (ppe_source_stats_read(ppe, id, source, &stats) < 0)
		return -1;
	if (stats.joining)
		return 0;
	if (!stats.heard)
		return -1;
	return (double)stats.silent_us / 1e6;
}

static int
stuck(struct ctrl_running *running)
{
	ctrl_running_read(running);
	return running->is_ready ? ctrl_running_stuck_worker(running) : -1;
}

const struct ctrl_engine ctrl_engine_ppe = {
	.publish = ppe_publish_jobs,
	.check = ppe_check_jobs,
	.room = ppe_job_room,
	.reap = ppe_jobs_leaving,
	.is_leaving = ppe_job_is_leaving,
	.generation_after = ppe_generation_after,
	.generation = generation,
	.silent = silent,
	.stuck = stuck,
	.parent = ppe_parent_stats_read,
};
