/* SPDX-License-Identifier: BSD-3-Clause */
/* DataMemory: layout, order of reuse, quotas, holds, faults, and random runs against a model. */
#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <rte_common.h>
#include <rte_errno.h>

#include "rmw/memory_fast.h"
#include "tests/random.h"

/* As if devices had the memory at another place. */
#define ELSEWHERE UINT64_C(0x123400000)

static uint64_t
elsewhere(const void *address)
{
	return (uintptr_t)address + ELSEWHERE;
}

static struct rmw_pool *
paged_pool_of(uint32_t bytes, uint32_t count, uint32_t page, size_t alignment, size_t offset)
{
	struct rmw_pool_config config = {
		.shard = 7,
		.bytes = bytes,
		.count = count,
		.length = rmw_pool_bytes(bytes, count, page),
		.page = page,
		.iova_of = elsewhere,
	};

	config.memory = aligned_alloc(alignment, RTE_ALIGN_CEIL(config.length + offset, alignment));
	cr_assert_not_null(config.memory);
	config.memory = (uint8_t *)config.memory + offset;
	memset(config.memory, 0xa5, config.length); /* any content is fine */
	return rmw_pool_create(&config);
}

static struct rmw_pool *
pool_of(uint32_t bytes, uint32_t count)
{
	return paged_pool_of(bytes, count, 0, 64, 0);
}

static void
pool_free(struct rmw_pool *pool)
{
	rmw_pool_destroy(pool);
	free(pool); /* it lies at the beginning of its memory */
}

static struct rmw_buffer *
take(struct rmw_pool *pool, struct rmw_quota *quota)
{
	int error = 12345;
	struct rmw_buffer *buffer = rmw_alloc(pool, quota, &error);

	cr_assert_not_null(buffer, "error %d", error);
	cr_assert_eq(error, 12345);
	return buffer;
}

static void
cannot_take(struct rmw_pool *pool, struct rmw_quota *quota, int why)
{
	struct rmw_quota before = *quota;
	int error = 0;

	cr_assert_null(rmw_alloc(pool, quota, &error));
	cr_assert_eq(error, why);
	cr_assert_eq(memcmp(quota, &before, sizeof(before)), 0);
}

Test(rmw_memory, layout, .timeout = 90)
{
	static const uint32_t sizes[] = {1, 63, 64, 65, 4096, 4128};

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct rmw_pool *pool = pool_of(sizes[s], 5);
		struct rmw_quota quota = {0};
		uint8_t *end = (uint8_t *)pool;

		cr_assert_eq(rmw_pool_buffer_bytes(pool), sizes[s]);
		cr_assert_eq(rmw_pool_count(pool), 5);
		cr_assert_eq(rmw_pool_reserve(pool, &quota, 5), 0);
		for (unsigned int i = 0; i < 5; i++) {
			struct rmw_buffer *b = take(pool, &quota);
			uint8_t *data = rmw_buffer_data(b);

			cr_assert_eq((uintptr_t)data % 64, 0);
			cr_assert(data > end, "in the order of addresses, apart");
			end = data + sizes[s];
			cr_assert(end <= (uint8_t *)pool + rmw_pool_bytes(sizes[s], 5, 0));
			cr_assert_eq(b->iova, (uintptr_t)data + ELSEWHERE);
			cr_assert(b->bytes == sizes[s] && b->shard == 7 && b->holds == 0);
			cr_assert(b->job == 0 && b->user == NULL);
			memset(data, 0xff, sizes[s]);
		}
		cannot_take(pool, &quota, -EDQUOT);
		cr_assert_eq(rmw_pool_faults(pool), 0);
		pool_free(pool);
	}
}

/* Wherever the memory begins: no payload across pages, none over another, all of them there. */
Test(rmw_memory, payloads_within_pages, .timeout = 90)
{
	static const uint32_t sizes[] = {1, 100, 1000, 1984};

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (size_t offset = 0; offset < 4096; offset += 64) {
			struct rmw_pool *pool = paged_pool_of(sizes[s], 50, 4096, 4096, offset);
			size_t length = rmw_pool_bytes(sizes[s], 50, 4096);
			struct rmw_quota quota = {.limit = 50};
			uint8_t *end = (uint8_t *)pool + 128;

			for (unsigned int i = 0; i < 50; i++) {
				struct rmw_buffer *b = take(pool, &quota);
				uint8_t *data = rmw_buffer_data(b);

				cr_assert((uint8_t *)b >= end);
				end = data + sizes[s];
				cr_assert_eq((uintptr_t)data / 4096, (uintptr_t)(end - 1) / 4096);
				cr_assert_eq(b->iova, (uintptr_t)data + ELSEWHERE);
			}
			cr_assert(end <= (uint8_t *)pool + length);
			cannot_take(pool, &quota, -EDQUOT);
			free((uint8_t *)pool - offset);
		}
	}
}

