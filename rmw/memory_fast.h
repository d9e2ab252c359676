/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DataMemory's operations on buffers, inline. Read memory.h first. All are for the pool's owner,
 * except rmw_buffer_data.
 */
#ifndef RMW_MEMORY_FAST_H
#define RMW_MEMORY_FAST_H

#include <errno.h>
#include <stdbool.h>

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
 * Take the buffer that was freed last. It is live, without holds, with job 0 and user NULL; its
 * payload is what its last user left. The buffer belongs to the caller until rmw_release. On
 * failure returns NULL and sets *error: -EDQUOT when the quota is used up (checked first), -ENOMEM
 * when the pool is empty, which cannot happen with quotas from rmw_pool_reserve.
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

/* Return a buffer to its pool. Only for the two functions below, which know that it is unused. */
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
 * Release the buffer. It is freed now, or by the rmw_unhold of its last hold, and counts against
 * its quota until then. The caller must not touch it afterwards (a holder may). It is a fault if
 * the buffer is not live. Cost: as rmw_alloc.
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
 * May a packet refer to the live buffer, so that its quota keeps at most held_max buffers for
 * others? If not, copy the payload. Cost: the lines of header and quota.
 */
static inline bool
rmw_may_hold(const struct rmw_buffer *buffer)
{
	return buffer->holds > 0 || buffer->quota->held < buffer->quota->held_max;
}

/*
 * Add n holds, [1, 2^32 - 1] together. A released buffer can get more while it has one. It is a
 * fault if the buffer is free. Cost: the header line, and the quota's for the first hold.
 */
static inline void
rmw_hold(struct rmw_buffer *buffer, uint32_t n)
{
	if (unlikely(buffer->state == RMW_BUFFER_FREE)) {
		buffer->pool->faults++;
	} else {
		if (buffer->holds == 0)
			buffer->quota->held++;
		buffer->holds += n;
	}
}

/*
 * Drop n holds; the last one of a released buffer frees it. It is a fault, without effect, if there
 * are fewer or the buffer is free. Cost: the header line; pool and quota when it frees.
 */
static inline void
rmw_unhold(struct rmw_buffer *buffer, uint32_t n)
{
	if (unlikely(buffer->state == RMW_BUFFER_FREE || n > buffer->holds)) {
		buffer->pool->faults++;
		return;
	}
	buffer->holds -= n;
	if (buffer->holds > 0)
		return;
	buffer->quota->held -= n > 0;
	if (buffer->state == RMW_BUFFER_RELEASED)
		rmw_buffer_put(buffer);
}

#endif
