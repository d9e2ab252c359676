/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parents: what a switch does as a source of its parents' jobs. docs/tree.md.
 *
 * A block whose sum has gone to the parent is BLOCK_UP until the parent's result comes, which takes
 * the sum's place in the same buffer. The switch has no timer for repetitions: it repeats when a
 * host repeats. When a host probes, the switch probes, and repeats if the parent lacks its
 * contribution.
 *
 *   parent_contribute  the block is complete here, timed out or failed: its sum, bitmap and tag are
 *                      fixed in the buffer, and sent
 *   parent_ask         for a host's packet about the block: send the sum again, or a probe, at most
 *                      once per millisecond. The first probe waits for twice the time that an
 *                      answer takes; each further probe waits twice as long, up to ASK_MS
 *   parent_reply.c     what the parents answer
 */
#include "ppe/collective/tree/tree.h"

#include <rte_malloc.h>

#include "pktbuf/checksum.h"
#include "ppe/collective/block/block_fast.h"
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
	parent->hop = (struct hop){.generation = job->fixed_generation,
		.job = of->job,
		.source = (uint8_t)job->first_rank,
		.flags = WEIR_FLAG_UP | hop_flags(job)};
	pktbuf_header_template_write(
		&parent->header, &parents->self, &parent->at, (uint8_t)job->first_rank);
	if (!job->authenticated || !of->keyed)
		return true;
	parent->keys =
		rte_zmalloc_socket("weir_up", sizeof(*parent->keys), RTE_CACHE_LINE_SIZE, socket);
	if (parent->keys == NULL)
		return false;
	parent->hop.key = &parent->keys->contributions;
	return true;
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
		rte_free(parents);
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

/* Do the block's accumulators travel as they are, 4 bytes for each element of a narrower type? Some
 * variants' kernels have wide accumulators for other operations, too: rmw_reduction_wide(). */
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

/* A sum, but no average, may be finished at each level, unless its type is wider on the way. */
static void
finish_for_parent(const struct job_shard *js, const struct block *b)
{
	if (b->reduction != NULL && b->reduction->finish != NULL && !is_wide(js, b) &&
		b->op != WEIR_OP_AVG)
		b->reduction->finish(rmw_buffer_data(b->buffer), b->grad_cnt, b->in_count);
}

static void
send_to(struct ppe_worker *worker, struct job_shard *js, const struct parent *parent,
	const struct weir_header *h, const struct pktbuf_payload *payload)
{
	js->count.upward++;
	block_send_one(worker, js, h, payload, &parent->header);
}

static struct pktbuf_payload
payload_to(const struct job_shard *js, const struct parent *parent, const struct block *b,
	const struct weir_header *h, uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES])
{
	uint32_t size, first = part_to_parent(js, b, &size).first;

	return block_payload(js, &parent->hop, b, h, first * size, small);
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
	h = block_hop_header(b, &parent->hop);
	payload = payload_to(js, parent, b, &h, small);
	send_to(worker, js, parent, &h, &payload);
}

/* The header of an acknowledgement or a probe. */
static struct weir_header
control_header(const struct parent *parent, uint32_t block, enum weir_collective control)
{
	return (struct weir_header){.job_id = parent->hop.job,
		.block_id = block,
		.gen_id = parent->hop.generation,
		.src_id = parent->hop.source,
		.collective = (uint8_t)control,
		.flags = parent->hop.flags,
		.extended = true};
}

static uint32_t
control_end(const struct job_shard *js, const struct parent *parent, const struct weir_header *h,
	uint8_t tag[WEIR_TAG_BYTES])
{
	return hop_end(&parent->hop, h, slot_number(js, h->block_id), 0, NULL,
		(const struct pktbuf_piece[2]){{0}}, tag);
}

static void
send_control(struct ppe_worker *worker, struct job_shard *js, const struct parent *parent,
	uint32_t block, enum weir_collective control)
{
	const struct weir_header h = control_header(parent, block, control);
	uint8_t tag[WEIR_TAG_BYTES];
	struct pktbuf_payload payload = {.data = tag, .bytes = control_end(js, parent, &h, tag)};

	payload.sum = payload.bytes == 0 ? 0 : pktbuf_sum_bytes(tag, payload.bytes);
	send_to(worker, js, parent, &h, &payload);
}

