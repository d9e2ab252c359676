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
join_reply(const struct ppe_worker *worker, const struct ppe_job *j)
{
	struct weir_join_reply reply = {
		.dtype_op = (uint8_t)(j->dtype << 4 | j->op),
		.flags = (uint8_t)((j->group != 0 ? WEIR_JOIN_MULTICAST : 0) |
			(j->authenticated ? WEIR_JOIN_AUTHENTICATED : 0) |
			(j->narrow ? WEIR_JOIN_NARROW : 0) |
			(worker->identity->ports - 1) << WEIR_JOIN_PORTS_SHIFT),
	};

	weir_put16(reply.window, j->window);
	weir_put16(reply.elements, j->elements);
	weir_put16(reply.sources, ppe_job_tree_ranks(j));
	weir_put32(reply.timeout_ms, j->timeout_ms);
	weir_put32(reply.group, j->group);
	return reply;
}

/* Packets per step, so that other threads run in between. */
#define ANSWER_STEP 8

/* A source without a key keeps its link for so long after its last packet. */
#define SOURCE_ALIVE_S 10

static void
send_accepted(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct pktbuf_endpoint *to)
{
	struct collective *state = ppe_state(worker, thread);
	struct answers *a = &lmem(thread)->answers;
	const struct claim *joined = &js->home->joined[a->header.src_id];
	uint8_t payload[sizeof(a->reply) + WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES + WEIR_TAG_BYTES];
	uint8_t bytes = sizeof(a->reply);

	memcpy(payload, &a->reply, bytes);
	if (js->own != NULL) {
		memcpy(payload + bytes,
			js->keys != NULL ? js->keys->challenge : js->home->generation_challenge,
			WEIR_CHALLENGE_BYTES);
		bytes += WEIR_CHALLENGE_BYTES;
		if (js->keys != NULL)
			bytes += wrap_results_key(
				state, js, a->header.src_id, joined, payload + bytes);
		bytes += tag_reply(
			state, js, &a->header, joined->epoch, joined->proof, payload, bytes);
	}
	send_small(worker, js, to, &a->header, payload, bytes);
}

