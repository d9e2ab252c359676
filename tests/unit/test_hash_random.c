/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash engine against the model: long random sequences of split lookups by interleaved
 * threads, with inserts, deletes and aging scans between their steps. WEIR_SEED=n repeats a run.
 */
#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>

#include "hashengine/aging.h"
#include "hashengine/hash.h"
#include "hashengine/hash_fast.h"
#include "tests/model/hash_model.h"
#include "tests/random.h"

#define VIRTUAL_THREADS 12

struct user_record {
	struct hash_record head;
	uint64_t value;
	uint8_t pad[104];
};

static_assert(sizeof(struct user_record) == 128, "two lines");

/* What a virtual thread does next. */
enum step { BEGIN, FIND, CONFIRM };

struct world {
	struct hash_table *table;
	struct hash_model model;
	void *records;
	uint64_t *keys; /* the pool that keys are drawn from */
	uint32_t nb_keys;
	uint64_t random;
	struct {
		enum step step;
		struct hash_probe probe;
	} thread[VIRTUAL_THREADS];
	uint32_t first, end; /* the slice under scan */
	uint64_t hits, misses, wrong_candidates, inserts, no_memory, no_space, deletes, aged;
};

static uint64_t
draw(struct world *w, uint64_t below)
{
	w->random += UINT64_C(0x9e3779b97f4a7c15);
	return hash_mix(w->random) % below;
}

static void
world_init(struct world *w, uint64_t seed, uint32_t capacity, uint32_t buckets, uint32_t nb_keys)
{
	size_t bytes = hash_records_bytes(capacity, sizeof(struct user_record));
	struct hash_config config = {.capacity = capacity,
		.record_size = sizeof(struct user_record),
		.socket = -1,
		.seed = seed,
		.buckets = buckets};

	memset(w, 0, sizeof(*w));
	w->random = seed;
	w->records = config.records = aligned_alloc(64, bytes);
	w->keys = calloc(nb_keys, sizeof(*w->keys));
	cr_assert(w->records != NULL && w->keys != NULL && hash_model_init(&w->model, capacity));
	memset(w->records, 0, bytes);
	w->table = hash_create(&config);
	cr_assert_not_null(w->table);
	w->nb_keys = nb_keys;
	for (uint32_t i = 0; i < nb_keys; i++)
		w->keys[i] = i;
}

static void
world_free(struct world *w)
{
	hash_destroy(w->table);
	hash_model_free(&w->model);
	free(w->records);
	free(w->keys);
}

/* The key was just found absent: perhaps insert it, in the same segment. */
static void
absent(struct world *w, struct hash_probe *probe)
{
	struct hash_record *record = NULL;
	int rc;

	cr_assert_null(hash_model_get(&w->model, probe->key));
	w->misses++;
	if (draw(w, 4) == 0)
		return;
	rc = hash_insert(w->table, probe, &record);
	if (w->model.count == w->model.capacity) {
		cr_assert_eq(rc, -ENOMEM);
		w->no_memory++;
	} else if (hash_model_in_bucket(&w->model, probe->primary) == HASH_BUCKET_SLOTS &&
		hash_model_in_bucket(&w->model, probe->secondary) == HASH_BUCKET_SLOTS) {
		cr_assert_eq(rc, -ENOSPC);
		w->no_space++;
	} else {
		uint64_t value = draw(w, UINT64_MAX);

		cr_assert_eq(rc, 0);
		cr_assert(record->bucket == probe->primary || record->bucket == probe->secondary);
		cr_assert(hash_model_add(&w->model, probe->key, value, record->bucket));
		((struct user_record *)record)->value = value;
		w->inserts++;
	}
	cr_assert_eq(record != NULL, rc == 0);
}

static void
check_hit(struct world *w, struct hash_record *record)
{
	struct hash_model_entry *entry = hash_model_get(&w->model, record->key);

	cr_assert_not_null(entry);
	cr_assert_eq(entry->value, ((struct user_record *)record)->value);
	cr_assert_eq(entry->bucket, record->bucket);
	cr_assert_eq(record->live, 1);
}

static void
delete_record(struct world *w, struct hash_record *record)
{
	cr_assert(hash_model_remove(&w->model, record->key));
	hash_delete(w->table, record);
	w->deletes++;
}

static void
present(struct world *w, struct hash_record *record, uint64_t key)
{
	cr_assert_eq(record->key, key);
	check_hit(w, record);
	hash_model_get(&w->model, key)->ref = true;
	w->hits++;
	switch (draw(w, 8)) {
	case 0:
	case 1:
	case 2: delete_record(w, record); break;
	case 3: hash_ref_set(w->table, record); break;
	default: break;
	}
}

