/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree room: jobs whose switch is a source of other switches' jobs, or whose sources are
 * switches. docs/tree.md.
 *
 *   parent.c        contributions to a parent, repetitions and probes
 *   parent_reply.c  results and replies of a parent
 *   parent_join.c   generations: joins at the parents
 *   parent_keys.c   tags and CRCs on the hop to a parent
 *   child.c         contributions of switches
 *
 * It owns struct parents of each shard and struct parents_home of the home shard, the state
 * BLOCK_UP with its fields in struct block (parent_status, probed, asks, backoff), and slot.asked.
 * The other rooms reach it only through `tree_ops`.
 *
 * Functions are for the worker that owns the block's shard, unless a comment says otherwise.
 */
#ifndef PPE_COLLECTIVE_TREE_TREE_H
#define PPE_COLLECTIVE_TREE_TREE_H

#include "ppe/collective/collective_priv.h"
#include "ppe/collective/membership/membership.h"

/* The keys of a parent's generation. */
struct parent_keys {
	struct pktbuf_tag_key contributions, results;
};

/* A parent, in one shard. Times are heard_now(). */
struct parent {
	struct hop hop; /* generation: of its job, in which this switch takes part; 0: none */
	uint32_t heard; /* its last packet here; 0: none yet */
	struct pktbuf_endpoint at;
	struct pktbuf_header_template header; /* of packets to it */
	uint32_t timeout_ms; /* of its job */
	uint32_t unanswered; /* the first repetition since its last packet here; 0: none */
	uint32_t asked; /* the last repetition */
	uint32_t questions; /* that it should have answered since `unanswered` */
	uint32_t proved; /* `unanswered`, or the last join repeated since then */
	uint64_t answer; /* TSC cycles from a packet to the parent to its answer, smoothed */
	uint8_t backoff; /* doublings with which the next block begins: parent.c */
	bool no_probes; /* it does not know probes */
	struct parent_keys *keys; /* not NULL when packets on this hop have tags */
};

/* The parents, in one shard of a job that has parents. */
struct parents {
	struct pktbuf_identity self; /* with the port for parents in place of the extended port */
	uint8_t nb_parents;
	uint8_t nb_serving; /* parents to which blocks go; 0: none */
	/* Block b goes to serving[(b mod window) mod nb_serving]. */
	uint8_t serving[PPE_PARENTS_MAX];
	uint8_t bound; /* bit p: the addresses of parent p are bound to its port: ppe/guard.h */
	/* By residue: the ranks that the parent said are in the block. */
	uint64_t (*known)[MASK_WORDS];
	bool peer_waits; /* `peer` repeated a contribution, and waits for what the parent says */
	struct reply_peer peer; /* the last peer */
	struct parent parent[PPE_PARENTS_MAX];
};

/* Why a switch does not take part in a parent's job. */
struct parent_refusal {
	uint8_t setting; /* enum ppe_parent_setting; 0: it takes part */
	uint32_t ours, theirs;
};

/* A join at a parent. Home shard: rw, control: ro; other shards read it during an announcement. */
struct parent_join {
	uint8_t nonce[WEIR_CHALLENGE_BYTES]; /* only its first 4 bytes if joins need no proof */
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* proved: to be quoted */
	uint32_t count; /* proved: transmissions with this nonce */
	uint32_t asked; /* heard_now() of the first join since the last answer */
	uint32_t heard; /* heard_now() of that answer; 0: none */
	uint32_t unanswered; /* joins since that answer */
	uint32_t given_up; /* how often it was considered dead */
	struct parent_refusal refused; /* by its last answer */
	uint64_t joined[MASK_WORDS]; /* ranks, by its last answer */
	/* When accepted: */
	uint16_t generation; /* of its job */
	uint32_t timeout_ms; /* of its job */
	uint8_t contributions[WEIR_KEY_BYTES], results[WEIR_KEY_BYTES]; /* authenticated: keys */
};

