/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a block. docs/protocol.md, "Blocks and the window".
 *
 * A residue has at most two blocks, `current` and `previous`, so its blocks need at most 2 x window
 * buffers. The job's quota, reserved at admission, has as many more buffers as ports may hold of
 * blocks that are over.
 */
#include "ppe/collective/block/block.h"

#include "hashengine/deadline_fast.h"
#include "ppe/collective/block/block_fast.h"
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
	uint64_t all[MASK_WORDS];

	if (likely(block_is_full(job, slot->current)))
		return true;
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		all[i] = slot->current->heard[i] | slot->current->received[i] |
			slot->previous->received[i] | job->expelled[i];
	return mask_count(all) >= job->nb_sources;
}

void
block_release_previous(struct collective *state, struct job_shard *job, struct block *block)
{
	struct slot *slot = slot_of(job, block->block_id);

	if (slot->current != block || slot->previous == NULL || !all_received(job, slot))
		return;
	release(state, slot->previous);
	slot->previous = NULL;
	slot->held_since = 0;
}

bool
block_acknowledge(struct collective *state, struct job_shard *job, struct slot *slot,
	struct block *block, uint8_t source)
{
	if (slot_source_has(slot, block, source))
		return false;
	mask_set(block->received, source);
	/* If the next block is open, its completion releases this block. */
	if (slot->current->state == BLOCK_DONE)
		block_release_previous(state, job, slot->current);
	return true;
}

int32_t
block_ahead(const struct job_shard *job, const struct slot *slot, uint32_t block)
{
	/* Shifted up, shorter block numbers wrap as 32-bit numbers do. */
	return weir_block_diff(block << job->block_shift, (uint32_t)slot->next << job->block_shift);
}

enum ppe_drop
block_turn(const struct job_shard *job, const struct slot *slot, const struct weir_header *h)
{
	int32_t ahead = block_ahead(job, slot, h->block_id);

	if (unlikely(h->gen_id != job->hop.generation || job->is_revoked))
		return PPE_DROP_STALE;
	if (ahead < 0)
		return PPE_DROP_EXPIRED;
	if (ahead > 0 || (slot->current != NULL && slot->current->state != BLOCK_DONE))
		return PPE_DROP_WINDOW;
	return PPE_DROP_COUNT;
}

bool
block_waits_for_others(const struct job_shard *job, const struct slot *slot, uint8_t source)
{
	struct slot with = *slot;
	struct block current;

	if (slot->previous == NULL)
		return false;
	current = *slot->current;
	mask_set(current.received, source);
	with.current = &current;
	return !all_received(job, &with);
}

/* May the residue open the block? PPE_DROP_COUNT: yes. */
static enum ppe_drop
check_turn(struct collective *state, struct job_shard *job, struct slot *slot,
	const struct weir_header *h, uint64_t now, enum weir_status *status)
{
	enum ppe_drop reason = block_turn(job, slot, h);

	*status = WEIR_STATUS_OK;
	if (unlikely(reason != PPE_DROP_COUNT)) {
		/* STALE: another process may be the source by now; only repetitions get a reply. */
		job->count.stale += reason == PPE_DROP_STALE;
		job->count.expired += reason == PPE_DROP_EXPIRED;
		if (reason != PPE_DROP_STALE)
			*status = reason == PPE_DROP_EXPIRED ? WEIR_STATUS_EXPIRED
							     : WEIR_STATUS_WINDOW;
		return reason;
	}
	/* A source that sends block b + window has the result of b, even if its contribution to b
	 * was lost and b finished without it. It never sends b again, so without this note the job
	 * would wait forever. */
	if (slot->previous != NULL)
		block_acknowledge(state, job, slot, slot->current, h->src_id);
	if (slot->previous != NULL)
		block_expel_silent(state, job, slot, now);
	if (slot->previous != NULL) {
		job->count.held_back++;
		if (job->parents != NULL)
			job->tree->ask(state, job, h->block_id, false);
		return PPE_DROP_HELD_BACK;
	}
	return PPE_DROP_COUNT;
}

/* How a block of a special job is reduced. */
static void
set_reduction(const struct collective *state, const struct job_shard *job, struct block *b)
{
	if (b->reduction != NULL && block_comes_wide(state, job, b->dtype, b->op))
		b->reduction = &state->wide[b->dtype][b->op];
	b->on_arrival = b->reduction != NULL && !(job->ordered && order_matters(b));
}

