/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins: how a generation begins. docs/protocol.md, "Joining".
 *
 * The job's home shard (that of residue 0) collects one join from each source. The thread of the last join announces
 * the generation: it visits all shards, gives each the new generation and the endpoints, and returns to the home shard
 * to answer all sources. Meanwhile the shards read the collection, and no thread writes it. If a member leaves during
 * the announcement, no source is answered.
 *
 * The running generation continues until then. In a job that revokes, it ends when the first source joins again:
 * another announcement tells all shards, and they tell the sources.
 */
#include <rte_cycles.h>

#include "ppe/collective/collective.h"
#include "ppe/collective/collective_fast.h"
#include "ppe/guard_fast.h"

static struct ppe_next adopt(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next joined(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next revoke(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next revoked(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next follow(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next followed(struct ppe_worker *worker, struct ppe_thread *thread);

static struct weir_join_reply
join_reply(const struct ppe_job *j)
{
	struct weir_join_reply reply = {
		.dtype_op = (uint8_t)(j->dtype << 4 | j->op),
		.flags = j->group != 0 ? WEIR_JOIN_MULTICAST : 0,
	};

	weir_put16(reply.window, j->window);
	weir_put16(reply.elements, j->elements);
	weir_put16(reply.sources, j->nb_sources);
	weir_put32(reply.timeout_ms, j->timeout_ms);
	weir_put32(reply.group, j->group);
	return reply;
}

/* Packets per step, so that other threads run in between. */
#define ANSWER_STEP 8

static void
send_accepted(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct pktbuf_endpoint *to)
{
	struct answers *a = &lmem(thread)->answers;
	uint8_t payload[sizeof(a->reply) + WEIR_CHALLENGE_BYTES + WEIR_TAG_BYTES];
	uint8_t bytes = sizeof(a->reply);

	memcpy(payload, &a->reply, bytes);
	if (js->keys != NULL) {
		memcpy(payload + bytes, a->challenge, WEIR_CHALLENGE_BYTES);
		bytes += WEIR_CHALLENGE_BYTES;
		bytes += tag_reply(ppe_state(worker, thread), js, &a->header,
			js->home->proof[a->header.src_id], payload, bytes);
	}
	send_small(worker, js, to, &a->header, payload, bytes);
}

/* Answer the sources, each under its own nonce. */
static struct ppe_next
answer(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct answers *a = &lmem(thread)->answers;
	struct job_shard *js = state->job[a->header.job_id];

	if (unlikely(js == NULL || js->generation != a->header.gen_id))
		return PPE_END;
	for (unsigned int sent = 0; a->next < a->end && sent < ANSWER_STEP; a->next++) {
		struct pktbuf_endpoint to = js->endpoint[a->next];

		if (!to.valid || !mask_test(js->home->in, (uint8_t)a->next))
			continue;
		to.extended = true;
		a->header.src_id = (uint8_t)a->next;
		a->header.block_id = js->home->nonce[a->next];
		a->header.root = js->rank[a->next];
		send_accepted(worker, thread, js, &to);
		js->count.results++;
		sent++;
	}
	return a->next < a->end ? PPE_RUN(answer) : PPE_END;
}

/* Answer joins with the running generation: one source's, or all (only < 0). */
static struct ppe_next
answer_joins(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, int only)
{
	const struct ppe_job *j = worker->jobs->by_id[js->job];
	struct answers *a = &lmem(thread)->answers;

	ppe_consume(worker, thread);
	if (j == NULL)
		return PPE_END;
	*a = (struct answers){
		.header = {.extended = true,
			.job_id = js->job,
			.gen_id = js->generation,
			.src_cnt = (uint8_t)js->nb_sources,
			.flags = js->keys != NULL ? WEIR_FLAG_AUTHENTICATED : 0,
			.collective = WEIR_COLLECTIVE_JOIN},
		.reply = join_reply(j),
		.next = only < 0 ? 0 : (uint16_t)only,
		.end = only < 0 ? js->source_end : (uint16_t)(only + 1),
	};
	if (js->keys != NULL)
		memcpy(a->challenge, js->keys->challenge, sizeof(a->challenge));
	return PPE_RUN(answer);
}

/* Note since when a source asks for the next generation, and whether two processes do (their nonces alternate). */
static void
note_asking(struct job_home *home, uint8_t source, uint32_t nonce, uint32_t now)
{
	struct join_request *asked = &home->request[source];

	if (!mask_test(home->pending, source)) {
		asked->since = now;
		asked->former_nonce = 0;
	} else if (home->pending_nonce[source] != nonce) {
		if (asked->former_nonce == nonce)
			asked->contested = now;
		asked->former_nonce = home->pending_nonce[source];
	}
	asked->last = now;
	mask_clear(home->present, source);
}

/* Forget joins that are no longer repeated, so that no generation begins with them. */
static void
forget_old(struct job_home *home, uint32_t now)
{
	uint64_t hz = rte_get_tsc_hz();

	for (unsigned int i = 0; i < MASK_WORDS; i++)
		for (uint64_t left = home->pending[i]; left != 0; left &= left - 1) {
			uint8_t source = (uint8_t)(64 * i + (unsigned int)__builtin_ctzll(left));

			if (!join_has_expired(home, source, now, hz))
				continue;
			mask_clear(home->pending, source);
			home->pending_count--;
		}
}

/* Keep the join in place of the source's former one. A tag does not cover the endpoint: a repeat with the same
 * proof, which any host can send, changes nothing. */
static void
collect(struct job_home *home, const struct ppe_thread *thread, const struct weir_header *h,
	const struct weir_join_proof *proof, uint32_t now)
{
	bool base = (h->flags & WEIR_FLAG_BASE_RESULTS) != 0;

	note_asking(home, h->src_id, h->block_id, now);
	if (proof != NULL) {
		if (mask_test(home->pending, h->src_id) &&
			pktbuf_tag_equal(home->pending_proof[h->src_id], proof->nonce))
			return;
		memcpy(home->pending_proof[h->src_id], proof->nonce, sizeof(proof->nonce));
	}
	if (!mask_test(home->pending, h->src_id)) {
		mask_set(home->pending, h->src_id);
		home->pending_count++;
	}
	home->pending_nonce[h->src_id] = h->block_id;
	endpoint_of(thread, !base, &home->pending_endpoint[h->src_id]);
}

static uint16_t
generation_after(const struct job_shard *js)
{
	uint16_t begun = js->home->begun;
	uint16_t next = begun == 0 ? js->first_generation : (uint16_t)(begun + 1);

	return next == WEIR_GEN_JOIN ? 1 : next;
}

/* Tell a joining source the present sources and, for an authenticated job, the challenge to quote. */
static void
reply_waiting(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js)
{
	struct weir_header h = lmem(thread)->c.header;
	uint8_t payload[WEIR_BITMAP_BYTES + WEIR_CHALLENGE_BYTES];
	uint8_t bytes = WEIR_BITMAP_BYTES;

	memcpy(payload, js->home->pending, WEIR_BITMAP_BYTES);
	if (js->keys != NULL) {
		memcpy(payload + bytes, js->home->challenge, WEIR_CHALLENGE_BYTES);
		bytes += WEIR_CHALLENGE_BYTES;
	}
	h.src_cnt = (uint8_t)js->nb_sources;
	reply_status(worker, thread, &h, WEIR_STATUS_WAITING, payload, bytes);
}

static struct ppe_next
wait_for_others(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	bool ends_generation)
{
	struct announcement *announcement = &lmem(thread)->announcement;

	reply_waiting(worker, thread, js);
	if (likely(!ends_generation)) {
		ppe_consume(worker, thread);
		return PPE_END;
	}
	js->count.revokes++;
	js->home->announcing = true;
	*announcement = (struct announcement){.home = js->home,
		.serial = js->serial,
		.home_worker = worker->id,
		.generation = js->generation,
		.job = js->job};
	return ppe_hop_certain(worker, thread, 0, revoke);
}

static bool
ends_generation(const struct ppe_job *j, const struct job_shard *js)
{
	return j->revoke && js->generation != 0 && !js->revoked;
}

/* Is it a late copy of the join for the former generation, or for a revoked one after which the source has joined
 * again? Without a challenge, the copy looks like a new join. */
static bool
is_late_copy(const struct job_shard *js, const struct weir_header *h,
	const struct weir_join_proof *proof)
{
	const struct job_home *home = js->home;
	uint8_t s = h->src_id;

	if (proof != NULL || h->block_id == 0)
		return false;
	return home->former[s] == h->block_id ||
		(home->nonce[s] == h->block_id && mask_test(home->pending, s) &&
			home->pending_nonce[s] != h->block_id);
}

/* The verified proof of an authenticated job's join; NULL: the job has none. */
static const struct weir_join_proof *
proof_of(const struct job_shard *js, struct ppe_thread *thread, struct weir_join_proof *room)
{
	if (js->keys == NULL)
		return NULL;
	return rte_pktmbuf_read(thread->packet, lmem(thread)->c.payload, sizeof(*room), room);
}

/* Is it the source's join for the running generation? A source that repeats its join for a revoked generation
 * joins the next one. During an announcement home->in is empty, because the answer would belong to the next
 * generation. */
static bool
accepted(const struct job_shard *js, const struct weir_header *h,
	const struct weir_join_proof *proof)
{
	return !js->revoked && mask_test(js->home->in, h->src_id) &&
		js->home->nonce[h->src_id] == h->block_id &&
		(h->gen_id == WEIR_GEN_JOIN || h->gen_id == js->generation) &&
		(proof == NULL || pktbuf_tag_equal(js->home->proof[h->src_id], proof->nonce));
}

/*
 * An accepted join is repeated from elsewhere: the source's MAC address or port has changed (bonding), or the accepted
 * join had a damaged source MAC address, which no checksum covers. The last join counts, but not in an authenticated
 * job, whose tags do not cover the Ethernet header: any host could move a source with a copy of its join.
 */
static bool
has_moved(const struct job_shard *js, const struct ppe_thread *thread, const struct weir_header *h,
	struct pktbuf_endpoint *seen)
{
	const struct pktbuf_endpoint *known = &js->endpoint[h->src_id];

	endpoint_of(thread, (h->flags & WEIR_FLAG_BASE_RESULTS) == 0, seen);
	return js->keys == NULL && known->valid &&
		(memcmp(known->mac, seen->mac, sizeof(seen->mac)) != 0 ||
			known->port != seen->port || known->udp != seen->udp);
}

/* There is at most one announcement per job: ppe/crossbar.h. The source repeats its join. */
static struct ppe_next
hold_back(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	js->count.held_back++;
	ppe_drop(worker, thread, PPE_DROP_HELD_BACK);
	return PPE_END;
}

struct ppe_next
join(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct weir_header h = lmem(thread)->c.header;
	struct job_shard *js = state->job[h.job_id];
	struct job_home *home = js == NULL ? NULL : js->home;
	struct announcement *announcement = &lmem(thread)->announcement;
	const struct ppe_job *j = worker->jobs->by_id[h.job_id];
	uint32_t now = heard_now(worker->now);
	struct weir_join_proof room;
	const struct weir_join_proof *proof;
	struct pktbuf_endpoint seen;
	bool fresh;

	if (unlikely(js == NULL || js->serial != lmem(thread)->c.serial ||
		    !ppe_job_has(j, h.src_id) || j->address[h.src_id] != thread->head.ip_src)) {
		ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
		return PPE_END;
	}
	if (lmem(thread)->c.bytes != 0 || h.grad_cnt != 0) {
		ppe_drop(worker, thread, PPE_DROP_LENGTH);
		return PPE_END;
	}
	if (home == NULL) {
		reply_status(worker, thread, &h, WEIR_STATUS_UNSUPPORTED, NULL, 0);
		ppe_drop(worker, thread, PPE_DROP_UNSUPPORTED);
		return PPE_END;
	}
	proof = proof_of(js, thread, &room);
	if (proof != NULL && (h.flags & WEIR_FLAG_BASE_RESULTS) != 0) {
		/* The base form has no tags. */
		reply_status(worker, thread, &h, WEIR_STATUS_UNSUPPORTED, NULL, 0);
		ppe_drop(worker, thread, PPE_DROP_UNSUPPORTED);
		return PPE_END;
	}
	js->count.joins++;
	/* Without the current challenge it may be a replay: only answer it. */
	fresh = proof == NULL || pktbuf_tag_equal(proof->challenge, home->challenge);
	if (accepted(js, &h, proof)) {
		if (fresh)
			home->request[h.src_id].accepted = now;
		if (unlikely(has_moved(js, thread, &h, &seen))) {
			if (home->announcing)
				return hold_back(worker, thread, js);
			home->announcing = true;
			*announcement = (struct announcement){.home = home,
				.endpoint = seen,
				.serial = js->serial,
				.home_worker = worker->id,
				.generation = js->generation,
				.job = js->job,
				.source = h.src_id};
			return ppe_hop_certain(worker, thread, 0, follow);
		}
		return answer_joins(worker, thread, js, h.src_id);
	}
	if (unlikely(h.gen_id != WEIR_GEN_JOIN)) {
		/* A repeat for a generation that does not run here. */
		ppe_drop(worker, thread, PPE_DROP_STALE);
		return PPE_END;
	}
	if (home->announcing)
		return hold_back(worker, thread, js);
	if (unlikely(is_late_copy(js, &h, proof))) {
		ppe_drop(worker, thread, PPE_DROP_STALE);
		return PPE_END;
	}
	/* Without a proof, only the process that has joined may move to another port. */
	if (proof == NULL &&
		!(mask_test(home->pending, h.src_id) &&
			home->pending_nonce[h.src_id] == h.block_id) &&
		!guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	forget_old(home, now);
	if (fresh)
		collect(home, thread, &h, proof, now);
	if (home->pending_count < js->nb_sources)
		return wait_for_others(worker, thread, js, fresh && ends_generation(j, js));
	home->announcing = true;
	home->begun = generation_after(js);
	memset(home->in, 0, sizeof(home->in)); /* the former generation is over */
	*announcement = (struct announcement){.home = home,
		.serial = js->serial,
		.home_worker = worker->id,
		.generation = home->begun,
		.job = js->job};
	return ppe_hop_certain(worker, thread, 0, adopt);
}

/* The announcement's job on this worker; NULL: it is gone, or not here yet. (Its home lives as long as any worker
 * has the job.) */
static struct job_shard *
announced_job(const struct collective *state, const struct announcement *announcement)
{
	struct job_shard *js = state->job[announcement->job];

	return js != NULL && js->serial == announcement->serial ? js : NULL;
}

/* On each worker in turn: begin the generation. */
static struct ppe_next
adopt(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(state, announcement);

	if (likely(js != NULL)) {
		/* The thread may visit a shard twice. */
		if (js->keys != NULL && js->generation != announcement->generation)
			job_keys_begin(
				state, js, announcement->generation, announcement->home->challenge);
		if (unlikely(!job_shard_begin(
			    state, js, announcement->generation, announcement->home)))
			announcement->missed = true;
	} else {
		announcement->missed = true;
	}
	if (worker->id + 1u < worker->workers)
		return ppe_hop_certain(worker, thread, (uint16_t)(worker->id + 1), adopt);
	return ppe_hop_certain(worker, thread, announcement->home_worker, joined);
}

/* A member left during the announcement: abandon the generation and its number, which no source knows. The others'
 * joins stay. True: abandoned. */
static bool
abandon(struct job_home *home)
{
	bool any = false;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (mask_test(home->gone, (uint8_t)s)) {
			mask_clear(home->pending, (uint8_t)s);
			home->pending_count--;
			any = true;
		}
	memset(home->gone, 0, sizeof(home->gone));
	return any;
}

/* The announcement is over: the generation begins, and all sources are answered. */
static struct ppe_next
joined(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = announced_job(state, &lmem(thread)->announcement);
	struct job_home *home;

	if (unlikely(js == NULL)) {
		ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
		return PPE_END;
	}
	home = js->home;
	if (unlikely(abandon(home))) {
		home->announcing = false;
		ppe_drop(worker, thread, PPE_DROP_HELD_BACK);
		return PPE_END;
	}
	if (unlikely(lmem(thread)->announcement.missed)) {
		/* That worker has an older job table, or a newer one, which this worker will soon have. */
		lmem(thread)->announcement.missed = false;
		return ppe_hop_certain(worker, thread, 0, adopt);
	}
	/* A source that entered both generations with one join may still wait for its answer. */
	for (unsigned int s = 0; s < js->source_end; s++)
		home->former[s] = home->nonce[s] == home->pending_nonce[s] ? 0 : home->nonce[s];
	memcpy(home->nonce, home->pending_nonce, sizeof(home->nonce));
	memcpy(home->proof, home->pending_proof, sizeof(home->proof));
	memcpy(home->in, home->pending, sizeof(home->in));
	memcpy(home->present, home->pending, sizeof(home->present));
	for (unsigned int s = 0; s < js->source_end; s++)
		home->request[s].accepted = home->request[s].last;
	memset(home->pending, 0, sizeof(home->pending));
	memset(home->pending_nonce, 0, sizeof(home->pending_nonce));
	memset(home->pending_proof, 0, sizeof(home->pending_proof));
	memset(home->pending_endpoint, 0, sizeof(home->pending_endpoint));
	home->pending_count = 0;
	if (js->keys != NULL)
		job_challenge_next(home);
	home->announcing = false;
	js->count.generations++; /* in the home shard only: the shards are summed */
	return answer_joins(worker, thread, js, -1);
}

/* On each worker in turn: end the generation. */
static struct ppe_next
revoke(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	const struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(state, announcement);

	if (likely(js != NULL) && likely(js->generation == announcement->generation))
		job_shard_revoke(state, js);
	if (worker->id + 1u < worker->workers)
		return ppe_hop_certain(worker, thread, (uint16_t)(worker->id + 1), revoke);
	return ppe_hop_certain(worker, thread, announcement->home_worker, revoked);
}

/* The announcement is over: joins are accepted again. */
static void
end_announcement(struct job_shard *js)
{
	if (likely(js != NULL)) {
		(void)abandon(js->home);
		js->home->announcing = false;
	}
}

static struct ppe_next
revoked(struct ppe_worker *worker, struct ppe_thread *thread)
{
	end_announcement(announced_job(ppe_state(worker, thread), &lmem(thread)->announcement));
	ppe_consume(worker, thread);
	return PPE_END;
}

/* On each worker in turn: set the source's endpoint. */
static struct ppe_next
follow(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(ppe_state(worker, thread), announcement);

	if (likely(js != NULL) && js->generation == announcement->generation &&
		js->endpoint[announcement->source].valid)
		source_is_at(worker, js, announcement->source, &announcement->endpoint);
	if (worker->id + 1u < worker->workers)
		return ppe_hop_certain(worker, thread, (uint16_t)(worker->id + 1), follow);
	return ppe_hop_certain(worker, thread, announcement->home_worker, followed);
}

/* Back at the home shard. */
static struct ppe_next
followed(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(ppe_state(worker, thread), announcement);

	end_announcement(js);
	if (likely(js != NULL) && js->generation == announcement->generation)
		return answer_joins(worker, thread, js, announcement->source);
	ppe_drop(worker, thread, PPE_DROP_STALE);
	return PPE_END;
}

const struct ppe_segment_name join_segments[] = {
	{join, "join"},
	{adopt, "adopt"},
	{joined, "joined"},
	{revoke, "revoke"},
	{revoked, "revoked"},
	{follow, "follow"},
	{followed, "followed"},
	{answer, "answer"},
	{NULL, NULL},
};
