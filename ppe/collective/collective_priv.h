/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective program's layouts: jobs as one shard sees them, blocks, and a thread's LMEM.
 *
 * The worker of the shard owns everything here, with two exceptions: during an announcement other shards read
 * job_home.pending, and no thread writes it; packets in other workers' queues refer to payload buffers.
 */
#ifndef PPE_COLLECTIVE_COLLECTIVE_PRIV_H
#define PPE_COLLECTIVE_COLLECTIVE_PRIV_H

#include <assert.h>

#include "hashengine/hash_fast.h"
#include "pktbuf/tag.h"
#include "ppe/program_fast.h"
#include "rmw/rmw.h"

#define MASK_WORDS (WEIR_SOURCES_MAX / 64)

enum block_state {
	BLOCK_OPEN, /* collecting contributions; 0 in struct block.agreement */
	BLOCK_UP, /* the sum is sent to the parent, and kept to repeat it; only in jobs with parents */
	BLOCK_DONE, /* the result is sent, and kept for sources that ask again */
};

/*
 * A block's record in the hash table. The key has generation, job and block id, so that a packet of an old generation
 * does not find a new block. A contribution touches the first line, the contributions of a batch the second one, too;
 * the third is for losses and timeouts.
 */
struct block {
	struct hash_record hash;
	uint64_t heard[MASK_WORDS]; /* sources that contributed, late ones too */
	union { /* in what contributions and their block agree */
		struct {
			uint16_t grad_cnt;
			uint8_t state; /* enum block_state */
			uint8_t final; /* of all contributions */
			uint8_t collective, op, dtype, root;
		};
		uint64_t agreement; /* all of it: open, if a contribution has this word */
	};
	uint32_t block_id;
	uint16_t heard_count;
	uint8_t group; /* of the batch under way */
	uint8_t job;

	struct rmw_buffer *buffer; /* line 2; NULL when the block carries nothing */
	const struct rmw_reduction *reduction; /* of the payloads; NULL: they are not reduced */
	uint64_t opened; /* TSC */
	uint64_t progress; /* TSC of the last new contribution */
	uint32_t payload_sum; /* ones-complement sum of the payload of the same */
	uint32_t payload_bytes;
	uint16_t in_count; /* ranks in what was sent: to the parent, or, once done, as the result */
	uint8_t status; /* enum weir_status of the same */
	uint8_t first_source;
	uint8_t overdue; /* counted as waiting */
	uint8_t copied; /* by its collective's row: payloads are copied, not reduced */
	uint8_t per_receiver; /* by its row: receivers get different results */
	uint8_t on_arrival; /* payloads are reduced as they arrive */
	struct weir_mismatch mismatch;
	uint8_t parent_status; /* BLOCK_UP: what hosts that repeat are told, enum weir_status; 0: nothing */
	uint8_t probed; /* BLOCK_UP: by a probe since the contribution was sent last */
	uint8_t asks; /* BLOCK_UP: how often the parent was asked */
	uint8_t backoff; /* BLOCK_UP: doublings of the time to the next question */
	uint8_t spare[4];

	/* Open: ranks that the children's contributions lack. Up: ranks whose contributions were sent; done: those in
	 * a degraded result. */
	uint64_t in[MASK_WORDS];
	uint64_t received[MASK_WORDS]; /* sources that acknowledged the result other than by a
					  contribution to the next block */
};
static_assert(sizeof(struct block) == 192 && offsetof(struct block, buffer) == 64 &&
		offsetof(struct block, in) == 128,
	"three cache lines");

/*
 * The parents, in one shard of a job that has parents; parent.c and parent_join.c, docs/tree.md.
 */
struct parent {
	uint16_t generation; /* of its job, in which this switch takes part; 0: none */
	uint32_t heard; /* heard_now() of its last packet here; 0: none yet */
	struct pktbuf_endpoint at;
	uint8_t job; /* the id of the job there */
	struct pktbuf_header_template header; /* of what goes to it */
	uint32_t timeout_ms; /* of its job */
	uint32_t
		unanswered; /* heard_now() of the first repetition since its last packet here; 0: none */
	uint32_t asked; /* of the last one */
	uint32_t questions; /* since then that it should have answered */
	uint32_t proved; /* heard_now() of then, or of the last join that was repeated since */
	uint64_t answer; /* TSC cycles from a packet to the parent to its answer, smoothed */
	uint8_t backoff; /* doublings with which the next block begins: parent.c */
	bool no_probes; /* it does not know probes */
	struct parent_keys *keys; /* not NULL when packets on this hop have tags */
};

