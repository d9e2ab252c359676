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

/* A packet on its way through the steps. */
struct lane {
	const uint8_t *payload;
	const struct flow *flow; /* NULL: the packet has been dropped */
	struct job_shard *js;
	struct slot *slot; /* of its block's residue; NULL: the packet has been left to a thread */
	uint32_t block;
	uint8_t source;
	bool final;
};

/* Contributions to one block that are added together, in order of arrival. */
struct group {
	struct block *block;
	struct job_shard *js;
	uint16_t count;
	uint16_t lane[SUMMED_TOGETHER];
	const void *payload[SUMMED_TOGETHER] __rte_cache_aligned;
};
static_assert(sizeof(struct group) == 128, "two lines");

struct batch {
	unsigned int n; /* lanes */
	unsigned int nb_groups;
	struct rte_mempool *pool; /* of the packets */
	bool mixed; /* but not of all, or some are not direct */
	struct rte_mbuf *packet[LANES]; /* by lane */
	struct lane lane[LANES];
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
		state->left = state->all_left = true; /* a thread finds out whose it is */
		return;
	}
	js = state->job[p[FLOW_JOB_AT]];
	if (js == NULL)
		return;
	mask_set(js->left[by], p[FLOW_SOURCE_AT]);
	state->left = true;
}

/* Has the source left a packet of this turn to a thread? */
static inline bool
was_left(const struct collective *state, const struct job_shard *js, uint8_t source)
{
	return state->all_left || mask_test(js->left[BY_RECOGNIZE], source) ||
		mask_test(js->left[BY_ASSIGN], source);
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
	DROPPED,
};

/* It matches, but belongs to another worker, or batches do not take its kind. */
static __rte_noinline enum fate
other_fate(const struct ppe_worker *worker, const struct job_shard *js, uint32_t residue)
{
	return js->keys != NULL || !flow_is_home(worker, js, residue) ? THREAD : LEFT;
}

/* Fill the lane, whose packet this is. */
static inline enum fate
recognize(struct ppe_worker *worker, struct collective *state, struct batch *batch,
	struct lane *lane, const struct rte_mbuf *packet, uint32_t now)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	struct job_shard *js;
	struct flow *flow;
	uint32_t block, residue;
	uint8_t source;

	if (unlikely(packet->data_len < FLOW_BYTES))
		return LEFT;
	source = p[FLOW_SOURCE_AT];
	js = state->job[p[FLOW_JOB_AT]];
	if (unlikely(js == NULL))
		return LEFT;
	flow = &js->flow[source];
	if (unlikely(!flow_matches(state, flow, packet, p)))
		return LEFT;
	block = flow_block(js, p);
	residue = block & (js->window - 1u);
	if (unlikely(flow->batched != js->version || !flow_is_home(worker, js, residue)))
		return other_fate(worker, js, residue);
	if (unlikely(state->left) && was_left(state, js, source))
		return LEFT;
	batch->mixed |= packet->pool != batch->pool || !RTE_MBUF_DIRECT(packet);
	flow->heard = now;
	lane->payload = p + flow->payload;
	lane->flow = flow;
	lane->js = js;
	lane->slot = &js->slot[residue];
	lane->block = block;
	lane->source = source;
	lane->final = (p[FLOW_FLAGS_AT] & WEIR_FINAL) != 0;
	rte_prefetch0(lane->slot);
	return LANE;
}

