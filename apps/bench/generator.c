/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's half: contributions or ordinary frames in, results out, and the bare kernel. See generator.h. */
#include "apps/bench/generator.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_malloc.h>
#include <rte_ring.h>

#include "apps/bench/generator_priv.h"

#define BURST             64
#define BATCH             64 /* packets between looks at the clock */
#define PREFETCH          1024u /* bytes of a payload: 7 % faster at 4 KiB than without, as 32 lines are */
#define TOGETHER          8u /* contributions that bare k-way adds in a pass, as the switch does */
#define TOGETHER_PREFETCH 512u /* bytes of each of their payloads */
#define VERIFY_EACH       1024 /* after the warm-up; a power of two: the check costs nothing so */
#define REST              2 /* turns before a lone block's last contribution */

/* The place in the lap after this one. */
static inline unsigned int
after(const struct generator *g, unsigned int at)
{
	return ++at == g->steps ? 0 : at;
}

/* The worker whose shard gets the next block. */
static unsigned int
choose_shard(struct generator *g)
{
	unsigned int n = g->work->workers;
	double chance;

	if (n == 1 || g->work->far <= 0)
		return g->id;
	chance = (double)(bench_random(&g->random) >> 11) / (double)(UINT64_C(1) << 53);
	if (chance >= g->work->far)
		return g->id;
	return (g->id + 1 + (unsigned int)(bench_random(&g->random) % (n - 1))) % n;
}

/* The next block of a shard: its residues go round, each with its next multiple of the window. */
static void
next_block(struct generator *g, const struct step *step)
{
	struct slot *slot = &g->slot[step->slot];
	uint32_t *last = &slot->job->last[choose_shard(g)];
	struct residue *residue;

	*last = slot->job->residue[*last].next;
	residue = &slot->job->residue[*last];
	residue->slot = step->slot;
	slot->block = *last + residue->lap++ * g->work->window;
	slot->row = step->frame - step->source;
	slot->given = 0;
}

/* What the next call will write to, as a driver prefetches the mbufs behind its next
 * descriptors. */
static inline void
prefetch(const struct generator *g, unsigned int n)
{
	unsigned int payload_bytes = g->work->elements * weir_dtype_bytes(g->work->type);

	for (unsigned int i = 0, at = g->at; i < n; i++, at = after(g, at)) {
		unsigned int frame = g->step[at].frame;

		rte_prefetch0(g->frames->mbuf[frame]);
		rte_prefetch0(g->frames->payload[frame] - WEIR_BASE_BYTES);
		if (g->work->authenticated || g->work->checked)
			rte_prefetch0(g->frames->payload[frame] + payload_bytes);
	}
}

/* More per tag was an interruption, which the CPU time leaves out anyway. */
#define TAG_CYCLES 2000

/* What the hosts of a job with tags or CRCs do before they send. */
static void
end_all(struct generator *g, struct rte_mbuf **packets, uint16_t n)
{
	uint64_t began = rte_rdtsc();

	for (uint16_t i = 0; i < n; i++)
		frames_end(g->frames, packets[i]);
	g->aside += RTE_MIN(rte_rdtsc() - began, (uint64_t)n * TAG_CYCLES);
}

/* May the contribution be given: is its block under way, or can it be? */
static inline bool
is_open(struct generator *g, const struct step *step)
{
	uint32_t *results = &g->done[step->slot].results;

	if (likely(g->slot[step->slot].given < g->work->sources))
		return true;
	if (__atomic_load_n(results, __ATOMIC_ACQUIRE) != g->results_per_block)
		return false;
	__atomic_store_n(results, 0, __ATOMIC_RELAXED);
	next_block(g, step);
	return true;
}

/* The next contribution of the lap, whose slot is open. */
static inline struct rte_mbuf *
give_next(struct generator *g)
{
	const struct step *step = &g->step[g->at];

	g->slot[step->slot].given++;
	g->packets++;
	g->at = after(g, g->at);
	return frames_take(g->frames, step->frame, g->slot[step->slot].block);
}

