/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results and replies on their way out: one small header mbuf per destination, the payload attached
 * by reference to the aggregation buffer.
 *
 * The emission holds the buffer while it runs, and each packet holds it until its driver has sent
 * it, so that a release meanwhile only marks it.
 */
#include "ppe/crossbar.h"
#include "ppe/programs/collective_priv.h"

/* Packets per step: the other threads run in between. */
#define EMIT_STEP 8

void
endpoint_of(const struct ppe_thread *thread, bool extended, struct pktbuf_endpoint *endpoint)
{
	memcpy(endpoint->mac, thread->head.bytes + 6, sizeof(endpoint->mac));
	endpoint->port = thread->port;
	endpoint->ip = thread->head.ip_src;
	endpoint->udp = thread->head.udp_src;
	endpoint->extended = extended;
	endpoint->valid = 1;
}

static void
send_small(struct ppe_worker *worker, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes)
{
	struct rte_mbuf *packet = pktbuf_reply_build(worker->pools, worker->port[to->port],
		worker->identity, to, header, payload, bytes);

	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		worker->count.created++;
		return;
	}
	worker->count.created++;
	ppe_output(worker, packet, to->port, PKTBUF_PRIO_RESULT);
}

static void
send_payload(struct ppe_worker *worker, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const struct pktbuf_payload *payload,
	struct rmw_buffer *buffer)
{
	struct rte_mbuf *packet = pktbuf_result_build(
		worker->pools, worker->port[to->port], worker->identity, to, header, payload);

	worker->count.created++;
	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	rmw_hold(buffer, 1);
	ppe_output(worker, packet, to->port, PKTBUF_PRIO_RESULT);
}

void
reply_status(struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *asked, enum weir_status status, const void *payload,
	uint8_t bytes)
{
	const struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = state->job[asked->job_id];
	struct weir_header header = *asked;
	struct pktbuf_endpoint to;

	endpoint_of(thread, asked->extended, &to);
	/* A stale source learns the generation that runs. */
	header.gen_id = WEIR_GEN_JOIN;
	if (js != NULL) {
		header.gen_id = js->generation;
		js->count.results++;
	}
	header.status = (uint8_t)status;
	header.grad_cnt = 0;
	header.flags = 0;
	header.degraded = status == WEIR_STATUS_WAITING;
	send_small(worker, &to, &header, payload, bytes);
}

/* The header that all copies of the block's result share. */
static struct weir_header
result_header(const struct block *b, uint16_t generation)
{
	return (struct weir_header){
		.job_id = b->job,
		.block_id = b->block_id,
		.gen_id = generation,
		.status = b->status,
		.src_cnt = (uint8_t)b->in_count,
		.collective = b->collective,
		.op = b->op,
		.dtype = b->dtype,
		.root = b->root,
		.final = b->final,
		.degraded = b->status == WEIR_STATUS_PARTIAL || b->status == WEIR_STATUS_ERROR,
		.grad_cnt = b->status == WEIR_STATUS_OK || b->status == WEIR_STATUS_PARTIAL
			? b->grad_cnt
			: 0,
	};
}

