/* SPDX-License-Identifier: BSD-3-Clause */
/* Weir's hash engine as a worker uses it: each step for a batch of threads, then the next one. */
#include "apps/bench/hash_tables.h"

#include <rte_common.h>
#include <rte_malloc.h>

#include "hashengine/aging.h"
#include "hashengine/hash_fast.h"

struct record {
	struct hash_record head;
	uint64_t value;
} __rte_aligned(BENCH_HASH_RECORD_SIZE);

struct bench_hash {
	struct hash_table *table;
	struct record *records;
	uint64_t sum; /* of what a scan touched */
};

static void
weir_destroy(struct bench_hash *hash)
{
	if (hash == NULL)
		return;
	hash_destroy(hash->table);
	rte_free(hash->records);
	rte_free(hash);
}

static struct bench_hash *
weir_create(uint32_t capacity, int socket)
{
	struct bench_hash *hash = rte_zmalloc_socket("bench", sizeof(*hash), 64, socket);
	struct hash_config config = {.name = "bench",
		.capacity = capacity,
		.record_size = sizeof(struct record),
		.socket = socket,
		.seed = 1};

	if (hash == NULL)
		return NULL;
	hash->records = rte_zmalloc_socket(
		"bench", hash_records_bytes(capacity, sizeof(struct record)), 64, socket);
	config.records = hash->records;
	hash->table = hash->records == NULL ? NULL : hash_create(&config);
	if (hash->table != NULL)
		return hash;
	weir_destroy(hash);
	return NULL;
}

static double
weir_slots_used(const struct bench_hash *hash, uint32_t live)
{
	return live / (8.0 * hash_buckets(hash->table));
}

static uint32_t
weir_hit(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	struct hash_probe probe[BENCH_HASH_BATCH_MAX];
	struct hash_table *table = hash->table;
	uint32_t wrong = 0;

	for (uint32_t at = 0; at < n; at += batch) {
		uint32_t count = RTE_MIN(batch, n - at);

		for (uint32_t i = 0; i < count; i++)
			hash_begin(table, key[at + i], &probe[i]);
		for (uint32_t i = 0; i < count; i++)
			wrong += !hash_find(table, &probe[i]);
		for (uint32_t i = 0; i < count; i++) {
			const struct record *record = (void *)hash_confirm(table, &probe[i]);

			if (unlikely(record == NULL))
				wrong++;
			else
				wrong += record->value != bench_hash_value(key[at + i]);
		}
	}
	return wrong;
}

static uint32_t
weir_miss(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	struct hash_probe probe[BENCH_HASH_BATCH_MAX];
	struct hash_table *table = hash->table;
	uint32_t wrong = 0;

	for (uint32_t at = 0; at < n; at += batch) {
		uint32_t count = RTE_MIN(batch, n - at), maybe = 0;

		for (uint32_t i = 0; i < count; i++)
			hash_begin(table, key[at + i], &probe[i]);
		for (uint32_t i = 0; i < count; i++)
			if (unlikely(hash_find(table, &probe[i])))
				probe[maybe++] = probe[i]; /* another key of this tag */
		for (uint32_t i = 0; i < maybe; i++)
			wrong += hash_confirm(table, &probe[i]) != NULL;
	}
	return wrong;
}

static uint32_t
weir_insert(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	struct hash_probe probe[BENCH_HASH_BATCH_MAX];
	struct hash_table *table = hash->table;
	uint32_t wrong = 0;

	for (uint32_t at = 0; at < n; at += batch) {
		uint32_t count = RTE_MIN(batch, n - at);

		for (uint32_t i = 0; i < count; i++)
			hash_begin(table, key[at + i], &probe[i]);
		for (uint32_t i = 0; i < count; i++) {
			struct hash_record *record = NULL;

			if (unlikely(hash_find(table, &probe[i])))
				record = hash_confirm(table, &probe[i]);
			if (unlikely(record != NULL || hash_insert(table, &probe[i], &record) < 0))
				wrong++;
			else
				((struct record *)(void *)record)->value =
					bench_hash_value(key[at + i]);
		}
	}
	return wrong;
}

static uint32_t
weir_remove(struct bench_hash *hash, const uint64_t *key, uint32_t n, uint32_t batch)
{
	struct hash_probe probe[BENCH_HASH_BATCH_MAX];
	struct hash_table *table = hash->table;
	uint32_t wrong = 0;

	for (uint32_t at = 0; at < n; at += batch) {
		uint32_t count = RTE_MIN(batch, n - at);

		for (uint32_t i = 0; i < count; i++)
			hash_begin(table, key[at + i], &probe[i]);
		for (uint32_t i = 0; i < count; i++)
			hash_find(table, &probe[i]);
		for (uint32_t i = 0; i < count; i++) {
			struct hash_record *record = hash_peek(table, &probe[i]);

			/* That hash_find saw a tag is no answer: this is. */
			if (likely(record != NULL))
				hash_delete(table, record);
			else
				wrong++;
		}
	}
	return wrong;
}

static void
touch(void *arg, struct hash_record *record)
{
	struct bench_hash *hash = arg;

	hash->sum += ((struct record *)(void *)record)->value;
}

static uint32_t
weir_scan(struct bench_hash *hash)
{
	return hash_scan(hash->table, 0, 1, touch, hash);
}

uint32_t
bench_hash_age(struct bench_hash *hash)
{
	return hash_age_scan(hash->table, 0, 1, touch, hash);
}

static void
weir_spoil(struct bench_hash *hash, uint64_t key)
{
	struct record *record = (void *)hash_lookup(hash->table, key);

	if (record != NULL)
		record->value++;
}

const struct bench_hash_ops bench_hash_weir = {
	.name = "weir",
	.create = weir_create,
	.destroy = weir_destroy,
	.slots_used = weir_slots_used,
	.hit = weir_hit,
	.miss = weir_miss,
	.insert = weir_insert,
	.remove = weir_remove,
	.scan = weir_scan,
	.spoil = weir_spoil,
};
