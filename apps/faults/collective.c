/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/faults/collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/perf/perf.h"
#include "pktbuf/wire/collectives.h"

int
collective_name(
	struct perf_reference *what, const char *collective, const char *type, const char *op)
{
	struct perf_list c = {0}, t = {0}, o = {0};

	if (!perf_list_collectives(collective, &c) || !perf_list_types(type, &t) ||
		!perf_list_ops(op, &o))
		return -EINVAL;
	what->collective = (enum weir_collective)__builtin_ctz(c.codes);
	what->data.dtype = (enum weir_dtype)__builtin_ctz(t.codes);
	what->data.op = (enum weir_op)__builtin_ctz(o.codes);
	return 0;
}

bool
collective_same(enum weir_collective collective)
{
	const struct collective_row *row = &collective_table[collective];

	return row->result == RESULT_WHOLE && row->to == TO_ALL;
}

int
collective_call(struct weir *weir, const struct perf_reference *what, const void *send, void *recv)
{
	const enum weir_dtype dtype = what->data.dtype;
	const enum weir_op op = what->data.op;
	const unsigned int root = what->root;
	const size_t count = what->count;

	switch (what->collective) {
	case WEIR_COLLECTIVE_ALLREDUCE: return weir_allreduce(weir, send, recv, count, dtype, op);
	case WEIR_COLLECTIVE_REDUCE: return weir_reduce(weir, send, recv, count, dtype, op, root);
	case WEIR_COLLECTIVE_REDUCESCATTER:
		return weir_reducescatter(weir, send, recv, count, dtype, op);
	case WEIR_COLLECTIVE_BROADCAST: return weir_broadcast(weir, send, recv, count, dtype, root);
	case WEIR_COLLECTIVE_SCATTER: return weir_scatter(weir, send, recv, count, dtype, root);
	case WEIR_COLLECTIVE_GATHER: return weir_gather(weir, send, recv, count, dtype, root);
	case WEIR_COLLECTIVE_ALLGATHER: return weir_allgather(weir, send, recv, count, dtype);
	case WEIR_COLLECTIVE_ALLTOALL: return weir_alltoall(weir, send, recv, count, dtype);
	case WEIR_COLLECTIVE_BARRIER:
	case WEIR_COLLECTIVE_PROBE:
	case WEIR_COLLECTIVE_ACKNOWLEDGE:
	case WEIR_COLLECTIVE_JOIN:
	default: return -EINVAL;
	}
}

static int
by_first(const void *a, const void *b)
{
	const struct weir_degraded *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static uint64_t
hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return h;
}

/* The elements of `got` that are wrong; part: n degraded blocks in the order of their elements, and room for
 * one more. */
static uint64_t
count_wrong(
	const struct perf_reference *what, struct weir_degraded *part, size_t n, const void *got)
{
	const size_t received = perf_reference_received(what),
		     bytes = weir_dtype_bytes(what->data.dtype);
	const char *from = got;
	uint64_t wrong = 0;

	part[n].first = what->count; /* the end, of each slice */
	for (size_t slice = 0; slice < received; slice += what->count)
		for (size_t i = 0, at = 0; i <= n; i++) {
			size_t first = slice + part[i].first;

			wrong += perf_reference_wrong(what, NULL, slice + at, part[i].first - at,
				from + (slice + at) * bytes);
			wrong += perf_reference_wrong(
				what, part[i].present, first, part[i].count, from + first * bytes);
			at = part[i].first + part[i].count;
		}
	return wrong;
}

/* Has only the root data? Then results are whole, whichever other sources are missing. */
static bool
always_whole(const struct weir *weir, const struct perf_reference *what)
{
	unsigned int n = weir_sources(weir);

	return what->collective == WEIR_COLLECTIVE_BROADCAST ||
		what->collective == WEIR_COLLECTIVE_SCATTER ||
		(what->collective == WEIR_COLLECTIVE_ALLTOALL && /* as scatters */
			n * n > weir_elements(weir, what->data.dtype));
}

int
collective_check(struct weir *weir, const struct perf_reference *what, int code, const void *got,
	uint64_t *wrong, uint64_t *fingerprint)
{
	const struct weir_degraded *degraded;
	size_t n = weir_degraded(weir, &degraded);
	struct weir_degraded *part = calloc(n + 1, sizeof(*part));
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	bool partial = n != 0;

	if (part == NULL)
		return -ENOMEM;
	if (n != 0)
		memcpy(part, degraded, n * sizeof(*part));
	qsort(part, n, sizeof(*part), by_first);
	for (size_t i = 0; i < n; i++) {
		h = hash(h, &part[i].first, sizeof(part[i].first));
		h = hash(h, part[i].present, sizeof(part[i].present));
	}
	if (always_whole(weir, what)) {
		partial = false; /* they are checked as a whole */
		n = 0;
		part[0].count = 0;
	}
	*wrong = count_wrong(what, part, n, got) + (partial != (code == WEIR_PARTIAL));
	*fingerprint =
		hash(h, got, perf_reference_received(what) * weir_dtype_bytes(what->data.dtype));
	free(part);
	return 0;
}

bool
collective_settled(struct weir *weir, const struct perf_reference *what,
	uint8_t (*in)[COLLECTIVE_BITMAP], size_t blocks)
{
	const struct weir_degraded *part;
	size_t n = weir_degraded(weir, &part), per_block = weir_elements(weir, what->data.dtype);
	unsigned int sources = weir_sources(weir);

	for (size_t b = 0, i = 0; b < blocks; b++) {
		/* Parts are in no order, and there are few. */
		for (i = 0; i < n && part[i].first / per_block != b;)
			i++;
		for (unsigned int k = 0; k < COLLECTIVE_BITMAP; k++)
			in[b][k] |= i == n ? 0xff : part[i].present[k];
	}
	for (size_t b = 0; b < blocks; b++)
		for (unsigned int s = 0; s < sources; s++)
			if (!(in[b][s / 8] & 1U << s % 8))
				return false;
	return true;
}