void
emit_block(struct ppe_worker *worker, struct ppe_thread *thread, struct block *block, int only,
	ppe_segment then)
{
	const struct collective *state = ppe_state(worker, thread);
	const struct ppe_job *j = worker->jobs->by_id[block->job];
	const struct job_shard *js = state->job[block->job];
	struct emission *e = &lmem(thread)->emission;

	*e = (struct emission){
		.header = result_header(block, js->generation),
		.job = block->job,
		.multicast = only < 0 && j != NULL && j->group != 0,
		.next = only < 0 ? 0 : (uint16_t)only,
		.end = only < 0 ? js->source_end : (uint16_t)(only + 1),
		.then = then,
	};
	switch ((enum weir_status)block->status) {
	case WEIR_STATUS_MISMATCH:
		e->small_bytes = sizeof(block->mismatch);
		memcpy(e->small, &block->mismatch, sizeof(block->mismatch));
		return;
	case WEIR_STATUS_ERROR:
		e->small_bytes = WEIR_BITMAP_BYTES;
		memcpy(e->small, block->in, WEIR_BITMAP_BYTES);
		return;
	case WEIR_STATUS_PARTIAL:
		if (block->buffer == NULL) {
			e->small_bytes = WEIR_BITMAP_BYTES;
			memcpy(e->small, block->in, WEIR_BITMAP_BYTES);
		}
		break;
	case WEIR_STATUS_OK:
	case WEIR_STATUS_WAITING:
	case WEIR_STATUS_EXPIRED:
	case WEIR_STATUS_STALE:
	case WEIR_STATUS_WINDOW:
	case WEIR_STATUS_UNSUPPORTED:
	case WEIR_STATUS_REFUSED: break;
	}
	if (block->buffer == NULL)
		return;
	rmw_hold(block->buffer, 1);
	e->buffer = block->buffer;
	e->payload = (struct pktbuf_payload){
		.data = rmw_buffer_data(block->buffer),
		.iova = block->buffer->iova,
		.bytes = block->payload_bytes,
		.sum = block->payload_sum,
		.released = crossbar_payload_released,
		.opaque = block->buffer,
	};
}

static void
send_one(struct ppe_worker *worker, struct emission *e, const struct pktbuf_endpoint *to,
	const struct weir_header *header)
{
	if (e->buffer != NULL)
		send_payload(worker, to, header, &e->payload, e->buffer);
	else
		send_small(worker, to, header, e->small, e->small_bytes);
}

/* The group's address, at the port and in the form of this member; false: served already. */
static bool
multicast_of(struct ppe_worker *worker, struct emission *e, const struct pktbuf_endpoint *member,
	struct pktbuf_endpoint *group)
{
	const struct ppe_job *j = worker->jobs->by_id[e->job];
	uint64_t bit = UINT64_C(1) << member->port;

	if (unlikely(j == NULL) || (e->ports_done[member->extended] & bit) != 0)
		return false;
	e->ports_done[member->extended] |= bit;
	*group = (struct pktbuf_endpoint){
		/* RFC 1112, 6.4: the low 23 bits of the group. */
		.mac = {0x01, 0x00, 0x5e, j->group >> 16 & 0x7f, j->group >> 8 & 0xff,
			j->group & 0xff},
		.port = member->port,
		.ip = j->group,
		.udp = member->extended ? worker->identity->port_ext : worker->identity->port_base,
		.extended = member->extended,
		.valid = 1,
	};
	return true;
}

static void
emit_to(struct ppe_worker *worker, struct emission *e, struct job_shard *js, uint8_t source)
{
	const struct pktbuf_endpoint *to = &js->endpoint[source];
	struct weir_header header = e->header;
	struct pktbuf_endpoint group;

	header.src_id = source;
	header.extended = e->join || to->extended;
	if (e->join) {
		struct pktbuf_endpoint joiner = *to;

		joiner.extended = true;
		header.block_id = js->home->nonce[source];
		send_small(worker, &joiner, &header, e->small, e->small_bytes);
	} else if (e->multicast) {
		header.src_id = 0;
		if (!multicast_of(worker, e, to, &group))
			return;
		send_one(worker, e, &group, &header);
	} else {
		send_one(worker, e, to, &header);
	}
	js->count.results++;
}

struct ppe_next
emit(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct emission *e = &lmem(thread)->emission;
	struct job_shard *js = state->job[e->job];

	for (unsigned int sent = 0; e->next < e->end && sent < EMIT_STEP; e->next++) {
		if (!js->endpoint[e->next].valid)
			continue;
		emit_to(worker, e, js, (uint8_t)e->next);
		sent++;
	}
	if (e->next < e->end)
		return PPE_RUN(emit);
	if (e->buffer != NULL)
		rmw_unhold(e->buffer, 1);
	return (struct ppe_next){e->then};
}
