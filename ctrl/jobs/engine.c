/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry's view of the engines that run. */
#include "ctrl/jobs/jobs.h"

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
	return ctrl_running_stuck_worker(running);
}

const struct ctrl_engine ctrl_engine_ppe = {
	.publish = ppe_publish_jobs,
	.room = ppe_job_room,
	.reap = ppe_jobs_leaving,
	.is_leaving = ppe_job_is_leaving,
	.generation_after = ppe_generation_after,
	.generation = generation,
	.silent = silent,
	.stuck = stuck,
};
