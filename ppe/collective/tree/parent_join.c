/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins at parents: how a generation begins and ends on two hops. docs/tree.md, "Generations".
 *
 * When all sources of a job with parents have joined, its home shard joins at each parent, as a
 * host would, with nonces that have begun no generation. When all parents have accepted, the thread
 * of the last answer announces the generation, and the parents' generations with it. A parent's
 * generation serves at most one generation here.
 *
 * An attempt has a set of parents, and the parents see it in the joins. A nonce belongs to one set:
 * so an answer says with which set the parent's generation began, and a smaller set needs new
 * nonces.
 *
 * No timer repeats a join: the joins of the sources do.
 */
#include "ppe/collective/tree/tree.h"

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "pktbuf/cursor.h"
#include "ppe/collective/collective_fast.h"

/* A parent that leaves this many questions unanswered for this long is dead. Time alone is not
 * enough where sources seldom ask: one burst of losses may take all answers. A parent answers a
 * join at once. */
#define SILENT_S         3
#define SILENT_QUESTIONS 64
#define SILENT_JOINS     8

/* An attempt without all parents gives way to an attempt with all parents after this time. */
#define ATTEMPT_S 10

struct parents_home *
parents_home_create(const struct ppe_job *job, int socket)
{
	struct parents_home *parents = rte_zmalloc_socket(
		"weir_parents_home", sizeof(*parents), RTE_CACHE_LINE_SIZE, socket);

	if (parents != NULL)
		parents->all = (uint8_t)((1u << job->nb_parents) - 1);
	return parents;
}

static bool
in_set(uint8_t set, unsigned int parent)
{
	return (set >> parent & 1) != 0;
}

static bool
has_passed(uint32_t since, uint32_t now, unsigned int seconds)
{
	return ticks_since(since, now) > (seconds * rte_get_tsc_hz()) >> HEARD_SHIFT;
}

/* Begin an attempt with these parents, and with new nonces. */
static void
attempt(struct job_home *home, uint8_t set)
{
	struct parents_home *parents = home->parents;

	parents->set = set;
	parents->accepted = 0;
	parents->used = false;
	for (unsigned int p = 0; p < PPE_PARENTS_MAX; p++) {
		struct parent_join *join = &parents->parent[p];

		keys_challenge_next(home, join->nonce);
		join->count = 0;
		join->unanswered = 0;
		memset(join->joined, 0, sizeof(join->joined));
	}
}

/* Continue without these parents. false: no parent would be left, or all would be left. */
static bool
shrink(struct job_home *home, uint8_t without)
{
	uint8_t left = (uint8_t)(home->parents->set & ~without);

	if (left == 0 || left == home->parents->set)
		return false;
	attempt(home, left);
	return true;
}

/* The parents of the set that don't answer, or refuse this switch. */
static uint8_t
unusable(const struct parents_home *parents, uint32_t now)
{
	uint8_t set = 0;

	for (unsigned int p = 0; p < PPE_PARENTS_MAX; p++) {
		const struct parent_join *join = &parents->parent[p];

		if (join->refused.setting == PPE_PARENT_GONE ||
			(join->unanswered >= SILENT_JOINS &&
				has_passed(join->asked, now, SILENT_S)))
			set |= (uint8_t)(1u << p);
	}
	return set & parents->set;
}

/* ---- sending ---- */

static void
join_parent(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j, unsigned int p)
{
	const struct ppe_parent *parent = &j->parent[p];
	struct parents_home *parents = js->home->parents;
	struct parent_join *join = &parents->parent[p];
	const struct weir_header h = {.extended = true,
		.job_id = parent->job,
		.src_id = (uint8_t)j->first_rank,
		.src_cnt = (uint8_t)js->own_ranks,
		.block_id = weir_get32(join->nonce),
		.gen_id = parents->used ? join->generation : WEIR_GEN_JOIN,
		.root = parents->set,
		.flags = WEIR_FLAG_UP | (parent->keyed ? WEIR_FLAG_AUTHENTICATED : 0),
		.collective = WEIR_COLLECTIVE_JOIN,
		.op = WEIR_JOIN_ASKS_LIST};
	uint8_t proof[sizeof(struct weir_join_proof) + WEIR_TAG_BYTES];
	struct rte_mbuf *packet;
	uint8_t bytes = 0;

	if (join->unanswered++ == 0)
		join->asked = heard_now(worker->now);
	if (parent->keyed)
		bytes = parent_prove_join(ppe_state(worker, thread), parent->key,
			&js->parents->self, &h, join, proof);
	packet = pktbuf_reply_build(worker->pools, worker->port, &js->parents->self,
		&js->parents->parent[p].at, &h, proof, bytes);
	worker->count.created++;
	if (unlikely(packet == NULL)) {
		worker->count.drops[PPE_DROP_NO_MBUF]++;
		return;
	}
	charge(worker, js, 1, packet->pkt_len);
	ppe_output(worker, packet, parent->port, PKTBUF_PRIO_RESULT);
}

