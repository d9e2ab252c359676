/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission: is a contribution allowed? It runs on the owner of the block's shard, before the
 * lookup of the block. admission() is the only list of reasons against a contribution.
 *
 *   flow_cache.c   admits a contribution that looks like its source's last contribution, if that
 *                  was admitted and the job_shard.version has not changed since
 *   block_admit    asks admission() about all other contributions
 *   block_examine  takes what block_admit does not: it verifies checksums and tag, asks again, and
 *                  replies or counts the reason; it also takes acknowledgements, probes and
 *                  degraded contributions
 */
#include <rte_ether.h>

#include "ppe/collective/block/block.h"
#include "ppe/collective/block/block_fast.h"
#include "ppe/guard_fast.h"

struct ppe_next
block_entry(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	struct weir_header *h = &lmem(thread)->c.header;
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	uint16_t shard;

	if (unlikely(!is_source(j, thread)))
		return reply_refuse_unknown(worker, thread, j);
	lmem(thread)->c.serial = state->job[h->job_id]->serial;
	shard = block_complete_header(worker, j, h);
	/* The flow cache entry belongs to this worker. */
	if (shard != worker->id)
		lmem(thread)->c.learned = false;
	return ppe_hop(worker, thread, shard, block_admit);
}

/* Why a contribution is not allowed, in the order in which reasons are reported. */
enum admission {
	ADMITTED,
	ADMISSION_ROLE, /* a host's packet for a job of switches, or the other way round */
	ADMISSION_UNBOUND, /* not from its source's endpoint */
	ADMISSION_STALE, /* of another generation, or the generation is over */
	ADMISSION_EXPELLED, /* the source is expelled */
	ADMISSION_UNSUPPORTED, /* collective, type, operation or root */
	ADMISSION_LENGTH, /* does not fit the header, the source's part, or the job */
};

/* What a reason does: the drop is counted, and the source is told (OK: it is not). */
static const struct {
	enum ppe_drop drop;
	enum weir_status status;
} refusals[] = {
	[ADMITTED] = {PPE_DROP_COUNT, WEIR_STATUS_OK},
	[ADMISSION_ROLE] = {PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_OK},
	[ADMISSION_UNBOUND] = {PPE_DROP_NOT_A_CONTRIBUTION, WEIR_STATUS_OK},
	[ADMISSION_STALE] = {PPE_DROP_STALE, WEIR_STATUS_STALE},
	[ADMISSION_EXPELLED] = {PPE_DROP_EXPIRED, WEIR_STATUS_EXPIRED},
	[ADMISSION_UNSUPPORTED] = {PPE_DROP_UNSUPPORTED, WEIR_STATUS_UNSUPPORTED},
	[ADMISSION_LENGTH] = {PPE_DROP_LENGTH, WEIR_STATUS_OK},
};

/* Does the packet come from its source's endpoint? The endpoint's address stays when it is not
 * valid any more. A source without an endpoint has zeros there. */
static inline bool
from_endpoint(
	const struct job_shard *js, const struct ppe_thread *thread, const struct weir_header *h)
{
	const struct pktbuf_endpoint *known = &js->endpoint[h->src_id];
	const uint8_t *mac = thread->head.bytes + RTE_ETHER_ADDR_LEN;
	uint32_t low[2];
	uint16_t high[2];

	memcpy(&low[0], known->mac, 4);
	memcpy(&high[0], known->mac + 4, 2);
	memcpy(&low[1], mac, 4);
	memcpy(&high[1], mac + 4, 2);
	return known->ip == thread->head.ip_src && known->udp == thread->head.udp_src &&
		known->port == thread->port && low[0] == low[1] && high[0] == high[1];
}

/* Is this collective, type, operation and root served here? Averages are divided once, at the root,
 * so types that travel narrow have no averages. */
static inline bool
served(const struct collective *state, const struct job_shard *js, const struct weir_header *h)
{
	const struct collective_row *row = &collective_table[h->collective];

	if (unlikely(!row->served || (h->root != 0 && !(row->rooted && h->root < js->nb_ranks))))
		return false;
	if (h->grad_cnt == 0)
		return true;
	if (likely(row->contribution == CONTRIBUTION_REDUCE))
		return state->reduction[h->dtype][h->op] != NULL &&
			!(unlikely(js->no_average) && h->op == WEIR_OP_AVG);
	return h->op == 0 && state->dtype_bytes[h->dtype] != 0;
}

