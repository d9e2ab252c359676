/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <rte_cycles.h>

#include "ppe/ppe_priv.h"

int
ppe_timer_add(const struct ppe_setup *setup, const struct ppe_timer *timer)
{
	struct ppe_worker *worker = setup->worker;
	struct ppe_timer_state *state;

	if (timer->segment == NULL || timer->slices == 0 || timer->period_us < 10)
		return -EINVAL;
	if (worker->nb_timers == PPE_TIMERS_MAX)
		return -ENOSPC;
	state = &worker->timer[worker->nb_timers++];
	state->timer = *timer;
	state->program = (uint8_t)setup->ppe->creating_program;
	return 0;
}

static void
set_interval(struct ppe_timer_state *state)
{
	state->interval = state->timer.period_us * rte_get_tsc_hz() / 1000000 / state->timer.slices;
	state->interval = RTE_MAX(state->interval, 1u);
}

void
ppe_timer_set_period(struct ppe_worker *worker, ppe_segment segment, uint64_t period_us)
{
	for (unsigned int i = 0; i < worker->nb_timers; i++) {
		struct ppe_timer_state *state = &worker->timer[i];

		if (state->timer.segment != segment)
			continue;
		state->timer.period_us = RTE_MAX(period_us, UINT64_C(10));
		set_interval(state);
		/* Not after the long interval that ran. */
		state->next = RTE_MIN(state->next, worker->now + state->interval);
	}
}

void
ppe_timer_arm(struct ppe_worker *worker, uint64_t now)
{
	for (unsigned int i = 0; i < worker->nb_timers; i++) {
		struct ppe_timer_state *state = &worker->timer[i];

		set_interval(state);
		/* Workers are phase-shifted, so that their scans don't meet in the memory bus. */
		state->next = now + state->interval * (worker->id + 1u) / worker->workers;
	}
}

/* A slice that could not start in time starts late; none is skipped, unless a whole period is behind:
 * then the scan is slower than it should be, and packets come first. */
unsigned int
ppe_timer_launch(struct ppe_worker *worker)
{
	unsigned int launched = 0;

	for (unsigned int i = 0; i < worker->nb_timers; i++) {
		struct ppe_timer_state *state = &worker->timer[i];

		while ((int64_t)(worker->now - state->next) >= 0 && worker->free_count > 0) {
			struct ppe_thread *thread = worker->free[--worker->free_count];

			thread->packet = NULL;
			thread->ordered = 0;
			thread->program = state->program;
			thread->slice = state->slice;
			thread->next = PPE_RUN(state->timer.segment);
			worker->live[worker->live_count++] = thread;
			if (++state->slice == state->timer.slices)
				state->slice = 0;
			state->next += state->interval;
			if ((int64_t)(worker->now - state->next) >
				(int64_t)(state->interval * state->timer.slices))
				state->next = worker->now + state->interval;
			launched++;
		}
	}
	worker->count.worker.timer_runs += launched;
	return launched;
}