/* Joins at the parents. Rights as in struct parent_join. */
struct parents_home {
	/* Sets of parents: */
	uint8_t all;
	uint8_t set; /* of the attempt; 0: there was no attempt yet */
	uint8_t accepted; /* they have accepted the attempt's joins */
	uint8_t dead; /* the next attempt begins without them */
	bool used; /* the nonces have begun a generation */
	uint32_t begun, last; /* heard_now() of the first attempt's and the last join; 0: none */
	uint64_t sent; /* TSC of the last join */
	struct parent_join parent[PPE_PARENTS_MAX];
};

/* The functions of this room for the rooms below. */
extern const struct tree_ops tree_ops;

/* ---- child.c ---- */

/* May a switch send its parent this header with a status, source count or the flag `up`? job: NULL:
 * there is no job. Any worker. */
bool child_may_send(const struct ppe_job *job, const struct weir_header *header);

/* tree_ops.fits: does a child's contribution of `bytes` bytes, without tag and CRC, fit its ranks
 * and the job? */
bool child_fits(const struct collective *state, const struct job_shard *job,
	const struct ppe_job *table, const struct contribution *contribution, uint32_t bytes);

/* tree_ops.degraded: take an admitted contribution that lacks ranks, or says that the child's block
 * failed. Ends the packet. */
