/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of records: the times at which timer threads must look at them, and a scan that finds
 * the records that are due.
 *
 * Trio's timer threads scan the whole table and read each record's REF flag (hashengine/aging.h).
 * That is right if all records have one long timeout, as addresses do. Blocks do not: a table may
 * hold a job with a timeout of 1 ms beside one of a minute, and the results of idle jobs. To find a
 * straggler within 1.1 x 1 ms, the whole table would be read every 50 us, but reading a million
 * records takes 1 ms or more even if none is due. So deadlines are stored apart, in the order of
 * record numbers, and the threads scan these: still each 1/N of the table, phase-shifted.
 *
 * DESIGN. A tree of three levels with 64 children per node, in three arrays: a deadline for each
 * record, a lower bound for every 64 of them, and for every 4096. A scan descends only where a
 * bound has passed, and then corrects the bounds. Setting a deadline lowers the bounds if
 * necessary, which is rare: a new block is due after older ones. A deadline that is postponed, or
 * whose record is gone, stays where it is; the scan corrects it when its time comes. The cost does
 * not depend on the table's content:
 *
 *   to set one                    a line written, two read that are in L1 (8 B per 64 records)
 *   to scan where nothing is due  8 B per 4096 records: 0.1 us for a million
 *   to find one that is due       64 compares on each of two levels, and the caller's work
 *
 * A bound is never late, because no node is above its children. An early bound only costs a visit.
 *
 * Times are any 64-bit count that only rises: TSC cycles in the switch. Like the rest of a table,
 * deadlines belong to one lcore. hash_deadline_set is in hashengine/deadline_fast.h.
 */
#ifndef HASHENGINE_DEADLINE_H
#define HASHENGINE_DEADLINE_H

#include <stddef.h>
#include <stdint.h>

#define HASH_NEVER UINT64_MAX

struct hash_deadlines;

/* Bytes that hash_deadlines_create allocates. Any thread. */
size_t hash_deadlines_bytes(uint32_t capacity);

/*
 * Deadlines for records [0, capacity), capacity in [1, HASH_CAPACITY_MAX], all HASH_NEVER. Memory
 * as hash_create's. Returns NULL with rte_errno EINVAL or ENOMEM. Any thread. Slow.
 */
struct hash_deadlines *hash_deadlines_create(uint32_t capacity, int socket);

/* Free the deadlines. NULL is fine. Any thread, when the owner no longer uses them. */
void hash_deadlines_destroy(struct hash_deadlines *deadlines);

/*
 * Called for a record whose deadline has passed. Returns its next deadline, or HASH_NEVER. If that
 * one has passed too, the record waits for the next scan. It must not set deadlines.
 */
typedef uint64_t (*hash_deadline_fn)(void *arg, uint32_t record);

/*
 * Hand the records of [from, end) whose deadline is at or before `now` to fn. Stops early after
 * `most` steps, [1, ...]: each record handed out and each node entered is one. Returns where to
 * continue: `end` (at most the capacity) when done. Owner. Cost: above.
 */
uint32_t hash_deadline_scan(struct hash_deadlines *deadlines, uint32_t from, uint32_t end,
	uint64_t now, uint32_t most, hash_deadline_fn fn, void *arg);

/* A lower bound of all deadlines; HASH_NEVER: there are none. Owner. Cost: 8 B per 4096 records. */
uint64_t hash_deadline_earliest(const struct hash_deadlines *deadlines);

#endif
