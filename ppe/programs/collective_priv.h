/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective program's state: jobs as one shard sees them, blocks, and a thread's LMEM.
 *
 * Owner of everything here: the worker of the shard. Two exceptions, both by hand-over: while a
 * generation's walk is under way, job_home.pending is lent read-only to the shards that it visits;
 * payload buffers are referenced by packets in other workers' queues, and come home through the
 * crossbar.
 */
#ifndef PPE_PROGRAMS_COLLECTIVE_PRIV_H
#define PPE_PROGRAMS_COLLECTIVE_PRIV_H

#include <assert.h>

#include "hashengine/deadline_fast.h"
#include "hashengine/hash_fast.h"
#include "pktbuf/tag.h"
#include "ppe/program_fast.h"
#include "ppe/programs/collective_table.h"
#include "rmw/rmw.h"

#define MASK_WORDS (WEIR_SOURCES_MAX / 64)

enum block_state {
	BLOCK_OPEN, /* collecting contributions */
	BLOCK_DONE, /* the result is out, and kept for those who ask again */
};

/*
 * A block's record in the hash table. Key: generation, job and block id, so that no packet of an
 * old generation can find a new one's block. Two lines are touched per contribution; the third
 * is for what goes wrong.
 */
struct block {
	struct hash_record hash;
	uint64_t heard[MASK_WORDS]; /* sources that contributed, or did too late */
	struct rmw_buffer *buffer; /* NULL when the block carries nothing */
	const struct rmw_reduction *reduction; /* of the payloads; NULL: they are not reduced */

	uint16_t heard_count; /* line 2 */
	uint16_t grad_cnt;
	uint8_t state; /* enum block_state */
	uint8_t status; /* enum weir_status of the result, once done */
	uint8_t collective, op, dtype, root;
	uint8_t first_source;
	uint8_t final; /* of all contributions */
	uint8_t overdue; /* counted as waiting */
	uint8_t job;
	uint16_t in_count; /* sources in the result, once done */
	uint32_t payload_sum; /* ones-complement sum of the result's payload, once done */
	uint32_t payload_bytes;
	uint32_t block_id;
	uint64_t opened; /* TSC */
	uint64_t progress; /* TSC of the last new contribution */
	struct weir_mismatch mismatch;
	uint8_t placed; /* by its collective's row: payloads are put, not reduced */
	uint8_t apart; /* by it, too: receivers get different parts */
	uint8_t direct; /* payloads are reduced as they come, in one piece each or in several */
	uint8_t spare[5];

	uint64_t in[MASK_WORDS]; /* sources in a degraded result */
	uint64_t received[MASK_WORDS]; /* sources that have the result, as far as they said so with
					  something else than a contribution to the next block */
};
static_assert(sizeof(struct block) == 192, "three cache lines");

/* The blocks of one residue modulo the window. */
struct slot {
	uint64_t next; /* the block that may be opened next, without wrapping; its low 32 bits are
			  its id, of which the high block_shift bits don't count */
	struct block *current; /* the newest, open or done; NULL before the first */
	struct block *previous; /* the one before, done and not yet released, or NULL */
	uint64_t held_since; /* TSC: a contribution was held back for the first time, waiting for
				`previous` to be released; 0: none was */
};

/*
 * What a source's last contribution looked like, and what was read out of it. Of a stream of
 * contributions only block id, the final flag, checksums and IPv4's identification change from one
 * to the next; a packet that is the same in everything else needs no parsing. A memo speaks of
 * bytes alone, so it can't be outdated. What admission asks beyond them, of jobs, generations and
 * endpoints, is the matter of a pass (source_seen.pass), which holds only until one of these changes.
 */
struct memo {
	uint64_t frame[8]; /* its first 64 bytes, with zeros where contributions differ */
	struct pktbuf_head head; /* length 0: nothing seen yet */
	struct weir_header header;
	uint16_t port;
	uint16_t header_bytes; /* of its form */
} __rte_cache_aligned;
static_assert(sizeof(struct memo) == 128, "two lines");

/* What a worker notes of a source, one after the other in a line or two. */
struct source_seen {
	uint32_t pass; /* pass_now() when a packet like the memo was admitted here */
	uint32_t heard; /* heard_now() of the last packet that was its own; 0: none yet */
};

