/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parents: what a switch does as a source of its parents' jobs. docs/tree.md.
 *
 * A block whose sum has gone to the parent is BLOCK_UP until the parent's result comes, which takes the sum's place in the
 * same buffer. The switch has no timer that repeats: a host that repeats makes it repeat. A host that probes makes it probe,
 * and it repeats when the parent lacks its contribution.
 *
 *   block_to_parent  the block is complete here, timed out or failed: its sum, bitmap and tag are fixed in the buffer
 *   ask_parent       a host's packet about the block: the same again, or a probe, at most once per millisecond. Probes wait
 *                    for twice the time that an answer takes, and twice as long each time, up to ASK_MS
 *   parent_reply.c   what the parents answer
 */
#include "ppe/collective/collective.h"

#include <rte_ether.h>
#include <rte_malloc.h>

#include "pktbuf/checksum.h"
#include "pktbuf/cursor.h"
#include "pktbuf/result_fast.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/crossbar.h"
#include "ppe/guard.h"

/* ---- a job's parents ---- */

static size_t
known_bytes(const struct ppe_job *job)
{
	return job->window * sizeof(uint64_t[MASK_WORDS]);
}

size_t
parents_bytes(const struct ppe_job *job)
{
	size_t keys = 0;

	for (unsigned int p = 0; job->authenticated && p < job->nb_parents; p++)
		keys += job->parent[p].keyed ? sizeof(struct parent_keys) : 0;
	return job->nb_parents == 0 ? 0 : sizeof(struct parents) + known_bytes(job) + keys;
}

/* false: no memory. */
static bool
parent_init(struct parents *parents, const struct ppe_job *job, unsigned int p, int socket)
{
	const struct ppe_parent *of = &job->parent[p];
	struct parent *parent = &parents->parent[p];

	parent->at = (struct pktbuf_endpoint){.port = of->port,
		.ip = of->address,
		.udp = of->udp,
		.extended = true,
		.valid = true};
	memcpy(parent->at.mac, of->mac, sizeof(parent->at.mac));
	parent->job = of->job;
	pktbuf_header_template_write(
		&parent->header, &parents->self, &parent->at, (uint8_t)job->first_rank);
	parent->generation = job->fixed_generation;
	if (!job->authenticated || !of->keyed)
		return true;
	parent->keys =
		rte_zmalloc_socket("weir_up", sizeof(*parent->keys), RTE_CACHE_LINE_SIZE, socket);
	return parent->keys != NULL;
}

struct parents *
parents_create(const struct ppe_setup *setup, const struct ppe_job *job)
{
	struct parents *parents =
		rte_zmalloc_socket("weir_up", sizeof(*parents), RTE_CACHE_LINE_SIZE, setup->socket);

	if (parents == NULL)
		return NULL;
	parents->known = rte_zmalloc_socket("weir_up", known_bytes(job), 0, setup->socket);
	if (parents->known == NULL) {
		parents_destroy(parents);
		return NULL;
	}
	parents->self = setup->config->identity;
	parents->self.port_ext = WEIR_PORT_UP;
	parents->nb_parents = job->nb_parents;
	for (unsigned int p = 0; p < job->nb_parents; p++) {
		if (!parent_init(parents, job, p, setup->socket)) {
			parents_destroy(parents);
			return NULL;
		}
		if (job->fixed_generation != 0)
			parents->serving[parents->nb_serving++] = (uint8_t)p;
	}
	return parents;
}

void
parents_destroy(struct parents *parents)
{
	if (parents != NULL)
		rte_free(parents->known);
	for (unsigned int p = 0; parents != NULL && p < parents->nb_parents; p++)
		rte_free(parents->parent[p].keys);
	rte_free(parents);
}

void
parents_bind(struct ppe_worker *worker, struct job_shard *js)
{
	for (unsigned int p = 0; p < js->parents->nb_parents; p++)
		if (guard_bind(worker, NULL, &js->parents->parent[p].at, js->job))
			js->parents->bound |= (uint8_t)(1u << p);
}

void
parents_unbind(struct ppe_worker *worker, struct job_shard *js)
{
	for (unsigned int p = 0; p < js->parents->nb_parents; p++)
		if ((js->parents->bound >> p & 1) != 0)
			guard_unbind(worker, &js->parents->parent[p].at);
	js->parents->bound = 0;
}

unsigned int
parent_of_block(const struct job_shard *js, uint32_t block)
{
	unsigned int n = __atomic_load_n(&js->parents->nb_serving, __ATOMIC_RELAXED);

	return n == 0 ? PPE_PARENTS_MAX : js->parents->serving[(block & (js->window - 1u)) % n];
}

