/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective program: a contribution's way, top to bottom.
 *
 *   (memo)     like its source's last one: on to job_entry or find_block on the lcore that received
 *   parse      the aggregation header, from the head                     "
 *   job_entry  is there such a job, is the source in it, which shard     "
 *   admit      generation, address, length; starts the bucket            on the shard's owner (admit.c)
 *   find_block the bucket; starts the record, or opens the block         "
 *   record     the record; starts the buffer                             "
 *   aggregate  verifies the checksums, adds the payload; the last one fixes the result
 *   emit       sends it (emit.c)                              "
 *
 * Checksums are verified as late as that because the payload is in L1 then. Until they are, no
 * sum is changed and nobody is answered. What counts before: the time at which a source was heard (of an
 * authenticated job it does not), and the job's rate.
 *
 * Acknowledgements are not served as contributions are, so examine finds them: ack.c.
 *
 * What an authenticated job's packets are worth their tags say: examine verifies them, for each (and no
 * memo spares one that).
 *
 * The protocol is docs/protocol.md; the life of a block is in block.c, the memo in
 * memo.c, what is not added to its block in odd.c, what is not taken at all in
 * refuse.c. Layouts are in collective_priv.h, what is inline and hot in collective_fast.h and
 * payload.h; the functions of a file are declared by what they are for: way.h (segments),
 * block.h, emit.h, auth.h, hooks.h (struct ppe_program's).
 */
#include <netinet/in.h>

#include <rte_ether.h>

#include "ppe/collective/auth.h"
#include "ppe/collective/block.h"
#include "ppe/collective/emit.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/hooks.h"
#include "ppe/collective/order.h"
#include "ppe/collective/payload.h"
#include "ppe/collective/way.h"
#include "ppe/programs/programs.h"

static struct ppe_next record(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next aggregate(struct ppe_worker *worker, struct ppe_thread *thread);

/* The aggregation header, and what is impossible in it. */
static struct ppe_next
parse(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct pktbuf_head *head = &thread->head;
	struct contribution *c = &lmem(thread)->c;
	unsigned int bytes;

	if (unlikely((head->flags & PKTBUF_HEAD_FRAGMENT) != 0))
		return end_dropped(worker, thread, PPE_DROP_IP_FRAGMENT);
	if (unlikely((head->flags & PKTBUF_HEAD_OPTIONS) != 0))
		return end_dropped(worker, thread, PPE_DROP_IP_OPTIONS);
	c->header = (struct weir_header){
		.extended = head->udp_dst == worker->identity->port_ext,
	};
	bytes = weir_header_bytes(c->header.extended);
	if (unlikely(head->payload_length < bytes))
		return end_dropped(worker, thread, PPE_DROP_TRUNCATED);
	weir_header_read(&c->header, head->bytes + head->payload);
	c->payload = head->payload + bytes;
	c->bytes = head->payload_length - bytes;
	c->verified = false;
	c->learned = false;
	if (unlikely(c->header.status != 0 || c->header.degraded || c->header.src_cnt != 0))
		return end_dropped(worker, thread, PPE_DROP_NOT_A_CONTRIBUTION);
	memo_learn(worker, thread, c);
	return job_entry(worker, thread); /* few jobs, at every packet: their lines are here */
}

/* The packet is taken for this job. */
static inline void
note_job(const struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;

	c->serial = state->job[c->header.job_id]->serial;
}

/* Has the job this source, at the packet's address? */
static inline bool
is_source(const struct ppe_job *j, struct ppe_thread *thread)
{
	uint8_t source = lmem(thread)->c.header.src_id;

	return j != NULL && ppe_job_has(j, source) && j->address[source] == thread->head.ip_src;
}

/* A join: answered here when it can't be taken, so not before its checksums are right. Whether the
 * tag of one for an authenticated job holds is dear: only who may be its source is asked. */
static __rte_noinline struct ppe_next
joining(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);

	if (!checksums_hold(worker, thread))
		return PPE_END;
	if (!is_source(j, thread))
		return refuse_stranger(worker, thread, j);
	if (from_group(thread))
		return end_dropped(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
	if (j->authenticated && !authentic_join(worker, thread, state->job[j->id]))
		return PPE_END;
	note_job(worker, thread);
	return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers), join);
}