static bool
is_same_process(const struct pktbuf_endpoint *a, const struct pktbuf_endpoint *b)
{
	return a->ip == b->ip && a->udp == b->udp && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

/* The process that displaced the source's former one; NULL: none has joined since. */
static const struct claim *
successor(const struct job_home *home, uint8_t s)
{
	const struct claim *former = &home->displaced[s];
	const struct claim *newer =
		mask_test(home->pending, s) ? &home->asking[s] : &home->joined[s];

	if (!former->at.valid || !newer->at.valid || is_same_process(&former->at, &newer->at) ||
		(int32_t)(newer->order - former->order) < 0)
		return NULL;
	return newer;
}

/* Tell the source's former process whose join displaced its own. */
static void
tell_displaced(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, uint8_t s)
{
	const struct claim *former = &js->home->displaced[s];
	const struct claim *newer = successor(js->home, s);
	const struct weir_header header = {
		.extended = true,
		.job_id = js->job,
		.src_id = s,
		.block_id = former->nonce,
		.status = WEIR_STATUS_DISPLACED,
		.flags = js->own != NULL ? WEIR_FLAG_AUTHENTICATED : 0,
		.collective = WEIR_COLLECTIVE_JOIN,
	};
	struct weir_displaced displaced;
	uint8_t payload[sizeof(displaced) + WEIR_TAG_BYTES];
	uint8_t bytes = sizeof(displaced);

	if (newer == NULL)
		return;
	weir_put32(displaced.address, newer->at.ip);
	weir_put16(displaced.port, newer->at.udp);
	memcpy(displaced.mac, newer->at.mac, sizeof(displaced.mac));
	memcpy(payload, &displaced, sizeof(displaced));
	if (js->own != NULL)
		bytes += tag_reply(ppe_state(worker, thread), js, &header, former->epoch,
			former->proof, payload, bytes);
	send_small(worker, js, &former->at, &header, payload, bytes);
	js->count.results++;
}

static void
tell_once(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, uint8_t source)
{
	if (likely(!mask_test(js->home->tell, source)))
		return;
	mask_clear(js->home->tell, source);
	tell_displaced(worker, thread, js, source);
}

/* The process loses its place as the source. It is told when the next process of the source has joined. */
static void
displace(struct job_home *home, uint8_t source, const struct claim *former)
{
	home->displaced[source] = *former;
	mask_set(home->tell, source);
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
		a->header.block_id = js->home->joined[a->next].nonce;
		a->header.root = js->rank[a->next];
		send_accepted(worker, thread, js, &to);
		js->count.results++;
		sent++;
		tell_once(worker, thread, js, (uint8_t)a->next);
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
			.flags = js->own != NULL ? WEIR_FLAG_AUTHENTICATED : 0,
			.collective = WEIR_COLLECTIVE_JOIN},
		.reply = join_reply(worker, j),
		.next = only < 0 ? 0 : (uint16_t)only,
		.end = only < 0 ? js->source_end : (uint16_t)(only + 1),
	};
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
	} else if (home->asking[source].nonce != nonce) {
		if (asked->former_nonce == nonce)
			asked->contested = now;
		asked->former_nonce = home->asking[source].nonce;
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

/* The join that a packet makes or repeats. */
struct joining {
	struct claim claim;
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* proved: that it quotes */
	uint8_t source;
	bool proved; /* the job's joins are */
};

static bool
is_repeat(const struct joining *join, const struct claim *of)
{
	return join->claim.nonce == of->nonce &&
		(!join->proved || pktbuf_tag_equal(join->claim.proof, of->proof));
}

/* Is it a later transmission than the last one? A tag does not cover switch port and MAC address: a copy of a proved
 * join, which any host can send, must not move the source. */
static bool
is_later(const struct joining *join, const struct claim *last)
{
	return !join->proved || join->claim.count > last->count;
}

static bool
is_pending(const struct job_home *home, const struct joining *join)
{
	return mask_test(home->pending, join->source) &&
		is_repeat(join, &home->asking[join->source]);
}

/* Does the join quote its source's challenge? A challenge serves one join. Without one, the join may be old. */
static bool
quotes_challenge(struct job_home *home, const struct joining *join)
{
	uint8_t *challenge = home->challenge[join->source];

	if (!join->proved)
		return true;
	if (mask_test(home->quoted, join->source)) {
		mask_clear(home->quoted, join->source);
		job_challenge_next(home, challenge);
	}
	return pktbuf_tag_equal(challenge, join->challenge);
}

/* Keep the join in place of the source's former one. */
static void
collect(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct joining *join, uint32_t now)
{
	struct job_home *home = js->home;
	struct claim *asking = &home->asking[join->source];
	bool repeat = is_pending(home, join);
	uint32_t order = repeat ? asking->order : ++home->claims;

	note_asking(home, join->source, join->claim.nonce, now);
	if (!mask_test(home->pending, join->source)) {
		mask_set(home->pending, join->source);
		home->pending_count++;
	} else if (!repeat && !is_same_process(&asking->at, &join->claim.at)) {
		displace(home, join->source, asking);
	}
	*asking = join->claim;
	asking->order = order;
	if (repeat)
		return;
	mask_set(home->quoted, join->source);
	tell_once(worker, thread, js, join->source);
}

static uint16_t
generation_after(const struct job_shard *js)
{
	uint16_t begun = js->home->begun;
	uint16_t next = begun == 0 ? js->first_generation : (uint16_t)(begun + 1);

	return next == WEIR_GEN_JOIN ? 1 : next;
}

/* Tell a joining source the present sources and, if its join is proved, the challenge to quote. */
static void
reply_waiting(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js)
{
	struct weir_header h = lmem(thread)->c.header;
	uint8_t payload[WEIR_BITMAP_BYTES + WEIR_CHALLENGE_BYTES];
	uint8_t bytes = WEIR_BITMAP_BYTES;

	memcpy(payload, js->home->pending, WEIR_BITMAP_BYTES);
	if (js->own != NULL) {
		memcpy(payload + bytes, js->home->challenge[h.src_id], WEIR_CHALLENGE_BYTES);
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
is_late_copy(const struct job_home *home, const struct joining *join)
{
	uint8_t s = join->source;

	if (join->proved || join->claim.nonce == 0)
		return false;
	return home->former[s] == join->claim.nonce ||
		(home->joined[s].nonce == join->claim.nonce && mask_test(home->pending, s) &&
			home->asking[s].nonce != join->claim.nonce);
}

static bool
is_at_same_link(const struct pktbuf_endpoint *a, const struct pktbuf_endpoint *b)
{
	return a->port == b->port && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

/* Without a proof the source's link must do: does this join come from another one while the source is alive on its
 * own? */
static bool
is_usurping(const struct job_shard *js, const struct joining *join, uint32_t now)
{
	const struct job_home *home = js->home;
	const struct claim *asking = &home->asking[join->source];
	const struct claim *joined = &home->joined[join->source];
	uint32_t heard = js->flow[join->source].heard;
	uint32_t accepted = home->request[join->source].accepted;
	uint64_t hz = rte_get_tsc_hz();

	if (join->proved)
		return false;
	if (mask_test(home->pending, join->source))
		return asking->nonce != join->claim.nonce &&
			!is_at_same_link(&asking->at, &join->claim.at);
	return joined->at.valid && !is_at_same_link(&joined->at, &join->claim.at) &&
		RTE_MIN(ticks_since(heard, now), ticks_since(accepted, now)) <
		(SOURCE_ALIVE_S * hz) >> HEARD_SHIFT;
}

/* Does the packet come from the process that was the source before? */
static bool
is_from_displaced(const struct claim *displaced, const struct pktbuf_endpoint *seen)
{
	return displaced->at.valid && displaced->at.port == seen->port &&
		is_same_process(&displaced->at, seen);
}

struct ppe_next
strayed(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	const struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = state->job[c->header.job_id];
	uint8_t source = c->header.src_id;
	struct pktbuf_endpoint seen;

	endpoint_of(thread, true, &seen);
	if (js != NULL && js->home != NULL && js->serial == c->serial &&
		is_from_displaced(&js->home->displaced[source], &seen) &&
		guard_conforms(worker, thread->port, GUARD_REPLIES))
		tell_displaced(worker, thread, js, source);
	return end_dropped(worker, thread, PPE_DROP_ADDRESS);
}

static struct joining
joining_of(const struct job_shard *js, struct ppe_thread *thread, const struct weir_header *h)
{
	const struct contribution *c = &lmem(thread)->c;
	struct joining join = {.source = h->src_id, .proved = js->own != NULL};
	struct weir_join_proof room = {0};

	if (join.proved) {
		const struct weir_join_proof *proof =
			rte_pktmbuf_read(thread->packet, c->payload, sizeof(room), &room);

		memcpy(join.challenge, proof->challenge, sizeof(join.challenge));
		memcpy(join.claim.proof, proof->nonce, sizeof(join.claim.proof));
		join.claim.count = weir_get32(proof->count);
		join.claim.epoch = c->epoch;
	}
	join.claim.nonce = h->block_id;
	endpoint_of(thread, (h->flags & WEIR_FLAG_BASE_RESULTS) == 0, &join.claim.at);
	return join;
}

/* Is it the source's join for the running generation? A source that repeats its join for a revoked generation
 * joins the next one. During an announcement home->in is empty, because the answer would belong to the next
 * generation. */
static bool
accepted(const struct job_shard *js, const struct weir_header *h, const struct joining *join)
{
	return !js->revoked && mask_test(js->home->in, h->src_id) &&
		is_repeat(join, &js->home->joined[h->src_id]) &&
		(h->gen_id == WEIR_GEN_JOIN || h->gen_id == js->generation);
}

/*
 * An accepted join is repeated from elsewhere: the source's MAC address or port has changed (bonding), or the accepted
 * join had a damaged source MAC address, which no checksum covers. The last join counts.
 */
static bool
has_moved(const struct job_shard *js, const struct joining *join)
{
	const struct pktbuf_endpoint *known = &js->endpoint[join->source];
	const struct pktbuf_endpoint *seen = &join->claim.at;

	return known->valid &&
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

/* The accepted join is repeated: answer it, and follow its source. */
static struct ppe_next
join_again(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct joining *join, uint32_t now)
{
	struct announcement *announcement = &lmem(thread)->announcement;
	struct claim *joined = &js->home->joined[join->source];
	bool moved = has_moved(js, join);

	if (!is_later(join, joined)) {
		ppe_drop(worker, thread, PPE_DROP_STALE);
		return PPE_END;
	}
	if (unlikely(moved && js->home->announcing))
		return hold_back(worker, thread, js);
	joined->at = join->claim.at;
	joined->count = join->claim.count;
	js->home->request[join->source].accepted = now;
	if (likely(!moved))
		return answer_joins(worker, thread, js, join->source);
	js->home->announcing = true;
	*announcement = (struct announcement){.home = js->home,
		.endpoint = joined->at,
		.serial = js->serial,
		.home_worker = worker->id,
		.generation = js->generation,
		.job = js->job,
		.source = join->source};
	return ppe_hop_certain(worker, thread, 0, follow);
}

/* A join that is not of the running generation, or PPE_DROP_COUNT: it may begin the next one. */
static enum ppe_drop
check_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct weir_header *h, const struct joining *join, uint32_t now)
{
	const struct ppe_job *j = worker->jobs->by_id[h->job_id];
	struct job_home *home = js->home;
	const struct claim *displaced = &home->displaced[h->src_id];

	if (unlikely(h->gen_id != WEIR_GEN_JOIN))
		return PPE_DROP_STALE; /* a repeat for a generation that does not run here */
	if (home->announcing)
		return PPE_DROP_HELD_BACK;
	forget_old(home, now);
	if (successor(home, h->src_id) != NULL && is_from_displaced(displaced, &join->claim.at) &&
		is_repeat(join, displaced)) {
		home->request[h->src_id].contested = now;
		if (guard_conforms(worker, thread->port, GUARD_REPLIES))
			tell_displaced(worker, thread, js, h->src_id);
		return PPE_DROP_ADDRESS;
	}
	if (join->proved && join->claim.epoch != j->epoch[h->src_id])
		return PPE_DROP_STALE; /* its membership is over */
	if (unlikely(is_late_copy(home, join)))
		return PPE_DROP_STALE;
	if (is_usurping(js, join, now))
		return PPE_DROP_ADDRESS;
	if (is_pending(home, join) && !is_later(join, &home->asking[h->src_id]))
		return PPE_DROP_STALE;
	return PPE_DROP_COUNT;
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
	struct joining join;
	enum ppe_drop reason;
	bool fresh;

	if (unlikely(js == NULL || js->serial != lmem(thread)->c.serial ||
		    !ppe_job_has(j, h.src_id) || j->address[h.src_id] != thread->head.ip_src))
		return end_dropped(worker, thread, PPE_DROP_UNKNOWN_JOB);
	if (lmem(thread)->c.bytes != 0 || h.grad_cnt != 0)
		return end_dropped(worker, thread, PPE_DROP_LENGTH);
	/* The base form has no tags. */
	if (home == NULL || (js->keys != NULL && (h.flags & WEIR_FLAG_BASE_RESULTS) != 0))
		return refuse(worker, thread, PPE_DROP_UNSUPPORTED, WEIR_STATUS_UNSUPPORTED);
	join = joining_of(js, thread, &h);
	js->count.joins++;
	if (accepted(js, &h, &join))
		return join_again(worker, thread, js, &join, now);
	/* Without a proof, only the process that has joined may move to another port. */
	if (!join.proved && !is_pending(home, &join) && !guard_passes(worker, thread, GUARD_NO_JOB))
		return PPE_END;
	reason = check_join(worker, thread, js, &h, &join, now);
	if (unlikely(reason == PPE_DROP_HELD_BACK))
		return hold_back(worker, thread, js);
	if (unlikely(reason != PPE_DROP_COUNT))
		return end_dropped(worker, thread, reason);
	fresh = is_pending(home, &join) || quotes_challenge(home, &join);
	if (fresh)
		collect(worker, thread, js, &join, now);
	if (home->pending_count < js->nb_sources)
		return wait_for_others(worker, thread, js, fresh && ends_generation(j, js));
	home->announcing = true;
	home->begun = generation_after(js);
	if (js->own != NULL)
		job_challenge_next(home, home->generation_challenge);
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
			job_keys_begin(state, js, announcement->generation,
				announcement->home->generation_challenge,
				announcement->home->asking);
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

/* Forget the source's pending join. */
static void
withdraw(struct job_home *home, uint8_t source)
{
	mask_clear(home->pending, source);
	home->pending_count--;
	displace(home, source, &home->asking[source]);
}

/* During an announcement other workers read the pending joins, so the source is only marked. */
void
forget_joins(struct job_home *home, uint8_t source, bool removed)
{
	if (removed) {
		mask_clear(home->in, source);
		mask_clear(home->present, source);
		displace(home, source, &home->joined[source]);
		home->joined[source] = (struct claim){0};
		home->request[source] = (struct join_request){0};
	}
	if (mask_test(home->pending, source)) {
		if (home->announcing)
			mask_set(home->gone, source);
		else
			withdraw(home, source);
	}
}

/* A member left during the announcement: abandon the generation and its number, which no source knows. The others'
 * joins stay. True: abandoned. */
static bool
abandon(struct job_home *home)
{
	bool any = false;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		if (mask_test(home->gone, (uint8_t)s)) {
			withdraw(home, (uint8_t)s);
			any = true;
		}
	memset(home->gone, 0, sizeof(home->gone));
	return any;
}

/* The pending joins are those of the running generation. */
static void
adopt_joins(struct job_shard *js)
{
	struct job_home *home = js->home;

	for (unsigned int s = 0; s < js->source_end; s++) {
		struct claim *joined = &home->joined[s], *asking = &home->asking[s];

		/* A source that entered both generations with one join may still wait for its answer. */
		home->former[s] = joined->nonce == asking->nonce ? 0 : joined->nonce;
		if (joined->at.valid && !is_same_process(&joined->at, &asking->at))
			displace(home, (uint8_t)s, joined);
		*joined = *asking;
		*asking = (struct claim){0};
		home->request[s].accepted = home->request[s].last;
	}
	memcpy(home->in, home->pending, sizeof(home->in));
	memcpy(home->present, home->pending, sizeof(home->present));
	memset(home->pending, 0, sizeof(home->pending));
	home->pending_count = 0;
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
	adopt_joins(js);
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
	{strayed, "strayed"},
	{adopt, "adopt"},
	{joined, "joined"},
	{revoke, "revoke"},
	{revoked, "revoked"},
	{follow, "follow"},
	{followed, "followed"},
	{answer, "answer"},
	{NULL, NULL},
};
