/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way up: what a switch does as a source of its parents' jobs. docs/tree.md.
 *
 * A block whose sum has gone to the parent is BLOCK_UP until the parent's result comes, which takes the sum's place in the
 * same buffer. The switch has no timer that repeats: a host that repeats makes it repeat.
 *
 *   send_up      the block is complete here, timed out or failed: its sum, bitmap and tag are fixed in the buffer
 *   ask_above    a host's packet about the block: the same again, at most once per millisecond
 *   from_above   a packet to the upward port: find the job; hop to the block's shard   on the worker that received it
 *   take_above   checksums, tag, generation; the block                                 on the shard's owner
 *   answered     copy the result to the buffer, and send it to the own sources         "
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

/* ---- a job's way up ---- */

static size_t
known_bytes(const struct ppe_job *job)
{
	return job->window * sizeof(uint64_t[MASK_WORDS]);
}

size_t
up_bytes(const struct ppe_job *job)
{
	size_t keys = 0;

	for (unsigned int p = 0; job->authenticated && p < job->nb_parents; p++)
		keys += job->parent[p].keyed ? sizeof(struct parent_keys) : 0;
	return job->nb_parents == 0 ? 0 : sizeof(struct up) + known_bytes(job) + keys;
}

/* false: no memory. */
static bool
parent_init(struct up *up, const struct ppe_job *job, unsigned int p, int socket)
{
	const struct ppe_parent *of = &job->parent[p];
	struct parent *parent = &up->parent[p];

	parent->at = (struct pktbuf_endpoint){.port = of->port,
		.ip = of->address,
		.udp = of->udp,
		.extended = true,
		.valid = true};
	memcpy(parent->at.mac, of->mac, sizeof(parent->at.mac));
	parent->job = of->job;
	pktbuf_header_template_write(
		&parent->header, &up->self, &parent->at, (uint8_t)job->first_rank);
	parent->generation = job->fixed_generation;
	if (!job->authenticated || !of->keyed)
		return true;
	parent->keys =
		rte_zmalloc_socket("weir_up", sizeof(*parent->keys), RTE_CACHE_LINE_SIZE, socket);
	return parent->keys != NULL;
}

struct up *
up_create(const struct ppe_setup *setup, const struct ppe_job *job)
{
	struct up *up =
		rte_zmalloc_socket("weir_up", sizeof(*up), RTE_CACHE_LINE_SIZE, setup->socket);

	if (up == NULL)
		return NULL;
	up->known = rte_zmalloc_socket("weir_up", known_bytes(job), 0, setup->socket);
	if (up->known == NULL) {
		up_destroy(up);
		return NULL;
	}
	up->self = setup->config->identity;
	up->self.port_ext = WEIR_PORT_UP;
	up->nb_parents = job->nb_parents;
	for (unsigned int p = 0; p < job->nb_parents; p++) {
		if (!parent_init(up, job, p, setup->socket)) {
			up_destroy(up);
			return NULL;
		}
		if (job->fixed_generation != 0)
			up->serving[up->nb_serving++] = (uint8_t)p;
	}
	return up;
}

void
up_destroy(struct up *up)
{
	if (up != NULL)
		rte_free(up->known);
	for (unsigned int p = 0; up != NULL && p < up->nb_parents; p++)
		rte_free(up->parent[p].keys);
	rte_free(up);
}

void
up_bind(struct ppe_worker *worker, struct job_shard *js)
{
	for (unsigned int p = 0; p < js->up->nb_parents; p++)
		if (guard_bind(worker, &js->up->parent[p].at, js->job))
			js->up->bound |= (uint8_t)(1u << p);
}

void
up_unbind(struct ppe_worker *worker, struct job_shard *js)
{
	for (unsigned int p = 0; p < js->up->nb_parents; p++)
		if ((js->up->bound >> p & 1) != 0)
			guard_unbind(worker, &js->up->parent[p].at);
	js->up->bound = 0;
}

unsigned int
up_parent_of(const struct job_shard *js, uint32_t block)
{
	unsigned int n = __atomic_load_n(&js->up->nb_serving, __ATOMIC_RELAXED);

	return n == 0 ? PPE_PARENTS_MAX : js->up->serving[(block & (js->window - 1u)) % n];
}