/* The keys of a parent's generation. */
struct parent_keys {
	struct pktbuf_tag_key contributions, results;
};

/* Whom a reply answers: where, and the bytes that tie it to the packet. */
struct asker {
	struct pktbuf_endpoint at;
	struct weir_header header; /* of the packet */
	uint64_t epoch; /* of the key that verified it; if the job has keys */
	uint8_t answered[WEIR_TAG_BYTES]; /* likewise: its tag, or of a join its nonce */
};

struct parents {
	struct pktbuf_identity self; /* with the port for parents in place of the extended one */
	uint8_t nb_parents;
	uint8_t nb_serving; /* parents to which blocks go; 0: this switch takes part nowhere */
	uint8_t serving
		[PPE_PARENTS_MAX]; /* block b goes to serving[(b mod window) mod nb_serving] */
	uint8_t bound; /* bit p: the addresses of parent p are bound to its port: ppe/guard.h */
	uint64_t (*known)
		[MASK_WORDS]; /* by residue: the ranks that the parent said are in the block */
	bool is_asked; /* `asker` repeated a contribution, and waits for what the parent says */
	struct asker asker; /* the last one */
	struct parent parent[PPE_PARENTS_MAX];
};

/* The blocks of one residue modulo the window. */
struct slot {
	uint64_t next; /* number of the block that may be opened next, without wrapping; its low 32
			  bits are its id, of which the high block_shift bits do not count */
	struct block *current; /* the newest, open or done; NULL before the first */
	struct block *previous; /* the one before, done and not yet released, or NULL */
	uint64_t held_since; /* TSC: since when contributions are held back until `previous` is
				released; 0: none is */
	uint64_t
		asked; /* TSC: when something about the block that the parent has not answered last went up; 0:
			   nothing has */
};

/*
 * A flow cache entry: the frame and headers of a source's last contribution. The next one differs in block id, final
 * flag, checksums and IPv4's identification only. An entry is never outdated; admission, which depends on jobs,
 * generations and endpoints, has a version. A batch reads the first two lines.
 */
struct flow {
	uint64_t frame[8]; /* its first 64 bytes */

	uint64_t mbuf; /* flow_mbuf() of one segment with one reference; 0: nothing seen yet */
	uint64_t admitted; /* job_shard.version when such a packet was admitted here; 0: none */
	uint64_t batched; /* the same, if batches take such packets; otherwise 0 */
	uint64_t agreement[2]; /* of its block, by final flag; once admitted */
	const uint64_t *mask; /* which bits of `frame` are compared; by header form */
	uint32_t heard; /* heard_now() of the source's last packet, of any flow; 0: none yet */
	uint16_t length; /* bytes */
	uint16_t payload; /* offset in the packet */

	struct pktbuf_head head; /* line 3 */
	struct weir_header header;
} __rte_cache_aligned;
static_assert(sizeof(struct flow) == 192 && offsetof(struct flow, head) == 120, "three lines");

/* How much blocks wait for a source; a line is touched once per block. */
struct source_late {
	uint64_t last; /* blocks that it completed */
	uint64_t waited; /* TSC cycles that they waited for it */
	uint64_t until; /* TSC: counted up to here. Blocks overlap, and time counts once */
};

/* Where a result for all sources goes: to each one, or, of a job with a group, once per port and header form. */
struct destinations {
	uint64_t version; /* of the job shard, when they were collected */
	uint16_t n;
	bool form[2]; /* some are of the base form, of the extended form */
	struct pktbuf_shared_header shared[2]; /* of the last result, by form */
	uint64_t agreement; /* of its block, if that was complete and has a payload; otherwise 0 */
	const struct pktbuf_header_template *headers[WEIR_SOURCES_MAX];
	struct pktbuf_header_template group[PPE_PORTS_MAX][2]; /* to the group, by port and form */
};

