/* SPDX-License-Identifier: BSD-3-Clause */
#include "hashengine/aging.h"

#include "hashengine/hash_fast.h"
#include "hashengine/hash_priv.h"

/* The slots of the bucket that the scan visits. */
static inline unsigned int
chosen(const struct hash_bucket *bucket, bool by_ref)
{
	return by_ref ? bucket->used & ~(unsigned int)bucket->ref : bucket->used;
}

static inline uint32_t
scan(struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg,
	bool by_ref)
{
	uint32_t first, end, given = 0;

	if (slice >= nslices)
		return 0;
	first = (uint32_t)((uint64_t)table->nb_buckets * slice / nslices);
	end = (uint32_t)((uint64_t)table->nb_buckets * (slice + UINT64_C(1)) / nslices);

	for (uint32_t i = first; i < end; i++) {
		struct hash_bucket *bucket = &table->buckets[i];
		unsigned int slots = chosen(bucket, by_ref);

		/* The hardware prefetches buckets, but not records. */
		if (i + 1 < end) {
			const struct hash_bucket *next = bucket + 1;

			for (unsigned int m = chosen(next, by_ref); m != 0; m &= m - 1)
				rte_prefetch0(
					hash_record_at(table, next->record[__builtin_ctz(m)]));
		}
		if (by_ref)
			bucket->ref = 0; /* before fn, whose own accesses count */
		for (; slots != 0; slots &= slots - 1) {
			unsigned int slot = (unsigned int)__builtin_ctz(slots);

			if (unlikely((bucket->used >> slot & 1) == 0))
				continue; /* fn deleted it when it was given another */
			fn(arg, hash_record_at(table, bucket->record[slot]));
			given++;
		}
	}
	return given;
}

uint32_t
hash_age_scan(struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg)
{
	return scan(table, slice, nslices, fn, arg, true);
}

uint32_t
hash_scan(struct hash_table *table, uint32_t slice, uint32_t nslices, hash_age_fn fn, void *arg)
{
	return scan(table, slice, nslices, fn, arg, false);
}
