/* SPDX-License-Identifier: BSD-3-Clause */
/* The inline part of the deadlines, which runs for each new block. */
#ifndef HASHENGINE_DEADLINE_FAST_H
#define HASHENGINE_DEADLINE_FAST_H

#include <rte_branch_prediction.h>

#include "hashengine/deadline.h"

#define HASH_DEADLINE_SHIFT 6 /* 64 children to a node */

/* Never above a child: group[i] <= each of its records, top[i] <= each of its groups. owner: rw */
struct hash_deadlines {
	uint64_t *record, *group, *top;
	uint32_t capacity, nb_tops;
	int dpdk_heap; /* the allocation is rte_malloc's */
};

/* Set or replace the deadline of a record; HASH_NEVER: none. Owner. */
static inline void
hash_deadline_set(struct hash_deadlines *deadlines, uint32_t record, uint64_t at)
{
	uint64_t *group = &deadlines->group[record >> HASH_DEADLINE_SHIFT];
	uint64_t *top = &deadlines->top[record >> 2 * HASH_DEADLINE_SHIFT];

	deadlines->record[record] = at;
	if (unlikely(at < *group)) {
		*group = at;
		if (at < *top)
			*top = at;
	}
}

#endif
