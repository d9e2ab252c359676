/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of records, beside a plain array that is searched whole. */
#include <errno.h>

#include <criterion/criterion.h>
#include <rte_errno.h>

#include "hashengine/deadline_fast.h"
#include "hashengine/hash.h"
#include "tests/random.h"

/* What a scan must find, and what it is told then. */
struct world {
	uint64_t *at; /* the model */
	uint32_t capacity, from, end;
	uint64_t now, random;
	unsigned int given;
};

/* Some are put off, some are over, some stay due. */
static uint64_t
take(void *arg, uint32_t record)
{
	struct world *w = arg;
	uint64_t r = random_bits(&w->random);

	cr_assert(record >= w->from && record < w->end, "%u is not of [%u, %u)", record, w->from,
		w->end);
	cr_assert_leq(w->at[record], w->now, "%u is not due", record);
	w->given++;
	w->at[record] = r % 3 == 0 ? HASH_NEVER : r % 3 == 1 ? w->now + 1 + r % 5000 : w->now;
	return w->at[record];
}

static unsigned int
due(const struct world *w)
{
	unsigned int n = 0;

	for (uint32_t i = w->from; i < w->end; i++)
		n += w->at[i] <= w->now;
	return n;
}

static uint64_t
earliest(const struct world *w)
{
	uint64_t low = HASH_NEVER;

	for (uint32_t i = 0; i < w->capacity; i++)
		low = w->at[i] < low ? w->at[i] : low;
	return low;
}

/* Scan a range, in steps of a random size: all that is due is handed out once, nothing else. */
static void
scan(struct world *w, struct hash_deadlines *deadlines)
{
	uint32_t most = 1 + (uint32_t)(random_bits(&w->random) % 40), from = w->from;
	unsigned int wanted = due(w), steps = 0;

	w->given = 0;
	while (from < w->end) {
		unsigned int before = w->given;

		from = hash_deadline_scan(deadlines, from, w->end, w->now, most, take, w);
		cr_assert_leq(w->given - before, most);
		cr_assert_lt(steps++, 3 * w->capacity + 10, "it does not get on");
	}
	cr_assert_eq(from, w->end);
	cr_assert_eq(w->given, wanted, "%u given, %u due", w->given, wanted);
}

static void
play(uint32_t capacity, unsigned int turns, uint64_t random)
{
	struct hash_deadlines *deadlines = hash_deadlines_create(capacity, -1);
	struct world w = {.at = malloc(capacity * sizeof(*w.at)),
		.capacity = capacity,
		.now = 1000,
		.random = random};

	cr_assert_not_null(deadlines);
	for (uint32_t i = 0; i < capacity; i++)
		w.at[i] = HASH_NEVER;
	cr_assert_eq(hash_deadline_earliest(deadlines), HASH_NEVER);
	for (unsigned int turn = 0; turn < turns; turn++) {
		for (unsigned int n = random_bits(&w.random) % 50; n > 0; n--) {
			uint32_t record = (uint32_t)(random_bits(&w.random) % capacity);
			uint64_t r = random_bits(&w.random);

			w.at[record] = r % 9 == 0 ? HASH_NEVER : w.now + r % 3000;
			hash_deadline_set(deadlines, record, w.at[record]);
		}
		w.now += random_bits(&w.random) % 500;
		w.from = (uint32_t)(random_bits(&w.random) % capacity);
		w.end = w.from + 1 + (uint32_t)(random_bits(&w.random) % (capacity - w.from));
		if (turn % 4 == 0)
			w.from = 0, w.end = capacity;
		cr_assert_leq(hash_deadline_earliest(deadlines), earliest(&w));
		scan(&w, deadlines);
		cr_assert_leq(hash_deadline_earliest(deadlines), earliest(&w));
	}
	/* A scan of all leaves the bounds right, not only early enough. */
	w.from = 0;
	w.end = capacity;
	w.now += 10000;
	for (unsigned int i = 0; i < 64 && due(&w) > 0; i++, w.now++)
		scan(&w, deadlines);
	cr_assert_eq(hash_deadline_earliest(deadlines), earliest(&w));
	hash_deadlines_destroy(deadlines);
	free(w.at);
}

Test(hash_deadline, does_as_the_model, .timeout = 90)
{
	const uint32_t capacities[] = {1, 2, 63, 64, 65, 127, 1000, 4095, 4096, 4097, 20000};
	uint64_t random = random_seed();

	for (unsigned int i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++)
		play(capacities[i], capacities[i] > 4000 ? 300 : 2000, random + i);
}

static uint64_t
never(void *arg, uint32_t record)
{
	(void)record;
	++*(unsigned int *)arg;
	return HASH_NEVER;
}

Test(hash_deadline, ranges_beyond_the_table_are_cut, .timeout = 90)
{
	struct hash_deadlines *deadlines = hash_deadlines_create(100, -1);
	unsigned int given = 0;

	hash_deadline_set(deadlines, 99, 5);
	cr_assert_eq(hash_deadline_scan(deadlines, 0, 5000, 4, 1, never, &given), 100);
	cr_assert_eq(hash_deadline_scan(deadlines, 100, 5000, 9, 1, never, &given), 100);
	cr_assert_eq(given, 0);
	cr_assert_eq(hash_deadline_scan(deadlines, 0, 5000, 5, 10, never, &given), 100);
	cr_assert_eq(given, 1);
	hash_deadlines_destroy(deadlines);
}

Test(hash_deadline, wrong_capacities_are_refused, .timeout = 90)
{
	cr_assert_null(hash_deadlines_create(0, -1));
	cr_assert_eq(rte_errno, EINVAL);
	cr_assert_null(hash_deadlines_create(HASH_CAPACITY_MAX + 1, -1));
	cr_assert_eq(rte_errno, EINVAL);
	hash_deadlines_destroy(NULL);
}
