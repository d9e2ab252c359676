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
 * It owns struct parents of each shard and struct parents_home of the home shard, BLOCK_UP and what
 * struct block notes for it (parent_status, probed, asks, backoff), and slot.asked. The other rooms
 * reach it through `tree_ops` only.
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
	struct pktbuf_header_template header; /* of what goes to it */
	uint32_t timeout_ms; /* of its job */
	uint32_t unanswered; /* the first repetition since its last packet here; 0: none */
	uint32_t asked; /* the last repetition */
	uint32_t questions; /* since `unanswered` that it should have answered */
	uint32_t proved; /* `unanswered`, or the last join that was repeated since */
	uint64_t answer; /* TSC cycles from a packet to the parent to its answer, smoothed */
	uint8_t backoff; /* doublings with which the next block begins: parent.c */
	bool no_probes; /* it does not know probes */
	struct parent_keys *keys; /* not NULL when packets on this hop have tags */
};

/* The parents, in one shard of a job that has parents. */
struct parents {
	struct pktbuf_identity self; /* with the port for parents in place of the extended one */
	uint8_t nb_parents;
	uint8_t nb_serving; /* parents to which blocks go; 0: this switch takes part nowhere */
	/* Block b goes to serving[(b mod window) mod nb_serving]. */
	uint8_t serving[PPE_PARENTS_MAX];
	uint8_t bound; /* bit p: the addresses of parent p are bound to its port: ppe/guard.h */
	/* By residue: the ranks that the parent said are in the block. */
	uint64_t (*known)[MASK_WORDS];
	bool peer_waits; /* `peer` repeated a contribution, and waits for what the parent says */
	struct reply_peer peer; /* the last one */
	struct parent parent[PPE_PARENTS_MAX];
};

/* Why a switch does not take part in a parent's job. */
struct parent_refusal {
	uint8_t setting; /* enum ppe_parent_setting; 0: it does */
	uint32_t ours, theirs;
};

/* A join at a parent. Home shard: rw, control: ro; other shards read it during an announcement. */
struct parent_join {
	/* Its first 4 bytes alone, if joins there need no proof. */
	uint8_t nonce[WEIR_CHALLENGE_BYTES];
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* proved: to be quoted */
	uint32_t count; /* proved: transmissions with this nonce */
	uint32_t asked; /* heard_now() of the first join since the last answer */
	uint32_t heard; /* heard_now() of that answer; 0: none */
	uint32_t unanswered; /* joins since that answer */
	uint32_t given_up; /* how often it was taken for dead */
	struct parent_refusal refused; /* by its last answer */
	uint64_t joined[MASK_WORDS]; /* ranks, by its last answer */
	/* When accepted: */
	uint16_t generation; /* of its job */
	uint32_t timeout_ms; /* of its job */
	uint8_t contributions[WEIR_KEY_BYTES], results[WEIR_KEY_BYTES]; /* authenticated: keys */
};

/* Joins at the parents. Rights as in struct parent_join. */
struct parents_home {
	uint8_t all; /* parents, as sets */
	uint8_t set; /* with which the attempt is made; 0: there was none yet */
	uint8_t accepted; /* that have accepted its joins */
	uint8_t dead; /* without which the next attempt begins */
	bool used; /* the nonces have begun a generation */
	uint32_t begun, last; /* heard_now() of the first attempt's and the last join; 0: none */
	uint64_t sent; /* TSC of the last one */
	struct parent_join parent[PPE_PARENTS_MAX];
};

/* What the rooms below ask of a job that has parents or children. */
extern const struct tree_ops tree_ops;

/* ---- child.c ---- */

/* May this header with a status, source count or the flag `up` be a switch's to its parent? job:
 * NULL: there is no such job. Any worker. */
bool child_may_send(const struct ppe_job *job, const struct weir_header *header);

/* tree_ops.fits: does a child's contribution of so many bytes, tag and CRC excluded, fit its ranks,
 * and the job? */
bool child_fits(const struct collective *state, const struct job_shard *job,
	const struct ppe_job *table, const struct contribution *contribution, uint32_t bytes);

/* tree_ops.degraded: a contribution that lacks ranks, or says that the child's block failed, has
 * been admitted. Ends the packet. */
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

