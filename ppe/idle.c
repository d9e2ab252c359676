/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <rte_pause.h>

#include "ppe/ppe_priv.h"

/* Empty turns before the first sleep: a burst's gap is not an idle time. */
#define PATIENCE 32

void
ppe_idle_prepare(const struct ppe_config *config)
{
	/* Linux rounds sleeps up by 50 us unless told otherwise: prctl(2), PR_SET_TIMERSLACK. */
	if (config->idle == PPE_IDLE_SLEEP)
		prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

void
ppe_idle_turn(const struct ppe_config *config, uint32_t empty)
{
	switch (config->idle) {
	case PPE_IDLE_SPIN: rte_pause(); return;
	case PPE_IDLE_YIELD: sched_yield(); return;
	case PPE_IDLE_SLEEP:
		if (empty < PATIENCE) {
			sched_yield();
		} else {
			struct timespec t = {.tv_nsec = config->idle_sleep_us * 1000L};

			nanosleep(&t, NULL);
		}
		return;
	}
}