/* The job's table entry: who may send, and which shard has the block. */
struct ppe_next
job_entry(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct weir_header *h = &lmem(thread)->c.header;
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	uint16_t shard;

	if (unlikely(h->extended && h->collective == WEIR_COLLECTIVE_JOIN))
		return joining(worker, thread, j);
	if (unlikely(!is_source(j, thread)))
		return refuse_stranger(worker, thread, j);
	note_job(worker, thread);
	if (!h->extended) {
		h->collective =
			h->grad_cnt != 0 ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER;
		h->dtype = j->dtype;
		h->op = j->op;
	}
	h->block_id = ppe_job_block(j, h->block_id);
	shard = (uint16_t)ppe_job_shard(j, h->block_id, worker->workers);
	/* The memo stays here. */
	if (shard != worker->id)
		lmem(thread)->c.learned = false;
	return ppe_hop(worker, thread, shard, admit);
}

/* No such block: this contribution opens it, or comes too late or too early. */
static __rte_noinline struct ppe_next
open_block(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	enum weir_status status;
	enum ppe_drop reason;

	if (!c->verified && !checksums_hold(worker, thread))
		return PPE_END;
	c->verified = true;
	reason =
		block_open(state, state->job[c->header.job_id], c, worker->now, &c->block, &status);
	if (likely(c->block != NULL))
		return aggregate(worker, thread);
	if (status != WEIR_STATUS_OK)
		return refuse(worker, thread, reason, status);
	return end_dropped(worker, thread, reason);
}

/* The bucket is here. */
struct ppe_next
find_block(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);

	if (unlikely(!hash_find(state->blocks, &lmem(thread)->c.probe)))
		return open_block(worker, thread);
	start_payload(thread, &lmem(thread)->c, 0, 8);
	return PPE_RUN(record);
}

/* The record is here. */
static struct ppe_next
record(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;

	c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (unlikely(c->block == NULL))
		return open_block(worker, thread);
	rte_prefetch0(&c->block->heard_count);
	if (c->block->buffer != NULL)
		rte_prefetch0(rmw_buffer_data(c->block->buffer));
	start_payload(thread, c, 8, 16);
	return PPE_RUN(aggregate);
}

/* Do block and contribution agree? The four fields lie side by side in both. */
static inline bool
agree(const struct block *b, const struct weir_header *h)
{
	uint32_t has, offers;

	static_assert(offsetof(struct block, root) - offsetof(struct block, collective) == 3 &&
			offsetof(struct weir_header, root) -
					offsetof(struct weir_header, collective) ==
				3,
		"collective, op, dtype, root");
	memcpy(&has, &b->collective, sizeof(has));
	memcpy(&offers, &h->collective, sizeof(offers));
	return likely(has == offers) && likely(b->grad_cnt == h->grad_cnt) &&
		likely(b->final == h->final);
}

/* The last contribution is in: of all sources, or of those that have not been expelled. */
static __rte_noinline struct ppe_next
complete(struct ppe_worker *worker, struct ppe_thread *thread, struct collective *state,
	struct job_shard *js, struct block *b)
{
	block_finish(state, js, b,
		likely(b->heard_count == js->nb_sources) ? WEIR_STATUS_OK : WEIR_STATUS_PARTIAL);
	emit_block(worker, thread, b, -1, NULL);
	return emit(worker, thread);
}

/* The payload of a block that does not add them as they come: it has its place, or its turn. */
static __rte_noinline void
put_payload(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b)
{
	if (c->bytes == 0)
		return;
	if (b->placed)
		place_payload(js, packet, c, b);
	else
		add_in_turn(js, packet, c, b);
}