/* ---- to the parent ---- */

/* Do the block's accumulators travel as they are, 4 bytes for each element of a narrower type? Some variants' kernels have
 * wide ones for other operations, too: rmw_reduction_wide(). */
static bool
is_wide(const struct job_shard *js, const struct block *b)
{
	return !js->narrow && b->reduction->acc_bytes > weir_dtype_bytes(b->dtype) &&
		(b->op == WEIR_OP_AVG ||
			(weir_dtype_is_float(b->dtype) &&
				(b->op == WEIR_OP_SUM || b->op == WEIR_OP_PROD)));
}

/* The part of the buffer that goes to the parent, in elements of *size bytes. */
static struct weir_slice
part_to_parent(const struct job_shard *js, const struct block *b, uint32_t *size)
{
	const struct collective_row *row = &collective_table[b->collective];
	struct weir_slice part = {0,
		row_contributed(
			row, b->grad_cnt, js->nb_ranks, js->first_rank, js->own_ranks, b->root)};

	*size = b->reduction != NULL && is_wide(js, b) ? b->reduction->acc_bytes
						       : weir_dtype_bytes(b->dtype);
	if (row->contribution == CONTRIBUTION_SLICE)
		part.first = weir_slice(b->grad_cnt, js->nb_ranks, js->first_rank).first;
	return part;
}

static struct weir_header
header_to_parent(const struct job_shard *js, const struct parent *parent, const struct block *b)
{
	struct weir_header h = result_header(b, js);

	h.job_id = parent->job;
	h.gen_id = parent->generation;
	h.src_id = (uint8_t)js->first_rank;
	h.flags = WEIR_FLAG_UP | js->flags;
	h.extended = true;
	return h;
}

/* Write bitmap, and tag or CRC, behind the payload; returns their bytes. */
static uint32_t
end_to_parent(const struct job_shard *js, const struct parent *parent, const struct block *b,
	const struct weir_header *h, uint8_t *payload, uint32_t bytes)
{
	uint8_t *end = payload + bytes;
	uint32_t n = 0;

	if (h->degraded) {
		memcpy(end, b->in, WEIR_BITMAP_BYTES);
		n = WEIR_BITMAP_BYTES;
	}
	return n + parent_tag(js, parent, h, payload, bytes, end, n);
}

/* A sum that is not an average is the same whether it is finished once or at each level, unless its type is wider on the
 * way. */
static void
finish_for_parent(const struct job_shard *js, const struct block *b)
{
	if (b->reduction != NULL && b->reduction->finish != NULL && !is_wide(js, b) &&
		b->op != WEIR_OP_AVG)
		b->reduction->finish(rmw_buffer_data(b->buffer), b->grad_cnt, b->in_count);
}

/* Does the contribution refer to the buffer? */
static inline bool
is_in_buffer(const struct block *b)
{
	return b->buffer != NULL &&
		(b->status == WEIR_STATUS_OK || b->status == WEIR_STATUS_PARTIAL);
}

static struct pktbuf_payload
payload_to_parent(const struct job_shard *js, const struct parent *parent, const struct block *b,
	const struct weir_header *h, uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES])
{
	struct pktbuf_payload payload = {.data = small};
	uint32_t size, first;

	if (likely(is_in_buffer(b))) {
		first = part_to_parent(js, b, &size).first * size;
		return (struct pktbuf_payload){
			.data = (uint8_t *)rmw_buffer_data(b->buffer) + first,
			.iova = b->buffer->iova + first,
			.bytes = b->payload_bytes,
			.sum = b->payload_sum,
			.released = crossbar_payload_released,
			.opaque = b->buffer,
		};
	}
	if (b->status == WEIR_STATUS_MISMATCH) {
		payload.bytes = sizeof(b->mismatch);
		memcpy(small, &b->mismatch, payload.bytes);
	}
	payload.bytes += end_to_parent(js, parent, b, h, small, payload.bytes);
	payload.sum = payload.bytes == 0 ? 0 : pktbuf_sum_bytes(small, payload.bytes);
	return payload;
}

