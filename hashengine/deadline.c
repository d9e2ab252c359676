/* SPDX-License-Identifier: BSD-3-Clause */
#include "hashengine/deadline.h"

#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include "hashengine/deadline_fast.h"
#include "hashengine/hash.h"

#define CHILDREN (UINT32_C(1) << HASH_DEADLINE_SHIFT)

static uint32_t
nodes(uint32_t children)
{
	return (children + CHILDREN - 1) / CHILDREN;
}

/* Whole nodes on each level, so that the last one needs no special case. */
size_t
hash_deadlines_bytes(uint32_t capacity)
{
	size_t tops = nodes(nodes(capacity)), groups = tops * CHILDREN;

	return RTE_ALIGN_CEIL(sizeof(struct hash_deadlines), 64) +
		RTE_ALIGN_CEIL((tops + groups + groups * CHILDREN) * sizeof(uint64_t), 64);
}

struct hash_deadlines *
hash_deadlines_create(uint32_t capacity, int socket)
{
	size_t bytes = hash_deadlines_bytes(capacity);
	struct hash_deadlines *deadlines;
	int dpdk_heap = 1;
	size_t head = RTE_ALIGN_CEIL(sizeof(*deadlines), 64), groups;

	if (capacity == 0 || capacity > HASH_CAPACITY_MAX) {
		rte_errno = EINVAL;
		return NULL;
	}
	deadlines = rte_malloc_socket("hashengine", bytes, 64, socket);
	if (deadlines == NULL) {
		deadlines = aligned_alloc(64, bytes);
		dpdk_heap = 0;
	}
	if (deadlines == NULL) {
		rte_errno = ENOMEM;
		return NULL;
	}
	memset(deadlines, 0xff, bytes); /* never */
	deadlines->nb_tops = nodes(nodes(capacity));
	groups = (size_t)deadlines->nb_tops * CHILDREN;
	deadlines->record = (uint64_t *)RTE_PTR_ADD(deadlines, head);
	deadlines->group = deadlines->record + groups * CHILDREN;
	deadlines->top = deadlines->group + groups;
	deadlines->capacity = capacity;
	deadlines->dpdk_heap = dpdk_heap;
	return deadlines;
}

void
hash_deadlines_destroy(struct hash_deadlines *deadlines)
{
	if (deadlines == NULL)
		return;
	if (deadlines->dpdk_heap)
		rte_free(deadlines);
	else
		free(deadlines);
}

static uint64_t
least(const uint64_t *values, uint32_t n)
{
	uint64_t low = HASH_NEVER;

	for (uint32_t i = 0; i < n; i++)
		low = RTE_MIN(low, values[i]);
	return low;
}

uint64_t
hash_deadline_earliest(const struct hash_deadlines *deadlines)
{
	return least(deadlines->top, deadlines->nb_tops);
}

struct scan {
	struct hash_deadlines *deadlines;
	uint64_t now;
	int64_t left; /* steps; a node counts when it is left, so that each scan makes progress */
	hash_deadline_fn fn;
	void *arg;
};

/* Records [from, end) of one group. */
static uint32_t
scan_group(struct scan *scan, uint32_t from, uint32_t end)
{
	uint64_t *record = scan->deadlines->record;
	uint32_t group = from >> HASH_DEADLINE_SHIFT;

	for (; from < end && scan->left > 0; from++) {
		if (likely(record[from] > scan->now))
			continue;
		record[from] = scan->fn(scan->arg, from);
		scan->left--;
	}
	/* The bound may be early, never late. */
	scan->deadlines->group[group] = least(&record[group << HASH_DEADLINE_SHIFT], CHILDREN);
	return from;
}

/* Records [from, end) under one top. */
static uint32_t
scan_top(struct scan *scan, uint32_t from, uint32_t end)
{
	const uint64_t *group = scan->deadlines->group;
	uint32_t top = from >> 2 * HASH_DEADLINE_SHIFT;

	while (from < end && scan->left > 0) {
		uint32_t next = ((from >> HASH_DEADLINE_SHIFT) + 1) << HASH_DEADLINE_SHIFT;

		next = RTE_MIN(next, end);
		if (likely(group[from >> HASH_DEADLINE_SHIFT] > scan->now)) {
			from = next;
			continue;
		}
		from = scan_group(scan, from, next);
		scan->left--;
	}
	scan->deadlines->top[top] = least(&group[top << HASH_DEADLINE_SHIFT], CHILDREN);
	return from;
}

uint32_t
hash_deadline_scan(struct hash_deadlines *deadlines, uint32_t from, uint32_t end, uint64_t now,
	uint32_t most, hash_deadline_fn fn, void *arg)
{
	struct scan scan = {deadlines, now, most, fn, arg};

	end = RTE_MIN(end, deadlines->capacity);
	while (from < end && scan.left > 0) {
		uint32_t next = ((from >> 2 * HASH_DEADLINE_SHIFT) + 1) << 2 * HASH_DEADLINE_SHIFT;

		next = RTE_MIN(next, end);
		if (likely(deadlines->top[from >> 2 * HASH_DEADLINE_SHIFT] > now)) {
			from = next;
			continue;
		}
		from = scan_top(&scan, from, next);
		scan.left--;
	}
	return from;
}