static void
fill(const struct collective *state, struct block *b, const struct weir_header *h,
	uint64_t agreement, const struct job_shard *job, struct rmw_buffer *buffer, uint64_t now)
{
	const struct collective_row *row = &collective_table[h->collective];
	struct hash_record listed = b->hash;

	memset(b, 0, sizeof(*b));
	b->hash = listed;
	b->agreement = agreement;
	b->block_id = h->block_id;
	b->job = job->job;
	b->buffer = buffer;
	b->copied = row->contribution != CONTRIBUTION_REDUCE;
	b->per_receiver = row_differs(row, job->skips_own);
	if (likely(buffer != NULL && !b->copied))
		b->reduction = state->reduction[h->dtype][h->op];
	b->on_arrival = b->reduction != NULL;
	if (unlikely(job->special))
		set_reduction(state, job, b);
	b->first_source = h->src_id;
	b->opened = now;
	b->progress = now;
}

static inline struct rmw_buffer *
buffer_for(struct job_shard *job, const struct weir_header *h, int *error)
{
	if (unlikely(job->row_pool != NULL) &&
		collective_table[h->collective].contribution == CONTRIBUTION_ROW)
		return rmw_alloc(job->row_pool, &job->row_quota, error);
	return rmw_alloc(job->pool, &job->quota, error);
}

enum ppe_drop
block_begin(struct collective *state, struct job_shard *job, struct slot *slot,
	const struct weir_header *header, uint64_t agreement, struct hash_probe *probe,
	uint64_t now, struct block **block)
{
	struct rmw_buffer *buffer = NULL;
	struct hash_record *listed;
	int error;

	if (header->grad_cnt > 0) {
		buffer = buffer_for(job, header, &error);
		if (unlikely(buffer == NULL)) /* emissions in progress hold some beyond the limit */
			return error == -EDQUOT ? PPE_DROP_HELD_BACK : PPE_DROP_NO_MEMORY;
		buffer->user = state->worker;
	}
	if (unlikely(hash_insert(state->blocks, probe, &listed) < 0)) {
		if (buffer != NULL)
			rmw_release(buffer);
		return PPE_DROP_TABLE_FULL;
	}
	*block = (struct block *)(void *)listed;
	fill(state, *block, header, agreement, job, buffer, now);
	hash_deadline_set(state->deadlines, probe->candidate, now + job->timeout);
	slot->previous = slot->current;
	slot->current = *block;
	slot->next += job->window;
	job->count.blocks_opened++;
	ppe_trace_block_event(state->worker, PPE_EVENT_BLOCK_OPENED, probe->key);
	return PPE_DROP_COUNT;
}

void
block_unopen(struct collective *state, struct job_shard *job, struct block *block)
{
	struct slot *slot = slot_of(job, block->block_id);

	slot->next -= job->window;
	slot->current = slot->previous;
	slot->previous = NULL;
	job->count.blocks_opened--;
	release(state, block);
}

enum ppe_drop
block_open(struct collective *state, struct job_shard *job, struct contribution *contribution,
	uint64_t now, struct block **block, enum weir_status *status)
{
	const struct weir_header *header = &contribution->header;
	struct slot *slot = slot_of(job, header->block_id);
	enum ppe_drop reason = check_turn(state, job, slot, header, now, status);

	*block = NULL;
	if (unlikely(reason != PPE_DROP_COUNT))
		return reason;
	reason = block_begin(state, job, slot, header, block_agreement(header, header->final),
		&contribution->probe, now, block);
	job->count.held_back += reason == PPE_DROP_HELD_BACK || reason == PPE_DROP_NO_MEMORY;
	return reason;
}

static void
finish_sum(const struct block *block)
{
	const struct rmw_reduction *reduction = block->reduction;

	if (unlikely(reduction != NULL && reduction->finish != NULL))
		reduction->finish(rmw_buffer_data(block->buffer), block->grad_cnt, block->in_count);
}

/* Fix the result's payload, bitmap and, if some port needs it, checksum. summed: by this switch,
 * not by a parent. */
static __rte_always_inline void
fix_payload(const struct collective *state, const struct job_shard *job, struct block *block,
	enum weir_status status, const bool summed)
{
	uint8_t *data;

