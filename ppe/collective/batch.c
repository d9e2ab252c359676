/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The usual contributions of a turn, all at once, top to bottom:
 *
 *   recognize  each packet equals its source's last one (flow_cache.c); prefetch the slot of its block
 *   locate     read the slot; prefetch the block's record
 *   assign     block and contribution agree; the first one opens the block; group the packets by block
 *   sum        add a group in one pass over the block's buffer, while the next group is fetched
 *   finish     the group that completes a block fixes and sends its result
 *
 * What this relies on, and what sees to it:
 *   - A packet that any step does not take goes to a thread, which does what the segments in collective.c do. Nothing was
 *     changed for it. So this file answers nobody. It drops packets with wrong checksums, and those of a block for which
 *     there is no memory.
 *   - Nothing overtakes what its source has left behind: after a packet for a thread, all packets of this source in this
 *     turn go to threads (leave()), and the engine calls here only if no thread has a packet (barrel.c).
 *   - The block of a residue is slot->current: only the residue's owner opens blocks, in order. The hash table is used to
 *     open; threads find the same records in it.
 *   - Admission is that of the flow cache: the same version, which jobs with a rate never have. recognize() leaves tagged
 *     packets, and payloads that are not summed as they arrive.
 *   - A block gets its contributions in order of arrival, so the sums are those of threads.
 *
 * The idea of a batch that goes through one step after the other is that of VPP's vectors (fd.io).
 */
#include <errno.h>

#include <rte_malloc.h>

#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/flow_cache_fast.h"

#define LANES           256
#define SUMMED_TOGETHER 8

/* Packets of one block in this batch, in order of arrival. */
struct group {
	struct job_shard *js;
	struct block *block;
	uint16_t first, last, count;
};

struct batch {
	unsigned int n; /* lanes */
	unsigned int nb_groups;
	/* By lane: */
	struct rte_mbuf *packet[LANES];
	uint16_t place[LANES]; /* in the array that was given */
	const void *payload[LANES];
	const struct flow *flow[LANES];
	struct job_shard *js[LANES];
	struct slot *slot[LANES];
	uint32_t block[LANES];
	uint16_t next[LANES]; /* of the same group */
	uint8_t source[LANES];
	bool final[LANES];
	struct group group[LANES];
};

/* ---- order ---- */

/* Who left a packet to a thread, in this turn: recognize(), which knows of all earlier packets, or assign(). */
enum { BY_RECOGNIZE, BY_ASSIGN };

/* The packet goes to a thread, and what its source sends after it, too. */
static __rte_noinline void
leave(struct collective *state, const struct rte_mbuf *packet, unsigned int by)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	struct job_shard *js;

	if (!flow_cache_is_plain(packet)) {
		state->all_left = true; /* a thread finds out whose it is */
		return;
	}
	js = state->job[p[FLOW_JOB_AT]];
	if (js == NULL)
		return;
	mask_set(js->left[by], p[FLOW_SOURCE_AT]);
	state->left = true;
}

/* A frame for another address is no source's. */
static inline bool
is_for_switch(const struct ppe_worker *worker, const struct rte_mbuf *packet)
{
	return packet->data_len < RTE_ETHER_ADDR_LEN ||
		memcmp(rte_pktmbuf_mtod(packet, const uint8_t *), worker->identity->mac,
			RTE_ETHER_ADDR_LEN) == 0;
}

static __rte_noinline void
forget_left(struct collective *state)
{
	for (unsigned int id = 0; id < WEIR_JOBS_MAX; id++)
		if (state->job[id] != NULL)
			memset(state->job[id]->left, 0, sizeof(state->job[id]->left));
	state->left = state->all_left = false;
}

/* ---- steps ---- */

/* What becomes of a packet. */
enum fate {
	LANE, /* it has one */
	THREAD, /* a thread takes it to another worker, or all of its job's: no lane depends on it */
	LEFT, /* a thread takes it, and no later packet of its source may overtake it */
};

static inline enum fate
recognize(struct ppe_worker *worker, struct collective *state, struct batch *batch,
	struct rte_mbuf *packet)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	const struct flow *flow = flow_cache_find(worker, state, packet);
	unsigned int lane = batch->n;
	const struct ppe_job *j;
	struct job_shard *js;
	uint8_t source;
	uint32_t block;

	if (unlikely(flow == NULL || !flow->summed || state->all_left))
		return LEFT;
	j = worker->jobs->by_id[p[FLOW_JOB_AT]];
	js = state->job[p[FLOW_JOB_AT]];
	source = p[FLOW_SOURCE_AT];
	block = ppe_job_block(j, weir_get32(p + FLOW_BLOCK_AT));
	if (unlikely(ppe_job_shard(j, block, worker->workers) != worker->id || js->keys != NULL))
		return THREAD;
	if (unlikely(js->seen[source].admitted != admission_version(worker, js) ||
		    mask_test(js->left[BY_RECOGNIZE], source) ||
		    mask_test(js->left[BY_ASSIGN], source)))
		return LEFT;
	batch->packet[lane] = packet;
	batch->payload[lane] = p + FLOW_JOB_AT + flow->header_bytes;
	batch->source[lane] = source;
	batch->final[lane] = (p[FLOW_FLAGS_AT] & WEIR_FINAL) != 0;
	batch->flow[lane] = flow;
	batch->js[lane] = js;
	batch->block[lane] = block;
	batch->slot[lane] = &js->slot[block & (js->window - 1u)];
	rte_prefetch0(batch->slot[lane]);
	return LANE;
}

