/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/gauges.h"

#include <string.h>

#include <rte_mempool.h>

#include "ppe/ppe_priv.h"
#include "ppe/programs/programs.h"

static struct ppe_pool_gauge
read_pool(const struct rte_mempool *pool)
{
	return (struct ppe_pool_gauge){pool->size, rte_mempool_avail_count(pool)};
}

void
ppe_gauges_read(const struct ppe *ppe, struct ppe_gauges *gauges)
{
	memset(gauges, 0, sizeof(*gauges));
	gauges->packets = read_pool(ppe->pools.packets);
	gauges->headers = read_pool(ppe->pools.headers);
	gauges->attaches = read_pool(ppe->pools.attaches);
	collective_records(ppe, &gauges->records.size, &gauges->records.free);
	for (unsigned int w = 0; w < ppe->config.workers; w++)
		gauges->threads_live[w] =
			__atomic_load_n(&ppe->worker[w]->live_count, __ATOMIC_RELAXED);
}
