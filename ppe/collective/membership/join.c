/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins. docs/protocol.md, "Joining".
 *
 * The job's home shard (that of residue 0) collects one join from each source. The last join begins
 * the generation (announce.c). The running generation continues until then; in a job that revokes,
 * it ends when the first source joins again.
 *
 * In a job with parents, the last join makes the switch join at the parents (parent_join.c).
 */
#include "ppe/collective/membership/membership.h"

#include <rte_cycles.h>

#include "ppe/collective/collective_fast.h"
#include "ppe/guard_fast.h"
#include "ppe/simulate.h"

/* A source without a key keeps its link for this long after its last packet. */
#define SOURCE_ALIVE_S 10

static bool
is_same_process(const struct pktbuf_endpoint *a, const struct pktbuf_endpoint *b)
{
	return a->ip == b->ip && a->udp == b->udp && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

/* The process that displaced the source's former process; NULL: no process has joined since. */
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
		bytes += keys_tag_reply(ppe_state(worker, thread), js, &header, former->epoch,
			former->proof, payload, bytes);
	reply_send_packet(worker, js, &former->at, &header, payload, bytes);
	js->count.results++;
}

void
join_tell_displaced(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, uint8_t source)
{
	if (likely(!mask_test(js->home->to_notify, source)))
		return;
	mask_clear(js->home->to_notify, source);
	tell_displaced(worker, thread, js, source);
}

/* Note that the process has lost its place as the source. It is told when the source's next process
 * has joined. */
static void
displace(struct job_home *home, uint8_t source, const struct claim *former)
{
	home->displaced[source] = *former;
	mask_set(home->to_notify, source);
}

/* Note since when a source asks for the next generation, and whether two processes do (their nonces
 * alternate). */
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

bool
join_has_expired(const struct job_home *home, unsigned int source, uint32_t now)
{
	return ticks_since(home->request[source].last, now) > (home->kept_s * rte_get_tsc_hz()) >>
		HEARD_SHIFT;
}

/* Forget joins that are no longer repeated, so that no generation begins with them. */
static void
forget_old(struct job_home *home, uint32_t now)
{
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		for (uint64_t left = home->pending[i]; left != 0; left &= left - 1) {
			uint8_t source = (uint8_t)(64 * i + (unsigned int)__builtin_ctzll(left));

			if (!join_has_expired(home, source, now))
				continue;
			mask_clear(home->pending, source);
			home->pending_count--;
		}
}

/* The join that a packet makes or repeats. */
struct joining {
	struct claim claim;
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* proved: quoted by the join */
	uint8_t source;
	bool proved; /* the job's joins are proved */
};

static bool
is_repeat(const struct joining *join, const struct claim *of)
{
	return join->claim.nonce == of->nonce &&
		(!join->proved || pktbuf_tag_equal(join->claim.proof, of->proof));
}

/* Is it a later transmission than `last`? A tag does not cover switch port and MAC address: a copy
 * of a proved join, which any host can send, must not move the source. */
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

/* Does the join quote its source's challenge? A challenge serves one join. A join without the
 * challenge may be old. */
static bool
quotes_challenge(struct job_home *home, const struct joining *join)
{
	uint8_t *challenge = home->challenge[join->source];

	if (!join->proved)
		return true;
	if (mask_test(home->quoted, join->source)) {
		mask_clear(home->quoted, join->source);
		keys_challenge_next(home, challenge);
	}
	return pktbuf_tag_equal(challenge, join->challenge);
}

/* Keep the join in place of the source's former join. */
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
	join_tell_displaced(worker, thread, js, join->source);
}

/* The parents with which all joining switches take part; 0 if the sources are hosts. *agreed:
 * whether all name equal sets. */
static uint8_t
common_parents(const struct job_shard *js, bool *agreed)
{
	uint8_t any = 0, common = js->children ? UINT8_MAX : 0;

	for (unsigned int s = 0; js->children && s < js->source_end; s++)
		if (mask_test(js->home->pending, (uint8_t)s)) {
			any |= js->home->asking[s].parents;
			common &= js->home->asking[s].parents;
		}
	*agreed = any == common;
	return common;
}

bool
join_is_complete(struct job_shard *js, uint32_t now)
{
	bool agreed;

	forget_old(js->home, now);
	common_parents(js, &agreed);
	return js->home->pending_count == js->nb_sources && agreed;
}