/* Do the lengths agree with each other, with the source's part in the collective, and with the
 * job? */
static inline bool
fits(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct contribution *c, uint32_t bytes)
{
	const struct weir_header *h = &c->header;
	uint32_t size = state->dtype_bytes[h->dtype];

	if (unlikely(js->children))
		return js->tree->fits(state, js, j, c, bytes);
	if (unlikely(collective_table[h->collective].contribution != CONTRIBUTION_REDUCE))
		return block_part_fits(js, j, h, bytes, size);
	return bytes == h->grad_cnt * size && h->grad_cnt <= j->elements &&
		bytes <= ppe_job_payload_bytes(j);
}

/* end: bytes of a tag or CRC that c->bytes still includes. A payload shorter than that fits
 * nothing. known: the source's endpoint is not learned from this packet. */
static __rte_always_inline enum admission
admission(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct ppe_thread *thread, uint32_t end, const bool known)
{
	const struct contribution *c = &lmem((struct ppe_thread *)(uintptr_t)thread)->c;
	const struct weir_header *h = &c->header;

	if (unlikely(is_from_child(h) != js->children))
		return ADMISSION_ROLE;
	if (known && unlikely(!from_endpoint(js, thread, h)))
		return ADMISSION_UNBOUND;
	if (unlikely(h->gen_id != js->hop.generation || js->is_revoked))
		return ADMISSION_STALE;
	if (known && unlikely(!js->endpoint[h->src_id].valid))
		return ADMISSION_EXPELLED;
	if (unlikely(!weir_is_control(h->collective) && !served(state, js, h)))
		return ADMISSION_UNSUPPORTED;
	return likely(fits(state, js, j, c, c->bytes - end)) ? ADMITTED : ADMISSION_LENGTH;
}

/* End a packet of a job with joins that is not from its source's endpoint. A reply would reveal the
 * job's state, so none is sent, except before the first generation: the switch may have
 * restarted. */
static struct ppe_next
unbound_packet(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j,
	const struct job_shard *js)
{
	if (js->hop.generation != 0)
		return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers),
			join_unbound_at_home);
	if (j->authenticated)
		return ppe_drop(worker, thread, PPE_DROP_NOT_JOINED);
	return reply_refuse(worker, thread, PPE_DROP_NOT_JOINED, WEIR_STATUS_STALE);
}

__rte_noinline struct ppe_next
block_police(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.policed++;
	return ppe_drop(worker, thread, PPE_DROP_POLICED);
}

static inline bool
conforms(const struct ppe_worker *worker, struct job_shard *js, const struct ppe_thread *thread)
{
	return likely(js->rate_mbit == 0) ||
		(!in_debt(worker, js) &&
			rmw_police(&js->policer, worker->now, thread->packet->pkt_len));
}

/* A job without joins learns its sources' endpoints from their packets. */
static __rte_noinline void
endpoint_update(struct ppe_worker *worker, struct job_shard *js, const struct ppe_thread *thread,
	const struct weir_header *h)
{
	struct pktbuf_endpoint seen;

	source_endpoint_of(thread, h->extended, &seen);
	source_set_endpoint(worker, js, h->src_id, &seen);
}

/* Count a reason, and tell the source if it can act on it. */
static struct ppe_next
not_admitted(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	enum admission reason)
{
	js->count.stale += reason == ADMISSION_STALE;
	js->count.expired += reason == ADMISSION_EXPELLED;
	if (refusals[reason].status == WEIR_STATUS_OK)
		return ppe_drop(worker, thread, refusals[reason].drop);
	return reply_refuse(worker, thread, refusals[reason].drop, refusals[reason].status);
}

static enum ppe_drop
unbound_refusal(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct ppe_thread *thread, const struct weir_header *h)
{
	enum ppe_drop reason = guard_verdict(state->worker, thread, GUARD_NO_JOB);

	if (reason != PPE_DROP_COUNT)
		return reason;
	if (j->fixed_generation == 0)
		return js->hop.generation != 0 ? PPE_DROP_ADDRESS : PPE_DROP_NOT_JOINED;
	return h->gen_id != js->hop.generation ? PPE_DROP_STALE : PPE_DROP_COUNT;
}