static void
join_all(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct ppe_job *j)
{
	struct parents_home *parents = js->home->parents;

	parents->sent = worker->now;
	for (unsigned int p = 0; p < j->nb_parents; p++)
		if (in_set(parents->set, p))
			join_parent(worker, thread, js, j, p);
}

/* The sources did not ask for a while: forget what the parents said or left unanswered. */
static void
resume(struct parents_home *parents, uint32_t now)
{
	for (unsigned int p = 0; p < PPE_PARENTS_MAX; p++) {
		parents->parent[p].unanswered = 0;
		parents->parent[p].refused = (struct parent_refusal){0};
	}
	parents->begun = now;
}

/* The status for a repeated join of a source: the parents' verdict. */
static enum weir_status
verdict(const struct parents_home *parents)
{
	bool gone = true;

	for (unsigned int p = 0; p < PPE_PARENTS_MAX; p++) {
		uint8_t setting = parents->parent[p].refused.setting;

		if (!in_set(parents->set, p))
			continue;
		if (setting != 0 && setting != PPE_PARENT_GONE)
			return WEIR_STATUS_UNSUPPORTED;
		gone = gone && setting == PPE_PARENT_GONE;
	}
	return gone ? WEIR_STATUS_REFUSED : WEIR_STATUS_WAITING;
}

enum weir_status
parents_join(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, bool repeat)
{
	const struct collective *state = ppe_state(worker, thread);
	const struct ppe_job *j = worker->jobs->by_id[js->job];
	struct parents_home *parents = js->home->parents;
	uint32_t now = heard_now(worker->now);

	if (parents->last == 0 || has_passed(parents->last, now, js->home->kept_s))
		resume(parents, now);
	parents->last = now;
	if (parents->used || parents->set == 0 ||
		(parents->set != parents->all && has_passed(parents->begun, now, ATTEMPT_S))) {
		uint8_t left = (uint8_t)(parents->all & ~parents->dead);

		parents->dead = 0;
		parents->begun = now;
		resume(parents, now);
		attempt(js->home, left != 0 ? left : parents->all);
	} else if (!shrink(js->home, unusable(parents, now)) &&
		worker->now - parents->sent < state->tsc_per_ms) {
		return WEIR_STATUS_WAITING;
	}
	join_all(worker, thread, js, j);
	return repeat ? verdict(parents) : WEIR_STATUS_WAITING;
}

void
parents_joined(const struct parents_home *parents, uint64_t ranks[MASK_WORDS])
{
	uint64_t all[MASK_WORDS];
	bool any = false;

	memset(all, 0xff, sizeof(all));
	for (unsigned int p = 0; p < PPE_PARENTS_MAX; p++)
		if (in_set(parents->set, p) && !parents->used) {
			any = true;
			for (unsigned int i = 0; i < MASK_WORDS; i++)
				all[i] &= parents->parent[p].joined[i];
		}
	for (unsigned int i = 0; any && i < MASK_WORDS; i++)
		ranks[i] |= all[i];
}

/* ---- answers ---- */

/* Does the setting of this job agree with that of the parent's? docs/tree.md, "Timeouts". */
static bool
agrees(enum weir_setting setting, const uint32_t *ours, const uint32_t *theirs)
{
	uint32_t timeout = ours[WEIR_SETTING_TIMEOUT], other = theirs[setting];

	if (setting == WEIR_SETTING_TIMEOUT)
		return ours[WEIR_SETTING_POLICY] == PPE_POLICY_WAIT ||
			other >= ppe_parent_timeout_least(timeout);
	if (setting == WEIR_SETTING_DEAD_AFTER)
		return !ppe_policy_sends_partial(ours[WEIR_SETTING_POLICY]) || other == 0 ||
			other >= ours[setting] + timeout;
	if (setting == WEIR_SETTING_REJOIN)
		return ours[setting] != 0 && other != 0;
	return ours[setting] == other ||
		(weir_setting_table[setting].to & WEIR_SETTING_TO_SWITCH) == 0;
}

