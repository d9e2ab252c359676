/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a waiting call polls before it sleeps. To be woken costs what a small operation costs, at each
 * host; to poll costs a CPU that others may want. So a call polls only while answers come soon:
 * the recent waits' average tells, as Karlin, Li, Manasse and Owicki's adaptive spinning does ("Empirical
 * studies of competitive spinning for a shared-memory multiprocessor", SOSP 1991). Between two polls the CPU
 * is given to whoever wants it (sched_yield).
 *
 * What it is worth to small operations: docs/compare.md. Where blocks come in at a slow link's rate (8 kB at
 * 200 Mbit/s: 330 us), waits are no short ones, and nobody polls.
 */
#ifndef APPS_HOST_SPIN_H
#define APPS_HOST_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SPIN_US     100 /* the most, unless the configuration says */
#define WEIR_SPIN_US_MAX 1000000

/* Times the most: an average up to here is soon; a sleep makes waits longer than they need be. And no wait
 * counts as more, so that after a long one a few short ones suffice. */
#define WEIR_SPIN_SOON 2
#define WEIR_SPIN_LONG 8

struct weir_spin {
	uint64_t most; /* ns that a wait polls; 0: none does */
	uint64_t average; /* ns, of recent waits, each [0, WEIR_SPIN_LONG x most] */
};

static inline void
weir_spin_init(struct weir_spin *spin, uint64_t most_ns)
{
	*spin = (struct weir_spin){.most = most_ns};
}

/* How long the next wait polls, ns. */
static inline uint64_t
weir_spin_next(const struct weir_spin *spin)
{
	return spin->average <= WEIR_SPIN_SOON * spin->most ? spin->most : 0;
}

/* A wait, polled and slept, has taken so long. */
static inline void
weir_spin_sample(struct weir_spin *spin, uint64_t ns)
{
	uint64_t longest = WEIR_SPIN_LONG * spin->most;

	spin->average += (ns < longest ? ns : longest) / 8 - spin->average / 8;
}

#endif