static inline struct slot *
slot_of(const struct job_shard *js, uint32_t block)
{
	return &js->slot[block & (js->window - 1u)];
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
part_above(const struct job_shard *js, const struct block *b, uint32_t *size)
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
header_above(const struct job_shard *js, const struct parent *parent, const struct block *b)
{
	struct weir_header h = result_header(b, js);

	h.job_id = parent->job;
	h.gen_id = parent->generation;
	h.src_id = (uint8_t)js->first_rank;
	h.flags = WEIR_FLAG_UP | (parent->keys != NULL ? WEIR_FLAG_AUTHENTICATED : 0);
	h.extended = true;
	return h;
}

/* Write bitmap and tag behind the payload; returns their bytes. */
static uint32_t
end_above(const struct job_shard *js, const struct parent *parent, const struct block *b,
	const struct weir_header *h, uint8_t *payload, uint32_t bytes)
{
	uint8_t *end = payload + bytes;
	uint32_t n = 0;

	if (h->degraded) {
		memcpy(end, b->in, WEIR_BITMAP_BYTES);
		n = WEIR_BITMAP_BYTES;
	}
	return n + up_tag(js, parent, h, payload, bytes, end, n);
}

/* A sum that is not an average is the same whether it is finished once or at each level, unless its type is wider on the
 * way. */
static void
finish_above(const struct job_shard *js, const struct block *b)
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
payload_above(const struct job_shard *js, const struct parent *parent, const struct block *b,
	const struct weir_header *h, uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES])
{
	struct pktbuf_payload payload = {.data = small};
	uint32_t size, first;

	if (likely(is_in_buffer(b))) {
		first = part_above(js, b, &size).first * size;
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
	payload.bytes += end_above(js, parent, b, h, small, payload.bytes);
	payload.sum = payload.bytes == 0 ? 0 : pktbuf_sum_bytes(small, payload.bytes);
	return payload;
}

static void
send_above(struct ppe_worker *worker, struct job_shard *js, const struct parent *parent,
	const struct weir_header *h, const struct pktbuf_payload *payload)
{
	struct pktbuf_shared_header shared[2];
	struct pktbuf_results results;
	struct rte_mbuf *packet;

	pktbuf_shared_header_write(&shared[true], h, payload);
	pktbuf_results_begin(&results, worker->pools, worker->port, 1);
	packet = pktbuf_result_build(&results, shared, payload, &parent->header);
	pktbuf_results_end(&results);
	js->count.upward++;
	worker->count.created++;
	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	if (pktbuf_payload_referred(payload))
		rmw_hold(payload->opaque, 1);
	charge(worker, js, 1, packet->pkt_len);
	ppe_output(worker, packet, parent->at.port, PKTBUF_PRIO_RESULT);
}

static void
contribute_above(struct ppe_worker *worker, struct job_shard *js, const struct block *b)
{
	unsigned int p = up_parent_of(js, b->block_id);
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	const struct parent *parent;
	struct weir_header h;
	struct pktbuf_payload payload;

	if (unlikely(p == PPE_PARENTS_MAX))
		return;
	parent = &js->up->parent[p];
	h = header_above(js, parent, b);
	payload = payload_above(js, parent, b, &h, small);
	send_above(worker, js, parent, &h, &payload);
}

static struct weir_header
acknowledgement_above(const struct job_shard *js, const struct parent *parent, uint32_t block)
{
	return (struct weir_header){.job_id = parent->job,
		.block_id = block,
		.gen_id = parent->generation,
		.src_id = (uint8_t)js->first_rank,
		.collective = WEIR_COLLECTIVE_ACKNOWLEDGE,
		.flags = WEIR_FLAG_UP | (parent->keys != NULL ? WEIR_FLAG_AUTHENTICATED : 0),
		.extended = true};
}

static void
acknowledge_to(struct ppe_worker *worker, struct job_shard *js, const struct parent *parent,
	uint32_t block)
{
	const struct weir_header h = acknowledgement_above(js, parent, block);
	uint8_t tag[WEIR_TAG_BYTES];
	struct pktbuf_payload payload = {.data = tag};

	payload.bytes = up_tag(js, parent, &h, NULL, 0, tag, 0);
	payload.sum = payload.bytes == 0 ? 0 : pktbuf_sum_bytes(tag, payload.bytes);
	send_above(worker, js, parent, &h, &payload);
}

/* This switch has the result of the block before this one, and all before it. */
static void
acknowledge_above(struct ppe_worker *worker, struct job_shard *js, uint32_t block)
{
	unsigned int p = up_parent_of(js, block);

	if (likely(p < PPE_PARENTS_MAX))
		acknowledge_to(worker, js, &js->up->parent[p], block);
}

/* The block's parent waits for others. If these cannot reach it, they have left for the other parents, which then answer
 * `stale`; but nothing may be due there. So ask the others in turn, with an acknowledgement of a block that they never have. */
static void
ask_another(struct ppe_worker *worker, struct job_shard *js, uint32_t block)
{
	const struct up *up = js->up;
	unsigned int n = up->nb_serving, own = (block & (js->window - 1u)) % RTE_MAX(n, 1u);

	if (n > 1)
		acknowledge_to(worker, js,
			&up->parent[up->serving[(own + 1 + heard_now(worker->now) / 2 % (n - 1)) %
				n]],
			block);
}

void
tag_sent_above(const struct job_shard *js, const struct parent *parent, uint32_t block,
	uint8_t tag[WEIR_TAG_BYTES])
{
	const struct block *b = slot_of(js, block)->current;
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	struct pktbuf_payload payload;
	struct weir_header h;

	if (b != NULL && b->state == BLOCK_UP && b->block_id == block &&
		parent == &js->up->parent[up_parent_of(js, block)]) {
		h = header_above(js, parent, b);
		payload = payload_above(js, parent, b, &h, small);
		memcpy(tag, (const uint8_t *)payload.data + payload.bytes - WEIR_TAG_BYTES,
			WEIR_TAG_BYTES);
	} else {
		h = acknowledgement_above(js, parent, block);
		up_tag(js, parent, &h, NULL, 0, tag, 0);
	}
}

/* Note which ranks are in the block, and with which status it goes up. */
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
send_up(struct collective *state, struct job_shard *js, struct block *b, enum weir_status status)
{
	unsigned int p = up_parent_of(js, b->block_id);
	struct weir_slice part;
	struct weir_header h;
	uint8_t *payload;
	uint32_t size;

	b->state = BLOCK_UP;
	note_ranks(js, b, status);
	slot_of(js, b->block_id)->asked = state->worker->now;
	if (unlikely(p == PPE_PARENTS_MAX))
		return;
	if (is_in_buffer(b)) {
		finish_above(js, b);
		if (b->status == WEIR_STATUS_PARTIAL)
			clear_missing(js, b);
		part = part_above(js, b, &size);
		payload = (uint8_t *)rmw_buffer_data(b->buffer) + size * part.first;
		b->payload_bytes = size * part.count;
		h = header_above(js, &js->up->parent[p], b);
		b->payload_bytes +=
			end_above(js, &js->up->parent[p], b, &h, payload, b->payload_bytes);
		if (state->sums)
			b->payload_sum = pktbuf_sum_bytes(payload, b->payload_bytes);
	}
	contribute_above(state->worker, js, b);
}

void
ask_above(struct collective *state, struct job_shard *js, uint32_t block)
{
	struct slot *slot = slot_of(js, block);
	const struct block *b = slot->current;
	unsigned int p = up_parent_of(js, block);
	uint64_t now = state->worker->now;

	if (now - slot->asked < state->tsc_per_ms)
		return;
	if (b != NULL && b->state == BLOCK_UP && b->block_id == block) {
		js->count.upward_repeats++;
		contribute_above(state->worker, js, b);
		if (p < PPE_PARENTS_MAX)
			parent_was_asked(&js->up->parent[p], heard_now(now));
		if (b->above_says == WEIR_STATUS_WAITING)
			ask_another(state->worker, js, block);
	} else if (block_ahead(js, slot, block) == 0) {
		acknowledge_above(state->worker, js, block);
	} else {
		return;
	}
	slot->asked = now;
}

/* Tell the source that asked last about the block what the parent says. */
static void
tell(struct ppe_worker *worker, struct collective *state, struct job_shard *js,
	const struct block *b)
{
	bool waiting = b->above_says == WEIR_STATUS_WAITING;

	if (!js->up->is_asked || js->up->asker.header.block_id != b->block_id)
		return;
	js->up->is_asked = false;
	reply_to(worker, state, &js->up->asker, (enum weir_status)b->above_says,
		waiting ? js->up->known[b->block_id & (js->window - 1u)] : NULL,
		waiting ? WEIR_BITMAP_BYTES : 0);
}

struct ppe_next
late_above(struct ppe_worker *worker, struct ppe_thread *thread, struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;
	struct job_shard *js = state->job[b->job];
	unsigned int p = up_parent_of(js, b->block_id);
	enum ppe_drop reason = PPE_DROP_DUPLICATE;

	if (mask_test(b->heard, h->src_id)) {
		js->count.duplicates++;
	} else {
		mask_set(b->heard, h->src_id);
		b->heard_count++;
		js->count.late++;
		reason = PPE_DROP_LATE;
	}
	ask_above(state, js, b->block_id);
	if (js->pinned && p < PPE_PARENTS_MAX &&
		unlikely(parent_is_silent(&js->up->parent[p], heard_now(worker->now)))) {
		lmem(thread)->c.parent = (uint8_t)p;
		lmem(thread)->c.serial = js->serial; /* a packet that is recognized has none */
		return ppe_hop(worker, thread,
			(uint16_t)ppe_residue_shard(js->job, 0, worker->workers), silent_above);
	}
	js->up->asker = asker_of(thread, js, h);
	js->up->is_asked = true;
	if (b->above_says != 0) {
		tell(worker, state, js, b);
	} else if (js->children && worker->now - b->opened >= js->timeout) {
		js->up->is_asked = false;
		reply_status(worker, thread, h, WEIR_STATUS_WAITING, b->in, WEIR_BITMAP_BYTES);
	}
	ppe_drop(worker, thread, reason);
	return PPE_END;
}

/* ---- from the parent ---- */

/* The part of the buffer that this switch gets, in elements. The columns of its ranks are the first ones in it. */
static struct weir_slice
part_below(const struct job_shard *js, const struct weir_header *h)
{
	const struct collective_row *row = &collective_table[h->collective];
	struct weir_slice part =
		row_part(row, h->grad_cnt, js->nb_ranks, js->first_rank, js->own_ranks, h->root);

	if (row->result == RESULT_COLUMN)
		part.first = 0;
	return part;
}

/* Does a result's length agree with its header, and fit the job? */
static bool
result_fits(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct contribution *c)
{
	const struct weir_header *h = &c->header;
	const struct collective_row *row = &collective_table[h->collective];
	uint32_t size = state->dtype_bytes[h->dtype], extent;

	if (!row->served || h->root >= js->nb_ranks)
		return false;
	if (h->status == WEIR_STATUS_MISMATCH)
		return h->grad_cnt == 0 && c->bytes == sizeof(struct weir_mismatch);
	if (h->degraded != (h->status != WEIR_STATUS_OK))
		return false;
	if (h->status == WEIR_STATUS_ERROR)
		return h->grad_cnt == 0 && c->bytes == WEIR_BITMAP_BYTES;
	extent = row_extent(row, h->grad_cnt, js->nb_ranks, js->first_rank, js->own_ranks);
	return extent <= j->elements && extent * size <= ppe_job_payload_bytes(j) &&
		(h->grad_cnt == 0 || (size != 0 && row->contribution != CONTRIBUTION_NOTHING)) &&
		c->bytes == part_below(js, h).count * size + (h->degraded ? WEIR_BITMAP_BYTES : 0);
}

/* The block becomes the parent's. It is another one than here only if the parent has finished it without what was collected
 * here. false: no buffer is free. */
static bool
adopt(struct collective *state, struct job_shard *js, struct block *b, const struct weir_header *h)
{
	const struct collective_row *row = &collective_table[h->collective];
	int error;

	if (unlikely(h->grad_cnt > 0 && b->buffer == NULL)) {
		b->buffer = rmw_alloc(js->pool, &js->quota, &error);
		if (b->buffer == NULL)
			return false;
		b->buffer->user = state->worker;
	}
	b->agreement = agreement_of(h, h->final);
	b->per_receiver = row_differs(row, js->skips_own);
	return true;
}

static void
copy_result(const struct job_shard *js, const struct ppe_thread *thread, struct block *b)
{
	const struct contribution *c = &lmem((struct ppe_thread *)(uintptr_t)thread)->c;
	const struct weir_header *h = &c->header;
	uint32_t size = weir_dtype_bytes(b->dtype);
	struct weir_slice part = part_below(js, h);
	struct pktbuf_cursor cursor;

	pktbuf_cursor_init(&cursor, thread->packet, c->payload, c->bytes);
	if (h->status == WEIR_STATUS_MISMATCH)
		pktbuf_cursor_copy(&cursor, &b->mismatch, sizeof(b->mismatch));
	else if (part.count > 0)
		pktbuf_cursor_copy(&cursor,
			(uint8_t *)rmw_buffer_data(b->buffer) + size * part.first,
			size * part.count);
	if (h->degraded)
		pktbuf_cursor_copy(&cursor, b->in, WEIR_BITMAP_BYTES);
}

/* The parent has finished the block. Its result counts, always, and what was collected here does not. */
static struct ppe_next
answered(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;

	if (b->state == BLOCK_OPEN && js->ordered)
		order_end(js, b, false);
	if ((h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL) &&
		!adopt(state, js, b, h))
		return end_dropped(worker, thread, PPE_DROP_NO_MEMORY);
	copy_result(js, thread, b);
	slot_of(js, b->block_id)->asked = 0; /* what goes up next is about the next block */
	b->in_count = h->src_cnt;
	js->count.answers++;
	ppe_consume(worker, thread);
	block_done(state, js, b, (enum weir_status)h->status);
	return emit_block(worker, thread, b, -1, NULL);
}

/* A result from above, of a block that is open here, or is the residue's next one. */
static struct ppe_next
take_result(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct slot *slot = slot_of(js, h->block_id);
	struct block *b = slot->current;
	int32_t ahead = block_ahead(js, slot, h->block_id);
	enum ppe_drop reason;

	if (!result_fits(state, js, j, c))
		return end_dropped(worker, thread, PPE_DROP_LENGTH);
	if (b != NULL && b->state != BLOCK_DONE)
		return b->block_id == h->block_id
			? answered(worker, thread, js, b)
			: end_dropped(
				  worker, thread, ahead < 0 ? PPE_DROP_DUPLICATE : PPE_DROP_WINDOW);
	if (ahead != 0)
		return end_dropped(
			worker, thread, ahead < 0 ? PPE_DROP_DUPLICATE : PPE_DROP_WINDOW);
	if (slot->previous != NULL)
		return end_dropped(worker, thread, PPE_DROP_HELD_BACK);
	hash_place(state->blocks, block_key(js->generation, js->job, h->block_id), &c->probe);
	reason = block_begin(
		state, js, slot, h, agreement_of(h, h->final), &c->probe, worker->now, &b);
	if (reason != PPE_DROP_COUNT)
		return end_dropped(worker, thread, reason);
	return answered(worker, thread, js, b);
}

/* What the parent says about a block that it has not finished. The source that asked last is told at once: it may next
 * repeat another block. Others are told when they repeat. A source gets no more replies than it sends packets. */
static struct ppe_next
note_status(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, struct block *b)
{
	const struct contribution *c = &lmem(thread)->c;
	struct pktbuf_cursor cursor;

	if (c->header.status == WEIR_STATUS_WAITING) {
		if (c->bytes != WEIR_BITMAP_BYTES)
			return end_dropped(worker, thread, PPE_DROP_LENGTH);
		pktbuf_cursor_init(&cursor, thread->packet, c->payload, c->bytes);
		pktbuf_cursor_copy(
			&cursor, js->up->known[b->block_id & (js->window - 1u)], WEIR_BITMAP_BYTES);
	}
	b->above_says = c->header.status;
	tell(worker, ppe_state(worker, thread), js, b);
	ppe_consume(worker, thread);
	return PPE_END;
}

/* Does the answer say that the parent's generation is over for this switch? ask_another() may have asked for it. */
static bool
ends_generation(uint8_t status)
{
	return status == WEIR_STATUS_STALE || status == WEIR_STATUS_EXPIRED ||
		status == WEIR_STATUS_REFUSED;
}

/* Another answer than a result. It counts if it is about what this switch last sent for the residue. */
static struct ppe_next
take_status(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j)
{
	const struct weir_header *h = &lmem(thread)->c.header;
	const struct slot *slot = slot_of(js, h->block_id);
	struct block *b = slot->current;
	bool up = b != NULL && b->state == BLOCK_UP && b->block_id == h->block_id;

	if (!up &&
		!((b == NULL || b->state == BLOCK_DONE) && block_ahead(js, slot, h->block_id) == 0))
		return end_dropped(worker, thread, PPE_DROP_KNOWN);
	if (ends_generation(h->status))
		return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers),
			revoked_above);
	if (up && (h->status == WEIR_STATUS_WAITING || h->status == WEIR_STATUS_UNSUPPORTED))
		return note_status(worker, thread, js, b);
	return end_dropped(worker, thread, PPE_DROP_KNOWN);
}

