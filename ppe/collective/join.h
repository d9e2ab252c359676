/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a join counts, for those who collect them and those who look. */
#ifndef PPE_PROGRAMS_COLLECTIVE_JOIN_H
#define PPE_PROGRAMS_COLLECTIVE_JOIN_H

#include "ppe/collective/collective_fast.h"

/* A join that is not repeated for so long is forgotten, unless ppe_config.joins_s says another time: its
 * host is dead, or has given up. Hosts repeat theirs each 500 ms. */
#define JOIN_FORGOTTEN_S 3

static inline bool
join_is_old(const struct job_home *home, unsigned int source, uint32_t now, uint64_t hz)
{
	return ticks_since(home->asked[source].last, now) > (home->kept_s * hz) >> HEARD_SHIFT;
}

#endif
