/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The block room: the life of a block, from its first contribution until its buffer is free.
 *
 *   admit.c         is the contribution allowed? If not, why not?
 *   flow_cache.c    admission of a contribution that looks like its source's last contribution
 *   contribution.c  find the block, verify, add; contributions that are late, repeated or disagree
 *   batch.c         the usual contributions of a turn, all together
 *   reduce.c        payloads: added as they arrive, added in order, or copied
 *   block.c         open, finish, release, forget
 *   partial.c       which ranks a result contains; partial results
 *   result.c        packets of results, and of contributions to a parent
 *   control.c       acknowledgements and probes
 *   explain.c       what all these would do with a packet, in words
 *   timeout.c       stragglers; sources that are silent for too long
 *
 * The room owns the hash table of blocks and their deadlines (struct collective), and each job's
 * slots, buffers, order of contributions, flow cache, destinations and block counters. It reads
 * what membership/ owns: endpoints, generation, expelled sources, keys.
 *
 * Functions are for the worker that owns the block's shard, unless a comment says otherwise.
 */
#ifndef PPE_COLLECTIVE_BLOCK_BLOCK_H
#define PPE_COLLECTIVE_BLOCK_BLOCK_H

#include "ppe/collective/collective_priv.h"

/* ---- admit.c ---- */

/* The segment that follows the parsing of the header. Any worker. */
struct ppe_next block_entry(struct ppe_worker *worker, struct ppe_thread *thread);

/* The segment of admission. A contribution that is not admitted continues at block_examine, which
 * verifies it, then replies or counts the reason. */