	block->payload_bytes = block->grad_cnt * weir_dtype_bytes(block->dtype);
	if (block->buffer == NULL)
		return;
	if (summed)
		finish_sum(block);
	if (summed && status == WEIR_STATUS_PARTIAL)
		partial_clear(job, block);
	if (block_result_differs(block))
		return; /* each receiver's result gets its own end */
	data = rmw_buffer_data(block->buffer);
	if (unlikely(status == WEIR_STATUS_PARTIAL || job->hop.flags != 0)) {
		struct weir_header header = block_hop_header(block, &job->hop);

		block->payload_bytes +=
			hop_end(&job->hop, &header, slot_number(job, block->block_id), 0, block->in,
				(const struct pktbuf_piece[2]){{data, block->payload_bytes}},
				data + block->payload_bytes);
	}
	if (state->sums)
		block->payload_sum = pktbuf_sum_bytes(data, block->payload_bytes);
}

static void
count_time(const struct collective *state, struct ppe_histogram *histogram, uint64_t cycles)
{
	uint64_t ns = (uint64_t)((unsigned __int128)cycles * state->ns_per_cycle >> 32);
	uint64_t us = ns / 1000;
	unsigned int bucket = us == 0 ? 0 : 64 - (unsigned int)__builtin_clzll(us);

	histogram->bucket[RTE_MIN(bucket, PPE_BUCKETS - 1u)]++;
	histogram->sum_ns += ns;
}

/* If a block opened and finished in one turn, the turn's time is too coarse: read the clock. */
static uint64_t
age_of(const struct collective *state, const struct block *block)
{
	uint64_t now = state->worker->now;
	int64_t age;

	age = (int64_t)((unlikely(now == block->opened) ? ppe_clock() : now) - block->opened);
	return age > 0 ? (uint64_t)age : 0; /* the TSC may have gone back */
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

static __rte_always_inline void
set_done(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status, const bool summed)
{
	block->state = BLOCK_DONE;
	block->status = (uint8_t)status;
	if (status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL)
		fix_payload(state, job, block, status, summed);
	ppe_trace_block_event(state->worker, PPE_EVENT_BLOCK_DONE, block->hash.key);
	count_time(state, &job->count.latency, age_of(state, block));
	count_time(state, &job->count.spread, block->progress - block->opened);
	count_end(&job->count, status);
	block_release_previous(state, job, block);
}

void
block_done(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status)
{
	set_done(state, job, block, status, false);
}

void
block_finish(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status)
{
	if (likely(status == WEIR_STATUS_OK && block->heard_count == job->nb_sources &&
		    !job->children)) {
		block->in_count = block->heard_count;
		memcpy(block->in, block->heard, sizeof(block->in));
	} else {
		status = partial_settle(job, block, status);
	}
	set_done(state, job, block, status, true);
}

bool
block_end_special(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status)
{
	if (job->ordered)
		order_end(job, block, status == WEIR_STATUS_OK || status == WEIR_STATUS_PARTIAL);
	if (job->parents != NULL) {
		job->tree->contribute(state, job, block, status);
		return false;
	}
	block_finish(state, job, block, status);
	return true;
}

void
block_forget_all(struct collective *state, struct job_shard *job, bool count_on)
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

/* Does the block depend on the sources that left? */
static bool
is_of_former(const struct job_shard *job, const struct block *b, const uint64_t left[MASK_WORDS])
{
	uint64_t heard = 0;

	if (job->parents == NULL && (b->per_receiver || (b->state == BLOCK_OPEN && b->copied)))
		return true; /* its layout depends on ranks, which are fixed in a tree */
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		heard |= b->heard[i] & left[i];
	return b->state == BLOCK_OPEN && heard != 0;
}

void
block_regroup(struct collective *state, struct job_shard *job, const uint64_t left[MASK_WORDS])
{
	for (unsigned int residue = 0; residue < job->window; residue++) {
		struct slot *slot = &job->slot[residue];

		while (slot->current != NULL && is_of_former(job, slot->current, left)) {
			if (slot->current->state == BLOCK_OPEN) {
				if (job->ordered)
					order_end(job, slot->current, false);
				slot->next -= job->window;
			}
			release(state, slot->current);
			*slot = (struct slot){.next = slot->next, .current = slot->previous};
		}
		if (slot->previous != NULL && is_of_former(job, slot->previous, left)) {
			release(state, slot->previous);
			slot->previous = NULL;
			slot->held_since = 0;
		}
	}
}
