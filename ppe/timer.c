/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

#include "ppe/ppe_priv.h"

uint64_t ppe_clock_step;

__rte_weak uint64_t
ppe_tsc(void)
{
	return rte_rdtsc();
}

uint64_t
ppe_clock_read(const struct ppe_worker *worker)
{
	uint64_t now = ppe_clock();

	if (likely((int64_t)(now - worker->now) >= 0))
		return now;
	/* The other workers' time stands still until worker 0 has raised the step. */
	if (worker->id == 0)
		__atomic_store_n(
			&ppe_clock_step, ppe_clock_step + (worker->now - now), __ATOMIC_RELAXED);
	return worker->now;
}

int
ppe_timer_add(const struct ppe_setup *setup, const struct ppe_timer *timer)
{
	struct ppe_slot *slot = setup->slot;

	if (timer->segment == NULL || timer->slices == 0 || timer->period_us < 10)
		return -EINVAL;
	/* All workers have the same. */
	if (setup->worker_id != 0)
		return 0;
	for (unsigned int t = 0; t < slot->nb_timers; t++)
		if (slot->timer[t].segment == timer->segment)
			return -EINVAL;
	if (slot->nb_timers == PPE_PROGRAM_TIMERS)
		return -ENOSPC;
	slot->timer[slot->nb_timers++] = *timer;
	return 0;
}

/* The least interval between threads. */
#define START_US 16

static void
set_interval(struct ppe_timer_state *state)
{
	uint64_t hz = rte_get_tsc_hz();

	state->interval = state->timer.period_us * hz / 1000000 / state->timer.slices;
	state->interval = RTE_MAX(state->interval, 1u);
	state->patience = 0;
	if (state->timer.together && state->interval < START_US * hz / 1000000)
		state->patience = RTE_MIN(
			START_US * hz / 1000000, state->interval * (state->timer.slices - 1));
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
		state->next = RTE_MIN(state->next, worker->now + state->interval);
	}
}

static void
arm(const struct ppe_worker *worker, struct ppe_timer_state *state, uint64_t now)
{
	set_interval(state);
	/* Shift the phases, so that the workers' scans do not compete for memory. */
	state->next = now + state->interval * (worker->id + 1u) / worker->workers;
}

void
ppe_timer_arm(struct ppe_worker *worker, uint64_t now)
{
	for (unsigned int i = 0; i < worker->nb_timers; i++)
		arm(worker, &worker->timer[i], now);
}

/* The running timer of this segment; NULL: none. */
static const struct ppe_timer_state *
find(const struct ppe_worker *worker, unsigned int program, ppe_segment segment)
{
	for (unsigned int i = 0; i < worker->nb_timers; i++)
		if (worker->timer[i].program == program &&
			worker->timer[i].timer.segment == segment)
			return &worker->timer[i];
	return NULL;
}

void
ppe_timers_take(struct ppe_worker *worker, const struct ppe_published *table)
{
	struct ppe_timer_state timers[PPE_TIMERS_MAX];
	unsigned int n = 0;

	for (unsigned int i = 0; i < table->nb_active; i++) {
		const struct ppe_slot *slot = table->slot[table->active[i]];

		for (unsigned int t = 0; t < slot->nb_timers; t++, n++) {
			const struct ppe_timer_state *same =
				find(worker, slot->index, slot->timer[t].segment);

			if (same != NULL) {
				timers[n] = *same;
				continue;
			}
			timers[n] = (struct ppe_timer_state){
				.timer = slot->timer[t], .program = (uint8_t)slot->index};
			arm(worker, &timers[n], worker->now);
		}
	}
	memcpy(worker->timer, timers, n * sizeof(timers[0]));
	worker->nb_timers = (uint16_t)n;
}

/* The slices for the next thread: consecutive ones that are due, at least one. */
static uint32_t
slices_due(const struct ppe_worker *worker, const struct ppe_timer_state *state)
{
	uint64_t due;

	if (!state->timer.together)
		return 1;
	due = (worker->now - state->next) / state->interval + 1;
	return (uint32_t)RTE_MIN(due, (uint64_t)(state->timer.slices - state->slice));
}

static void
start(struct ppe_worker *worker, struct ppe_timer_state *state)
{
	struct ppe_thread *thread = worker->free[--worker->free_count];

	thread->packet = NULL;
	thread->ordered = 0;
	thread->program = state->program;
	thread->slice = state->slice;
	thread->slices = slices_due(worker, state);
	thread->next = PPE_RUN(state->timer.segment);
	worker->live[worker->live_count++] = thread;
	state->slice += thread->slices;
	if (state->slice == state->timer.slices)
		state->slice = 0;
	state->next += state->interval * thread->slices;
	worker->count.worker.timer_runs += thread->slices;
}

/* A slice that could not start in time starts late. Slices are skipped only after a whole
 * period. */
unsigned int
ppe_timer_launch(struct ppe_worker *worker)
{
	unsigned int launched = 0;

	for (unsigned int i = 0; i < worker->nb_timers; i++) {
		struct ppe_timer_state *state = &worker->timer[i];
		uint64_t period = state->interval * state->timer.slices;

		if (likely((int64_t)(worker->now - state->next) < (int64_t)state->patience))
			continue;
		if ((int64_t)(worker->now - state->next) > (int64_t)period)
			state->next = state->timer.together ? worker->now - period + state->interval
							    : worker->now;
		while ((int64_t)(worker->now - state->next) >= 0 && worker->free_count > 0) {
			start(worker, state);
			launched++;
		}
	}
	return launched;
}

uint64_t
ppe_timer_wake(const struct ppe_worker *worker)
{
	uint64_t wake = UINT64_MAX;

	for (unsigned int i = 0; i < worker->nb_timers; i++) {
		const struct ppe_timer_state *state = &worker->timer[i];
		uint64_t at;

		if (state->timer.earliest == NULL)
			continue;
		at = state->timer.earliest(worker->state[state->program]);
		wake = RTE_MIN(wake, RTE_MAX(at, state->next + state->patience));
	}
	return wake;
}

bool
ppe_timer_must_wait(const struct ppe_worker *worker)
{
	const struct ppe *ppe = worker->ppe;

	for (unsigned int w = 0; w < worker->workers; w++)
		if (unlikely(__atomic_load_n(&ppe->worker[w]->behind, __ATOMIC_RELAXED) > 0))
			return true;
	return false;
}