static inline void
locate(const struct batch *batch)
{
	for (unsigned int lane = 0; lane < batch->n; lane++) {
		const struct block *b = batch->slot[lane]->current;

		if (likely(b != NULL)) {
			rte_prefetch0(b);
			rte_prefetch0(&b->heard_count);
		}
	}
}

/* Give the packet to the context for calls that take one. */
static struct ppe_thread *
thread_of(struct collective *state, const struct batch *batch, unsigned int lane)
{
	struct ppe_thread *thread = state->batch_thread;
	struct rte_mbuf *packet = batch->packet[lane];

	thread->packet = packet;
	thread->port = packet->port;
	thread->head = batch->flow[lane]->head;
	thread->head.bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
	return thread;
}

/* Verify the packet's checksums, if software must. False: it has been dropped. */
static inline bool
intact(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	unsigned int lane)
{
	return likely(!state->verifies) || checksums_hold(worker, thread_of(state, batch, lane));
}

/* Is the block the residue's next one, and has the one before the last been released? */
static inline bool
is_next(const struct job_shard *js, const struct slot *slot, uint32_t block)
{
	return (uint32_t)(block - (uint32_t)slot->next) << js->block_shift == 0 &&
		slot->previous == NULL &&
		(slot->current == NULL || slot->current->state == BLOCK_DONE);
}

/* Open the lane's block. NULL: the packet has been dropped. */
static __rte_noinline struct block *
open_next(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	unsigned int lane)
{
	struct job_shard *js = batch->js[lane];
	struct contribution c = {.header = batch->flow[lane]->header};
	enum weir_status status;
	enum ppe_drop reason;
	struct block *b;

	c.header.block_id = batch->block[lane];
	c.header.final = batch->final[lane];
	hash_place(state->blocks, block_key(js->generation, js->job, c.header.block_id), &c.probe);
	reason = block_open(state, js, &c, worker->now, &b, &status);
	if (unlikely(b == NULL)) /* no memory: nothing that the source is told */
		ppe_drop(worker, thread_of(state, batch, lane), reason);
	return b;
}

static inline void
join_group(struct batch *batch, unsigned int lane, struct block *b)
{
	unsigned int g = b->group;

	if (g < batch->nb_groups && batch->group[g].block == b) {
		batch->next[batch->group[g].last] = (uint16_t)lane;
		batch->group[g].last = (uint16_t)lane;
		batch->group[g].count++;
		return;
	}
	g = batch->nb_groups++;
	b->group = (uint8_t)g;
	batch->group[g] = (struct group){batch->js[lane], b, (uint16_t)lane, (uint16_t)lane, 1};
}

/* May the contribution be added to its block, which is open or the next one? */
static inline bool
fits(const struct batch *batch, unsigned int lane, const struct block *b, bool opens)
{
	const struct job_shard *js = batch->js[lane];
	uint8_t source = batch->source[lane];

	if (unlikely(mask_test(js->left[BY_ASSIGN], source)))
		return false;
	if (unlikely(opens))
		return is_next(js, batch->slot[lane], batch->block[lane]);
	return likely(b->state == BLOCK_OPEN) && likely(!mask_test(b->heard, source)) &&
		likely(block_agrees(b, &batch->flow[lane]->header)) &&
		likely(b->final == batch->final[lane]);
}

/* Put a lane into its block's group, or drop its packet. False: it is for a thread, and nothing was changed. */
static inline bool
assign(struct ppe_worker *worker, struct collective *state, struct batch *batch, unsigned int lane)
{
	uint8_t source = batch->source[lane];
	struct job_shard *js = batch->js[lane];
	struct block *b = batch->slot[lane]->current;
	bool opens = b == NULL || b->block_id != batch->block[lane];

	if (unlikely(!fits(batch, lane, b, opens)))
		return false;
	if (unlikely(!intact(worker, state, batch, lane)))
		return true;
	if (unlikely(opens)) {
		b = open_next(worker, state, batch, lane);
		if (unlikely(b == NULL))
			return true;
	}
	mask_set(b->heard, source);
	js->seen[source].heard = heard_now(worker->now);
	join_group(batch, lane, b);
	return true;
}

