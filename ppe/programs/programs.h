/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The built-in programs and their memory.
 *
 *   collective  packets to the switch's address on the aggregation ports: AllReduce and its family
 *   exception   other packets to the switch itself: to the kernel, through a TAP port
 *   forward     everything else: a learning layer 2 switch
 */
#ifndef PPE_PROGRAMS_PROGRAMS_H
#define PPE_PROGRAMS_PROGRAMS_H

#include "ppe/ppe.h"
#include "ppe/program.h"

struct ppe_worker;

extern const struct ppe_program collective_program;
extern const struct ppe_program exception_program;
extern const struct ppe_program forward_program;

/* Add what the program allocates, all workers together, to `memory`. No side effects. */
void collective_memory(
	const struct ppe_config *config, const struct ppe_jobs *jobs, struct ppe_memory *memory);
void collective_job_memory(const struct ppe_job *job, unsigned int shard, unsigned int shards,
	struct ppe_memory *memory);
void forward_memory(const struct ppe_config *config, struct ppe_memory *memory);

/* Has any worker heard a source at this address, of any job, in the last seconds? Linear in the sources of all jobs. On a
 * worker. */
bool collective_heard(const struct ppe_worker *worker, uint32_t address, uint32_t seconds);

/* Has a port other than these (bit p: port p) carried the station's frames in the last tables.fdb_timeout_s? On a worker. */
bool forward_seen_elsewhere(const struct ppe_worker *worker, const uint8_t *mac, uint64_t ports);

/* Lower room->records_free to that of the worker with the fewest. Control thread. */
void collective_room(const struct ppe *ppe, struct ppe_room *room);

/* The block records of all workers, and the free ones. Control thread. */
void collective_records(const struct ppe *ppe, uint32_t *size, uint32_t *free);

#endif
