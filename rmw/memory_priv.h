/* SPDX-License-Identifier: BSD-3-Clause */
/* Layout of a pool, which lies before its buffers. memory.h gives the reasons. */
#ifndef RMW_MEMORY_PRIV_H
#define RMW_MEMORY_PRIV_H

#include <stdalign.h>

#include "rmw/memory.h"

struct rmw_pool {
	/* read-mostly */
	uint32_t bytes; /* payload, as configured */
	uint32_t count;
	uint32_t reserved; /* sum of the quotas' limits, [0, count] */
	uint16_t shard;
	/* owner: rw, others: ro */
	alignas(64) struct rmw_buffer *free; /* the last freed; NULL: none */
	uint32_t used;
	uint64_t faults;
};
static_assert(sizeof(struct rmw_pool) == 2 * RMW_LINE, "read-mostly line, written line");

#endif
