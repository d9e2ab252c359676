/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hash tables that weir-bench compares, behind one shape. Each finds records of 64 bytes by a
 * 64-bit key; a record's word `value` follows from its key, so that every answer can be checked.
 * All work is done in bulk, `batch` keys in flight, in the way that suits the table best: so the
 * indirect call is paid once for thousands of keys. One thread.
 */
#ifndef APPS_BENCH_HASH_TABLES_H
#define APPS_BENCH_HASH_TABLES_H

#include <stdint.h>

#define BENCH_HASH_BATCH_MAX   64 /* RTE_HASH_LOOKUP_BULK_MAX */
#define BENCH_HASH_RECORD_SIZE 64

struct bench_hash; /* one table with its records */

struct bench_hash_ops {
	const char *name;
	/* An empty table for `capacity` records, on this socket of the DPDK heap. NULL:
	 * rte_errno. */
	struct bench_hash *(*create)(uint32_t capacity, int socket);
	void (*destroy)(struct bench_hash *table);
	/* Share of the buckets' places that `live` records fill. */
	double (*slots_used)(const struct bench_hash *table, uint32_t live);
	/*
	 * These work on n keys and return how many went wrong: a key not found, or its record not
	 * the right one; an absent key found; a key with no room. batch: [1, BENCH_HASH_BATCH_MAX].
	 */
	uint32_t (*hit)(struct bench_hash *table, const uint64_t *key, uint32_t n, uint32_t batch);
	uint32_t (*miss)(struct bench_hash *table, const uint64_t *key, uint32_t n, uint32_t batch);
	uint32_t (*insert)(
		struct bench_hash *table, const uint64_t *key, uint32_t n, uint32_t batch);
	uint32_t (*remove)(
		struct bench_hash *table, const uint64_t *key, uint32_t n, uint32_t batch);
	/* Visit every live record, touch it; returns how many. */
	uint32_t (*scan)(struct bench_hash *table);
	/* Spoil one record of a live key: what finds it must count one as wrong. */
	void (*spoil)(struct bench_hash *table, uint64_t key);
};

extern const struct bench_hash_ops bench_hash_weir, bench_hash_rte;

/* The aging scan of Weir's alone: how many records a scan by REF hands out. */
uint32_t bench_hash_age(struct bench_hash *table);

static inline uint64_t
bench_hash_value(uint64_t key)
{
	return ~key;
}

#endif