/* Tell the parent that this switch has all results before the block. */
static void
acknowledge_to_parent(struct ppe_worker *worker, struct job_shard *js, uint32_t block)
{
	unsigned int p = parent_of_block(js, block);

	if (likely(p < PPE_PARENTS_MAX))
		send_control(
			worker, js, &js->parents->parent[p], block, WEIR_COLLECTIVE_ACKNOWLEDGE);
}

void
parent_ask_another(struct ppe_worker *worker, struct job_shard *js, uint32_t block)
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
parent_sent_tag(const struct job_shard *js, const struct parent *parent,
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
		h = block_hop_header(b, &parent->hop);
		payload = payload_to(js, parent, b, &h, small);
		memcpy(tag, (const uint8_t *)payload.data + payload.bytes - WEIR_TAG_BYTES,
			WEIR_TAG_BYTES);
	} else {
		h = control_header(
			parent, block, probe ? WEIR_COLLECTIVE_PROBE : WEIR_COLLECTIVE_ACKNOWLEDGE);
		control_end(js, parent, &h, tag);
	}
}

void
parent_contribute(
	struct collective *state, struct job_shard *js, struct block *b, enum weir_status status)
{
	unsigned int p = parent_of_block(js, b->block_id);
	const struct parent *parent;
	struct weir_slice part;
	struct weir_header h;
	uint8_t *payload;
	uint32_t size;

	b->state = BLOCK_UP;
	b->asks = 0;
	b->backoff = p < PPE_PARENTS_MAX ? js->parents->parent[p].backoff : 0;
	b->status = (uint8_t)partial_settle(js, b, status);
	slot_of(js, b->block_id)->asked = state->worker->now;
	if (unlikely(p == PPE_PARENTS_MAX))
		return;
	parent = &js->parents->parent[p];
	h = block_hop_header(b, &parent->hop);
	if (b->buffer != NULL && h.grad_cnt != 0) {
		finish_for_parent(js, b);
		if (b->status == WEIR_STATUS_PARTIAL)
			partial_clear(js, b);
		part = part_to_parent(js, b, &size);
		payload = (uint8_t *)rmw_buffer_data(b->buffer) + size * part.first;
		b->payload_bytes = size * part.count;
		b->payload_bytes += hop_end(&parent->hop, &h, slot_number(js, b->block_id), 0,
			b->in, (const struct pktbuf_piece[2]){{payload, b->payload_bytes}},
			payload + b->payload_bytes);
		if (state->sums)
			b->payload_sum = pktbuf_sum_bytes(payload, b->payload_bytes);
	}
	contribute_to_parent(state->worker, js, b);
}

void
parent_repeat(struct ppe_worker *worker, struct job_shard *js, struct block *b)
{
	js->count.upward_repeats++;
	b->probed = false;
	contribute_to_parent(worker, js, b);
}

#define ASK_MS       (2 * PROBED_MS) /* between two questions at most */
#define BACKOFF_MOST 6
#define AT_ONCE      (1000 / ASK_MS) /* questions; hosts ask once a second at least: timing.h */

/*
 * How long to wait before the parent is asked again, in TSC cycles. A host knows only the path to
 * this switch, so it may ask while the result is on its way. A parent that is probed then sends the
 * result again, and a slow link full of copies delays all other results. So the time grows with the
 * time of the answers, and doubles (RFC 6298, 5.5). The next blocks begin with the last block's
 * time until an answer is timed (Karn).
 */
static uint64_t
patience(const struct collective *state, const struct parent *parent, const struct block *b)
{
	uint64_t answer = RTE_MAX(2 * parent->answer, state->tsc_per_ms);

	return RTE_MIN(answer << b->backoff, ASK_MS * state->tsc_per_ms);
}

/* How often to ask a silent parent now. Waiting hosts ask less and less often, and a burst of
 * losses ends only with packets, so a host's packet makes up for the time since the last
 * question. */
static unsigned int
questions_due(const struct collective *state, const struct slot *slot)
{
	uint64_t due = (state->worker->now - slot->asked) / (ASK_MS * state->tsc_per_ms);

	return (unsigned int)RTE_MAX(RTE_MIN(due, AT_ONCE), 1u);
}

