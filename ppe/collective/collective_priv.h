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

#include "hashengine/hash_fast.h"
#include "pktbuf/tag.h"
#include "ppe/program_fast.h"
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
	bool revoked; /* the generation is over: what is of it is stale. Until the next one begins */
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
	uint16_t kept_s; /* seconds that a join which is not repeated counts; not 0 */
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

#endif
