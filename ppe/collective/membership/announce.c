/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announcements: how all shards of a job learn that a generation begins or ends, or that a source
 * has moved.
 *
 * A thread leaves the home shard, visits all workers in turn and returns. There is at most one such
 * thread per job. The thread of a last join gives each shard the new generation and the endpoints,
 * and then answers all sources. Meanwhile the shards read the collection, and no thread writes it.
 * If a member leaves during the announcement, no source is answered.
 */
#include "ppe/collective/collective_fast.h"
#include "ppe/collective/membership/membership.h"

static struct ppe_next adopt(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next joined(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next revoke(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next revoked(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next move_endpoint(struct ppe_worker *worker, struct ppe_thread *thread);
static struct ppe_next endpoint_moved(struct ppe_worker *worker, struct ppe_thread *thread);

/* ---- answers ---- */

/* Packets per step, so that other threads run in between. */
#define ANSWER_STEP 8

void
announce_settings(const struct ppe_job *j, uint32_t setting[WEIR_SETTINGS])
{
	const uint32_t settings[WEIR_SETTINGS] = {
		[WEIR_SETTING_WINDOW] = j->window,
		[WEIR_SETTING_ELEMENTS] = j->elements,
		[WEIR_SETTING_TIMEOUT] = j->timeout_ms,
		[WEIR_SETTING_TYPE] = j->dtype,
		[WEIR_SETTING_OP] = j->op,
		[WEIR_SETTING_INTEGRITY] = j->integrity,
		[WEIR_SETTING_AUTHENTICATE] = j->authenticated,
		[WEIR_SETTING_RESULTS] = j->group,
		[WEIR_SETTING_ALLTOALL] = j->alltoall,
		[WEIR_SETTING_POLICY] = j->policy,
		[WEIR_SETTING_DETERMINISTIC] = j->deterministic,
		[WEIR_SETTING_NARROW] = j->narrow,
		[WEIR_SETTING_REJOIN] = j->revoke,
		[WEIR_SETTING_DEAD_AFTER] = j->dead_after_ms,
	};

	memcpy(setting, settings, sizeof(settings));
}

static void
send_accepted(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	const struct pktbuf_endpoint *to, const struct ppe_job *j)
{
	struct collective *state = ppe_state(worker, thread);
	struct answers *a = &lmem(thread)->answers;
	const struct claim *joined = &js->home->joined[a->header.src_id];
	struct weir_accepted accepted = {.sources = ppe_job_tree_ranks(j),
		.more_ports = (uint8_t)(worker->identity->ports - 1),
		.skips_own = to->skips_own};
	uint8_t payload[REPLY_BYTES + WEIR_TAG_BYTES];
	uint8_t bytes;

	announce_settings(j, accepted.setting);
	bytes = (uint8_t)weir_accepted_write(&accepted, j->children, joined->asks_list, payload);
	if (js->own != NULL) {
		memcpy(payload + bytes,
			js->keys != NULL ? js->keys->challenge : js->home->generation_challenge,
			WEIR_CHALLENGE_BYTES);
		bytes += WEIR_CHALLENGE_BYTES;
		if (js->keys != NULL)
			bytes += keys_wrap_results(
				state, js, a->header.src_id, joined, payload + bytes);
		bytes += keys_tag_reply(
			state, js, &a->header, joined->epoch, joined->proof, payload, bytes);
	} else if (js->crc_bytes != 0) {
		bytes += hop_crc_reply(&a->header, payload, bytes);
	}
	reply_send_packet(worker, js, to, &a->header, payload, bytes);
}

/* Answer the sources, each under its own nonce. */
static struct ppe_next
answer(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct answers *a = &lmem(thread)->answers;
	struct job_shard *js = state->job[a->header.job_id];
	const struct ppe_job *j = worker->jobs->by_id[a->header.job_id];

	if (unlikely(js == NULL || j == NULL || js->hop.generation != a->header.gen_id))
		return PPE_END;
	for (unsigned int sent = 0; a->next < a->end && sent < ANSWER_STEP; a->next++) {
		struct pktbuf_endpoint to = js->endpoint[a->next];

		if (!to.valid || !mask_test(js->home->in, (uint8_t)a->next))
			continue;
		to.extended = true;
		a->header.src_id = (uint8_t)a->next;
		a->header.block_id = js->home->joined[a->next].nonce;
		a->header.root = js->rank[a->next];
		send_accepted(worker, thread, js, &to, j);
		js->count.results++;
		sent++;
		join_tell_displaced(worker, thread, js, (uint8_t)a->next);
	}
	return a->next < a->end ? PPE_RUN(answer) : PPE_END;
}

struct ppe_next
announce_answer(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, int only)
{
	struct answers *a = &lmem(thread)->answers;

	ppe_consume(worker, thread);
	*a = (struct answers){
		.header = {.extended = true,
			.job_id = js->job,
			.gen_id = js->hop.generation,
			.src_cnt = (uint8_t)js->nb_ranks,
			.flags = js->own != NULL ? WEIR_FLAG_AUTHENTICATED : js->hop.flags,
			.collective = WEIR_COLLECTIVE_JOIN},
		.next = only < 0 ? 0 : (uint16_t)only,
		.end = only < 0 ? js->source_end : (uint16_t)(only + 1),
	};
	return PPE_RUN(answer);
}

/* ---- the tour of the workers ---- */

/* Begin a tour: run `segment` on each worker in turn. Other announcement fields are set already. */
static struct ppe_next
announce(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	uint16_t generation, ppe_segment segment)
{
	struct announcement *announcement = &lmem(thread)->announcement;

	js->home->announcing = true;
	announcement->home = js->home;
	announcement->serial = js->serial;
	announcement->home_worker = worker->id;
	announcement->generation = generation;
	announcement->job = js->job;
	return ppe_hop_certain(worker, thread, 0, segment);
}

/* Go to the next worker, or from the last worker back to the home shard, to `back`. */
static struct ppe_next
go_on(struct ppe_worker *worker, struct ppe_thread *thread, ppe_segment segment, ppe_segment back)
{
	if (worker->id + 1u < worker->workers)
		return ppe_hop_certain(worker, thread, (uint16_t)(worker->id + 1), segment);
	return ppe_hop_certain(worker, thread, lmem(thread)->announcement.home_worker, back);
}

/* The announcement's job on this worker; NULL: it is gone, or not here yet. (Its home lives as long
 * as any worker has the job.) */
static struct job_shard *
announced_job(const struct collective *state, const struct announcement *announcement)
{
	struct job_shard *js = state->job[announcement->job];

	return js != NULL && js->serial == announcement->serial ? js : NULL;
}

/* ---- a generation begins ---- */

static uint16_t
generation_after(const struct job_shard *js)
{
	uint16_t begun = js->home->begun;
	uint16_t next = begun == 0 ? js->first_generation : (uint16_t)(begun + 1);

	return next == WEIR_GEN_JOIN ? 1 : next;
}

struct ppe_next
announce_begin(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js)
{
	struct job_home *home = js->home;

	home->begun = generation_after(js);
	if (js->own != NULL)
		keys_challenge_next(home, home->generation_challenge);
	memset(home->in, 0, sizeof(home->in)); /* the former generation is over */
	lmem(thread)->announcement = (struct announcement){0};
	return announce(worker, thread, js, home->begun, adopt);
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
		if (js->keys != NULL && js->hop.generation != announcement->generation)
			keys_begin(state, js, announcement->generation,
				announcement->home->generation_challenge,
				announcement->home->asking);
		if (unlikely(!generation_begin(
			    state, js, announcement->generation, announcement->home)))
			announcement->missed = true;
		if (js->parents != NULL)
			js->tree->begin(js, announcement->home->parents);
	} else {
		announcement->missed = true;
	}
	return go_on(worker, thread, adopt, joined);
}

static void
end_announcement(struct job_shard *js)
{
	if (likely(js != NULL)) {
		(void)join_abandon(js->home);
		js->home->announcing = false;
	}
}

/* The announcement is over: the generation begins, and all sources are answered. */
static struct ppe_next
joined(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	struct job_shard *js = announced_job(state, &lmem(thread)->announcement);
	struct job_home *home;

	if (unlikely(js == NULL))
		return ppe_drop(worker, thread, PPE_DROP_UNKNOWN_JOB);
	home = js->home;
	if (unlikely(join_abandon(home))) {
		home->announcing = false;
		return ppe_drop(worker, thread, PPE_DROP_HELD_BACK);
	}
	if (unlikely(lmem(thread)->announcement.missed)) {
		/* The workers' job tables differ for a short time: repeat the tour. */
		lmem(thread)->announcement.missed = false;
		return ppe_hop_certain(worker, thread, 0, adopt);
	}
	join_adopt(js);
	home->announcing = false;
	js->count.generations++; /* in the home shard only: the shards are summed */
	return announce_answer(worker, thread, js, -1);
}

/* ---- a generation ends ---- */

struct ppe_next
announce_end(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js,
	enum weir_over why)
{
	js->count.revokes++;
	lmem(thread)->announcement = (struct announcement){.over = (uint8_t)why};
	return announce(worker, thread, js, js->hop.generation, revoke);
}

/* On each worker in turn: end the generation. */
static struct ppe_next
revoke(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct collective *state = ppe_state(worker, thread);
	const struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(state, announcement);

	if (likely(js != NULL) && likely(js->hop.generation == announcement->generation)) {
		generation_end(state, js, announcement->over);
		if (js->parents != NULL)
			js->tree->end(js);
	}
	return go_on(worker, thread, revoke, revoked);
}

static struct ppe_next
revoked(struct ppe_worker *worker, struct ppe_thread *thread)
{
	end_announcement(announced_job(ppe_state(worker, thread), &lmem(thread)->announcement));
	return ppe_consume(worker, thread);
}

/* ---- a source has moved ---- */

struct ppe_next
announce_endpoint(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *js, uint8_t source)
{
	lmem(thread)->announcement =
		(struct announcement){.endpoint = js->home->joined[source].at, .source = source};
	return announce(worker, thread, js, js->hop.generation, move_endpoint);
}

/* On each worker in turn: set the source's endpoint. */
static struct ppe_next
move_endpoint(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(ppe_state(worker, thread), announcement);

	if (likely(js != NULL) && js->hop.generation == announcement->generation &&
		js->endpoint[announcement->source].valid)
		source_set_endpoint(worker, js, announcement->source, &announcement->endpoint);
	return go_on(worker, thread, move_endpoint, endpoint_moved);
}

static struct ppe_next
endpoint_moved(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct announcement *announcement = &lmem(thread)->announcement;
	struct job_shard *js = announced_job(ppe_state(worker, thread), announcement);

	end_announcement(js);
	if (likely(js != NULL) && js->hop.generation == announcement->generation)
		return announce_answer(worker, thread, js, announcement->source);
	return ppe_drop(worker, thread, PPE_DROP_STALE);
}

const struct ppe_segment_name announce_segments[] = {
	{adopt, "adopt", "hop:adopt hop:joined"},
	{joined, "joined", "hop:adopt answer consume drop:unknown_job drop:held_back"},
	{revoke, "revoke", "hop:revoke hop:revoked"},
	{revoked, "revoked", "consume"},
	{move_endpoint, "follow", "hop:follow hop:followed"},
	{endpoint_moved, "followed", "answer consume drop:stale"},
	{answer, "answer", "answer output"},
	{0},
};