/* Whom blocks wait for; a line is touched once per block. */
struct source_late {
	uint64_t last; /* blocks that it completed */
	uint64_t waited; /* TSC cycles that some of them waited for it */
	uint64_t until; /* TSC: counted up to here. Blocks overlap, and time is counted once */
};

/* A job as one shard sees it. */
struct job_shard {
	uint16_t generation; /* 0: nobody has joined yet */
	uint16_t nb_sources;
	uint16_t target; /* the live ones of them: what a block waits for */
	uint16_t window;
	uint16_t source_end; /* one more than the highest source id */
	uint16_t first_generation;
	uint8_t job;
	uint8_t block_shift; /* of the job */
	uint8_t policy; /* enum ppe_policy, as `timeout` was taken */
	bool pinned; /* endpoints come from joins; else from the last contribution */
	bool ordered; /* contributions are added in order: `order` is there */
	bool recalled; /* the generation is over: what is of it is stale. Until the next one begins */
	struct rmw_pool
		*pool; /* the job's own, of 2 buffers per residue; NULL: no residue is here */
	struct rmw_quota quota;
	uint64_t timeout; /* TSC cycles */
	uint32_t rate_mbit; /* of `policer`; 0: the job may send what it can */
	uint32_t records; /* of the block table, set aside for it */
	uint32_t serial; /* of the job's shards */
	struct collective_ledger *ledger; /* where they are booked; control thread's */
	struct slot *slot; /* `window` entries; those of other shards' residues stay unused */
	struct rmw_policer policer; /* of this shard's part of the job's rate */
	struct job_home *home; /* not NULL in the job's home shard */
	struct job_keys *keys; /* not NULL when the job is authenticated */
	struct order *order; /* not NULL when the job is deterministic and a residue is here */
	struct ppe_job_stats count; /* gauges unused */
	struct pktbuf_endpoint endpoint[WEIR_SOURCES_MAX];
	struct pktbuf_envelope envelope[WEIR_SOURCES_MAX]; /* of the valid endpoints */
	struct memo memo[WEIR_SOURCES_MAX]; /* of what this worker received */
	struct source_seen seen[WEIR_SOURCES_MAX];
	struct source_late late[WEIR_SOURCES_MAX];
	uint32_t address
		[WEIR_SOURCES_MAX]; /* of the members, by the table that was taken; 0: none */
	uint8_t rank[WEIR_SOURCES_MAX]; /* of a source: its place among them in the order of ids */
	uint8_t ranked[WEIR_SOURCES_MAX]; /* the source of a rank, [0, ranks) */
	uint16_t
		ranks; /* as many as there are sources, but while members of a job without joins are
			   missing */
	uint64_t in[MASK_WORDS]; /* sources of the running generation; pinned jobs */
	uint64_t expelled[MASK_WORDS]; /* of these */
	uint32_t version; /* counts what admission depends on: generations, and where sources are */
	uint32_t group; /* host order; whose envelopes these are; 0: none yet */
	struct pktbuf_envelope group_envelope[2]; /* by form; the port is put in for each result */
};

/* When a source asked to join, as heard_now(). Home shard: rw, control: ro. */
struct asked {
	uint32_t since, last; /* first and last join for the next generation, while it is pending */
	uint32_t accepted; /* last join of the one that runs; 0: none */
	uint32_t rival; /* last time that two processes were found to join in turn; 0: never */
	uint32_t former_nonce; /* of the pending join that the present one replaced; 0: none */
};

