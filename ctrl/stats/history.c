/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/stats/history.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "ctrl/jobs/running.h"

struct ctrl_history *
ctrl_history_create(double now)
{
	struct ctrl_history *history = calloc(1, sizeof(*history));

	if (history != NULL)
		history->at = now;
	return history;
}

void
ctrl_history_destroy(struct ctrl_history *history)
{
	free(history);
}

/* Series that have not begun, and free places, take no memory: nothing is written to them. */
static void
copy_series(struct ctrl_series *to, const struct ctrl_series *from, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (from[i].begun != 0)
			to[i] = from[i];
		else if (to[i].begun != 0)
			to[i].begun = 0;
	}
}

void
ctrl_history_copy(struct ctrl_history *to, const struct ctrl_history *from)
{
	memcpy(to, from, offsetof(struct ctrl_history, rx));
	copy_series(to->rx, from->rx, PPE_PORTS_MAX);
	copy_series(to->tx, from->tx, PPE_PORTS_MAX);
	copy_series(to->spoofed, from->spoofed, PPE_PORTS_MAX);
	copy_series(to->drop, from->drop, PPE_DROP_COUNT);
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		if (ctrl_history_has(from, &from->job[i]))
			to->job[i] = from->job[i];
		else if (to->job[i].name[0] != '\0')
			to->job[i].name[0] = '\0';
	}
}

bool
ctrl_history_begin(struct ctrl_history *history, double now, double unix_time)
{
	double elapsed = now - history->at;

	/* A tick may come a little early. */
	if (elapsed < 0.5)
		return false;
	history->elapsed = elapsed;
	history->passed = (unsigned int)fmin(elapsed + 0.5, CTRL_HISTORY_SAMPLES);
	history->second += history->passed;
	history->at = now;
	history->time = unix_time;
	return true;
}

void
ctrl_history_put(struct ctrl_history *history, struct ctrl_series *series, uint64_t counter)
{
	/* A counter that went back belongs to a new object, and began at 0. */
	uint64_t more = counter >= series->last ? counter - series->last : counter;
	float rate = (float)((double)more / history->elapsed);

	if (series->begun == 0)
		series->begun = history->second - history->passed + 1;
	series->last = counter;
	for (unsigned int i = 0; i < history->passed; i++)
		series->rate[(history->second - i) % CTRL_HISTORY_SAMPLES] = rate;
}

bool
ctrl_history_has(const struct ctrl_history *history, const struct ctrl_job_history *job)
{
	return job->name[0] != '\0' && history->second - job->seen < CTRL_HISTORY_SAMPLES;
}

static struct ctrl_job_history *
take_place(struct ctrl_history *history)
{
	struct ctrl_job_history *oldest = &history->job[0];

	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		struct ctrl_job_history *job = &history->job[i];

		if (job->name[0] == '\0')
			return job;
		if (job->seen < oldest->seen)
			oldest = job;
	}
	return oldest;
}

struct ctrl_job_history *
ctrl_history_keep(struct ctrl_history *history, const struct ppe_job *job)
{
	for (unsigned int i = 0; i < WEIR_JOBS_MAX; i++) {
		struct ctrl_job_history *place = &history->job[i];

		if (place->id == job->id && place->instance == job->instance &&
			strcmp(place->name, job->name) == 0) {
			place->seen = history->second;
			return place;
		}
	}
	return NULL;
}

struct ctrl_job_history *
ctrl_history_job(struct ctrl_history *history, const struct ppe_job *job, const char *tenant)
{
	struct ctrl_job_history *place = ctrl_history_keep(history, job);

	if (place != NULL)
		return place;
	place = take_place(history);
	memset(place, 0, sizeof(*place));
	strlcpy(place->name, job->name, sizeof(place->name));
	strlcpy(place->tenant, tenant, sizeof(place->tenant));
	place->id = job->id;
	place->instance = job->instance;
	place->seen = history->second;
	return place;
}

bool
ctrl_history_step_due(const struct ctrl_history *history, const struct ctrl_job_history *job)
{
	uint32_t phase = (history->second + job->id) % CTRL_HISTORY_STEP;

	return phase < history->passed;
}

void
ctrl_history_step(struct ctrl_job_history *job, const uint64_t waited_us[WEIR_SOURCES_MAX])
{
	memcpy(job->waited_us[job->steps++ % CTRL_HISTORY_STEPS], waited_us,
		sizeof(job->waited_us[0]));
}

const uint64_t *
ctrl_history_waited_before(const struct ctrl_job_history *job)
{
	static const uint64_t none[WEIR_SOURCES_MAX];

	return job->steps < CTRL_HISTORY_STEPS ? none
					       : job->waited_us[job->steps % CTRL_HISTORY_STEPS];
}

unsigned int
ctrl_history_length(const struct ctrl_history *history)
{
	return history->second < CTRL_HISTORY_SAMPLES ? history->second : CTRL_HISTORY_SAMPLES;
}

float
ctrl_history_rate(
	const struct ctrl_history *history, const struct ctrl_series *series, unsigned int age)
{
	uint32_t second = history->second - age;

	return series->begun == 0 || second < series->begun
		? NAN
		: series->rate[second % CTRL_HISTORY_SAMPLES];
}

static void
put_job(struct ctrl_history *history, const struct ctrl_running *running,
	const struct ctrl_job *job)
{
	struct ctrl_job_history *place =
		ctrl_history_job(history, job->job, job->tenant == NULL ? "" : job->tenant->name);
	uint64_t waited_us[WEIR_SOURCES_MAX] = {0};
	struct ppe_source_stats source;
	struct ppe_job_stats stats;

	ctrl_running_job_stats(running, job, &stats);
	ctrl_history_put(history, &place->contributions, stats.contributions);
	ctrl_history_put(history, &place->blocks, stats.blocks_complete + stats.blocks_partial);
	if (!ctrl_history_step_due(history, place))
		return;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (ppe_job_has(job->job, (uint8_t)s) &&
			ppe_source_stats_read(running->ppe, job->job->id, (uint8_t)s, &source) == 0)
			waited_us[s] = source.waited_us;
	ctrl_history_step(place, waited_us);
}

void
ctrl_history_tick(struct ctrl_history *history, const struct ctrl_running *running)
{
	const struct ppe_stats *stats = &running->stats;

	if (!ctrl_history_begin(history, ctrl_monotonic(), ctrl_unix_time()))
		return;
	for (unsigned int p = 0; p < stats->nb_ports; p++) {
		const struct ppe_port_stats *port = &stats->port[p];

		ctrl_history_put(history, &history->rx[p], port->rx_bytes * 8);
		ctrl_history_put(
			history, &history->tx[p], (port->tx_bytes[0] + port->tx_bytes[1]) * 8);
		ctrl_history_put(history, &history->spoofed[p], port->spoofed);
	}
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		ctrl_history_put(history, &history->drop[i], stats->drops[i]);
	CTRL_FOREACH_JOB (job, running)
		ctrl_history_keep(history, job->job);
	CTRL_FOREACH_JOB (job, running)
		put_job(history, running, job);
}
