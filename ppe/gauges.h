/* SPDX-License-Identifier: BSD-3-Clause */
/* How full a running switch is: levels, where ppe_stats has counts. */
#ifndef PPE_GAUGES_H
#define PPE_GAUGES_H

#include <stdint.h>

#include "ppe/ppe.h"

struct ppe_pool_gauge {
	uint32_t size, free; /* mbufs, or records */
};

struct ppe_gauges {
	struct ppe_pool_gauge packets, headers, attaches;
	struct ppe_pool_gauge records; /* of blocks, all workers; free: set aside for no job */
	uint16_t threads_live[PPE_WORKERS_MAX]; /* by worker: contexts with a packet or a timer */
};

/*
 * Read the levels of a switch between create and destroy; each was true a moment ago. Control
 * thread. Cost: walks the pools' caches, a line per lcore.
 */
void ppe_gauges_read(const struct ppe *ppe, struct ppe_gauges *gauges);

#endif