/* The ranks that have joined, as far as this switch knows. */
static void
joined_ranks(const struct job_shard *js, const struct ppe_job *j, uint64_t ranks[MASK_WORDS])
{
	memcpy(ranks, js->home->pending, sizeof(js->home->pending));
	for (unsigned int s = 0; js->children && s < js->source_end; s++)
		if (mask_test(js->home->pending, (uint8_t)s))
			mask_set_range(ranks, s, j->ranks[s]);
	if (js->home->parents != NULL)
		js->tree->joined(js->home->parents, ranks);
}

/* Tell a joining source the joined ranks and, if its join is proved, the challenge to quote. */
static void
reply_waiting(struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *js)
{
	struct weir_header h = lmem(thread)->c.header;
	uint8_t payload[WEIR_BITMAP_BYTES + WEIR_CHALLENGE_BYTES];
	uint64_t ranks[MASK_WORDS];
	uint8_t bytes = WEIR_BITMAP_BYTES;
	bool agreed;

	joined_ranks(js, worker->jobs->by_id[h.job_id], ranks);
	memcpy(payload, ranks, WEIR_BITMAP_BYTES);
	if (js->own != NULL) {
		memcpy(payload + bytes, js->home->challenge[h.src_id], WEIR_CHALLENGE_BYTES);
		bytes += WEIR_CHALLENGE_BYTES;
	}
	h.src_cnt = (uint8_t)js->nb_ranks;
	h.root = common_parents(js, &agreed);
	reply_status(worker, thread, &h, WEIR_STATUS_WAITING, payload, bytes);
}

/* Reply to a join that begins no generation. said: the status for its source. */
static struct ppe_next
wait_for_others(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	enum weir_status said, bool ends_generation)
{
	if (likely(said == WEIR_STATUS_WAITING))
		reply_waiting(worker, thread, js);
	else
		reply_status(worker, thread, &lmem(thread)->c.header, said, NULL, 0);
	if (unlikely(ends_generation))
		return announce_end(worker, thread, js, WEIR_OVER_JOINED);
	return ppe_consume(worker, thread);
}

static bool
ends_generation(const struct ppe_job *j, const struct job_shard *js)
{
	return j->revoke && js->hop.generation != 0 && !js->is_revoked;
}

/* Is it a late copy of the join for the former generation, or for a revoked generation after which
 * the source has joined again? Without a challenge, the copy looks like a new join. */
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

/* Without a proof the link identifies the source: does this join come from another link while the
 * source is alive on its own? */
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
join_unbound_at_home(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct collective *state = ppe_state(worker, thread);
	const struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = state->job[c->header.job_id];
	uint8_t source = c->header.src_id;
	struct pktbuf_endpoint seen;

	source_endpoint_of(thread, true, &seen);
	if (js != NULL && js->home != NULL && js->serial == c->serial &&
		is_from_displaced(&js->home->displaced[source], &seen) &&
		guard_conforms(worker, thread->port, GUARD_REPLIES))
		tell_displaced(worker, thread, js, source);
	return ppe_drop(worker, thread, PPE_DROP_ADDRESS);
}

static struct joining
joining_of(const struct job_shard *js, const struct ppe_job *j, struct ppe_thread *thread,
	const struct weir_header *h)
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
	join.claim.parents = h->root;
	join.claim.asks_list = (h->op & WEIR_JOIN_ASKS_LIST) != 0;
	source_endpoint_of(thread, (h->flags & WEIR_FLAG_BASE_RESULTS) == 0, &join.claim.at);
	/* Multicast results are identical for all, and a switch has the slices of several hosts. */
	join.claim.at.skips_own =
		(h->flags & WEIR_FLAG_SKIPS_OWN) != 0 && j->group == 0 && !j->children;
	return join;
}

/* Is it the source's join for the running generation? A source that repeats its join for a revoked
 * generation joins the next one. During an announcement home->in is empty, because the answer would
 * belong to the next generation. */
static bool
accepted(const struct job_shard *js, const struct weir_header *h, const struct joining *join)
{
	return !js->is_revoked && mask_test(js->home->in, h->src_id) &&
		is_repeat(join, &js->home->joined[h->src_id]) &&
		(h->gen_id == WEIR_GEN_JOIN || h->gen_id == js->hop.generation);
}