/* A job as one shard sees it. */
struct job_shard {
	uint64_t
		version; /* of what admission and destinations depend on: job table, generations and endpoints */
	struct slot *slot; /* `window` entries; those of other shards' residues stay unused */
	uint32_t block_mask; /* of the bits of a block id that count */
	uint16_t residue_mask; /* of those that are its residue modulo the window */
	uint16_t home_mask,
		home_bits; /* residues & home_mask == home_bits are here, and others are not, if the number of
				     shards is a power of two; otherwise none are */
	uint16_t generation; /* 0: no source has joined yet */
	uint16_t nb_sources;
	uint16_t target; /* sources that are not expelled: what a block waits for */
	uint16_t window;
	uint16_t source_end; /* one more than the highest source id */
	uint16_t first_generation;
	uint8_t job;
	uint8_t block_shift; /* of the job */
	uint8_t policy; /* enum ppe_policy, as `timeout` was taken */
	bool pinned; /* endpoints come from joins; otherwise from the last contribution */
	bool ordered; /* contributions are added in order: `order` is there */
	bool special; /* the end of a block is not block_finish() alone: ordered, or of a tree */
	bool skips_own; /* some source's own slices are left out */
	bool more_checks; /* of contributions than admit() makes: admit_more() */
	uint8_t crc_bytes; /* at the end of packets: WEIR_CRC_BYTES or 0 */
	uint8_t flags; /* of packets of the job: WEIR_FLAG_AUTHENTICATED, WEIR_FLAG_CRC or 0 */
	bool revoked; /* the generation is over and its packets are stale, until the next one begins */
	uint8_t over; /* revoked: why, enum weir_over */
	struct rmw_pool *pool; /* 2 buffers per residue; NULL: no residue is here */
	struct rmw_quota quota;
	uint64_t timeout; /* TSC cycles */
	uint32_t rate_mbit; /* of both policers; 0: no limit */
	uint32_t records; /* of the block table, reserved for the job */
	uint32_t serial; /* of the job's shards */
	struct record_budget *budget; /* where they are reserved. control thread: rw */
	/* This shard's part of the job's rate, in each direction: */
	struct rmw_policer policer; /* of contributions */
	struct rmw_policer sent; /* of results and replies; a debt stops contributions */
	struct job_home *home; /* not NULL in the job's home shard */
	struct job_keys *keys; /* not NULL when the job is authenticated: its packets have tags */
	struct parents *parents; /* not NULL when the job has parents */
	uint16_t nb_ranks; /* of the tree: nb_sources in a job without a tree */
	uint16_t first_rank, own_ranks; /* the sources cover [first_rank, first_rank + own_ranks) */
	bool children; /* the sources are switches */
	uint16_t covers[WEIR_SOURCES_MAX]; /* ranks of a source: a host has one */
	bool narrow; /* narrow types travel to the parent as they are */
	struct order *order; /* not NULL when the job is deterministic and a residue is here */
	struct ppe_job_stats count; /* gauges unused */
	struct pktbuf_endpoint endpoint[WEIR_SOURCES_MAX];
	struct pktbuf_header_template header_template[WEIR_SOURCES_MAX]; /* of valid endpoints */
	struct flow flow[WEIR_SOURCES_MAX]; /* of the packets that this worker received */
	struct source_late late[WEIR_SOURCES_MAX];
	uint32_t address[WEIR_SOURCES_MAX]; /* of the members in the job table; 0: none */
	/* Of a source: its place in the order of ids, or in a tree its first rank, which is its id. */
	uint8_t rank[WEIR_SOURCES_MAX];
	uint8_t ranked[WEIR_SOURCES_MAX]; /* the bit of a rank, [0, ranks), in a block's `in` */
	uint16_t ranks; /* nb_sources; fewer while members of a job without joins are missing */
	uint64_t in[MASK_WORDS]; /* sources of the running generation; pinned jobs only */
	uint64_t expelled[MASK_WORDS]; /* those of them that were expelled */
	uint64_t bound
		[MASK_WORDS]; /* sources whose endpoints are bound to their ports: ppe/guard.h */
	uint64_t left[2][MASK_WORDS]; /* sources of which a batch has left a packet to a thread */
	bool has_left; /* some bit is set */
	struct destinations to; /* of results for all sources */
	struct own_keys *own; /* not NULL when joins are proved */
	struct rmw_pool *row_pool; /* as `pool`, for full rows of AlltoAll; NULL: there are none */
	struct rmw_quota row_quota;
};

/* A source's joins; times as heard_now(). Home shard: rw, control: ro. */
struct join_request {
	uint32_t since, last; /* first and last join for the next generation, while it is pending */
	uint32_t accepted; /* last join of the running one; 0: none */
	uint32_t contested; /* last time that two processes were seen to join in turn; 0: never */
	uint32_t former_nonce; /* of the pending join that the present one replaced; 0: none */
};

/* A process that joined as a source. */
struct claim {
	struct pktbuf_endpoint at; /* not valid: there is none */
	uint32_t order; /* of all claims of the job */
	uint32_t nonce; /* the join's block_id */
	uint32_t count; /* proved: of its last transmission */
	uint8_t proof[WEIR_CHALLENGE_BYTES]; /* proved: the long nonce */
	uint64_t epoch; /* proved: of its key */
	uint8_t parents; /* of a switch: the set of those with which it takes part */
};

