/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aging scan: what Trio's timer threads do to the hash table.
 *
 * A table is cut into `nslices` slices of its buckets, equal but for one bucket; timer thread i
 * scans slice i once per period, the threads' phases spread over the period, so that the work is
 * even in time. The slices partition the buckets exactly, for any nslices >= 1: with more
 * slices than buckets some are empty. A slice is scanned within one segment, so nslices also
 * bounds how long a scan keeps its lcore from packets: 2 ns per bucket (3 ns from beyond
 * L2), plus 4 to 10 ns and the work of `fn` per record handed out, measured as in hash.h.
 *
 * REF. Every hash_confirm and hash_insert sets a record's REF flag; the scan by REF clears it. So,
 * with period P, a record is handed out by every scan that finds it untouched since the
 * scan before, P earlier: the first time between P and 2 P after its last access. To notice after a
 * timeout T, and no later than 1.1 T, scan with P = T / 10 and let fn compare the
 * record's own time: REF spares the record lines of what is busy, time decides.
 *
 * REF says "accessed", not "made progress". Where an access is not progress (a duplicate
 * repeated without end would keep its record young for ever), take hash_peek, and hash_ref_set once
 * it counts, or scan everything with hash_scan.
 *
 * Both functions are for the table's owner, never log and never wait.
 */
#ifndef HASHENGINE_AGING_H
#define HASHENGINE_AGING_H

#include <stdint.h>

#include "hashengine/hash.h"

/*
 * Called for a record, in its owner's segment; the record line was prefetched. It may delete this
 * record or any other, and look up, which sets REF; it must not insert. arg: the caller's.
 */
typedef void (*hash_age_fn)(void *arg, struct hash_record *record);

/*
 * Scan by REF: in every bucket of slice `slice` of [0, nslices), hand the live records whose REF
 * is clear to fn, and clear REF of the others without touching their lines. Returns how many
 * records were handed out; 0, having done nothing, if slice is not in [0, nslices).
 * Cost: buckets / nslices lines in order, and a line per record handed out.
 */
uint32_t hash_age_scan(
	struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg);

/*
 * Hand every live record of the slice to fn, whatever its REF, and leave REF alone: (0, 1) visits
 * all. Otherwise as hash_age_scan.
 */
uint32_t hash_scan(
	struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg);

#endif
