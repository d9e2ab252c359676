/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts that the collective program's rooms share: a job as one shard sees it, the program's
 * state on one worker, and a thread's LMEM. collective.h shows the rooms.
 *
 * The worker of the shard owns everything here, with two exceptions: during an announcement other
 * shards read job_home.pending, and no thread writes it; packets in other workers' queues refer to
 * payload buffers.
 */
#ifndef PPE_COLLECTIVE_COLLECTIVE_PRIV_H
#define PPE_COLLECTIVE_COLLECTIVE_PRIV_H

#include "ppe/collective/block/block_priv.h"

struct collective;
struct contribution;
struct job_home;
struct job_shard;
struct parents_home;

/* A hop: from this switch to the sources of a job, with results, or to a parent, with
 * contributions. The packets of both have the same form. What differs is here: identity, and what
 * ends a packet. */
struct hop {
	uint16_t generation; /* 0: none */
	uint8_t job; /* the id of the job at the other end */
	uint8_t source; /* to a parent: this switch's id as a source there */
	uint8_t flags; /* of packets: WEIR_FLAG_AUTHENTICATED, WEIR_FLAG_CRC or 0; WEIR_FLAG_UP */
	/* Makes the tags of authenticated packets. NULL: there are none, or the key could not be
	 * derived: then tags are 0, and the receivers accept no packet. */
	const struct pktbuf_tag_key *key;
};

/* The functions of tree/ for the rooms below it. Only jobs with parents or children have them, so
 * other jobs never enter that room. tree.h documents them. */
struct tree_ops {
	/* Jobs with parents: */
	void (*contribute)(struct collective *state, struct job_shard *job, struct block *block,
		enum weir_status status);
	void (*ask)(struct collective *state, struct job_shard *job, uint32_t block, bool probe);
	struct ppe_next (*pending)(
		struct ppe_worker *worker, struct ppe_thread *thread, struct block *block);
	enum weir_status (*join)(struct ppe_worker *worker, struct ppe_thread *thread,
		struct job_shard *job, bool repeat);
	void (*joined)(const struct parents_home *home, uint64_t ranks[MASK_WORDS]);
	void (*begin)(struct job_shard *job, const struct parents_home *home);
	void (*end)(struct job_shard *job);
	/* Jobs with children: */
	bool (*fits)(const struct collective *state, const struct job_shard *job,
		const struct ppe_job *table, const struct contribution *contribution,
		uint32_t bytes);
	struct ppe_next (*degraded)(
		struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);
	uint16_t (*ranks)(
		const struct job_shard *job, const struct block *block, uint64_t ranks[MASK_WORDS]);
};

/* A job as one shard sees it. */
struct job_shard {
	/* Of the job table, generations and endpoints: admission and destinations depend on it. */
	uint64_t version;
	struct slot *slot; /* `window` entries; those of other shards' residues stay unused */
	uint32_t block_mask; /* the bits of a block id that count */
	uint16_t residue_mask; /* the bits that are a block's residue modulo the window */
	/* Where the number of shards is a power of two, the residues with residue & home_mask ==
	 * home_bits are here, and others are not. Otherwise no residue satisfies this. */
	uint16_t home_mask, home_bits;
	uint16_t nb_sources;
	uint16_t target; /* sources that are not expelled: what a block waits for */
	uint16_t window;
	uint16_t source_end; /* one more than the highest source id */
	uint8_t crc_bytes; /* at the end of packets: WEIR_CRC_BYTES or 0 */
	bool is_revoked; /* the generation is over; its packets are stale until the next one */
	bool children; /* the sources are switches */
	bool special; /* block_end_special() ends a block: the job is ordered, or of a tree */
	bool ordered; /* contributions are added in order; `order` is not NULL */
	bool skips_own; /* some source's own slices are left out */
	struct hop hop; /* to the sources; generation 0: no source has joined */
	uint8_t job;
	uint8_t block_shift; /* of the job */
	uint8_t policy; /* enum ppe_policy, taken together with `timeout` */
	bool pinned; /* endpoints come from joins; otherwise from the last contribution */
	bool no_average; /* averages would be rounded on the way to the root */
	uint8_t over; /* is_revoked: why, enum weir_over */
	uint16_t first_generation;

	/* Line 2. 2 buffers per residue; NULL: no residue is here. */
	struct rmw_pool *pool;
	struct rmw_quota quota;
	uint64_t timeout; /* TSC cycles */
	uint32_t rate_mbit; /* of both policers; 0: no limit */
	uint32_t records; /* of the block table, reserved for the job */
	uint32_t serial; /* of the job's shards */
	struct record_budget *budget; /* where `records` are reserved. control thread: rw */
	/* This shard's part of the job's rate, in each direction: */
	struct rmw_policer policer; /* of contributions */
	struct rmw_policer sent; /* of results and replies; a debt stops contributions */
	struct job_home *home; /* not NULL in the job's home shard */
	struct job_keys *keys; /* not NULL when the job is authenticated: its packets have tags */
	struct parents *parents; /* not NULL when the job has parents */
	const struct tree_ops *tree; /* not NULL when the job has parents or children */
	uint16_t nb_ranks; /* of the tree; nb_sources in a job without a tree */
	/* The sources cover the ranks [first_rank, first_rank + own_ranks). */
	uint16_t first_rank, own_ranks;
	uint16_t covers[WEIR_SOURCES_MAX]; /* ranks of a source: a host has one */
	bool narrow; /* narrow types travel to the parent as they are */
	struct order *order; /* not NULL when the job is deterministic and a residue is here */
	struct ppe_job_stats count; /* gauges unused */
	struct pktbuf_endpoint endpoint[WEIR_SOURCES_MAX];
	struct pktbuf_header_template header_template[WEIR_SOURCES_MAX]; /* of valid endpoints */
	struct flow flow[WEIR_SOURCES_MAX]; /* of the packets that this worker received */
	struct source_late late[WEIR_SOURCES_MAX];
	uint32_t address[WEIR_SOURCES_MAX]; /* of the members in the job table; 0: none */
	uint8_t rank[WEIR_SOURCES_MAX]; /* of a source: its place by id; in a tree, its id */
	uint8_t ranked[WEIR_SOURCES_MAX]; /* the bit of a rank, [0, ranks), in a block's `in` */
	uint16_t ranks; /* nb_sources; fewer while members of a job without joins are missing */
	uint64_t in[MASK_WORDS]; /* sources of the running generation; pinned jobs only */
	uint64_t expelled[MASK_WORDS]; /* sources of `in` that were expelled */
	uint64_t bound[MASK_WORDS]; /* sources that are bound to their ports: ppe/guard.h */
	uint64_t left[2][MASK_WORDS]; /* by step: sources with a packet left to a thread */
	bool has_left; /* some bit of `left` is set */
	struct destinations to; /* of results for all sources */
	struct own_keys *own; /* not NULL when joins are proved */
	struct rmw_pool *row_pool; /* as `pool`, for full rows of AlltoAll; NULL: no such rows */
	struct rmw_quota row_quota;
};

