/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payloads that are not reduced but put in their place: the root's, a source's slice, a row of slices. The
 * buffer holds what each receiver gets in one piece (collective_table.h), so a row is taken apart here, on
 * its way in, and nothing is moved afterwards.
 */
#include "pktbuf/cursor.h"
#include "ppe/collective/block.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/table.h"

bool
part_fits(const struct job_shard *js, const struct ppe_job *j, const struct contribution *c,
	uint32_t size)
{
	const struct weir_header *h = &c->header;
	const struct collective_row *row = &collective_table[h->collective];
	uint32_t extent = row_extent(row, h->grad_cnt, js->nb_sources);
	uint32_t own =
		row_contributed(row, h->grad_cnt, js->nb_sources, js->rank[h->src_id], h->root);

	return c->bytes == own * size && extent <= j->elements &&
		extent * size <= ppe_job_payload_bytes(j) &&
		(row->contribution != CONTRIBUTION_NOTHING || h->grad_cnt == 0);
}

/* Ranks for which a row has anything: the first ones, when elements are fewer than ranks. */
static unsigned int
receivers(const struct block *b, unsigned int n)
{
	return RTE_MIN(n, (unsigned int)b->grad_cnt);
}

void
place_payload(const struct job_shard *js, const struct rte_mbuf *packet,
	const struct contribution *c, struct block *b)
{
	const struct collective_row *row = &collective_table[b->collective];
	unsigned int n = js->nb_sources, rank = js->rank[c->header.src_id];
	uint32_t size = weir_dtype_bytes(b->dtype);
	uint8_t *to = rmw_buffer_data(b->buffer);
	struct pktbuf_cursor cursor;

	pktbuf_cursor_init(&cursor, packet, c->payload, c->bytes);
	if (row->contribution == CONTRIBUTION_SLICE)
		to += size * weir_slice(b->grad_cnt, n, rank).first;
	if (row->contribution != CONTRIBUTION_ROW) {
		pktbuf_cursor_copy(&cursor, to, c->bytes);
		return;
	}
	for (unsigned int receiver = 0; receiver < receivers(b, n); receiver++)
		pktbuf_cursor_copy(&cursor, to + size * row_cell(b->grad_cnt, n, rank, receiver),
			size * weir_slice(b->grad_cnt, n, receiver).count);
}

/* Zeros in all places of a rank. */
static void
clear_rank(const struct block *b, unsigned int n, unsigned int rank)
{
	uint8_t *data = rmw_buffer_data(b->buffer);
	uint32_t size = weir_dtype_bytes(b->dtype);
	struct weir_slice slice = weir_slice(b->grad_cnt, n, rank);

	if (collective_table[b->collective].contribution == CONTRIBUTION_SLICE) {
		memset(data + size * slice.first, 0, size * slice.count);
		return;
	}
	for (unsigned int receiver = 0; receiver < receivers(b, n); receiver++)
		memset(data + size * row_cell(b->grad_cnt, n, rank, receiver), 0,
			size * weir_slice(b->grad_cnt, n, receiver).count);
}

void
clear_missing(const struct job_shard *js, struct block *b)
{
	const struct collective_row *row = &collective_table[b->collective];

	if (row->contribution != CONTRIBUTION_SLICE && row->contribution != CONTRIBUTION_ROW)
		return;
	for (unsigned int rank = 0; rank < js->nb_sources; rank++)
		if (rank >= js->ranks || !mask_test(b->in, js->ranked[rank]))
			clear_rank(b, js->nb_sources, rank);
}

bool
root_is_missing(const struct job_shard *js, const struct block *b)
{
	return collective_table[b->collective].contribution == CONTRIBUTION_ROOT &&
		(b->root >= js->ranks || !mask_test(b->heard, js->ranked[b->root]));
}
