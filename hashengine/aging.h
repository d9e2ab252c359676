/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aging scan: what Trio's timer threads do to the hash table.
 *
 * The buckets are divided into `nslices` slices that differ by at most one bucket. Timer thread i
 * scans slice i once per period, and the threads' phases are spread over the period, so the work is
 * even in time. The slices partition the buckets exactly for any nslices >= 1; with more slices
 * than buckets, some are empty. A slice is scanned within one segment, so nslices also bounds how
 * long a scan keeps its lcore from packets: 2 ns per bucket (3 ns from beyond L2), plus 4 to 10 ns
 * and the work of `fn` per record handed out, measured as in hash.h.
 *
 * REF. Every hash_confirm and hash_insert sets a record's REF flag; the scan by REF clears it. With
 * period P, a scan hands out each record that was not accessed since the previous scan, which
 * happens first between P and 2 P after the last access. To notice a timeout T no later than 1.1 T,
 * scan with P = T / 10 and let fn compare the record's own time. REF then saves reading the lines
 * of busy records.
 *
 * REF means "accessed", not "made progress". If an access is not progress (endless duplicates would
 * keep a record young), use hash_peek, and hash_ref_set once the access counts; or scan everything
 * with hash_scan.
 *
 * Both functions are for the table's owner. They never log or wait.
 */
#ifndef HASHENGINE_AGING_H
#define HASHENGINE_AGING_H

#include <stdint.h>

#include "hashengine/hash.h"

/*
 * Called for a record, in its owner's segment, with the record's line prefetched. It may delete any
 * record and look up, which sets REF. It must not insert. arg: the caller's.
 */
typedef void (*hash_age_fn)(void *arg, struct hash_record *record);

/*
 * Scan by REF: in every bucket of slice `slice` of [0, nslices), hand the live records whose REF
 * is clear to fn, and clear REF of the others without touching their lines. Returns how many
 * records were handed out; 0 without any effect if slice is not in [0, nslices).
 * Cost: buckets / nslices lines in order, and a line per record handed out.
 */
uint32_t hash_age_scan(
	struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg);

/*
 * Hand every live record of the slice to fn, and do not read or change REF. (0, 1) visits all
 * records. Otherwise as hash_age_scan.
 */
uint32_t hash_scan(
	struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg);

#endif
