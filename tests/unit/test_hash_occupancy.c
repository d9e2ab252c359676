/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How full a table gets before an insert fails, over sizes, kinds of key and seeds: the numbers of
 * hash.h, Sizing, printed again, and conservative bounds asserted. Always the same seeds, so that
 * the numbers repeat.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "hashengine/hash.h"
#include "hashengine/hash_fast.h"

#define SEEDS 64

enum keys { SEQUENTIAL, MAC, RANDOM };

static const char *const key_names[] = {"sequential", "MAC", "random"};

static uint64_t
key_of(enum keys kind, uint64_t i)
{
	switch (kind) {
	case SEQUENTIAL: return UINT64_C(3) << 32 | i; /* job 3, block i */
	case MAC: /* six vendors' prefixes, consecutive addresses, as bytes lie in memory */
		return __builtin_bswap64((UINT64_C(0x001b21000000) + (i % 6 << 24) + i / 6) << 16);
	case RANDOM: return hash_mix(i * UINT64_C(0x9e3779b97f4a7c15));
	}
	return 0;
}

static struct hash_table *
table_of(uint32_t capacity, uint32_t buckets, uint64_t seed, void **records)
{
	struct hash_config config = {.capacity = capacity,
		.record_size = 64,
		.socket = -1,
		.seed = seed,
		.buckets = buckets};
	struct hash_table *table;

	/* calloc: untouched pages cost nothing */
	*records = calloc(1, hash_records_bytes(capacity, 64) + 64);
	cr_assert_not_null(*records);
	config.records = (void *)RTE_ALIGN_CEIL((uintptr_t)*records, (uintptr_t)64);
	table = hash_create(&config);
	cr_assert_not_null(table);
	return table;
}

/* Insert keys until one fails; the share of slots in use then. */
static double
fill(uint32_t buckets, enum keys kind, uint64_t seed)
{
	struct hash_record *record;
	struct hash_probe probe;
	struct hash_table *table;
	uint32_t count;
	void *records;
	int rc;

	table = table_of(buckets * HASH_BUCKET_SLOTS, buckets, seed, &records);
	for (uint64_t i = 0;; i++) {
		hash_begin(table, key_of(kind, i), &probe);
		rc = hash_insert(table, &probe, &record);
		if (rc != 0)
			break;
	}
	count = hash_count(table);
	cr_assert(rc == -ENOSPC || count == hash_capacity(table));
	hash_destroy(table);
	free(records);
	return (double)count / (buckets * HASH_BUCKET_SLOTS);
}

static int
ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

Test(hash_occupancy, first_failure, .timeout = 110)
{
	static const uint32_t sizes[] = {4, 16, 64, 256, 1024, 4096, 16384};
	double share[SEEDS];

	printf("occupancy at first failure, %d seeds (0 to %d)\n", SEEDS, SEEDS - 1);
	for (enum keys kind = SEQUENTIAL; kind <= RANDOM; kind++) {
		for (unsigned int s = 0; s < RTE_DIM(sizes); s++) {
			for (uint64_t seed = 0; seed < SEEDS; seed++)
				share[seed] = fill(sizes[s], kind, seed);
			qsort(share, SEEDS, sizeof(share[0]), ascending);
			printf("  %-10s %5u buckets: min %.2f median %.2f max %.2f\n",
				key_names[kind], sizes[s], share[0], share[SEEDS / 2],
				share[SEEDS - 1]);
			fflush(stdout);
			cr_assert_gt(share[0], 0.5, "%s, %u buckets", key_names[kind], sizes[s]);
		}
	}
}

/* What a table at its capacity for long looked like. */
struct churn {
	unsigned int refused; /* inserts that found both buckets full */
	double in_primary; /* share of the records deleted that were in their primary */
	double full; /* share of full buckets, the mean of many looks */
};

static unsigned int
full_buckets(const struct hash_table *table)
{
	unsigned int n = 0;

	for (uint32_t b = 0; b < table->nb_buckets; b++)
		n += table->buckets[b].used == UINT8_MAX;
	return n;
}

/* A random record goes, a new key comes, `turns` times after the table was filled. */
static struct churn
churn(uint32_t capacity, uint32_t buckets, uint32_t turns)
{
	struct hash_record *record;
	struct hash_probe probe;
	struct churn seen = {0, 0, 0};
	unsigned int deletes = 0, looks = 0;
	void *records;
	struct hash_table *table = table_of(capacity, buckets, 1, &records);

	for (uint64_t i = 0; i < (uint64_t)turns + capacity; i++) {
		record = hash_record_at(table, (uint32_t)(hash_mix(i) % capacity));
		if (i >= capacity && record->live) {
			hash_place(table, record->key, &probe);
			seen.in_primary += record->bucket == probe.primary;
			deletes++;
			hash_delete(table, record);
		}
		hash_begin(table, i, &probe);
		seen.refused += hash_insert(table, &probe, &record) != 0;
		if (i % capacity == 0 && i >= 20 * (uint64_t)capacity) {
			seen.full += full_buckets(table);
			looks++;
		}
	}
	seen.in_primary /= deletes;
	seen.full /= looks * (double)hash_buckets(table);
	hash_destroy(table);
	free(records);
	return seen;
}

/* At capacity, 40 %. */
Test(hash_occupancy, churn_at_capacity, .timeout = 90)
{
	static const uint32_t capacities[] = {16, 32, 64, 512, 4096};
	struct churn seen;

	for (unsigned int i = 0; i < RTE_DIM(capacities); i++) {
		seen = churn(capacities[i], 0, 1000000);
		cr_assert_eq(seen.refused, 0, "%u records", capacities[i]);
	}
	cr_assert(seen.in_primary > 0.62 && seen.in_primary < 0.64, "%f", seen.in_primary);
}

/* At 60 %, full buckets are many enough to be counted: as many as the limit says, whose square is 6e-6. */
Test(hash_occupancy, churn_follows_the_limit, .timeout = 90)
{
	const double limit = 2.4e-3;
	struct churn seen = churn(8192, 8192 * 100 / (60 * HASH_BUCKET_SLOTS), 2000000);

	cr_assert(seen.full > 0.7 * limit && seen.full < 1.4 * limit, "%e", seen.full);
}
