/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a block: opened by a first contribution, finished by the last one (or by its timeout,
 * or by a disagreement), kept for those who ask again, released when every source is known to have
 * its result: it was heard in the block one window later, or says so (collective_ack.c). docs/protocol.md, "Blocks and the window".
 *
 * A residue has at most two blocks, `current` and `previous`, so a job needs at most 2 x window
 * buffers: that is its quota, reserved when it was admitted.
 */
#include "ppe/collective/block.h"

#include "hashengine/deadline_fast.h"
#include "ppe/collective/auth.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/order.h"
#include "ppe/collective/table.h"
#include "ppe/trace/trace_fast.h"

static void
release(struct collective *state, struct block *block)
{
	if (block->buffer != NULL)
		rmw_release(block->buffer);
	ppe_trace_block_event(state->worker, PPE_EVENT_BLOCK_RELEASED, block->hash.key);
	hash_delete(state->blocks, &block->hash);
}

/* Is every source known to have the result of the slot's previous block? */
static bool
all_received(const struct job_shard *job, const struct slot *slot)
{
	unsigned int count = 0;

	if (likely(block_is_full(job, slot->current)))
		return true;
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		count += (unsigned int)__builtin_popcountll(slot->current->heard[i] |
			slot->current->received[i] | slot->previous->received[i] |
			job->expelled[i]);
	return count >= job->nb_sources;
}

void
block_release_previous(struct collective *state, struct job_shard *job, struct block *block)
{
	struct slot *slot = &job->slot[block->block_id & (job->window - 1u)];

	if (slot->current != block || slot->previous == NULL || !all_received(job, slot))
		return;
	release(state, slot->previous);
	slot->previous = NULL;
	slot->held_since = 0;
}

bool
acknowledge(struct collective *state, struct job_shard *job, struct slot *slot, struct block *block,
	uint8_t source)
{
	if (slot_source_has(slot, block, source))
		return false;
	mask_set(block->received, source);
	/* While the next one is open, its end will do it. */
	if (slot->current->state == BLOCK_DONE)
		block_release_previous(state, job, slot->current);
	return true;
}

int32_t
block_ahead(const struct job_shard *job, const struct slot *slot, uint32_t block)
{
	/* Shifted up, numbers of fewer bits wrap where those of 32 do. */
	return weir_block_diff(block << job->block_shift, (uint32_t)slot->next << job->block_shift);
}

/* May the block be opened? What its residue says of it. */
static enum ppe_drop
check_turn(struct collective *state, struct job_shard *job, struct slot *slot,
	const struct weir_header *h, uint64_t now, enum weir_status *status)
{
	int32_t ahead = block_ahead(job, slot, h->block_id);

	*status = WEIR_STATUS_OK;
	if (unlikely(h->gen_id != job->generation || job->revoked)) {
		job->count.stale++;
		*status = WEIR_STATUS_STALE;
		return PPE_DROP_STALE;
	}
	if (ahead < 0) {
		job->count.expired++;
		*status = WEIR_STATUS_EXPIRED;
		return PPE_DROP_EXPIRED;
	}
	if (ahead > 0 || (slot->current != NULL && slot->current->state == BLOCK_OPEN)) {
		*status = WEIR_STATUS_WINDOW;
		return PPE_DROP_WINDOW;
	}
	/*
	 * Who sends block b + window has the result of b, also when what it sent for b was lost, and b was
	 * finished without it: it will never send b again. Without this, one lost contribution to a
	 * block that timed out would hold the job back for ever.
	 */
	if (slot->previous != NULL)
		acknowledge(state, job, slot, slot->current, h->src_id);
	if (slot->previous != NULL)
		expel(state, job, slot, now);
	if (slot->previous != NULL) {
		job->count.held_back++;
		return PPE_DROP_HELD_BACK;
	}
	return PPE_DROP_COUNT;
}