static inline void
locate(const struct batch *batch)
{
	for (unsigned int i = 0; i < batch->n; i++) {
		const struct block *b = batch->lane[i].slot->current;

		if (likely(b != NULL))
			rte_prefetch0(b);
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
	thread->head = batch->lane[lane].flow->head;
	thread->head.bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
	return thread;
}

/* Verify the packet's checksums, if software must. False: it has been dropped. */
static inline bool
intact(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	unsigned int i)
{
	return likely(!state->verifies) || checksums_hold(worker, thread_of(state, batch, i));
}

/* Is the block the residue's next one, and has the one before the last been released? */
static inline bool
is_next(const struct lane *lane)
{
	const struct slot *slot = lane->slot;

	return (uint32_t)(lane->block - (uint32_t)slot->next) << lane->js->block_shift == 0 &&
		slot->previous == NULL &&
		(slot->current == NULL || slot->current->state == BLOCK_DONE);
}

/* Open the lane's block. NULL: the packet has been dropped. */
static __rte_noinline struct block *
open_next(struct ppe_worker *worker, struct collective *state, struct batch *batch, unsigned int i)
{
	const struct lane *lane = &batch->lane[i];
	struct job_shard *js = lane->js;
	struct weir_header h = lane->flow->header;
	struct hash_probe probe;
	struct block *b;
	enum ppe_drop reason;

	h.block_id = lane->block;
	h.final = lane->final;
	hash_place(state->blocks, block_key(js->generation, js->job, h.block_id), &probe);
	reason = block_begin(state, js, lane->slot, &h, &probe, worker->now, &b);
	if (likely(reason == PPE_DROP_COUNT))
		return b;
	/* No memory: nothing that the source is told. */
	ppe_drop(worker, thread_of(state, batch, i), reason);
	return NULL;
}

static inline void
join_group(struct batch *batch, unsigned int i, struct block *b)
{
	const struct lane *lane = &batch->lane[i];
	struct group *g = &batch->group[b->group];

	if (unlikely(g->block != b || g->count == SUMMED_TOGETHER)) {
		b->group = (uint8_t)batch->nb_groups;
		g = &batch->group[batch->nb_groups++];
		g->block = b;
		g->js = lane->js;
		g->count = 0;
		rte_prefetch0(&b->buffer);
	}
	g->lane[g->count] = (uint16_t)i;
	g->payload[g->count++] = lane->payload;
}

/* Put a lane into its block's group. LEFT: it is for a thread, and nothing was changed. */
static inline enum fate
assign(struct ppe_worker *worker, struct collective *state, struct batch *batch, unsigned int i)
{
	const struct lane *lane = &batch->lane[i];
	struct block *b = lane->slot->current;
	bool opens = unlikely(b == NULL) || unlikely(b->block_id != lane->block);

	if (unlikely(state->left) && mask_test(lane->js->left[BY_ASSIGN], lane->source))
		return LEFT;
	if (unlikely(opens)) {
		if (unlikely(!is_next(lane)))
			return LEFT;
	} else if (unlikely(b->agreement != lane->flow->agreement[lane->final]) ||
		unlikely(mask_test(b->heard, lane->source))) {
		return LEFT;
	}
	if (unlikely(!intact(worker, state, batch, i)))
		return DROPPED;
	if (unlikely(opens)) {
		b = open_next(worker, state, batch, i);
		if (unlikely(b == NULL))
			return DROPPED;
	}
	mask_set(b->heard, lane->source);
	join_group(batch, i, b);
	return LANE;
}

/* ---- groups ---- */

/* Start to fetch what sum() reads: the hardware prefetcher continues. Payloads begin in a line that has been fetched. */
static inline void
fetch(const struct group *g)
{
	const unsigned int lines = g->block->grad_cnt <= 64 ? 4 : 8;

	rte_prefetch0(rmw_buffer_data(g->block->buffer));
	for (unsigned int i = 0; i < g->count; i++) {
		const uint8_t *payload = g->payload[i];

		for (unsigned int line = 1; line <= lines; line++)
			rte_prefetch0(payload + line * RTE_CACHE_LINE_SIZE);
	}
}

static inline void
sum(const struct group *g)
{
	struct block *b = g->block;

	(b->heard_count == 0 ? b->reduction->begin : b->reduction->reduce)(
		rmw_buffer_data(b->buffer), g->payload, g->count, b->grad_cnt);
	b->heard_count = (uint16_t)(b->heard_count + g->count);
}

/* The block is full: send the result. */
static __rte_noinline void
complete(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	const struct group *g, uint64_t since)
{
	struct job_shard *js = g->js;
	struct block *b = g->block;
	struct ppe_next next;

	source_was_last(
		&js->late[batch->lane[g->lane[g->count - 1]].source], since, worker->now);
	block_finish(state, js, b,
		likely(b->heard_count == js->nb_sources) ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
	if (likely(!block_result_differs(b))) {
		emit_to_all(worker, js, b);
		return;
	}
	next = emit_block(worker, state->batch_thread, b, -1, NULL);
	while (next.run != NULL)
		next = next.run(worker, state->batch_thread);
}

static inline void
finish(struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	struct group *g)
{
	struct block *b = g->block;
	/* The last one waited for the one before it. */
	uint64_t since = g->count > 1 ? worker->now : b->progress;

	b->progress = worker->now;
	g->js->count.contributions += g->count;
	if (block_is_full(g->js, b))
		complete(worker, state, batch, g, since);
	g->block = NULL;
}

/* Free the packets of the lanes; some have been dropped or left to threads, unless `all` is set. */
static inline void
consume(struct ppe_worker *worker, struct batch *batch, bool all)
{
	if (likely(all && !batch->mixed)) {
		worker->count.consumed += batch->n;
		rte_mempool_put_bulk(batch->pool, (void **)batch->packet, batch->n);
		return;
	}
	for (unsigned int i = 0; i < batch->n; i++)
		if (batch->lane[i].flow != NULL && batch->lane[i].slot != NULL)
			ppe_consume_packet(worker, batch->packet[i]);
}

/* Take the lanes through the other steps. false: some packets have been left to threads. */
static inline bool
run(struct ppe_worker *worker, struct collective *state, struct batch *batch)
{
	unsigned int left = 0, dropped = 0;

	locate(batch);
	for (unsigned int i = 0; i < batch->n; i++) {
		enum fate fate = assign(worker, state, batch, i);

		if (likely(fate == LANE))
			continue;
		if (fate == LEFT) {
			leave(state, batch->packet[i], BY_ASSIGN);
			batch->lane[i].slot = NULL;
			left++;
		} else {
			batch->lane[i].flow = NULL;
			dropped++;
		}
	}
	if (batch->nb_groups > 0)
		fetch(&batch->group[0]);
	for (unsigned int g = 0; g < batch->nb_groups; g++) {
		if (g + 1 < batch->nb_groups)
			fetch(&batch->group[g + 1]);
		sum(&batch->group[g]);
		finish(worker, state, batch, &batch->group[g]);
	}
	consume(worker, batch, left + dropped == 0);
	return left == 0;
}

/* Move what is left of n packets from `packets` to `to`: those without a lane, and lanes left to threads. Returns how
 * many. */
static unsigned int
close_up(const struct batch *batch, struct rte_mbuf **packets, unsigned int n, struct rte_mbuf **to)
{
	unsigned int i = 0, left = 0;

	for (unsigned int at = 0; at < n; at++) {
		if (i == batch->n || packets[at] != batch->packet[i])
			to[left++] = packets[at];
		else if (batch->lane[i++].slot == NULL)
			to[left++] = packets[at];
	}
	return left;
}

unsigned int
collective_batch(struct ppe_worker *worker, void *arg, struct rte_mbuf **packets, unsigned int n)
{
	const uint32_t now = heard_now(worker->now);
	struct collective *state = arg;
	struct batch *batch = state->batch;
	unsigned int left = 0;

	batch->pool = packets[0]->pool;
	for (unsigned int from = 0, size; from < n; from += size) {
		unsigned int lanes = 0;

		size = RTE_MIN(RTE_MIN(worker->batch, LANES), n - from);
		batch->nb_groups = 0;
		batch->mixed = false;
		for (unsigned int at = from; at < from + size; at++) {
			enum fate fate = recognize(
				worker, state, batch, &batch->lane[lanes], packets[at], now);

			if (likely(fate == LANE))
				batch->packet[lanes++] = packets[at];
			else if (fate == LEFT && is_for_switch(worker, packets[at]))
				leave(state, packets[at], BY_RECOGNIZE);
		}
		batch->n = lanes;
		if (unlikely((lanes > 0 && !run(worker, state, batch)) || lanes < size))
			left += close_up(batch, packets + from, size, packets + left);
	}
	if (unlikely(state->left))
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
