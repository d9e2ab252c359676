/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the two tables under measurement, and what is live in it. */
#ifndef APPS_BENCH_HASH_SIDE_H
#define APPS_BENCH_HASH_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/bench/hash_tables.h"

struct bench_hash_side {
	const struct bench_hash_ops *ops;
	struct bench_hash *table;
	uint64_t *live; /* indices of the live keys, in the order that churn has left */
	uint32_t filled; /* entries of it */
	uint64_t next; /* index of the next new key */
	uint64_t seed, random;
	uint32_t batch;
	size_t bytes; /* of the table, keys included, records' other fields not */
	uint64_t wrong; /* answers */
};

/* An empty table. seed, batch: of all that is done with it. 0, or a line on standard error and
 * -1. */
int bench_hash_side_create(struct bench_hash_side *side, const struct bench_hash_ops *ops,
	uint32_t capacity, int socket, uint64_t seed, uint32_t batch);
void bench_hash_side_destroy(struct bench_hash_side *side);

/* Fill up to `live` records. */
void bench_hash_side_fill(struct bench_hash_side *side, uint32_t live);

/* These measure for phase_ms, and return ns per operation. */
double bench_hash_side_lookup(struct bench_hash_side *side, bool hit, uint32_t live);
void bench_hash_side_churn(
	struct bench_hash_side *side, uint32_t live, double *ns_insert, double *ns_delete);

enum bench_hash_operation { BENCH_HASH_HIT, BENCH_HASH_MISS, BENCH_HASH_INSERT, BENCH_HASH_DELETE };

/* Callgrind collects so many operations, and nothing else (collect.h). */
void bench_hash_side_collect(struct bench_hash_side *side, enum bench_hash_operation operation,
	uint32_t live, uint64_t operations);

/* Visit all live records, for a millisecond at least; ns per record. */
double bench_hash_side_scan(struct bench_hash_side *side, uint32_t live);

/* Weir's scan by REF where every record has been accessed since the last one; ns per record. */
double bench_hash_side_age(struct bench_hash_side *side, uint32_t live);

/* Damage a live record. */
void bench_hash_side_spoil(struct bench_hash_side *side);

#endif
