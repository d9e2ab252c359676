/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of records: when timer threads are to look at which, and a scan that finds those.
 *
 * Trio's timer threads scan the whole table and ask each record's REF flag (hashengine/aging.h). That
 * is right where all records live by one long timeout, as addresses do. Blocks don't: a table has a job
 * with a timeout of a millisecond beside one of a minute, and keeps the results of jobs that rest. To
 * find a straggler within 1.1 x 1 ms, all of the table would be read every 50 us, and a million
 * records, of which nothing is due, take 1 ms and more to read. So a record's time is kept apart, in
 * the order of record numbers, and threads scan that: still each 1/N of the table, phase-shifted.
 *
 * DESIGN. A tree of three levels with 64 children to a node, in three arrays: a deadline for each
 * record, a lower bound for each 64 of them, and for each 4096. A scan goes down only where a bound has
 * passed, and then makes the bounds right; setting a deadline lowers the bounds where it must, which
 * it seldom must: a block that is opened is due after those that were opened before it. A deadline
 * that is put off, or whose record is gone, is left where it is, and found to be no longer true when
 * its time comes. So the cost is, whatever the table holds:
 *
 *   to set one                    a line written, two read that are always in L1 (8 B per 64 records)
 *   to scan where nothing is due  8 B per 4096 records: 0.1 us for a million
 *   to find one that is due       64 compares on each of two levels, and the caller's work
 *
 * A bound can't be late: a node is never above its children. It may be early, and then costs a look.
 *
 * Times are the caller's, any 64-bit count that only goes up: TSC cycles in the switch. Like all of a
 * table, deadlines belong to one lcore. hash_deadline_set is in hashengine/deadline_fast.h.
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
 * Deadlines for records [0, capacity), capacity in [1, HASH_CAPACITY_MAX], all HASH_NEVER. Memory as
 * hash_create's. Returns NULL with rte_errno EINVAL or ENOMEM. Any thread. Slow.
 */
struct hash_deadlines *hash_deadlines_create(uint32_t capacity, int socket);

/* NULL is fine. Any thread, when the owner no longer uses it. */
void hash_deadlines_destroy(struct hash_deadlines *deadlines);

/*
 * Called for a record whose deadline has passed; returns its next one, HASH_NEVER for none. One that
 * has passed too is not looked at again in this scan. It must not set deadlines.
 */
typedef uint64_t (*hash_deadline_fn)(void *arg, uint32_t record);

/*
 * Hand the records of [from, end) whose deadline is at or before `now` to fn. Stops early after `most`
 * pieces of work, [1, ...]: a record handed out is one, and so is a node that was gone down into.
 * Returns where to go on: `end` (cut to the capacity) when it is through. Owner. Cost: above.
 */
uint32_t hash_deadline_scan(struct hash_deadlines *deadlines, uint32_t from, uint32_t end,
	uint64_t now, uint32_t most, hash_deadline_fn fn, void *arg);

/* No deadline is before this time; HASH_NEVER: there is none. Owner. Cost: 8 B per 4096 records. */
uint64_t hash_deadline_earliest(const struct hash_deadlines *deadlines);

#endif
