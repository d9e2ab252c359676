/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's rte_hash at its best for one thread: no flags (no locks, no extendable buckets), CRC
 * computed inline, bulk lookups with the hashes given. The position that it returns for a key is
 * the number of the record: DPDK's own idiom, which needs neither a pointer beside the key nor a
 * free list of our own, and lets the record be prefetched for the whole batch. Keys of 8 bytes are
 * compared by its memcmp: a function of our own (rte_hash_set_cmp_func) was no faster at hits and
 * 4 % slower at deletes.
 */
#include "apps/bench/hash_tables.h"

#include <stdio.h>

#include <rte_common.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>

struct record {
	uint64_t key; /* rte_hash keeps its own; a record of 64 bytes as Weir's */
	uint64_t value;
} __rte_aligned(BENCH_HASH_RECORD_SIZE);

struct bench_hash {
	struct rte_hash *table;
	struct record *records;
	uint32_t slots;
	uint64_t sum; /* of what a scan touched */
};

static inline hash_sig_t
signature(uint64_t key)
{
	return rte_hash_crc_8byte(key, UINT32_MAX);
}

static void
rte_destroy(struct bench_hash *hash)
{
	if (hash == NULL)
		return;
	rte_hash_free(hash->table);
	rte_free(hash->records);
	rte_free(hash);
}

static struct bench_hash *
rte_create(uint32_t capacity, int socket)
{
	struct bench_hash *hash = rte_zmalloc_socket("bench", sizeof(*hash), 64, socket);
	struct rte_hash_parameters parameters = {.name = "bench",
		.entries = RTE_MAX(capacity, 8u),
		.key_len = sizeof(uint64_t),
		.hash_func = rte_hash_crc,
		.hash_func_init_val = UINT32_MAX,
		.socket_id = socket};

	if (hash == NULL)
		return NULL;
	hash->slots = rte_align32pow2(parameters.entries);
	hash->records = rte_zmalloc_socket(
		"bench", (size_t)parameters.entries * sizeof(struct record), 64, socket);
	hash->table = hash->records == NULL ? NULL : rte_hash_create(&parameters);
	if (hash->table != NULL)
		return hash;
	rte_destroy(hash);
	return NULL;
}

static double
rte_slots_used(const struct bench_hash *hash, uint32_t live)
{
	return (double)live / hash->slots;
}

/* The records' numbers of a batch, negative where a key is absent. */
static inline void
find(const struct bench_hash *hash, const uint64_t *key, uint32_t count, int32_t *position)
{
	hash_sig_t sig[BENCH_HASH_BATCH_MAX];
	const void *keys[BENCH_HASH_BATCH_MAX];

	for (uint32_t i = 0; i < count; i++) {
		keys[i] = &key[i];
		sig[i] = signature(key[i]);
	}
	rte_hash_lookup_with_hash_bulk(hash->table, keys, sig, count, position);
}

static uint32_t
rte_hit(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	int32_t position[BENCH_HASH_BATCH_MAX];
	uint32_t wrong = 0;

	for (uint32_t at = 0; at < n; at += batch) {
		uint32_t count = RTE_MIN(batch, n - at);

		find(hash, key + at, count, position);
		for (uint32_t i = 0; i < count; i++)
			rte_prefetch0(&hash->records[position[i]]);
		for (uint32_t i = 0; i < count; i++)
			if (unlikely(position[i] < 0))
				wrong++;
			else
				wrong += hash->records[position[i]].value !=
					bench_hash_value(key[at + i]);
	}
	return wrong;
}

static uint32_t
rte_miss(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	int32_t position[BENCH_HASH_BATCH_MAX];
	uint32_t wrong = 0;

	for (uint32_t at = 0; at < n; at += batch) {
		uint32_t count = RTE_MIN(batch, n - at);

		find(hash, key + at, count, position);
		for (uint32_t i = 0; i < count; i++)
			wrong += position[i] >= 0;
	}
	return wrong;
}

static uint32_t
rte_insert(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	uint32_t wrong = 0;

	RTE_SET_USED(batch); /* rte_hash adds and deletes one by one */
	for (uint32_t i = 0; i < n; i++) {
		int32_t position =
			rte_hash_add_key_with_hash(hash->table, &key[i], signature(key[i]));

		if (unlikely(position < 0)) {
			wrong++;
			continue;
		}
		hash->records[position].key = key[i];
		hash->records[position].value = bench_hash_value(key[i]);
	}
	return wrong;
}

static uint32_t
rte_remove(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	uint32_t wrong = 0;

	RTE_SET_USED(batch);
	for (uint32_t i = 0; i < n; i++)
		wrong += rte_hash_del_key_with_hash(hash->table, &key[i], signature(key[i])) < 0;
	return wrong;
}

static uint32_t
rte_scan(struct bench_hash *hash)
{
	uint32_t next = 0, found = 0;
	const void *key;
	void *data;
	int32_t position;

	while ((position = rte_hash_iterate(hash->table, &key, &data, &next)) >= 0) {
		hash->sum += hash->records[position].value;
		found++;
	}
	return found;
}

static void
rte_spoil(struct bench_hash *hash, uint64_t key)
{
	int32_t position = rte_hash_lookup_with_hash(hash->table, &key, signature(key));

	if (position >= 0)
		hash->records[position].value++;
}

const struct bench_hash_ops bench_hash_rte = {
	.name = "rte_hash",
	.create = rte_create,
	.destroy = rte_destroy,
	.slots_used = rte_slots_used,
	.hit = rte_hit,
	.miss = rte_miss,
	.insert = rte_insert,
	.remove = rte_remove,
	.scan = rte_scan,
	.spoil = rte_spoil,
};