static_assert(offsetof(struct job_shard, pool) == 64, "what each packet reads is in one line");

/* The payloads of tagged contributions that wait for verification, in order: while a tag is
 * verified, the next payload is fetched. TAGGED_MAX: a power of two, a worker's most threads. */
#define TAGGED_MAX 64
struct tagged {
	const uint8_t *payload[TAGGED_MAX];
	uint32_t verified, end; /* [verified, end) wait */
};

/* Block records of a worker, and how many its jobs have reserved. Control thread: rw. */
struct record_budget {
	uint32_t capacity, reserved;
};

/* The packets of a turn that must wait for packets that its batch left to threads. */
enum followers {
	FOLLOWERS_NONE,
	FOLLOWERS_OF_SOURCES, /* packets of the sources in job_shard.left */
	FOLLOWERS_TO_SWITCH, /* all packets to the switch: a packet's source is not known */
	FOLLOWERS_ALL, /* all packets: not even a packet's destination is known */
};

struct collective {
	/* By form: which bits of a frame must equal struct flow.frame. */
	uint64_t flow_mask[2][8] __rte_aligned(16);
	struct ppe_worker *worker;
	struct hash_table *blocks;
	struct block *records;
	struct hash_deadlines *deadlines; /* of open blocks */
	struct job_shard *job[WEIR_JOBS_MAX];
	/* By the parent's job id: the job here of its last packet. */
	uint8_t job_of_parent[WEIR_JOBS_MAX];
	const struct rmw_reduction *reduction[16][16]; /* by dtype and op; NULL: not served */
	struct rmw_reduction wide[16][16]; /* of children's accumulators; zeros: not served */
	uint8_t dtype_bytes[16]; /* weir_dtype_bytes, without its branches */
	bool verifies; /* some port's checksums are verified, by software or the device */
	bool sums; /* some port computes UDP checksums in software: payloads are summed */
	uint64_t tsc_per_ms;
	uint64_t ns_per_cycle; /* of the TSC, times 2^32 */
	uint32_t slices; /* of the scan for stragglers */
	uint32_t aging; /* timer threads that run now: at most half of all */
	struct record_budget *budget; /* control thread: rw */
	struct pktbuf_hmac *hmac;
	/* block_forget_all(), for the membership room: a generation begins or ends in a shard. */
	void (*forget_blocks)(struct collective *state, struct job_shard *job, bool count_on);
	struct tagged tagged;
	struct batch *batch; /* block/batch.c; NULL: only threads */
	struct rte_mempool *batch_pool; /* of its packets */
	bool batch_mixed; /* some packets are not direct, or not of batch_pool */
	uint32_t batch_time; /* heard_now() */
	struct ppe_thread *batch_thread; /* a context for calls that take a thread */
	enum followers followers;
	unsigned int nb_left_jobs; /* whose job_shard.left is not 0 */
	struct job_shard *left_job[WEIR_JOBS_MAX];
};

struct answers {
	struct weir_header header;
	uint16_t next, end; /* sources [next, end) are to be answered */
};

/* A contribution in progress; travels in a hop. */
struct contribution {
	struct weir_header header;
	struct hash_probe probe;
	struct block *block;
	uint32_t payload; /* offset in the packet */
	uint32_t bytes;
	uint32_t place; /* in struct tagged */
	uint32_t serial; /* of the job on the receiving worker; may differ at the shard's owner */
	uint64_t epoch; /* of the key that verified its tag, and makes the tag of a reply */
	bool verified; /* its checksums have been verified, and are right */
	bool learned; /* its source's flow cache entry comes from this packet */
	uint8_t parent; /* the parent that sent the packet */
};

/* The announcement of a generation, or of a source's new endpoint, to all shards; travels in a
 * hop. */
struct announcement {
	const struct job_home *home;
	struct pktbuf_endpoint endpoint; /* move_endpoint: where the source is now */
	uint32_t serial; /* of the job; another job may have its id by now */
	bool missed; /* some worker does not have the job, or one of its members */
	uint16_t home_worker;
	uint16_t generation;
	uint8_t job;
	uint8_t source; /* move_endpoint */
	uint8_t over; /* revoke: why, enum weir_over */
};
static_assert(sizeof(struct announcement) <= PPE_HOP_BYTES, "an announcement can hop");

struct collective_lmem {
	union {
		struct contribution c;
		struct announcement announcement;
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
