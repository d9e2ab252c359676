/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results: one header mbuf per destination; a small payload is copied behind the
 * headers, a larger payload is the aggregation buffer, attached by reference. Each packet holds the
 * buffer until the driver has sent it. An emission of results that differ by receiver also holds it
 * until its end. When queues and devices hold as many of the job's buffers as its window has
 * residues, further results are copied: docs/architecture.md, "Memory".
 */
#include "pktbuf/checksum.h"
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/crossbar.h"

/* Results that differ by receiver, per step; other threads run in between. */
#define EMIT_STEP 16

struct weir_header
block_hop_header(const struct block *b, const struct hop *hop)
{
	const bool whole = b->status == WEIR_STATUS_OK || b->status == WEIR_STATUS_PARTIAL;

	return (struct weir_header){
		.job_id = hop->job,
		.block_id = b->block_id,
		.gen_id = hop->generation,
		.src_id = hop->source,
		.flags = hop->flags,
		.extended = (hop->flags & WEIR_FLAG_UP) != 0,
		.status = b->status,
		.src_cnt = (uint8_t)b->in_count,
		.collective = b->collective,
		.op = b->op,
		.dtype = b->dtype,
		.root = b->root,
		.final = b->final,
		.degraded = b->status == WEIR_STATUS_PARTIAL || b->status == WEIR_STATUS_ERROR,
		.grad_cnt = whole ? b->grad_cnt : 0,
	};
}

/* ---- results that are identical for all receivers ---- */

static inline struct pktbuf_payload
buffer_of(const struct block *block, uint32_t first)
{
	return (struct pktbuf_payload){
		.data = (uint8_t *)rmw_buffer_data(block->buffer) + first,
		.iova = block->buffer->iova + first,
		.bytes = block->payload_bytes,
		.sum = block->payload_sum,
		.released = crossbar_payload_released,
		.opaque = block->buffer,
	};
}

struct pktbuf_payload
block_payload(const struct job_shard *js, const struct hop *hop, const struct block *block,
	const struct weir_header *header, uint32_t first,
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES])
{
	uint32_t bytes = 0;

	if (likely(block->buffer != NULL && header->grad_cnt != 0))
		return buffer_of(block, first);
	if (block->status == WEIR_STATUS_MISMATCH) {
		bytes = sizeof(block->mismatch);
		memcpy(small, &block->mismatch, bytes);
	}
	bytes += hop_end(hop, header, slot_number(js, block->block_id), 0, block->in,
		(const struct pktbuf_piece[2]){{small, bytes}}, small + bytes);
	return (struct pktbuf_payload){.data = small,
		.bytes = bytes,
		.sum = bytes == 0 ? 0 : pktbuf_sum_bytes(small, bytes)};
}

static __rte_noinline void
address_group(const struct ppe_worker *worker, struct job_shard *js, uint32_t group, uint16_t port,
	bool extended)
{
	const struct pktbuf_endpoint to = {
		/* RFC 1112, 6.4: the low 23 bits of the group. */
		.mac = {0x01, 0x00, 0x5e, group >> 16 & 0x7f, group >> 8 & 0xff, group & 0xff},
		.ip = group,
		.udp = extended ? worker->identity->port_ext : worker->identity->port_base,
		.port = port,
		.extended = extended,
		.valid = 1,
	};

	pktbuf_header_template_write(&js->to.group[port][extended], worker->identity, &to, 0);
}

/* Collect the destinations again: the job table, a generation or an endpoint has changed. */
static __rte_noinline void
collect_destinations(const struct ppe_worker *worker, struct job_shard *js)
{
	const struct ppe_job *j = worker->jobs->by_id[js->job];
	struct destinations *to = &js->to;
	uint64_t served[2] = {0};

	to->n = 0;
	to->form[0] = to->form[1] = false;
	to->version = js->version;
	to->agreement = 0; /* no done block has this value */
	for (unsigned int s = 0; s < js->source_end; s++) {
		const struct pktbuf_endpoint *member = &js->endpoint[s];
		uint64_t bit = UINT64_C(1) << member->port;

		if (!member->valid)
			continue;
		to->form[member->extended] = true;
		if (j == NULL || j->group == 0) {
			to->headers[to->n++] = &js->header_template[s];
		} else if ((served[member->extended] & bit) == 0) {
			served[member->extended] |= bit;
			address_group(worker, js, j->group, member->port, member->extended);
			to->headers[to->n++] = &js->to.group[member->port][member->extended];
		}
	}
}

