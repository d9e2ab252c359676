/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/calls.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

struct call
calls_any(uint8_t what, unsigned int sources)
{
	unsigned int any = what % (WEIR_COLLECTIVES - 1u); /* no barrier */
	struct call call = {.collective = (uint8_t)(any + (any >= WEIR_COLLECTIVE_BARRIER)),
		.count = (uint16_t[]){CALLS_ELEMENTS, 1, 5, 3}[what >> 6]};

	if (collective_table[call.collective].rooted)
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

/* So many elements more, of this value. Returns how many there are then. */
static unsigned int
add(uint32_t out[CALLS_ELEMENTS], unsigned int at, unsigned int count, uint32_t value)
{
	FUZZ_CHECK(at + count <= CALLS_ELEMENTS, "a call of more elements than a block has");
	for (unsigned int i = 0; i < count; i++)
		out[at + i] = value;
	return at + count;
}

/* What these ranks have for a rank: their slices of it, one after the other. */
static unsigned int
add_row(uint32_t out[CALLS_ELEMENTS], unsigned int at, const struct call *call, unsigned int to,
	struct ranks from, uint32_t in, unsigned int sources)
{
	for (unsigned int r = from.first; r < from.first + from.count; r++)
		at = add(out, at, slice(to, call->count, sources), in & 1u << r);
	return at;
}

static bool
covers(struct ranks own, unsigned int rank)
{
	return rank >= own.first && rank < own.first + own.count;
}

unsigned int
calls_sent(const struct call *call, struct ranks own, uint32_t in, unsigned int sources,
	uint32_t out[CALLS_ELEMENTS])
{
	unsigned int n = 0;

	switch (call->collective) {
	case WEIR_COLLECTIVE_BARRIER: return 0;
	case WEIR_COLLECTIVE_BROADCAST:
	case WEIR_COLLECTIVE_SCATTER:
		return covers(own, call->root) ? add(out, 0, call->count, 1u << call->root) : 0;
	case WEIR_COLLECTIVE_GATHER:
	case WEIR_COLLECTIVE_ALLGATHER:
		for (unsigned int r = own.first; r < own.first + own.count; r++)
			n = add(out, n, slice(r, call->count, sources), in & 1u << r);
		return n;
	case WEIR_COLLECTIVE_ALLTOALL:
		/* A host's row is the block; rows of several ranks are side by side, by receiver. */
		for (unsigned int to = 0; to < sources; to++)
			n = add_row(out, n, call, to, own, in, sources);
		return n;
	default: return add(out, 0, call->count, in);
	}
}

unsigned int
calls_got(const struct call *call, struct ranks own, uint32_t in, unsigned int sources,
	uint32_t out[CALLS_ELEMENTS])
{
	const struct ranks all = {0, sources};
	unsigned int n = 0;

	switch (call->collective) {
	case WEIR_COLLECTIVE_BARRIER: return 0;
	case WEIR_COLLECTIVE_BROADCAST: return add(out, 0, call->count, 1u << call->root);
	case WEIR_COLLECTIVE_ALLREDUCE: return add(out, 0, call->count, in);
	case WEIR_COLLECTIVE_REDUCE:
		return covers(own, call->root) ? add(out, 0, call->count, in) : 0;
	case WEIR_COLLECTIVE_GATHER:
		if (!covers(own, call->root))
			return 0;
		/* fall through */
	case WEIR_COLLECTIVE_ALLGATHER: return calls_sent(call, all, in, sources, out);
	default: break;
	}
	for (unsigned int r = own.first; r < own.first + own.count; r++)
		if (call->collective == WEIR_COLLECTIVE_ALLTOALL)
			n = add_row(out, n, call, r, all, in, sources);
		else
			n = add(out, n, slice(r, call->count, sources),
				call->collective == WEIR_COLLECTIVE_SCATTER ? 1u << call->root
									    : in);
	return n;
}

void
calls_check(const struct weir_header *h, const uint8_t *payload, unsigned int bytes,
	struct ranks own, unsigned int sources, bool up)
{
	const struct call call = {
		.collective = h->collective, .root = h->root, .count = h->grad_cnt};
	uint32_t expected[CALLS_ELEMENTS], in = (1u << (up ? own.count : sources)) - 1;
	unsigned int count;

	if (up)
		in <<= own.first;
	if ((h->flags & WEIR_FLAG_AUTHENTICATED) != 0)
		bytes -= WEIR_TAG_BYTES;
	if (h->degraded) {
		FUZZ_CHECK(bytes >= WEIR_BITMAP_BYTES, "no bitmap");
		bytes -= WEIR_BITMAP_BYTES;
		FUZZ_CHECK((payload[bytes] & ~in) == 0, "ranks %#x of %#x", payload[bytes], in);
		in = payload[bytes];
	}
	FUZZ_CHECK((unsigned int)__builtin_popcount(in) == h->src_cnt, "%u sources, not %#x",
		h->src_cnt, in);
	count = (up ? calls_sent : calls_got)(&call, own, in, sources, expected);
	FUZZ_CHECK(bytes == count * 4,
		"collective %u, %u elements, ranks %u to %u of %u: %u bytes for %u elements",
		h->collective, h->grad_cnt, own.first, own.first + own.count - 1, sources, bytes,
		count);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t got;

		memcpy(&got, payload + 4 * i, 4);
		FUZZ_CHECK(got == expected[i],
			"job %u, block %u, collective %u: element %u is %#x, not %#x", h->job_id,
			h->block_id, h->collective, i, got, expected[i]);
	}
}
