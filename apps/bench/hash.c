/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench hash: Weir's hash engine beside DPDK's rte_hash: the same random 64-bit keys, the same
 * records of 64 bytes, the same loads, in turn in one run. Every answer is checked: a record's value
 * follows from its key.
 *
 * A point is a table made for so many records with a share of them live. Its operations: lookups of
 * random live keys (hit) and of keys that were never there (miss); deletes of random live keys;
 * inserts of new keys in their places; a visit of all records (scan). Deletes and inserts take turns
 * by thousands, so that the load stays and the tables age as they do in a switch. All work is done
 * in bulk, `batch` keys in flight, in the way that suits the table best.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "apps/bench/bench.h"
#include "hashengine/aging.h"
#include "hashengine/hash_fast.h"

#define BATCH_MAX      64 /* RTE_HASH_LOOKUP_BULK_MAX */
#define RECORD_SIZE    64
#define HEAP_PER_PLACE 256u /* bytes of both tables with their records */
#define HEAP_MORE      64u /* MiB */
#define CHUNK          2048u /* keys of one clock reading */
#define ABSENT         (UINT64_C(1) << 40) /* indices from here on are never inserted */

enum operation { HIT, MISS, INSERT, DELETE, SCAN, AGE, OPERATIONS };
static const char *const operation_name[OPERATIONS] = {
	"hit", "miss", "insert", "delete", "scan", "age"};

static struct option_list records = {4, {1000, 32000, 1000000, 4000000}};
static struct option_list loads = {3, {10, 50, 90}};
static uint64_t batch = 32, operations;
static const char *only = "hit";

static const struct option_row options[] = {
	{"records", 0, OPTION_LIST, &records, 64, 16000000, NULL,
		"records that the tables are made for"},
	{"load", 0, OPTION_LIST, &loads, 1, 95, NULL, "per cent of the records that are live"},
	{"batch", 0, OPTION_UINT, &batch, 1, BATCH_MAX, NULL, "lookups in flight"},
	{"operations", 0, OPTION_UINT, &operations, 0, 100000000, NULL,
		"for callgrind: collect only this number of Weir's operations, with the first "
		"--records and --load, and print no figures"},
	{"operation", 0, OPTION_CHOICE, &only, 0, 0, "hit|miss|insert|delete",
		"the kind of operations to collect"},
	{0},
};

/* Both tables have such records. rte_hash keeps the keys itself. */
struct record {
	struct hash_record head;
	uint64_t value;
} __rte_aligned(RECORD_SIZE);

/* One of the two tables under measurement, and what is live in it. */
struct side {
	const struct ops *ops;
	struct hash_table *weir; /* one of the two */
	struct rte_hash *rte;
	struct record *records;
	uint64_t *live; /* indices of the live keys, in the order that churn has left */
	uint32_t filled; /* entries of it */
	uint64_t next; /* index of the next new key */
	uint64_t random;
	uint64_t wrong; /* answers */
	uint64_t sum; /* of what a scan touched */
};

/* Work on n keys in flight, [1, BATCH_MAX]. Returns how many went wrong: a key not found, or its record
 * not the right one; an absent key found; a key with no room. */
typedef uint32_t (*bulk)(struct side *side, const uint64_t *key, uint32_t n);

struct ops {
	const char *name;
	bulk bulk[SCAN]; /* by enum operation */
	uint32_t (*scan)(struct side *side); /* touch every live record; returns how many */
};

static inline uint64_t
value_of(uint64_t key)
{
	return ~key;
}

/* Weir's hash engine as a worker uses it: each step for a batch of threads, then the next one. */
static inline void
weir_begin(const struct side *side, const uint64_t *key, uint32_t n, struct hash_probe *probe)
{
	for (uint32_t i = 0; i < n; i++)
		hash_begin(side->weir, key[i], &probe[i]);
}

static inline void
weir_find(const struct side *side, const uint64_t *key, uint32_t n, struct hash_probe *probe)
{
	weir_begin(side, key, n, probe);
	for (uint32_t i = 0; i < n; i++)
		hash_find(side->weir, &probe[i]);
}

