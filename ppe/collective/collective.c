/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective program: the first segment, and the hooks of the engine. */
#include "ppe/collective/collective.h"

#include <netinet/in.h>

#include "ppe/collective/block/block.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/membership/membership.h"
#include "ppe/collective/tree/tree.h"
#include "ppe/guard.h"
#include "ppe/programs/programs.h"
#include "ppe/simulate.h"

static inline bool
to_extended(const struct ppe_worker *worker, const struct pktbuf_head *head)
{
	return pktbuf_port_is(worker->identity, head->udp_dst, worker->identity->port_ext);
}

/* The forms come first: their ports may be any. */
static inline bool
is_from_parent(const struct ppe_worker *worker, const struct pktbuf_head *head)
{
	return head->udp_dst == WEIR_PORT_UP && !to_extended(worker, head) &&
		!pktbuf_port_is(worker->identity, head->udp_dst, worker->identity->port_base);
}

/* Why the packet's UDP payload is not read. PPE_DROP_COUNT: it is readable. */
static inline enum ppe_drop
unreadable(const struct pktbuf_head *head)
{
	if (unlikely((head->flags & PKTBUF_HEAD_FRAGMENT) != 0))
		return PPE_DROP_IP_FRAGMENT;
	if (unlikely((head->flags & PKTBUF_HEAD_OPTIONS) != 0))
		return PPE_DROP_IP_OPTIONS;
	return PPE_DROP_COUNT;
}

/* Read a source's header. PPE_DROP_COUNT, or why it is none. */
static __rte_always_inline enum ppe_drop
read_header(
	const struct ppe_worker *worker, const struct ppe_thread *thread, struct contribution *c)
{
	const struct pktbuf_head *head = &thread->head;
	unsigned int bytes;

	c->header = (struct weir_header){
		.extended = to_extended(worker, head),
	};
	bytes = weir_header_bytes(c->header.extended);
	if (unlikely(head->payload_length < bytes))
		return PPE_DROP_TRUNCATED;
	weir_header_read(&c->header, head->bytes + head->payload);
	c->payload = head->payload + bytes;
	c->bytes = head->payload_length - bytes;
	c->verified = false;
	c->learned = false;
	if (unlikely((c->header.status | c->header.degraded | c->header.src_cnt |
			     (c->header.flags & WEIR_FLAG_UP)) != 0) &&
		!child_may_send(worker->jobs->by_id[c->header.job_id], &c->header))
		return PPE_DROP_NOT_A_CONTRIBUTION;
	return PPE_DROP_COUNT;
}

static struct ppe_next
parse(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct contribution *c = &lmem(thread)->c;
	enum ppe_drop reason = unreadable(&thread->head);

	if (likely(reason == PPE_DROP_COUNT)) {
		if (unlikely(is_from_parent(worker, &thread->head)))
			return parent_entry(worker, thread);
		reason = read_header(worker, thread, c);
	}
	if (unlikely(reason != PPE_DROP_COUNT))
		return ppe_drop(worker, thread, reason);
	/* The flow cache is for packets that all look alike. */
	if (unlikely(c->header.status != WEIR_STATUS_OK))
		return block_entry(worker, thread);
	if (unlikely(c->header.extended && c->header.collective == WEIR_COLLECTIVE_JOIN))
		return join_entry(worker, thread, worker->jobs->by_id[c->header.job_id]);
	flow_cache_learn(worker, thread, c);
	return block_entry(worker, thread); /* the job table is cached: no segment ends here */
}

static void
explain(const struct ppe_worker *worker, const void *const *states, const struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	struct ppe_thread copy = *thread; /* explanations use its LMEM as segments do */
	struct contribution *c = &lmem(&copy)->c;
	const struct weir_header *h = &c->header;
	const char *collective;
	enum ppe_drop reason = unreadable(&thread->head);

	if (reason == PPE_DROP_COUNT && is_from_parent(worker, &thread->head)) {
		ppe_explain(explanation, "parse", "a packet to the port for parents");
		parent_explain(worker, states, &copy, explanation);
		return;
	}
	if (reason == PPE_DROP_COUNT)
		reason = read_header(worker, thread, c);
	if (reason != PPE_DROP_COUNT) {
		ppe_explain(explanation, "parse", "no packet of a source");
		ppe_explain_drop(explanation, reason);
		return;
	}
	collective = weir_collective_text(h->collective);
	ppe_explain(explanation, "parse", "job %u, source %u, %s %u, generation %u, %s", h->job_id,
		h->src_id, h->extended && h->collective == WEIR_COLLECTIVE_JOIN ? "nonce" : "block",
		h->block_id, h->gen_id,
		!h->extended                 ? "base form"
			: collective != NULL ? collective
					     : "unknown collective");
	if (h->status == WEIR_STATUS_OK && h->extended && h->collective == WEIR_COLLECTIVE_JOIN)
		join_explain(worker, states, &copy, explanation);
	else
		block_explain(worker, states, &copy, explanation);
}

static int
create(const struct ppe_setup *setup, void **state)
{
	const struct pktbuf_identity *identity = &setup->config->identity;
	const uint16_t here = PPE_MATCH_TO_SWITCH_MAC | PPE_MATCH_TO_SWITCH_IP;
	const uint16_t forms = identity->port_base ^ identity->port_ext;
	/* The forms' ports usually differ in one bit: then one match takes both. */
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
	j = parents ? parent_find_sender(worker, thread, &h, &parent)
		    : worker->jobs->by_id[h.job_id];
	return ppe_trace_id(h.src_id, h.gen_id, parents && j != NULL ? j->id : h.job_id,
		j == NULL ? h.block_id : ppe_job_block(j, h.block_id));
}

static uint64_t
blocks_capacity(const void *state)
{
	return ((const struct collective *)state)->budget->capacity;
}

static uint64_t
blocks_reserved(const void *state)
{
	return ((const struct collective *)state)->budget->reserved;
}

static uint64_t
blocks_used(const void *state)
{
	return hash_count(((const struct collective *)state)->blocks);
}

static const struct ppe_segment_name segments[] = {
	{parse, "parse",
		"from_parent job_entry hop:join drop:ip_fragment drop:ip_options drop:truncated "
		"drop:not_a_contribution drop:policed_port drop:forged" REFUSAL_LEADS_TO},
	{0},
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
	.help = "sums, and moves, what hosts send: AllReduce and its family",
	.first = parse,
	.recognize = flow_cache_lookup,
	.batch = block_batch,
	.hopped = block_batch_hopped,
	.create = create,
	.destroy = collective_state_destroy,
	.memory = collective_memory,
	.explain = explain,
	.statistics = {{"blocks_capacity", NULL, "block records", PPE_STATISTIC_GAUGE, false,
			       blocks_capacity},
		{"blocks_reserved", "weir_block_records_reserved",
			"block records reserved for the jobs' windows", PPE_STATISTIC_GAUGE, false,
			blocks_reserved},
		{"blocks_used", "weir_block_records", "block records in use", PPE_STATISTIC_GAUGE,
			false, blocks_used}},
	.segments = {segments, block_segments, timeout_segments, join_segments, announce_segments,
		parent_segments},
	.identify = identify,
	.jobs = &jobs,
};