Test(rmw_memory, refuses_wrong_configurations, .timeout = 90)
{
	static _Alignas(64) uint8_t memory[4096];
	const struct rmw_pool_config right = {
		.bytes = 100, .count = 10, .memory = memory, .length = 128 + 10 * 192};
	struct rmw_pool_config wrong[10];

	cr_assert_eq(rmw_pool_bytes(100, 10, 0), right.length);
	cr_assert_not_null(rmw_pool_create(&right));
	for (size_t i = 0; i < 10; i++)
		wrong[i] = right;
	wrong[0].bytes = 0;
	wrong[1].bytes = RMW_BUFFER_BYTES_MAX + 1;
	wrong[2].count = 0;
	wrong[3].count = RMW_POOL_COUNT_MAX + 1;
	wrong[4].memory = NULL;
	wrong[5].memory = memory + 32;
	wrong[6].length--;
	wrong[7].bytes = 129;
	wrong[8].page = 256; /* a buffer's place takes 192 */
	wrong[9].page = 1000;
	for (size_t i = 0; i < 10; i++) {
		rte_errno = 0;
		cr_assert_null(rmw_pool_create(&wrong[i]), "case %zu", i);
		cr_assert_eq(rte_errno, EINVAL);
	}
	rmw_pool_destroy(NULL);
	cr_assert_eq(rmw_pool_used(NULL), 0);
	cr_assert_eq(rmw_pool_faults(NULL), 0);
}

Test(rmw_memory, without_devices, .timeout = 90)
{
	static _Alignas(64) uint8_t memory[4096];
	const struct rmw_pool_config config = {
		.bytes = 100, .count = 3, .memory = memory, .length = sizeof(memory)};
	struct rmw_pool *pool = rmw_pool_create(&config);
	struct rmw_quota quota = {.limit = 3};

	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(take(pool, &quota)->iova, RTE_BAD_IOVA);
}

/* Limits that were not reserved can exceed the pool: another error. */
Test(rmw_memory, empty_pool, .timeout = 90)
{
	struct rmw_pool *pool = pool_of(64, 2);
	struct rmw_quota quota = {.limit = 3};

	take(pool, &quota);
	take(pool, &quota);
	cannot_take(pool, &quota, -ENOMEM);
	quota.limit = 2;
	cannot_take(pool, &quota, -EDQUOT);
	pool_free(pool);
}

Test(rmw_memory, faults_change_nothing, .timeout = 90)
{
	struct rmw_pool *pool = pool_of(64, 3);
	struct rmw_quota quota = {.limit = 3};
	struct rmw_buffer *a = take(pool, &quota), *b = take(pool, &quota);

	rmw_release(a);
	rmw_release(a);
	rmw_hold(a, 1);
	rmw_unhold(a, 1);
	rmw_unhold(a, 0);
	cr_assert_eq(rmw_pool_faults(pool), 4);
	rmw_hold(b, 2);
	rmw_unhold(b, 3);
	cr_assert(rmw_pool_faults(pool) == 5 && b->holds == 2);
	rmw_release(b);
	rmw_release(b);
	cr_assert(rmw_pool_faults(pool) == 6 && b->holds == 2 && quota.used == 1);
	rmw_unhold(b, 2);
	rmw_unhold(b, 1);
	cr_assert(rmw_pool_faults(pool) == 7 && quota.used == 0 && rmw_pool_used(pool) == 0);
	/* each buffer is in the list once */
	cr_assert_eq(take(pool, &quota), b);
	cr_assert_eq(take(pool, &quota), a);
	cr_assert_neq(take(pool, &quota), a);
	cannot_take(pool, &quota, -EDQUOT);
	pool_free(pool);
}

/* The model: what is free as an array in order of reuse, and a line of facts for each buffer. */
#define QUOTAS    3
#define COUNT_MAX 40
#define HELD_MAX  3

struct model {
	struct rmw_buffer *free[COUNT_MAX]; /* the last one is taken next */
	unsigned int nb_free;
	struct {
		struct rmw_buffer *buffer;
		unsigned int quota, holds, released;
		uint8_t mark;
	} used[COUNT_MAX];
	unsigned int nb_used;
	struct rmw_quota quota[QUOTAS];
	uint64_t faults;
};

static void
model_leave(struct model *m, unsigned int i)
{
	if (!m->used[i].released || m->used[i].holds > 0)
		return;
	m->free[m->nb_free++] = m->used[i].buffer;
	m->quota[m->used[i].quota].used--;
	m->used[i] = m->used[--m->nb_used];
}

static void
random_alloc(struct model *m, uint64_t *state, struct rmw_pool *pool, struct rmw_quota *quotas)
{
	unsigned int q = (unsigned int)random_below(state, QUOTAS);
	struct rmw_quota *quota = &m->quota[q];
	struct rmw_buffer *b;

	if (quota->used == quota->limit) {
		cannot_take(pool, &quotas[q], -EDQUOT);
		return;
	}
	if (m->nb_free == 0) {
		cannot_take(pool, &quotas[q], -ENOMEM);
		return;
	}
	b = take(pool, &quotas[q]);
	cr_assert_eq(b, m->free[--m->nb_free]);
	quota->used++;
	quota->peak = RTE_MAX(quota->peak, quota->used);
	m->used[m->nb_used].buffer = b;
	m->used[m->nb_used].quota = q;
	m->used[m->nb_used].holds = m->used[m->nb_used].released = 0;
	m->used[m->nb_used].mark = (uint8_t)random_bits(state);
	memset(rmw_buffer_data(b), m->used[m->nb_used].mark, b->bytes);
	m->nb_used++;
}

