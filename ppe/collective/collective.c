/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective program: the path of a contribution, top to bottom.
 *
 *   (flow cache) equal to its source's last one: continue at job_entry or find_block   on the worker that received it
 *   parse        read the aggregation header                                      "
 *   job_entry    find the job, check the source, choose the shard                 "
 *   admit        check generation, address, length; prefetch the bucket           on the shard's owner (admit.c)
 *   find_block   search the bucket; prefetch the record, or open the block        "
 *   record       read the record; prefetch the buffer                             "
 *   aggregate    verify the checksums, add the payload; the last one fixes the result
 *   emit         send results that differ by receiver (result.c)                  "
 *
 * Usual contributions do not come here: batch.c takes those of a whole turn, unless `workers.batch` is 1.
 *
 * In an authenticated job verify takes the place of the three before emit: it verifies the tag while the next payload
 * is fetched, then searches the block and adds.
 *
 * Checksums and tags are verified just before the payload is added, which is in L1 then. Before that no sum changes and
 * nothing is answered; only a source's time of last contact (without authentication) and the job's rate change. examine
 * (admit.c) takes acknowledgements, probes and other unusual packets, whose tags it verifies itself.
 *
 * Files: block.c the life of a block; reduce.c payloads; result.c results; timeout.c stragglers; join.c joins; announce.c generations;
 * parent.c the way to a parent and back; parent_join.c generations there; auth.c keys and tags; integrity.c CRCs; jobs.c jobs in a
 * shard; statistics.c what the control thread reads.
 */
#include "ppe/collective/collective.h"

#include <netinet/in.h>

#include <rte_ether.h>

#include "ppe/collective/collective_fast.h"
#include "ppe/guard_fast.h"
#include "ppe/programs/programs.h"

static struct ppe_next record(struct ppe_worker *worker, struct ppe_thread *thread);

static inline bool
to_extended(const struct ppe_worker *worker, const struct pktbuf_head *head)
{
	return pktbuf_port_is(worker->identity, head->udp_dst, worker->identity->port_ext);
}

/* The forms' own ports may be any: they come first. */
static inline bool
is_from_parent(const struct ppe_worker *worker, const struct pktbuf_head *head)
{
	return head->udp_dst == WEIR_PORT_UP && !to_extended(worker, head) &&
		!pktbuf_port_is(worker->identity, head->udp_dst, worker->identity->port_base);
}

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
	if (unlikely(is_from_parent(worker, head)))
		return from_parent(worker, thread);
	c->header = (struct weir_header){
		.extended = to_extended(worker, head),
	};
	bytes = weir_header_bytes(c->header.extended);
	if (unlikely(head->payload_length < bytes))
		return end_dropped(worker, thread, PPE_DROP_TRUNCATED);
	weir_header_read(&c->header, head->bytes + head->payload);
	c->payload = head->payload + bytes;
	c->bytes = head->payload_length - bytes;
	c->verified = false;
	c->learned = false;
	if (unlikely((c->header.status | c->header.degraded | c->header.src_cnt |
			     (c->header.flags & WEIR_FLAG_UP)) != 0)) {
		if (!may_be_from_child(worker->jobs->by_id[c->header.job_id], &c->header))
			return end_dropped(worker, thread, PPE_DROP_NOT_A_CONTRIBUTION);
		/* The cache is for packets that are all alike. */
		if (c->header.status != WEIR_STATUS_OK)
			return job_entry(worker, thread);
	}
	flow_cache_learn(worker, thread, c);
	return job_entry(worker, thread); /* the job table is in the cache: no segment ends here */
}

static inline void
note_job(const struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;

	c->serial = state->job[c->header.job_id]->serial;
}

static inline bool
is_source(const struct ppe_job *j, struct ppe_thread *thread)
{
	uint8_t source = lmem(thread)->c.header.src_id;

	return j != NULL && ppe_job_has(j, source) && j->address[source] == thread->head.ip_src;
}

/* A join may be answered here, so its checksums are verified first. The sender is checked before the tag, which is
 * expensive. */
static __rte_noinline struct ppe_next
joining(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);

	if (!checksums_hold(worker, thread))
		return PPE_END;
	if (!is_source(j, thread))
		return refuse_unknown_sender(worker, thread, j);
	if (from_group(thread))
		return end_dropped(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
	/* A source may move: the job decides about its own. */
	if (!guard_passes(worker, thread, j->id))
		return PPE_END;
	if (!guard_conforms(worker, thread->port, GUARD_JOINS))
		return end_dropped(worker, thread, PPE_DROP_POLICED_PORT);
	if (j->proved && !authentic_join(worker, thread, state->job[j->id]))
		return PPE_END;
	note_job(worker, thread);
	return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers), join);
}

