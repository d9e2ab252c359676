/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#include "ppe/ppe_priv.h"

/* Empty turns before the first sleep, each with a yield: a gap in a burst is not idle time. */
#define YIELDS 32

/*
 * A yield that takes longer than a millisecond: other programs compute on this CPU. There a yield
 * is expensive, because Linux (EEVDF) charges the whole slice to a task that yields, used or not. A
 * worker that goes on yielding hardly runs. A worker that sleeps is charged what it uses, and runs
 * soon after it wakes. So the worker does not yield for as long again as that yield took. Each
 * further long yield doubles the pause, up to 2^BACKOFF_MOST times; a short one ends the series.
 */
#define LONG_YIELD_S 1e-3
#define BACKOFF_MOST 7

void
ppe_sleep_exactly(void)
{
	/* Linux lengthens sleeps by 50 us by default: prctl(2), PR_SET_TIMERSLACK. */
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

void
ppe_idle_prepare(const struct ppe_config *config)
{
	if (config->idle == PPE_IDLE_SLEEP)
		ppe_sleep_exactly();
}

/* Sleep for the configured time, but not past the next timer. */
static void
rest(const struct ppe_worker *worker)
{
	uint64_t hz = rte_get_tsc_hz(), now = ppe_clock(), wake = ppe_timer_wake(worker);
	uint64_t ns = worker->ppe->config.idle_sleep_us * UINT64_C(1000);
	struct timespec t = {0};

	if (wake <= now) {
		sched_yield(); /* not for long: a timer is due */
		return;
	}
	/* Compare cycles first: a deadline may be infinite, and the product would wrap. */
	if (wake - now < ns * hz / NS_PER_S)
		ns = (wake - now) * NS_PER_S / hz;
	t.tv_nsec = (long)ns;
	nanosleep(&t, NULL);
}

/* Yield, unless that has just proved expensive. False: the worker should sleep. */
static bool
yield(struct ppe_worker *worker)
{
	uint64_t before = ppe_clock(), took;

	if (before < worker->yield_at)
		return false;
	sched_yield();
	took = ppe_clock() - before;
	if ((double)took <= LONG_YIELD_S * (double)rte_get_tsc_hz()) {
		worker->long_yields = 0;
	} else {
		worker->yield_at = before + took + (took << worker->long_yields);
		worker->long_yields += worker->long_yields < BACKOFF_MOST;
	}
	return true;
}

void
ppe_idle_turn(struct ppe_worker *worker)
{
	switch (worker->ppe->config.idle) {
	case PPE_IDLE_SPIN: rte_pause(); return;
	case PPE_IDLE_YIELD: sched_yield(); return;
	case PPE_IDLE_SLEEP:
		if (worker->empty_turns >= YIELDS || !yield(worker))
			rest(worker);
		return;
	}
}