static void
send_to_parent(struct ppe_worker *worker, struct job_shard *js, const struct parent *parent,
	const struct weir_header *h, const struct pktbuf_payload *payload)
{
	const bool referred = pktbuf_payload_referred(payload);
	const bool copied = referred && !rmw_may_hold(payload->opaque);
	struct pktbuf_shared_header shared[2];
	struct pktbuf_results results;
	struct rte_mbuf *packet;

	pktbuf_shared_header_write(&shared[true], h, payload);
	pktbuf_results_begin(&results, worker->pools, worker->port, 1);
	packet = pktbuf_result_build(&results, shared, payload, &parent->header);
	pktbuf_results_end(&results);
	js->count.upward++;
	worker->count.created++;
	if (likely(packet != NULL) && referred)
		rmw_hold(payload->opaque, 1);
	if (unlikely(packet != NULL && copied))
		packet = pktbuf_packet_copy(packet, worker->pools->packets);
	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	charge(worker, js, 1, packet->pkt_len);
	ppe_output(worker, packet, parent->at.port, PKTBUF_PRIO_RESULT);
}

static void
contribute_to_parent(struct ppe_worker *worker, struct job_shard *js, const struct block *b)
{
	unsigned int p = parent_of_block(js, b->block_id);
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	const struct parent *parent;
	struct weir_header h;
	struct pktbuf_payload payload;

	if (unlikely(p == PPE_PARENTS_MAX))
		return;
	parent = &js->parents->parent[p];
	h = header_to_parent(js, parent, b);
	payload = payload_to_parent(js, parent, b, &h, small);
	send_to_parent(worker, js, parent, &h, &payload);
}

/* An acknowledgement or a probe. */
static struct weir_header
control_to_parent(const struct job_shard *js, const struct parent *parent, uint32_t block,
	enum weir_collective note)
{
	return (struct weir_header){.job_id = parent->job,
		.block_id = block,
		.gen_id = parent->generation,
		.src_id = (uint8_t)js->first_rank,
		.collective = (uint8_t)note,
		.flags = WEIR_FLAG_UP | js->flags,
		.extended = true};
}

static void
send_control(struct ppe_worker *worker, struct job_shard *js, const struct parent *parent,
	uint32_t block, enum weir_collective note)
{
	const struct weir_header h = control_to_parent(js, parent, block, note);
	uint8_t tag[WEIR_TAG_BYTES];
	struct pktbuf_payload payload = {.data = tag};

	payload.bytes = parent_tag(js, parent, &h, NULL, 0, tag, 0);
	payload.sum = payload.bytes == 0 ? 0 : pktbuf_sum_bytes(tag, payload.bytes);
	send_to_parent(worker, js, parent, &h, &payload);
}

/* This switch has the result of the block before this one, and all before it. */
static void
acknowledge_to_parent(struct ppe_worker *worker, struct job_shard *js, uint32_t block)
{
	unsigned int p = parent_of_block(js, block);

	if (likely(p < PPE_PARENTS_MAX))
		send_control(
			worker, js, &js->parents->parent[p], block, WEIR_COLLECTIVE_ACKNOWLEDGE);
}

void
ask_another(struct ppe_worker *worker, struct job_shard *js, uint32_t block)
{
	const struct parents *parents = js->parents;
	unsigned int n = parents->nb_serving, own = (block & (js->window - 1u)) % RTE_MAX(n, 1u);

	if (n > 1)
		send_control(worker, js,
			&parents->parent[parents->serving
						 [(own + 1 + heard_now(worker->now) / 2 % (n - 1)) %
							 n]],
			block, WEIR_COLLECTIVE_ACKNOWLEDGE);
}

void
tag_sent_to_parent(const struct job_shard *js, const struct parent *parent,
	const struct weir_header *reply, uint8_t tag[WEIR_TAG_BYTES])
{
	const bool probe = reply->collective == WEIR_COLLECTIVE_PROBE;
	const uint32_t block = reply->block_id;
	const struct block *b = slot_of(js, block)->current;
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	struct pktbuf_payload payload;
	struct weir_header h;

	if (!probe && b != NULL && b->state == BLOCK_UP && b->block_id == block &&
		parent == &js->parents->parent[parent_of_block(js, block)]) {
		h = header_to_parent(js, parent, b);
		payload = payload_to_parent(js, parent, b, &h, small);
		memcpy(tag, (const uint8_t *)payload.data + payload.bytes - WEIR_TAG_BYTES,
			WEIR_TAG_BYTES);
	} else {
		h = control_to_parent(js, parent, block,
			probe ? WEIR_COLLECTIVE_PROBE : WEIR_COLLECTIVE_ACKNOWLEDGE);
		parent_tag(js, parent, &h, NULL, 0, tag, 0);
	}
}