static uint32_t
weir_hit(struct side *side, const uint64_t *key, uint32_t n)
{
	struct hash_probe probe[BATCH_MAX];
	uint32_t wrong = 0;

	weir_find(side, key, n, probe);
	for (uint32_t i = 0; i < n; i++) {
		const struct record *record = (void *)hash_confirm(side->weir, &probe[i]);

		wrong += unlikely(record == NULL) || record->value != value_of(key[i]);
	}
	return wrong;
}

static uint32_t
weir_miss(struct side *side, const uint64_t *key, uint32_t n)
{
	struct hash_probe probe[BATCH_MAX];
	uint32_t wrong = 0, maybe = 0;

	weir_begin(side, key, n, probe);
	for (uint32_t i = 0; i < n; i++)
		if (unlikely(hash_find(side->weir, &probe[i])))
			probe[maybe++] = probe[i]; /* another key of this tag */
	for (uint32_t i = 0; i < maybe; i++)
		wrong += hash_confirm(side->weir, &probe[i]) != NULL;
	return wrong;
}

static uint32_t
weir_insert(struct side *side, const uint64_t *key, uint32_t n)
{
	struct hash_probe probe[BATCH_MAX];
	uint32_t wrong = 0;

	weir_begin(side, key, n, probe);
	for (uint32_t i = 0; i < n; i++) {
		struct hash_record *record;
		bool found = hash_find(side->weir, &probe[i]) &&
			hash_confirm(side->weir, &probe[i]) != NULL;

		if (unlikely(found || hash_insert(side->weir, &probe[i], &record) < 0))
			wrong++;
		else
			((struct record *)(void *)record)->value = value_of(key[i]);
	}
	return wrong;
}

static uint32_t
weir_remove(struct side *side, const uint64_t *key, uint32_t n)
{
	struct hash_probe probe[BATCH_MAX];
	uint32_t wrong = 0;

	weir_find(side, key, n, probe);
	for (uint32_t i = 0; i < n; i++) {
		struct hash_record *record = hash_peek(side->weir, &probe[i]);

		if (likely(record != NULL))
			hash_delete(side->weir, record);
		else
			wrong++;
	}
	return wrong;
}

static void
weir_touch(void *side, struct hash_record *record)
{
	((struct side *)side)->sum += ((struct record *)(void *)record)->value;
}

static uint32_t
weir_scan(struct side *side)
{
	return hash_scan(side->weir, 0, 1, weir_touch, side);
}

static const struct ops weir_ops = {
	"weir", {weir_hit, weir_miss, weir_insert, weir_remove}, weir_scan};

/*
 * DPDK's rte_hash at its best for one thread: no flags (no locks, no extendable buckets), CRC
 * computed inline, bulk lookups with the hashes given. The position that it returns for a key is the
 * number of the record: DPDK's own idiom, which needs neither a pointer beside the key nor a free
 * list, and lets the record be prefetched for the whole batch. Keys of 8 bytes are compared by its
 * memcmp: a function of our own (rte_hash_set_cmp_func) was no faster at hits and 4 % slower at
 * deletes.
 */
static inline hash_sig_t
signature(uint64_t key)
{
	return rte_hash_crc_8byte(key, UINT32_MAX);
}

/* The records' numbers of a batch, negative where a key is absent. */
static inline void
rte_find(const struct side *side, const uint64_t *key, uint32_t n, int32_t *position)
{
	hash_sig_t sig[BATCH_MAX];
	const void *keys[BATCH_MAX];

	for (uint32_t i = 0; i < n; i++) {
		keys[i] = &key[i];
		sig[i] = signature(key[i]);
	}
	rte_hash_lookup_with_hash_bulk(side->rte, keys, sig, n, position);
}

static uint32_t
rte_hit(struct side *side, const uint64_t *key, uint32_t n)
{
	int32_t position[BATCH_MAX];
	uint32_t wrong = 0;

	rte_find(side, key, n, position);
	for (uint32_t i = 0; i < n; i++)
		rte_prefetch0(&side->records[position[i]]);
	for (uint32_t i = 0; i < n; i++)
		wrong += unlikely(position[i] < 0) ||
			side->records[position[i]].value != value_of(key[i]);
	return wrong;
}

