/* SPDX-License-Identifier: BSD-3-Clause */
/* docs/protocol.md, "Collectives": what each source sends, and what each gets. Sources are [0, n): a source
 * is its rank. */
#include <stdlib.h>
#include <string.h>

#include "apps/verify/verify.h"
#include "tests/model/switch_model_priv.h"

/* Elements of slice i: one more in the first ones. */
static unsigned int
slice(const struct model *m, const struct weir_header *h, unsigned int i)
{
	return h->grad_cnt / m->c.sources + (i < h->grad_cnt % m->c.sources);
}

static unsigned int
slices_before(const struct model *m, const struct weir_header *h, unsigned int i)
{
	return i == 0 ? 0 : slices_before(m, h, i - 1) + slice(m, h, i - 1);
}

bool
model_served(const struct model *m, const struct weir_header *h)
{
	if (h->collective >= WEIR_COLLECTIVES)
		return false;
	if (collective_table[h->collective].rooted ? h->root >= m->c.sources : h->root != 0)
		return false;
	if (h->grad_cnt == 0)
		return true; /* nothing is done with no elements */
	if (verify_reduces((enum weir_collective)h->collective))
		return weir_dtype_has_op(h->dtype, h->op) != 0;
	return h->op == 0 && weir_dtype_bytes(h->dtype) != 0;
}

/* Does the source keep its own slice to itself? */
static bool
skips(const struct model *m, unsigned int source)
{
	return m->running[source].skips_own;
}

unsigned int
model_contributed(const struct model *m, const struct weir_header *h)
{
	unsigned int own = skips(m, h->src_id) ? slice(m, h, h->src_id) : 0;

	switch (h->collective) {
	case WEIR_COLLECTIVE_BROADCAST: return h->src_id == h->root ? h->grad_cnt : 0;
	case WEIR_COLLECTIVE_SCATTER: return h->src_id == h->root ? h->grad_cnt - own : 0;
	case WEIR_COLLECTIVE_GATHER:
		return slice(m, h, h->src_id) - (h->src_id == h->root ? own : 0);
	case WEIR_COLLECTIVE_ALLGATHER: return slice(m, h, h->src_id);
	case WEIR_COLLECTIVE_ALLTOALL: return h->grad_cnt - own;
	case WEIR_COLLECTIVE_BARRIER: return 0;
	default: return h->grad_cnt;
	}
}

/* Rows of which each may be as long as a block: a row and a column fit a packet, and all rows a buffer. */
static bool
rows_fit(const struct model *m, unsigned int row, unsigned int most, bool wide)
{
	unsigned int n = m->c.sources, longest = (row + n - 1) / n;

	return row <= most && n * longest <= most && n * row <= (wide ? 65536u : 131072u) &&
		n * row <= (wide ? n * m->c.elements / 2 : n * m->c.elements);
}

bool
model_fits(const struct model *m, const struct weir_header *h, size_t payload)
{
	unsigned int size = weir_dtype_bytes(h->dtype);
	unsigned int most = size == 8 ? m->c.elements / 2 : m->c.elements;
	unsigned int all = h->grad_cnt;

	if (collective_table[h->collective].contribution == CONTRIBUTION_NOTHING &&
		h->grad_cnt != 0)
		return false;
	if (h->collective == WEIR_COLLECTIVE_ALLTOALL && m->c.full_rows)
		return payload == (size_t)model_contributed(m, h) * size &&
			rows_fit(m, all, most, size == 8);
	if (h->collective == WEIR_COLLECTIVE_ALLTOALL)
		all *= m->c.sources;
	return payload == (size_t)model_contributed(m, h) * size && all <= (most == 0 ? 1 : most);
}

bool
model_same_for_all(const struct model *m, const struct block *b)
{
	bool whole = true;

	for (unsigned int i = 0; i < m->c.sources; i++)
		whole = whole && !skips(m, i);
	return (b->status != WEIR_STATUS_OK && b->status != WEIR_STATUS_PARTIAL) ||
		b->first.collective == WEIR_COLLECTIVE_ALLREDUCE ||
		b->first.collective == WEIR_COLLECTIVE_BROADCAST ||
		(b->first.collective == WEIR_COLLECTIVE_ALLGATHER && whole) ||
		b->first.collective == WEIR_COLLECTIVE_BARRIER;
}

