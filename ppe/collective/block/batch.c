/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The usual contributions of a turn, all at once, top to bottom:
 *
 *   recognize  each packet looks like its source's last packet (flow_cache.c); prefetch the slot of
 *              its block, or give the packet to the worker that owns it
 *   locate     read the slot; prefetch the block's record
 *   assign     block and contribution agree; the first contribution opens the block; group the
 *              packets by block
 *   verify     checksums of a group, where software must, and CRCs
 *   sum        add a group in one pass over the block's buffer, while the next group is fetched
 *   finish     the group that completes a block fixes its result
 *   emit       send all results (result.c)
 *   consume    free the packets
 *
 * Invariants, and the code that keeps them:
 *   - A packet that a step does not take goes to a thread, which runs the segments of admit.c and
 *     contribution.c. The batch has changed nothing for it. So this file sends no replies. It drops
 *     only packets with wrong checksums or CRCs.
 *   - No packet overtakes an earlier packet of its source: after a packet for a thread, the next
 *     packets of its source are followers (leave()). The engine gives them back when that thread
 *     has ended, and calls here only if no thread has a packet (barrel.c).
 *   - The block of a residue is slot->current: only the residue's owner opens blocks, in order. The
 *     hash table is used to open; threads find the same records in it.
 *   - The flow cache's version admits packets. It never admits packets of jobs with a rate.
 *     recognize() leaves tagged packets, and payloads that are not summed as they arrive.
 *   - A block gets its contributions in order of arrival, so threads would compute equal sums.
 *
 * Like VPP's vectors (fd.io), all packets of a batch complete a step before the next step begins.
 */
#include <errno.h>

#include <rte_malloc.h>

#include "pktbuf/wire/crc32c.h"
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/collective/block/flow_cache_fast.h"

#define LANES           256
#define SUMMED_TOGETHER 8
#define A_FOLLOWER      ((uintptr_t)1) /* marks a packet's pointer */

enum fate {
	LANE, /* its fields are in a lane */
	DROPPED,
	HOPPED, /* to the worker that owns its residue */
	THREAD, /* threads take all packets of its job: it has keys, an order or a rate */
	LEFT, /* a thread takes it */
	FOLLOWER, /* it waits for an earlier packet of its source that a thread has */
};

/* A packet on its way through the steps. */
struct lane {
	const uint8_t *payload;
	const struct flow *flow;
	struct slot *slot; /* of its block's residue */
	uint64_t agreement; /* of its block */
	struct lane *before; /* the lane before it in its group, once it has a group */
	uint32_t block;
	uint8_t source;
	uint8_t fate; /* enum fate */
};

/* Contributions to one block that are added together, in order of arrival. */
struct group {
	struct block *block;
	struct job_shard *js;
	struct lane *last;
	unsigned int count;
	const void *payload[SUMMED_TOGETHER] __rte_cache_aligned;
};
static_assert(sizeof(struct group) == 2 * RTE_CACHE_LINE_SIZE, "two lines");

struct batch {
	unsigned int n; /* lanes */
	unsigned int nb_groups, nb_done;
	struct rte_mbuf *packet[LANES]; /* by lane */
	struct lane lane[LANES];
	struct group group[LANES];
	struct block *done[LANES]; /* whose results are to be sent */
	unsigned int nb_followers;
	/* Wait for a thread with a packet of their source. */
	struct rte_mbuf *follower[PPE_BACKLOG];
};

/* ---- order ---- */

/* The step that left a packet to a thread: recognize(), which has seen all earlier packets, or
 * assign(). */
enum { BY_RECOGNIZE, BY_ASSIGN };

/* Leave the packet to a thread. Later packets of its source become followers. */
static __rte_noinline void
leave(struct collective *state, const struct rte_mbuf *packet, unsigned int by)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	struct job_shard *js;

	if (!flow_cache_is_plain(packet)) {
		/* Only a thread can find its source. */
		state->followers = RTE_MAX(state->followers, FOLLOWERS_TO_SWITCH);
		return;
	}
	js = state->job[p[FLOW_JOB_AT]];
	if (js == NULL)
		return;
	mask_set(js->left[by], p[FLOW_SOURCE_AT]);
	state->followers = RTE_MAX(state->followers, FOLLOWERS_OF_SOURCES);
	if (!js->has_left) {
		js->has_left = true;
		state->left_job[state->nb_left_jobs++] = js;
	}
}

/* Was a packet of the source left to a thread? */
static __rte_noinline bool
was_left(const struct collective *state, const struct job_shard *js, uint8_t source)
{
	return state->followers >= FOLLOWERS_TO_SWITCH ||
		mask_test(js->left[BY_RECOGNIZE], source) || mask_test(js->left[BY_ASSIGN], source);
}

