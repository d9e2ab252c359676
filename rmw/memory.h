/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DataMemory: pools of equal buffers in a shard's memory, and the jobs' quotas of them.
 *
 * A buffer holds one block's partial result, then its result. It is allocated under a quota and
 * written by its owner. Packets that carry its payload by reference *hold* it. It is *released*
 * when the block is over, and returns to its pool when it is released and the last hold is gone, in
 * either order:
 *
 *              rmw_alloc                 rmw_release, no holds
 *      FREE ---------------> LIVE --------------------------------> FREE
 *                             |  rmw_release, holds
 *                             +---------------------> RELEASED ---> FREE
 *                                                         rmw_unhold of the last one
 *
 * Only the owner may call rmw_unhold: a hold that another lcore drops must be sent back.
 *
 * QUOTAS. Several quotas may share a pool, and none can starve another. A job has a quota per
 * shard, and rmw_pool_reserve raises its limit only while the limits of all quotas together do not
 * exceed the pool. So a job below its limit always gets a buffer (-EDQUOT is its only failure), and
 * memory cannot run out in the middle of an admitted job.
 *
 * HOLDS. The owner cannot end a hold: a device that sends nothing keeps its packets. So the owner
 * asks rmw_may_hold before it lets packets refer to a buffer, and copies the payload when the
 * answer is no. Then ports keep at most `held_max` buffers of a quota, and the others are always
 * available to its owner.
 *
 * DESIGN. Last freed, first reused: the free list is a stack, linked through the buffers' header
 * lines. Aggregation is three times as fast on a payload in L2 as on one in L3 (kernels.h), and the
 * payload freed last is most likely there; a queue would cycle through the whole pool and keep it
 * in L3. A pool has 3 x window buffers, of which a well-behaved job uses little more than a third;
 * the rest is never touched. The link is free of cost, because alloc and release write the header
 * line anyway. An unused pool is handed out in the order of addresses, for the hardware
 * prefetchers.
 *
 * The header is a separate cache line in front of the payload, because header fields change while a
 * device reads the payload. This also keeps payloads of a power of two bytes from all beginning in
 * the same few cache sets.
 *
 * Errors of the caller (a second release, one unhold too many, a hold on a free buffer) change
 * nothing and are counted by rmw_pool_faults, as far as the header shows them. A correct run ends
 * with 0. The release of a buffer that has been allocated again cannot be detected.
 *
 * CONCURRENCY. A pool, its buffers and its quotas belong to one lcore. Fields that other lcores may
 * read while they hold a buffer are marked. Any thread may read rmw_pool_used, rmw_pool_faults and
 * a quota's numbers, for statistics.
 */
#ifndef RMW_MEMORY_H
#define RMW_MEMORY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define RMW_LINE             64u /* bytes: alignment of payloads, length of headers */
#define RMW_BUFFER_BYTES_MAX (UINT32_C(1) << 30) /* payload of one buffer */
#define RMW_POOL_COUNT_MAX   (UINT32_C(1) << 30) /* buffers of one pool */

struct rmw_pool;

/* A job's share of a pool. All zero before the first rmw_pool_reserve. owner: rw, others: ro */
struct rmw_quota {
	uint32_t limit; /* buffers reserved; only rmw_pool_reserve and _unreserve write it */
	uint32_t used; /* buffers not yet returned, released ones included; never > limit */
	uint32_t peak; /* the largest `used` so far; the owner may reset it */
	uint32_t held; /* buffers with holds */
	uint32_t held_max; /* buffers that may have holds: rmw_may_hold; the owner sets it */
};

enum rmw_buffer_state {
	RMW_BUFFER_FREE, /* in the pool */
	RMW_BUFFER_LIVE,
	RMW_BUFFER_RELEASED, /* waits for its last hold */
};

/* The line in front of a payload. Only memory_fast.h writes the fields marked rmw. */
struct rmw_buffer {
	struct rmw_buffer *next; /* free list; rmw: rw */
	struct rmw_pool *pool; /* constant */
	struct rmw_quota *quota; /* charged for it; set by rmw_alloc */
	uint64_t iova; /* of the payload, for devices; constant; holders: ro */
	void *user; /* the allocator's; NULL after rmw_alloc. user: rw, holders: ro */
	uint32_t bytes; /* payload capacity, that of the pool; constant; holders: ro */
	uint32_t holds; /* packets that still need the payload; owner: rw */
	uint16_t shard; /* the pool's; constant; holders: ro */
	uint8_t state; /* enum rmw_buffer_state; rmw: rw */
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
	/* Devices see memory in pages: no payload crosses a multiple of `page` bytes. A power of
	 * two, at least twice a buffer with its header; 0: all of `memory` is contiguous. */
	uint32_t page;
	uint64_t (*iova_of)(const void *address); /* the address for devices; NULL: none reads it */
};

/*
 * Bytes of memory that a pool needs, its own 128 bytes included: count times (64 + the payload
 * rounded up to 64), and once more per page for the space lost at its end. Arguments as in the
 * configuration; the result is undefined for others. Pure.
 */
size_t rmw_pool_bytes(uint32_t bytes, uint32_t count, uint32_t page);

/*
 * Divide config->memory into a pool; config is copied. All buffers are free, and the first in
 * memory is handed out first. Any thread, which then gives the pool to its owner. NULL with
 * rte_errno EINVAL (a field is out of range, memory is too short or not aligned; one log line says
 * which). Cost: writes every header line, and calls config->iova_of once per buffer.
 */
struct rmw_pool *rmw_pool_create(const struct rmw_pool_config *config);

/*
 * Return the memory to the pool's creator. The pool and its buffers are invalid afterwards. Logs a
 * warning when buffers are missing or faults were counted. pool: NULL is fine.
 */
void rmw_pool_destroy(struct rmw_pool *pool);

/*
 * Raise quota->limit by n buffers of this pool. A quota belongs to one pool, and must live until
 * the last buffer allocated under it has returned. Owner. 0; -ENOMEM when the limits of all quotas
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

/* Buffers that rmw_pool_reserve can still reserve. Owner. */
uint32_t rmw_pool_unreserved(const struct rmw_pool *pool);

/* Buffers that are not free: live, or released and held. Any thread; pool: NULL has 0. */
uint32_t rmw_pool_used(const struct rmw_pool *pool);

/* Detected errors of the caller, which had no effect. Any thread; pool: NULL has 0. */
uint64_t rmw_pool_faults(const struct rmw_pool *pool);

#endif