bool
model_lacks_root(const struct block *b)
{
	return (b->first.collective == WEIR_COLLECTIVE_BROADCAST ||
		       b->first.collective == WEIR_COLLECTIVE_SCATTER) &&
		!set_has(&b->in, b->first.root);
}

bool
model_keep(struct block *b, uint8_t source, const uint8_t *payload, size_t bytes)
{
	b->given[source] = malloc(bytes + 1);
	if (b->given[source] == NULL)
		return false;
	memcpy(b->given[source], payload, bytes);
	b->order[b->added++] = source;
	return true;
}

void
model_forget(struct block *b)
{
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++) {
		free(b->given[s]);
		b->given[s] = NULL;
	}
	b->held = false;
}

/* Elements [first, first + count) of the sum of those that are in. */
static size_t
put_sum(const struct block *b, unsigned int first, unsigned int count, uint8_t *to)
{
	const enum weir_dtype dtype = (enum weir_dtype)b->first.dtype;
	unsigned int size = weir_dtype_bytes(dtype);

	for (unsigned int e = first; e < first + count; e++, to += size) {
		uint64_t x[WEIR_SOURCES_MAX] = {0}, sum;

		for (unsigned int i = 0; i < b->added; i++)
			memcpy(&x[i], b->given[b->order[i]] + (size_t)e * size, size);
		sum = verify_reduce(dtype, (enum weir_op)b->first.op, x, b->added);
		memcpy(to, &sum, size);
	}
	return (size_t)count * size;
}

/* So many elements of what a source gave, zeros if it is not in. */
static size_t
put(const struct block *b, unsigned int source, unsigned int first, unsigned int count, uint8_t *to)
{
	size_t size = weir_dtype_bytes(b->first.dtype);

	memset(to, 0, count * size);
	if (b->given[source] != NULL)
		memcpy(to, b->given[source] + first * size, count * size);
	return count * size;
}

/* The slices of all others, and of the source itself unless it keeps its own. */
static size_t
put_slices(const struct model *m, const struct block *b, unsigned int source, uint8_t *to)
{
	size_t at = 0;

	for (unsigned int s = 0; s < m->c.sources; s++)
		if (s != source || !skips(m, s))
			at += put(b, s, 0, slice(m, &b->first, s), to + at);
	return at;
}

/* Where the slice for the receiver begins in what the source gave. */
static unsigned int
cell(const struct model *m, const struct weir_header *h, unsigned int source, unsigned int receiver)
{
	unsigned int kept = skips(m, source) && receiver > source ? slice(m, h, source) : 0;

	return slices_before(m, h, receiver) - kept;
}

size_t
model_payload(const struct model *m, const struct block *b, unsigned int source, uint8_t *to)
{
	const struct weir_header *h = &b->first;
	unsigned int before = slices_before(m, h, source), own = slice(m, h, source);
	size_t at = 0;

	switch (h->collective) {
	case WEIR_COLLECTIVE_ALLREDUCE: return put_sum(b, 0, h->grad_cnt, to);
	case WEIR_COLLECTIVE_REDUCE: return source == h->root ? put_sum(b, 0, h->grad_cnt, to) : 0;
	case WEIR_COLLECTIVE_REDUCESCATTER: return put_sum(b, before, own, to);
	case WEIR_COLLECTIVE_BROADCAST: return put(b, h->root, 0, h->grad_cnt, to);
	case WEIR_COLLECTIVE_SCATTER:
		if (source == h->root && skips(m, source))
			return 0;
		return put(b, h->root, cell(m, h, h->root, source), own, to);
	case WEIR_COLLECTIVE_GATHER: return source == h->root ? put_slices(m, b, source, to) : 0;
	case WEIR_COLLECTIVE_ALLGATHER: return put_slices(m, b, source, to);
	case WEIR_COLLECTIVE_ALLTOALL:
		for (unsigned int s = 0; s < m->c.sources; s++)
			if (s != source || !skips(m, s))
				at += put(b, s, cell(m, h, s, source), own, to + at);
		return at;
	default: return 0;
	}
}