/* Is an accepted join repeated from elsewhere? The source's MAC address or port has changed
 * (bonding), or the accepted join had a damaged source MAC address, which no checksum covers. The
 * last join counts. */
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
	return ppe_drop(worker, thread, PPE_DROP_HELD_BACK);
}

/* Answer a repetition of the accepted join, and follow its source. */
static struct ppe_next
join_again(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct joining *join, uint32_t now)
{
	struct claim *joined = &js->home->joined[join->source];
	bool moved = has_moved(js, join);

	if (!is_later(join, joined))
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	if (unlikely(moved && js->home->announcing))
		return hold_back(worker, thread, js);
	joined->at = join->claim.at;
	joined->at.skips_own = js->endpoint[join->source].skips_own; /* as agreed */
	joined->count = join->claim.count;
	js->home->request[join->source].accepted = now;
	if (likely(!moved))
		return announce_answer(worker, thread, js, join->source);
	return announce_endpoint(worker, thread, js, join->source);
}

/* What its sender is told of a join that cannot begin a generation. */
enum told { TOLD_NOTHING, TOLD_DISPLACED, TOLD_STALE };

/* Check a join that is not of the running generation. PPE_DROP_COUNT: it may begin the next one.
 * Only reads. */
static enum ppe_drop
judge_join(const struct job_shard *js, const struct ppe_job *j, const struct weir_header *h,
	const struct joining *join, uint32_t now, enum told *told)
{
	const struct job_home *home = js->home;
	const struct claim *displaced = &home->displaced[h->src_id];

	*told = TOLD_NOTHING;
	if (unlikely(h->gen_id != WEIR_GEN_JOIN) && !join->proved)
		return PPE_DROP_STALE; /* a repeat for a generation that does not run here */
	if (home->announcing)
		return PPE_DROP_HELD_BACK;
	if (successor(home, h->src_id) != NULL && is_from_displaced(displaced, &join->claim.at) &&
		is_repeat(join, displaced)) {
		*told = TOLD_DISPLACED;
		return PPE_DROP_ADDRESS;
	}
	if (join->proved && join->claim.epoch != j->epoch[h->src_id])
		return PPE_DROP_STALE; /* its membership is over */
	/* Only a join can be verified after a restart: no key of a former generation is left. */
	if (unlikely(h->gen_id != WEIR_GEN_JOIN)) {
		*told = TOLD_STALE;
		return PPE_DROP_STALE;
	}
	if (unlikely(is_late_copy(home, join)))
		return PPE_DROP_STALE;
	if (is_usurping(js, join, now))
		return PPE_DROP_ADDRESS;
	if (is_pending(home, join) && !is_later(join, &home->asking[h->src_id]))
		return PPE_DROP_STALE;
	return PPE_DROP_COUNT;
}

/* The same, without joins that are no longer repeated; and tell the sender. */
static enum ppe_drop
check_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct weir_header *h, const struct joining *join, uint32_t now)
{
	enum ppe_drop reason;
	enum told told;

	if (!js->home->announcing)
		forget_old(js->home, now);
	reason = judge_join(js, worker->jobs->by_id[h->job_id], h, join, now, &told);
	if (told == TOLD_STALE)
		reply_status(worker, thread, h, WEIR_STATUS_STALE, NULL, 0);
	if (told != TOLD_DISPLACED)
		return reason;
	js->home->request[h->src_id].contested = now;
	if (guard_conforms(worker, thread->port, GUARD_REPLIES))
		tell_displaced(worker, thread, js, h->src_id);
	return reason;
}

/* Only a switch joins a job of switches, with its number of ranks; only a host a job of hosts. */
static bool
covers_its_ranks(const struct ppe_job *j, const struct weir_header *h)
{
	bool up = (h->flags & WEIR_FLAG_UP) != 0;

	return up == j->children && (!up || h->src_cnt == (uint8_t)j->ranks[h->src_id]);
}

/* Tell the source how many ranks the job has for it. */
static struct ppe_next
refuse_ranks(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	struct weir_header *h = &lmem(thread)->c.header;

	h->src_cnt = j->children ? (uint8_t)j->ranks[h->src_id] : 1;
	return reply_refuse(worker, thread, PPE_DROP_UNSUPPORTED, WEIR_STATUS_UNSUPPORTED);
}

