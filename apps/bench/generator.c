/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's half: contributions in, results out. See generator.h. */
#include "apps/bench/generator.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_ring.h>

#include "apps/bench/collect.h"
#include "apps/bench/generator_priv.h"
#include "apps/bench/resting.h"
#include "ppe/ppe_priv.h"

#define BURST       64
#define VERIFY_EACH 1024 /* after the warm-up; a power of two: the check costs nothing so */

/* xorshift64*, for the choice of shards. */
static inline uint64_t
draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* The worker whose shard gets the next block. */
static unsigned int
choose_shard(struct generator *g)
{
	unsigned int n = g->work->workers;
	double chance;

	if (n == 1 || g->work->far <= 0)
		return g->id;
	chance = (double)(draw(&g->random) >> 11) / (double)(UINT64_C(1) << 53);
	if (chance >= g->work->far)
		return g->id;
	return (g->id + 1 + (unsigned int)(draw(&g->random) % (n - 1))) % n;
}

/* The next block of a shard: its residues go round, each with its next multiple of the window. */
static void
next_block(struct generator *g, unsigned int slot)
{
	unsigned int shard = choose_shard(g);
	unsigned int i = g->next_in_shard[shard];
	uint32_t residue = g->shard_residue[shard][i];

	g->next_in_shard[shard] = i + 1 == g->nb_shard[shard] ? 0 : i + 1;
	g->block[slot] = residue + g->lap[residue]++ * g->work->window;
	g->slot_of_residue[residue] = slot;
	g->row[slot] = g->copy * g->work->depth + slot;
}

/* What the next call will write to, as a driver prefetches the mbufs behind its next
 * descriptors. */
static inline void
prefetch(const struct generator *g, unsigned int n)
{
	unsigned int at = g->at, row = g->copy * g->work->depth;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t step = g->step[at];
		unsigned int frame = (row + (step >> 16)) * g->work->sources + (step & 0xffff);

		rte_prefetch0(g->frames->mbuf[frame]);
		rte_prefetch0(g->frames->payload[frame] - WEIR_BASE_BYTES);
		if (++at == g->steps)
			at = 0;
	}
}

/* The next contributions of the lap, up to `max` and up to a slot whose results have not all
 * left. */
static uint16_t
give(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	unsigned int sources = g->work->sources;
	uint16_t n = 0;

	while (n < max) {
		uint32_t step = g->step[g->at];
		unsigned int slot = step >> 16;

		if (g->given[slot] == sources) {
			if (__atomic_load_n(&g->done[slot].results, __ATOMIC_ACQUIRE) !=
				g->results_per_block)
				break;
			__atomic_store_n(&g->done[slot].results, 0, __ATOMIC_RELAXED);
			g->given[slot] = 0;
			next_block(g, slot);
		}
		packets[n++] = frames_take(g->frames, g->row[slot], step & 0xffff, g->block[slot]);
		g->given[slot]++;
		generator_step(g);
	}
	g->packets += n;
	if (g->auth != NULL)
		generator_auth_tag(g, packets, n);
	prefetch(g, max);
	return n;
}

static inline uint16_t
give_some(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	return g->work->forward ? generator_forward_give(g, packets, max) : give(g, packets, max);
}

/* Is it the result of the slot's block, of all sources, and its payload the sum? */
static bool
right(const struct generator *owner, const struct rte_mbuf *result, unsigned int slot)
{
	unsigned int bytes = owner->work->elements * rmw_type_size(owner->work->type);
	unsigned int tag = owner->auth != NULL ? WEIR_TAG_BYTES : 0;
	const uint8_t *header = rte_pktmbuf_mtod_offset(result, const uint8_t *, FRAMES_HEADER);
	struct weir_header h = {.extended = owner->auth != NULL};
	const uint8_t *payload = header + weir_header_bytes(h.extended);

	weir_header_read(&h, header);
	if (h.block_id != owner->block[slot] || h.status != WEIR_STATUS_OK || h.degraded ||
		h.src_cnt != (uint8_t)owner->work->sources || h.grad_cnt != owner->work->elements)
		return false;
	if (result->pkt_len != FRAMES_HEADER + weir_header_bytes(h.extended) + bytes + tag)
		return false;
	if (result->nb_segs == 2) {
		if (result->next->data_len != bytes + tag)
			return false;
		payload = rte_pktmbuf_mtod(result->next, const uint8_t *);
	}
	if (tag != 0 && !generator_auth_holds(owner, header, payload, bytes))
		return false;
	return memcmp(payload, owner->frames->expected[owner->row[slot]], bytes) == 0;
}