/* Send a result to n destinations. copied: each packet is copied, and its reference dropped, before
 * it is queued. */
static __rte_always_inline void
send_as(struct ppe_worker *worker, struct job_shard *js, struct pktbuf_results *results,
	const struct pktbuf_shared_header shared[2], const struct pktbuf_payload *payload,
	const struct pktbuf_header_template *const *to, unsigned int n, const bool referred,
	const bool copied)
{
	struct rte_mbuf *packet;
	unsigned int holds = 0, built = 0;
	uint32_t bytes = 0;

	worker->count.created += n;
	if (referred && likely(n > 0))
		rmw_hold(payload->opaque, n);
	for (unsigned int i = 0; i < n; i++) {
		packet = pktbuf_result_build_as(results, shared, payload, to[i], referred);
		holds += packet != NULL;
		if (copied && packet != NULL)
			packet = pktbuf_packet_copy(packet, worker->pools->packets);
		if (unlikely(packet == NULL))
			continue;
		built++;
		bytes = packet->pkt_len;
		ppe_output(worker, packet, to[i]->port, PKTBUF_PRIO_RESULT);
	}
	if (referred && unlikely(holds < n))
		rmw_unhold(payload->opaque, n - holds);
	if (unlikely(built < n))
		worker->count.drops[PPE_DROP_NO_MBUF] += n - built;
	charge(worker, js, built, bytes);
}

/* Ports hold as many of the job's buffers as they may. */
static __rte_noinline void
send_copies(struct ppe_worker *worker, struct job_shard *js, struct pktbuf_results *results,
	const struct pktbuf_shared_header shared[2], const struct pktbuf_payload *payload,
	const struct pktbuf_header_template *const *to, unsigned int n)
{
	send_as(worker, js, results, shared, payload, to, n, true, true);
}

static inline void
send_to(struct ppe_worker *worker, struct job_shard *js, struct pktbuf_results *results,
	const struct pktbuf_shared_header shared[2], const struct pktbuf_payload *payload,
	const struct pktbuf_header_template *const *to, unsigned int n)
{
	if (!pktbuf_payload_referred(payload))
		send_as(worker, js, results, shared, payload, to, n, false, false);
	else if (likely(rmw_may_hold(payload->opaque)))
		send_as(worker, js, results, shared, payload, to, n, true, false);
	else
		send_copies(worker, js, results, shared, payload, to, n);
}

static inline void
write_shared(struct pktbuf_shared_header shared[2], const bool form[2], struct weir_header *header,
	const struct pktbuf_payload *payload)
{
	for (unsigned int extended = 0; extended < 2; extended++) {
		header->extended = extended;
		if (form[extended])
			pktbuf_shared_header_write(&shared[extended], header, payload);
	}
}

/* Send a block's result to all sources. The headers of a complete block differ from the job's last
 * result only in number and sum. */
static inline void
send_to_all(struct ppe_worker *worker, struct job_shard *js, const struct block *block,
	struct pktbuf_results *results)
{
	struct destinations *to = &js->to;
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	struct pktbuf_payload payload;

	if (likely(block->agreement == to->agreement) && likely(block->status == WEIR_STATUS_OK)) {
		payload = buffer_of(block, 0);
		for (unsigned int extended = 0; extended < 2; extended++)
			if (to->form[extended])
				pktbuf_shared_header_renumber(
					&to->shared[extended], block->block_id, block->payload_sum);
	} else {
		struct weir_header header = block_hop_header(block, &js->hop);

		payload = block_payload(js, &js->hop, block, &header, 0, small);
		write_shared(to->shared, to->form, &header, &payload);
		/* A leaf may have a buffer for a block that has no elements at the parent. */
		to->agreement = block->status == WEIR_STATUS_OK && block->buffer != NULL &&
				block->grad_cnt != 0
			? block->agreement
			: 0;
	}
	js->count.results += to->n;
	send_to(worker, js, results, to->shared, &payload, to->headers, to->n);
}

void
block_emit_to_all(struct ppe_worker *worker, struct collective *state, struct block *const *blocks,
	unsigned int n)
{
	struct pktbuf_results results;
	unsigned int wanted = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct job_shard *js = state->job[blocks[i]->job];

		if (unlikely(js->to.version != js->version))
			collect_destinations(worker, js);
		wanted += js->to.n;
	}
	pktbuf_results_begin(&results, worker->pools, worker->port, wanted);
	for (unsigned int i = 0; i < n; i++)
		send_to_all(worker, state->job[blocks[i]->job], blocks[i], &results);
	pktbuf_results_end(&results);
}