/* Is the frame for another address? Then no source of this switch sent it. */
static bool
is_for_another(const struct ppe_worker *worker, const struct rte_mbuf *packet)
{
	return packet->data_len >= RTE_ETHER_ADDR_LEN &&
		memcmp(rte_pktmbuf_mtod(packet, const uint8_t *), worker->identity->mac,
			RTE_ETHER_ADDR_LEN) != 0;
}

/* Is the packet for the port for parents? Then no source sent it. */
static bool
is_from_parent(const struct rte_mbuf *packet)
{
	return flow_cache_is_plain(packet) &&
		weir_get16(rte_pktmbuf_mtod(packet, const uint8_t *) + FLOW_JOB_AT - 6) ==
		WEIR_PORT_UP;
}

/* May an earlier packet of this packet's source have been left to a thread? */
static bool
may_follow(const struct collective *state, const struct rte_mbuf *packet)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	const struct job_shard *js;

	if (state->followers != FOLLOWERS_OF_SOURCES || !flow_cache_is_plain(packet))
		return state->followers != FOLLOWERS_NONE;
	js = state->job[p[FLOW_JOB_AT]];
	return js != NULL && was_left(state, js, p[FLOW_SOURCE_AT]);
}

/* assign() has left packets of this batch. May one of them have the same source as this packet,
 * which recognize() left? */
static bool
may_follow_lane(const struct ppe_worker *worker, const struct collective *state,
	const struct rte_mbuf *packet)
{
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	const struct job_shard *js;

	if (is_for_another(worker, packet) || is_from_parent(packet))
		return false;
	if (!flow_cache_is_plain(packet))
		return true;
	js = state->job[p[FLOW_JOB_AT]];
	return js != NULL && mask_test(js->left[BY_ASSIGN], p[FLOW_SOURCE_AT]);
}

/* Leave a packet that is not recognized; it may not be from a source. */
static __rte_noinline enum fate
leave_unrecognized(
	const struct ppe_worker *worker, struct collective *state, const struct rte_mbuf *packet)
{
	enum fate fate;

	if (is_for_another(worker, packet) || is_from_parent(packet))
		return state->followers == FOLLOWERS_ALL ? FOLLOWER : LEFT;
	fate = may_follow(state, packet) ? FOLLOWER : LEFT;
	leave(state, packet, BY_RECOGNIZE);
	if (packet->data_len < RTE_ETHER_ADDR_LEN)
		state->followers = FOLLOWERS_ALL;
	return fate;
}

static __rte_noinline void
forget_left(struct collective *state)
{
	while (state->nb_left_jobs > 0) {
		struct job_shard *js = state->left_job[--state->nb_left_jobs];

		memset(js->left, 0, sizeof(js->left));
		js->has_left = false;
	}
	state->followers = FOLLOWERS_NONE;
}

/* ---- steps ---- */

/* Pass the packet to its residue's worker. LANE: this worker owns the residue. */
static __rte_noinline enum fate
pass_on(struct ppe_worker *worker, const struct job_shard *js, uint32_t residue,
	struct rte_mbuf *packet)
{
	unsigned int owner = ppe_residue_shard(js->job, residue, worker->workers);

	if (owner == worker->id)
		return LANE;
	ppe_hop_packet(worker, (uint16_t)owner, packet, js->serial);
	return HOPPED;
}

/* Fill the packet's lane. */
static inline enum fate
recognize(struct ppe_worker *worker, struct collective *state, struct lane *lane,
	struct rte_mbuf *packet)
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
	/* Keep the address in a register, instead of a sum in each access. */
	__asm__("" : "+r"(flow));
	if (unlikely(!flow_matches(flow, packet, p)))
		return LEFT;
	block = flow_block(js, p);
	residue = block & js->residue_mask;
	if (unlikely(state->followers != FOLLOWERS_NONE) && was_left(state, js, source))
		return FOLLOWER;
	if (unlikely((residue & js->home_mask) != js->home_bits) &&
		pass_on(worker, js, residue, packet) == HOPPED)
		return HOPPED;
	if (unlikely(flow->batched != js->version))
		return js->keys != NULL || js->ordered || js->rate_mbit != 0 ? THREAD : LEFT;
	if (unlikely(packet->pool != state->batch_pool) || unlikely(packet->ol_flags >> 61 != 0))
		state->batch_mixed = true;
	flow->heard = state->batch_time;
	lane->payload = p + flow->payload;
	lane->flow = flow;
	lane->slot = &js->slot[residue];
	lane->agreement = flow->agreement[p[FLOW_FLAGS_AT] / WEIR_FINAL % 2];
	lane->block = block;
	lane->source = source;
	lane->fate = LANE;
	rte_prefetch0(lane->slot);
	return LANE;
}