/* The collection of joins, in the home shard (the one of residue 0). */
struct job_home {
	bool walking; /* a new generation is being made known to the shards */
	uint16_t kept_s; /* joins that are not repeated */
	uint16_t begun; /* the last generation that was; none is tried twice. 0: none yet */
	uint16_t pending_count;
	uint64_t pending[MASK_WORDS];
	uint64_t gone[MASK_WORDS]; /* of the pending, who left while the walk was on its way */
	uint64_t in[MASK_WORDS]; /* whose joins brought about the generation that runs */
	uint32_t pending_nonce[WEIR_SOURCES_MAX];
	struct pktbuf_endpoint pending_endpoint[WEIR_SOURCES_MAX];
	struct asked asked[WEIR_SOURCES_MAX];
	uint32_t nonce[WEIR_SOURCES_MAX]; /* of the generation that runs */
	uint32_t former[WEIR_SOURCES_MAX]; /* nonces, of the one before; 0: none, or the same */
	uint64_t present[MASK_WORDS]; /* in it, and has neither left nor asked for another since */
	/* An authenticated job's: */
	struct pktbuf_tag_key challenger; /* makes the challenges; drawn by the control thread */
	uint64_t challenges; /* made so far */
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* that joins must quote */
	uint8_t pending_proof[WEIR_SOURCES_MAX][WEIR_CHALLENGE_BYTES]; /* their long nonces */
	uint8_t proof[WEIR_SOURCES_MAX][WEIR_CHALLENGE_BYTES]; /* of the generation that runs */
};

/* A source's keys in one shard. */
struct source_keys {
	struct pktbuf_tag_key generation; /* GMAC's, of the running generation */
	uint8_t own[WEIR_KEY_BYTES]; /* from which that comes, and the tags of joins and replies */
};

/*
 * The keys of an authenticated job in one shard: the job's, and GMAC's of the running generation. A
 * source's are derived when a packet of it needs them, so that no worker stands still for all at once;
 * and then kept, for each costs an HMAC or two, and whoever knows an address can ask for them.
 */
struct job_keys {
	uint8_t job[WEIR_KEY_BYTES];
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* of the generation that runs */
	uint8_t former_challenge[WEIR_CHALLENGE_BYTES]; /* of the one before */
	uint16_t former; /* that generation; 0: there was none */
	bool results_derived;
	uint16_t source_end; /* the job's */
	uint64_t derived[MASK_WORDS]; /* sources whose key of the generation is there */
	uint64_t known[MASK_WORDS]; /* sources whose own key is there */
	struct pktbuf_tag_key results;
	struct source_keys source[]; /* [source_end] */
};

/* Block records that the jobs of a worker have set aside. Control thread: rw. */
struct collective_ledger {
	uint32_t capacity, reserved;
};

/* The program's state on one worker. */
struct collective {
	struct ppe_worker *worker;
	struct hash_table *blocks;
	struct block *records;
	struct hash_deadlines *deadlines; /* of open blocks */
	struct job_shard *job[WEIR_JOBS_MAX];
	const struct rmw_reduction *reduction[16][16]; /* by dtype and op; NULL: not served */
	uint8_t dtype_bytes[16]; /* weir_dtype_bytes, without its branches */
	bool sums; /* some port computes UDP checksums in software: payloads are summed */
	uint64_t tsc_per_ms, tsc_per_us;
	uint32_t slices; /* of the scan for stragglers */
	uint32_t aging; /* threads that it has now: at most half of them */
	struct collective_ledger *ledger; /* not the worker's */
	struct pktbuf_hmac *hmac;
	struct rmw_policer
		refusals; /* a byte is an answer to a stranger; all zero: none is given */
};

/* A result on its way, to one source or to all; the state of the emit segment. */
struct emission {
	struct pktbuf_letter letter[2]; /* base form, extended form */
	struct pktbuf_payload payload;
	struct rmw_buffer *
		buffer; /* where the payload lies, held for as long as this emission runs; or NULL */
	uint8_t small[48]; /* else the payload is this */
	uint8_t job;
	bool multicast; /* one packet per port and form */
	bool parts; /* each gets its own: what follows is set, and the letters are not. The payload is
		       then what all of them are parts of, and `small` ends each */
	uint8_t small_bytes;
	struct weir_header header;
	uint64_t number; /* of the block in its generation */
	uint16_t next, end; /* sources [next, end) are still to be served */
	uint64_t ports_done[2]; /* multicast: ports served, by form */
	ppe_segment then; /* segment after the last packet; NULL: the thread ends */
};

/* The answers to joins on their way. */
struct answers {
	struct weir_header header;
	struct weir_join_reply reply;
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* behind it, when the job is authenticated */
	uint16_t next, end; /* as an emission's */
};