void
block_send_one(struct ppe_worker *worker, struct job_shard *js, const struct weir_header *header,
	const struct pktbuf_payload *payload, const struct pktbuf_header_template *to)
{
	struct pktbuf_shared_header shared[2];
	struct pktbuf_results results;

	pktbuf_shared_header_write(&shared[to->extended], header, payload);
	pktbuf_results_begin(&results, worker->pools, worker->port, 1);
	send_to(worker, js, &results, shared, payload, &to, 1);
	pktbuf_results_end(&results);
}

static void
emit_to_one(struct ppe_worker *worker, struct job_shard *js, const struct block *block,
	unsigned int source)
{
	const struct pktbuf_header_template *to = &js->header_template[source];
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	struct weir_header header = block_hop_header(block, &js->hop);
	const struct pktbuf_payload payload = block_payload(js, &js->hop, block, &header, 0, small);

	header.extended = to->extended;
	js->count.results++;
	block_send_one(worker, js, &header, &payload, to);
}

/* ---- results that differ by receiver. Each has its own lengths, checksum, bitmap, and tag or CRC,
 * and refers to its part of the buffer: one piece, or two around the receiver's own slice ---- */

static void
set_parts(struct emission *e, const struct job_shard *js, struct block *block)
{
	e->job = block->job;
	e->header = block_hop_header(block, &js->hop);
	e->number = slot_number(js, block->block_id);
	memcpy(e->in, block->in, WEIR_BITMAP_BYTES);
	e->buffer = block->buffer;
	e->payload = (struct pktbuf_payload){.data = e->in};
	e->copied = block->buffer != NULL && !rmw_may_hold(block->buffer);
	if (block->buffer == NULL)
		return;
	rmw_hold(block->buffer, 1);
	e->payload = (struct pktbuf_payload){
		.data = rmw_buffer_data(block->buffer),
		.iova = block->buffer->iova,
		.released = crossbar_payload_released,
		.opaque = block->buffer,
	};
}

static struct pktbuf_payload
piece_of(const struct emission *e, uint32_t first, uint32_t count)
{
	uint32_t size = weir_dtype_bytes(e->header.dtype);
	struct pktbuf_payload piece = e->payload;

	piece.data = (uint8_t *)piece.data + size * first;
	piece.iova += size * first;
	piece.bytes = size * count;
	return piece;
}

/* The receiver's part; the second piece may be empty. */
static void
part_of(const struct emission *e, const struct job_shard *js, uint8_t source,
	struct pktbuf_payload piece[2])
{
	const struct collective_row *row = &collective_table[e->header.collective];
	uint32_t elements = e->header.grad_cnt, n = js->nb_ranks, rank = js->rank[source];
	struct weir_slice part =
		row_part(row, elements, n, rank, js->covers[source], e->header.root);
	struct weir_slice out = {part.count, 0};

	if (js->endpoint[source].skips_own)
		out = row_own_received(row, elements, n, rank, e->header.root);
	/* In a job with parents the buffer has only the columns of this switch's ranks. */
	if (unlikely(js->first_rank != 0) && row->result == RESULT_COLUMN)
		part.first -= n * weir_slice(elements, n, js->first_rank).first;
	piece[0] = piece_of(e, part.first, out.first);
	out.first += out.count;
	piece[1] = piece_of(e, part.first + out.first, part.count - out.first);
	if (piece[0].bytes == 0) {
		piece[0] = piece[1];
		piece[1].bytes = 0;
	}
}

/* The checksum of n pieces. After an odd number of bytes the byte pairs are swapped. */
static uint32_t
sum_of(const struct pktbuf_piece *piece, unsigned int n)
{
	uint32_t sum = 0, before = 0;

	for (unsigned int i = 0; i < n; before += piece[i++].bytes) {
		uint16_t one =
			piece[i].bytes == 0 ? 0 : pktbuf_sum_bytes(piece[i].data, piece[i].bytes);

		sum += before % 2 == 0 ? one : rte_bswap16(one);
	}
	return sum;
}

/* Build a packet of both pieces. Small pieces are copied, like a small payload. NULL: a pool is
 * empty. */
static struct rte_mbuf *
build_part(struct pktbuf_results *results, const struct pktbuf_shared_header shared[2],
	const struct pktbuf_payload piece[2], const struct pktbuf_header_template *to,
	struct rmw_buffer *buffer)
{
	struct rte_mbuf *packet;