/* Note which ranks are in the block, and with which status it goes to the parent. */
static void
note_ranks(const struct job_shard *js, struct block *b, enum weir_status status)
{
	block_set_ranks(js, b);
	if (status == WEIR_STATUS_OK && b->in_count < js->own_ranks)
		status = WEIR_STATUS_PARTIAL;
	if (status == WEIR_STATUS_PARTIAL &&
		collective_table[b->collective].contribution == CONTRIBUTION_ROOT &&
		(unsigned int)b->root - js->first_rank < js->own_ranks &&
		!mask_test(b->in, b->root))
		status = WEIR_STATUS_ERROR;
	b->status = (uint8_t)status;
}

void
block_to_parent(
	struct collective *state, struct job_shard *js, struct block *b, enum weir_status status)
{
	unsigned int p = parent_of_block(js, b->block_id);
	struct weir_slice part;
	struct weir_header h;
	uint8_t *payload;
	uint32_t size;

	b->state = BLOCK_UP;
	b->asks = 0;
	b->backoff = p < PPE_PARENTS_MAX ? js->parents->parent[p].backoff : 0;
	note_ranks(js, b, status);
	slot_of(js, b->block_id)->asked = state->worker->now;
	if (unlikely(p == PPE_PARENTS_MAX))
		return;
	if (is_in_buffer(b)) {
		finish_for_parent(js, b);
		if (b->status == WEIR_STATUS_PARTIAL)
			clear_missing(js, b);
		part = part_to_parent(js, b, &size);
		payload = (uint8_t *)rmw_buffer_data(b->buffer) + size * part.first;
		b->payload_bytes = size * part.count;
		h = header_to_parent(js, &js->parents->parent[p], b);
		b->payload_bytes += end_to_parent(
			js, &js->parents->parent[p], b, &h, payload, b->payload_bytes);
		if (state->sums)
			b->payload_sum = pktbuf_sum_bytes(payload, b->payload_bytes);
	}
	contribute_to_parent(state->worker, js, b);
}

void
repeat_to_parent(struct ppe_worker *worker, struct job_shard *js, struct block *b)
{
	js->count.upward_repeats++;
	b->probed = false;
	contribute_to_parent(worker, js, b);
}

#define ASK_MS       (2 * PROBED_MS) /* between two questions at most */
#define BACKOFF_MOST 6
#define AT_ONCE      (1000 / ASK_MS) /* questions; hosts ask once a second at least: timing.h */

/*
 * How long to wait before the parent is asked again, in TSC cycles. A host knows only the path to this switch, so it may ask
 * while the result is on its way. A parent that is then probed sends the result a second time, and a thin link that is
 * full of second copies delays all the others: so the time grows with that of the answers, and doubles (RFC 6298, 5.5).
 * The next blocks begin with the time of the last one until an answer is timed (Karn).
 */
static uint64_t
patience(const struct collective *state, const struct parent *parent, const struct block *b)
{
	uint64_t answer = RTE_MAX(2 * parent->answer, state->tsc_per_ms);

	return RTE_MIN(answer << b->backoff, ASK_MS * state->tsc_per_ms);
}

/*
 * How often a parent that is silent is asked now. Hosts that wait ask less and less often, and a burst of losses ends with
 * packets: so a host's packet makes up for the time since the last question.
 */
static unsigned int
questions_due(const struct collective *state, const struct slot *slot)
{
	uint64_t due = (state->worker->now - slot->asked) / (ASK_MS * state->tsc_per_ms);

	return (unsigned int)RTE_MAX(RTE_MIN(due, AT_ONCE), 1u);
}

/* Ask the parent about a block that waits for its result: with a probe; or, if that does not help, with the contribution. */
static void
ask_pending(struct collective *state, struct job_shard *js, struct block *b, struct parent *parent,
	bool probe)
{
	uint32_t now = heard_now(state->worker->now);
	unsigned int questions = 1;
	bool silent;

	parent_is_asked(parent, now);
	silent =
		ticks_since(parent->unanswered, now) > PROBED_MS * state->tsc_per_ms >> HEARD_SHIFT;
	if (silent)
		questions = questions_due(state, slot_of(js, b->block_id));
	parent_was_asked(parent, questions, now);
	b->asks = (uint8_t)RTE_MIN(b->asks + questions, UINT8_MAX);
	b->backoff += b->backoff < BACKOFF_MOST;
	if (!probe || silent || parent->no_probes) {
		repeat_to_parent(state->worker, js, b);
		questions--;
	}
	b->probed = questions > 0;
	while (questions-- > 0)
		send_control(state->worker, js, parent, b->block_id, WEIR_COLLECTIVE_PROBE);
}