/* A contribution on its way; travels in a hop. */
struct contribution {
	struct weir_header header;
	struct hash_probe probe;
	struct block *block;
	uint32_t payload; /* offset in the packet */
	uint32_t bytes;
	uint32_t
		serial; /* of the job that it was taken for; the owner of its shard may have another */
	bool verified; /* its checksums hold; else nobody has looked yet */
	bool learned; /* its source's memo is of this very packet */
};

/* The walk of a new generation over all shards; travels in a hop. */
struct walk {
	const struct job_home *home;
	uint32_t serial; /* of the job: it may be gone, and another have its id */
	bool missed; /* a worker does not have the job, or a member, or not yet */
	uint16_t home_worker;
	uint16_t generation;
	uint8_t job;
};

/* A timer thread's way through its records, and what it found since the last step. */
#define STRAGGLERS_MAX 16
struct stragglers {
	struct ppe_worker *worker;
	struct collective *state;
	uint32_t from, end; /* records still to be looked at */
	unsigned int count, next;
	struct block *block[STRAGGLERS_MAX];
	uint64_t key[STRAGGLERS_MAX];
};

struct collective_lmem {
	union {
		struct contribution c;
		struct walk walk;
		uint8_t hop[PPE_HOP_BYTES];
	};
	union {
		struct emission emission;
		struct answers answers;
	};
	struct stragglers stragglers;
};
static_assert(sizeof(struct contribution) <= PPE_HOP_BYTES, "a contribution can hop");
static_assert(sizeof(struct collective_lmem) <= PPE_LMEM_BYTES, "LMEM");

static inline struct collective_lmem *
lmem(struct ppe_thread *thread)
{
	return ppe_lmem(struct collective_lmem, thread);
}

static inline bool
mask_test(const uint64_t mask[MASK_WORDS], uint8_t source)
{
	return (mask[source / 64] >> (source % 64) & 1) != 0;
}

static inline void
mask_clear(uint64_t mask[MASK_WORDS], uint8_t source)
{
	mask[source / 64] &= ~(UINT64_C(1) << (source % 64));
}

static inline void
mask_set(uint64_t mask[MASK_WORDS], uint8_t source)
{
	mask[source / 64] |= UINT64_C(1) << (source % 64);
}

/* Is the source known to have the result of the block, one of the slot's two: has it sent for the next
 * one, or said so? */
static inline bool
slot_source_has(const struct slot *slot, const struct block *block, uint8_t source)
{
	if (mask_test(block->received, source))
		return true;
	return block != slot->current &&
		(mask_test(slot->current->heard, source) ||
			mask_test(slot->current->received, source));
}

static inline uint64_t
block_key(uint16_t generation, uint8_t job, uint32_t block)
{
	return (uint64_t)generation << 40 | (uint64_t)job << 32 | block;
}

/* Is this pointer, kept over a segment's end, still the block of that key? */
static inline bool
block_is(const struct block *block, uint64_t key)
{
	return block->hash.live && block->hash.key == key;
}

/*
 * Open the block of a first contribution: collective_block.c. On success *block is listed, empty,
 * with its buffer; else the answer is the drop reason, and *status what to tell the source
 * (WEIR_STATUS_OK: nothing).
 */
enum ppe_drop block_open(struct collective *state, struct job_shard *job,
	struct contribution *contribution, uint64_t now, struct block **block,
	enum weir_status *status);

/* The header that all copies of the finished block's result share. */
struct weir_header result_header(const struct block *block, const struct job_shard *job);

/* The block's last contribution is in, or its time is up, or it failed: fix the result. */
void block_finish(struct collective *state, struct job_shard *job, struct block *block,
	enum weir_status status);

/* Release the block before this one, which is done, when every source is known to have its result. */
void block_release_previous(struct collective *state, struct job_shard *job, struct block *block);

/*
 * The source has the result of the slot's `current` or `previous`, and thus of all before it: it will
 * never send for it again. True: that was not known.
 */
bool acknowledge(struct collective *state, struct job_shard *job, struct slot *slot,
	struct block *block, uint8_t source);

/* How far the block is ahead of the one that its residue opens next, in windows' sense: 0 is that one. */
int32_t block_ahead(const struct job_shard *job, const struct slot *slot, uint32_t block);

