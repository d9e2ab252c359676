/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads: reduced on arrival (block_add_payload() in block_fast.h), reduced in the order of the
 * sources, or copied. */
#include <errno.h>

#include <rte_malloc.h>

#include "pktbuf/cursor.h"
#include "ppe/collective/block/block_fast.h"

void
block_add_pieces(const struct rte_mbuf *packet, const struct contribution *c, const struct block *b,
	bool first)
{
	const struct rmw_reduction *reduction = b->reduction;
	uint8_t *to = rmw_buffer_data(b->buffer);
	size_t size = c->bytes / b->grad_cnt; /* accumulators may be wider than the type */
	rmw_reduce_fn add = first ? reduction->begin : reduction->reduce;
	struct pktbuf_cursor cursor;

	pktbuf_cursor_init(&cursor, packet, c->payload, c->bytes);
	for (uint32_t left = c->bytes; left > 0;) {
		uint8_t whole[8];
		uint32_t here;
		const uint8_t *from = pktbuf_cursor_span(&cursor, &here);
		uint32_t take = here - here % (uint32_t)size;

		if (likely(take > 0)) {
			pktbuf_cursor_advance(&cursor, take);
		} else {
			take = (uint32_t)size;
			pktbuf_cursor_copy(&cursor, whole, take);
			from = whole;
		}
		add(to, (const void *[]){from}, 1, take / size);
		to += take / size * reduction->acc_bytes;
		left -= take;
	}
}

/* Payloads that are copied: the root's, a slice, a row of slices. The buffer has each receiver's
 * result in one piece (pktbuf/wire/collectives.h), so a row is split here. */

/* The slice that the contribution leaves out. */
static inline struct weir_slice
left_out(const struct job_shard *js, const struct weir_header *h)
{
	return js->endpoint[h->src_id].skips_own
		? row_own_sent(&collective_table[h->collective], h->grad_cnt, js->nb_ranks,
			  js->rank[h->src_id], h->root)
		: (struct weir_slice){0, 0};
}

/* Do the elements of a block with full rows fit a row, a column and the buffer? */
static bool
row_fits(const struct job_shard *js, const struct ppe_job *j, const struct weir_header *h,
	uint32_t size)
{
	const struct collective_row *row = &collective_table[h->collective];
	uint32_t column = row_part(row, h->grad_cnt, js->nb_ranks, 0, 1, 0).count;
	uint32_t most = RTE_MAX(column, (uint32_t)h->grad_cnt);
	uint32_t all = js->nb_ranks * h->grad_cnt;

	return most <= j->elements && most * size <= ppe_job_payload_bytes(j) &&
		all <= ppe_job_row_room(j) && all * size <= ppe_job_row_bytes(j);
}

bool
block_part_fits(const struct job_shard *js, const struct ppe_job *j, const struct weir_header *h,
	uint32_t bytes, uint32_t size)
{
	const struct collective_row *row = &collective_table[h->collective];
	uint32_t extent = row_extent(row, h->grad_cnt, js->nb_ranks, js->first_rank, js->own_ranks);
	uint32_t own = row_contributed(row, h->grad_cnt, js->nb_ranks, js->rank[h->src_id],
		js->covers[h->src_id], h->root);

	own -= left_out(js, h).count;
	if (bytes != own * size || (row->contribution == CONTRIBUTION_NOTHING && h->grad_cnt != 0))
		return false;
	if (js->row_pool != NULL && row->contribution == CONTRIBUTION_ROW)
		return row_fits(js, j, h, size);
	return extent <= j->elements && extent * size <= ppe_job_payload_bytes(j);
}

/* Ranks that get elements: only the first ranks, if there are fewer elements than ranks. */
static unsigned int
receivers(const struct block *b, unsigned int n)
{
	return RTE_MIN(n, (unsigned int)b->grad_cnt);
}

/* The place of a slice in the rows that are collected here. */
static inline uint32_t
cell(const struct job_shard *js, const struct block *b, unsigned int rank, unsigned int receiver)
{
	return row_cell(b->grad_cnt, js->nb_ranks, js->own_ranks, rank - js->first_rank, receiver);
}

/* Copy `count` elements of the contribution, with zeros for the source's own slice that it leaves
 * out. No source here gets these zeros, but a parent does. */
