/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission, on the owner of the shard, before the lookup of the block. admit makes all checks in the cheapest order.
 * examine repeats a failed check after the checksums, in the order in which failures are reported.
 */
#include <rte_cycles.h>
#include <rte_ether.h>

#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/guard_fast.h"

/*
 * Unknown senders: the job was deleted, the membership expired, or the switch was restarted without the job. A refusal
 * ends the host's repetitions before its timeout. The sender's address may be forged, so a refusal is a header, never
 * longer than the packet, and a port gets a limited number per second. Unknown senders to an authenticated job get
 * none, because they may lack its keys.
 */

struct ppe_next
end_dropped(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason)
{
	ppe_drop(worker, thread, reason);
	return PPE_END;
}

struct ppe_next
refuse(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason,
	enum weir_status status)
{
	reply_status(worker, thread, &lmem(thread)->c.header, status, NULL, 0);
	return end_dropped(worker, thread, reason);
}

static enum ppe_drop
reason_of(const struct ppe_job *j, uint8_t source)
{
	if (j == NULL)
		return PPE_DROP_UNKNOWN_JOB;
	return ppe_job_has(j, source) ? PPE_DROP_ADDRESS : PPE_DROP_UNKNOWN_SOURCE;
}

struct ppe_next
refuse_unknown_sender(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	const struct weir_header *h = &lmem(thread)->c.header;

	if (!guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	if ((j == NULL || !j->authenticated) && !from_group(thread) &&
		guard_conforms(worker, thread->port, GUARD_REFUSALS)) {
		if (!checksums_hold(worker, thread))
			return PPE_END;
		reply_status(worker, thread, h, WEIR_STATUS_REFUSED, NULL, 0);
	}
	return end_dropped(worker, thread, reason_of(j, h->src_id));
}

/* Does the packet come from its source's endpoint? That stays when it is not valid any more. */
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
	return known->udp == thread->head.udp_src && known->port == thread->port &&
		low[0] == low[1] && high[0] == high[1];
}

static inline bool
from_its_source(
	const struct job_shard *js, const struct ppe_thread *thread, const struct weir_header *h)
{
	return js->endpoint[h->src_id].valid && from_endpoint(js, thread, h);
}

/* A packet for a job with joins from elsewhere than its source's endpoint. Answers would reveal the job's state, so
 * there is none, but before the first generation: the switch may have been restarted. */
static struct ppe_next
stray(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j,
	const struct job_shard *js)
{
	if (js->generation != 0)
		return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers),
			unbound_at_home);
	if (j->authenticated)
		return end_dropped(worker, thread, PPE_DROP_NOT_JOINED);
	return refuse(worker, thread, PPE_DROP_NOT_JOINED, WEIR_STATUS_STALE);
}

/* A job without joins learns the endpoint from the packet. false: refused. */
static __rte_noinline bool
moved(struct ppe_worker *worker, struct job_shard *js, const struct ppe_thread *thread,
	const struct weir_header *h)
{
	struct pktbuf_endpoint seen;

	if (js->pinned)
		return false;
	endpoint_of(thread, h->extended, &seen);
	source_set_endpoint(worker, js, h->src_id, &seen);
	note_heard(worker, js, h->src_id);
	return true;
}

/* Do the lengths agree with each other, with the source's part in the collective, and with the job? */
static inline bool
lengths_fit(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct contribution *c)
{
	const struct weir_header *h = &c->header;
	uint32_t size = state->dtype_bytes[h->dtype];

	if (unlikely(collective_table[h->collective].contribution != CONTRIBUTION_REDUCE))
		return part_fits(js, j, c, size);
	return c->bytes == h->grad_cnt * size && h->grad_cnt <= j->elements &&
		c->bytes <= ppe_job_payload_bytes(j);
}

/* Is this collective, type, operation and root served here? */
static inline bool
served(const struct collective *state, const struct job_shard *js, const struct weir_header *h)
{
	const struct collective_row *row = &collective_table[h->collective];

	if (unlikely(!row->served || (h->root != 0 && !(row->rooted && h->root < js->nb_ranks))))
		return false;
	if (h->grad_cnt == 0)
		return true;
	if (likely(row->contribution == CONTRIBUTION_REDUCE))
		return state->reduction[h->dtype][h->op] != NULL;
	return h->op == 0 && state->dtype_bytes[h->dtype] != 0;
}

/* The same of any job. Averages are divided once, at the root, so they can't be rounded on the way. */
static bool
served_here(const struct collective *state, const struct job_shard *js, const struct weir_header *h)
{
	const bool narrow = (js->children || js->parents != NULL) && js->narrow;

	return served(state, js, h) && !(narrow && h->op == WEIR_OP_AVG && h->grad_cnt > 0);
}

static __rte_noinline struct ppe_next
police(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.policed++;
	return end_dropped(worker, thread, PPE_DROP_POLICED);
}

static inline bool
conforms(const struct ppe_worker *worker, struct job_shard *js, const struct ppe_thread *thread)
{
	return likely(js->rate_mbit == 0) ||
		(!in_debt(worker, js) &&
			rmw_police(&js->policer, worker->now, thread->packet->pkt_len));
}