/* The next ones, up to `max` and up to a slot whose results have not all left. */
static uint16_t
give(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	uint16_t n = 0;

	while (n < max && is_open(g, &g->step[g->at]))
		packets[n++] = give_next(g);
	if (g->work->authenticated || g->work->checked)
		end_all(g, packets, n);
	prefetch(g, max);
	return n;
}

/* Ordinary frames: the next ones, up to `max` and up to a window under way. */
static uint16_t
give_ordinary(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	uint16_t n = 0;

	for (; n < max && g->packets - g->forwarded < g->under_way; n++) {
		packets[n] = g->frames->mbuf[g->step[g->at].frame];
		g->packets++;
		g->at = after(g, g->at);
	}
	return n;
}

/* One block at a time: all but the last contribution, and after a rest the last one. */
static uint16_t
give_lone(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	unsigned int last = g->work->sources - 1, *given = &g->slot[0].given;
	struct lone *lone = g->lone;
	uint16_t n = 0;

	if (lone->samples == LONE_SAMPLES) {
		__atomic_store_n(&g->finished, true, __ATOMIC_RELEASE);
		return 0;
	}
	if (!is_open(g, &g->step[g->at]))
		return 0;
	if (*given == last && lone->rested++ < REST)
		return 0;
	while (n < max && (*given < last || n == 0))
		packets[n++] = give_next(g);
	if (*given > last) {
		lone->rested = 0;
		lone->began = rte_rdtsc();
	}
	return n;
}

static inline uint16_t
give_some(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	return g->work->forward ? give_ordinary(g, packets, max) : give(g, packets, max);
}

static __rte_noinline void
take_ordinary(struct generator *g, const struct rte_mbuf *packet, unsigned int port)
{
	const uint8_t *f = rte_pktmbuf_mtod(packet, const uint8_t *);
	uint8_t to[6];

	/* A copy of a flood: before the station is known, and the frame that makes it known. */
	if (port != g->work->workers)
		return;
	g->forwarded++;
	if (likely(g->phase >= 0))
		return;
	frames_station(to, g->work->workers, 0);
	g->verified++;
	g->wrong += packet->pkt_len != g->frames->bytes || memcmp(f, to, 6) != 0;
}

/* Is it the result of the slot's block, of all sources, and its payload the sum, or what the parent has answered?
 * up: the contribution upward, with the sum. */
static bool
right(const struct generator *owner, const struct rte_mbuf *result, const struct slot *slot,
	bool up)
{
	const struct generator_work *w = owner->work;
	/* Frames of its length, and frames of its payload. */
	const struct frames *sized = up ? owner->answers : owner->frames;
	const struct frames *summed =
		owner->answers != NULL && !up ? owner->answers : owner->frames;
	const uint8_t *header = rte_pktmbuf_mtod_offset(result, const uint8_t *, FRAME_HEADERS);
	struct weir_header h = {.extended = w->authenticated || w->role == ROLE_SPINE || up};
	const uint8_t *payload = header + weir_header_bytes(h.extended);
	unsigned int ranks = summed->config.answers ? summed->config.tree_ranks
		: w->role == ROLE_SPINE             ? w->sources * w->ranks
						    : w->sources;

	weir_header_read(&h, header);
	if (h.block_id != slot->block || h.status != WEIR_STATUS_OK || h.degraded ||
		h.src_cnt != (uint8_t)ranks || h.grad_cnt != w->elements)
		return false;
	/* Tests verify the tag or CRC itself. */
	if (result->nb_segs == 2)
		payload = rte_pktmbuf_mtod(result->next, const uint8_t *);
	return result->pkt_len == sized->bytes &&
		memcmp(payload, summed->expected[slot->row / w->sources],
			w->elements * weir_dtype_bytes(w->type)) == 0;
}

static __rte_noinline void
sample_lone(struct lone *lone, uint64_t now)
{
	if (lone->samples < LONE_SAMPLES) {
		lone->whole[lone->samples] = (double)(now - lone->began);
		lone->up[lone->samples++] = (double)(lone->left - lone->began);
	}
	lone->began = 0;
}