static void
copy_around(struct pktbuf_cursor *cursor, uint8_t *to, uint32_t size, uint32_t count,
	struct weir_slice out)
{
	pktbuf_cursor_copy(cursor, to, size * out.first);
	memset(to + size * out.first, 0, size * out.count);
	out.first += out.count;
	pktbuf_cursor_copy(cursor, to + size * out.first, size * (count - out.first));
}

void
block_copy_payload(const struct job_shard *js, const struct rte_mbuf *packet,
	const struct contribution *c, struct block *b)
{
	const struct collective_row *row = &collective_table[b->collective];
	unsigned int n = js->nb_ranks, rank = js->rank[c->header.src_id];
	unsigned int rows = js->covers[c->header.src_id];
	const struct weir_slice none = {0, 0}, out = left_out(js, &c->header);
	uint32_t size = weir_dtype_bytes(b->dtype), count = c->bytes / size + out.count;
	uint8_t *to = rmw_buffer_data(b->buffer);
	struct pktbuf_cursor cursor;

	pktbuf_cursor_init(&cursor, packet, c->payload, c->bytes);
	if (row->contribution == CONTRIBUTION_SLICE)
		to += size * weir_slice(b->grad_cnt, n, rank).first;
	if (row->contribution != CONTRIBUTION_ROW) {
		copy_around(&cursor, to, size, count, out);
		return;
	}
	for (unsigned int receiver = 0; receiver < receivers(b, n); receiver++) {
		count = rows * weir_slice(b->grad_cnt, n, receiver).count;
		copy_around(&cursor, to + size * cell(js, b, rank, receiver), size, count,
			out.count > 0 && receiver == rank ? (struct weir_slice){0, count} : none);
	}
}

void
block_clear_part(const struct job_shard *js, const struct block *b, unsigned int rank)
{
	unsigned int n = js->nb_ranks;
	uint8_t *data = rmw_buffer_data(b->buffer);
	uint32_t size = weir_dtype_bytes(b->dtype);
	struct weir_slice slice = weir_slice(b->grad_cnt, n, rank);

	if (collective_table[b->collective].contribution == CONTRIBUTION_SLICE) {
		memset(data + size * slice.first, 0, size * slice.count);
		return;
	}
	for (unsigned int receiver = 0; receiver < receivers(b, n); receiver++)
		memset(data + size * cell(js, b, rank, receiver), 0,
			size * weir_slice(b->grad_cnt, n, receiver).count);
}

/*
 * Deterministic jobs: contributions are added in the order of their sources' ids.
 * docs/collectives.md.
 *
 * A contribution is added at its turn, and then the waiting copies after it; until its turn, its
 * copy waits. A residue has at most one open block, so a job keeps at most window x (sources - 1)
 * copies, in its own pool, reserved at admission. The last freed buffer is reused first, so little
 * disorder touches few buffers, which stay in L2. A copy for each source in each buffer would take
 * twice the memory. Sources that were expelled, or left, have no turn.
 */

struct turn {
	uint16_t next; /* the least id whose turn has not come */
	uint16_t kept; /* contributions that wait */
};

struct order {
	struct rmw_pool *pool; /* of the contributions that are kept */
	struct rmw_quota quota;
	rmw_copy_fn copy;
	struct turn *turn; /* by residue */
	struct rmw_buffer **kept; /* by residue and source id; NULL: not here, or added */
	struct turn memory[]; /* turn, then kept */
};

bool
order_matters(const struct block *b)
{
	return b->reduction != NULL && weir_dtype_is_float(b->dtype) &&
		(b->op == WEIR_OP_SUM || b->op == WEIR_OP_PROD || b->op == WEIR_OP_AVG);
}

static size_t
turn_bytes(const struct ppe_job *job)
{
	return RTE_ALIGN(job->window * sizeof(struct turn), sizeof(void *));
}

size_t
order_bytes(const struct ppe_job *job)
{
	return sizeof(struct order) + turn_bytes(job) +
		(size_t)job->window * ppe_job_source_end(job) * sizeof(struct rmw_buffer *);
}

size_t
order_pool_bytes(const struct ppe_job *job, unsigned int residues)
{
	return rmw_pool_bytes(ppe_job_payload_bytes(job), residues * ppe_job_kept(job), 0);
}

