/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job table: jobs, as the control plane describes them to the engines.
 *
 * A table is immutable once published (ppe_publish_jobs in ppe/ppe.h): the control thread builds a
 * new table, swaps the pointer and frees the old one when every worker has taken the new one. A
 * worker takes a table between threads, so no thread sees two. Microcode reads it as worker->jobs.
 * It keeps no pointer into it from one segment to the next, but the job id.
 */
#ifndef PPE_JOBS_H
#define PPE_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "pktbuf/wire/settings.h"

#define PPE_JOB_NAME_MAX 32
#define PPE_WINDOW_MAX   4096 /* blocks; a window is a power of two in [1, PPE_WINDOW_MAX] */

/*
 * What happens to a block that saw no new contribution for the job's timeout: name, word, and
 * whether a result without the missing contributions is sent. Except for WAIT the block ends;
 * without such a result it fails.
 */
#define PPE_POLICY_LIST(X)                                                                         \
	X(WAIT, "wait", false)                                                                     \
	X(PARTIAL, "partial", true)                                                                \
	X(ERROR, "error", false)

enum ppe_policy {
#define X(name, ...) PPE_POLICY_##name,
	PPE_POLICY_LIST(X)
#undef X
};

static inline bool
ppe_policy_sends_partial(enum ppe_policy policy)
{
	return false
#define X(name, word, partial) || ((partial) && policy == PPE_POLICY_##name)
		PPE_POLICY_LIST(X)
#undef X
			;
}

/* What shows a damaged packet of a job, besides checksums: name, word. */
#define PPE_INTEGRITY_LIST(X)                                                                      \
	X(NONE, "none")                                                                            \
	X(CRC32C, "crc32c")

enum ppe_integrity {
#define X(name, ...) PPE_INTEGRITY_##name,
	PPE_INTEGRITY_LIST(X)
#undef X
};

/* The buffers of AlltoAll's blocks. */
enum ppe_alltoall {
	PPE_ALLTOALL_SHORT, /* those of other blocks: all rows of a block share `elements` */
	PPE_ALLTOALL_FULL, /* their own: each row has `elements`; not in a tree */
};

#define PPE_PARENTS_MAX 8

/* A parent of a job: a switch to which this one contributes as a source. docs/tree.md */
struct ppe_parent {
	char name[PPE_JOB_NAME_MAX]; /* for people; unique in the job */
	uint32_t address; /* host order */
	uint8_t mac[6]; /* of the parent, or of a router on the way to it */
	uint16_t port; /* of this switch, by index */
	uint16_t udp; /* the parent's port of the extended form */
	uint8_t job; /* the id of the job there */
	bool keyed; /* joins there need a proof */
	uint8_t key[WEIR_KEY_BYTES]; /* this source's there; if keyed */
};