static void
fill(const struct collective *state, struct block *b, const struct contribution *c,
	const struct job_shard *job, struct rmw_buffer *buffer, uint64_t now)
{
	const struct weir_header *h = &c->header;
	const struct collective_row *row = &collective_table[h->collective];
	struct hash_record listed = b->hash;

	memset(b, 0, sizeof(*b));
	b->hash = listed;
	b->buffer = buffer;
	b->grad_cnt = h->grad_cnt;
	b->state = BLOCK_OPEN;
	b->collective = h->collective;
	b->op = h->op;
	b->dtype = h->dtype;
	b->root = h->root;
	b->placed = row->contribution != CONTRIBUTION_REDUCE;
	b->apart = row->to != TO_ALL;
	if (likely(buffer != NULL && !b->placed))
		b->reduction = state->reduction[h->dtype][h->op];
	b->direct = b->reduction != NULL && !(job->ordered && order_matters(b));
	b->first_source = h->src_id;
	b->final = h->final;
	b->job = job->job;
	b->block_id = h->block_id;
	b->opened = now;
	b->progress = now;
}

enum ppe_drop
block_open(struct collective *state, struct job_shard *job, struct contribution *contribution,
	uint64_t now, struct block **block, enum weir_status *status)
{
	struct slot *slot = &job->slot[contribution->header.block_id & (job->window - 1u)];
	enum ppe_drop reason = check_turn(state, job, slot, &contribution->header, now, status);
	struct rmw_buffer *buffer = NULL;
	struct hash_record *listed;
	int error;

	*block = NULL;
	if (unlikely(reason != PPE_DROP_COUNT))
		return reason;
	if (contribution->header.grad_cnt > 0) {
		buffer = rmw_alloc(job->pool, &job->quota, &error);
		if (unlikely(buffer == NULL)) {
			/* A released buffer is still in an output queue. */
			job->count.held_back++;
			return error == -EDQUOT ? PPE_DROP_HELD_BACK : PPE_DROP_NO_MEMORY;
		}
		buffer->user = state->worker;
	}
	if (unlikely(hash_insert(state->blocks, &contribution->probe, &listed) < 0)) {
		if (buffer != NULL)
			rmw_release(buffer);
		return PPE_DROP_TABLE_FULL;
	}
	*block = (struct block *)(void *)listed;
	fill(state, *block, contribution, job, buffer, now);
	hash_deadline_set(state->deadlines, contribution->probe.candidate, now + job->timeout);
	slot->previous = slot->current;
	slot->current = *block;
	slot->next += job->window;
	job->count.blocks_opened++;
	ppe_trace_block_event(state->worker, PPE_EVENT_BLOCK_OPENED, contribution->probe.key);
	return PPE_DROP_COUNT;
}

/* From what was accumulated to what is told. */
static void
finish_sum(const struct block *block)
{
	const struct rmw_reduction *reduction = block->reduction;

	if (unlikely(reduction != NULL && reduction->finish != NULL))
		reduction->finish(rmw_buffer_data(block->buffer), block->grad_cnt, block->in_count);
}

/* The result's payload, its bitmap, and its sum when that will be asked for. */
static void
fix_payload(const struct collective *state, const struct job_shard *job, struct block *block,
	enum weir_status status)
{
	uint8_t *data;

	block->payload_bytes = block->grad_cnt * weir_dtype_bytes(block->dtype);
	if (block->buffer == NULL)
		return;
	finish_sum(block);
	if (status == WEIR_STATUS_PARTIAL)
		clear_missing(job, block);
	if (block_has_parts(block))
		return; /* each ends for itself */
	data = rmw_buffer_data(block->buffer);
	if (status == WEIR_STATUS_PARTIAL) {
		memcpy(data + block->payload_bytes, block->in, WEIR_BITMAP_BYTES);
		block->payload_bytes += WEIR_BITMAP_BYTES;
	}
	if (unlikely(job->keys != NULL))
		block->payload_bytes += tag_result(job, block, data, block->payload_bytes);
	if (state->sums)
		block->payload_sum = pktbuf_sum_bytes(data, block->payload_bytes);
}

static void
count_time(struct ppe_histogram *histogram, uint64_t us)
{
	unsigned int bucket = us == 0 ? 0 : 64 - (unsigned int)__builtin_clzll(us);

	histogram->bucket[RTE_MIN(bucket, PPE_BUCKETS - 1u)]++;
	histogram->sum_us += us;
}

