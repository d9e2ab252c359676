/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What parents answer: the other half of parent.c.
 *
 *   parent_entry      a packet to the port for parents: find the job; hop to the block's shard
 *   take_from_parent  checksums, tag or CRC, generation; the block, on the shard's owner
 *   answered          copy the result to the buffer, and send it to this switch's sources
 */
#include "pktbuf/cursor.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/collective/tree/tree.h"
#include "ppe/simulate.h"

/* The part of the buffer that this switch gets, in elements. The columns of its ranks are first in
 * the buffer. */
static struct weir_slice
part_from_parent(const struct job_shard *js, const struct weir_header *h)
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
		c->bytes ==
		part_from_parent(js, h).count * size + (h->degraded ? WEIR_BITMAP_BYTES : 0);
}

/* Make the block the parent's block. They differ only if the parent has finished the block without
 * this switch's contribution. false: no buffer is free. */
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
	b->agreement = block_agreement(h, h->final);
	b->per_receiver = row_differs(row, js->skips_own);
	return true;
}

static void
copy_result(const struct job_shard *js, const struct ppe_thread *thread, struct block *b)
{
	const struct contribution *c = &lmem((struct ppe_thread *)(uintptr_t)thread)->c;
	const struct weir_header *h = &c->header;
	uint32_t size = weir_dtype_bytes(b->dtype);
	struct weir_slice part = part_from_parent(js, h);
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

/* Time the parent's answer to the last packet about the block, which was sent once (Karn's rule,
 * RFC 6298, 3). A later answer is not timed: another switch held up the block. */
static void
time_answer(const struct collective *state, struct parent *parent, const struct slot *slot)
{
	uint64_t took = state->worker->now - slot->asked;

	if (took > PROBED_MS * state->tsc_per_ms)
		return;
	parent->answer += took / 8 - parent->answer / 8;
	parent->backoff = 0;
}

/* The parent has finished the block: its result replaces what was collected here. */
static struct ppe_next
answered(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, struct block *b)
{
	struct collective *state = ppe_state(worker, thread);
	const struct weir_header *h = &lmem(thread)->c.header;
	struct parent *parent = &js->parents->parent[lmem(thread)->c.parent];

	if (b->state == BLOCK_UP && b->asks == 0)
		time_answer(state, parent, slot_of(js, b->block_id));
	else if (b->state == BLOCK_UP)
		parent->backoff = RTE_MAX(parent->backoff, b->backoff);
	if (b->state == BLOCK_OPEN && js->ordered)
		order_end(js, b, false);
	if ((h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL) &&
		!adopt(state, js, b, h))
		return ppe_drop(worker, thread, PPE_DROP_NO_MEMORY);
	copy_result(js, thread, b);
	slot_of(js, b->block_id)->asked = 0; /* what is sent next is about the next block */
	b->in_count = h->src_cnt;
	js->count.answers++;
	ppe_consume(worker, thread);
	block_done(state, js, b, (enum weir_status)h->status);
	return block_emit(worker, thread, b, -1, NULL);
}

/* Take a parent's result of a block that is open here, or is the residue's next block. */
static struct ppe_next
take_result(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct slot *slot = slot_of(js, h->block_id);
	struct block *b = slot->current;
	bool busy = b != NULL && b->state != BLOCK_DONE;
	int32_t ahead = block_ahead(js, slot, h->block_id);
	enum ppe_drop reason;

	if (!result_fits(state, js, j, c))
		return ppe_drop(worker, thread, PPE_DROP_LENGTH);
	if (busy && b->block_id == h->block_id)
		return answered(worker, thread, js, b);
	if (busy || ahead != 0)
		return ppe_drop(worker, thread, ahead < 0 ? PPE_DROP_DUPLICATE : PPE_DROP_WINDOW);
	if (slot->previous != NULL)
		return ppe_drop(worker, thread, PPE_DROP_HELD_BACK);
	hash_place(state->blocks, block_key(js->hop.generation, js->job, h->block_id), &c->probe);
	reason = block_begin(
		state, js, slot, h, block_agreement(h, h->final), &c->probe, worker->now, &b);
	if (reason != PPE_DROP_COUNT)
		return ppe_drop(worker, thread, reason);
	return answered(worker, thread, js, b);
}

/* Does the parent lack all ranks that were sent for the block? */
static bool
lacks_own(const struct job_shard *js, const struct block *b)
{
	const uint64_t *known = parents_known(js, b->block_id);
	uint64_t both = 0;

	for (unsigned int i = 0; i < MASK_WORDS; i++)
		both |= known[i] & b->in[i];
	return both == 0;
}

/* Take the parent's status of an unfinished block. The source that asked last is told at once,
 * because it may repeat another block next. Other sources are told when they repeat. A source gets
 * no more replies than it sends packets. */
static struct ppe_next
note_status(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, struct block *b)
{
	const struct contribution *c = &lmem(thread)->c;
	struct pktbuf_cursor cursor;

	if (c->header.status == WEIR_STATUS_WAITING) {
		if (c->bytes != WEIR_BITMAP_BYTES)
			return ppe_drop(worker, thread, PPE_DROP_LENGTH);
		pktbuf_cursor_init(&cursor, thread->packet, c->payload, c->bytes);
		pktbuf_cursor_copy(&cursor, parents_known(js, b->block_id), WEIR_BITMAP_BYTES);
		if (c->header.collective == WEIR_COLLECTIVE_PROBE && b->asks == 1 &&
			b->parent_status == 0)
			time_answer(ppe_state(worker, thread), &js->parents->parent[c->parent],
				slot_of(js, b->block_id));
		if (c->header.collective == WEIR_COLLECTIVE_PROBE && b->probed && lacks_own(js, b))
			parent_repeat(worker, js, b);
	} else if (c->header.collective == WEIR_COLLECTIVE_PROBE) {
		js->parents->parent[c->parent].no_probes = true;
		return ppe_consume(worker, thread);
	}
	b->parent_status = c->header.status;
	parent_relay_status(worker, ppe_state(worker, thread), js, b);
	return ppe_consume(worker, thread);
}

/* Does the answer say that the parent's generation is over for this switch? parent_ask_another()
 * may have caused it. */
static bool
ends_generation(uint8_t status)
{
	return status == WEIR_STATUS_STALE || status == WEIR_STATUS_EXPIRED ||
		status == WEIR_STATUS_REFUSED;
}

/* Take a reply that is not a result. It counts if it is about the residue's last packet. */
static struct ppe_next
take_status(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j)
{
	const struct weir_header *h = &lmem(thread)->c.header;
	const struct slot *slot = slot_of(js, h->block_id);
	struct block *b = slot->current;
	bool is_up = b != NULL && b->state == BLOCK_UP && b->block_id == h->block_id;

	if (!is_up &&
		!((b == NULL || b->state == BLOCK_DONE) && block_ahead(js, slot, h->block_id) == 0))
		return ppe_drop(worker, thread, PPE_DROP_KNOWN);
	if (ends_generation(h->status))
		return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers),
			parent_revoked);
	if (is_up && (h->status == WEIR_STATUS_WAITING || h->status == WEIR_STATUS_UNSUPPORTED))
		return note_status(worker, thread, js, b);
	return ppe_drop(worker, thread, PPE_DROP_KNOWN);
}