static inline void
take_result(struct generator *g, const struct rte_mbuf *result, uint64_t now)
{
	const uint8_t *header = rte_pktmbuf_mtod_offset(result, const uint8_t *, FRAME_HEADERS);
	struct generator_job *job = g->job_by_id[header[0]];
	struct generator *owner = job->owner;
	uint32_t block = weir_get32(header + 1);
	unsigned int slot = job->residue[block & (owner->work->window - 1)].slot;
	struct slot_done *done = &owner->done[slot];

	if (unlikely(g->phase < 0 || (++g->results & (VERIFY_EACH - 1)) == 0)) {
		g->verified++;
		g->wrong += !right(owner, result, &owner->slot[slot], false);
	}
	if (unlikely(g->lone != NULL && g->lone->began != 0))
		sample_lone(g->lone, now);
	/* Release: the frames of the block have been freed before the slot is seen to be done. */
	__atomic_store_n(&done->results, done->results + 1, __ATOMIC_RELEASE);
}

/* A contribution to the parent. */
static void
take_up(struct generator *g, const struct rte_mbuf *packet, uint64_t now)
{
	const uint8_t *header = rte_pktmbuf_mtod_offset(packet, const uint8_t *, FRAME_HEADERS);
	struct generator_job *job = g->job_by_id[header[0]];
	uint32_t slot = job->residue[weir_get32(header + 1) & (g->work->window - 1)].slot;
	unsigned int slots = g->work->depth * g->work->jobs, i = g->first_up + g->nb_up++;

	if (unlikely(g->phase < 0 || (++g->ups & (VERIFY_EACH - 1)) == 0)) {
		g->verified++;
		g->wrong += !right(g, packet, &g->slot[slot], true);
	}
	if (g->lone != NULL)
		g->lone->left = now;
	g->up[i < slots ? i : i - slots] = slot;
}

uint16_t
generator_answer(uint16_t port __rte_unused, uint16_t queue __rte_unused,
	struct rte_mbuf *packets[], uint16_t n __rte_unused, uint16_t max, void *arg)
{
	struct generator *g = arg;
	bool counted = g->work->packets != 0 && g->phase == 0;
	uint16_t given = 0;

	if (counted)
		BENCH_COLLECT_TOGGLE;
	for (; given < max && g->nb_up > 0; given++, g->nb_up--) {
		const struct slot *slot = &g->slot[g->up[g->first_up]];

		g->first_up =
			g->first_up + 1 == g->work->depth * g->work->jobs ? 0 : g->first_up + 1;
		packets[given] = frames_take(g->answers, slot->row / g->work->sources, slot->block);
		if (g->work->checked)
			frames_end(g->answers, packets[given]);
	}
	if (counted)
		BENCH_COLLECT_TOGGLE;
	return given;
}

void
generator_drain(struct generator *g)
{
	struct rte_mbuf *results[BURST];
	uint64_t now = g->lone != NULL ? rte_rdtsc() : 0;

	for (unsigned int p = 0; p < g->nb_ports; p++) {
		unsigned int n;

		do {
			n = rte_ring_sc_dequeue_burst(g->out[p], (void **)results, BURST, NULL);
			for (unsigned int i = 0; i < n; i++) {
				if (g->work->forward)
					take_ordinary(g, results[i], p);
				else if (g->answers != NULL && p == g->work->workers)
					take_up(g, results[i], now);
				else
					take_result(g, results[i], now);
			}
			rte_pktmbuf_free_bulk(results, n);
		} while (n == BURST);
	}
}

static struct stamp
stamp(const struct generator *g, uint64_t packets)
{
	return (struct stamp){.packets = packets,
		.tsc = rte_rdtsc() - g->aside,
		.cpu_ns = bench_cpu_ns() -
			(uint64_t)((double)g->aside * 1e9 / (double)rte_get_tsc_hz())};
}

/* A new phase begins; the last one, if it was the switch's and is still open, ends here. */
static void
enter_phase(struct generator *g, int phase)
{
	if (g->phase >= 0 && g->phase % PHASES == PHASE_SWITCH) {
		struct stretch *last = &g->stretch[g->phase];

		if (last->from.cpu_ns != 0 && last->to.cpu_ns == 0)
			last->to = stamp(g, g->packets);
	}
	g->phase = phase;
}