/* The first setting on which two hops must agree and do not. */
static struct parent_refusal
disagreeing(const struct ppe_job *j, const struct weir_accepted *accepted)
{
	uint32_t ours[WEIR_SETTINGS];

	announce_settings(j, ours);
	for (unsigned int s = 1; s < WEIR_SETTINGS; s++)
		if (!agrees(s, ours, accepted->setting))
			return (struct parent_refusal){s, ours[s], accepted->setting[s]};
	if (j->tree_ranks != accepted->sources)
		return (struct parent_refusal){PPE_PARENT_RANKS, j->tree_ranks, accepted->sources};
	if (accepted->unknown != 0)
		return (struct parent_refusal){PPE_PARENT_UNKNOWN, 0, accepted->unknown};
	return (struct parent_refusal){0};
}

struct parent_answer {
	const struct weir_header *header;
	const struct ppe_job *j;
	struct parent_join *join;
	unsigned int parent;
	uint32_t bytes;
	uint8_t payload[REPLY_BYTES];
};

/* Does it answer the attempt's join, or a join that is repeated to a parent with a key in the
 * running generation? */
static bool
answers_join(const struct job_shard *js, const struct parent_answer *a)
{
	const struct parents_home *parents = js->home->parents;

	return in_set(parents->set, a->parent) && parents->last != 0 &&
		(!parents->used || a->j->parent[a->parent].keyed) &&
		a->header->src_id == a->j->first_rank &&
		a->header->block_id == weir_get32(a->join->nonce);
}

/* Take `ok`: the parent's generation has begun with the attempt's set. PPE_DROP_COUNT: taken. */
static enum ppe_drop
take_accepted(struct collective *state, struct job_shard *js, struct parent_answer *a)
{
	const struct ppe_parent *parent = &a->j->parent[a->parent];
	struct weir_accepted accepted;
	size_t bytes = weir_accepted_read(a->payload, a->bytes, true, &accepted);

	if (bytes == 0 || a->header->gen_id == WEIR_GEN_JOIN)
		return PPE_DROP_LENGTH;
	a->join->refused = disagreeing(a->j, &accepted);
	if (a->join->refused.setting != 0)
		return PPE_DROP_COUNT;
	if (a->bytes !=
		bytes + (parent->keyed ? WEIR_CHALLENGE_BYTES : 0) +
			(a->j->authenticated ? WEIR_KEY_BYTES : 0))
		return PPE_DROP_LENGTH;
	if (a->j->authenticated &&
		!parent_unwrap_keys(
			state, parent->key, a->join, a->header->gen_id, a->payload + bytes))
		return PPE_DROP_NO_MBUF;
	a->join->generation = a->header->gen_id;
	a->join->timeout_ms = accepted.setting[WEIR_SETTING_TIMEOUT];
	js->home->parents->accepted |= (uint8_t)(1u << a->parent);
	return PPE_DROP_COUNT;
}

/* Take `waiting`. *again: another join can succeed at once. */
static enum ppe_drop
take_waiting(struct job_shard *js, struct parent_answer *a, bool *again)
{
	struct parents_home *parents = js->home->parents;
	bool keyed = a->j->parent[a->parent].keyed;
	const uint8_t *challenge = a->payload + WEIR_BITMAP_BYTES;

	if (a->bytes != WEIR_BITMAP_BYTES + (keyed ? WEIR_CHALLENGE_BYTES : 0))
		return PPE_DROP_LENGTH;
	memcpy(a->join->joined, a->payload, WEIR_BITMAP_BYTES);
	a->join->refused = (struct parent_refusal){0};
	parents->accepted &= (uint8_t) ~(1u << a->parent);
	if (keyed && memcmp(a->join->challenge, challenge, WEIR_CHALLENGE_BYTES) != 0) {
		memcpy(a->join->challenge, challenge, WEIR_CHALLENGE_BYTES);
		*again = true;
	}
	*again |= shrink(js->home, (uint8_t)~a->header->root);
	return PPE_DROP_COUNT;
}