bool
parent_is_of_generation(
	const struct job_shard *js, const struct parent *parent, const struct weir_header *h)
{
	if (js->hop.generation == 0 || js->is_revoked || parent->hop.generation == 0)
		return false;
	return h->status == WEIR_STATUS_REFUSED ||
		(h->gen_id != parent->hop.generation) == (h->status == WEIR_STATUS_STALE);
}

static struct ppe_next
take_from_parent(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	struct parent *parent;

	if (j == NULL || js == NULL || js->serial != c->serial)
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
	if (parent_of_block(js, h->block_id) != c->parent && !ends_generation(h->status))
		return ppe_drop(worker, thread, PPE_DROP_NOT_FROM_PARENT);
	parent = &js->parents->parent[c->parent];
	if (!checksums_hold(worker, thread) || !parent_packet_holds(worker, thread, js, parent))
		return PPE_END;
	parent->heard = heard_now(worker->now);
	parent->unanswered = 0;
	if (!parent_is_of_generation(js, parent, h))
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	if (parent_is_result(h))
		return take_result(worker, thread, js, j);
	return take_status(worker, thread, js, j);
}

/* The parent of the job that sent the packet; PPE_PARENTS_MAX: none. */
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

/* The job, and its parent, that sent the packet; by id, from `first`. NULL: none. */
static const struct ppe_job *
find_sender(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *h, unsigned int first, uint8_t *parent)
{
	const struct ppe_job *const *jobs = worker->jobs->by_id;
	unsigned int id = first, p = sender(jobs[id], thread, h);

	for (unsigned int other = 0; p == PPE_PARENTS_MAX && other < WEIR_JOBS_MAX; other++) {
		p = sender(jobs[other], thread, h);
		id = other;
	}
	if (p == PPE_PARENTS_MAX)
		return NULL;
	*parent = (uint8_t)p;
	return jobs[id];
}

const struct ppe_job *
parent_find_sender(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *h, uint8_t *parent)
{
	struct collective *state = ppe_state(worker, thread);
	const struct ppe_job *j =
		find_sender(worker, thread, h, state->job_of_parent[h->job_id], parent);

	if (j != NULL)
		state->job_of_parent[h->job_id] = j->id;
	return j;
}