/* tree_ops.contribute: what was collected of an open block goes to the parent, and does not change
 * any more. The buffer keeps it. */
void parent_contribute(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* The contribution again. */
void parent_repeat(struct ppe_worker *worker, struct job_shard *job, struct block *block);

#define PROBED_MS 20 /* after this silence, a parent gets contributions beside probes */

/*
 * tree_ops.ask: a host's packet is about a block that is not open and has no result here. Repeat
 * the contribution to the parent or, if the block is the next of its residue, the acknowledgement,
 * at most once per millisecond and residue. probe: the packet is a probe; this switch then sends a
 * probe instead of the contribution, less often, unless the parent is silent or does not know
 * probes.
 */
void parent_ask(struct collective *state, struct job_shard *job, uint32_t block, bool probe);

/* The block's parent waits for others. If these cannot reach it, they have left for the other
 * parents, which then answer `stale`; but nothing may be due there. So ask the others in turn, with
 * an acknowledgement of a block that no switch has. */
void parent_ask_another(struct ppe_worker *worker, struct job_shard *job, uint32_t block);

/* Tell the source that asked last about the block what the parent says. */
void parent_relay_status(struct ppe_worker *worker, struct collective *state, struct job_shard *job,
	const struct block *block);

/* tree_ops.pending: a contribution to a block that has been sent to the parent, or a probe of it.
 * Ends the packet. */
struct ppe_next parent_block_pending(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* Write the tag of what this reply answers: a probe, or what this switch last sent of the block. */
void parent_sent_tag(const struct job_shard *job, const struct parent *parent,
	const struct weir_header *reply, uint8_t tag[WEIR_TAG_BYTES]);

/* ---- parent_reply.c ---- */

/* The segment for a packet to the port for parents, on the worker that received it. */
struct ppe_next parent_entry(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name parent_segments[];

/* The job, and its parent, from which this packet to the port for parents comes; NULL: from none.
 * Any worker. */
const struct ppe_job *parent_find_sender(const struct ppe_worker *worker,
	const struct ppe_thread *thread, const struct weir_header *header, uint8_t *parent);

/* Is the packet from a parent of the generation in which this switch takes part? `stale` is if it
 * names another one; `refused` names none. */
bool parent_is_of_generation(
	const struct job_shard *job, const struct parent *parent, const struct weir_header *header);

/* ---- parent_join.c. Home shard, unless a comment says otherwise ---- */

/* What the home shard of a job with parents has in addition; NULL: no memory. Control thread. */
struct parents_home *parents_home_create(const struct ppe_job *job, int socket);

/* tree_ops.join: all sources have joined, so join at the parents, at most once per millisecond.
 * repeat: the source repeats its join. Returns what the source is told. */
enum weir_status parents_join(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job, bool repeat);

/* tree_ops.joined: add the ranks that have joined at all parents, as these say. */
void parents_joined(const struct parents_home *home, uint64_t ranks[MASK_WORDS]);

/* tree_ops.begin, .end: during an announcement, in each shard of a job with parents: the generation
 * begins with these joins at the parents; it ends. */
void parents_begin(struct job_shard *job, const struct parents_home *home);
void parents_end(struct job_shard *job);

/* The parent is asked, `questions` times. A pause resets the count: the parent need not have
 * answered the questions before it. Only questions after the parent's timeout count, because it
 * must answer only those. */
void parent_note_question(struct parent *parent, uint32_t now);
void parent_note_questions(struct parent *parent, unsigned int questions, uint32_t now);

/* What the home shard has to do with a source's packet that has found the parent so silent; NULL:
 * nothing. */
ppe_segment parent_silence(struct parent *parent, uint32_t now);

/* Segments at the job's home shard: for a parent's answer to a join; for a packet that says that
 * the parent's generation is over; for a source's packet when the parent has left too many
 * questions unanswered, for too long; and when it has left an authenticated job's unanswered for a
 * second: after a restart it can verify nothing but a join, which is repeated. They end the packet,
 * and the second and the third the generation. */
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
 * ends before that. false: the packet has been dropped. */
bool parent_packet_holds(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, struct parent *parent);

#endif