static enum ppe_drop
take_answer(struct collective *state, struct job_shard *js, struct parent_answer *a, bool *again)
{
	uint32_t ours = js->own_ranks, theirs = a->header->src_cnt != 0 ? a->header->src_cnt : 256;

	switch (a->header->status) {
	case WEIR_STATUS_OK: return take_accepted(state, js, a);
	case WEIR_STATUS_WAITING: return take_waiting(js, a, again);
	case WEIR_STATUS_REFUSED:
		a->join->refused = (struct parent_refusal){PPE_PARENT_GONE, 0, 0};
		break;
	case WEIR_STATUS_UNSUPPORTED:
		a->join->refused = ours == theirs
			? (struct parent_refusal){PPE_PARENT_ABOVE, 0, 0}
			: (struct parent_refusal){PPE_PARENT_SOURCE_RANKS, ours, theirs};
		break;
	default: return PPE_DROP_NOT_FROM_PARENT;
	}
	js->home->parents->accepted &= (uint8_t) ~(1u << a->parent);
	return PPE_DROP_COUNT;
}

/* Does the reply have a CRC? It does if a parent that asks for no proofs accepts, in a job with
 * CRCs. */
static bool
has_crc(const struct parent_answer *a)
{
	return !a->j->parent[a->parent].keyed && a->header->status == WEIR_STATUS_OK &&
		weir_accepted_has_crc(a->payload, a->bytes);
}

/* The job of a packet from a parent at its home shard; NULL: it has been dropped. */
static struct job_shard *
at_home(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct contribution *c = &lmem(thread)->c;
	struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = state->job[c->header.job_id];

	if (unlikely(js == NULL || js->serial != c->serial || js->home == NULL ||
		    js->home->parents == NULL)) {
		ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
		return NULL;
	}
	/* Other workers read the joins now. A source's next packet brings the answer again. */
	if (unlikely(js->home->announcing)) {
		js->count.held_back++;
		ppe_drop(worker, thread, PPE_DROP_HELD_BACK);
		return NULL;
	}
	return js;
}

static enum weir_over
parent_why_over(const struct weir_header *h)
{
	switch (h->status) {
	case WEIR_STATUS_EXPIRED: return WEIR_OVER_EXPELLED;
	case WEIR_STATUS_REFUSED: return WEIR_OVER_GONE;
	default: return h->gen_id != WEIR_GEN_JOIN ? WEIR_OVER_JOINED : h->src_cnt;
	}
}

/* Take the answer to a join of the running generation. */
static struct ppe_next
parent_over(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct parent_answer *a)
{
	if (a->header->status != WEIR_STATUS_STALE || js->is_revoked ||
		a->join->generation == a->header->gen_id ||
		a->join->generation != js->parents->parent[a->parent].hop.generation)
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	return announce_end(worker, thread, js, parent_why_over(a->header));
}

struct ppe_next
parent_join_reply(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = at_home(worker, thread);
	struct parent_answer a = {.header = &c->header, .parent = c->parent};
	uint32_t now = heard_now(worker->now);
	struct pktbuf_cursor cursor;
	bool again = false;
	enum ppe_drop reason;

	if (js == NULL || !checksums_hold(worker, thread))
		return PPE_END;
	a.j = worker->jobs->by_id[js->job];
	a.join = &js->home->parents->parent[a.parent];
	if (!answers_join(js, &a))
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	if (a.j->parent[a.parent].keyed &&
		!parent_reply_holds(worker, thread, js, a.j->parent[a.parent].key, a.join->nonce))
		return PPE_END;
	if (js->home->parents->used)
		return parent_over(worker, thread, js, &a);
	a.bytes = c->bytes;
	pktbuf_cursor_init(&cursor, thread->packet, c->payload, c->bytes);
	if (c->bytes > sizeof(a.payload) ||
		pktbuf_cursor_copy(&cursor, a.payload, c->bytes) != c->bytes)
		return ppe_drop(worker, thread, PPE_DROP_LENGTH);
	if (has_crc(&a) && !hop_result_crc_holds(worker, thread, js))
		return PPE_END;
	a.bytes = c->bytes;
	reason = take_answer(state, js, &a, &again);
	if (reason != PPE_DROP_COUNT)
		return ppe_drop(worker, thread, reason);
	a.join->heard = now;
	a.join->unanswered = 0;
	if (join_is_complete(js, now)) {
		if (js->home->parents->accepted == js->home->parents->set) {
			js->home->parents->used = true;
			return announce_begin(worker, thread, js);
		}
		if (again)
			join_all(worker, thread, js, a.j);
	}
	return ppe_consume(worker, thread);
}