/* The first tenth of a phase warms the caches again, and in the last twentieth other workers may
 * have stopped: neither is counted. */
static void
watch(struct generator *g, uint64_t now, uint64_t begin)
{
	struct stretch *s = &g->stretch[g->phase];
	uint64_t length = g->schedule->length;

	if (s->from.cpu_ns == 0 && now - begin >= length / 10)
		s->from = stamp(g, g->packets);
	else if (s->to.cpu_ns == 0 && s->from.cpu_ns != 0 && now - begin >= length - length / 20)
		s->to = stamp(g, g->packets);
}

int
bare_create(struct bare *bare, const struct generator_work *work)
{
	unsigned int n = (work->depth + work->window) * work->jobs + 1;
	/* A line apart, as DataMemory's headers keep them. */
	size_t bytes = 64 +
		RTE_ALIGN(work->elements * weir_dtype_bytes(work->type) + WEIR_BITMAP_BYTES, 64u);

	bare->nb_kept = work->window * work->jobs;
	bare->memory = rte_malloc("bare", n * bytes, 4096);
	bare->free = calloc(n, sizeof(*bare->free));
	bare->kept = calloc(bare->nb_kept, sizeof(*bare->kept));
	if (bare->memory == NULL)
		return -1;
	/* The first buffer on top. */
	for (unsigned int i = n; i-- > 0;)
		bare->free[bare->nb_free++] = bare->memory + i * bytes;
	bare->reduction = rmw_reduction(work->type, WEIR_OP_SUM);
	bare->copy = rmw_kernel_copy();
	return 0;
}

void
bare_destroy(struct bare *bare)
{
	rte_free(bare->memory);
	free(bare->free);
	free(bare->kept);
}

static void
bare_finish(struct bare *bare, uint8_t *buffer)
{
	uint8_t **kept = &bare->kept[bare->next_kept];

	bare->next_kept = bare->next_kept + 1 == bare->nb_kept ? 0 : bare->next_kept + 1;
	if (*kept != NULL)
		bare->free[bare->nb_free++] = *kept;
	*kept = buffer;
}

/* The switch has its next payloads prefetched, and so has this: the limit is the best that is
 * known. */