/* Have all live sources contributed to the block? */
static inline bool
block_is_full(const struct job_shard *job, const struct block *block)
{
	unsigned int count = 0;

	if (block->heard_count < job->target)
		return false;
	if (likely(job->target == job->nb_sources))
		return true;
	for (unsigned int i = 0; i < MASK_WORDS; i++)
		count += (unsigned int)__builtin_popcountll(block->heard[i] | job->expelled[i]);
	return count >= job->nb_sources;
}

/*
 * A contribution is held back, because not everybody has been heard in the slot's current block, which
 * is done. Expel those for whom the others wait for too long, and release what was kept for them:
 * collective_expel.c.
 */
void expel(struct collective *state, struct job_shard *job, struct slot *slot, uint64_t now);

/* Forget all blocks of the job in this shard. The next ones are the first again; or, to count on, those
 * that would have been. */
void job_shard_clear(struct collective *state, struct job_shard *job, bool count_on);

/* Sources of a job without joins have left, and others may have come: ranks are others, too. Forget the
 * blocks that depend on them; those that were open, and what is open with a contribution of who left,
 * are the next ones of their residues again. */
void job_shard_regroup(
	struct collective *state, struct job_shard *job, const uint64_t left[MASK_WORDS]);

/* Begin a generation in this shard: forget the former one's blocks, pin the endpoints of those who
 * joined. false: one of them is no member here, or from elsewhere: home and shard have different
 * tables. */
bool job_shard_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const struct job_home *home);

/* End the generation in this shard: forget its blocks, and take nothing of its sources any more. Its
 * number, its keys and how far its blocks have come stay, to answer them with. */
void job_shard_recall(struct collective *state, struct job_shard *job);

/*
 * Authentication: collective_auth.c.
 *
 * The keys of a job in a shard, with room for sources [0, source_end); NULL: no memory. Control thread.
 */
struct job_keys *job_keys_create(const struct ppe_job *job, uint16_t source_end, int socket);
size_t job_keys_bytes(uint16_t source_end);

/* Draw what the job's challenges are made with. Control thread. -EIO: the system has no random bytes. */
int job_challenges_create(struct job_home *home);

/* Put the next challenge in home->challenge: none twice, and none that can be foreseen. */
void job_challenge_next(struct job_home *home);

/* Begin a generation: js->generation is still the former one. */
void job_keys_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES]);

/* Is the contribution (or the join) its source's? It then ends before its tag. false: it has been
 * dropped. After checksums_hold(). */
