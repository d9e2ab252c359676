/* SPDX-License-Identifier: BSD-3-Clause */
/* A switch that has been built is started; and stopped: what is under way goes out, the workers return. */
#include <errno.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_log.h>

#include "ppe/ppe_priv.h"

#define LOG(level, ...) rte_log(RTE_LOG_##level, (unsigned int)ppe_log, "weir: " __VA_ARGS__)

/* For a worker to see that it is over; a turn takes it far less. */
#define RETURN_MS 1000

int
ppe_start(struct ppe *ppe)
{
	unsigned int left;

	for (unsigned int p = 0; p < ppe->nb_ports; p++) {
		int rc = pktbuf_port_start(&ppe->port[p]);

		if (rc < 0)
			return rc;
	}
	/* Drivers keep mbufs in their receive queues. */
	left = rte_mempool_avail_count(ppe->pools.packets);
	if (left < (unsigned int)ppe->config.workers * ppe->config.burst) {
		LOG(ERR,
			"the ports' receive queues keep %u of %u packets: more packets are "
			"needed\n",
			ppe->config.packets - left, ppe->config.packets);
		return -ENOMEM;
	}
	__atomic_store_n(&ppe->state, PPE_STATE_RUNNING, __ATOMIC_RELEASE);
	for (unsigned int w = 0; w < ppe->config.workers; w++) {
		int rc = rte_eal_remote_launch(ppe_barrel, ppe->worker[w], ppe->lcore[w]);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool
all_rest(const struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		/* Acquire pairs with the worker's release: its hand-overs are visible to us. */
		if (!__atomic_load_n(&ppe->worker[w]->resting, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

/* A worker that has not returned, or -1. */
static int
still_out(const struct ppe *ppe)
{
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		if (rte_eal_get_lcore_state(ppe->lcore[w]) == RUNNING)
			return (int)w;
	return -1;
}

static bool
all_return(const struct ppe *ppe)
{
	const uint64_t limit = rte_get_tsc_hz() / 1000 * RETURN_MS, began = rte_rdtsc();
	int w;

	while ((w = still_out(ppe)) >= 0) {
		if (rte_rdtsc() - began >= limit) {
			LOG(ERR, "worker %d does not turn: it did not stop within %d ms\n", w,
				RETURN_MS);
			return false;
		}
		rte_delay_us_sleep(1000);
	}
	/* They have returned: this takes their last stores, and does not wait. */
	for (unsigned int i = 0; i < ppe->config.workers; i++)
		rte_eal_wait_lcore(ppe->lcore[i]);
	return true;
}

int
ppe_stop(struct ppe *ppe, unsigned int limit_ms)
{
	unsigned int quiet = 2;

	if (ppe->state == PPE_STATE_IDLE || ppe->returned)
		return 0;
	if (ppe->state == PPE_STATE_RUNNING) {
		__atomic_store_n(&ppe->state, PPE_STATE_DRAINING, __ATOMIC_RELEASE);
		quiet = 0;
		/* Twice in a row: between two looks a worker could have been handed something. */
		for (unsigned int ms = 0; ms < limit_ms && quiet < 2; ms++) {
			quiet = all_rest(ppe) ? quiet + 1 : 0;
			rte_delay_us_sleep(1000);
		}
		__atomic_store_n(&ppe->state, PPE_STATE_STOPPED, __ATOMIC_RELEASE);
	}
	if (!all_return(ppe))
		return -EBUSY;
	ppe->returned = true;
	for (unsigned int p = 0; p < ppe->nb_ports; p++)
		pktbuf_port_stop(&ppe->port[p]);
	return quiet < 2 ? -ETIMEDOUT : 0;
}