/* ---- groups ---- */

/* Start to fetch what sum() reads: the hardware prefetcher continues. */
static inline void
fetch(const struct batch *batch, const struct group *g)
{
	uint32_t bytes = g->block->grad_cnt * 4u;
	unsigned int lane = g->first;

	rte_prefetch0(rmw_buffer_data(g->block->buffer));
	for (unsigned int i = 0; i < g->count; i++, lane = batch->next[lane]) {
		const uint8_t *payload = batch->payload[lane];

		for (uint32_t at = 0; at < RTE_MIN(bytes, 8u * RTE_CACHE_LINE_SIZE);
			at += RTE_CACHE_LINE_SIZE)
			rte_prefetch0(payload + at);
	}
}

static inline void
sum(const struct batch *batch, const struct group *g)
{
	struct block *b = g->block;
	const void *src[SUMMED_TOGETHER];
	unsigned int lane = g->first;

	for (unsigned int done = 0; done < g->count;) {
		unsigned int n = RTE_MIN(g->count - done, (unsigned int)SUMMED_TOGETHER);

		for (unsigned int i = 0; i < n; i++, lane = batch->next[lane])
			src[i] = batch->payload[lane];
		(b->heard_count == 0 ? b->reduction->begin : b->reduction->reduce)(
			rmw_buffer_data(b->buffer), src, n, b->grad_cnt);
		b->heard_count = (uint16_t)(b->heard_count + n);
		done += n;
	}
}

/* The block is full: send the result. */
static __rte_noinline void
complete(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	const struct group *g, uint64_t since)
{
	struct job_shard *js = g->js;
	struct block *b = g->block;

	source_was_last(&js->late[batch->source[g->last]], since, worker->now);
	block_finish(state, js, b,
		likely(b->heard_count == js->nb_sources) ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
	emit_block(worker, state->batch_thread, b, -1, NULL);
	while (emit(worker, state->batch_thread).run != NULL)
		;
}

static inline void
finish(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	const struct group *g)
{
	struct block *b = g->block;
	/* The last one waited for the one before it. */
	uint64_t since = g->count > 1 ? worker->now : b->progress;

	b->progress = worker->now;
	g->js->count.contributions += g->count;
	for (unsigned int i = 0, lane = g->first; i < g->count; i++, lane = batch->next[lane])
		ppe_consume_packet(worker, batch->packet[lane]);
	if (block_is_full(g->js, b))
		complete(worker, state, batch, g, since);
}

static void
run(struct ppe_worker *worker, struct collective *state, struct batch *batch,
	struct rte_mbuf **packets)
{
	locate(batch);
	for (unsigned int lane = 0; lane < batch->n; lane++) {
		if (likely(assign(worker, state, batch, lane)))
			packets[batch->place[lane]] = NULL;
		else
			leave(state, batch->packet[lane], BY_ASSIGN);
	}
	for (unsigned int g = 0; g < batch->nb_groups; g++) {
		if (g == 0)
			fetch(batch, &batch->group[0]);
		if (g + 1 < batch->nb_groups)
			fetch(batch, &batch->group[g + 1]);
		sum(batch, &batch->group[g]);
		finish(worker, state, batch, &batch->group[g]);
	}
}

unsigned int
collective_batch(struct ppe_worker *worker, void *arg, struct rte_mbuf **packets, unsigned int n)
{
	struct collective *state = arg;
	struct batch *batch = state->batch;
	unsigned int left = 0;

	for (unsigned int from = 0, end; from < n; from = end) {
		end = RTE_MIN(from + RTE_MIN(worker->batch, LANES), n);
		batch->n = batch->nb_groups = 0;
		for (unsigned int at = from; at < end; at++) {
			enum fate fate = recognize(worker, state, batch, packets[at]);

			if (likely(fate == LANE))
				batch->place[batch->n++] = (uint16_t)at;
			else if (fate == LEFT && is_for_switch(worker, packets[at]))
				leave(state, packets[at], BY_RECOGNIZE);
		}
		run(worker, state, batch, packets);
		for (unsigned int at = from; at < end; at++)
			if (unlikely(packets[at] != NULL))
				packets[left++] = packets[at];
	}
	if (unlikely(state->left || state->all_left))
		forget_left(state);
	return left;
}

int
collective_batch_create(struct collective *state, int socket)
{
	state->batch = rte_zmalloc_socket("weir_batch", sizeof(*state->batch), 64, socket);
	/* Of the first program, as all that have batches. */
	state->batch_thread =
		rte_zmalloc_socket("weir_batch_thread", sizeof(*state->batch_thread), 64, socket);
	return state->batch == NULL || state->batch_thread == NULL ? -ENOMEM : 0;
}

void
collective_batch_destroy(struct collective *state)
{
	rte_free(state->batch);
	rte_free(state->batch_thread);
}