void
ask_parent(struct collective *state, struct job_shard *js, uint32_t block, bool probe)
{
	struct slot *slot = slot_of(js, block);
	struct block *b = slot->current;
	unsigned int p = parent_of_block(js, block);
	uint64_t now = state->worker->now;
	struct parent *parent = p < PPE_PARENTS_MAX ? &js->parents->parent[p] : NULL;

	if (now - slot->asked < state->tsc_per_ms)
		return;
	if (b != NULL && b->state == BLOCK_UP && b->block_id == block) {
		if (parent == NULL || (probe && now - slot->asked < patience(state, parent, b)))
			return;
		ask_pending(state, js, b, parent, probe);
		if (b->parent_status == WEIR_STATUS_WAITING)
			ask_another(state->worker, js, block);
	} else if (block_ahead(js, slot, block) == 0) {
		acknowledge_to_parent(state->worker, js, block);
	} else {
		return;
	}
	slot->asked = now;
}

void
relay_parent_status(struct ppe_worker *worker, struct collective *state, struct job_shard *js,
	const struct block *b)
{
	bool waiting = b->parent_status == WEIR_STATUS_WAITING;

	if (!js->parents->is_asked || js->parents->asker.header.block_id != b->block_id)
		return;
	js->parents->is_asked = false;
	reply_to(worker, state, &js->parents->asker, (enum weir_status)b->parent_status,
		waiting ? js->parents->known[b->block_id & (js->window - 1u)] : NULL,
		waiting ? WEIR_BITMAP_BYTES : 0);
}

/* Answer a source's probe: the ranks that were sent, and those that the parent says it has. The own bit says only that the
 * contribution need not be repeated: a late one is not in the block. */
static void
tell_probing(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js,
	const struct block *b)
{
	const struct weir_header *h = &lmem(thread)->c.header;
	const uint64_t *known = js->parents->known[b->block_id & (js->window - 1u)];
	uint64_t ranks[MASK_WORDS] = {0};

	for (unsigned int i = 0; i < MASK_WORDS; i++)
		ranks[i] = b->in[i] | (b->parent_status == WEIR_STATUS_WAITING ? known[i] : 0);
	for (unsigned int r = 0; mask_test(b->heard, h->src_id) && r < js->covers[h->src_id]; r++)
		mask_set(ranks, (uint8_t)(h->src_id + r));
	/* A contribution is told why the block will not end: let the source repeat it. */
	if (b->parent_status != 0 && b->parent_status != WEIR_STATUS_WAITING)
		memset(ranks, 0, sizeof(ranks));
	reply_status(worker, thread, h, WEIR_STATUS_WAITING, ranks, WEIR_BITMAP_BYTES);
}

struct ppe_next
parent_block_pending(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;
	struct job_shard *js = state->job[b->job];
	unsigned int p = parent_of_block(js, b->block_id);
	enum ppe_drop reason = PPE_DROP_DUPLICATE;
	ppe_segment then = NULL;

	if (h->collective == WEIR_COLLECTIVE_PROBE) {
		reason = PPE_DROP_PROBED;
	} else if (mask_test(b->heard, h->src_id)) {
		js->count.duplicates++;
	} else {
		mask_set(b->heard, h->src_id);
		b->heard_count++;
		js->count.late++;
		reason = PPE_DROP_LATE;
	}
	ask_parent(state, js, b->block_id, reason == PPE_DROP_PROBED);
	if (js->pinned && p < PPE_PARENTS_MAX)
		then = about_silence(&js->parents->parent[p], heard_now(worker->now));
	if (unlikely(then != NULL)) {
		lmem(thread)->c.parent = (uint8_t)p;
		lmem(thread)->c.serial = js->serial; /* a packet that is recognized has none */
		return ppe_hop(worker, thread,
			(uint16_t)ppe_residue_shard(js->job, 0, worker->workers), then);
	}
	if (reason == PPE_DROP_PROBED) {
		tell_probing(worker, thread, js, b);
		return end_dropped(worker, thread, reason);
	}
	js->parents->asker = asker_of(thread, js, h);
	js->parents->is_asked = true;
	if (b->parent_status != 0) {
		relay_parent_status(worker, state, js, b);
	} else if (js->children && worker->now - b->opened >= js->timeout) {
		js->parents->is_asked = false;
		reply_status(worker, thread, h, WEIR_STATUS_WAITING, b->in, WEIR_BITMAP_BYTES);
	}
	ppe_drop(worker, thread, reason);
	return PPE_END;
}