static inline void
locate(const struct batch *batch)
{
	for (const struct lane *lane = batch->lane; lane < batch->lane + batch->n; lane++)
		rte_prefetch0(lane->slot->current);
}

static inline struct job_shard *
job_of(const struct collective *state, const struct lane *lane)
{
	return state->job[lane->flow->header.job_id];
}

/* May the block be opened: is it the residue's next block, and slot->previous released? */
static inline bool
is_next(const struct job_shard *js, const struct lane *lane)
{
	const struct slot *slot = lane->slot;

	return (uint32_t)(lane->block - (uint32_t)slot->next) << js->block_shift == 0 &&
		slot->previous == NULL &&
		(slot->current == NULL || slot->current->state == BLOCK_DONE);
}

/* Put the lane's packet into the thread context, for calls that take a thread. */
static struct ppe_thread *
thread_of(struct collective *state, const struct batch *batch, const struct lane *lane)
{
	struct ppe_thread *thread = state->batch_thread;
	struct rte_mbuf *packet = batch->packet[lane - batch->lane];

	thread->packet = packet;
	thread->port = packet->port;
	thread->head = lane->flow->head;
	thread->head.bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
	return thread;
}

/* Open the lane's block if it is the next block. NULL: a thread finds out why it is not. */
static __rte_noinline struct block *
open_next(const struct ppe_worker *worker, struct collective *state, const struct batch *batch,
	const struct lane *lane)
{
	struct job_shard *js = job_of(state, lane);
	struct weir_header h = lane->flow->header;
	struct hash_probe probe;
	struct block *b;

	if (unlikely(!is_next(js, lane)) ||
		(unlikely(state->verifies) &&
			checksums_verdict(worker, thread_of(state, batch, lane)) !=
				PKTBUF_CHECKSUM_GOOD))
		return NULL;
	h.block_id = lane->block;
	hash_place(state->blocks, block_key(js->hop.generation, js->job, h.block_id), &probe);
	if (unlikely(block_begin(state, js, lane->slot, &h, lane->agreement, &probe, worker->now,
			     &b) != PPE_DROP_COUNT))
		return NULL;
	return b;
}

static inline void
join_group(const struct collective *state, struct batch *batch, struct lane *lane, struct block *b)
{
	struct group *g = &batch->group[b->group];

	if (unlikely(g->block != b || g->count == SUMMED_TOGETHER)) {
		b->group = (uint8_t)batch->nb_groups;
		g = &batch->group[batch->nb_groups++];
		g->block = b;
		g->js = state->job[b->job];
		g->count = 0;
		rte_prefetch0(&b->buffer);
	}
	lane->before = g->last;
	g->last = lane;
	g->payload[g->count++] = lane->payload;
}

/* Put a lane into its block's group, or change nothing. */
static inline enum fate
assign(const struct ppe_worker *worker, struct collective *state, struct batch *batch,
	struct lane *lane)
{
	struct block *b = lane->slot->current;
	uint64_t *heard, bit = UINT64_C(1) << lane->source % 64;

	if (unlikely(state->followers != FOLLOWERS_NONE) &&
		mask_test(job_of(state, lane)->left[BY_ASSIGN], lane->source))
		return FOLLOWER;
	if (unlikely(b == NULL) || unlikely(b->block_id != lane->block)) {
		b = open_next(worker, state, batch, lane);
		if (unlikely(b == NULL))
			return LEFT;
	}
	heard = &b->heard[lane->source / 64];
	if (unlikely(b->agreement != lane->agreement) || unlikely((*heard & bit) != 0))
		return LEFT;
	*heard |= bit;
	join_group(state, batch, lane, b);
	return LANE;
}

/* ---- groups ---- */

/* Prefetch what sum() reads; the hardware prefetcher continues. The first line of a payload has
 * been fetched. */
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

/* Are the CRCs of all packets of the group right? false: some may be wrong. */
static bool
crcs_hold(const struct group *g)
{
	const uint8_t *message[SUMMED_TOGETHER];
	const uint16_t length = g->last->flow->head.payload_length;
	const struct lane *lane = g->last;
	unsigned int n = 0;

	static_assert(SUMMED_TOGETHER <= WEIR_CRC32C_TOGETHER, "at once");
	for (; n < g->count && lane->flow->head.payload_length == length; lane = lane->before)
		message[n++] = lane->payload + FLOW_JOB_AT - lane->flow->payload;
	return n == g->count && weir_crc32c_hold(message, n, length);
}