struct ppe_next block_admit(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next block_examine(struct ppe_worker *worker, struct ppe_thread *thread);

/* The reason why a packet is not admitted; PPE_DROP_COUNT: it is, if its tag is right. Only reads;
 * any thread. */
enum ppe_drop block_refusal(const struct collective *state, const struct job_shard *job,
	const struct ppe_job *table, const struct ppe_thread *thread);

/* The job exceeds its rate: drop the packet. */
struct ppe_next block_police(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* ---- flow_cache.c. Worker ---- */

/* Set which bits of frames are compared. */
void flow_cache_create(struct collective *state, const struct pktbuf_identity *identity);

/* struct ppe_program's `recognize`. */
bool flow_cache_lookup(
	struct ppe_worker *worker, void *state, struct ppe_thread *thread, struct rte_mbuf *packet);

/* Store the headers of a parsed packet; then, in the same segment call, note its admission. */
void flow_cache_learn(
	struct ppe_worker *worker, struct ppe_thread *thread, struct contribution *contribution);
void flow_cache_admit(struct job_shard *job, const struct contribution *contribution);

/* ---- contribution.c ---- */

/* Segments, on the worker that runs the thread. block_find follows admission; block_verify replaces
 * block_find and block_aggregate in a job with tags. */
struct ppe_next block_find(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next block_verify(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next block_aggregate(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name block_segments[];

/* Send the done block's result again to the packet's source. Ends the packet. */
struct ppe_next block_answer(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* Where block_not_opened() may lead: of struct ppe_segment_name. */
#define NOT_OPENED_LEADS_TO                                                                        \
	" drop:stale drop:expired drop:window drop:held_back drop:no_memory drop:table_full"

/* The field in which a contribution disagrees with an open block, and both values; 0: they agree.
 * Only reads; any thread. */
enum weir_field block_disagreement(const struct block *block, const struct weir_header *header,
	uint16_t *has, uint16_t *offers);

/* block_open() failed: drop the contribution with `reason`, or reply `status`. Ends the packet. */
struct ppe_next block_not_opened(struct ppe_worker *worker, struct ppe_thread *thread,
	const struct job_shard *job, enum ppe_drop reason, enum weir_status status);

/* An admitted contribution with a tag continues at block_verify. Only the first waiting
 * contribution prefetches its own payload. */
struct ppe_next block_await_verification(
	struct collective *state, struct job_shard *job, struct ppe_thread *thread);

/* ---- batch.c: struct ppe_program's `batch` and `hopped`, and their memory ---- */

unsigned int block_batch(struct ppe_worker *worker, void *state, struct rte_mbuf **packets,
	unsigned int n, unsigned int *followers);
bool block_batch_hopped(const void *state, const struct rte_mbuf *packet, uint32_t job);

/* Returns 0 or -ENOMEM. block_batch_destroy() frees the memory in both cases. */
int block_batch_create(struct collective *state, int socket);
void block_batch_destroy(struct collective *state);

/* ---- block.c ---- */

/* Open the block of a first contribution. On success, returns PPE_DROP_COUNT, with *block in the
 * table, empty, with its buffer. Otherwise returns the drop reason, with *block NULL and *status
 * for the source (WEIR_STATUS_OK: nothing). */
enum ppe_drop block_open(struct collective *state, struct job_shard *job,
	struct contribution *contribution, uint64_t now, struct block **block,
	enum weir_status *status);

/* Open the slot's next block. The caller has checked that it may be opened. agreement: of the
 * header; probe: of the block's key. Returns as block_open(); *block is set on success only. */
enum ppe_drop block_begin(struct collective *state, struct job_shard *job, struct slot *slot,
	const struct weir_header *header, uint64_t agreement, struct hash_probe *probe,
	uint64_t now, struct block **block);

/* Undo block_begin(). The block is its residue's newest block and has no contribution. */
void block_unopen(struct collective *state, struct job_shard *job, struct block *block);

/* End a block that is complete (OK), timed out or failed, and fix its result. Callers use
 * block_end(), which uses block_end_special() for jobs that are `special`. */
void block_finish(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);
bool block_end_special(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* Finish a block with the parent's result. The payload, in_count and `in` are set. */
void block_done(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* Is it this block's turn in its residue? PPE_DROP_COUNT: yes; otherwise STALE, EXPIRED or WINDOW.
 * Only reads; any thread. */
enum ppe_drop block_turn(
	const struct job_shard *job, const struct slot *slot, const struct weir_header *header);

/* Would a contribution of this source to the residue's next block be held back, because other
 * sources may lack the result of the previous block? Only reads; any thread. */
bool block_waits_for_others(const struct job_shard *job, const struct slot *slot, uint8_t source);

/* The distance of the block from the residue's next block. */
int32_t block_ahead(const struct job_shard *job, const struct slot *slot, uint32_t block);

/* Note that the source has the results of this block, one of the slot's two, and of all blocks
 * before. Returns false if that was known. */
bool block_acknowledge(struct collective *state, struct job_shard *job, struct slot *slot,
	struct block *block, uint8_t source);

/* Release the block before this done block, if every source is known to have the result of the
 * block before. */
void block_release_previous(struct collective *state, struct job_shard *job, struct block *block);

/* Forget all blocks of the job in this shard. count_on: do not restart the block numbers. */
void block_forget_all(struct collective *state, struct job_shard *job, bool count_on);

/* The sources of a job without joins have changed, and so have ranks. Forget blocks that depend on
 * ranks, and open blocks that contain a contribution of a source that left; these open again. */
void block_regroup(
	struct collective *state, struct job_shard *job, const uint64_t left[MASK_WORDS]);

/* ---- control.c ---- */

/* Take an admitted acknowledgement of the results before the named block. Ends the packet. */
struct ppe_next block_acknowledged(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* The end of an admitted acknowledgement or probe of a block that no parent has. LATE: the block's
 * result is sent again. Only reads; any thread. */
enum ppe_drop block_control_end(
	const struct job_shard *job, const struct slot *slot, const struct weir_header *header);

/* The segment of an admitted probe. It ends the packet. PROBE_STEPS: the initial
 * contribution.place. Threads are stepped oldest first, so a probe that takes as many steps as a
 * contribution is not answered before a contribution that came earlier. */
#define PROBE_STEPS 3
struct ppe_next block_probed(struct ppe_worker *worker, struct ppe_thread *thread);

/* Answer a child's contribution that is held back with the ranks that have the previous result, so
 * that the child does not consider this switch dead. */
void block_answer_held_back(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct job_shard *job);

/* ---- partial.c ---- */

/* The ranks whose contributions are in an open block; returns how many. */
uint16_t partial_ranks(
	const struct job_shard *job, const struct block *block, uint64_t ranks[MASK_WORDS]);

/* Note the ranks in a block that ends with `status`. Returns PARTIAL instead of OK if a rank is
 * missing, ERROR instead of PARTIAL if the root is missing, otherwise `status`. */
enum weir_status partial_settle(
	const struct job_shard *job, struct block *block, enum weir_status status);

/* Zero the missing parts of a partial result that consists of parts. */
void partial_clear(const struct job_shard *job, struct block *block);

/* The status with which the policy ends a block that is past its timeout. */
enum weir_status partial_timeout(const struct job_shard *job);

/* ---- reduce.c ---- */

/* Add the payload of a packet of several mbufs; block_add_payload() calls it. */
void block_add_pieces(const struct rte_mbuf *packet, const struct contribution *contribution,
	const struct block *block, bool first);

/* Copy a payload that is not reduced to its place, in a block that has elements. */
void block_copy_payload(const struct job_shard *job, const struct rte_mbuf *packet,
	const struct contribution *contribution, struct block *block);

/* Zero the part of a missing rank. */
void block_clear_part(const struct job_shard *job, const struct block *block, unsigned int rank);

/* Does a payload of `bytes` bytes that is not reduced fit its part and the job? size: of an
 * element. */
bool block_part_fits(const struct job_shard *job, const struct ppe_job *table,
	const struct weir_header *header, uint32_t bytes, uint32_t size);

/* Create the order of a deterministic job's shard with this many residues. Returns 0, or -ENOMEM
 * with js->order NULL. Control thread. */
int order_create(struct job_shard *js, const struct ppe_job *job, unsigned int residues,
	uint16_t worker, int socket);

/* NULL is fine. Counts leaked buffers. Control thread. */
void order_destroy(struct order *order, struct ppe_program_leaks *leaks);

/* Bytes of an order, and of its pool. Any thread. */
size_t order_bytes(const struct ppe_job *job);
size_t order_pool_bytes(const struct ppe_job *job, unsigned int residues);

/* Does the result depend on the order? Integers wrap; minimum and maximum do not round. */
bool order_matters(const struct block *block);

/* Add a contribution's payload if it is its turn, and then the copies that wait for it; otherwise
 * copy it. Replaces block_add_payload() in blocks whose order matters. */
void order_add(struct job_shard *js, const struct rte_mbuf *packet, const struct contribution *c,
	struct block *b);

/* Add the remaining copies in order, or free them. Call this before a deterministic result is
 * fixed. */
void order_end(const struct job_shard *js, const struct block *b, bool add);

/* ---- result.c ---- */

/* The header of a finished block on a hop: of its result, or of the contribution to a parent. */
struct weir_header block_hop_header(const struct block *block, const struct hop *hop);

/* The payload of a finished block on a hop, with its end: the buffer from `first` (bytes), or a few
 * bytes in `small` that describe an error. */
struct pktbuf_payload block_payload(const struct job_shard *js, const struct hop *hop,
	const struct block *block, const struct weir_header *header, uint32_t first,
	uint8_t small[WEIR_BITMAP_BYTES + WEIR_TAG_BYTES]);

/* Send one packet to `to`. If there is no mbuf, the drop is counted. */
void block_send_one(struct ppe_worker *worker, struct job_shard *job,
	const struct weir_header *header, const struct pktbuf_payload *payload,
	const struct pktbuf_header_template *to);

/* Send a finished block's result: to source `only`, or to all when negative. Returns the thread's
 * next segment: `then` (NULL: it ends), or before that block_emit_step, if results to all differ by
 * receiver. */
struct ppe_next block_emit(struct ppe_worker *worker, struct ppe_thread *thread,
	struct block *block, int only, ppe_segment then);

/* Send the results of n finished blocks, each identical for all receivers. */
void block_emit_to_all(struct ppe_worker *worker, struct collective *state,
	struct block *const *blocks, unsigned int n);

/* The segment that sends results that differ by receiver, a few per step. */
struct ppe_next block_emit_step(struct ppe_worker *worker, struct ppe_thread *thread);

/* ---- explain.c: of struct ppe_program's `explain`. Control thread ---- */

/* Explain a packet with an aggregation header that is no join. */
void block_explain(const struct ppe_worker *worker, const void *const *states,
	struct ppe_thread *thread, struct ppe_explanation *explanation);

/* ---- timeout.c ---- */

/* The timer segment that searches its slices of the block table for stragglers. */
struct ppe_next timeout_scan(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name timeout_segments[];

/* When the next block is due, for struct ppe_timer. Any thread. */
uint64_t timeout_earliest(const void *state);

/* Set the deadlines of the job's open blocks again, after its timeout or policy changed. */
void timeout_rearm(struct collective *state, const struct job_shard *job);

/* A contribution is held back because some sources have not acknowledged the slot's previous block.
 * Expel the sources that are silent for too long, and release the block. */
void block_expel_silent(
	struct collective *state, struct job_shard *job, struct slot *slot, uint64_t now);

#endif
