/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flow cache: a contribution that looks like its source's last contribution is not parsed
 * again, and is admitted again only when something that its admission depends on has changed.
 *
 * It compares eight words under a mask, about 20 instructions instead of about 400. It is like Open
 * vSwitch's exact-match cache (B. Pfaff et al., "The Design and Implementation of Open vSwitch",
 * NSDI 2015, 4.2), without a hash, because the packet names its job and source.
 */
#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/collective/block/flow_cache_fast.h"

#define IPV4_ID  18
#define IPV4_SUM 24
#define UDP_TO   36
#define UDP_SUM  40

/* Compare all bits but IPv4's identification and checksum, the variable bits of the UDP port, UDP's
 * checksum, the block id and the final flag. */
void
flow_cache_create(struct collective *state, const struct pktbuf_identity *identity)
{
	for (unsigned int extended = 0; extended < 2; extended++) {
		uint8_t *mask = (uint8_t *)state->flow_mask[extended];

		memset(mask, 0xff, FLOW_JOB_AT + weir_header_bytes(extended));
		weir_put16(mask + IPV4_ID, 0);
		weir_put16(mask + IPV4_SUM, 0);
		weir_put16(mask + UDP_TO, (uint16_t)~identity->port_any);
		weir_put16(mask + UDP_SUM, 0);
		weir_put32(mask + FLOW_BLOCK_AT, 0);
		mask[FLOW_FLAGS_AT] = (uint8_t)~WEIR_FINAL;
	}
}

/* A contribution for this worker's shard is admitted if its flow's version shows that nothing has
 * changed. Others continue at block_entry, and hop. */
bool
flow_cache_lookup(
	struct ppe_worker *worker, void *arg, struct ppe_thread *thread, struct rte_mbuf *packet)
{
	struct collective *state = arg;
	const uint8_t *p = rte_pktmbuf_mtod(packet, const uint8_t *);
	struct contribution *c = &lmem(thread)->c;
	struct job_shard *js;
	struct flow *flow;
	uint32_t block;
	bool home;

	if (unlikely(packet->data_len < FLOW_BYTES))
		return false;
	js = state->job[p[FLOW_JOB_AT]];
	if (unlikely(js == NULL))
		return false;
	flow = &js->flow[p[FLOW_SOURCE_AT]];
	if (unlikely(!flow_matches(flow, packet, p)))
		return false;
	block = flow_block(js, p);
	home = ppe_residue_shard(js->job, block & js->residue_mask, worker->workers) == worker->id;
	if (home && unlikely(flow->admitted != js->version))
		return false;
	thread->packet = packet;
	thread->port = packet->port;
	thread->head = flow->head;
	thread->head.bytes = p;
	c->header = flow->header;
	c->header.block_id = block;
	c->header.final = (p[FLOW_FLAGS_AT] & WEIR_FINAL) != 0;
	c->payload = flow->payload;
	c->bytes = FLOW_JOB_AT + (uint32_t)flow->head.payload_length - flow->payload;
	c->verified = false;
	c->learned = false;
	if (home)
		c->bytes -= js->crc_bytes;
	if (unlikely(!home)) {
		thread->next = PPE_RUN(block_entry);
	} else if (unlikely(js->keys != NULL)) {
		thread->next = block_await_verification(state, js, thread);
	} else {
		flow->heard = heard_now(worker->now);
		block_start_bucket(state, js, c);
		thread->next = PPE_RUN(block_find);
	}
	return true;
}

/* Learn only contributions from the source's own address, so that no other host can overwrite an
 * entry. A join has a nonce in its block field. Acknowledgements and probes come between
 * contributions, whose entries are worth more. */
static bool
worth_learning(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *h)
{
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	const struct rte_mbuf *packet = thread->packet;

	return j != NULL && ppe_job_has(j, h->src_id) &&
		j->address[h->src_id] == thread->head.ip_src &&
		!(h->extended &&
			(h->collective == WEIR_COLLECTIVE_JOIN ||
				weir_is_control(h->collective))) &&
		packet->data_len >= FLOW_BYTES && packet->nb_segs == 1 &&
		thread->head.payload == FLOW_JOB_AT;
}

/* An entry from another port would make the source's own packets miss the cache. */
static bool
from_its_port(const struct job_shard *js, const struct ppe_thread *thread, uint8_t source)
{
	const struct pktbuf_endpoint *known = &js->endpoint[source];

	return !js->pinned || !known->valid || known->port == thread->port;
}

void
flow_cache_learn(struct ppe_worker *worker, struct ppe_thread *thread, struct contribution *c)
{
	const struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = state->job[c->header.job_id];
	struct flow *flow;

	if (js == NULL || !worth_learning(worker, thread, &c->header) ||
		!from_its_port(js, thread, c->header.src_id))
		return;
	flow = &js->flow[c->header.src_id];
	memcpy(flow->frame, thread->head.bytes, sizeof(flow->frame));
	flow->mask = state->flow_mask[c->header.extended];
	flow->head = thread->head;
	flow->header = c->header;
	flow->mbuf = flow_mbuf_of(thread->port);
	flow->length = (uint16_t)thread->head.length;
	flow->payload = (uint16_t)c->payload;
	flow->admitted = flow->batched = 0;
	c->learned = true;
}

void
flow_cache_admit(struct job_shard *js, const struct contribution *c)
{
	struct flow *flow = &js->flow[c->header.src_id];
	struct weir_header *header = &flow->header;

	/* The base form takes these from the job. */
	header->collective = c->header.collective;
	header->dtype = c->header.dtype;
	header->op = c->header.op;
	for (unsigned int final = 0; final < 2; final++)
		flow->agreement[final] = block_agreement(header, final);
	flow->admitted = js->version;
	flow->batched = header->grad_cnt > 0 && !js->ordered && js->keys == NULL &&
			collective_table[header->collective].contribution == CONTRIBUTION_REDUCE
		? js->version
		: 0;
}