int
order_create(struct job_shard *js, const struct ppe_job *job, unsigned int residues,
	uint16_t worker, int socket)
{
	struct rmw_pool_config config = {
		.shard = worker,
		.bytes = ppe_job_payload_bytes(job),
		.count = residues * ppe_job_kept(job),
		.length = order_pool_bytes(job, residues),
	};
	struct order *order =
		rte_zmalloc_socket("weir_order", order_bytes(job), RTE_CACHE_LINE_SIZE, socket);

	config.memory = rte_malloc_socket("weir_order", config.length, RTE_CACHE_LINE_SIZE, socket);
	if (order != NULL && config.memory != NULL)
		order->pool = rmw_pool_create(&config);
	if (order == NULL || order->pool == NULL) {
		rte_free(config.memory);
		rte_free(order);
		return -ENOMEM;
	}
	order->copy = rmw_kernel_copy();
	order->turn = order->memory;
	order->kept = RTE_PTR_ADD(order->memory, turn_bytes(job));
	js->order = order;
	js->ordered = true;
	return rmw_pool_reserve(order->pool, &order->quota, config.count);
}

void
order_destroy(struct order *order, struct ppe_program_leaks *leaks)
{
	if (order == NULL)
		return;
	leaks->buffers += rmw_pool_used(order->pool);
	leaks->faults += rmw_pool_faults(order->pool);
	rmw_pool_destroy(order->pool);
	rte_free(order->pool); /* it is at the beginning of its memory */
	rte_free(order);
}

static inline struct turn *
turn_of(const struct job_shard *js, const struct block *b)
{
	return &js->order->turn[b->block_id & (js->window - 1u)];
}

static inline struct rmw_buffer **
kept_of(const struct job_shard *js, const struct block *b)
{
	return &js->order->kept[(size_t)(b->block_id & (js->window - 1u)) * js->source_end];
}

static inline bool
is_expected(const struct job_shard *js, uint8_t source)
{
	bool in = js->pinned ? mask_test(js->in, source) : js->address[source] != 0;

	return in && !mask_test(js->expelled, source);
}

/* Add or drop a copy. */
static void
take_piece(struct turn *turn, struct rmw_buffer **piece, const struct block *b, bool add)
{
	if (add)
		block_add_elements(b, rmw_buffer_data(*piece), b->heard_count == turn->kept);
	rmw_release(*piece);
	*piece = NULL;
	turn->kept--;
}

/* Add the copies whose turn it is, up to a contribution that has not arrived. */
static void
go_on(const struct job_shard *js, const struct block *b)
{
	struct turn *turn = turn_of(js, b);
	struct rmw_buffer **kept = kept_of(js, b);

	for (; turn->next < js->source_end; turn->next++)
		if (kept[turn->next] != NULL)
			take_piece(turn, &kept[turn->next], b, true);
		else if (is_expected(js, (uint8_t)turn->next))
			return;
}

/* Copy a contribution. false: the pool is empty, which can happen only after the job's sources
 * changed. */
static bool
keep(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b)
{
	int error;
	struct rmw_buffer *piece = rmw_alloc(js->order->pool, &js->order->quota, &error);
	struct pktbuf_cursor cursor;

	if (unlikely(piece == NULL))
		return false;
	if (likely(packet->data_len >= c->payload + c->bytes)) {
		js->order->copy(rmw_buffer_data(piece),
			rte_pktmbuf_mtod_offset(packet, const uint8_t *, c->payload), c->bytes);
	} else {
		pktbuf_cursor_init(&cursor, packet, c->payload, c->bytes);
		pktbuf_cursor_copy(&cursor, rmw_buffer_data(piece), c->bytes);
	}
	kept_of(js, b)[c->header.src_id] = piece;
	turn_of(js, b)->kept++;
	js->count.out_of_turn++;
	return true;
}

void
order_add(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b)
{
	struct turn *turn = turn_of(js, b);

	/* The missing source may have been expelled meanwhile. */
	go_on(js, b);
	if (c->header.src_id > turn->next && likely(keep(js, packet, c, b)))
		return;
	block_add_payload(packet, c, b, b->heard_count == turn->kept);
	if (c->header.src_id == turn->next)
		turn->next++;
	b->heard_count++;
	go_on(js, b);
	b->heard_count--;
}

void
order_end(const struct job_shard *js, const struct block *b, bool add)
{
	struct turn *turn = turn_of(js, b);
	struct rmw_buffer **kept = kept_of(js, b);

	for (unsigned int s = turn->next; turn->kept > 0 && s < js->source_end; s++)
		if (kept[s] != NULL)
			take_piece(turn, &kept[s], b, add);
	*turn = (struct turn){0};
}