bool authentic(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);
bool authentic_join(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Write the tag of a finished block's result behind its payload; returns the tag's bytes. */
uint32_t tag_result(
	const struct job_shard *job, const struct block *block, void *payload, uint32_t bytes);

/* The same of a part, which is payload, then end; the tag is written behind that. */
uint32_t tag_part(const struct job_shard *job, const struct emission *emission, unsigned int rank,
	const void *payload, uint32_t bytes, void *end, uint32_t end_bytes);

/* The block's number in its generation, without wrapping. */
uint64_t block_number(const struct job_shard *job, uint32_t block);

/* Write the tag of a reply behind its payload: answered are the bytes that tie it to what it answers.
 * Returns the tag's bytes. */
uint8_t tag_reply(struct collective *state, const struct job_shard *job,
	const struct weir_header *header, const uint8_t answered[WEIR_TAG_BYTES], void *payload,
	uint8_t bytes);

/* Where the packet came from, as an address to answer to: collective_emit.c. */
void endpoint_of(const struct ppe_thread *thread, bool extended, struct pktbuf_endpoint *endpoint);

/* Note where a source is: endpoint and envelope. */
void source_is_at(struct ppe_worker *worker, struct job_shard *job, uint8_t source,
	const struct pktbuf_endpoint *endpoint);

/* Send a small packet to an endpoint, counted as created. payload: at most 64 bytes. */
void send_small(struct ppe_worker *worker, const struct pktbuf_endpoint *to,
	const struct weir_header *header, const void *payload, uint8_t bytes);

/* Answer the packet's sender with a status, now: `asked` with that status and no elements. payload:
 * at most 64 bytes, may be NULL. */
void reply_status(struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *asked, enum weir_status status, const void *payload,
	uint8_t bytes);

/* Is the packet from an Ethernet address that many have? Nothing is ever sent there: one answer would be
 * many. As bytes, because a frame may begin at an odd address. */
static inline bool
from_group(const struct ppe_thread *thread)
{
	return (thread->head.bytes[RTE_ETHER_ADDR_LEN] & RTE_ETHER_GROUP_ADDR) != 0;
}

/* Drop what comes from no source of its job (NULL: there is no such job), and tell the sender so, as
 * far as its kind is answered: collective_refuse.c. Ends the thread. */
struct ppe_next refuse_stranger(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *job);

/* Set up how many of them a worker answers, `per_second`. 0 or -errno. */
int refusals_init(struct collective *state, uint32_t per_second);

/* Note the ranks of the generation's sources: those of the mask. collective_job.c. */
void rank_sources(struct job_shard *job, const uint64_t sources[MASK_WORDS]);

/*
 * What is not reduced: collective_place.c.
 *
 * Put a contribution's payload where its row says, once it is admitted.
 */
void place_payload(const struct job_shard *job, const struct rte_mbuf *packet,
	const struct contribution *contribution, struct block *block);

/* Does the length of a contribution that is not reduced fit its part, and the job? size: of an element. */
bool part_fits(const struct job_shard *job, const struct ppe_job *table,
	const struct contribution *contribution, uint32_t size);

/* Of a partial result: zeros in place of what is missing. Owner of the block's shard. */
void clear_missing(const struct job_shard *job, struct block *block);

/* Is what all others wait for, the root's, missing? */
bool root_is_missing(const struct job_shard *job, const struct block *block);

/*
 * Results that differ by receiver: collective_parts.c.
 *
 * Does this one? A failed block's does not. Once it is done.
 */
static inline bool
block_has_parts(const struct block *block)
{
	return unlikely(block->apart) &&
		(block->status == WEIR_STATUS_OK || block->status == WEIR_STATUS_PARTIAL);
}

/* Prepare the emission of its parts; send one, to this source, which has an endpoint. */
void enclose_parts(struct emission *emission, const struct job_shard *job, struct block *block);
void send_part(struct ppe_worker *worker, const struct collective *state, struct emission *emission,
	struct job_shard *job, uint8_t source);

/* Prepare the emission of a finished block's result: to `only`, or to all when negative. */
void emit_block(struct ppe_worker *worker, struct ppe_thread *thread, struct block *block, int only,
	ppe_segment then);

/* The segment that sends an emission, a few packets per step. */
struct ppe_next emit(struct ppe_worker *worker, struct ppe_thread *thread);

/* The segment that takes a join at the job's home shard: collective_join.c. */
struct ppe_next join(struct ppe_worker *worker, struct ppe_thread *thread);

/* The timer segment that looks for stragglers in its slices: collective_age.c. */
struct ppe_next age(struct ppe_worker *worker, struct ppe_thread *thread);

/* When there is something to do for it: struct ppe_timer. */
uint64_t age_earliest(const void *state);

/* The job has another timeout or policy: look at its open blocks anew. */
void age_anew(struct collective *state, const struct job_shard *job);

/* The names of the segments there. */
extern const struct ppe_segment_name age_segments[], join_segments[];

/* The program's life on one worker: collective_state.c. */
int collective_state_create(const struct ppe_setup *setup, void **state);
void collective_state_destroy(void *state, struct ppe_program_leaks *leaks);
void collective_stats(const void *state, struct ppe_stats *stats);

/* A job's life in one shard: collective_job.c. */
int collective_job_create(
	const struct ppe_setup *setup, void *state, const struct ppe_job *job, void **shard);
void collective_job_take(void *state, uint8_t id, void *shard);
void collective_jobs_taken(void *state);
bool collective_job_idle(const void *shard);
void collective_job_destroy(void *shard, struct ppe_program_leaks *leaks);
void collective_job_stats(const void *shard, struct ppe_job_stats *stats);
void collective_job_source(const void *shard, uint8_t source, struct ppe_source_stats *stats);
unsigned int collective_job_blocks(const void *shard, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max);

/*
 * Contributions that are not added: collective_odd.c. For aggregate, once the checksums hold; each
 * ends the packet.
 *
 * To a finished block: its sender has lost the result, or never was in it.
 */
struct ppe_next answer_late(
	struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);

/* The source is in the block already: a repeat, which is no progress. Once the
 * block is overdue, tell who is in. */
struct ppe_next repeated(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct block *block);

/*
 * An acknowledgement, for examine, once it is admitted: the source has the results of all blocks of the
 * residue before the one that it names, and waits for that one's: collective_ack.c. Ends the packet.
 */
struct ppe_next acknowledged(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* In what does the contribution disagree with the block, what is there and what is offered? 0: in
 * nothing that counts. */
enum weir_field disagreement(const struct block *block, const struct weir_header *header,
	uint16_t *has, uint16_t *offers);

/* The first two disagree: nobody can get a sum, so everybody is told. */
struct ppe_next disagrees(struct ppe_worker *worker, struct ppe_thread *thread, struct block *block,
	enum weir_field field, uint16_t has, uint16_t offers);

/* The segments after parsing, and after admission: collective.c. */
struct ppe_next job_entry(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next find_block(struct ppe_worker *worker, struct ppe_thread *thread);

/* Start the bucket of an admitted contribution; find_block is next. */
static inline void
start_bucket(struct collective *state, struct job_shard *js, struct contribution *c)
{
	hash_begin(
		state->blocks, block_key(js->generation, js->job, c->header.block_id), &c->probe);
	rte_prefetch0(&js->slot[c->header.block_id & (js->window - 1u)]);
}

/* The time as source_seen has it: a tick is about a millisecond, 0 is never. */
#define HEARD_SHIFT 22

static inline uint32_t
heard_now(uint64_t tsc)
{
	return (uint32_t)(tsc >> HEARD_SHIFT) | 1;
}

/* The source lives. On its block's owner, once the packet is from where the source sends, and under its
 * tag where there are tags: what others send in its name tells nothing. */
static inline void
note_heard(const struct ppe_worker *worker, struct job_shard *js, uint8_t source)
{
	js->seen[source].heard = heard_now(worker->now);
}

/* Ticks since then. A worker's clock may be a tick or two ahead. */
static inline uint32_t
ticks_since(uint32_t tick, uint32_t now)
{
	return tick - now <= 4 ? 0 : now - tick;
}

/* A join that is not repeated for so long is forgotten: its host is dead, or has given up. Hosts repeat
 * theirs each 500 ms. */
#define JOIN_FORGOTTEN_S 3

static inline bool
join_is_old(const struct job_home *home, unsigned int source, uint32_t now, uint64_t hz)
{
	return ticks_since(home->asked[source].last, now) > (home->kept_s * hz) >> HEARD_SHIFT;
}

/* What admission depends on beside the packet, as a number: neither count ever goes back, so while
 * the sum is the same, nothing has changed. Never 0, which is no pass. */
static inline uint32_t
pass_now(const struct ppe_worker *worker, const struct job_shard *js)
{
	uint32_t sum = js->version + worker->jobs->version + 1;

	return unlikely(sum == 0) ? 1 : sum;
}

/* The program's shortcut, and how it learns: collective_memo.c. */
bool memo_recognise(
	struct ppe_worker *worker, void *state, struct ppe_thread *thread, struct rte_mbuf *packet);
void memo_learn(struct ppe_worker *worker, struct ppe_thread *thread, struct contribution *c);

/* A packet like the memo has been admitted, in the call that learned it. */
void memo_pass(const struct ppe_worker *worker, struct job_shard *job,
	const struct contribution *contribution);

/*
 * Check the packet's IPv4 and UDP checksums; false: it has been dropped. In software that reads the
 * whole payload, so it is put off until just before the payload is added, which then reads it from
 * L1; but nothing may change, and nobody may be answered, before.
 */
static inline bool
checksums_hold(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct pktbuf_port *port = worker->port[thread->port];
	enum pktbuf_verdict verdict = PKTBUF_CHECKSUM_GOOD;

	if (port->rx_checksum != PKTBUF_CHECKSUM_OFF)
		verdict = pktbuf_checksum_verify(port, thread->packet, &thread->head);

	if (likely(verdict == PKTBUF_CHECKSUM_GOOD))
		return true;
	ppe_drop(worker, thread,
		verdict == PKTBUF_CHECKSUM_BAD_IP ? PPE_DROP_IP_CHECKSUM : PPE_DROP_UDP_CHECKSUM);
	return false;
}

#endif
