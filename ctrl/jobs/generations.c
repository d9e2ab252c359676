/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/generations.h"

#include "ctrl/jobs/jobs.h"
#include "ctrl/jobs/state.h"

#define RING 65535u /* generations; 0 is none */

uint16_t
ctrl_generation_add(uint16_t g, unsigned int n)
{
	return (uint16_t)((g - 1u + n) % RING + 1);
}

unsigned int
ctrl_generation_ahead(uint16_t from, uint16_t to)
{
	return (to + RING - from) % RING;
}

/* True if a job at `g` may go on for a while; a reservation behind it is none. */
static bool
suffices(uint16_t reserved, uint16_t g)
{
	unsigned int ahead = ctrl_generation_ahead(g, reserved);

	return reserved != 0 && ahead >= CTRL_GENERATIONS_AHEAD / 2 && ahead < RING / 2;
}

void
ctrl_generations_reserve(struct ctrl_running *running, uint8_t id, uint16_t first)
{
	uint16_t *reserved = &running->reserved[id];

	if (suffices(*reserved, first))
		return;
	*reserved = ctrl_generation_add(first, CTRL_GENERATIONS_AHEAD - 1);
	ctrl_state_note(running);
}

uint16_t
ctrl_generations_next(const struct ctrl_running *running, uint8_t id)
{
	uint16_t first = running->engine->generation_after(running->ppe, id);

	/* The engines know no job of before the start, and none that has begun nothing. A job that runs
	 * still, and makes place for the new one, is known to go no further than what is reserved. */
	if ((first == 0 || running->by_id[id] != NULL) && running->reserved[id] != 0)
		first = ctrl_generation_add(running->reserved[id], 1);
	return first;
}

void
ctrl_generations_begin(struct ctrl_running *running, const struct ppe_job *job)
{
	uint16_t drawn = running->config->ppe.first_generation;
	uint16_t first = job->first_generation != 0 ? job->first_generation : drawn;

	if (job->fixed_generation == 0 && first != 0)
		ctrl_generations_reserve(running, job->id, first);
}

void
ctrl_generations_tick(struct ctrl_running *running)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++) {
		const struct ctrl_job *job = running->by_id[id];
		uint16_t g;

		if (job == NULL || job->job->fixed_generation != 0)
			continue;
		g = running->engine->generation(running->ppe, (uint8_t)id);
		if (g != 0)
			ctrl_generations_reserve(running, (uint8_t)id, g);
	}
}