/* Why does a join end without being collected, at its home shard? PPE_DROP_COUNT: it does not. */
static enum ppe_drop
refused_at_home(const struct job_shard *js, const struct weir_header *h, uint32_t bytes)
{
	if (bytes != 0 || h->grad_cnt != 0)
		return PPE_DROP_LENGTH;
	/* The base form has no tags. */
	if (js->home == NULL ||
		((js->keys != NULL || js->children) && (h->flags & WEIR_FLAG_BASE_RESULTS) != 0))
		return PPE_DROP_UNSUPPORTED;
	return PPE_DROP_COUNT;
}

/* A join may be answered here, so its checksums are verified first. The sender is checked before
 * the tag, which is expensive. */
struct ppe_next
join_entry(struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);

	if (!checksums_hold(worker, thread))
		return PPE_END;
	if (!is_source(j, thread))
		return reply_refuse_unknown(worker, thread, j);
	if (from_group(thread))
		return ppe_drop(worker, thread, PPE_DROP_BAD_SOURCE_MAC);
	/* A source may move to another port: its job decides. */
	if (!guard_passes(worker, thread, j->id))
		return PPE_END;
	if (!guard_conforms(worker, thread->port, GUARD_JOINS))
		return ppe_drop(worker, thread, PPE_DROP_POLICED_PORT);
	if (j->proved && !keys_authentic_join(worker, thread, state->job[j->id]))
		return PPE_END;
	lmem(thread)->c.serial = state->job[j->id]->serial;
	return ppe_hop(worker, thread, (uint16_t)ppe_job_shard(j, 0, worker->workers), join_take);
}

struct ppe_next
join_take(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct weir_header h = lmem(thread)->c.header;
	struct job_shard *js = state->job[h.job_id];
	struct job_home *home = js == NULL ? NULL : js->home;
	const struct ppe_job *j = worker->jobs->by_id[h.job_id];
	uint32_t now = heard_now(worker->now);
	enum weir_status said = WEIR_STATUS_WAITING;
	struct joining join;
	enum ppe_drop reason;
	bool repeat, fresh;

	if (unlikely(js == NULL || js->serial != lmem(thread)->c.serial ||
		    !ppe_job_has(j, h.src_id) || j->address[h.src_id] != thread->head.ip_src))
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
	reason = refused_at_home(js, &h, lmem(thread)->c.bytes);
	if (reason == PPE_DROP_UNSUPPORTED)
		return reply_refuse(worker, thread, PPE_DROP_UNSUPPORTED, WEIR_STATUS_UNSUPPORTED);
	if (reason != PPE_DROP_COUNT)
		return ppe_drop(worker, thread, reason);
	if (unlikely(!covers_its_ranks(j, &h)))
		return refuse_ranks(worker, thread, j);
	join = joining_of(js, j, thread, &h);
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
		return ppe_drop(worker, thread, reason);
	repeat = is_pending(home, &join);
	fresh = repeat || quotes_challenge(home, &join);
	if (fresh)
		collect(worker, thread, js, &join, now);
	if (join_is_complete(js, now)) {
		if (home->parents == NULL)
			return announce_begin(worker, thread, js);
		said = js->tree->join(worker, thread, js, repeat);
	}
	return wait_for_others(worker, thread, js, said, fresh && ends_generation(j, js));
}

/* ---- explanation ---- */

/* The sources whose joins wait, with this one's. */
static unsigned int
waiting_with(const struct job_home *home, uint8_t source, uint32_t now)
{
	unsigned int n = 1;

	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		n += s != source && mask_test(home->pending, (uint8_t)s) &&
			!join_has_expired(home, s, now);
	return n;
}

