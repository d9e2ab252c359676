/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DataMemory's operations on buffers, inline. Read memory.h first. All of them are for the pool's
 * owner, except rmw_buffer_data.
 */
#ifndef RMW_MEMORY_FAST_H
#define RMW_MEMORY_FAST_H

#include <errno.h>

#include <rte_branch_prediction.h>

#include "rmw/memory.h"
#include "rmw/memory_priv.h"

/* The payload: buffer->bytes bytes, aligned to 64, right behind the header. Any thread. */
static inline void *
rmw_buffer_data(struct rmw_buffer *buffer)
{
	return buffer + 1;
}

/*
 * Take the buffer that was freed last. It is live, without holds, job 0 and user NULL; its payload
 * is whatever its last user left there. The buffer is the caller's until rmw_release. NULL: *error
 * says why, and is left alone otherwise: -EDQUOT when the quota is used up (checked first), -ENOMEM
 * when the pool is empty, which quotas from rmw_pool_reserve exclude.
 * Cost: the lines of pool, quota and header.
 */
static inline struct rmw_buffer *
rmw_alloc(struct rmw_pool *pool, struct rmw_quota *quota, int *error)
{
	struct rmw_buffer *buffer = pool->free;

	if (unlikely(quota->used >= quota->limit)) {
		*error = -EDQUOT;
		return NULL;
	}
	if (unlikely(buffer == NULL)) {
		*error = -ENOMEM;
		return NULL;
	}
	pool->free = buffer->next;
	pool->used++;
	quota->used++;
	if (quota->used > quota->peak)
		quota->peak = quota->used;
	buffer->quota = quota;
	buffer->user = NULL;
	buffer->holds = 0;
	buffer->state = RMW_BUFFER_LIVE;
	buffer->job = 0;
	return buffer;
}

/* Back to the pool. Only for the two functions below, which know that nobody needs it any more. */
static inline void
rmw_buffer_put(struct rmw_buffer *buffer)
{
	struct rmw_pool *pool = buffer->pool;

	buffer->state = RMW_BUFFER_FREE;
	buffer->quota->used--;
	buffer->next = pool->free;
	pool->free = buffer;
	pool->used--;
}

/*
 * The allocator is done with the buffer: it is freed now, or by the rmw_unhold of its last hold,
 * and counts against its quota until then. The caller must not touch it any more (a holder may).
 * A buffer that is not live: a fault. Cost: as rmw_alloc.
 */
static inline void
rmw_release(struct rmw_buffer *buffer)
{
	if (unlikely(buffer->state != RMW_BUFFER_LIVE))
		buffer->pool->faults++;
	else if (buffer->holds == 0)
		rmw_buffer_put(buffer);
	else
		buffer->state = RMW_BUFFER_RELEASED;
}

/*
 * n more users of the payload, [0, 2^32) together. A released buffer may be held on while it has a
 * hold. A free one: a fault. Cost: the header line.
 */
static inline void
rmw_hold(struct rmw_buffer *buffer, uint32_t n)
{
	if (unlikely(buffer->state == RMW_BUFFER_FREE))
		buffer->pool->faults++;
	else
		buffer->holds += n;
}

/*
 * n users fewer; the last one of a released buffer frees it. More than there are, or a free
 * buffer: a fault, and none is taken away. Cost: the header line; pool and quota when it frees.
 */
static inline void
rmw_unhold(struct rmw_buffer *buffer, uint32_t n)
{
	if (unlikely(buffer->state == RMW_BUFFER_FREE || n > buffer->holds)) {
		buffer->pool->faults++;
		return;
	}
	buffer->holds -= n;
	if (buffer->holds == 0 && buffer->state == RMW_BUFFER_RELEASED)
		rmw_buffer_put(buffer);
}

#endif