	if (piece[0].bytes + piece[1].bytes <= PKTBUF_COPY_BYTES) {
		packet = pktbuf_result_build_as(results, shared, &piece[0], to, false);
		if (likely(packet != NULL))
			memcpy(rte_pktmbuf_append(packet, (uint16_t)piece[1].bytes), piece[1].data,
				piece[1].bytes);
		return packet;
	}
	packet = pktbuf_result_build_as(results, shared, &piece[0], to, true);
	if (unlikely(packet == NULL))
		return NULL;
	rmw_hold(buffer, 1);
	if (piece[1].bytes == 0)
		return packet;
	if (unlikely(!pktbuf_result_add(results, packet, &piece[1]))) {
		rte_pktmbuf_free(packet);
		return NULL;
	}
	rmw_hold(buffer, 1);
	return packet;
}

static void
send_part(struct ppe_worker *worker, const struct collective *state, struct emission *e,
	struct job_shard *js, uint8_t source)
{
	const struct pktbuf_header_template *to = &js->header_template[source];
	/* Identical whole results have the same tag. */
	bool same = !row_differs(
		&collective_table[e->header.collective], js->endpoint[source].skips_own);
	uint8_t end[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	struct pktbuf_payload piece[2], all;
	struct pktbuf_piece part[3];
	struct pktbuf_shared_header shared[2];
	struct pktbuf_results results;
	struct rte_mbuf *packet;

	if (unlikely(js->hop.generation != e->header.gen_id))
		return;
	part_of(e, js, source, piece);
	e->header.src_id = source;
	for (unsigned int i = 0; i < 2; i++)
		part[i] = (struct pktbuf_piece){piece[i].data, piece[i].bytes};
	part[2] = (struct pktbuf_piece){end,
		hop_end(&js->hop, &e->header, e->number, same ? 0 : js->rank[source] + 1u, e->in,
			part, end)};
	all = piece[0];
	all.bytes += piece[1].bytes + part[2].bytes;
	if (state->sums)
		all.sum = sum_of(part, 3);
	e->header.extended = to->extended;
	pktbuf_shared_header_write(&shared[to->extended], &e->header, &all);
	js->count.results++;
	worker->count.created++;
	pktbuf_results_begin(&results, worker->pools, worker->port, 1);
	packet = build_part(&results, shared, piece, to, e->buffer);
	pktbuf_results_end(&results);
	if (likely(packet != NULL) && part[2].bytes > 0 &&
		unlikely(pktbuf_result_end(worker->pools, packet, end, part[2].bytes) < 0)) {
		rte_pktmbuf_free(packet);
		packet = NULL;
	}
	if (packet != NULL && unlikely(e->copied))
		packet = pktbuf_packet_copy(packet, worker->pools->packets);
	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	charge(worker, js, 1, packet->pkt_len);
	ppe_output(worker, packet, to->port, PKTBUF_PRIO_RESULT);
}

struct ppe_next
block_emit_step(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	struct emission *e = &lmem(thread)->emission;
	struct job_shard *js = state->job[e->job];

	for (unsigned int n = 0; e->next < e->end && n < EMIT_STEP; e->next++)
		if (js->endpoint[e->next].valid) {
			send_part(worker, state, e, js, (uint8_t)e->next);
			n++;
		}
	if (e->next < e->end)
		return PPE_RUN(block_emit_step);
	if (e->buffer != NULL)
		rmw_unhold(e->buffer, 1);
	return (struct ppe_next){e->then};
}

struct ppe_next
block_emit(struct ppe_worker *worker, struct ppe_thread *thread, struct block *block, int only,
	ppe_segment then)
{
	struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = state->job[block->job];
	struct emission *e = &lmem(thread)->emission;

	if (block_result_differs(block)) {
		set_parts(e, js, block);
		e->next = only < 0 ? 0 : (uint16_t)only;
		e->end = only < 0 ? js->source_end : (uint16_t)(only + 1);
		e->then = then;
		/* One is charged before another thread asks whether the job may send. */
		return only < 0 ? PPE_RUN(block_emit_step) : block_emit_step(worker, thread);
	}
	if (only < 0)
		block_emit_to_all(worker, state, &block, 1);
	else if (js->endpoint[only].valid)
		emit_to_one(worker, js, block, (unsigned int)only);
	return (struct ppe_next){then};
}
