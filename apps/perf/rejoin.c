/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks tell each other: a sum in which each rank has places of its own. The numbers go in
 * pieces of 2 bits, which every type holds exactly: the base form has only the job's.
 *
 * After a failure they agree in this way where to continue. A rank may be one step ahead of
 * another; a restarted rank has no step. All take the lowest.
 */
#include "apps/perf/perf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTIAL_MAX 20 /* times that a rank may be late to say where it is */
#define PAUSE_MS    100 /* after a join that was refused, doubled each time */
#define PAUSE_MOST  2000
#define AT_NONE     UINT64_MAX
#define BITS        2
#define PIECES      (64 / BITS)

/* The bits of a small whole number, in a type. */
static uint64_t
bits_of(enum weir_dtype dtype, unsigned int piece)
{
	return weir_dtype_is_float(dtype) ? verify_bits(dtype, piece) : piece;
}

/* Little-endian, as the wire is. */
static void
put(enum weir_dtype dtype, uint8_t *words, size_t place, unsigned int piece)
{
	uint64_t bits = bits_of(dtype, piece);

	memcpy(words + place * weir_dtype_bytes(dtype), &bits, weir_dtype_bytes(dtype));
}

static unsigned int
get(enum weir_dtype dtype, const uint8_t *words, size_t place)
{
	unsigned int piece = 0;
	uint64_t bits = 0;

	memcpy(&bits, words + place * weir_dtype_bytes(dtype), weir_dtype_bytes(dtype));
	while (piece < (1u << BITS) - 1 && bits_of(dtype, piece) != bits)
		piece++;
	return piece;
}

/*
 * Exchange `n` values with all ranks: all[rank * n + i]. 0, -errno, or WEIR_PARTIAL: the values of
 * late ranks are 0. Uses the calls that the options allow: the base form has only the job's type.
 */
static int
exchange(struct perf_run *run, const uint64_t *own, unsigned int n, uint64_t *all)
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
	code = exchange(run, own, 3, all);
	if (code < 0)
		return perf_failed(run, code);
	weir_last_result(run->weir, &result);
	timing->degraded += result.degraded;
	run->degraded += result.degraded;
	timing->wrong = 0;
	for (unsigned int r = 0; r < run->ranks; r++) {
		timing->wrong += all[3 * r];
		timing->wire_sent = fmax(timing->wire_sent, (double)all[3 * r + 1]);
		timing->wire_received = fmax(timing->wire_received, (double)all[3 * r + 2]);
	}
	if (timing->wrong < timing->own_wrong)
		timing->wrong = timing->own_wrong;
	return 0;
}

static void
sleep_ms(unsigned int ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* Is it a sum that some ranks are not in? That is the same on all of them. */
static bool
lacks_some(const struct perf_run *run, int code)
{
	struct weir_result result;

	if (code == WEIR_PARTIAL)
		return true;
	weir_last_result(run->weir, &result);
	/* The handle is usable still: it was --partial fail that made it an error. */
	return code == -EIO && result.degraded != 0 && result.completed == result.blocks;
}

int
perf_agree(struct perf_run *run)
{
	uint64_t own = run->started ? run->step : AT_NONE, least = AT_NONE, all[WEIR_SOURCES_MAX];
	int code = WEIR_PARTIAL;

	for (unsigned int i = 0; i < PARTIAL_MAX && code == WEIR_PARTIAL; i++) {
		code = exchange(run, &own, 1, all);
		if (code != 0 && lacks_some(run, code)) {
			code = WEIR_PARTIAL;
			sleep_ms(10 << (i < 6 ? i : 6));
		}
	}
	if (code == WEIR_PARTIAL)
		code = -ETIMEDOUT;
	if (code != 0)
		return code;
	for (unsigned int r = 0; r < run->ranks; r++)
		if (all[r] < least)
			least = all[r];
	run->step = least == AT_NONE ? 0 : least;
	if (!run->started) {
		run->began_at = perf_iteration(run, run->step);
		run->done = run->step;
		run->started = true;
	}
	run->resumed = true;
	return 0;
}

/* Does this code end the run? A new generation may repair other failures. */
static bool
is_final(int code)
{
	return code == -EINVAL || code == -EOPNOTSUPP || code == -EMSGSIZE || code == -ENOMEM ||
		code == -ECANCELED || code == -EBUSY || code == -EADDRINUSE || code == -EEXIST;
}

static struct perf_rejoin *
new_rejoin(struct perf_run *run, int code)
{
	struct perf_rejoin *r =
		reallocarray(run->rejoins, run->rejoin_count + 1, sizeof(*run->rejoins));

	if (r == NULL)
		return NULL;
	run->rejoins = r;
	r += run->rejoin_count++;
	*r = (struct perf_rejoin){.failed_at = run->iteration, .code = code};
	snprintf(r->error, sizeof(r->error), "%s", weir_last_error(run->weir));
	return r;
}

static int
join_again(struct perf_run *run)
{
	int code = weir_rejoin(run->weir);

	if (code == 0 && weir_sources(run->weir) != run->ranks) {
		perf_message(run, "the job has %u sources now, and had %u", weir_sources(run->weir),
			run->ranks);
		return -EINVAL;
	}
	if (code == 0)
		code = perf_agree(run);
	return code < 0 ? perf_failed(run, code) : code;
}

int
perf_recover(struct perf_run *run, int code)
{
	unsigned int most = run->options->rejoins, pause = PAUSE_MS;
	struct perf_rejoin *r;
	uint64_t began = perf_now_ns();

	if (run->tries >= most || is_final(code))
		return code;
	r = new_rejoin(run, code);
	if (r == NULL)
		return -ENOMEM;
	while (run->tries < most && !is_final(code)) {
		run->tries++;
		perf_message(run, "joins again, try %u of %u", run->tries, most);
		if (r->tries++ != 0) {
			sleep_ms(pause);
			pause = pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_MOST;
		}
		code = join_again(run);
		if (code == 0)
			break;
	}
	r->recovered = code == 0;
	r->ms = (double)(perf_now_ns() - began) / 1e6;
	r->generation = weir_generation(run->weir);
	r->resumed_at = perf_iteration(run, run->step);
	perf_report_rejoin(run, r);
	return code;
}