struct ppe_next child_degraded(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* tree_ops.ranks: partial_ranks() where the sources are switches. */
uint16_t child_ranks(
	const struct job_shard *job, const struct block *block, uint64_t ranks[MASK_WORDS]);

/* ---- parent.c ---- */

/* The parents of a job, in one shard; NULL: no memory. parents_destroy: NULL is fine. Control
 * thread. */
size_t parents_bytes(const struct ppe_job *job);
struct parents *parents_create(const struct ppe_setup *setup, const struct ppe_job *job);
void parents_destroy(struct parents *parents);

/* Bind the parents' addresses to their ports, or release them. */
void parents_bind(struct ppe_worker *worker, struct job_shard *job);
void parents_unbind(struct ppe_worker *worker, struct job_shard *job);

/* The parent, by index, to which the block goes; PPE_PARENTS_MAX: to none. Any thread. */
unsigned int parent_of_block(const struct job_shard *job, uint32_t block);

/* The ranks that the parent said are in the block of this residue. */
static inline uint64_t *
parents_known(const struct job_shard *job, uint32_t block)
{
	return job->parents->known[block & (job->window - 1u)];
}

/* tree_ops.contribute: send the sum of an open block to the parent. The sum stays in the buffer and
 * does not change any more. */
void parent_contribute(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* Send the contribution again. */
void parent_repeat(struct ppe_worker *worker, struct job_shard *job, struct block *block);

#define PROBED_MS 20 /* after this silence, a parent also gets contributions */

/*
 * tree_ops.ask: a host's packet is about a block that is not open and has no result here. At most
 * once per millisecond and residue, repeat the contribution to the parent or, if the block is its
 * residue's next block, the acknowledgement. probe: the packet is a probe; this switch then sends a
 * probe instead of the contribution, less often, unless the parent is silent or does not know
 * probes.
 */
void parent_ask(struct collective *state, struct job_shard *job, uint32_t block, bool probe);

/* The block's parent waits for other switches. If they cannot reach it, they have joined at the
 * other parents, which answer `stale`; but this switch may have nothing to send there. So ask the
 * other parents in turn, with an acknowledgement of a block that no switch has. */
void parent_ask_another(struct ppe_worker *worker, struct job_shard *job, uint32_t block);

/* Relay the parent's status to the source that asked last about the block. */
void parent_relay_status(struct ppe_worker *worker, struct collective *state, struct job_shard *job,
	const struct block *block);

/* tree_ops.pending: take a contribution to a block that has been sent to the parent, or a probe of
 * it. Ends the packet. */
struct ppe_next parent_block_pending(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* Write the tag of what this reply answers: a probe, or the last packet about the block. */
void parent_sent_tag(const struct job_shard *job, const struct parent *parent,
	const struct weir_header *reply, uint8_t tag[WEIR_TAG_BYTES]);

/* ---- parent_reply.c ---- */

/* Is it the result of a block, and not a reply about it? */
static inline bool
parent_is_result(const struct weir_header *h)
{
	return h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH;
}

/* The segment for a packet to the port for parents, on the worker that received it. */
struct ppe_next parent_entry(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name parent_segments[];

/* Explain a packet to the port for parents (struct ppe_program's `explain`). Control thread. */
void parent_explain(const struct ppe_worker *worker, const void *const *states,
	struct ppe_thread *thread, struct ppe_explanation *explanation);

/* The job and its parent that sent this packet to the parents' port; NULL: none. Any worker. */
const struct ppe_job *parent_find_sender(const struct ppe_worker *worker,
	const struct ppe_thread *thread, const struct weir_header *header, uint8_t *parent);

/* Is the packet about the parent's generation in which this switch takes part? `stale` is if it
 * names another generation; `refused` names no generation. */
bool parent_is_of_generation(
	const struct job_shard *job, const struct parent *parent, const struct weir_header *header);

/* ---- parent_join.c. Home shard, unless a comment says otherwise ---- */

/* What the home shard of a job with parents has in addition; NULL: no memory. Control thread. */
struct parents_home *parents_home_create(const struct ppe_job *job, int socket);

/* tree_ops.join: all sources have joined, so join at the parents, at most once per millisecond.
 * repeat: the source repeats its join. Returns the status for the source. */
enum weir_status parents_join(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job, bool repeat);

/* tree_ops.joined: add the ranks that have joined at all parents, as the parents say. */
void parents_joined(const struct parents_home *home, uint64_t ranks[MASK_WORDS]);

/* tree_ops.begin, .end: begin the generation with these joins at the parents; end it. During an
 * announcement, in each shard of a job with parents. */
void parents_begin(struct job_shard *job, const struct parents_home *home);
void parents_end(struct job_shard *job);

/* Note a question to the parent; count `questions`. A pause resets the count: the parent need not
 * have answered the questions before. Only questions after the parent's timeout count, because it
 * must answer no others. */
void parent_note_question(struct parent *parent, uint32_t now);
void parent_note_questions(struct parent *parent, unsigned int questions, uint32_t now);

/* The home shard's segment for a source's packet, if the parent is silent; NULL: none. */
ppe_segment parent_silence(struct parent *parent, uint32_t now);

/* Segments at the job's home shard, which end the packet. parent_join_reply takes a parent's answer
 * to a join. parent_revoked ends the generation when the parent's generation is over.
 * parent_timeout ends it when the parent has left too many questions unanswered for too long.
 * parent_prove repeats the join at an authenticated job's parent that has answered no question for
 * a second: after a restart it can verify only a join. */
struct ppe_next parent_join_reply(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next parent_revoked(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next parent_timeout(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next parent_prove(struct ppe_worker *worker, struct ppe_thread *thread);

/* ---- parent_keys.c. key: of this switch as a source of the parent's job ---- */

/* Write the proof of a join and its tag; returns their bytes. */
uint8_t parent_prove_join(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	const struct pktbuf_identity *self, const struct weir_header *header,
	struct parent_join *join, uint8_t payload[sizeof(struct weir_join_proof) + WEIR_TAG_BYTES]);

/* Derive the keys of the parent's generation from the end of its reply; false: no memory. */
bool parent_unwrap_keys(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	struct parent_join *join, uint16_t generation,
	const uint8_t end[WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES]);

/* Verify the tag of a reply to the packet that ended with, or whose nonce was, `answered`; its
 * payload then ends before the tag. false: the packet has been dropped. */
bool parent_reply_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job,
	const uint8_t key[WEIR_KEY_BYTES], const uint8_t answered[WEIR_TAG_BYTES]);

/* Verify the tag or CRC of a packet from a parent other than the answer to a join; its payload then
 * ends before the tag or CRC. false: the packet has been dropped. */
bool parent_packet_holds(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, struct parent *parent);

#endif