bool
is_of_parents_generation(
	const struct job_shard *js, const struct parent *parent, const struct weir_header *h)
{
	if (js->generation == 0 || js->revoked || parent->generation == 0)
		return false;
	return h->status == WEIR_STATUS_REFUSED ||
		(h->gen_id != parent->generation) == (h->status == WEIR_STATUS_STALE);
}

static struct ppe_next
take_above(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	struct parent *parent;

	if (j == NULL || js == NULL || js->serial != c->serial)
		return end_dropped(worker, thread, PPE_DROP_UNKNOWN_JOB);
	if (up_parent_of(js, h->block_id) != c->parent && !ends_generation(h->status))
		return end_dropped(worker, thread, PPE_DROP_NOT_FROM_PARENT);
	parent = &js->up->parent[c->parent];
	if (!checksums_hold(worker, thread) || !from_above_holds(worker, thread, js, parent))
		return PPE_END;
	parent->heard = heard_now(worker->now);
	parent->unanswered = 0;
	if (!is_of_parents_generation(js, parent, h))
		return end_dropped(worker, thread, PPE_DROP_STALE);
	if (h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH)
		return take_result(worker, thread, js, j);
	return take_status(worker, thread, js, j);
}

/* The parent of the job from which the packet comes; PPE_PARENTS_MAX: from none. */
static unsigned int
sender(const struct ppe_job *j, const struct ppe_thread *thread, const struct weir_header *h)
{
	const struct pktbuf_head *head = &thread->head;
	unsigned int p;

	if (j == NULL || j->first_rank != h->src_id)
		return PPE_PARENTS_MAX;
	for (p = 0; p < j->nb_parents; p++) {
		const struct ppe_parent *parent = &j->parent[p];

		if (parent->job == h->job_id && parent->address == head->ip_src &&
			parent->udp == head->udp_src && parent->port == thread->port &&
			memcmp(parent->mac, head->bytes + RTE_ETHER_ADDR_LEN, RTE_ETHER_ADDR_LEN) ==
				0)
			return p;
	}
	return PPE_PARENTS_MAX;
}