struct ppe_next
examine(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	bool from;

	if (!checksums_hold(worker, thread))
		return PPE_END;
	c->verified = true;
	if (j == NULL || js == NULL || js->serial != c->serial)
		return end_dropped(worker, thread, PPE_DROP_UNKNOWN_JOB);
	if (js->crc_bytes != 0 && !crc_holds(worker, thread, js))
		return PPE_END;
	c->bytes -= js->crc_bytes; /* below 0 it fits nothing */
	if (from_group(thread))
		return end_dropped(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
	/* A source without an endpoint has zeros there, which a frame may have, too. */
	from = js->endpoint[h->src_id].ip == thread->head.ip_src && from_endpoint(js, thread, h);
	if (!from && !guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	if (!from && j->fixed_generation == 0)
		return stray(worker, thread, j, js);
	if (js->keys != NULL && !authentic(worker, thread, js, NULL))
		return PPE_END;
	if (from)
		note_heard(worker, js, h->src_id);
	if (h->gen_id != js->generation || js->revoked) {
		js->count.stale++;
		return refuse(worker, thread, PPE_DROP_STALE, WEIR_STATUS_STALE);
	}
	if (unlikely(mask_test(js->expelled, h->src_id))) {
		js->count.expired++;
		return refuse(worker, thread, PPE_DROP_EXPIRED, WEIR_STATUS_EXPIRED);
	}
	if (!from && !moved(worker, js, thread, h))
		return end_dropped(worker, thread, PPE_DROP_ADDRESS);
	if (!weir_is_control(h->collective) && !served_here(state, js, h))
		return refuse(worker, thread, PPE_DROP_UNSUPPORTED, WEIR_STATUS_UNSUPPORTED);
	if (!(js->children ? child_take_end(state, js, j, thread) : lengths_fit(state, js, j, c)))
		return end_dropped(worker, thread, PPE_DROP_LENGTH);
	if (!conforms(worker, js, thread))
		return police(worker, thread, js);
	if (h->collective == WEIR_COLLECTIVE_ACKNOWLEDGE)
		return acknowledged(worker, thread, js);
	if (h->collective == WEIR_COLLECTIVE_PROBE) {
		c->place = PROBE_STEPS;
		return probed(worker, thread);
	}
	if (unlikely(h->status != WEIR_STATUS_OK))
		return take_degraded(worker, thread, js);
	start_bucket(state, js, c);
	return PPE_RUN(find_block);
}

/* May the contribution go on to its block, if its tag or CRC turns out to be right? Its length includes that; if it may, no
 * CRC any more. */
static bool
admits_more(const struct collective *state, const struct job_shard *js, const struct ppe_job *j,
	const struct ppe_thread *thread, struct contribution *c)
{
	const struct weir_header *h = &c->header;
	const uint32_t tag = js->keys != NULL ? WEIR_TAG_BYTES : 0;
	bool fits;

	/* The rate counts only what is authentic: examine() does. */
	if (h->gen_id != js->generation || js->generation == 0 || js->rate_mbit != 0 ||
		h->status != WEIR_STATUS_OK || !from_its_source(js, thread, h) ||
		!served_here(state, js, h))
		return false;
	if (tag > 0 &&
		(!h->extended || (h->flags & WEIR_FLAG_AUTHENTICATED) == 0 || c->bytes < tag))
		return false;
	if (c->bytes < js->crc_bytes)
		return false;
	c->bytes -= tag + js->crc_bytes;
	fits = js->children ? child_fits(state, js, j, c) : lengths_fit(state, js, j, c);
	c->bytes += fits ? tag : tag + js->crc_bytes;
	return fits;
}

/* A contribution to a job with tags or CRCs, which are verified when its payload is read, or to a job of a tree. */
static __rte_noinline struct ppe_next
admit_more(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;

	if (is_from_child(&c->header) != js->children)
		return end_dropped(worker, thread, PPE_DROP_NOT_A_CONTRIBUTION);
	if (!admits_more(state, js, j, thread, c)) {
		start_payload(thread, c, 0, 16);
		return PPE_RUN(examine);
	}
	if (c->learned)
		flow_cache_admit(js, c);
	if (js->keys != NULL)
		return await_verification(state, js, thread);
	note_heard(worker, js, c->header.src_id);
	start_bucket(state, js, c);
	return PPE_RUN(find_block);
}

struct ppe_next
admit(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	const struct weir_header *h = &c->header;
	struct job_shard *js = state->job[h->job_id];
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];

	if (unlikely(j == NULL || js == NULL || js->serial != c->serial || js->generation == 0 ||
		    js->more_checks || h->gen_id != js->generation ||
		    !from_its_source(js, thread, h) || !served(state, js, h) ||
		    !lengths_fit(state, js, j, c)))
		return j != NULL && js != NULL && js->more_checks && js->serial == c->serial
			? admit_more(worker, thread, js, j)
			: examine(worker, thread);
	note_heard(worker, js, h->src_id);
	if (unlikely(!conforms(worker, js, thread)))
		return police(worker, thread, js);
	if (unlikely(c->learned) && js->rate_mbit == 0)
		flow_cache_admit(js, c);
	start_bucket(state, js, c);
	return PPE_RUN(find_block);
}