/* A job, as configured. ppe: ro, ctrl: wo before publication. */
struct ppe_job {
	char name[PPE_JOB_NAME_MAX]; /* for people; unique */
	uint8_t id;
	uint8_t dtype; /* enum weir_dtype: what the base form means */
	uint8_t op; /* enum weir_op: what the base form means */
	uint8_t policy; /* enum ppe_policy */
	uint8_t block_shift; /* high bits of a block id that do not count, [0, 24] */
	uint16_t window; /* blocks, a power of two, at most 2^(30 - block_shift) */
	uint16_t elements; /* per block at most, [1, 4095] */
	uint16_t nb_sources; /* [1, 256] */
	uint16_t fixed_generation; /* 0: sources join; else the generation, and no join is needed */
	uint16_t first_generation; /* before the first join is done; 0: the switch's */
	/* A source's join ends the running generation at once; false: when all have joined. */
	bool revoke;
	bool deterministic; /* floating-point contributions are added in the order of source ids */
	uint8_t alltoall; /* enum ppe_alltoall */
	bool proved; /* joins need a proof; not with a fixed generation */
	/* Every packet has a tag; implies `proved`. A fixed generation is only for measurements:
	 * its tags repeat when the switch is restarted. */
	bool authenticated;
	uint8_t key[WEIR_KEY_BYTES]; /* all others derive from it; if proved or authenticated */
	uint32_t instance; /* distinguishes successive jobs with the same id */
	uint32_t timeout_ms; /* [1, 60000] */
	/* [0, 3600000] policy partial: expel a silent source that delays others so long; 0: no */
	uint32_t dead_after_ms;
	uint32_t rate_mbit; /* Mbit/s of its contributions' frames, [1, 10^6]; 0: any */
	uint32_t group; /* host order; results by multicast to it; 0: unicast */
	uint64_t members[WEIR_SOURCES_MAX / 64]; /* bit s: source s is in the job */
	uint32_t address[WEIR_SOURCES_MAX]; /* of members, host order */
	uint64_t epoch[WEIR_SOURCES_MAX]; /* of members: new per membership; 0: keeps its key */
	/*
	 * Trees, docs/tree.md. Ids of sources are ranks of the tree: a host's own, a switch's
	 * first. The sources of a job cover the ranks [first_rank, first_rank + ppe_job_ranks()).
	 */
	bool children; /* the sources are switches */
	bool narrow; /* narrow types travel upward unwidened */
	uint8_t integrity; /* enum ppe_integrity; NONE if authenticated */
	uint8_t nb_parents; /* [0, PPE_PARENTS_MAX] */
	uint16_t first_rank; /* 0 without parents */
	uint16_t tree_ranks; /* in the whole tree, [1, 256]; 0 without parents */
	uint16_t ranks[WEIR_SOURCES_MAX]; /* that a source covers, if the sources are switches */
	struct ppe_parent parent[PPE_PARENTS_MAX];
};

/* All jobs by id; NULL where there is none. */
struct ppe_jobs {
	uint32_t version; /* counts the tables; the engines' */
	const struct ppe_job *by_id[WEIR_JOBS_MAX];
};

static inline bool
ppe_job_has(const struct ppe_job *job, uint8_t source)
{
	return (job->members[source / 64] >> (source % 64) & 1) != 0;
}

/*
 * One more than the highest source id that the job has room for, [1, 256]. Members that join while
 * it runs get ids below it; a higher id needs a new job.
 */
static inline uint16_t
ppe_job_source_end(const struct ppe_job *job)
{
	unsigned int end = 0;

	for (unsigned int i = 0; i < WEIR_SOURCES_MAX / 64; i++)
		if (job->members[i] != 0)
			end = 64 * i + 64 - (unsigned int)__builtin_clzll(job->members[i]);
	return (uint16_t)(end > job->first_rank + job->nb_sources
			? end
			: job->first_rank + job->nb_sources);
}

/* How many ranks the job's sources cover, [1, 256]. */
static inline uint16_t
ppe_job_ranks(const struct ppe_job *job)
{
	uint16_t n = 0;

	if (!job->children)
		return job->nb_sources;
	for (unsigned int s = 0; s < WEIR_SOURCES_MAX; s++)
		n = (uint16_t)(n + job->ranks[s]);
	return n;
}

/* How many ranks the whole tree has: for hosts, the size of the job. */
static inline uint16_t
ppe_job_tree_ranks(const struct ppe_job *job)
{
	return job->nb_parents != 0 ? job->tree_ranks : ppe_job_ranks(job);
}

/*
 * Why a switch does not take part in a parent's job: the setting in which the two disagree (enum
 * weir_setting; the rules are in ctrl/config/job_settings.h), or one of these. ctrl has the words
 * for people.
 */
enum ppe_parent_setting {
	PPE_PARENT_AGREES,
	PPE_PARENT_RANKS = WEIR_SETTINGS, /* of the tree */
	PPE_PARENT_SOURCE_RANKS, /* of this switch */
	PPE_PARENT_ABOVE, /* the parent does not take part in a job of its own parents */
	PPE_PARENT_GONE, /* the parent has no such job or source */
	PPE_PARENT_UNKNOWN, /* its job has a setting, by its code, that this switch must know */
};

