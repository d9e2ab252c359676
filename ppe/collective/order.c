/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/collective/order.h"

#include <errno.h>

#include <rte_malloc.h>

#include "ppe/collective/collective_fast.h"
#include "ppe/collective/payload.h"

/* Turns, then the table of what is kept. */
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
	rte_free(order->pool); /* it lies at the beginning of its memory */
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

/* Is the block still waiting for it, if it is not here? */
static inline bool
is_expected(const struct job_shard *js, uint8_t source)
{
	bool in = js->pinned ? mask_test(js->in, source) : js->address[source] != 0;

	return in && !mask_test(js->expelled, source);
}

/* A piece's turn has come, or never will. */
static void
take_piece(struct turn *turn, struct rmw_buffer **piece, const struct block *b, bool add)
{
	if (add)
		add_elements(b, rmw_buffer_data(*piece), b->heard_count == turn->kept);
	rmw_release(*piece);
	*piece = NULL;
	turn->kept--;
}

/* Add what has its turn; it is then the turn of one that is not here. */
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

/* false: there is no room, which can't be while the job's sources stay the same. */
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
add_in_turn(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b)
{
	struct turn *turn = turn_of(js, b);

	/* Who was waited for may have been expelled meanwhile. */
	go_on(js, b);
	if (c->header.src_id > turn->next && likely(keep(js, packet, c, b)))
		return;
	add_payload(packet, c, b, b->heard_count == turn->kept);
	if (c->header.src_id == turn->next)
		turn->next++;
	/* It is in, but not yet counted as heard. */
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