/* Drop the group's packets with wrong checksums, where software verifies them, or wrong CRCs. Their
 * sources have then not contributed. If g->last is dropped, the block is not complete. */
static __rte_noinline void
verify_group(
	struct ppe_worker *worker, struct collective *state, struct batch *batch, struct group *g)
{
	/* open_next() has verified the checksums of the packet that opened the block. */
	const unsigned int first =
		g->block->heard_count == 0 && likely(g->js->crc_bytes == 0) ? 1 : 0;
	struct lane *lane = g->last;

	if (!state->verifies && likely(crcs_hold(g)))
		return;
	for (unsigned int i = g->count; i-- > first; lane = lane->before) {
		if (likely(block_is_undamaged(worker, thread_of(state, batch, lane), g->js)))
			continue;
		mask_clear(g->block->heard, lane->source);
		lane->fate = DROPPED;
		state->batch_mixed = true;
		memmove(&g->payload[i], &g->payload[i + 1],
			(--g->count - i) * sizeof(g->payload[0]));
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

/* Complete a full block. Its result is sent with the others, unless it differs by receiver. */
static __rte_noinline void
complete(struct ppe_worker *worker, struct collective *state, struct batch *batch,
	const struct group *g, uint64_t since)
{
	struct job_shard *js = g->js;
	struct block *b = g->block;
	struct ppe_next next;

	block_was_last(&js->late[g->last->source], since, worker->now);
	if (!block_end(state, js, b, WEIR_STATUS_OK))
		return;
	if (likely(!block_result_differs(b))) {
		batch->done[batch->nb_done++] = b;
		return;
	}
	next = block_emit(worker, state->batch_thread, b, -1, NULL);
	while (next.run != NULL)
		next = next.run(worker, state->batch_thread);
}

static inline void
finish(struct ppe_worker *worker, struct collective *state, struct batch *batch,
	const struct group *g)
{
	struct block *b = g->block;
	/* Since when the block has waited for its last contribution. */
	uint64_t since = g->count > 1 ? worker->now : b->progress;

	b->progress = worker->now;
	g->js->count.contributions += g->count;
	/* b->heard already has the sources of the block's later groups: only the last group can
	 * tell. */
	if (block_is_full(g->js, b) && g == &batch->group[b->group])
		complete(worker, state, batch, g, since);
}

/* Free the lanes' packets, except those that were dropped or left to threads. Most are direct mbufs
 * of one pool. */
static inline void
consume(struct ppe_worker *worker, const struct collective *state, struct batch *batch)
{
	unsigned int n = batch->n;

	if (unlikely(state->batch_mixed)) {
		n = 0;
		for (unsigned int i = 0; i < batch->n; i++) {
			struct rte_mbuf *packet = batch->packet[i];

			if (batch->lane[i].fate != LANE)
				continue;
			if (packet->pool == state->batch_pool && RTE_MBUF_DIRECT(packet))
				batch->packet[n++] = packet;
			else
				ppe_consume_packet(worker, packet);
		}
	}
	worker->count.consumed += n;
	rte_mempool_put_bulk(state->batch_pool, (void **)batch->packet, n);
}

/* Put the lanes into groups. Returns how many packets got no group. */
static __rte_noinline unsigned int
assign_all(const struct ppe_worker *worker, struct collective *state, struct batch *batch)
{
	struct lane *const end = batch->lane + batch->n;
	unsigned int left = 0;

	for (struct lane *lane = batch->lane; lane < end; lane++) {
		enum fate fate = assign(worker, state, batch, lane);

		if (likely(fate == LANE))
			continue;
		lane->fate = (uint8_t)fate;
		if (fate == LEFT)
			leave(state, batch->packet[lane - batch->lane], BY_ASSIGN);
		state->batch_mixed = true;
		left++;
	}
	return left;
}

/* Take the lanes through the other steps. Returns how many packets got no group. */
static inline unsigned int
run(struct ppe_worker *worker, struct collective *state, struct batch *batch)
{
	unsigned int left;

	locate(batch);
	batch->nb_groups = batch->nb_done = 0;
	left = assign_all(worker, state, batch);
	if (batch->nb_groups > 0)
		fetch(&batch->group[0]);
	for (unsigned int i = 0; i < batch->nb_groups; i++) {
		struct group *g = &batch->group[i];

		if (i + 1 < batch->nb_groups)
			fetch(g + 1);
		if (unlikely(state->verifies) || unlikely(g->js->crc_bytes != 0))
			verify_group(worker, state, batch, g);
		if (likely(g->count > 0)) {
			sum(g);
			finish(worker, state, batch, g);
		} else if (g->block->heard_count == 0 && g == &batch->group[g->block->group]) {
			block_unopen(state, g->js, g->block); /* only damaged packets opened it */
		}
		g->block = NULL;
	}
	block_emit_to_all(worker, state, batch->done, batch->nb_done);
	return left;
}

/* Of n packets, move those for threads to `to`, and followers to the batch. lanes_left: assign()
 * has left some. Returns how many it moved to `to`. */
static unsigned int
close_up(const struct ppe_worker *worker, const struct collective *state, struct rte_mbuf **packets,
	unsigned int n, bool lanes_left, struct rte_mbuf **to)
{
	struct batch *batch = state->batch;
	unsigned int i = 0, left = 0;

	for (unsigned int at = 0; at < n; at++) {
		struct rte_mbuf *packet = (struct rte_mbuf *)((uintptr_t)packets[at] & ~A_FOLLOWER);
		enum fate fate;

		if (packet == NULL)
			continue;
		if (packet != packets[at])
			fate = FOLLOWER;
		else if (i < batch->n && packet == batch->packet[i])
			fate = (enum fate)batch->lane[i++].fate;
		else
			fate = lanes_left && may_follow_lane(worker, state, packet) ? FOLLOWER
										    : LEFT;
		if (fate == LEFT)
			to[left++] = packet;
		else if (fate == FOLLOWER)
			batch->follower[batch->nb_followers++] = packet;
	}
	return left;
}

/* Recognize n packets. Packets with a lane also go to the batch. Hopped packets become NULL, and
 * followers are marked. */
static __rte_noinline void
recognize_all(struct ppe_worker *worker, struct collective *state, struct rte_mbuf **packets,
	unsigned int n)
{
	struct batch *batch = state->batch;
	struct lane *lane = batch->lane;
	struct rte_mbuf **to = batch->packet;

	state->batch_pool = packets[0]->pool;
	state->batch_time = heard_now(worker->now);
	state->batch_mixed = false;
	for (struct rte_mbuf **end = packets + n; packets < end; packets++) {
		enum fate fate = recognize(worker, state, lane, *packets);

		if (likely(fate == LANE)) {
			*to++ = *packets;
			lane++;
			continue;
		}
		if (fate == LEFT)
			fate = leave_unrecognized(worker, state, *packets);
		if (fate == HOPPED)
			*packets = NULL;
		else if (fate == FOLLOWER)
			*packets = (struct rte_mbuf *)((uintptr_t)*packets | A_FOLLOWER);
	}
	batch->n = (unsigned int)(lane - batch->lane);
}

bool
block_batch_hopped(const void *arg, const struct rte_mbuf *packet, uint32_t job)
{
	const struct collective *state = arg;
	const struct job_shard *js =
		state->job[rte_pktmbuf_mtod(packet, const uint8_t *)[FLOW_JOB_AT]];

	return js != NULL && js->serial == job;
}

unsigned int
block_batch(struct ppe_worker *worker, void *arg, struct rte_mbuf **packets, unsigned int n,
	unsigned int *followers)
{
	struct collective *state = arg;
	struct batch *batch = state->batch;
	unsigned int left = 0;
	bool lanes_left;

	batch->nb_followers = 0;
	for (unsigned int from = 0, size; from < n; from += size) {
		size = RTE_MIN((unsigned int)RTE_MIN(worker->batch, LANES), n - from);
		recognize_all(worker, state, packets + from, size);
		lanes_left = run(worker, state, batch) > 0;
		if (unlikely(lanes_left) || unlikely(batch->n < size))
			left += close_up(
				worker, state, packets + from, size, lanes_left, packets + left);
		consume(worker, state, batch);
	}
	if (unlikely(state->followers != FOLLOWERS_NONE))
		forget_left(state);
	memcpy(packets + left, batch->follower, batch->nb_followers * sizeof(packets[0]));
	*followers = batch->nb_followers;
	return left + batch->nb_followers;
}

int
block_batch_create(struct collective *state, int socket)
{
	state->batch = rte_zmalloc_socket("weir_batch", sizeof(*state->batch), 64, socket);
	/* Zeroed: it belongs to the first program, which has the batches. */
	state->batch_thread =
		rte_zmalloc_socket("weir_batch_thread", sizeof(*state->batch_thread), 64, socket);
	return state->batch == NULL || state->batch_thread == NULL ? -ENOMEM : 0;
}

void
block_batch_destroy(struct collective *state)
{
	rte_free(state->batch);
	rte_free(state->batch_thread);
}