const struct ppe_job *
find_above(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *h, uint8_t *parent)
{
	struct collective *state = ppe_state(worker, thread);
	const struct ppe_job *const *jobs = worker->jobs->by_id;
	unsigned int id = state->above[h->job_id], p = sender(jobs[id], thread, h);

	for (unsigned int other = 0; p == PPE_PARENTS_MAX && other < WEIR_JOBS_MAX; other++) {
		p = sender(jobs[other], thread, h);
		id = other;
	}
	if (p == PPE_PARENTS_MAX)
		return NULL;
	state->above[h->job_id] = (uint8_t)id;
	*parent = (uint8_t)p;
	return jobs[id];
}

struct ppe_next
from_above(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	const struct pktbuf_head *head = &thread->head;
	struct contribution *c = &lmem(thread)->c;
	struct weir_header *h = &c->header;
	const struct ppe_job *j;

	if (unlikely(head->payload_length < WEIR_EXT_BYTES))
		return end_dropped(worker, thread, PPE_DROP_TRUNCATED);
	*h = (struct weir_header){.extended = true};
	weir_header_read(h, head->bytes + head->payload);
	c->payload = head->payload + WEIR_EXT_BYTES;
	c->bytes = head->payload_length - WEIR_EXT_BYTES;
	j = find_above(worker, thread, h, &c->parent);
	if (unlikely(j == NULL))
		return end_dropped(worker, thread, PPE_DROP_NOT_FROM_PARENT);
	/* From here on it is the job's id here. */
	h->job_id = j->id;
	c->serial = state->job[j->id]->serial;
	if (h->collective == WEIR_COLLECTIVE_JOIN)
		return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers),
			joined_above);
	h->block_id = ppe_job_block(j, h->block_id);
	return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, h->block_id, worker->workers),
		take_above);
}

const struct ppe_segment_name up_segments[] = {
	{from_above, "from_above"},
	{take_above, "take_above"},
	{joined_above, "joined_above"},
	{revoked_above, "revoked_above"},
	{silent_above, "silent_above"},
	{NULL, NULL},
};