/* The job's table entry: the sources, and the shard that has the block. */
struct ppe_next
job_entry(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct weir_header *h = &lmem(thread)->c.header;
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	uint16_t shard;

	if (unlikely(h->extended && h->collective == WEIR_COLLECTIVE_JOIN))
		return joining(worker, thread, j);
	if (unlikely(!is_source(j, thread)))
		return refuse_unknown_sender(worker, thread, j);
	note_job(worker, thread);
	if (!h->extended) {
		h->collective =
			h->grad_cnt != 0 ? WEIR_COLLECTIVE_ALLREDUCE : WEIR_COLLECTIVE_BARRIER;
		h->dtype = j->dtype;
		h->op = j->op;
	}
	h->block_id = ppe_job_block(j, h->block_id);
	shard = (uint16_t)ppe_job_shard(j, h->block_id, worker->workers);
	/* The flow cache entry belongs to this worker. */
	if (shard != worker->id)
		lmem(thread)->c.learned = false;
	return ppe_hop(worker, thread, shard, admit);
}

struct ppe_next
not_opened(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js,
	enum ppe_drop reason, enum weir_status status)
{
	if (status != WEIR_STATUS_OK)
		return refuse(worker, thread, reason, status);
	if (reason == PPE_DROP_HELD_BACK && js->children)
		answer_held_back(worker, thread, js);
	return end_dropped(worker, thread, reason);
}

/* There is no such block: open it, or the contribution is too late or too early. */
static __rte_noinline struct ppe_next
open_block(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	enum weir_status status;
	enum ppe_drop reason;

	if (!c->verified && !is_undamaged(worker, thread, state->job[c->header.job_id]))
		return PPE_END;
	c->verified = true;
	reason =
		block_open(state, state->job[c->header.job_id], c, worker->now, &c->block, &status);
	if (likely(c->block != NULL))
		return aggregate(worker, thread);
	return not_opened(worker, thread, state->job[c->header.job_id], reason, status);
}

struct ppe_next
find_block(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);

	if (unlikely(!hash_find(state->blocks, &lmem(thread)->c.probe)))
		return open_block(worker, thread);
	start_payload(thread, &lmem(thread)->c, 0, 8);
	return PPE_RUN(record);
}

static inline void
start_block(const struct block *block)
{
	rte_prefetch0(&block->buffer);
	if (block->buffer != NULL)
		rte_prefetch0(rmw_buffer_data(block->buffer));
}

static struct ppe_next
record(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;

	c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (unlikely(c->block == NULL))
		return open_block(worker, thread);
	start_block(c->block);
	start_payload(thread, c, 8, 16);
	return PPE_RUN(aggregate);
}

struct ppe_next
await_verification(struct collective *state, struct job_shard *js, struct ppe_thread *thread)
{
	struct contribution *c = &lmem(thread)->c;
	struct tagged *tagged = &state->tagged;

	start_bucket(state, js, c);
	if (tagged->verified == tagged->end)
		start_payload(thread, c, 0, UINT16_MAX);
	c->place = tagged->end++;
	tagged->payload[c->place % TAGGED_MAX] =
		rte_pktmbuf_mtod_offset(thread->packet, const uint8_t *, c->payload);
	return PPE_RUN(verify);
}

/* The payload that will be read after this one; NULL: not known. */
static inline const uint8_t *
next_payload(struct tagged *tagged, const struct contribution *c)
{
	tagged->verified = c->place + 1;
	return tagged->verified == tagged->end ? NULL
					       : tagged->payload[tagged->verified % TAGGED_MAX];
}

/* The steps of a contribution with a tag, in one segment. */
struct ppe_next
verify(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = state->job[c->header.job_id];
	const uint8_t *next = next_payload(&state->tagged, c);

	c->block = NULL;
	if (likely(hash_find(state->blocks, &c->probe)))
		c->block = (struct block *)(void *)hash_peek(state->blocks, &c->probe);
	if (likely(c->block != NULL))
		start_block(c->block);
	if (!checksums_hold(worker, thread) || !authentic(worker, thread, js, next))
		return PPE_END;
	c->verified = true;
	note_heard(worker, js, c->header.src_id);
	return likely(c->block != NULL) ? aggregate(worker, thread) : open_block(worker, thread);
}

/* All sources, or all that have not been expelled, have contributed. */
static __rte_noinline struct ppe_next
complete(struct ppe_worker *worker, struct ppe_thread *thread, struct collective *state,
	struct job_shard *js, struct block *b)
{
	if (!block_end(state, js, b,
		    likely(b->heard_count == js->nb_sources) ? WEIR_STATUS_OK
							     : WEIR_STATUS_PARTIAL))
		return PPE_END;
	return emit_block(worker, thread, b, -1, NULL);
}