/* Ask the parent about a block that waits for its result: with a probe; or, if that does not help,
 * with the contribution. */
static void
ask_pending(struct collective *state, struct job_shard *js, struct block *b, struct parent *parent,
	bool probe)
{
	uint32_t now = heard_now(state->worker->now);
	unsigned int questions = 1;
	bool silent;

	parent_note_question(parent, now);
	silent =
		ticks_since(parent->unanswered, now) > PROBED_MS * state->tsc_per_ms >> HEARD_SHIFT;
	if (silent)
		questions = questions_due(state, slot_of(js, b->block_id));
	parent_note_questions(parent, questions, now);
	b->asks = (uint8_t)RTE_MIN(b->asks + questions, UINT8_MAX);
	b->backoff += b->backoff < BACKOFF_MOST;
	if (!probe || silent || parent->no_probes) {
		parent_repeat(state->worker, js, b);
		questions--;
	}
	b->probed = questions > 0;
	while (questions-- > 0)
		send_control(state->worker, js, parent, b->block_id, WEIR_COLLECTIVE_PROBE);
}

void
parent_ask(struct collective *state, struct job_shard *js, uint32_t block, bool probe)
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
			parent_ask_another(state->worker, js, block);
	} else if (block_ahead(js, slot, block) == 0) {
		acknowledge_to_parent(state->worker, js, block);
	} else {
		return;
	}
	slot->asked = now;
}

void
parent_relay_status(struct ppe_worker *worker, struct collective *state, struct job_shard *js,
	const struct block *b)
{
	bool waiting = b->parent_status == WEIR_STATUS_WAITING;

	if (!js->parents->peer_waits || js->parents->peer.header.block_id != b->block_id)
		return;
	js->parents->peer_waits = false;
	reply_send(worker, state, &js->parents->peer, (enum weir_status)b->parent_status,
		waiting ? parents_known(js, b->block_id) : NULL, waiting ? WEIR_BITMAP_BYTES : 0);
}

/* Answer a source's probe: the ranks that were sent, and the ranks that the parent says it has. The
 * source's own bit says only that it need not repeat its contribution: a late contribution is not
 * in the block. */
static void
tell_probing(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js,
	const struct block *b)
{
	const struct weir_header *h = &lmem(thread)->c.header;
	const uint64_t *known = parents_known(js, b->block_id);
	uint64_t ranks[MASK_WORDS] = {0};

	for (unsigned int i = 0; i < MASK_WORDS; i++)
		ranks[i] = b->in[i] | (b->parent_status == WEIR_STATUS_WAITING ? known[i] : 0);
	if (mask_test(b->heard, h->src_id))
		mask_set_range(ranks, h->src_id, js->covers[h->src_id]);
	/* Only replies to contributions say why the block will not end: let the source repeat. */
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
	parent_ask(state, js, b->block_id, reason == PPE_DROP_PROBED);
	if (js->pinned && p < PPE_PARENTS_MAX)
		then = parent_silence(&js->parents->parent[p], heard_now(worker->now));
	if (unlikely(then != NULL)) {
		lmem(thread)->c.parent = (uint8_t)p;
		lmem(thread)->c.serial = js->serial; /* not set by the flow cache */
		return ppe_hop(worker, thread,
			(uint16_t)ppe_residue_shard(js->job, 0, worker->workers), then);
	}
	if (reason == PPE_DROP_PROBED) {
		tell_probing(worker, thread, js, b);
		return ppe_drop(worker, thread, reason);
	}
	js->parents->peer = reply_peer_of(thread, js, h);
	js->parents->peer_waits = true;
	if (b->parent_status != 0) {
		parent_relay_status(worker, state, js, b);
	} else if (js->children && worker->now - b->opened >= js->timeout) {
		js->parents->peer_waits = false;
		reply_status(worker, thread, h, WEIR_STATUS_WAITING, b->in, WEIR_BITMAP_BYTES);
	}
	return ppe_drop(worker, thread, reason);
}

const struct tree_ops tree_ops = {
	.contribute = parent_contribute,
	.ask = parent_ask,
	.pending = parent_block_pending,
	.join = parents_join,
	.joined = parents_joined,
	.begin = parents_begin,
	.end = parents_end,
	.fits = child_fits,
	.degraded = child_degraded,
	.ranks = child_ranks,
};
