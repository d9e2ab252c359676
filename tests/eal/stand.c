/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/stand.h"

#include <rte_cycles.h>

#include "ppe/program_fast.h"

#define LIMIT_MS 5000

static unsigned int chosen;
static uint32_t wanted, standing; /* test: wo, worker: ro; and the other way round */

static struct ppe_next
stand_still(struct ppe_worker *worker, struct ppe_thread *thread)
{
	(void)worker;
	(void)thread;
	for (unsigned int ms = 0; ms < LIMIT_MS && __atomic_load_n(&wanted, __ATOMIC_ACQUIRE);
		ms++) {
		__atomic_store_n(&standing, 1, __ATOMIC_RELEASE);
		rte_delay_us_sleep(1000);
	}
	__atomic_store_n(&standing, 0, __ATOMIC_RELEASE);
	return PPE_END;
}

static int
create(const struct ppe_setup *setup, void **state)
{
	const struct ppe_timer timer = {.segment = stand_still, .period_us = 1000, .slices = 1};

	*state = NULL;
	return setup->worker_id == chosen ? ppe_timer_add(setup, &timer) : 0;
}

const struct ppe_program stand_program = {.name = "stand", .first = stand_still, .create = create};

void
stand_choose(unsigned int worker)
{
	chosen = worker;
}

void
stand(bool still)
{
	__atomic_store_n(&wanted, still, __ATOMIC_RELEASE);
	for (unsigned int ms = 0;
		ms < LIMIT_MS && __atomic_load_n(&standing, __ATOMIC_ACQUIRE) != still; ms++)
		rte_delay_us_sleep(1000);
}
