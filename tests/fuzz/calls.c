/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/calls.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

struct call
calls_any(uint8_t what, unsigned int sources)
{
	static const uint8_t with_root[] = {WEIR_COLLECTIVE_REDUCE, WEIR_COLLECTIVE_BROADCAST,
		WEIR_COLLECTIVE_SCATTER, WEIR_COLLECTIVE_GATHER};
	struct call call = {.collective = what % WEIR_COLLECTIVE_BARRIER,
		.count = (uint16_t[]){CALLS_ELEMENTS, 1, 5, 3}[what >> 6]};

	for (unsigned int i = 0; i < sizeof(with_root); i++)
		if (call.collective == with_root[i])
			call.root = (uint8_t)((what >> 3 & 7) % sources);
	if (call.collective == WEIR_COLLECTIVE_ALLTOALL && call.count * sources > CALLS_ELEMENTS)
		call.count = (uint16_t)(CALLS_ELEMENTS / sources);
	return call;
}

/* The elements of slice `rank` of `count`. */
static unsigned int
slice(unsigned int rank, unsigned int count, unsigned int sources)
{
	return count / sources + (rank < count % sources);
}

unsigned int
calls_sent(const struct call *call, unsigned int source, unsigned int sources)
{
	switch (call->collective) {
	case WEIR_COLLECTIVE_BARRIER: return 0;
	case WEIR_COLLECTIVE_BROADCAST:
	case WEIR_COLLECTIVE_SCATTER: return source == call->root ? call->count : 0;
	case WEIR_COLLECTIVE_GATHER:
	case WEIR_COLLECTIVE_ALLGATHER: return slice(source, call->count, sources);
	default: return call->count;
	}
}

/* The elements of the result of a block for a source. */
static unsigned int
result_elements(const struct weir_header *h, unsigned int sources)
{
	unsigned int own = slice(h->src_id, h->grad_cnt, sources);

	switch (h->collective) {
	case WEIR_COLLECTIVE_BARRIER: return 0;
	case WEIR_COLLECTIVE_REDUCE:
	case WEIR_COLLECTIVE_GATHER: return h->src_id == h->root ? h->grad_cnt : 0;
	case WEIR_COLLECTIVE_REDUCESCATTER:
	case WEIR_COLLECTIVE_SCATTER: return own;
	case WEIR_COLLECTIVE_ALLTOALL: return own * sources;
	default: return h->grad_cnt;
	}
}

/* Whose slice element i of a result is in. */
static unsigned int
owner(const struct weir_header *h, unsigned int i, unsigned int sources)
{
	unsigned int rank = 0, own = slice(h->src_id, h->grad_cnt, sources);

	if (h->collective == WEIR_COLLECTIVE_ALLTOALL)
		return i / own;
	for (; i >= slice(rank, h->grad_cnt, sources); rank++)
		i -= slice(rank, h->grad_cnt, sources);
	return rank;
}

/* Whether `got` can be element i. */
static bool
right(const struct weir_header *h, unsigned int i, uint32_t got, unsigned int sources)
{
	switch (h->collective) {
	case WEIR_COLLECTIVE_BROADCAST:
	case WEIR_COLLECTIVE_SCATTER: return got == 1u << h->root;
	case WEIR_COLLECTIVE_GATHER:
	case WEIR_COLLECTIVE_ALLGATHER:
	case WEIR_COLLECTIVE_ALLTOALL:
		return got == 1u << owner(h, i, sources) || (h->degraded && got == 0);
	default: return (unsigned int)__builtin_popcount(got) == h->src_cnt;
	}
}

void
calls_check(const struct weir_header *h, const uint8_t *payload, unsigned int bytes,
	unsigned int sources)
{
	unsigned int more = h->degraded ? WEIR_BITMAP_BYTES : 0;
	unsigned int count = result_elements(h, sources);
	bool reduces = h->collective <= WEIR_COLLECTIVE_REDUCESCATTER;
	uint32_t first = 0;

	if ((h->flags & WEIR_FLAG_AUTHENTICATED) != 0)
		more += WEIR_TAG_BYTES;
	FUZZ_CHECK(bytes == count * 4 + more,
		"collective %u to %u of %u sources: %u bytes for %u elements", h->collective,
		h->src_id, sources, bytes, count);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t got;

		memcpy(&got, payload + 4 * i, 4);
		first = i == 0 ? got : first;
		FUZZ_CHECK(right(h, i, got, sources) && (!reduces || got == first),
			"job %u, block %u, collective %u: %#x of %u sources, element %u", h->job_id,
			h->block_id, h->collective, got, h->src_cnt, i);
	}
	if (h->degraded && count > 0 && reduces)
		FUZZ_CHECK(payload[count * 4] == first, "the bitmap says %#x, the sum %#x",
			payload[count * 4], first);
}
