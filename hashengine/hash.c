/* SPDX-License-Identifier: BSD-3-Clause */
#include "hashengine/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_log.h>
#include <rte_malloc.h>

#include "hashengine/hash_fast.h"
#include "hashengine/hash_priv.h"

RTE_LOG_REGISTER(hash_logtype, weir.hashengine, NOTICE);

#define HASH_LOG(level, ...) rte_log(RTE_LOG_##level, hash_logtype, "hashengine: " __VA_ARGS__)

/* capacity / 3.2, rounded up: 8 slots per bucket, 40 % of them in use at capacity. */
static uint32_t
buckets_for(uint32_t capacity)
{
	uint32_t buckets = (uint32_t)(((uint64_t)capacity * 5 + 15) / 16);

	return RTE_MAX(buckets, UINT32_C(2)); /* the secondary is never the primary */
}

static size_t
table_bytes(uint32_t capacity, uint32_t buckets)
{
	return sizeof(struct hash_table) + (size_t)buckets * sizeof(struct hash_bucket) +
		RTE_ALIGN_CEIL((size_t)capacity * sizeof(uint32_t), (size_t)64);
}

size_t
hash_records_bytes(uint32_t capacity, uint32_t record_size)
{
	return (size_t)capacity * record_size;
}

size_t
hash_table_bytes(uint32_t capacity)
{
	return table_bytes(capacity, buckets_for(capacity));
}

static const char *
config_error(const struct hash_config *config)
{
	if (config->capacity == 0 || config->capacity > HASH_CAPACITY_MAX)
		return "capacity is out of range";
	if (config->record_size == 0 || config->record_size % 64 != 0 ||
		config->record_size > 65536)
		return "record_size is not a multiple of 64 in 64..65536";
	if (config->records == NULL || (uintptr_t)config->records % 64 != 0)
		return "records is NULL or not aligned to 64 bytes";
	if (config->buckets == 1 || config->buckets > HASH_BUCKETS_MAX)
		return "buckets is out of range";
	return NULL;
}

static struct hash_table *
table_alloc(size_t bytes, int socket)
{
	struct hash_table *table = rte_zmalloc_socket("hashengine", bytes, 64, socket);

	if (table != NULL) {
		table->dpdk_heap = true;
		return table;
	}
	table = aligned_alloc(64, bytes); /* bytes is a multiple of 64 */
	if (table != NULL)
		memset(table, 0, bytes);
	return table;
}

struct hash_table *
hash_create(const struct hash_config *config)
{
	const char *name = config->name != NULL ? config->name : "(no name)";
	const char *error = config_error(config);
	struct hash_table *table;
	uint32_t buckets;

	if (error != NULL) {
		HASH_LOG(ERR, "%s: %s\n", name, error);
		rte_errno = EINVAL;
		return NULL;
	}
	buckets = config->buckets != 0 ? config->buckets : buckets_for(config->capacity);
	table = table_alloc(table_bytes(config->capacity, buckets), config->socket);
	if (table == NULL) {
		HASH_LOG(ERR, "%s: no memory for %u buckets\n", name, buckets);
		rte_errno = ENOMEM;
		return NULL;
	}
	table->buckets = (struct hash_bucket *)(table + 1);
	table->free = (uint32_t *)(table->buckets + buckets);
	table->records = config->records;
	/* Mix it: a small seed would only permute a run of small keys. */
	table->seed = hash_mix(config->seed);
	table->nb_buckets = buckets;
	table->record_size = config->record_size;
	table->capacity = config->capacity;
	table->nb_free = config->capacity;
	for (uint32_t i = 0; i < config->capacity; i++)
		table->free[i] = config->capacity - 1 - i; /* record 0 is taken first */
	return table;
}

void
hash_destroy(struct hash_table *table)
{
	if (table == NULL)
		return;
	if (table->dpdk_heap)
		rte_free(table);
	else
		free(table);
}

static struct hash_record *
search_bucket(const struct hash_table *table, uint32_t number, uint64_t key, uint16_t tag)
{
	const struct hash_bucket *bucket = &table->buckets[number];
	unsigned int match = hash_match(bucket, tag);

	for (; match != 0; match &= match - 1) {
		unsigned int slot = (unsigned int)__builtin_ctz(match);
		struct hash_record *record = hash_record_at(table, bucket->record[slot]);

		if (record->key == key) /* listed means live */
			return record;
	}
	return NULL;
}

struct hash_record *
hash_search(const struct hash_table *table, const struct hash_probe *probe)
{
	struct hash_record *record;

	record = search_bucket(table, probe->primary, probe->key, probe->tag);
	if (record == NULL)
		record = search_bucket(table, probe->secondary, probe->key, probe->tag);
	return record;
}

int
hash_insert(struct hash_table *table, struct hash_probe *probe, struct hash_record **out)
{
	struct hash_bucket *primary = &table->buckets[probe->primary];
	struct hash_bucket *secondary = &table->buckets[probe->secondary];
	bool second = __builtin_popcount(secondary->used) < __builtin_popcount(primary->used);
	struct hash_bucket *bucket = second ? secondary : primary;
	struct hash_record *record;
	unsigned int slot;

	if (unlikely(table->nb_free == 0))
		return -ENOMEM;
	if (unlikely(bucket->used == UINT8_MAX))
		return -ENOSPC;
	slot = (unsigned int)__builtin_ctz(~(unsigned int)bucket->used);
	probe->candidate = table->free[--table->nb_free];
	record = hash_record_at(table, probe->candidate);

	bucket->tag[slot] = probe->tag;
	bucket->record[slot] = probe->candidate;
	bucket->used |= (uint8_t)(1u << slot);
	bucket->ref |= (uint8_t)(1u << slot);
	record->key = probe->key;
	record->bucket = second ? probe->secondary : probe->primary;
	record->slot = (uint8_t)slot;
	record->live = 1;
	*out = record;

	/* Prefetch the next free record, which may be cold. */
	if (likely(table->nb_free != 0))
		rte_prefetch0(hash_record_at(table, table->free[table->nb_free - 1]));
	return 0;
}

void
hash_delete(struct hash_table *table, struct hash_record *record)
{
	struct hash_bucket *bucket = &table->buckets[record->bucket];
	uint8_t kept = (uint8_t) ~(1u << record->slot);

	if (unlikely(!record->live))
		return;
	record->live = 0;
	bucket->used &= kept;
	bucket->ref &= kept;
	/* Computing the record's number would take a division. */
	table->free[table->nb_free++] = bucket->record[record->slot];
}

uint32_t
hash_count(const struct hash_table *table)
{
	/* volatile: statistics read it from other lcores */
	return table->capacity - *(const volatile uint32_t *)&table->nb_free;
}

uint32_t
hash_capacity(const struct hash_table *table)
{
	return table->capacity;
}

uint32_t
hash_buckets(const struct hash_table *table)
{
	return table->nb_buckets;
}