/* Why a switch does not take part in a parent's job. */
struct parent_refusal {
	uint8_t setting; /* enum ppe_parent_setting; 0: it does */
	uint32_t ours, theirs;
};

/* A join at a parent. Home shard: rw, control: ro; other shards read it during an announcement. */
struct parent_join {
	uint8_t nonce
		[WEIR_CHALLENGE_BYTES]; /* its first 4 bytes alone, if joins there need no proof */
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* proved: to be quoted */
	uint32_t count; /* proved: transmissions with this nonce */
	uint32_t asked,
		heard; /* heard_now() of the first join since the last answer, and of that; 0: none */
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

/* The collection of joins, in the home shard (the one of residue 0). */
struct job_home {
	bool announcing; /* an announcement is in progress */
	uint16_t kept_s; /* seconds that a join counts without being repeated; not 0 */
	uint16_t begun; /* the last generation that was tried; none is tried twice. 0: none yet */
	uint16_t pending_count;
	uint32_t claims; /* counts new joins */
	uint64_t pending[MASK_WORDS];
	uint64_t gone[MASK_WORDS]; /* pending sources that left meanwhile */
	uint64_t in[MASK_WORDS]; /* sources whose joins began the running generation */
	uint64_t present[MASK_WORDS]; /* in it, and has neither left nor joined again */
	struct join_request request[WEIR_SOURCES_MAX];
	struct claim asking[WEIR_SOURCES_MAX]; /* of pending joins */
	struct claim joined[WEIR_SOURCES_MAX]; /* of the running generation */
	struct claim displaced[WEIR_SOURCES_MAX]; /* the last displaced process of each source */
	uint64_t tell[MASK_WORDS]; /* sources for which it has not been told */
	uint32_t former[WEIR_SOURCES_MAX]; /* nonces of the former one; 0: none, or the same */
	struct parents_home *parents; /* not NULL when the job has parents */
	/* Of a job whose joins are proved, or that has parents: */
	struct pktbuf_tag_key
		challenger; /* makes challenges and nonces; drawn by the control thread */
	uint64_t challenges; /* made so far */
	uint64_t quoted[MASK_WORDS]; /* sources whose challenge has served a join */
	uint8_t challenge[WEIR_SOURCES_MAX][WEIR_CHALLENGE_BYTES]; /* that joins must quote */
	uint8_t generation_challenge[WEIR_CHALLENGE_BYTES]; /* of the generation that begins */
};

/*
 * The own keys of a job's sources in one shard. A key is derived when a packet of its source needs it, so that no worker
 * stops to derive all at once, and kept, because deriving costs an HMAC and any host can cause it. While a rank changes
 * hands, two epochs may take turns.
 */
struct own_keys {
	uint8_t job[WEIR_KEY_BYTES];
	struct own_key {
		uint64_t epoch; /* of the source in the worker's job table */
		uint64_t former_epoch; /* that it replaced at the same address; 0: none */
		uint64_t derived_epoch; /* of the key */
		bool derived;
		uint8_t key[WEIR_KEY_BYTES];
	} source[];
};

/* The keys of an authenticated job in one shard; a source's key is derived as above. */
struct job_keys {
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* of the running generation */
	uint8_t former_challenge[WEIR_CHALLENGE_BYTES]; /* of the one before */
	uint64_t
		epoch[WEIR_SOURCES_MAX]; /* in which the sources of the running generation joined */
	uint64_t former_epoch[WEIR_SOURCES_MAX]; /* and of the one before */
	uint16_t former; /* that generation; 0: there was none */
	bool results_derived;
	uint64_t derived[MASK_WORDS]; /* sources whose key is there */
	uint8_t results_bytes[WEIR_KEY_BYTES]; /* what the sources get, wrapped */
	struct pktbuf_tag_key results;
	struct pktbuf_tag_key source[]; /* contributions' keys of the running generation */
};

/* Where the payloads of tagged contributions lie that wait for verification, in their order: while a tag is verified,
 * the next payload is fetched. A power of two, as many as a worker has threads. */
#define TAGGED_MAX 64
struct tagged {
	const uint8_t *payload[TAGGED_MAX];
	uint32_t verified, end; /* [verified, end) wait */
};

/* Block records of a worker, and how many its jobs have reserved. Control thread: rw. */
struct record_budget {
	uint32_t capacity, reserved;
};

struct collective {
	/* By form: which bits of a frame must equal those of struct flow. */
	uint64_t flow_mask[2][8] __rte_aligned(16);
	struct ppe_worker *worker;
	struct hash_table *blocks;
	struct block *records;
	struct hash_deadlines *deadlines; /* of open blocks */
	struct job_shard *job[WEIR_JOBS_MAX];
	uint8_t job_of_parent
		[WEIR_JOBS_MAX]; /* by the parent's job id: a job here to which a packet of it belonged */
	const struct rmw_reduction *reduction[16][16]; /* by dtype and op; NULL: not served */
	struct rmw_reduction wide[16][16]; /* of children's accumulators; zeros: they have none */
	uint8_t dtype_bytes[16]; /* weir_dtype_bytes, without its branches */
	bool verifies; /* some port's packets come with checksums that software or the device verifies */
	bool sums; /* some port computes UDP checksums in software: payloads are summed */
	uint64_t tsc_per_ms;
	uint64_t ns_per_cycle; /* of the TSC, times 2^32 */
	uint32_t slices; /* of the scan for stragglers */
	uint32_t aging; /* timer threads that run now: at most half of all */
	struct record_budget *budget; /* control thread's */
	struct pktbuf_hmac *hmac;
	struct tagged tagged;
	struct batch *batch; /* batch.c; NULL: only threads */
	struct rte_mempool *batch_pool; /* of its packets */
	bool batch_mixed; /* but not of all, or some are not direct */
	uint32_t batch_time; /* heard_now() */
	struct ppe_thread *batch_thread; /* a context for calls that take one */
	bool left; /* a batch has left packets to threads */
	bool lane_left; /* and some of them had a lane */
	bool all_left; /* it is not known of which source: all packets for the switch follow */
	bool unknown_left; /* not even whether for the switch: all packets follow */
	unsigned int nb_left_jobs; /* whose job_shard.left is not 0 */
	struct job_shard *left_job[WEIR_JOBS_MAX];
};

/* Results in progress that differ by receiver: each is a part of the payload with an end of its own; the state of the
 * emit segment. */
struct emission {
	struct pktbuf_payload payload;
	struct rmw_buffer *buffer; /* holds the payload, and is held until the end; or NULL */
	uint8_t in[WEIR_BITMAP_BYTES]; /* the bitmap */
	uint8_t job;
	bool copied; /* its packets may not hold the buffer */
	struct weir_header header;
	uint64_t number; /* of the block in its generation */
	uint16_t next, end; /* sources [next, end) are to be served */
	ppe_segment then; /* segment after the last packet; NULL: the thread ends */
};

struct answers {
	struct weir_header header;
	struct weir_join_reply reply;
	uint16_t next, end; /* as in an emission */
};

/* A contribution in progress; travels in a hop. */
struct contribution {
	struct weir_header header;
	struct hash_probe probe;
	struct block *block;
	uint32_t payload; /* offset in the packet */
	uint32_t bytes;
	uint32_t place; /* in struct tagged */
	uint32_t
		serial; /* of the job on the receiving worker; the shard's owner may have another */
	uint64_t epoch; /* whose key verified its tag, and will make that of an answer */
	bool verified; /* its checksums are right; otherwise not verified yet */
	bool learned; /* its source's flow cache entry comes from this packet */
	uint8_t parent; /* of a packet from a parent: which one */
};

/* The announcement of a generation, or of a source's new endpoint, to all shards; travels in a hop. */
struct announcement {
	const struct job_home *home;
	struct pktbuf_endpoint endpoint; /* follow: where the source is now */
	uint32_t serial; /* of the job, whose id another may have by now */
	bool missed; /* some worker does not have the job, or one of the members, or not yet */
	uint16_t home_worker;
	uint16_t generation;
	uint8_t job;
	uint8_t source; /* follow */
	uint8_t over; /* revoke: why, enum weir_over */
};
static_assert(sizeof(struct announcement) <= PPE_HOP_BYTES, "an announcement can hop");

/* A timer thread's position in its records, and what it found in the last step. */
#define STRAGGLERS_MAX 16
struct stragglers {
	struct ppe_worker *worker;
	struct collective *state;
	uint32_t from, end; /* records to be checked */
	unsigned int count, next;
	struct block *block[STRAGGLERS_MAX];
	uint64_t key[STRAGGLERS_MAX];
};

struct collective_lmem {
	union {
		struct contribution c;
		struct announcement announcement;
		uint8_t hop[PPE_HOP_BYTES];
	};
	union {
		struct emission emission;
		struct answers answers;
		uint64_t missing
			[MASK_WORDS]; /* of a child's degraded contribution: ranks that it lacks */
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
