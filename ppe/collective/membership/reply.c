/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a packet that is not consumed: it is refused or replied to.
 *
 * Unknown senders: the job was deleted, the membership expired, or the switch was restarted without
 * the job. A refusal ends the host's repetitions before its timeout. The sender's address may be
 * forged, so a refusal is a header, never longer than the packet, and a port gets a limited number
 * per second. An authenticated job refuses no unknown senders: they may lack its keys.
 */
#include "pktbuf/cursor.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/membership/membership.h"
#include "ppe/guard_fast.h"

static enum ppe_drop
reason_of(const struct ppe_job *j, uint8_t source)
{
	if (j == NULL)
		return PPE_DROP_UNKNOWN_JOB;
	return ppe_job_has(j, source) ? PPE_DROP_ADDRESS : PPE_DROP_UNKNOWN_SOURCE;
}

void
reply_send_packet(struct ppe_worker *worker, struct job_shard *js, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes)
{
	struct rte_mbuf *packet = pktbuf_reply_build(
		worker->pools, worker->port, worker->identity, to, header, payload, bytes);

	worker->count.created++;
	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	if (js != NULL)
		charge(worker, js, 1, packet->pkt_len);
	ppe_output(worker, packet, to->port, PKTBUF_PRIO_RESULT);
}

static bool
has_tag(const struct job_shard *js, const struct weir_header *asked)
{
	return js != NULL &&
		(js->keys != NULL ||
			(js->own != NULL && asked->collective == WEIR_COLLECTIVE_JOIN));
}

struct reply_peer
reply_peer_of(const struct ppe_thread *thread, const struct job_shard *js,
	const struct weir_header *asked)
{
	const struct contribution *c = &lmem((struct ppe_thread *)(uintptr_t)thread)->c;
	const struct pktbuf_head *head = &thread->head;
	uint32_t end = head->payload + (uint32_t)head->payload_length;
	uint32_t offset = asked->collective == WEIR_COLLECTIVE_JOIN
		? c->payload + WEIR_CHALLENGE_BYTES
		: end - WEIR_TAG_BYTES;
	struct reply_peer peer = {.header = *asked};
	struct pktbuf_cursor cursor;

	source_endpoint_of(thread, asked->extended, &peer.at);
	if (!has_tag(js, asked))
		return peer;
	peer.epoch = c->epoch;
	pktbuf_cursor_init(&cursor, thread->packet, offset, sizeof(peer.answered));
	pktbuf_cursor_copy(&cursor, peer.answered, sizeof(peer.answered));
	return peer;
}

/* Why the running generation is over, or there is none. */
static uint8_t
why_over(const struct job_shard *js)
{
	if (js == NULL || (js->hop.generation != 0 && !js->is_revoked))
		return WEIR_OVER_UNSAID;
	return js->hop.generation == 0 ? WEIR_OVER_NONE : js->over;
}

void
reply_send(struct ppe_worker *worker, struct collective *state, const struct reply_peer *peer,
	enum weir_status status, const void *payload, uint8_t bytes)
{
	const struct weir_header *asked = &peer->header;
	struct job_shard *js = state->job[asked->job_id];
	struct weir_header header = *asked;
	/* Replies to unknown senders are not charged to the job. */
	struct job_shard *payer = status == WEIR_STATUS_REFUSED ? NULL : js;
	uint8_t tagged[64];

	if (!guard_conforms(worker, peer->at.port, GUARD_REPLIES))
		return;
	if (payer != NULL && asked->collective != WEIR_COLLECTIVE_JOIN && in_debt(worker, payer)) {
		payer->count.policed++;
		return;
	}
	header.gen_id = WEIR_GEN_JOIN;
	if (js != NULL) {
		/* The sender of a refused packet must not learn the generation. */
		if (!js->is_revoked && status != WEIR_STATUS_REFUSED)
			header.gen_id = js->hop.generation;
		js->count.results++;
	}
	header.status = (uint8_t)status;
	header.grad_cnt = 0;
	header.flags = 0;
	if (status == WEIR_STATUS_STALE)
		header.src_cnt = why_over(js);
	else if (asked->collective != WEIR_COLLECTIVE_JOIN)
		header.src_cnt = 0;
	header.degraded = status == WEIR_STATUS_WAITING;
	if (bytes > 0)
		memcpy(tagged, payload, bytes);
	if (status != WEIR_STATUS_REFUSED && has_tag(js, asked)) {
		header.flags = WEIR_FLAG_AUTHENTICATED;
		bytes += keys_tag_reply(
			state, js, &header, peer->epoch, peer->answered, tagged, bytes);
	} else if (status != WEIR_STATUS_REFUSED && js != NULL && js->crc_bytes != 0 &&
		asked->collective != WEIR_COLLECTIVE_JOIN) {
		header.flags = js->hop.flags;
		bytes += hop_crc_reply(&header, tagged, bytes);
	}
	reply_send_packet(worker, payer, &peer->at, &header, tagged, bytes);
}

void
reply_status(struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *asked, enum weir_status status, const void *payload,
	uint8_t bytes)
{
	struct collective *state = ppe_state(worker, thread);
	const struct reply_peer peer = reply_peer_of(thread, state->job[asked->job_id], asked);

	reply_send(worker, state, &peer, status, payload, bytes);
}

struct ppe_next
reply_refuse(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason,
	enum weir_status status)
{
	reply_status(worker, thread, &lmem(thread)->c.header, status, NULL, 0);
	return ppe_drop(worker, thread, reason);
}

/* Is an unknown sender told that it is refused, within limits? */
static bool
is_told(const struct ppe_thread *thread, const struct ppe_job *j)
{
	return (j == NULL || !j->authenticated) && !from_group(thread);
}

enum ppe_drop
reply_unknown_reason(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct ppe_job *j, uint8_t source)
{
	enum ppe_drop reason = guard_verdict(worker, thread, GUARD_NO_JOB);

	if (reason == PPE_DROP_COUNT && is_told(thread, j))
		reason = checksums_damage(worker, thread);
	return reason == PPE_DROP_COUNT ? reason_of(j, source) : reason;
}

struct ppe_next
reply_refuse_unknown(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	const struct weir_header *h = &lmem(thread)->c.header;

	if (!guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	if (is_told(thread, j) && guard_conforms(worker, thread->port, GUARD_REFUSALS)) {
		if (!checksums_hold(worker, thread))
			return PPE_END;
		reply_status(worker, thread, h, WEIR_STATUS_REFUSED, NULL, 0);
	}
	return ppe_drop(worker, thread, reason_of(j, h->src_id));
}
