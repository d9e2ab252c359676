/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deterministic jobs: contributions are added in the order of their sources' ids, so that a floating-point
 * result has the same bits whatever order they come in. docs/deterministic.md.
 *
 * A contribution whose turn it is, is added at once, and then those behind it that are here already. One
 * out of turn is kept until its turn comes. A residue has one open block at most, so a job keeps at
 * most window x (sources - 1) of them, in a pool of its own: what was reserved can't run out. Pieces are
 * handed out last freed, first reused, so a little disorder touches a few pieces, which stay in L2;
 * a copy for each source in each buffer would cost twice the memory, and walk through all of it.
 *
 * Whose turn it is goes by ids and by who is still waited for: a source that was expelled, or left, has no
 * turn. So a result of some sources is the sum of these in order.
 *
 * All of it is the shard's owner's, but for creation and destruction, which are the control thread's.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_ORDER_H
#define PPE_PROGRAMS_COLLECTIVE_ORDER_H

#include "ppe/collective/collective_priv.h"

/* Where the open block of a residue stands. All zero when there is none. */
struct turn {
	uint16_t next; /* the least id whose turn has not come */
	uint16_t kept; /* contributions that wait */
};

struct order {
	struct rmw_pool *pool; /* of the pieces that are kept */
	struct rmw_quota quota;
	rmw_copy_fn copy;
	struct turn *turn; /* by residue */
	struct rmw_buffer **kept; /* by residue and source id; NULL: not here, or added */
	struct turn memory[]; /* turn, then kept */
};

/* Bytes of an order, and of its pool, in a shard with so many residues of the job. */
size_t order_bytes(const struct ppe_job *job);
size_t order_pool_bytes(const struct ppe_job *job, unsigned int residues);

/* Does a sum of this kind depend on the order? Integers wrap, and the least is the least. */
static inline bool
order_matters(const struct block *b)
{
	return b->reduction != NULL && b->dtype >= WEIR_DTYPE_FP16 &&
		(b->op == WEIR_OP_SUM || b->op == WEIR_OP_PROD || b->op == WEIR_OP_AVG);
}

/* For a deterministic job with a shard here. 0; -ENOMEM: js->order is NULL. */
int order_create(struct job_shard *js, const struct ppe_job *job, unsigned int residues,
	uint16_t worker, int socket);

/* NULL is fine. Counts what was not given back. */
void order_destroy(struct order *order, struct ppe_program_leaks *leaks);

/* Add the payload of a contribution that was not heard yet, or keep it; and add what has its turn now.
 * In place of add_payload, for a block whose order matters. */
void add_in_turn(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b);

/* The block is over: add what is still kept, in order, or (add: false) forget it. Any block of a
 * deterministic job; before its result is fixed. */
void order_end(const struct job_shard *js, const struct block *b, bool add);

#endif