static uint32_t
rte_miss(struct side *side, const uint64_t *key, uint32_t n)
{
	int32_t position[BATCH_MAX];
	uint32_t wrong = 0;

	rte_find(side, key, n, position);
	for (uint32_t i = 0; i < n; i++)
		wrong += position[i] >= 0;
	return wrong;
}

/* rte_hash adds and deletes one by one. */
static uint32_t
rte_insert(struct side *side, const uint64_t *key, uint32_t n)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < n; i++) {
		int32_t position =
			rte_hash_add_key_with_hash(side->rte, &key[i], signature(key[i]));

		if (unlikely(position < 0))
			wrong++;
		else
			side->records[position].value = value_of(key[i]);
	}
	return wrong;
}

static uint32_t
rte_remove(struct side *side, const uint64_t *key, uint32_t n)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < n; i++)
		wrong += rte_hash_del_key_with_hash(side->rte, &key[i], signature(key[i])) < 0;
	return wrong;
}

static uint32_t
rte_scan(struct side *side)
{
	uint32_t next = 0, found = 0;
	const void *key;
	void *data;
	int32_t position;

	while ((position = rte_hash_iterate(side->rte, &key, &data, &next)) >= 0) {
		side->sum += side->records[position].value;
		found++;
	}
	return found;
}

static const struct ops rte_ops = {
	"rte_hash", {rte_hit, rte_miss, rte_insert, rte_remove}, rte_scan};