/* A payload that is copied, or added in order. */
static __rte_noinline void
put_payload(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b)
{
	if (b->copied && b->buffer != NULL)
		copy_payload(js, packet, c, b);
	else if (c->bytes > 0)
		add_in_turn(js, packet, c, b);
}

struct ppe_next
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
	if (!c->verified && unlikely(!is_undamaged(worker, thread, js)))
		return PPE_END;
	if (unlikely(b->state != BLOCK_OPEN))
		return b->state == BLOCK_DONE ? answer_late(worker, thread, b)
					      : parent_block_pending(worker, thread, b);
	if (unlikely(mask_test(b->heard, h->src_id)))
		return duplicate(worker, thread, b);
	if (unlikely(b->agreement != agreement_of(h, h->final))) {
		uint16_t has, offers;
		enum weir_field field = disagreement(b, h, &has, &offers);

		if (field != 0)
			return mismatched(worker, thread, b, field, has, offers);
	}
	mask_set(b->heard, h->src_id);
	if (likely(b->on_arrival))
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
	source_was_last(&js->late[h->src_id], since, worker->now);
	return complete(worker, thread, state, js, b);
}

static int
create(const struct ppe_setup *setup, void **state)
{
	const struct pktbuf_identity *identity = &setup->config->identity;
	const uint16_t here = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP;
	const uint16_t forms = identity->port_base ^ identity->port_ext;
	/* Mostly the forms' ports differ in one bit: then one match takes both. */
	const bool alike = rte_is_power_of_2(forms);
	const struct ppe_match matches[] = {
		{.conditions = here | PPE_MATCH_UDP_PORT,
			.udp_port = identity->port_base,
			.udp_any = identity->port_any | (alike ? forms : 0)},
		{.conditions = here | PPE_MATCH_UDP_PORT, .udp_port = WEIR_PORT_UP},
		/* A fragment may be an aggregation packet, and no other program wants it. */
		{.conditions = here | PPE_MATCH_IP_PROTO | PPE_MATCH_FRAGMENT,
			.ip_proto = IPPROTO_UDP},
	};
	const struct ppe_match extended = {.conditions = here | PPE_MATCH_UDP_PORT,
		.udp_port = identity->port_ext,
		.udp_any = identity->port_any};
	int rc = collective_state_create(setup, state);

	for (unsigned int i = 0; rc == 0 && i < RTE_DIM(matches); i++)
		rc = ppe_match_add(setup, &matches[i]);
	if (rc == 0 && !alike)
		rc = ppe_match_add(setup, &extended);
	return rc;
}

static uint64_t
identify(const struct ppe_worker *worker, const struct ppe_thread *thread)
{
	const struct pktbuf_head *head = &thread->head;
	bool parents = is_from_parent(worker, head);
	struct weir_header h = {.extended = parents || to_extended(worker, head)};
	const struct ppe_job *j;
	uint8_t parent;

	if ((head->flags & (PKTBUF_HEAD_FRAGMENT | PKTBUF_HEAD_OPTIONS)) != 0 ||
		head->payload_length < weir_header_bytes(h.extended))
		return 0;
	weir_header_read(&h, head->bytes + head->payload);
	j = parents ? find_sending_parent(worker, thread, &h, &parent)
		    : worker->jobs->by_id[h.job_id];
	return ppe_trace_id(h.src_id, h.gen_id, parents && j != NULL ? j->id : h.job_id,
		j == NULL ? h.block_id : ppe_job_block(j, h.block_id));
}

static const struct ppe_segment_name segments[] = {
	{parse, "parse"},
	{job_entry, "job_entry"},
	{admit, "admit"},
	{examine, "examine"},
	{probed, "probed"},
	{verify, "verify"},
	{find_block, "find_block"},
	{record, "record"},
	{aggregate, "aggregate"},
	{emit, "emit"},
	{NULL, NULL},
};

static const struct ppe_jobs_ops jobs = {
	.create = collective_job_create,
	.take = collective_job_take,
	.taken = collective_jobs_taken,
	.idle = collective_job_idle,
	.destroy = collective_job_destroy,
	.memory = collective_job_memory,
	.room = collective_job_room,
	.heard = collective_job_heard,
	.stats = collective_job_stats,
	.source = collective_job_source,
	.parent = collective_job_parent,
	.blocks = collective_job_blocks,
};

const struct ppe_program collective_program = {
	.name = "collective",
	.first = parse,
	.recognize = flow_cache_lookup,
	.batch = collective_batch,
	.hopped = collective_hopped,
	.create = create,
	.destroy = collective_state_destroy,
	.memory = collective_memory,
	.stats = collective_stats,
	.gauges = collective_gauges,
	.segments = {segments, timeout_segments, join_segments, announce_segments, parent_segments},
	.identify = identify,
	.jobs = &jobs,
};
