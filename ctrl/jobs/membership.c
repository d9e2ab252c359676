/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/membership.h"

#include <string.h>

#define WORDS (WEIR_SOURCES_MAX / 64)

static unsigned int
count(const uint64_t mask[WORDS])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < WORDS; i++)
		n += (unsigned int)__builtin_popcountll(mask[i]);
	return n;
}

/* Those who ask; while nobody does, the running generation's; before the first one, whom the control
 * API has let in. */
static void
choose(const struct ctrl_job *job, const struct ppe_job_stats *stats, struct ctrl_membership *a)
{
	static const uint64_t nobody[WORDS];

	memcpy(a->in,
		job->job->fixed_generation != 0 ? job->job->members
			: a->asked              ? stats->joining
			: stats->generation > 0 ? stats->present
			: job->member != NULL   ? job->job->members
						: nobody,
		sizeof(a->in));
}

bool
ctrl_job_is_abandoned(const struct ctrl_job *job, const struct ppe_job_stats *stats)
{
	return job->job->fixed_generation == 0 && stats->generation > 0 &&
		count(stats->present) == 0;
}

void
ctrl_membership_of(const struct ctrl_running *running, const struct ctrl_job *job,
	const struct ppe_job_stats *stats, struct ctrl_membership *membership)
{
	struct ctrl_membership *a = membership;
	bool fixed = job->job->fixed_generation != 0;

	*a = (struct ctrl_membership){.asked = count(stats->joining) > 0};
	choose(job, stats, a);
	a->joined = count(a->in);
	a->abandoned = ctrl_job_is_abandoned(job, stats);
	if (ctrl_job_is_leaving(running, job))
		a->state = CTRL_JOB_DRAINING;
	else if (fixed)
		a->state = CTRL_JOB_RUNNING;
	else if (a->asked || stats->generation == 0)
		a->state = CTRL_JOB_JOINING;
	else
		a->state = a->joined == job->job->nb_sources ? CTRL_JOB_RUNNING
			: a->joined > 0                      ? CTRL_JOB_JOINING
							     : CTRL_JOB_IDLE;
}

const char *
ctrl_job_state_text(enum ctrl_job_state state)
{
	static const char *const texts[] = {"joining", "running", "idle", "draining"};

	return texts[state];
}
