/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks tell each other: a sum in which each rank has places of its own. The numbers go in pieces
 * of 2 bits, which every type holds exactly: in the base form there is none but the job's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/perf/perf.h"

#define BITS   2
#define PIECES (64 / BITS)

/* The bits of a small whole number, in a type. */
static uint64_t
bits_of(enum weir_dtype dtype, unsigned int piece)
{
	return weir_dtype_is_float(dtype) ? perf_float_bits(dtype, piece) : piece;
}

static void
put(enum weir_dtype dtype, uint8_t *words, size_t place, unsigned int piece)
{
	unsigned int bytes = weir_dtype_bytes(dtype);
	uint64_t bits = bits_of(dtype, piece);

	for (unsigned int b = 0; b < bytes; b++)
		words[place * bytes + b] = (uint8_t)(bits >> 8 * b);
}

static unsigned int
get(enum weir_dtype dtype, const uint8_t *words, size_t place)
{
	unsigned int bytes = weir_dtype_bytes(dtype), piece = 0;
	uint64_t bits = 0;

	for (unsigned int b = bytes; b-- > 0;)
		bits = bits << 8 | words[place * bytes + b];
	while (piece < (1u << BITS) - 1 && bits_of(dtype, piece) != bits)
		piece++;
	return piece;
}

int
perf_exchange(struct perf_run *run, const uint64_t *own, unsigned int n, uint64_t *all)
{
	const struct perf_options *o = run->options;
	enum weir_dtype dtype = WEIR_DTYPE_INT32;
	size_t mine = (size_t)n * PIECES, total = mine * run->ranks;
	uint8_t *words;
	int code;

	if (o->weir.base_form)
		dtype = (enum weir_dtype)__builtin_ctz(o->types.codes);
	words = calloc(total, weir_dtype_bytes(dtype));
	if (words == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < mine; i++)
		put(dtype, words, run->rank * mine + i,
			(unsigned int)(own[i / PIECES] >> i % PIECES * BITS) & ((1u << BITS) - 1));
	code = weir_allreduce(run->weir, words, words, total, dtype, WEIR_OP_SUM);
	weir_error_feedback_forget(run->weir, words);
	memset(all, 0, sizeof(*all) * n * run->ranks);
	for (size_t i = 0; code >= 0 && i < total; i++)
		all[i / PIECES] |= (uint64_t)get(dtype, words, i) << i % PIECES * BITS;
	free(words);
	return code;
}

int
perf_exchange_timing(struct perf_run *run, struct perf_timing *timing)
{
	const struct perf_options *o = run->options;
	uint64_t all[3 * WEIR_SOURCES_MAX];
	const uint64_t own[3] = {
		timing->own_wrong, (uint64_t)timing->wire_sent, (uint64_t)timing->wire_received};
	struct weir_result result;
	int code;

	timing->wrong = timing->own_wrong;
	/* What is no sum of what the ranks have put into it tells nothing. */
	if (o->weir.error_feedback || o->weir.partial == WEIR_PARTIAL_RESCALE ||
		(o->weir.base_form && o->ops.codes != 1u << WEIR_OP_SUM))
		return 0;
	code = perf_exchange(run, own, 3, all);
	if (code < 0) {
		perf_say(run, "%s", weir_last_error(run->weir));
		return code;
	}
	weir_last_result(run->weir, &result);
	timing->degraded += result.degraded;
	run->degraded += result.degraded;
	timing->wrong = 0;
	for (unsigned int r = 0; r < run->ranks; r++) {
		timing->wrong += all[3 * r];
		if ((double)all[3 * r + 1] > timing->wire_sent)
			timing->wire_sent = (double)all[3 * r + 1];
		if ((double)all[3 * r + 2] > timing->wire_received)
			timing->wire_received = (double)all[3 * r + 2];
	}
	if (timing->wrong < timing->own_wrong)
		timing->wrong = timing->own_wrong;
	return 0;
}
