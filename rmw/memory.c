/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmw/memory.h"

#include <string.h>

#include <rte_bitops.h>
#include <rte_common.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "rmw/memory_fast.h"
#include "rmw/memory_priv.h"

RTE_LOG_REGISTER(rmw_logtype, weir.rmw, NOTICE);

#define RMW_LOG(level, ...) rte_log(RTE_LOG_##level, rmw_logtype, "rmw: " __VA_ARGS__)

/* Bytes from one header to the next. */
static size_t
stride_of(uint32_t bytes)
{
	return sizeof(struct rmw_buffer) + RTE_ALIGN_CEIL((size_t)bytes, (size_t)RMW_LINE);
}

size_t
rmw_pool_bytes(uint32_t bytes, uint32_t count, uint32_t page)
{
	size_t stride = stride_of(bytes), all = stride * count;
	size_t ends = page == 0 ? 0 : 1 + all / (page - stride);

	return sizeof(struct rmw_pool) + all + ends * stride;
}

/* The place of a buffer at or after `at`, within one page. */
static uint8_t *
place_of(uint8_t *at, size_t stride, size_t page)
{
	uint8_t *next = page == 0 ? at : RTE_PTR_ALIGN_CEIL(at, page);

	return next < at + stride ? next : at;
}

static const char *
config_error(const struct rmw_pool_config *config)
{
	if (config->bytes == 0 || config->bytes > RMW_BUFFER_BYTES_MAX)
		return "bytes is out of range";
	if (config->count == 0 || config->count > RMW_POOL_COUNT_MAX)
		return "count is out of range";
	if (config->memory == NULL || (uintptr_t)config->memory % RMW_LINE != 0)
		return "memory is NULL or not aligned to 64 bytes";
	if (config->page != 0 &&
		(!rte_is_power_of_2(config->page) || config->page < 2 * stride_of(config->bytes)))
		return "page is not a power of two, or less than two buffers";
	if (config->length < rmw_pool_bytes(config->bytes, config->count, config->page))
		return "memory is too short";
	return NULL;
}

struct rmw_pool *
rmw_pool_create(const struct rmw_pool_config *config)
{
	const char *error = config_error(config);
	size_t stride = stride_of(config->bytes);
	struct rmw_pool *pool = config->memory;
	struct rmw_buffer **link;
	uint8_t *at;

	if (error != NULL) {
		RMW_LOG(ERR, "pool of %u x %u bytes in shard %u: %s\n", config->count,
			config->bytes, config->shard, error);
		rte_errno = EINVAL;
		return NULL;
	}
	memset(pool, 0, sizeof(*pool));
	pool->bytes = config->bytes;
	pool->count = config->count;
	pool->shard = config->shard;
	at = (uint8_t *)(pool + 1);
	link = &pool->free;
	for (uint32_t i = 0; i < config->count; i++, at += stride) {
		struct rmw_buffer *buffer;

		at = place_of(at, stride, config->page);
		buffer = (struct rmw_buffer *)(void *)at;
		memset(buffer, 0, sizeof(*buffer));
		buffer->pool = pool;
		buffer->iova = config->iova_of == NULL ? RTE_BAD_IOVA : config->iova_of(buffer + 1);
		buffer->bytes = config->bytes;
		buffer->shard = config->shard;
		buffer->state = RMW_BUFFER_FREE;
		*link = buffer;
		link = &buffer->next;
	}
	return pool;
}

void
rmw_pool_destroy(struct rmw_pool *pool)
{
	if (pool == NULL)
		return;
	if (pool->used != 0)
		RMW_LOG(WARNING, "shard %u: %u of %u buffers of %u bytes never came back\n",
			pool->shard, pool->used, pool->count, pool->bytes);
	if (pool->faults != 0)
		RMW_LOG(WARNING, "shard %u: %llu wrong releases, holds or unholds\n", pool->shard,
			(unsigned long long)pool->faults);
}

int
rmw_pool_reserve(struct rmw_pool *pool, struct rmw_quota *quota, uint32_t n)
{
	if (n > pool->count - pool->reserved)
		return -ENOMEM;
	pool->reserved += n;
	quota->limit += n;
	return 0;
}

int
rmw_pool_unreserve(struct rmw_pool *pool, struct rmw_quota *quota, uint32_t n)
{
	if (n > quota->limit)
		return -EINVAL;
	if (quota->used > quota->limit - n)
		return -EBUSY;
	pool->reserved -= n;
	quota->limit -= n;
	return 0;
}

uint32_t
rmw_pool_buffer_bytes(const struct rmw_pool *pool)
{
	return pool->bytes;
}

uint32_t
rmw_pool_count(const struct rmw_pool *pool)
{
	return pool->count;
}

uint32_t
rmw_pool_unreserved(const struct rmw_pool *pool)
{
	return pool->count - pool->reserved;
}

uint32_t
rmw_pool_used(const struct rmw_pool *pool)
{
	/* volatile: statistics read it from other lcores */
	return pool == NULL ? 0 : *(const volatile uint32_t *)&pool->used;
}

uint64_t
rmw_pool_faults(const struct rmw_pool *pool)
{
	return pool == NULL ? 0 : *(const volatile uint64_t *)&pool->faults;
}