static void
explain_at_home(const struct ppe_worker *worker, const struct job_shard *js,
	const struct ppe_job *j, struct ppe_thread *thread, struct ppe_explanation *explanation)
{
	const struct weir_header *h = &lmem(thread)->c.header;
	const struct joining join = joining_of(js, j, thread, h);
	const uint32_t now = heard_now(ppe_clock());
	enum ppe_drop reason = PPE_DROP_COUNT;
	enum told told;

	if (accepted(js, h, &join)) {
		if (!is_later(&join, &js->home->joined[h->src_id]))
			ppe_explain_drop(explanation, PPE_DROP_STALE);
		else if (has_moved(js, &join) && js->home->announcing)
			ppe_explain_drop(explanation, PPE_DROP_HELD_BACK);
		else
			ppe_explain_end(explanation, "consume",
				"it is the source's join for generation %u, which runs: it is "
				"answered again",
				js->hop.generation);
		return;
	}
	if (!join.proved && !is_pending(js->home, &join))
		reason = guard_verdict(worker, thread, GUARD_NO_JOB);
	if (reason == PPE_DROP_COUNT)
		reason = judge_join(js, j, h, &join, now, &told);
	if (reason != PPE_DROP_COUNT) {
		ppe_explain_drop(explanation, reason);
		return;
	}
	ppe_explain_end(explanation, "consume", "join %u of %u%s",
		waiting_with(js->home, h->src_id, now), js->nb_sources,
		waiting_with(js->home, h->src_id, now) < js->nb_sources
			? ": it waits for the others"
			: js->home->parents != NULL ? ": the switch joins at its parents"
						    : ": a generation begins");
}

void
join_explain(const struct ppe_worker *worker, const void *const *states, struct ppe_thread *thread,
	struct ppe_explanation *explanation)
{
	struct contribution *c = &lmem(thread)->c;
	const struct ppe_job *j = worker->jobs->by_id[c->header.job_id];
	enum ppe_drop reason = checksums_damage(worker, thread);
	const struct collective *home;
	const struct job_shard *js = NULL;

	if (reason == PPE_DROP_COUNT && !is_source(j, thread))
		reason = reply_unknown_reason(worker, thread, j, c->header.src_id);
	else if (reason == PPE_DROP_COUNT && from_group(thread))
		reason = PPE_DROP_BAD_SOURCE_MAC;
	else if (reason == PPE_DROP_COUNT)
		reason = guard_verdict(worker, thread, j->id);
	if (reason == PPE_DROP_COUNT) {
		home = states[ppe_job_shard(j, 0, worker->workers)];
		js = home->job[j->id];
		ppe_explain(explanation, "join", "at worker %u%s", home->worker->id,
			j->proved ? "; its tag is not checked here" : "");
	}
	if (reason == PPE_DROP_COUNT && js == NULL)
		reason = PPE_DROP_UNKNOWN_JOB;
	if (reason == PPE_DROP_COUNT && j->proved) {
		if ((c->header.flags & WEIR_FLAG_AUTHENTICATED) == 0 ||
			c->bytes != sizeof(struct weir_join_proof) + WEIR_TAG_BYTES)
			reason = PPE_DROP_FORGED;
		c->bytes = 0;
		c->epoch = j->epoch[c->header.src_id];
	}
	if (reason == PPE_DROP_COUNT)
		reason = refused_at_home(js, &c->header, c->bytes);
	if (reason == PPE_DROP_COUNT && !covers_its_ranks(j, &c->header))
		reason = PPE_DROP_UNSUPPORTED;
	if (reason == PPE_DROP_COUNT)
		explain_at_home(worker, js, j, thread, explanation);
	else
		ppe_explain_drop(explanation, reason);
}

static void
withdraw(struct job_home *home, uint8_t source)
{
	mask_clear(home->pending, source);
	home->pending_count--;
	displace(home, source, &home->asking[source]);
}

/* During an announcement other workers read the pending joins, so the source is only marked. */
void
join_forget(struct job_home *home, uint8_t source, bool removed)
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

bool
join_abandon(struct job_home *home)
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

void
join_adopt(struct job_shard *js)
{
	struct job_home *home = js->home;

	for (unsigned int s = 0; s < js->source_end; s++) {
		struct claim *joined = &home->joined[s], *asking = &home->asking[s];

		/* A source that entered both generations with one join may still wait for its
		 * answer. */
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

const struct ppe_segment_name join_segments[] = {
	{join_take, "join",
		"hop:adopt hop:revoke hop:follow answer consume output drop:unknown_job "
		"drop:length drop:unsupported drop:stale drop:address "
		"drop:held_back" GUARD_LEADS_TO},
	{join_unbound_at_home, "unbound_at_home", "drop:address output"},
	{0},
};