static inline void
take_result(struct generator *g, const struct rte_mbuf *result)
{
	const uint8_t *header = rte_pktmbuf_mtod_offset(result, const uint8_t *, FRAMES_HEADER);
	struct generator *owner = &g->all[header[0]];
	uint32_t block = weir_get32(header + 1);
	struct slot_done *done;
	unsigned int slot;

	if (unlikely(header[0] >= g->work->workers))
		return; /* of a resting job */
	slot = owner->slot_of_residue[block & (owner->work->window - 1)];
	done = &owner->done[slot];
	if (owner->auth != NULL && generator_auth_take(owner, result))
		return;
	if (unlikely(g->phase < 0 || (++g->results & (VERIFY_EACH - 1)) == 0)) {
		g->verified++;
		g->wrong += !right(owner, result, slot);
	}
	/* Release: the frames of the block have been freed before the slot is seen to be done. */
	__atomic_store_n(&done->results, done->results + 1, __ATOMIC_RELEASE);
}

void
generator_drain(struct generator *g)
{
	struct rte_mbuf *results[BURST];

	for (unsigned int p = 0; p < g->nb_ports; p++) {
		unsigned int n;

		do {
			n = rte_ring_sc_dequeue_burst(g->out[p], (void **)results, BURST, NULL);
			for (unsigned int i = 0; i < n; i++) {
				if (g->work->forward)
					generator_forward_take(g, results[i], p);
				else
					take_result(g, results[i]);
			}
			rte_pktmbuf_free_bulk(results, n);
		} while (n == BURST);
	}
}

static uint64_t
cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void
open_stretch(struct generator *g, struct stretch *s)
{
	perf_counters_read(&g->counters, &s->counts_from);
	s->packets_from = g->packets;
	s->aside_from = g->aside;
	s->tsc_from = rte_rdtsc();
	s->from = cpu_time();
}

static void
close_stretch(struct generator *g, struct stretch *s)
{
	s->to = cpu_time();
	s->tsc_to = rte_rdtsc();
	s->packets_to = g->packets;
	s->aside_to = g->aside;
	perf_counters_read(&g->counters, &s->counts_to);
}

/* This worker starts no timers, or does again. */
static void
without_timers(bool off)
{
	static RTE_DEFINE_PER_LCORE(uint16_t, timers);
	struct ppe_worker *worker = RTE_PER_LCORE(ppe_worker_self);

	if (worker->nb_timers != 0)
		RTE_PER_LCORE(timers) = worker->nb_timers;
	worker->nb_timers = off ? 0 : RTE_PER_LCORE(timers);
}

/* A new phase begins; the last one, if it was the switch's and is still open, ends here. */
static void
enter_phase(struct generator *g, int phase)
{
	if (g->phase >= 0 && (g->phase % 2 == 0 || g->work->beside_no_timers)) {
		struct stretch *last = &g->stretch[g->phase];

		if (last->from != 0 && last->to == 0)
			close_stretch(g, last);
	}
	g->phase = phase;
	g->polled = 0;
	if (g->work->beside_no_timers)
		without_timers(phase % 2 != 0);
}

/* How long has it been since the last poll? */
static inline void
note_gap(struct generator *g, uint64_t now)
{
	uint64_t step = (now - g->polled) * GENERATOR_GAP * 1000000 / rte_get_tsc_hz();

	if (g->polled != 0)
		g->gaps[g->phase % 2][RTE_MIN(step, (uint64_t)GENERATOR_GAPS - 1)]++;
	g->polled = now;
}

/* The first tenth of a phase warms the caches again, and in the last twentieth other workers may
 * have stopped: neither is counted. */
static void
watch(struct generator *g, uint64_t now, uint64_t begin)
{
	struct stretch *s = &g->stretch[g->phase];
	uint64_t length = g->schedule->length;

	if (s->from == 0 && now - begin >= length / 10)
		open_stretch(g, s);
	else if (s->to == 0 && s->from != 0 && now - begin >= length - length / 20)
		close_stretch(g, s);
}

