/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that differ by receiver: each gets its part of the buffer, by reference, or a header alone; and
 * behind it, where there are any, the bitmap of a partial result and a tag, which are its own.
 *
 * One after the other, for each has its own lengths and sums; together they read the buffer once.
 */
#include "pktbuf/checksum.h"
#include "ppe/crossbar.h"
#include "ppe/collective/auth.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/table.h"

void
enclose_parts(struct emission *e, const struct job_shard *js, struct block *block)
{
	e->header = result_header(block, js);
	e->number = block_number(js, block->block_id);
	e->small_bytes = 0;
	if (block->status == WEIR_STATUS_PARTIAL) {
		memcpy(e->small, block->in, WEIR_BITMAP_BYTES);
		e->small_bytes = WEIR_BITMAP_BYTES;
	}
	e->buffer = block->buffer;
	e->payload = (struct pktbuf_payload){.data = e->small};
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

/* The rank's part of what the emission carries. */
static struct pktbuf_payload
part_of(const struct emission *e, const struct job_shard *js, unsigned int rank)
{
	const struct weir_slice part = row_part(&collective_table[e->header.collective],
		e->header.grad_cnt, js->nb_sources, rank, e->header.root);
	uint32_t size = weir_dtype_bytes(e->header.dtype);
	struct pktbuf_payload payload = e->payload;

	payload.data = (uint8_t *)payload.data + size * part.first;
	payload.iova += size * part.first;
	payload.bytes = size * part.count;
	return payload;
}

/* The sum of both together: behind an odd number of bytes, each pair of the end lies across two. */
static uint32_t
sum_of(const struct pktbuf_payload *part, const uint8_t *end, uint32_t bytes)
{
	uint16_t sum = pktbuf_sum_bytes(end, bytes);

	if (part->bytes % 2 != 0)
		sum = rte_bswap16(sum);
	return (uint32_t)sum + pktbuf_sum_bytes(part->data, part->bytes);
}

void
send_part(struct ppe_worker *worker, const struct collective *state, struct emission *e,
	struct job_shard *js, uint8_t source)
{
	unsigned int rank = js->rank[source];
	const struct pktbuf_envelope *to = &js->envelope[source];
	uint8_t end[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES];
	uint32_t end_bytes = e->small_bytes;
	struct pktbuf_payload part, all;
	struct pktbuf_letter letter[2];
	struct rte_mbuf *packet;

	/* The next generation has begun meanwhile: its ranks are others, and so are its keys, under which no
	 * block of this one may be told. */
	if (unlikely(js->generation != e->header.gen_id))
		return;
	part = part_of(e, js, rank);
	memcpy(end, e->small, end_bytes);
	if (unlikely(js->keys != NULL))
		end_bytes += tag_part(js, e, rank, part.data, part.bytes, end, end_bytes);
	all = part;
	all.bytes += end_bytes;
	if (state->sums)
		all.sum = sum_of(&part, end, end_bytes);
	e->header.extended = to->extended;
	pktbuf_letter_write(&letter[to->extended], &e->header, &all);
	js->count.results++;
	worker->count.created++;
	if (unlikely(pktbuf_results_build(
			     worker->pools, worker->port, letter, &part, &to, &packet, 1) == 0)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	if (pktbuf_payload_referred(&part))
		rmw_hold(e->buffer, 1);
	if (end_bytes > 0 &&
		unlikely(pktbuf_result_end(worker->pools, packet, end, end_bytes) < 0)) {
		rte_pktmbuf_free(packet);
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	ppe_output(worker, packet, to->port, PKTBUF_PRIO_RESULT);
}