/* Record and buffer are here: the sum. */
static struct ppe_next
aggregate(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	struct block *b = c->block;
	uint64_t since;

	if (unlikely(!block_is(b, c->probe.key)))
		return PPE_RUN(find_block); /* released while we slept */
	if (!c->verified && unlikely(!checksums_hold(worker, thread)))
		return PPE_END;
	if (unlikely(b->state == BLOCK_DONE))
		return answer_late(worker, thread, b);
	if (unlikely(mask_test(b->heard, h->src_id)))
		return repeated(worker, thread, b);
	if (unlikely(!agree(b, h))) {
		uint16_t has, offers;
		enum weir_field field = disagreement(b, h, &has, &offers);

		if (field != 0)
			return disagrees(worker, thread, b, field, has, offers);
	}
	mask_set(b->heard, h->src_id);
	if (likely(b->direct))
		add_payload(thread->packet, c, b, b->heard_count == 0);
	else
		put_payload(js, thread->packet, c, b);
	b->heard_count++;
	since = b->progress;
	b->progress = worker->now;
	js->count.contributions++;
	ppe_consume(worker, thread);
	if (likely(!block_is_full(js, b)))
		return PPE_END;
	js->late[h->src_id].last++;
	if ((int64_t)(js->late[h->src_id].until - since) > 0)
		since = js->late[h->src_id].until;
	js->late[h->src_id].waited += worker->now - since;
	js->late[h->src_id].until = worker->now;
	return complete(worker, thread, state, js, b);
}

static int
create(const struct ppe_setup *setup, void **state)
{
	const struct pktbuf_identity *identity = &setup->config->identity;
	const uint16_t here = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP;
	const struct ppe_match matches[] = {
		{.conditions = here | PPE_MATCH_UDP_PORT, .udp_port = identity->port_base},
		{.conditions = here | PPE_MATCH_UDP_PORT, .udp_port = identity->port_ext},
		/* A fragment may be one of ours; it has no place anywhere else either. */
		{.conditions = here | PPE_MATCH_IP_PROTO | PPE_MATCH_FRAGMENT,
			.ip_proto = IPPROTO_UDP},
	};
	int rc = collective_state_create(setup, state);

	for (unsigned int i = 0; rc == 0 && i < RTE_DIM(matches); i++)
		rc = ppe_match_add(setup, &matches[i]);
	return rc;
}

/* The contribution's block and source, as the packet says it. */
static uint64_t
identify(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct pktbuf_head *head = &thread->head;
	struct weir_header h = {.extended = head->udp_dst == worker->identity->port_ext};
	const struct ppe_job *j;

	if ((head->flags & (PKTBUF_HEAD_FRAGMENT | PKTBUF_HEAD_OPTIONS)) != 0 ||
		head->payload_length < weir_header_bytes(h.extended))
		return 0;
	weir_header_read(&h, head->bytes + head->payload);
	j = worker->jobs->by_id[h.job_id];
	return ppe_trace_id(h.src_id, h.gen_id, h.job_id,
		j == NULL ? h.block_id : ppe_job_block(j, h.block_id));
}

static const struct ppe_segment_name segments[] = {
	{parse, "parse"},
	{job_entry, "job_entry"},
	{admit, "admit"},
	{examine, "examine"},
	{find_block, "find_block"},
	{record, "record"},
	{aggregate, "aggregate"},
	{emit, "emit"},
	{NULL, NULL},
};

const struct ppe_program collective_program = {
	.name = "collective",
	.first = parse,
	.recognise = memo_recognise,
	.create = create,
	.destroy = collective_state_destroy,
	.stats = collective_stats,
	.segments = {segments, age_segments, join_segments},
	.identify = identify,
	.job_create = collective_job_create,
	.job_take = collective_job_take,
	.jobs_taken = collective_jobs_taken,
	.job_idle = collective_job_idle,
	.job_destroy = collective_job_destroy,
	.job_stats = collective_job_stats,
	.job_source = collective_job_source,
	.job_blocks = collective_job_blocks,
};
