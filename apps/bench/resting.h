/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other jobs, whose records fill the block table and are left alone: of each residue a block that is done
 * and kept for those who ask again, and one that is open and waits, with a timeout of a minute. Made by
 * contributions through the worker that is measured, before it is.
 */
#ifndef APPS_BENCH_RESTING_H
#define APPS_BENCH_RESTING_H

#include "ppe/ppe.h"

#define RESTING_WINDOW 4096 /* of a job */

struct resting;

/* EAL memory for so many records, MiB. */
unsigned int resting_memory_mb(uint32_t records);

/* Add jobs [first, ...) for at least `records` records, and the records to the configuration, which must
 * outlive this. NULL: no memory, or too many jobs; a line on standard error says so. Before ppe_create. */
struct resting *resting_create(
	uint32_t records, unsigned int first, struct ppe_config *config, struct ppe_jobs *jobs);

/* NULL is fine; after the switch has been destroyed. */
void resting_destroy(struct resting *resting);

/* How many records there will be. */
uint32_t resting_records(const struct resting *resting);

/* The next contributions, up to `max`; 0: all have been given. For the worker. */
uint16_t resting_give(struct resting *resting, struct rte_mbuf **packets, uint16_t max);

#endif