/* Read the header. false: the packet is too short. */
static inline bool
read_header(const struct ppe_thread *thread, struct contribution *c)
{
	const struct pktbuf_head *head = &thread->head;

	if (unlikely(head->payload_length < WEIR_EXT_BYTES))
		return false;
	c->header = (struct weir_header){.extended = true};
	weir_header_read(&c->header, head->bytes + head->payload);
	c->payload = head->payload + WEIR_EXT_BYTES;
	c->bytes = head->payload_length - WEIR_EXT_BYTES;
	return true;
}

struct ppe_next
parent_entry(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	struct weir_header *h = &c->header;
	const struct ppe_job *j;

	if (!read_header(thread, c))
		return ppe_drop(worker, thread, PPE_DROP_TRUNCATED);
	j = parent_find_sender(worker, thread, h, &c->parent);
	if (unlikely(j == NULL))
		return ppe_drop(worker, thread, PPE_DROP_NOT_FROM_PARENT);
	/* From here on, job_id is the id of the job on this switch. */
	h->job_id = j->id;
	c->serial = state->job[j->id]->serial;
	if (h->collective == WEIR_COLLECTIVE_JOIN)
		return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers),
			parent_join_reply);
	h->block_id = ppe_job_block(j, h->block_id);
	return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, h->block_id, worker->workers),
		take_from_parent);
}

/* Its tag is taken for right, and what decides within the block is left out. */
void
parent_explain(const struct ppe_worker *worker, const void *const *states,
	struct ppe_thread *thread, struct ppe_explanation *explanation)
{
	struct contribution *c = &lmem(thread)->c;
	struct weir_header *h = &c->header;
	const struct ppe_job *j;
	const struct collective *state;
	const struct job_shard *js;
	enum ppe_drop reason;
	bool join;

	if (!read_header(thread, c)) {
		ppe_explain_drop(explanation, PPE_DROP_TRUNCATED);
		return;
	}
	j = find_sender(worker, thread, h, 0, &c->parent);
	if (j == NULL) {
		ppe_explain_drop(explanation, PPE_DROP_NOT_FROM_PARENT);
		return;
	}
	join = h->collective == WEIR_COLLECTIVE_JOIN;
	h->block_id = join ? 0 : ppe_job_block(j, h->block_id);
	state = states[ppe_job_shard(j, h->block_id, worker->workers)];
	js = state->job[j->id];
	ppe_explain(explanation, join ? "parent_join_reply" : "take_from_parent",
		"from parent %u of job %s, at worker %u", c->parent, j->name, state->worker->id);
	reason = js == NULL || js->parents == NULL ? PPE_DROP_UNKNOWN_JOB : PPE_DROP_COUNT;
	if (reason == PPE_DROP_COUNT && !join && !ends_generation(h->status) &&
		parent_of_block(js, h->block_id) != c->parent)
		reason = PPE_DROP_NOT_FROM_PARENT;
	if (reason == PPE_DROP_COUNT)
		reason = checksums_damage(state->worker, thread);
	if (reason == PPE_DROP_COUNT && !join &&
		!parent_is_of_generation(js, &js->parents->parent[c->parent], h))
		reason = PPE_DROP_STALE;
	if (reason != PPE_DROP_COUNT)
		ppe_explain_drop(explanation, reason);
	else
		ppe_explain_end(explanation, "", "%s; tag, CRC and state are not looked at",
			join                          ? "an answer to this switch's join"
				: parent_is_result(h) ? "the result of a block, for all sources"
						      : "what the parent says about a block");
}

const struct ppe_segment_name parent_segments[] = {
	{parent_entry, "from_parent",
		"hop:take_from_parent hop:parent_join_reply drop:truncated drop:not_from_parent"},
	{take_from_parent, "take_from_parent",
		"emit hop:parent_revoked consume output drop:unknown_job drop:not_from_parent "
		"drop:forged drop:stale drop:length drop:duplicate drop:window drop:held_back "
		"drop:no_memory drop:table_full drop:known" DAMAGE_LEADS_TO},
	{parent_join_reply, "parent_join_reply",
		"hop:adopt hop:revoke consume output drop:unknown_job drop:held_back drop:forged "
		"drop:stale drop:length drop:no_mbuf drop:not_from_parent" DAMAGE_LEADS_TO},
	{parent_revoked, "parent_revoked", "hop:revoke drop:unknown_job drop:held_back drop:stale"},
	{parent_timeout, "parent_timeout", "hop:revoke drop:unknown_job drop:held_back drop:stale"},
	{parent_prove, "parent_prove",
		"output drop:unknown_job drop:held_back drop:stale drop:probed drop:duplicate"},
	{0},
};