/* The least timeout of a parent's job, unless the policy is `wait`: a straggler is found within 1.1
 * timeouts; the rest is for transit. Both in ms. */
static inline uint32_t
ppe_parent_timeout_least(uint32_t timeout_ms)
{
	return timeout_ms + (timeout_ms + 3) / 4 + 1;
}

/* A block's number in the job: its id without the ignored high bits. */
static inline uint32_t
ppe_job_block(const struct ppe_job *job, uint32_t id)
{
	return id & UINT32_MAX >> job->block_shift;
}

/*
 * The shard of a residue modulo the window of the job `id`. So block b and block b + window, which
 * releases it, meet on one lcore. Neighboring residues go round all shards. shards: [1, 16].
 * Returns [0, shards). Cost: a mask, or one 32-bit division.
 */
static inline unsigned int
ppe_residue_shard(uint8_t id, uint32_t residue, unsigned int shards)
{
	unsigned int turn = id + residue;

	return (shards & (shards - 1)) == 0 ? turn & (shards - 1) : turn % shards;
}

/* The shard of a block. */
static inline unsigned int
ppe_job_shard(const struct ppe_job *job, uint32_t block, unsigned int shards)
{
	return ppe_residue_shard(job->id, block & (job->window - 1u), shards);
}

/* How many residues of the job's window a shard owns. */
static inline unsigned int
ppe_job_residues(const struct ppe_job *job, unsigned int shard, unsigned int shards)
{
	unsigned int first = (shard + shards - job->id % shards) % shards;

	return first >= job->window ? 0 : (job->window - first + shards - 1) / shards;
}

/* Bytes of the job's largest payload: `elements` of 4 bytes, or half as many of 8; at least one. */
static inline uint32_t
ppe_job_payload_bytes(const struct ppe_job *job)
{
	return job->elements > 1 ? job->elements * 4u : 8u;
}

/* The elements that all rows of an AlltoAll's block have together. */
static inline uint32_t
ppe_job_row_room(const struct ppe_job *job)
{
	return job->alltoall == PPE_ALLTOALL_FULL ? row_room(job->elements, ppe_job_ranks(job))
						  : job->elements;
}

/* Bytes of all these rows. */
static inline uint32_t
ppe_job_row_bytes(const struct ppe_job *job)
{
	uint32_t room = ppe_job_row_room(job);

	return room > 1 ? room * 4u : 8u;
}

/*
 * Contributions of an open block that may have to wait for their turn: all but one in a
 * deterministic job. The job reserves ppe_job_payload_bytes for each, and for each block of its
 * window.
 */
static inline unsigned int
ppe_job_kept(const struct ppe_job *job)
{
	return job->deterministic ? job->nb_sources - 1u : 0;
}

/* Bytes of the tag or the CRC that ends the job's packets; 0: none does. */
static inline uint32_t
ppe_job_end_bytes(const struct ppe_job *job)
{
	if (job->authenticated)
		return WEIR_TAG_BYTES;
	return job->integrity == PPE_INTEGRITY_CRC32C ? WEIR_CRC_BYTES : 0;
}

/* Buffers per residue of the window: two for its blocks, and one that queues and devices may keep
 * after its block is over. docs/architecture.md, "Memory". */
#define PPE_JOB_BUFFERS 3u

/* Bytes of an aggregation buffer of the job: the largest payload, then bitmap and tag or CRC. A job
 * with full AlltoAll blocks has as many more of ppe_job_row_bytes(), without the end, which differs
 * by receiver. */
static inline uint32_t
ppe_job_buffer_bytes(const struct ppe_job *job)
{
	return ppe_job_payload_bytes(job) + WEIR_BITMAP_BYTES + ppe_job_end_bytes(job);
}

#endif