/* Buffers of a quota that have holds. */
static uint32_t
held_by(const struct model *m, unsigned int quota)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < m->nb_used; i++)
		n += m->used[i].quota == quota && m->used[i].holds > 0;
	return n;
}

static void
random_change(struct model *m, uint64_t *state)
{
	unsigned int i = (unsigned int)random_below(state, m->nb_used);
	struct rmw_buffer *b = m->used[i].buffer;
	uint32_t n = (uint32_t)random_below(state, 4);
	unsigned int q = m->used[i].quota;

	for (uint32_t byte = 0; byte < b->bytes; byte++)
		cr_assert_eq(((uint8_t *)rmw_buffer_data(b))[byte], m->used[i].mark);
	switch (random_below(state, 3)) {
	case 0:
		rmw_release(b);
		m->faults += m->used[i].released;
		m->used[i].released = 1;
		break;
	case 1:
		n++;
		cr_assert_eq(rmw_may_hold(b),
			m->used[i].holds > 0 || held_by(m, m->used[i].quota) < HELD_MAX);
		rmw_hold(b, n);
		m->used[i].holds += n;
		break;
	default:
		rmw_unhold(b, n);
		m->faults += n > m->used[i].holds;
		if (n <= m->used[i].holds)
			m->used[i].holds -= n;
		break;
	}
	m->quota[q].held = held_by(m, q);
	model_leave(m, i);
}

static void
random_limits(struct model *m, uint64_t *state, struct rmw_pool *pool, struct rmw_quota *quotas)
{
	unsigned int q = (unsigned int)random_below(state, QUOTAS);
	uint32_t n = (uint32_t)random_below(state, 12), sum = 0;
	struct rmw_quota *quota = &m->quota[q];
	int rc;

	for (unsigned int i = 0; i < QUOTAS; i++)
		sum += m->quota[i].limit;
	if (random_below(state, 2) == 0) {
		rc = sum + n > rmw_pool_count(pool) ? -ENOMEM : 0;
		cr_assert_eq(rmw_pool_reserve(pool, &quotas[q], n), rc);
		quota->limit += rc == 0 ? n : 0;
		return;
	}
	rc = n > quota->limit ? -EINVAL : quota->limit - n < quota->used ? -EBUSY : 0;
	cr_assert_eq(rmw_pool_unreserve(pool, &quotas[q], n), rc);
	quota->limit -= rc == 0 ? n : 0;
}

static void
random_run(uint64_t seed, uint32_t bytes, uint32_t count)
{
	struct rmw_pool *pool = pool_of(bytes, count);
	struct rmw_quota quotas[QUOTAS] = {{0}};
	uint64_t state = seed, allocated = 0;
	struct model m = {0};
	size_t stride = rmw_pool_bytes(bytes, 2, 0) - rmw_pool_bytes(bytes, 1, 0);

	for (unsigned int q = 0; q < QUOTAS; q++)
		quotas[q].held_max = m.quota[q].held_max = HELD_MAX;
	for (m.nb_free = 0; m.nb_free < count; m.nb_free++)
		m.free[m.nb_free] = (struct rmw_buffer *)(void *)((uint8_t *)pool + 128 +
			stride * (count - 1 - m.nb_free));
	for (unsigned int step = 0; step < 50000; step++) {
		uint64_t what = random_below(&state, 16);

		if (what == 0)
			random_limits(&m, &state, pool, quotas);
		else if (what < 7 || m.nb_used == 0)
			random_alloc(&m, &state, pool, quotas);
		else
			random_change(&m, &state);
		allocated += m.nb_used;
		cr_assert_eq(rmw_pool_unreserved(pool),
			count - m.quota[0].limit - m.quota[1].limit - m.quota[2].limit);
		cr_assert_eq(rmw_pool_used(pool), m.nb_used);
		cr_assert_eq(rmw_pool_faults(pool), m.faults);
		cr_assert_eq(memcmp(quotas, m.quota, sizeof(quotas)), 0, "step %u", step);
	}
	cr_assert_gt(allocated, 10000);
	for (unsigned int i = 0; i < m.nb_used; i++) {
		if (!m.used[i].released)
			rmw_release(m.used[i].buffer);
		if (m.used[i].holds > 0)
			rmw_unhold(m.used[i].buffer, m.used[i].holds);
	}
	cr_assert_eq(rmw_pool_used(pool), 0);
	cr_assert_eq(rmw_pool_faults(pool), m.faults);
	for (unsigned int q = 0; q < QUOTAS; q++)
		cr_assert_eq(quotas[q].used, 0);
	pool_free(pool);
}

Test(rmw_memory, random_against_a_model, .timeout = 90)
{
	uint64_t seed = random_seed();

	for (unsigned int i = 0; i < 8; i++)
		random_run(seed + i, 1 + i * 37, i == 0 ? 1 : 5 * i);
}
