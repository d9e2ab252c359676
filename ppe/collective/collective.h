/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective program's internal functions, by file. Callers are the worker that owns the block's shard, unless
 * a comment says otherwise. */
#ifndef PPE_COLLECTIVE_COLLECTIVE_H
#define PPE_COLLECTIVE_COLLECTIVE_H

#include "ppe/collective/collective_priv.h"

/* collective.c: segments, on the worker that runs the thread. job_entry follows the parsing of the header,
 * find_block follows admission. */
struct ppe_next job_entry(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next find_block(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next verify(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next aggregate(struct ppe_worker *worker, struct ppe_thread *thread);

/* block_open() has not opened the contribution's block, for this reason. Ends the packet. */
struct ppe_next not_opened(struct ppe_worker *worker, struct ppe_thread *thread,
	const struct job_shard *job, enum ppe_drop reason, enum weir_status status);

/* An admitted contribution with a tag continues at `verify`. Only the first one that waits fetches its own payload. */
struct ppe_next await_verification(
	struct collective *state, struct job_shard *job, struct ppe_thread *thread);

/* flow_cache.c: flow_cache_create sets which bits are compared; flow_cache_lookup is struct ppe_program's `recognize`;
 * flow_cache_learn stores a parsed packet's headers; flow_cache_admit notes, in the same call of the segment, that the
 * packet was admitted. Worker. */
void flow_cache_create(struct collective *state, const struct pktbuf_identity *identity);
bool flow_cache_lookup(
	struct ppe_worker *worker, void *state, struct ppe_thread *thread, struct rte_mbuf *packet);
void flow_cache_learn(
	struct ppe_worker *worker, struct ppe_thread *thread, struct contribution *contribution);
void flow_cache_admit(struct job_shard *job, const struct contribution *contribution);

/* batch.c: struct ppe_program's `batch` and `hopped`, and their memory. -ENOMEM leaves what destroy frees. */
bool collective_hopped(const void *state, const struct rte_mbuf *packet, uint32_t job);
unsigned int collective_batch(struct ppe_worker *worker, void *state, struct rte_mbuf **packets,
	unsigned int n, unsigned int *followers);
int collective_batch_create(struct collective *state, int socket);
void collective_batch_destroy(struct collective *state);

/* admit.c: admit takes the usual contributions; examine takes all others and finds the reason. */
struct ppe_next admit(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next examine(struct ppe_worker *worker, struct ppe_thread *thread);

/* Drop the packet, which ends the thread; refuse() also tells the source why. Any worker. */
struct ppe_next end_dropped(
	struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason);
struct ppe_next refuse(struct ppe_worker *worker, struct ppe_thread *thread, enum ppe_drop reason,
	enum weir_status status);

/* Drop a packet whose sender is no source of the job (NULL: there is no such job), and tell the sender, within
 * limits. Any worker. */
struct ppe_next refuse_unknown_sender(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *job);

/* block.c: open the block of a first contribution. On success it returns PPE_DROP_COUNT, and *block is in the
 * table, empty, with its buffer. Otherwise it returns the drop reason; *block is NULL, and *status is for the
 * source (WEIR_STATUS_OK: nothing). */
enum ppe_drop block_open(struct collective *state, struct job_shard *job,
	struct contribution *contribution, uint64_t now, struct block **block,
	enum weir_status *status);

/* The same for the slot's next block, which the caller knows to be due. agreement: of the header; probe: of the block's
 * key. *block is set on success only. */
enum ppe_drop block_begin(struct collective *state, struct job_shard *job, struct slot *slot,
	const struct weir_header *header, uint64_t agreement, struct hash_probe *probe,
	uint64_t now, struct block **block);

/* The block was opened last of its residue, and has no contribution: it never was. */
void block_unopen(struct collective *state, struct job_shard *job, struct block *block);

/* End a block that is complete, timed out or failed, and fix its result. block_end() is for callers. */
void block_finish(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* block_end() of a job that is `special`. */
bool block_end_special(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* The result of an open block has come from the parent: its payload is in the buffer, in_count and `in` are set. Fix what hosts
 * get. */
void block_done(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* The distance of the block from the residue's next one. */
int32_t block_ahead(const struct job_shard *job, const struct slot *slot, uint32_t block);

/* Release the block before this one, which is done, when every source is known to have its result. */
void block_release_previous(struct collective *state, struct job_shard *job, struct block *block);

/* Contributions that are not added. Called after the checksums; each function ends the packet. */

/* The block is done: answer with the result. */
struct ppe_next answer_late(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* The source is in the block already. If the block is past its timeout, send it the bitmap. */
struct ppe_next duplicate(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct block *block);

/* A switch's contribution is held back: answer with the ranks that have the former result, so that the switch does not take
 * this one for dead. */
void answer_held_back(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *job);

/* The field in which the contribution disagrees with the block, and both values; 0: they agree. */
enum weir_field disagreement(const struct block *block, const struct weir_header *header,
	uint16_t *has, uint16_t *offers);

/* Block and contribution disagree: the block fails, and every source is told. */
struct ppe_next mismatched(struct ppe_worker *worker, struct ppe_thread *thread,
	struct block *block, enum weir_field field, uint16_t has, uint16_t offers);

/* An admitted acknowledgement of the results before the named block. Ends the packet. */
struct ppe_next acknowledged(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* The segment of an admitted probe. It ends the packet. PROBE_STEPS: contribution.place at first. Threads are stepped
 * oldest first, so a probe that takes as many steps as a contribution is not answered before one that came earlier. */
#define PROBE_STEPS 3
struct ppe_next probed(struct ppe_worker *worker, struct ppe_thread *thread);

/* Forget all blocks of the job in this shard. count_on: do not start the block numbers again. */
void job_shard_clear(struct collective *state, struct job_shard *job, bool count_on);

/* Sources of a job without joins have changed, and ranks with them. Forget the blocks that depend on ranks, and the
 * open ones that contain a contribution of a source that left; these open again. */
void job_shard_regroup(
	struct collective *state, struct job_shard *job, const uint64_t left[MASK_WORDS]);

/* Begin a generation in this shard: forget the former blocks, set the endpoints of the joins. false: a source is no
 * member here, because home and shard have different job tables. */
bool job_shard_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const struct job_home *home);

/* End the generation in this shard: forget its blocks and accept no more, but keep what answers its sources. why: enum
 * weir_over. */
void job_shard_revoke(struct collective *state, struct job_shard *job, uint8_t why);

/* reduce.c: add the payload of a packet of several mbufs; add_payload() calls it. */
void add_pieces(const struct rte_mbuf *packet, const struct contribution *contribution,
	const struct block *block, bool first);

/* Copy a payload that is not reduced to its place, in a block that has elements. */
void copy_payload(const struct job_shard *job, const struct rte_mbuf *packet,
	const struct contribution *contribution, struct block *block);

/* Does the length of a contribution that is not reduced fit its part, and the job? size: of an element. */
bool part_fits(const struct job_shard *job, const struct ppe_job *table,
	const struct contribution *contribution, uint32_t size);

/* Write zeros in place of a partial result's missing parts. */
void clear_missing(const struct job_shard *job, struct block *block);

/* Is the root's contribution, which all others wait for, missing? */
bool root_is_missing(const struct job_shard *job, const struct block *block);

/* Deterministic jobs: create the order of a shard with so many residues. 0; -ENOMEM: js->order is NULL. Control
 * thread. */
int order_create(struct job_shard *js, const struct ppe_job *job, unsigned int residues,
	uint16_t worker, int socket);

/* NULL is fine. Counts leaked buffers. Control thread. */
void order_destroy(struct order *order, struct ppe_program_leaks *leaks);

/* Bytes of an order, and of its pool. Any thread. */
size_t order_bytes(const struct ppe_job *job);
size_t order_pool_bytes(const struct ppe_job *job, unsigned int residues);

/* Does a result of this kind depend on the order? Integers wrap, and minimum and maximum do not round. */
bool order_matters(const struct block *block);

/* Add a contribution's payload if it is its turn, and then the copies that follow; otherwise copy it. In place of
 * add_payload(), for blocks whose order matters. */
void add_in_turn(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b);

/* Before the result of a deterministic job's block is fixed: add the copies that are left, in order, or free
 * them. */
void order_end(const struct job_shard *js, const struct block *b, bool add);

/* result.c: the header that all copies of a finished block's result share. */
struct weir_header result_header(const struct block *block, const struct job_shard *job);

/*
 * Write the end of a result: the bitmap, if some sources are missing, then the tag or CRC, if the job has them.
 * Returns its bytes, at most WEIR_BITMAP_BYTES + WEIR_TAG_BYTES. number: of the block in its generation. slice:
 * 1 + the rank of the receiver, or 0 if all get the same. part: the payload before the end.
 */
uint32_t result_end(const struct job_shard *js, const struct weir_header *result, uint64_t number,
	unsigned int slice, const void *bitmap, const struct pktbuf_piece part[2], void *end);

/* The packet's source endpoint. Any worker. */
void endpoint_of(const struct ppe_thread *thread, bool extended, struct pktbuf_endpoint *endpoint);

/* Set a source's endpoint, and write its header template. The endpoint of a join is bound to its port. */
void source_set_endpoint(struct ppe_worker *worker, struct job_shard *job, uint8_t source,
	const struct pktbuf_endpoint *endpoint);

/* Release what source_set_endpoint() has bound. A source without an endpoint may still be bound. */
void source_unbind(struct ppe_worker *worker, struct job_shard *job, uint8_t source);

/* Send a small packet to an endpoint, counted as created. job: pays for it; NULL: none. payload: at most 80 bytes.
 * Any worker. */
void send_small(struct ppe_worker *worker, struct job_shard *job, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes);

/* Answer the packet's sender, within the port's limit: the header `asked` with this status and no elements.
 * payload: at most 48 bytes, or NULL. While the job is in debt, only joins are answered. Any worker. */
void reply_status(struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *asked, enum weir_status status, const void *payload,
	uint8_t bytes);

/* The same later, in two steps: the sender of the thread's packet, and the reply to it. job: NULL: there is no job. */
struct asker asker_of(const struct ppe_thread *thread, const struct job_shard *job,
	const struct weir_header *asked);
void reply_to(struct ppe_worker *worker, struct collective *state, const struct asker *asker,
	enum weir_status status, const void *payload, uint8_t bytes);

/* Send a finished block's result: to source `only`, or to all when negative. Returns what the thread continues with:
 * `then` (NULL: it ends), or first `emit`, if results differ by receiver. */
struct ppe_next emit_block(struct ppe_worker *worker, struct ppe_thread *thread,
	struct block *block, int only, ppe_segment then);

/* Send the results of n finished blocks, which are the same for all receivers. */
void emit_to_all(struct ppe_worker *worker, struct collective *state, struct block *const *blocks,
	unsigned int n);

/* The segment that sends results that differ by receiver, a few per step. */
struct ppe_next emit(struct ppe_worker *worker, struct ppe_thread *thread);

/* timeout.c: the timer segment that searches its slices of the block table for stragglers. */
struct ppe_next age(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name timeout_segments[];

/* When the next block is due: struct ppe_timer. Any thread. */
uint64_t timeout_earliest(const void *state);

/* The job has another timeout or policy: set the deadlines of its open blocks again. */
void timeout_rearm(struct collective *state, const struct job_shard *job);

/* A contribution is held back because some sources have not acknowledged the slot's previous block. Expel those
 * that are silent for too long, and release that block. */
void expel(struct collective *state, struct job_shard *job, struct slot *slot, uint64_t now);

/* join.c: `join` takes a join at the job's home shard. A join that is not repeated for this long is forgotten,
 * unless ppe_config.joins_s differs. Hosts repeat theirs every 500 ms. */
#define JOIN_FORGOTTEN_S 3
struct ppe_next join(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name join_segments[];

/* The segment for a packet of a source from elsewhere than its endpoint, at the home shard: it is dropped, and if the
 * source's former process sent it, that is told so. */
struct ppe_next unbound_at_home(struct ppe_worker *worker, struct ppe_thread *thread);

/* Have all sources joined, with the same parents? Forgets joins that are too old. Home shard. */
bool all_have_joined(struct job_shard *job, uint32_t now);

/* Tell the source's former process, if it has not been told, whose join displaced its own. Home shard, as all here. */
void tell_once(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job,
	uint8_t source);

/* The pending joins are those of the running generation. */
void adopt_joins(struct job_shard *job);

/* If a member left during the announcement, abandon the generation and its number, which no source knows. The others'
 * joins stay. True: abandoned. */
bool abandon_joins(struct job_home *home);

/* announce.c: announce to all shards that the next generation begins with the pending joins, that the running one ends, or
 * that a source is where it joined last. The packet goes along. Home shard, if no other announcement is in progress. */
struct ppe_next begin_generation(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);
struct ppe_next end_generation(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, enum weir_over why);
struct ppe_next announce_endpoint(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, uint8_t source);
extern const struct ppe_segment_name announce_segments[];

/* Answer joins with the running generation: one source's, or all (only < 0). */
struct ppe_next answer_joins(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job, int only);

/* join.c: a source's membership ended. removed: it has no address any more; otherwise its process in the running generation
 * stays until the next one begins. */
void forget_joins(struct job_home *home, uint8_t source, bool removed);

/* auth.c: create a job's keys in a shard, with room for sources [0, source_end): the sources' own, and those of an
 * authenticated job. NULL: no memory. Control thread. */
struct own_keys *own_keys_create(const struct ppe_job *job, uint16_t source_end, int socket);
struct job_keys *job_keys_create(uint16_t source_end, int socket);

/* Bytes of both. Any thread. */
size_t job_keys_bytes(const struct ppe_job *job);

/* Draw the key of the job's challenges, and the first ones. Control thread. -EIO: the system has no random bytes. */
int job_challenges_create(struct job_home *home);

/* Write the next challenge: never used before, and unpredictable. */
void job_challenge_next(struct job_home *home, uint8_t challenge[WEIR_CHALLENGE_BYTES]);

/* Begin a generation: js->generation is still the former one. joined: by source; NULL: the generation is fixed. */
void job_keys_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], const struct claim *joined);

/* Verify the tag of a contribution or join, after its checksums; its payload then ends before the tag. false: the
 * packet has been dropped. */
bool authentic(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job,
	const uint8_t *next);
bool authentic_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Write the tag of a result, which is part, then end, behind the end; returns the tag's bytes. */
uint32_t tag_result(const struct job_shard *js, const struct weir_header *result, uint64_t number,
	unsigned int slice, const struct pktbuf_piece part[2], void *end, uint32_t end_bytes);

/* The block's number in its generation, without wrapping. */
uint64_t block_number(const struct job_shard *job, uint32_t block);

/* Write the results' key of the running generation for the process of an accepted join; returns its bytes. */
uint8_t wrap_results_key(struct collective *state, const struct job_shard *job, uint8_t source,
	const struct claim *joined, uint8_t wrapped[WEIR_KEY_BYTES]);

/* Write the tag of a reply behind its payload of at most 64 bytes; returns its bytes. epoch: of the source's key.
 * answered: the bytes that tie it to the packet that it answers. */
uint8_t tag_reply(struct collective *state, const struct job_shard *job,
	const struct weir_header *header, uint64_t epoch, const uint8_t answered[WEIR_TAG_BYTES],
	void *payload, uint8_t bytes);

/* integrity.c: is the CRC right at the end of a packet from a source, or from a parent? Otherwise it is dropped. Of the
 * latter, the payload then ends before the CRC. */
bool crc_is_right(const struct ppe_thread *thread); /* of a source's packet, without dropping it */
bool crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);
bool parent_crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Write the CRC of a packet to a source, or to a parent, which is the payload, then end, behind the end; returns its bytes.
 * header: src_id is the receiver's, or the sender's. */
uint32_t crc_result(const struct weir_header *header, const struct pktbuf_piece part[2], void *end,
	uint32_t end_bytes);
uint32_t parent_crc(const struct weir_header *header, const void *payload, uint32_t bytes,
	void *end, uint32_t end_bytes);

/* children.c: may this header with a status, source count or the flag `up` be a switch's to its parent? job: NULL: there is
 * no such job. Any worker. */
bool may_be_from_child(const struct ppe_job *job, const struct weir_header *header);

/* Does the length of a child's complete contribution fit its ranks, and the job? */
bool child_fits(const struct collective *state, const struct job_shard *job,
	const struct ppe_job *table, const struct contribution *contribution);

/* Take what follows the payload of a child's packet off it: of a degraded contribution, the bitmap. false: that, the source
 * count or the length does not fit. */
bool child_take_end(const struct collective *state, const struct job_shard *job,
	const struct ppe_job *table, struct ppe_thread *thread);

/* A child's contribution that lacks ranks, or says that the block failed: admitted, without its end. Ends the packet. */
struct ppe_next take_degraded(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* The ranks whose contributions are in an open block; returns how many. */
uint16_t block_ranks(
	const struct job_shard *job, const struct block *block, uint64_t ranks[MASK_WORDS]);

/* The block ends: note them in it. */
void block_set_ranks(const struct job_shard *job, struct block *block);

/* parent.c: the parents of a job, in one shard; NULL: no memory. parents_destroy: NULL is fine. Control thread. */
size_t parents_bytes(const struct ppe_job *job);
struct parents *parents_create(const struct ppe_setup *setup, const struct ppe_job *job);
void parents_destroy(struct parents *parents);

/* Bind the parents' addresses to their ports, or release them. */
void parents_bind(struct ppe_worker *worker, struct job_shard *job);
void parents_unbind(struct ppe_worker *worker, struct job_shard *job);

/* The slot of the block's residue. */
static inline struct slot *
slot_of(const struct job_shard *job, uint32_t block)
{
	return &job->slot[block & (job->window - 1u)];
}

/* The parent, by index, to which the block goes; PPE_PARENTS_MAX: to none. Any thread. */
unsigned int parent_of_block(const struct job_shard *job, uint32_t block);

/* What was collected of an open block goes to the parent, and does not change any more. The buffer keeps it. */
void block_to_parent(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

#define PROBED_MS 20 /* after this silence, a parent gets contributions beside probes */

/* A host's packet is about a block that is not open and has no result here. Repeat the contribution to the parent or, if
 * the block is the next of its residue, the acknowledgement, at most once per millisecond and residue. probe: the packet
 * is a probe; this switch then sends a probe instead of the contribution, less often, unless the parent is silent or does
 * not know probes. */
void ask_parent(struct collective *state, struct job_shard *job, uint32_t block, bool probe);
/* The contribution again. */
void repeat_to_parent(struct ppe_worker *worker, struct job_shard *job, struct block *block);

/* The block's parent waits for others. If these cannot reach it, they have left for the other parents, which then answer
 * `stale`; but nothing may be due there. So ask the others in turn, with an acknowledgement of a block that no switch has. */
void ask_another(struct ppe_worker *worker, struct job_shard *job, uint32_t block);

/* Tell the source that asked last about the block what the parent says. */
void relay_parent_status(struct ppe_worker *worker, struct collective *state, struct job_shard *job,
	const struct block *block);

/* A contribution to a block that has been sent to the parent, or a probe of it. Ends the packet. */
struct ppe_next parent_block_pending(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* The segment for a packet to the port for parents, on the worker that received it. */
struct ppe_next from_parent(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name parent_segments[];

/* The job, and its parent, from which this packet to the port for parents comes; NULL: from none. Any worker. */
const struct ppe_job *find_sending_parent(const struct ppe_worker *worker,
	const struct ppe_thread *thread, const struct weir_header *header, uint8_t *parent);

/* auth.c, for the hop to a parent: write the tag or CRC of a contribution or an acknowledgement, which is payload, then end,
 * behind the end; returns its bytes, 0 if this hop has neither. */
uint32_t parent_tag(const struct job_shard *job, const struct parent *parent,
	const struct weir_header *header, const void *payload, uint32_t bytes, void *end,
	uint32_t end_bytes);

/* Verify the tag or CRC of a packet from a parent other than the answer to a join; its payload then ends before that. false:
 * the packet has been dropped. */
bool parent_packet_holds(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, struct parent *parent);

/* Write the tag of what this reply answers: a probe, or what this switch last sent of the block. */
void tag_sent_to_parent(const struct job_shard *job, const struct parent *parent,
	const struct weir_header *reply, uint8_t tag[WEIR_TAG_BYTES]);

/* Is the packet from a parent of the generation in which this switch takes part? `stale` is if it names another one; `refused`
 * names none. */
bool is_of_parents_generation(
	const struct job_shard *job, const struct parent *parent, const struct weir_header *header);

/* parent_join.c: what the home shard of a job with parents has in addition; NULL: no memory. Control thread. */
struct parents_home *parents_home_create(const struct ppe_job *job, int socket);

/* All sources have joined: join at the parents, at most once per millisecond. repeat: the source repeats its join.
 * Returns what it is told. Home shard. */
enum weir_status parents_join(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job, bool repeat);

/* Add the ranks that have joined at all parents, as these say. */
void parents_joined(const struct parents_home *parents, uint64_t ranks[MASK_WORDS]);

/* During an announcement, in each shard: the generation begins with these joins at the parents; it ends. */
void parents_begin(struct parents *parents, const struct parents_home *home);
void parents_end(struct parents *parents);

/* The parent is about to be asked. A pause resets the count of questions: the parent need not have answered those before. */
void parent_is_asked(struct parent *parent, uint32_t now);

/* The parent was asked `questions` times. Only questions after its timeout count, because it must answer only those. */
void parent_was_asked(struct parent *parent, unsigned int questions, uint32_t now);

/* What the home shard has to do with a source's packet that has found the parent so silent; NULL: nothing. */
ppe_segment about_silence(struct parent *parent, uint32_t now);

/* Segments at the job's home shard, for a parent's answer to a join; for a packet that says that the parent's generation
 * is over; for a source's packet when the parent has left too many questions unanswered, for too long; and when it has left
 * an authenticated job's unanswered for a second: after a restart it can verify nothing but a join, which is repeated. They
 * end the packet, and the second and the third the generation. */
struct ppe_next parent_join_reply(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next parent_revoked(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next parent_timeout(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next parent_prove(struct ppe_worker *worker, struct ppe_thread *thread);

/* auth.c, for the hop to a parent. key: of this switch as a source there. Write the proof of a join and its tag; returns
 * their bytes. */
uint8_t prove_join(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	const struct pktbuf_identity *self, const struct weir_header *header,
	struct parent_join *join, uint8_t payload[sizeof(struct weir_join_proof) + WEIR_TAG_BYTES]);

/* Verify the tag of a reply to the packet that ended with, or whose nonce was, `answered`; its payload then ends before
 * the tag. false: the packet has been dropped. */
bool parent_reply_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job,
	const uint8_t key[WEIR_KEY_BYTES], const uint8_t answered[WEIR_TAG_BYTES]);

/* Derive the keys of the parent's generation from the end of its reply; false: no memory. Expand them in a shard. */
bool unwrap_keys(const struct collective *state, const uint8_t key[WEIR_KEY_BYTES],
	struct parent_join *join, uint16_t generation,
	const uint8_t end[WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES]);
void parent_keys_begin(struct parent_keys *keys, const struct parent_join *join);

/* jobs.c and statistics.c: the hooks of struct ppe_program. ppe/program.h names their threads. */
int collective_state_create(const struct ppe_setup *setup, void **state);
void collective_state_destroy(void *state, struct ppe_program_leaks *leaks);
void collective_memory(
	const struct ppe_config *config, const struct ppe_jobs *jobs, struct ppe_memory *memory);
void collective_stats(const void *state, struct ppe_stats *stats);
void collective_gauges(const void *state, struct ppe_gauges *gauges);
int collective_job_create(
	const struct ppe_setup *setup, void *state, const struct ppe_job *job, void **shard);
void collective_job_take(void *state, uint8_t id, void *shard);
void collective_jobs_taken(void *state);
bool collective_job_idle(const void *shard);
void collective_job_destroy(void *shard, struct ppe_program_leaks *leaks);
void collective_job_memory(const struct ppe_job *job, unsigned int shard, unsigned int shards,
	struct ppe_memory *memory);
void collective_job_room(const void *state, const struct ppe_job *job, unsigned int shard,
	unsigned int shards, struct ppe_room *room);
bool collective_job_heard(const void *shard, uint8_t source, uint64_t now, uint32_t seconds);
void collective_job_stats(const void *shard, struct ppe_job_stats *stats);
void collective_job_source(const void *shard, uint8_t source, struct ppe_source_stats *stats);
void collective_job_parent(const void *shard, unsigned int parent, struct ppe_parent_stats *stats);
unsigned int collective_job_blocks(const void *shard, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max);

/* Set the ranks of the sources of the mask. */
void rank_sources(struct job_shard *job, const uint64_t sources[MASK_WORDS]);

#endif