static inline void
bare_prefetch(const uint8_t *payload, unsigned int bytes)
{
	for (unsigned int at = 0; at < RTE_MIN(bytes, PREFETCH); at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(payload + at);
}

static inline void
bare_one(struct generator *g, struct slot *slot, const uint8_t *from)
{
	struct bare *bare = &g->bare;
	unsigned int elements = g->work->elements;

	if (slot->left == 0) {
		slot->left = g->work->sources;
		slot->buffer = bare->free[--bare->nb_free];
		bare->copy(slot->buffer, from, elements * (size_t)4);
	} else {
		bare->reduction->reduce(slot->buffer, (const void *[]){from}, 1, elements);
	}
	if (--slot->left == 0)
		bare_finish(bare, slot->buffer);
	bare->packets++;
}

static void
bare_run(struct generator *g, uint64_t end)
{
	unsigned int bytes = g->work->elements * weir_dtype_bytes(g->work->type);
	struct bare *bare = &g->bare;
	const uint8_t *next = g->frames->payload[g->step[bare->at].frame];

	while (rte_rdtsc() < end) {
		for (unsigned int i = 0; i < BATCH; i++) {
			struct slot *slot = &g->slot[g->step[bare->at].slot];
			const uint8_t *from = next;

			bare->at = after(g, bare->at);
			next = g->frames->payload[g->step[bare->at].frame];
			bare_prefetch(next, bytes);
			bare_one(g, slot, from);
		}
	}
}

/* Sum a row of frames, TOGETHER in a pass; the first payloads of the next pass are fetched meanwhile. */
static inline void
bare_row(struct generator *g, unsigned int first, unsigned int next_row)
{
	unsigned int elements = g->work->elements, sources = g->work->sources, n;
	unsigned int bytes = elements * weir_dtype_bytes(g->work->type);
	struct bare *bare = &g->bare;
	uint8_t *buffer = bare->free[--bare->nb_free];
	const void *from[TOGETHER];

	for (unsigned int at = 0; at < sources; at += n) {
		unsigned int next = at + TOGETHER < sources ? first + at + TOGETHER : next_row;

		n = RTE_MIN(sources - at, TOGETHER);
		for (unsigned int i = 0; i < n; i++)
			from[i] = g->frames->payload[first + at + i];
		for (unsigned int i = 0; i < RTE_MIN(sources, TOGETHER) && next + i < g->steps; i++)
			bare_prefetch(
				g->frames->payload[next + i], RTE_MIN(bytes, TOGETHER_PREFETCH));
		(at == 0 ? bare->reduction->begin : bare->reduction->reduce)(
			buffer, from, n, elements);
	}
	bare_finish(bare, buffer);
	bare->packets += sources;
}

/* Block by block, all contributions to one together. */
static void
bare_run_together(struct generator *g, uint64_t end)
{
	while (rte_rdtsc() < end) {
		for (unsigned int i = 0; i < BATCH; i += g->work->sources) {
			unsigned int first = g->bare.row;

			g->bare.row =
				first + g->work->sources == g->steps ? 0 : first + g->work->sources;
			bare_row(g, first, g->bare.row);
		}
	}
}

static void
measure_bare(struct generator *g, uint64_t now, uint64_t begin)
{
	void (*bare)(struct generator * g, uint64_t end) =
		g->phase % PHASES == PHASE_BARE ? bare_run : bare_run_together;
	struct stretch *s = &g->stretch[g->phase];

	bare(g, now + g->schedule->length / 20);
	s->from = stamp(g, g->bare.packets);
	bare(g, begin + g->schedule->length);
	s->to = stamp(g, g->bare.packets);
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
	/* Release: the next worker sees what this turn has handed over. */
	__atomic_store_n(&g->turns, turn, __ATOMIC_RELEASE);
	while (__atomic_load_n(&before->turns, __ATOMIC_ACQUIRE) < awaited &&
		!__atomic_load_n(&g->schedule->stop, __ATOMIC_RELAXED))
		sched_yield();
}

/*
 * Callgrind collects between two counts of packets: the same work every time. Handing packets out
 * is left out; taking results is not: freeing them is a driver's work that the switch causes. Before
 * each end a poll gives nothing, so the turn processes what it has, and no packet is counted that is not processed.
 */
static uint16_t
give_counted(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	uint64_t end = UINT64_C(4) * g->under_way; /* of the warm-up, then of what is counted */
	uint16_t n;

	if (g->phase == 0)
		BENCH_COLLECT_TOGGLE;
	keep_step(g);
	if (g->phase == 0)
		end = g->stretch[0].from.packets + g->work->packets;
	g->pausing = g->phase <= 0 && g->packets >= end && !g->pausing;
	if (!g->pausing && g->phase < 0 && g->packets >= end) {
		g->phase = 0;
		g->stretch[0].from = stamp(g, g->packets);
	} else if (!g->pausing && g->phase == 0 && g->packets >= end) {
		g->phase = 1;
		g->stretch[0].to = stamp(g, g->packets);
		__atomic_store_n(&g->finished, true, __ATOMIC_RELEASE);
	}
	n = g->finished || g->pausing ? 0 : give_some(g, packets, max);
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
	if (start == 0 || __atomic_load_n(&schedule->stop, __ATOMIC_RELAXED))
		return 0;
	if (g->lone != NULL)
		return give_lone(g, packets, max);
	if (g->work->packets != 0)
		return give_counted(g, packets, max);
	now = rte_rdtsc();
	if (now < start)
		return give_some(g, packets, max);
	phase = (int)RTE_MIN((now - start) / schedule->length, (uint64_t)schedule->phases);
	if (unlikely(phase != g->phase))
		enter_phase(g, phase);
	if (unlikely(g->phase == (int)schedule->phases)) {
		__atomic_store_n(&g->finished, true, __ATOMIC_RELEASE);
		return 0;
	}
	begin = start + (uint64_t)g->phase * schedule->length;
	if (g->phase % PHASES == PHASE_SWITCH) {
		watch(g, now, begin);
		return give_some(g, packets, max);
	}
	measure_bare(g, now, begin);
	return 0;
}