static void
count_end(struct ppe_job_stats *count, enum weir_status status)
{
	if (likely(status == WEIR_STATUS_OK)) {
		count->blocks_complete++;
		return;
	}
	count->blocks_partial += status == WEIR_STATUS_PARTIAL;
	count->blocks_error += status == WEIR_STATUS_ERROR;
	count->blocks_mismatch += status == WEIR_STATUS_MISMATCH;
}

void
block_finish(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status)
{
	if (unlikely(status == WEIR_STATUS_PARTIAL) && root_is_missing(job, block))
		status = WEIR_STATUS_ERROR;
	if (unlikely(job->ordered))
		order_end(job, block, status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL);
	block->state = BLOCK_DONE;
	block->status = (uint8_t)status;
	block->in_count = block->heard_count;
	memcpy(block->in, block->heard, sizeof(block->in));
	if (status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL)
		fix_payload(state, job, block, status);
	ppe_trace_block_event(state->worker, PPE_EVENT_BLOCK_DONE, block->hash.key);
	count_time(&job->count.latency, (state->worker->now - block->opened) / state->tsc_per_us);
	count_time(&job->count.spread, (block->progress - block->opened) / state->tsc_per_us);
	count_end(&job->count, status);
	block_release_previous(state, job, block);
}

void
job_shard_clear(struct collective *state, struct job_shard *job, bool count_on)
{
	for (unsigned int residue = 0; residue < job->window; residue++) {
		struct slot *slot = &job->slot[residue];

		if (slot->current != NULL && job->ordered)
			order_end(job, slot->current, false);
		if (slot->current != NULL)
			release(state, slot->current);
		if (slot->previous != NULL)
			release(state, slot->previous);
		*slot = (struct slot){.next = count_on ? slot->next : residue};
	}
}

/* May those who come instead of the ones who left not have a part in this block? */
static bool
is_of_former(const struct block *b, const uint64_t left[MASK_WORDS])
{
	uint64_t heard = 0;

	if (b->apart || (b->state == BLOCK_OPEN && b->placed))
		return true; /* ranks are in it */
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		heard |= b->heard[i] & left[i];
	return b->state == BLOCK_OPEN && heard != 0;
}

void
job_shard_regroup(struct collective *state, struct job_shard *job, const uint64_t left[MASK_WORDS])
{
	for (unsigned int residue = 0; residue < job->window; residue++) {
		struct slot *slot = &job->slot[residue];

		while (slot->current != NULL && is_of_former(slot->current, left)) {
			if (slot->current->state == BLOCK_OPEN) {
				if (job->ordered)
					order_end(job, slot->current, false);
				slot->next -= job->window;
			}
			release(state, slot->current);
			*slot = (struct slot){.next = slot->next, .current = slot->previous};
		}
		if (slot->previous != NULL && is_of_former(slot->previous, left)) {
			release(state, slot->previous);
			slot->previous = NULL;
			slot->held_since = 0;
		}
	}
}

void
job_shard_revoke(struct collective *state, struct job_shard *job)
{
	static const struct pktbuf_endpoint nowhere;

	job_shard_clear(state, job, true);
	job->revoked = true;
	/* So none has a pass, and each packet is looked at closely. */
	for (unsigned int s = 0; s < job->source_end; s++)
		source_is_at(state->worker, job, (uint8_t)s, &nowhere);
}

bool
job_shard_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const struct job_home *home)
{
	static const struct pktbuf_endpoint nowhere;
	bool all = true;

	job_shard_clear(state, job, false);
	job->generation = generation;
	job->revoked = false;
	job->version++;
	job->pinned = true;
	job->target = job->nb_sources;
	rank_sources(job, home->pending);
	memcpy(job->in, home->pending, sizeof(job->in));
	memset(job->expelled, 0, sizeof(job->expelled));
	for (unsigned int s = 0; s < job->source_end; s++) {
		const struct pktbuf_endpoint *joined = &home->pending_endpoint[s];
		bool pending = mask_test(home->pending, (uint8_t)s);
		bool member = pending && joined->ip == job->address[s];

		source_is_at(state->worker, job, (uint8_t)s, member ? joined : &nowhere);
		all = all && member == pending;
	}
	return all;
}