enum ppe_drop
block_refusal(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct ppe_thread *thread)
{
	const struct contribution *c = &lmem((struct ppe_thread *)(uintptr_t)thread)->c;
	const struct weir_header *h = &c->header;
	const uint32_t end = js->keys != NULL ? WEIR_TAG_BYTES : js->crc_bytes;
	const bool is_bound = from_endpoint(js, thread, h);
	enum ppe_drop reason;

	if (is_from_child(h) != js->children)
		return refusals[ADMISSION_ROLE].drop;
	reason = block_damage(state->worker, thread, js);
	if (reason != PPE_DROP_COUNT)
		return reason;
	if (from_group(thread))
		return PPE_DROP_BAD_SOURCE_MAC;
	if (!is_bound)
		reason = unbound_refusal(state, js, j, thread, h);
	if (reason == PPE_DROP_COUNT && js->keys != NULL)
		reason = keys_refusal(js, c);
	if (reason != PPE_DROP_COUNT)
		return reason;
	return refusals[admission(state, js, j, thread, end, is_bound)].drop;
}

struct ppe_next
block_examine(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	enum admission reason;
	bool is_bound;

	if (!checksums_hold(worker, thread))
		return PPE_END;
	c->verified = true;
	if (j == NULL || js == NULL || js->serial != c->serial)
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
	if (js->crc_bytes != 0 && !hop_crc_holds(worker, thread, js))
		return PPE_END;
	c->bytes -= js->crc_bytes;
	if (from_group(thread))
		return ppe_drop(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
	is_bound = from_endpoint(js, thread, h);
	if (!is_bound && !guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	if (!is_bound && j->fixed_generation == 0)
		return unbound_packet(worker, thread, j, js);
	if (js->keys != NULL && !keys_authentic(worker, thread, js, NULL))
		return PPE_END;
	if (!is_bound && h->gen_id != js->hop.generation)
		return not_admitted(worker, thread, js, ADMISSION_STALE);
	if (!is_bound)
		endpoint_update(worker, js, thread, h);
	note_heard(worker, js, h->src_id);
	reason = admission(state, js, j, thread, 0, true);
	if (reason != ADMITTED)
		return not_admitted(worker, thread, js, reason);
	if (!conforms(worker, js, thread))
		return block_police(worker, thread, js);
	if (h->collective == WEIR_COLLECTIVE_ACKNOWLEDGE)
		return block_acknowledged(worker, thread, js);
	if (h->collective == WEIR_COLLECTIVE_PROBE) {
		c->place = PROBE_STEPS;
		return block_probed(worker, thread);
	}
	if (unlikely(h->status != WEIR_STATUS_OK))
		return js->tree->degraded(worker, thread, js);
	block_start_bucket(state, js, c);
	return PPE_RUN(block_find);
}

struct ppe_next
block_admit(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	enum admission reason;
	uint32_t end;

	if (unlikely(j == NULL || js == NULL || js->serial != c->serial))
		return block_examine(worker, thread);
	end = js->crc_bytes;
	if (unlikely((js->hop.flags & WEIR_FLAG_AUTHENTICATED) != 0))
		end = WEIR_TAG_BYTES;
	reason = admission(state, js, j, thread, end, true);
	if (unlikely(reason == ADMISSION_ROLE))
		return not_admitted(worker, thread, js, reason);
	/* In a job with tags or CRCs, the rate counts only packets whose tag or CRC is right. */
	if (unlikely(reason != ADMITTED || weir_is_control(h->collective) ||
		    h->status != WEIR_STATUS_OK || (end > 0 && js->rate_mbit != 0))) {
		if (end == 0 && !js->children)
			return block_examine(worker, thread);
		block_start_payload(thread, c, 0, 16);
		return PPE_RUN(block_examine);
	}
	if (unlikely(c->learned) && js->rate_mbit == 0)
		flow_cache_admit(js, c);
	if (unlikely(js->keys != NULL))
		return block_await_verification(state, js, thread);
	c->bytes -= js->crc_bytes;
	note_heard(worker, js, h->src_id);
	if (unlikely(!conforms(worker, js, thread)))
		return block_police(worker, thread, js);
	block_start_bucket(state, js, c);
	return PPE_RUN(block_find);
}
