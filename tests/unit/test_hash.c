/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash engine, function by function. Random sequences against the model, with keys of one tag,
 * full buckets and no records left: test_hash_random.c; how full a table gets:
 * test_hash_occupancy.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <rte_errno.h>

#include "hashengine/aging.h"
#include "hashengine/hash.h"
#include "hashengine/hash_fast.h"

struct user_record {
	struct hash_record head;
	uint64_t value;
	uint8_t pad[40];
};

static_assert(sizeof(struct user_record) == 64, "one line");

static void *records;

static struct hash_table *
seeded_table(uint32_t capacity, uint32_t buckets, uint64_t seed)
{
	size_t bytes = hash_records_bytes(capacity, sizeof(struct user_record));
	struct hash_config config = {
		.name = "test",
		.capacity = capacity,
		.record_size = sizeof(struct user_record),
		.socket = -1,
		.seed = seed,
		.buckets = buckets,
	};
	struct hash_table *table;

	records = aligned_alloc(64, bytes);
	cr_assert_not_null(records);
	memset(records, 0, bytes);
	config.records = records;
	table = hash_create(&config);
	cr_assert_not_null(table);
	return table;
}

static struct hash_table *
table_of(uint32_t capacity, uint32_t buckets)
{
	return seeded_table(capacity, buckets, 0);
}

static void
done(struct hash_table *table)
{
	hash_destroy(table);
	free(records);
}

static int
insert(struct hash_table *table, uint64_t key, struct hash_record **record)
{
	struct hash_probe probe;

	hash_begin(table, key, &probe);
	return hash_insert(table, &probe, record);
}

static struct hash_record *
must_insert(struct hash_table *table, uint64_t key)
{
	struct hash_record *record = NULL;

	cr_assert_eq(insert(table, key, &record), 0);
	cr_assert_eq(record->key, key);
	cr_assert_eq(record->live, 1);
	return record;
}

Test(hash, create_refuses_bad_numbers, .timeout = 90)
{
	static uint8_t memory[128] __attribute__((aligned(64)));
	const struct hash_config good = {
		.capacity = 1, .record_size = 64, .records = memory, .socket = -1};
	struct hash_config bad[8];
	struct hash_table *table = hash_create(&good);

	cr_assert_not_null(table);
	hash_destroy(table);
	for (unsigned int i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].capacity = 0;
	bad[1].capacity = HASH_CAPACITY_MAX + 1;
	bad[2].record_size = 0;
	bad[3].record_size = 72;
	bad[4].record_size = 65536 + 64;
	bad[5].records = NULL;
	bad[6].records = memory + 16;
	bad[7].buckets = 1;
	for (unsigned int i = 0; i < 8; i++) {
		rte_errno = 0;
		cr_assert_null(hash_create(&bad[i]), "case %u", i);
		cr_assert_eq(rte_errno, EINVAL, "case %u", i);
	}
	hash_destroy(NULL);
}

Test(hash, sizes, .timeout = 90)
{
	cr_assert_eq(hash_records_bytes(1000, 192), 192000);
	cr_assert_eq(hash_records_bytes(HASH_CAPACITY_MAX, 65536), (size_t)1 << 41);
	/* 1000 records: 313 buckets, 128 bytes of table, 4000 of stack, in lines */
	cr_assert_eq(hash_table_bytes(1000), 128 + 313 * 64 + 4032);
	for (uint32_t capacity = 1; capacity < 5000; capacity += 7) {
		struct hash_table *table = table_of(capacity, 0);

		cr_assert_eq(hash_capacity(table), capacity);
		cr_assert_eq(hash_count(table), 0);
		cr_assert_geq(hash_buckets(table), 2);
		cr_assert_geq(hash_buckets(table) * UINT64_C(32), capacity * UINT64_C(10));
		done(table);
	}
}

Test(hash, insert_find_delete, .timeout = 90)
{
	struct hash_table *table = table_of(100, 0);
	const uint64_t keys[] = {0, 1, UINT64_MAX, 0x0000001b21aabbcc};
	struct hash_record *record[4];

	for (unsigned int i = 0; i < 4; i++) {
		cr_assert_null(hash_lookup(table, keys[i]));
		record[i] = must_insert(table, keys[i]);
		cr_assert_eq(hash_count(table), i + 1);
	}
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(hash_lookup(table, keys[i]), record[i]);
	hash_delete(table, record[1]);
	cr_assert_eq(hash_count(table), 3);
	cr_assert_null(hash_lookup(table, keys[1]));
	cr_assert_eq(record[1]->live, 0);
	hash_delete(table, record[1]); /* not live: left alone */
	cr_assert_eq(hash_count(table), 3);
	cr_assert_eq(hash_lookup(table, keys[2]), record[2]);
	done(table);
}

Test(hash, last_freed_is_first_reused_with_its_fields, .timeout = 90)
{
	struct hash_table *table = table_of(10, 0);
	struct hash_record *a = must_insert(table, 1), *b = must_insert(table, 2);

	cr_assert_eq(((struct user_record *)a)->value, 0);
	((struct user_record *)a)->value = 77;
	hash_delete(table, b);
	hash_delete(table, a);
	cr_assert_eq(must_insert(table, 3), a);
	cr_assert_eq(((struct user_record *)a)->value, 77);
	cr_assert_eq(must_insert(table, 4), b);
	done(table);
}

