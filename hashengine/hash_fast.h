/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash engine's split lookup, inline. Read hash.h first: it explains the use, and what other
 * threads may do between the steps. Every function is for the table's owner. The only failure is
 * "absent".
 */
#ifndef HASHENGINE_HASH_FAST_H
#define HASHENGINE_HASH_FAST_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#include "hashengine/hash.h"
#include "hashengine/hash_priv.h"

/* The finalizer of splitmix64: a bijection. Two multiplications. */
static inline uint64_t
hash_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Record number -> record; number: [0, capacity). One multiplication, no access. */
static inline struct hash_record *
hash_record_at(const struct hash_table *table, uint32_t number)
{
	return (struct hash_record *)(void *)(table->records + (size_t)number * table->record_size);
}

/* Bit i of the result: slot i is used and has this tag. In plain C, for machines without SSE2. */
static inline unsigned int
hash_match_scalar(const struct hash_bucket *bucket, uint16_t tag)
{
	unsigned int match = 0;

	for (unsigned int i = 0; i < HASH_BUCKET_SLOTS; i++)
		match |= (unsigned int)(bucket->tag[i] == tag) << i;
	return match & bucket->used;
}

/* hash_match_scalar() in one compare. Cost: the bucket line. */
static inline unsigned int
hash_match(const struct hash_bucket *bucket, uint16_t tag)
{
#ifdef __SSE2__
	__m128i tags = _mm_load_si128((const __m128i *)(const void *)bucket->tag);
	__m128i equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16((short)tag));

	/* 16-bit lanes of ones or zeros saturate to bytes of the same */
	return (unsigned int)_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) &
		bucket->used;
#else
	return hash_match_scalar(bucket, tag);
#endif
}

/* Fill the probe, which depends only on the key and the table's seed. Reads only the table's
 * line. */
static inline void
hash_place(const struct hash_table *table, uint64_t key, struct hash_probe *probe)
{
	uint64_t mixed = hash_mix(key ^ table->seed);
	uint32_t low = (uint32_t)mixed, high = (uint32_t)(mixed >> 32);
	uint32_t primary = (uint32_t)((uint64_t)low * table->nb_buckets >> 32);
	uint32_t secondary = (uint32_t)((uint64_t)high * table->nb_buckets >> 32);

	if (unlikely(secondary == primary))
		secondary = primary + 1 == table->nb_buckets ? 0 : primary + 1;
	probe->key = key;
	probe->primary = primary;
	probe->secondary = secondary;
	probe->candidate = HASH_NO_RECORD;
	probe->tag = (uint16_t)((low & 0xff) | (high & 0xff) << 8);
	probe->pad = 0;
}

/*
 * Step 1: compute where the key would be and prefetch both bucket lines. key: any 64 bits, 0 too.
 * probe: the caller's, overwritten. Cost: about 15 cycles, no wait. End the segment.
 */
static inline void
hash_begin(const struct hash_table *table, uint64_t key, struct hash_probe *probe)
{
	hash_place(table, key, probe);
	rte_prefetch0(&table->buckets[probe->primary]);
	rte_prefetch0(&table->buckets[probe->secondary]);
}

/*
 * Step 2: scan the tags. true: there is a candidate, and its first line is prefetched; end the
 * segment and call hash_confirm. false: the key is absent until this segment ends. Does not change
 * REF. Cost: one bucket line, or both.
 */
static inline bool
hash_find(struct hash_table *table, struct hash_probe *probe)
{
	const struct hash_bucket *bucket = &table->buckets[probe->primary];
	unsigned int match = hash_match(bucket, probe->tag);

	if (match == 0) {
		bucket = &table->buckets[probe->secondary];
		match = hash_match(bucket, probe->tag);
		if (match == 0) {
			probe->candidate = HASH_NO_RECORD;
			return false;
		}
	}
	probe->candidate = bucket->record[__builtin_ctz(match)];
	rte_prefetch0(hash_record_at(table, probe->candidate));
	return true;
}

/* Set the REF flag of a live record, for accesses that count only after hash_peek. Cost: its
 * bucket. */
static inline void
hash_ref_set(struct hash_table *table, const struct hash_record *record)
{
	struct hash_bucket *bucket = &table->buckets[record->bucket];

	bucket->ref |= (uint8_t)(1u << record->slot);
}

/* Search both buckets and compare keys, waiting for lines. Does not change REF. NULL: absent. */
struct hash_record *hash_search(const struct hash_table *table, const struct hash_probe *probe);

/*
 * Step 3 without counting as an access: returns the record of the probe's key, and does not change
 * REF. NULL: absent until this segment ends. Correct after any changes since hash_find, and without
 * hash_find. The record belongs to the table and is valid until the segment ends or it is deleted.
 * Cost: a record line, warm; if two keys share a tag or the candidate is gone, a search that waits
 * for its lines.
 */
static inline struct hash_record *
hash_peek(const struct hash_table *table, const struct hash_probe *probe)
{
	if (likely(probe->candidate != HASH_NO_RECORD)) {
		struct hash_record *record = hash_record_at(table, probe->candidate);

		/* A live record of this key is the right one, in whichever bucket it is listed. */
		if (likely(record->key == probe->key && record->live))
			return record;
	}
	return hash_search(table, probe);
}

/* Step 3: as hash_peek, and set REF. Cost: as hash_peek, and the record's bucket line, warm. */
static inline struct hash_record *
hash_confirm(struct hash_table *table, struct hash_probe *probe)
{
	struct hash_record *record = hash_peek(table, probe);

	if (likely(record != NULL))
		hash_ref_set(table, record);
	return record;
}

/*
 * All steps at once, for code off the packet path or tables that fit the L1 cache. Sets REF. NULL:
 * absent until this segment ends; to insert then, fill a probe by hash_place. Cost: waits for one
 * or two bucket lines, then for a record line.
 */
static inline struct hash_record *
hash_lookup(struct hash_table *table, uint64_t key)
{
	struct hash_probe probe;

	hash_begin(table, key, &probe);
	return hash_find(table, &probe) ? hash_confirm(table, &probe) : NULL;
}

#endif