/* A bijection: keys of different indices differ. */
static uint64_t
key_of(uint64_t index)
{
	return bench_mix(index + UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t
random_below(struct side *side, uint64_t n)
{
	return (uint64_t)((unsigned __int128)bench_random(&side->random) * n >> 64);
}

static void
side_destroy(struct side *side)
{
	hash_destroy(side->weir);
	rte_hash_free(side->rte);
	rte_free(side->records);
	free(side->live);
}

static int
side_create(struct side *side, const struct ops *ops, uint32_t capacity)
{
	struct hash_config weir = {.name = "bench",
		.capacity = capacity,
		.record_size = sizeof(struct record),
		.socket = (int)rte_socket_id(),
		.seed = 1};
	const struct rte_hash_parameters rte = {.name = "bench",
		.entries = capacity,
		.key_len = sizeof(uint64_t),
		.hash_func = rte_hash_crc,
		.hash_func_init_val = UINT32_MAX,
		.socket_id = (int)rte_socket_id()};

	*side = (struct side){.ops = ops, .random = 1};
	side->live = malloc(sizeof(*side->live) * capacity);
	side->records = weir.records =
		rte_zmalloc("bench", hash_records_bytes(capacity, sizeof(struct record)), 64);
	if (side->records != NULL && ops == &weir_ops)
		side->weir = hash_create(&weir);
	else if (side->records != NULL)
		side->rte = rte_hash_create(&rte);
	if (side->live != NULL && (side->weir != NULL || side->rte != NULL))
		return 0;
	warnx("%s for %u records: %s", ops->name, capacity, rte_strerror(rte_errno));
	return -1;
}

/* Do n operations, `batch` keys in flight. */
static void
work(struct side *side, enum operation operation, const uint64_t *key, uint32_t n)
{
	bulk some = side->ops->bulk[operation];

	for (uint32_t at = 0; at < n; at += (uint32_t)batch)
		side->wrong += some(side, key + at, RTE_MIN((uint32_t)batch, n - at));
}

/* The keys of the next operations: random live ones, absent ones; random live ones, which go to the
 * tail of the list; new ones in the places of the tail. */
static void
choose(struct side *side, enum operation operation, uint32_t live, uint64_t *key, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t *last = &side->live[live - 1 - i], index;

		if (operation == MISS) {
			index = ABSENT + random_below(side, ABSENT);
		} else if (operation == INSERT) {
			index = side->live[live - n + i] = side->next++;
		} else {
			uint64_t *chosen =
				&side->live[random_below(side, operation == HIT ? live : live - i)];

			index = *chosen;
			if (operation == DELETE)
				RTE_SWAP(*last, *chosen);
		}
		key[i] = key_of(index);
	}
}

static double
elapsed_ns(uint64_t since)
{
	return (double)(rte_rdtsc_precise() - since) * 1e9 / (double)rte_get_tsc_hz();
}

/* Do n operations that are chosen before; returns ns. collect: callgrind collects them. */
static double
operate(struct side *side, enum operation operation, uint32_t live, uint32_t n, bool collect)
{
	uint64_t key[CHUNK], began;

	choose(side, operation, live, key, n);
	began = rte_rdtsc_precise();
	if (collect)
		BENCH_COLLECT_TOGGLE;
	work(side, operation, key, n);
	if (collect)
		BENCH_COLLECT_TOGGLE;
	return elapsed_ns(began);
}

/* Fill up to `live` records. */
static void
fill(struct side *side, uint32_t live)
{
	while (side->filled < live) {
		uint32_t n = RTE_MIN(CHUNK, live - side->filled);

		side->filled += n;
		operate(side, INSERT, side->filled, n, false);
	}
}

/* As many are deleted and inserted at a time. */
static uint32_t
churn_chunk(uint32_t live)
{
	return RTE_MIN(CHUNK, RTE_MAX(live / 4, 1u));
}

/* Weir's scan by REF where every record has been accessed since the last one; ns per record. */
static double
age(struct side *side, uint32_t live)
{
	uint64_t key, began;

	for (uint32_t at = 0; at < live; at++) {
		key = key_of(side->live[at]);
		work(side, HIT, &key, 1);
	}
	began = rte_rdtsc_precise();
	/* All were accessed: it hands out none. */
	side->wrong += hash_age_scan(side->weir, 0, 1, weir_touch, side);
	return elapsed_ns(began) / live;
}

/* ns per operation. Hits and misses have phase_ms each; deletes and inserts take turns in it. */
static void
measure(struct side *side, uint32_t live, double ns[OPERATIONS])
{
	double phase = (double)bench_common.phase_ms * 1e6, sum;
	uint64_t began, done;

	memset(ns, 0, sizeof(*ns) * OPERATIONS);
	for (enum operation first = HIT, last; first < DELETE; first++) {
		uint32_t n = first == INSERT ? churn_chunk(live) : CHUNK;

		last = first == INSERT ? DELETE : first;
		for (sum = 0, done = 0; sum < phase; done += n)
			for (unsigned int o = last + 1u;
				o-- > first;) { /* deletes before inserts */
				double took = operate(side, (enum operation)o, live, n, false);

				ns[o] += took;
				sum += took;
			}
		for (enum operation o = first; o <= last; o++)
			ns[o] /= (double)done;
	}
	began = rte_rdtsc_precise();
	for (done = 0; done == 0 || elapsed_ns(began) < 1e6; done += live)
		side->wrong += side->ops->scan(side) != live;
	ns[SCAN] = elapsed_ns(began) / (double)done;
	ns[AGE] = side->ops == &weir_ops ? age(side, live) : BENCH_NONE;
}

/* bench.h: kind, value, key, title, unit, width, digits */
#define COLUMNS(X)                                                                                 \
	X(NUMBER, capacity, "records", "records", NULL, 8, 0)                                      \
	X(NUMBER, load, "load", "load", "%", 0, 0)                                                 \
	X(TEXT, operation_name[o], "op", "op", NULL, -1, 0)                                        \
	X(NUMBER, own, "ns", "weir", "ns", 7, 1)                                                   \
	X(NUMBER, 1e3 / own, "mops", "weir", "Mops/s", 7, 1)                                       \
	X(NUMBER, 1e3 / other, "mops_rte", "rte_hash", "Mops/s", 0, 1)                             \
	X(NUMBER, other, "ns_rte", "rte_hash", "ns", 0, 1)                                         \
	X(NUMBER, other / own, "ratio", "speed-up", "x", 0, 2)                                     \
	X(NUMBER, batch, "batch", NULL, NULL, 0, 0)
static const struct table_column columns[] = {COLUMNS(BENCH_COLUMN)};

/* A point: tables for so many records, a share of them live. */
static void
compare(struct side side[2], uint32_t capacity, uint32_t load, uint32_t live)
{
	static double ns[2][BENCH_REPEAT_MAX][OPERATIONS];
	uint64_t n = bench_common.repeat;

	if (bench_spoils())
		((struct record *)(void *)hash_lookup(side[0].weir, key_of(side[0].live[0])))
			->value++;
	for (uint64_t r = 0; r < 2 * n; r++) {
		unsigned int s = (r + r / 2) % 2; /* they take turns in being first */

		measure(&side[s], live, ns[s][r / 2]);
	}
	for (enum operation o = 0; o < OPERATIONS; o++) {
		double weir[BENCH_REPEAT_MAX], ratio[BENCH_REPEAT_MAX], own, other;

		for (uint64_t r = 0; r < n; r++) {
			weir[r] = ns[0][r][o];
			ratio[r] = ns[1][r][o] / ns[0][r][o];
		}
		own = bench_median(weir, n);
		other = own * bench_median(ratio, n);
		bench_row((struct table_cell[]){COLUMNS(BENCH_CELL)});
	}
}

/* Callgrind collects operations of Weir's table. */
static void
collect(struct side *side, uint32_t live)
{
	enum operation chosen = HIT;
	uint32_t n;

	while (strcmp(only, operation_name[chosen]) != 0)
		chosen++;
	for (uint64_t left = operations; left > 0; left -= n) {
		n = (uint32_t)RTE_MIN(left, (uint64_t)churn_chunk(live));
		if (chosen == INSERT)
			operate(side, DELETE, live, n, false);
		operate(side, chosen, live, n, true);
		if (chosen == DELETE)
			operate(side, INSERT, live, n, false);
	}
	printf("counted %" PRIu64 " operations\n", operations);
}

/* One load of tables for so many records. 0, or 1 when an answer was wrong. */
static int
run_point(struct side side[2], uint32_t capacity, uint32_t load)
{
	uint32_t live = (uint32_t)((uint64_t)capacity * load / 100);

	for (unsigned int s = 0; s < 2; s++)
		fill(&side[s], live);
	if (operations > 0)
		collect(&side[0], live);
	else
		compare(side, capacity, load, live);
	for (unsigned int s = 0; s < 2; s++)
		if (side[s].wrong > 0)
			warnx("%s gave %" PRIu64 " wrong answers", side[s].ops->name,
				side[s].wrong);
	return side[0].wrong + side[1].wrong > 0;
}

/* All loads, the lower ones first: the tables only fill. */
static int
run_tables(uint32_t capacity)
{
	struct side side[2] = {{0}};
	int rc = side_create(&side[0], &weir_ops, capacity) < 0 ||
			side_create(&side[1], &rte_ops, capacity) < 0
		? 2
		: 0;

	for (uint32_t load = 1; load < 100 && rc == 0; load++)
		for (unsigned int i = 0; i < loads.count && rc == 0; i++)
			if (loads.value[i] == load)
				rc = run_point(side, capacity, load);
	side_destroy(&side[0]);
	side_destroy(&side[1]);
	return rc;
}

static int
run(void)
{
	uint64_t most = 0;
	int rc = 0;

	if (operations > 0 && !BENCH_CAN_COLLECT) {
		warnx("built without valgrind's header");
		return STATUS_USAGE;
	}
	if (operations > 0)
		records.count = loads.count = 1;
	for (unsigned int i = 0; i < records.count; i++)
		most = RTE_MAX(most, records.value[i]);
	if (bench_start_eal(0, (unsigned int)(most * HEAP_PER_PLACE >> 20) + HEAP_MORE) < 0)
		return STATUS_USAGE;
	bench_note("random 64-bit keys, %d-byte records, %" PRIu64 " in flight, %s pages",
		RECORD_SIZE, batch, bench_on_huge_pages ? "huge" : "small");
	bench_note("load: live records of all that the tables are made for; scan: visit all; age: "
		   "scan by REF, all in use");
	bench_table(columns, RTE_DIM(columns));
	for (unsigned int i = 0; i < records.count && rc == 0; i++)
		rc = run_tables((uint32_t)records.value[i]);
	bench_stop_eal();
	return rc;
}

const struct bench bench_hash = {
	.name = "hash",
	.help = "lookups, inserts, deletes and scans beside DPDK's rte_hash",
	.options = options,
	.run = run,
};