static void
count_one(void *arg, struct hash_record *record)
{
	cr_assert_eq(record->live, 1);
	++*(unsigned int *)arg;
}

Test(hash, ref_is_set_by_insert_and_confirm_only, .timeout = 90)
{
	struct hash_table *table = table_of(20, 0);
	struct hash_record *record = must_insert(table, 1);
	struct hash_probe probe;
	unsigned int calls = 0;

	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 0);
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 1);
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 1); /* again and again */
	hash_begin(table, 1, &probe);
	cr_assert(hash_find(table, &probe));
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 1); /* find does not touch */
	cr_assert_eq(hash_peek(table, &probe), record);
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 1); /* nor does peek */
	cr_assert_eq(hash_confirm(table, &probe), record);
	cr_assert_eq(hash_scan(table, 0, 1, count_one, &calls), 1); /* shows, leaves REF */
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 0);
	hash_ref_set(table, record);
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 0);
	hash_delete(table, record);
	cr_assert_eq(hash_age_scan(table, 0, 1, count_one, &calls), 0);
	cr_assert_eq(hash_scan(table, 0, 1, count_one, &calls), 0);
	cr_assert_eq(calls, 5);
	done(table);
}

static struct hash_table *deleting;

static void
delete_everything(void *arg, struct hash_record *record)
{
	++*(unsigned int *)arg;
	(void)record;
	for (uint64_t key = 0; key < 16; key++) {
		struct hash_record *other = hash_lookup(deleting, key);

		if (other != NULL)
			hash_delete(deleting, other);
	}
}

Test(hash, scan_callback_may_delete_any_record, .timeout = 90)
{
	unsigned int calls = 0;

	deleting = table_of(16, 2);
	for (uint64_t key = 0; key < 16; key++)
		must_insert(deleting, key);
	cr_assert_eq(hash_scan(deleting, 0, 1, delete_everything, &calls), 1);
	cr_assert_eq(calls, 1);
	cr_assert_eq(hash_count(deleting), 0);
	done(deleting);
}

static void
mark_once(void *arg, struct hash_record *record)
{
	struct user_record *user = (struct user_record *)record;

	cr_assert_eq(user->value, 0, "key %lu was handed out twice", (unsigned long)record->key);
	user->value = 1;
	++*(unsigned int *)arg;
}

Test(hash, slices_partition_the_buckets, .timeout = 90)
{
	static const uint32_t capacities[] = {1, 2, 7, 100, 1000};
	static const uint32_t slices[] = {1, 2, 3, 7, 100, 313, 314, 1000, 5000};

	for (unsigned int c = 0; c < RTE_DIM(capacities); c++) {
		for (unsigned int s = 0; s < RTE_DIM(slices); s++) {
			struct hash_table *table = table_of(capacities[c], 0);
			unsigned int calls = 0;
			uint32_t given = 0;

			for (uint64_t key = 0; key < capacities[c]; key++)
				must_insert(table, key);
			cr_assert_eq(hash_scan(table, slices[s], slices[s], mark_once, &calls), 0);
			for (uint32_t i = slices[s]; i-- > 0;)
				given += hash_scan(table, i, slices[s], mark_once, &calls);
			cr_assert_eq(calls, capacities[c]);
			cr_assert_eq(given, capacities[c]);
			done(table);
		}
	}
}

Test(hash, compares_agree, .timeout = 90)
{
	struct hash_bucket bucket;
	uint64_t x = 1;

	memset(&bucket, 0, sizeof(bucket));
	for (unsigned int i = 0; i < 100000; i++) {
		x = hash_mix(x + i);
		bucket.tag[i % 8] =
			(uint16_t)((x & 3) | (x & 4 ? 0x8000 : 0) | (x & 8 ? 0x00f0 : 0));
		bucket.used = (uint8_t)(x >> 8);
		cr_assert_eq(hash_match(&bucket, bucket.tag[x >> 61]),
			hash_match_scalar(&bucket, bucket.tag[x >> 61]));
	}
}

Test(hash, the_seed_moves_keys, .timeout = 90)
{
	struct hash_probe a[1000], b[1000];
	unsigned int same = 0, permuted = 0;

	for (unsigned int seed = 0; seed < 2; seed++) {
		struct hash_table *table = seeded_table(1000, 0, seed);

		for (unsigned int key = 0; key < 1000; key++)
			hash_place(table, key, seed == 0 ? &a[key] : &b[key]);
		done(table);
	}
	for (unsigned int key = 0; key < 1000; key++) {
		cr_assert_neq(a[key].primary, a[key].secondary);
		cr_assert(a[key].primary < 313 && a[key].secondary < 313);
		same += a[key].primary == b[key].primary;
		/* were the seed not mixed itself, 1 would only swap neighbours' places */
		permuted += a[key].primary == b[key ^ 1].primary;
	}
	cr_assert_lt(same, 30);
	cr_assert_lt(permuted, 30);
}