static void
measure_bare(struct generator *g, uint64_t now, uint64_t begin)
{
	struct stretch *s = &g->stretch[g->phase];

	bare_run(g, now + g->schedule->length / 20);
	s->tsc_from = rte_rdtsc();
	s->from = cpu_time();
	s->packets_from = g->bare.packets;
	bare_run(g, begin + g->schedule->length);
	s->to = cpu_time();
	s->tsc_to = rte_rdtsc();
	s->packets_to = g->bare.packets;
}

/*
 * Workers that are counted go in step, one turn of one after one turn of the other. Left to
 * themselves they meet as callgrind and the machine's load let them: now a turn finds many packets,
 * now few or none, and what it costs is shared by as many.
 */
static void
keep_step(struct generator *g)
{
	unsigned int n = g->work->workers;
	const struct generator *before = &g->all[g->id == 0 ? n - 1 : g->id - 1];
	uint64_t turn = g->turns + 1;
	uint64_t awaited = g->id == 0 ? turn : turn + 1; /* the first one waits for all to begin */

	if (n == 1)
		return;
	/* Release: what the turn that ends has handed over is seen by who goes on. */
	__atomic_store_n(&g->turns, turn, __ATOMIC_RELEASE);
	while (__atomic_load_n(&before->turns, __ATOMIC_ACQUIRE) < awaited &&
		!__atomic_load_n(&g->schedule->stop, __ATOMIC_RELAXED))
		sched_yield();
}

/*
 * Callgrind collects between two counts of packets: the same work every time. Handing packets out
 * is left out; taking results is not: freeing them is a driver's work that the switch causes.
 */
static uint16_t
give_counted(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	uint64_t from = UINT64_C(4) * g->steps;
	uint16_t n;

	if (g->phase == 0)
		BENCH_COLLECT_TOGGLE;
	keep_step(g);
	if (g->phase < 0 && g->packets >= from) {
		g->phase = 0;
		g->stretch[0].packets_from = g->packets;
	} else if (g->phase == 0 && g->packets >= from + g->work->packets) {
		g->phase = 1;
		g->stretch[0].packets_to = g->packets;
		__atomic_store_n(&g->finished, true, __ATOMIC_RELEASE);
	}
	n = g->finished ? 0 : give_some(g, packets, max);
	if (g->phase == 0)
		BENCH_COLLECT_TOGGLE;
	return n;
}

uint16_t
generator_offer(uint16_t port __rte_unused, uint16_t queue __rte_unused, struct rte_mbuf *packets[],
	uint16_t n __rte_unused, uint16_t max, void *arg)
{
	struct generator *g = arg;
	const struct schedule *schedule = g->schedule;
	uint64_t start = __atomic_load_n(&schedule->start, __ATOMIC_ACQUIRE);
	uint64_t now, begin;
	int phase;

	generator_drain(g);
	if (unlikely(g->resting != NULL)) {
		uint16_t given = resting_give(g->resting, packets, max);

		if (given == 0)
			__atomic_store_n(&g->resting, NULL, __ATOMIC_RELEASE);
		return given;
	}
	if (start == 0 || __atomic_load_n(&schedule->stop, __ATOMIC_RELAXED))
		return 0;
	if (g->auth != NULL && unlikely(!generator_auth_joined(g->auth))) {
		if (g->work->packets != 0)
			keep_step(g); /* a join needs the turns of all */
		return generator_auth_join(g, packets, max);
	}
	if (g->work->packets != 0)
		return give_counted(g, packets, max);
	now = rte_rdtsc();
	if (now < start)
		return give_some(g, packets, max);
	if (unlikely(g->phase < 0))
		perf_counters_open(&g->counters);
	phase = (int)RTE_MIN((now - start) / schedule->length, (uint64_t)schedule->phases);
	if (unlikely(phase != g->phase))
		enter_phase(g, phase);
	if (unlikely(g->phase == (int)schedule->phases)) {
		__atomic_store_n(&g->finished, true, __ATOMIC_RELEASE);
		return 0;
	}
	begin = start + (uint64_t)g->phase * schedule->length;
	if (g->work->beside_no_timers)
		note_gap(g, now);
	if (g->phase % 2 == 0 || g->work->beside_no_timers) {
		watch(g, now, begin);
		return give_some(g, packets, max);
	}
	measure_bare(g, now, begin);
	return 0;
}
