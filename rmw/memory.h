/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DataMemory: pools of equal buffers in a shard's memory, and the jobs' quotas of them.
 *
 * A buffer holds one block's partial result, then its result. It is allocated under a quota,
 * written by its owner, perhaps *held* by packets that carry its payload by reference, and
 * *released* when the block is over; it goes back to its pool when it has been released and the
 * last hold has gone, in whatever order that happens:
 *
 *              rmw_alloc                 rmw_release, no holds
 *      FREE ---------------> LIVE --------------------------------> FREE
 *                             |  rmw_release, holds
 *                             +---------------------> RELEASED ---> FREE
 *                                                         rmw_unhold of the last one
 *
 * A hold that another lcore drops must travel home: only the owner may call rmw_unhold.
 *
 * QUOTAS. Several quotas may share a pool, and none may starve another. Each has a quota per shard, and
 * rmw_pool_reserve raises its limit only while the limits of all quotas together do not exceed the
 * pool. So a job that stays below its limit always gets a buffer (-EDQUOT is the only failure that
 * it can see), and memory can't run out half-way through a job that was admitted.
 *
 * DESIGN. Last freed, first reused: the free list is a stack, linked through the buffers' own
 * header lines. Aggregation runs three times as fast on a payload in L2 as on one in L3
 * (kernels.h), and the payload freed last is the likeliest to be there; a queue would walk the
 * whole pool and keep all of it in L3. A pool is sized for 2 x window buffers, of which a
 * well-behaved job uses little more than half: the rest is never touched. The link costs nothing,
 * as alloc and release write the header line anyway. A pool that was never used is handed out in
 * the order of addresses, so that the hardware prefetchers see a run.
 *
 * The header is a cache line of its own in front of the payload: header fields change while a
 * device reads the payload, and rmw_buffer_data is an addition. It also keeps the payloads of a
 * power of two bytes from all beginning in the same few sets of a cache.
 *
 * Errors of the caller (a second release, one unhold too many, a hold on a free buffer) are
 * recognised as far as the header still tells, change nothing, and are counted: rmw_pool_faults.
 * A run that keeps its books ends with 0. What can't be seen is a release of a buffer that has
 * been allocated again since.
 *
 * CONCURRENCY. A pool, its buffers and the quotas used with it belong to one lcore. Fields that
 * other lcores may read while they hold a buffer are marked; rmw_pool_used, rmw_pool_faults and a
 * quota's numbers may be read by anyone, for statistics.
 */
#ifndef RMW_MEMORY_H
#define RMW_MEMORY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define RMW_LINE             64u /* bytes: payloads are aligned to it, headers are that long */
#define RMW_BUFFER_BYTES_MAX (UINT32_C(1) << 30) /* payload of one buffer */
#define RMW_POOL_COUNT_MAX   (UINT32_C(1) << 30) /* buffers of one pool */

struct rmw_pool;

/*
 * What a job may use of a pool. All zero before the first rmw_pool_reserve. owner: rw, others: ro
 */
struct rmw_quota {
	uint32_t limit; /* buffers reserved; written by rmw_pool_reserve and _unreserve alone */
	uint32_t used; /* buffers allocated and not yet back, released ones too; never > limit */
	uint32_t peak; /* the most that `used` has ever been; the owner may reset it */
};

enum rmw_buffer_state {
	RMW_BUFFER_FREE, /* in the pool */
	RMW_BUFFER_LIVE,
	RMW_BUFFER_RELEASED, /* waits for its last hold */
};

