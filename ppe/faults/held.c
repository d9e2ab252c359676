/* SPDX-License-Identifier: BSD-3-Clause */
/* The packets that a worker holds, by the time at which they are due. */
#include "ppe/faults/faults_priv.h"

static bool
before(const struct ppe_held *a, const struct ppe_held *b)
{
	return a->due != b->due ? a->due < b->due : a->serial < b->serial;
}

/* Put `held` at `at` or below, past the children that are due before it. */
static void
sift_down(struct ppe_fault_store *store, uint32_t at, struct ppe_held held)
{
	for (uint32_t child = 2 * at + 1; child < store->used; child = 2 * at + 1) {
		if (child + 1 < store->used && before(&store->heap[child + 1], &store->heap[child]))
			child++;
		if (!before(&store->heap[child], &held))
			break;
		store->heap[at] = store->heap[child];
		at = child;
	}
	store->heap[at] = held;
}

void
ppe_held_push(struct ppe_fault_store *store, struct ppe_held held)
{
	uint32_t at = store->used++;

	while (at > 0 && before(&held, &store->heap[(at - 1) / 2])) {
		store->heap[at] = store->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	store->heap[at] = held;
}

struct ppe_held
ppe_held_pop(struct ppe_fault_store *store)
{
	struct ppe_held top = store->heap[0];

	store->used--;
	if (store->used > 0)
		sift_down(store, 0, store->heap[store->used]);
	return top;
}

void
ppe_held_all_due(struct ppe_fault_store *store)
{
	while (store->waiting > 0)
		store->heap[store->used++] = store->behind[--store->waiting].held;
	for (uint32_t i = 0; i < store->used; i++)
		store->heap[i].due = 0;
	/* Equal times: their order is that in which they were held. */
	for (uint32_t i = store->used / 2; i-- > 0;)
		sift_down(store, i, store->heap[i]);
}