/* One segment of one thread. */
static void
step_thread(struct world *w)
{
	unsigned int i = (unsigned int)draw(w, VIRTUAL_THREADS);
	struct hash_probe *probe = &w->thread[i].probe;
	struct hash_record *record;

	switch (w->thread[i].step) {
	case BEGIN:
		hash_begin(w->table, w->keys[draw(w, w->nb_keys)], probe);
		w->thread[i].step = FIND;
		break;
	case FIND:
		if (hash_find(w->table, probe)) {
			w->thread[i].step = CONFIRM;
		} else {
			absent(w, probe);
			/* at times keep the probe and confirm what was inserted, or was not */
			w->thread[i].step = draw(w, 4) == 0 ? CONFIRM : BEGIN;
		}
		break;
	case CONFIRM:
		w->wrong_candidates += probe->candidate != HASH_NO_RECORD &&
			hash_record_at(w->table, probe->candidate)->key != probe->key;
		if (draw(w, 4) == 0) {
			record = hash_peek(w->table, probe);
			if (record != NULL)
				check_hit(w, record);
		} else {
			record = hash_confirm(w->table, probe);
			if (record != NULL)
				present(w, record, probe->key);
		}
		if (record == NULL)
			absent(w, probe);
		w->thread[i].step = BEGIN;
		break;
	}
}

static void
aged(void *arg, struct hash_record *record)
{
	struct world *w = arg;

	check_hit(w, record);
	cr_assert_not(hash_model_get(&w->model, record->key)->ref);
	cr_assert(record->bucket >= w->first && record->bucket < w->end);
	w->aged++;
	if (draw(w, 4) == 0)
		delete_record(w, record);
}

static void
age(struct world *w)
{
	uint32_t buckets = hash_buckets(w->table);
	const uint32_t choices[] = {1, 3, 100, buckets, buckets + 7};
	uint32_t n = choices[draw(w, 5)], slice = (uint32_t)draw(w, n), idle;

	w->first = (uint32_t)((uint64_t)buckets * slice / n);
	w->end = (uint32_t)((uint64_t)buckets * (slice + 1) / n);
	idle = hash_model_idle(&w->model, w->first, w->end);
	cr_assert_eq(hash_age_scan(w->table, slice, n, aged, w), idle);
	hash_model_clear(&w->model, w->first, w->end);
}

static void
seen(void *arg, struct hash_record *record)
{
	check_hit(arg, record);
}

static void
check_whole(struct world *w)
{
	for (uint32_t b = 0; b < hash_buckets(w->table); b++)
		cr_assert_eq(w->table->buckets[b].ref & ~w->table->buckets[b].used, 0);
	cr_assert_eq(hash_count(w->table), w->model.count);
	cr_assert_eq(hash_scan(w->table, 0, 1, seen, w), w->model.count);
}

static void
run(struct world *w, uint32_t steps)
{
	for (uint32_t i = 0; i < steps; i++) {
		if (draw(w, 64) == 0)
			age(w);
		else
			step_thread(w);
		if (i % 4096 == 0)
			check_whole(w);
	}
	check_whole(w);
}

/* Tables with room, and such as run out of records or of slots. */
Test(hash_random, as_the_model, .timeout = 90)
{
	static const struct {
		uint32_t capacity, buckets, keys, runs;
		bool records, slots; /* it runs out of them */
	} tables[] = {{200, 0, 300, 8, false, false}, {1, 0, 4, 1, true, false},
		{2, 0, 8, 1, true, false}, {5, 0, 20, 1, true, false}, {16, 0, 64, 1, true, false},
		{40, 0, 160, 1, true, false}, {1000, 2, 48, 1, false, true},
		{1000, 3, 72, 1, false, true}, {1000, 5, 120, 1, false, true},
		{1000, 9, 216, 1, false, true}};
	uint64_t seed = random_seed();
	struct world w;

	for (unsigned int t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (unsigned int i = 0; i < tables[t].runs; i++) {
			world_init(&w, hash_mix(seed + 8 * t + i), tables[t].capacity,
				tables[t].buckets, tables[t].keys);
			run(&w, 100000);
			cr_assert(t > 0 || (w.hits > 1000 && w.inserts > 1000 && w.aged > 100));
			cr_assert(w.no_memory > 0 || !tables[t].records, "table %u", t);
			cr_assert(w.no_space > 0 || !tables[t].slots, "table %u", t);
			world_free(&w);
		}
}

/* Every key of the pool has one of four tags, in two or three buckets. */
Test(hash_random, tags_collide, .timeout = 90)
{
	uint64_t seed = random_seed();
	struct hash_probe probe;
	struct world w;

	for (unsigned int i = 0; i < 4; i++) {
		uint64_t key = hash_mix(seed);

		world_init(&w, hash_mix(seed + i), 24, 2 + i % 2, 40);
		for (uint32_t n = 0; n < w.nb_keys; key++) {
			hash_place(w.table, key, &probe);
			if ((probe.tag & 0x7ffe) == 0) /* 0, 1, 0x8000, 0x8001 */
				w.keys[n++] = key;
		}
		run(&w, 100000);
		cr_assert_gt(w.wrong_candidates, 1000);
		world_free(&w);
	}
}
