/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/hash_side.h"

#include <stdlib.h>

#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_errno.h>

#include "apps/bench/bench.h"
#include "apps/bench/collect.h"
#include "apps/bench/hash_heap.h"

#define CHUNK  2048u /* keys of one clock reading */
#define ABSENT (UINT64_C(1) << 40) /* indices from here on are never inserted */

static uint64_t
mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A bijection: keys of different indices differ. */
static uint64_t
key_of(const struct bench_hash_side *side, uint64_t index)
{
	return mixed(index + side->seed * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t
random_below(struct bench_hash_side *side, uint64_t n)
{
	side->random += UINT64_C(0x9e3779b97f4a7c15);
	return (uint64_t)((unsigned __int128)mixed(side->random) * n >> 64);
}

int
bench_hash_side_create(struct bench_hash_side *side, const struct bench_hash_ops *ops,
	uint32_t capacity, int socket, uint64_t seed, uint32_t batch)
{
	size_t before = bench_hash_heap_used(socket);

	*side = (struct bench_hash_side){.ops = ops, .seed = seed, .random = seed, .batch = batch};
	side->live = malloc(sizeof(*side->live) * capacity);
	side->table = side->live == NULL ? NULL : ops->create(capacity, socket);
	if (side->table == NULL) {
		fprintf(stderr, "weir-bench: %s for %u records: %s\n", ops->name, capacity,
			rte_strerror(rte_errno));
		free(side->live);
		return -1;
	}
	side->bytes =
		bench_hash_heap_used(socket) - before - (size_t)capacity * BENCH_HASH_RECORD_SIZE;
	if (ops == &bench_hash_weir) /* its keys are in the records' heads */
		side->bytes += (size_t)capacity * 16;
	return 0;
}

void
bench_hash_side_destroy(struct bench_hash_side *side)
{
	side->ops->destroy(side->table);
	free(side->live);
}

void
bench_hash_side_fill(struct bench_hash_side *side, uint32_t live)
{
	while (side->filled < live) {
		uint64_t key[CHUNK];
		uint32_t n = 0;

		for (; n < CHUNK && side->filled < live; n++) {
			key[n] = key_of(side, side->next);
			side->live[side->filled++] = side->next++;
		}
		side->wrong += side->ops->insert(side->table, key, n, side->batch);
	}
}

static double
elapsed_ns(uint64_t since)
{
	return (double)(rte_rdtsc_precise() - since) * 1e9 / (double)rte_get_tsc_hz();
}

/* Keys to look up. */
static void
choose_keys(struct bench_hash_side *side, bool hit, uint32_t live, uint64_t *key, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		key[i] = hit ? key_of(side, side->live[random_below(side, live)])
			     : key_of(side, ABSENT + random_below(side, ABSENT));
}

/* Keys to delete: random live ones, which go to the tail of the list. */
static void
choose_victims(struct bench_hash_side *side, uint32_t live, uint64_t *key, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t *last = &side->live[live - 1 - i];
		uint64_t *chosen = &side->live[random_below(side, live - i)];

		RTE_SWAP(*last, *chosen);
		key[i] = key_of(side, *last);
	}
}

/* New keys in the places of the tail. */
static void
make_keys(struct bench_hash_side *side, uint32_t live, uint64_t *key, uint32_t n)
{
	uint64_t *tail = side->live + live - n;

	for (uint32_t i = 0; i < n; i++) {
		tail[i] = side->next++;
		key[i] = key_of(side, tail[i]);
	}
}

double
bench_hash_side_lookup(struct bench_hash_side *side, bool hit, uint32_t live)
{
	double ns = 0;
	uint64_t done = 0;

	while (ns < (double)bench_common.phase_ms * 1e6) {
		uint64_t key[CHUNK], start;

		choose_keys(side, hit, live, key, CHUNK);
		start = rte_rdtsc_precise();
		side->wrong += (hit ? side->ops->hit : side->ops->miss)(
			side->table, key, CHUNK, side->batch);
		ns += elapsed_ns(start);
		done += CHUNK;
	}
	return ns / (double)done;
}

/* Random records go and as many new ones come, by chunks, so that the load stays. */
void
bench_hash_side_churn(
	struct bench_hash_side *side, uint32_t live, double *ns_insert, double *ns_delete)
{
	uint32_t n = RTE_MIN(CHUNK, RTE_MAX(live / 4, 1u));
	double insert = 0, removal = 0;
	uint64_t done = 0;

	while (insert + removal < (double)bench_common.phase_ms * 1e6) {
		uint64_t key[CHUNK], start;

		choose_victims(side, live, key, n);
		start = rte_rdtsc_precise();
		side->wrong += side->ops->remove(side->table, key, n, side->batch);
		removal += elapsed_ns(start);

		make_keys(side, live, key, n);
		start = rte_rdtsc_precise();
		side->wrong += side->ops->insert(side->table, key, n, side->batch);
		insert += elapsed_ns(start);
		done += n;
	}
	*ns_insert = insert / (double)done;
	*ns_delete = removal / (double)done;
}

typedef uint32_t (*hash_operation)(
	struct bench_hash *table, const uint64_t *key, uint32_t n, uint32_t batch);

static void
collect(struct bench_hash_side *side, hash_operation run, bool wanted, const uint64_t *key,
	uint32_t n)
{
	uint32_t wrong;

	if (wanted)
		BENCH_COLLECT_TOGGLE;
	wrong = run(side->table, key, n, side->batch);
	if (wanted)
		BENCH_COLLECT_TOGGLE;
	side->wrong += wrong;
}

void
bench_hash_side_collect(struct bench_hash_side *side, enum bench_hash_operation operation,
	uint32_t live, uint64_t operations)
{
	const struct bench_hash_ops *ops = side->ops;
	uint32_t most = RTE_MIN(CHUNK, RTE_MAX(live / 4, 1u));
	uint64_t key[CHUNK];

	while (operations > 0) {
		uint32_t n = (uint32_t)RTE_MIN(operations, (uint64_t)most);

		if (operation == BENCH_HASH_HIT || operation == BENCH_HASH_MISS) {
			bool hit = operation == BENCH_HASH_HIT;

			choose_keys(side, hit, live, key, n);
			collect(side, hit ? ops->hit : ops->miss, true, key, n);
		} else {
			choose_victims(side, live, key, n);
			collect(side, ops->remove, operation == BENCH_HASH_DELETE, key, n);
			make_keys(side, live, key, n);
			collect(side, ops->insert, operation == BENCH_HASH_INSERT, key, n);
		}
		operations -= n;
	}
}

double
bench_hash_side_scan(struct bench_hash_side *side, uint32_t live)
{
	uint64_t start = rte_rdtsc_precise(), done = 0;
	double ns;

	do {
		uint32_t found = side->ops->scan(side->table);

		side->wrong += found != live;
		done += live;
		ns = elapsed_ns(start);
	} while (ns < 1e6);
	return ns / (double)done;
}

double
bench_hash_side_age(struct bench_hash_side *side, uint32_t live)
{
	uint64_t start;
	double ns;

	for (uint32_t at = 0; at < live;) {
		uint64_t key[CHUNK];
		uint32_t n = 0;

		while (n < CHUNK && at < live)
			key[n++] = key_of(side, side->live[at++]);
		side->wrong += side->ops->hit(side->table, key, n, side->batch);
	}
	start = rte_rdtsc_precise();
	side->wrong += bench_hash_age(side->table); /* all were accessed: it hands out none */
	ns = elapsed_ns(start);
	return ns / live;
}

void
bench_hash_side_spoil(struct bench_hash_side *side)
{
	side->ops->spoil(side->table, key_of(side, side->live[0]));
}
