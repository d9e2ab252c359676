/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts of the hash engine. hash.h, DESIGN, gives the reasons. */
#ifndef HASHENGINE_HASH_PRIV_H
#define HASHENGINE_HASH_PRIV_H

#include <rte_common.h>

#include "hashengine/hash.h"

/*
 * One cache line. Slot i is tag[i], record[i] and bit i of used and ref. tag and record are valid
 * only where used is set; ref is a subset of used. owner: rw
 */
struct hash_bucket {
	uint16_t tag[HASH_BUCKET_SLOTS];
	uint32_t record[HASH_BUCKET_SLOTS];
	uint8_t used;
	uint8_t ref;
	uint8_t pad[14];
} __rte_aligned(64);

static_assert(sizeof(struct hash_bucket) == 64, "a bucket is a cache line");
static_assert(offsetof(struct hash_bucket, tag) == 0, "tags are loaded as one aligned vector");

struct hash_table {
	/* read-mostly: one line serves a lookup */
	struct hash_bucket *buckets;
	uint8_t *records;
	uint32_t *free; /* record numbers, a stack: free[nb_free - 1] was freed last */
	uint64_t seed;
	uint32_t nb_buckets;
	uint32_t record_size;
	uint32_t capacity;
	bool dpdk_heap; /* the allocation is rte_malloc's */
	/* owner: rw */
	uint32_t nb_free __rte_aligned(64);
} __rte_aligned(64);

static_assert(sizeof(struct hash_table) == 128, "read-mostly line, written line");

#endif