/* ---- the running generation ---- */

void
parents_begin(struct job_shard *js, const struct parents_home *home)
{
	struct parents *parents = js->parents;

	parents->nb_serving = 0;
	parents->peer_waits = false;
	for (unsigned int p = 0; p < parents->nb_parents; p++) {
		const struct parent_join *join = &home->parent[p];
		struct parent *parent = &parents->parent[p];
		bool serves = in_set(home->set, p);

		parent->hop.generation = serves ? join->generation : 0;
		parent->timeout_ms = join->timeout_ms;
		parent->unanswered = 0;
		parent->backoff = 0;
		parent->no_probes = false;
		if (!serves)
			continue;
		parents->serving[parents->nb_serving++] = (uint8_t)p;
		if (parent->keys != NULL) {
			pktbuf_tag_expand(&parent->keys->contributions, join->contributions);
			pktbuf_tag_expand(&parent->keys->results, join->results);
		}
	}
}

void
parents_end(struct job_shard *js)
{
	struct parents *parents = js->parents;

	parents->nb_serving = 0;
	for (unsigned int p = 0; p < parents->nb_parents; p++)
		parents->parent[p].hop.generation = 0;
}

struct ppe_next
parent_revoked(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = at_home(worker, thread);

	if (js == NULL)
		return PPE_END;
	if (!parent_is_of_generation(js, &js->parents->parent[c->parent], &c->header))
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	return announce_end(worker, thread, js, parent_why_over(&c->header));
}

struct ppe_next
parent_timeout(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = at_home(worker, thread);

	if (js == NULL)
		return PPE_END;
	if (js->is_revoked || js->hop.generation != c->header.gen_id)
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	js->home->parents->dead |= (uint8_t)(1u << c->parent);
	js->home->parents->parent[c->parent].given_up++;
	return announce_end(worker, thread, js, WEIR_OVER_SILENT);
}

struct ppe_next
parent_prove(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct contribution *c = &lmem(thread)->c;
	struct job_shard *js = at_home(worker, thread);

	if (js == NULL)
		return PPE_END;
	if (js->is_revoked || js->hop.generation != c->header.gen_id || !js->home->parents->used)
		return ppe_drop(worker, thread, PPE_DROP_STALE);
	join_parent(worker, thread, js, worker->jobs->by_id[js->job], c->parent);
	return ppe_drop(worker, thread,
		c->header.collective == WEIR_COLLECTIVE_PROBE ? PPE_DROP_PROBED
							      : PPE_DROP_DUPLICATE);
}

void
parent_note_question(struct parent *parent, uint32_t now)
{
	if (parent->unanswered == 0 || has_passed(parent->asked, now, SILENT_S)) {
		parent->unanswered = parent->proved = now;
		parent->questions = 0;
	}
	parent->asked = now;
}

/* Has the parent been silent for its timeout and `seconds`? */
static bool
is_overdue(const struct parent *parent, uint32_t now, unsigned int seconds)
{
	uint64_t hz = rte_get_tsc_hz();
	uint64_t patience = hz / 1000 * parent->timeout_ms + seconds * hz;

	return parent->unanswered != 0 &&
		ticks_since(parent->unanswered, now) > patience >> HEARD_SHIFT;
}

void
parent_note_questions(struct parent *parent, unsigned int questions, uint32_t now)
{
	if (is_overdue(parent, now, 0))
		parent->questions += questions;
}

ppe_segment
parent_silence(struct parent *parent, uint32_t now)
{
	if (parent->questions >= SILENT_QUESTIONS && is_overdue(parent, now, SILENT_S))
		return parent_timeout;
	if (parent->keys == NULL || parent->unanswered == 0 || !has_passed(parent->proved, now, 1))
		return NULL;
	parent->proved = now;
	return parent_prove;
}