/* The line in front of a payload. The room's fields are written by memory_fast.h alone. */
struct rmw_buffer {
	struct rmw_buffer *next; /* free list; room: rw */
	struct rmw_pool *pool; /* constant */
	struct rmw_quota *quota; /* charged for it; set by rmw_alloc */
	uint64_t iova; /* of the payload, for devices; constant; holders: ro */
	void *user; /* the allocator's; NULL after rmw_alloc. user: rw, holders: ro */
	uint32_t bytes; /* payload capacity, that of the pool; constant; holders: ro */
	uint32_t holds; /* packets and emissions that still need the payload; owner: rw */
	uint16_t shard; /* the pool's; constant; holders: ro */
	uint8_t state; /* enum rmw_buffer_state; room: rw */
	uint8_t job; /* the allocator's; 0 after rmw_alloc. user: rw, holders: ro */
	uint8_t spare[12]; /* 0 */
};
static_assert(sizeof(struct rmw_buffer) == RMW_LINE, "one line in front of the payload");

struct rmw_pool_config {
	uint16_t shard; /* any number; every buffer carries it */
	uint32_t bytes; /* payload of a buffer, [1, RMW_BUFFER_BYTES_MAX]; need not be aligned */
	uint32_t count; /* buffers, [1, RMW_POOL_COUNT_MAX] */
	void *memory; /* aligned to 64; the pool's until rmw_pool_destroy; any content */
	size_t length; /* bytes at `memory`, at least rmw_pool_bytes(bytes, count, page) */
	/* Devices see memory in pages: no payload lies across a multiple of `page` bytes. A power
	 * of two, at least twice a buffer's place; 0: all of `memory` is one piece for them. */
	uint32_t page;
	uint64_t (*iova_of)(const void *address); /* what devices call it; NULL: none reads it */
};

/*
 * Bytes of memory that a pool needs, its own 128 bytes included: count times the payload, rounded
 * up to 64, and 64; and as much again once per page, which is the most that a page's end can cost.
 * Arguments as in the configuration; others give numbers that mean nothing. Pure.
 */
size_t rmw_pool_bytes(uint32_t bytes, uint32_t count, uint32_t page);

/*
 * Carve config->memory into a pool; config is copied. All buffers are free, the first in memory is
 * handed out first. Any thread, which then hands the pool to its owner. NULL with rte_errno EINVAL
 * (a field is out of its range, memory is too short or not aligned; one log line says which).
 * Cost: writes every header line, and calls config->iova_of once per buffer.
 */
struct rmw_pool *rmw_pool_create(const struct rmw_pool_config *config);

/*
 * Give the memory back to the pool's creator: nobody may use the pool or its buffers any more. Logs
 * a warning when buffers are missing or faults were counted. pool: NULL is fine.
 */
void rmw_pool_destroy(struct rmw_pool *pool);

/*
 * Raise quota->limit by n buffers of this pool. A quota is used with one pool only, and lives until
 * the last buffer allocated under it is back. Owner. 0; -ENOMEM when the limits of all quotas
 * together would exceed the pool's count (nothing changes then).
 */
int rmw_pool_reserve(struct rmw_pool *pool, struct rmw_quota *quota, uint32_t n);

/*
 * Lower quota->limit by n, the reverse of rmw_pool_reserve. Owner. 0; -EINVAL when the limit is
 * lower than n; -EBUSY when more buffers are in use than would be allowed (nothing changes then).
 */
int rmw_pool_unreserve(struct rmw_pool *pool, struct rmw_quota *quota, uint32_t n);

/* Payload bytes of a buffer, as configured. Any thread. */
uint32_t rmw_pool_buffer_bytes(const struct rmw_pool *pool);

/* Buffers of the pool. Any thread. */
uint32_t rmw_pool_count(const struct rmw_pool *pool);

/* Buffers that rmw_pool_reserve may still give. Owner. */
uint32_t rmw_pool_unreserved(const struct rmw_pool *pool);

/* Buffers that are not free: live, or released and held. Any thread; pool: NULL has 0. */
uint32_t rmw_pool_used(const struct rmw_pool *pool);

/* Errors of the caller that were recognised and had no effect. Any thread; pool: NULL has 0. */
uint64_t rmw_pool_faults(const struct rmw_pool *pool);

#endif
