/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program contract: how microcode is written.
 *
 * A program is a list of segments, plain C functions. A segment runs up to its next memory access
 * that may miss the cache, starts it (a prefetch) and returns the segment to continue with; the
 * barrel loop meanwhile steps the other threads. Rules:
 *
 *  1. A segment never waits, allocates from the heap, logs, or reads a clock (worker->now is the
 *     time of the loop turn, in TSC cycles).
 *  2. State lives in the thread's LMEM (ppe_lmem) and in structures that this worker owns. A
 *     pointer into shared state (a record, a buffer) must be checked again in the next segment,
 *     because other threads of this worker ran in between.
 *  3. Only a hop reaches state of another worker. The first PPE_HOP_BYTES of LMEM and the parsed
 *     head go along.
 *  4. The packet has exactly one end: ppe_send, ppe_consume or ppe_drop, which return PPE_END.
 *
 * docs/write-a-program.md is a tutorial.
 */
#ifndef PPE_PROGRAM_H
#define PPE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>

#include "pktbuf/pktbuf.h"
#include "ppe/drops.h"
#include "ppe/jobs.h"

struct ppe;
struct ppe_config;
struct ppe_block_info;
struct ppe_job_stats;
struct ppe_memory;
struct ppe_parent_stats;
struct ppe_room;
struct ppe_source_stats;
struct ppe_worker;
struct ppe_thread;

/* The segment to run next. A segment returns it. */
struct ppe_next;
typedef struct ppe_next (*ppe_segment)(struct ppe_worker *worker, struct ppe_thread *thread);
struct ppe_next {
	ppe_segment run; /* NULL: the thread has ended or left this worker */
};

#define PPE_RUN(segment) ((struct ppe_next){segment})
#define PPE_END          ((struct ppe_next){NULL})

/* Local memory of a thread (Trio: 1.25 KB), and the part of it that a hop carries. */
#define PPE_LMEM_BYTES 1280
#define PPE_HOP_BYTES  112

/*
 * A thread context. Owner: the worker whose array it is in. The first line belongs to the engine. A
 * program reads packet, port and head, and keeps its state in lmem.
 */
struct ppe_thread {
	struct ppe_next next; /* engine */
	struct rte_mbuf *packet; /* NULL in a timer's thread and after the packet's end */
	uint16_t port; /* switch port that received it */
	uint16_t flow; /* engine: reorder slot, when ordered */
	uint16_t ticket; /* engine: turn within the flow */
	uint8_t ordered; /* engine: holds a ticket */
	uint8_t program; /* index in the program list */
	uint32_t slice; /* timer threads: the first slice, [0, slices) */
	uint32_t slices; /* and how many */
	ppe_segment turn; /* engine: segment to run at the thread's turn */
	struct pktbuf_head head;
	uint8_t lmem[PPE_LMEM_BYTES] __rte_cache_aligned;
	uint8_t scratch[PKTBUF_HEAD_BYTES]; /* engine: a head that is not contiguous in its mbufs */
} __rte_cache_aligned;

/* The thread's local memory as a program's own struct of at most PPE_LMEM_BYTES. */
#define ppe_lmem(type, thread)                                                                     \
	((type *)(__extension__({                                                                  \
		static_assert(sizeof(type) <= PPE_LMEM_BYTES, "LMEM has 1280 bytes");              \
		(void *)(thread)->lmem;                                                            \
	})))

/* Which packets a program takes. All set conditions must hold. The first program that matches a
 * packet gets it. */
#define PPE_MATCH_TO_SWITCH_MAC 0x1 /* Ethernet destination is the switch's address */
#define PPE_MATCH_TO_SWITCH_IP  0x2 /* IPv4 destination is the switch's address */
#define PPE_MATCH_ETHER_TYPE    0x4
#define PPE_MATCH_IP_PROTO      0x8
#define PPE_MATCH_UDP_PORT      0x10 /* UDP destination port; implies a sane UDP header */
#define PPE_MATCH_FRAGMENT      0x20 /* IPv4 fragments, first or later */

struct ppe_match {
	uint16_t conditions; /* PPE_MATCH_*; 0 takes every packet */
	uint16_t ether_type; /* host order */
	uint16_t udp_port; /* host order */
	uint16_t udp_any; /* bits in which the port may differ */
	uint8_t ip_proto;
	uint8_t program; /* engine */
};

/*
 * A timer: starts `slices` threads per period, one each period / slices, at `segment` with
 * thread->packet NULL, for slices [thread->slice, thread->slice + thread->slices). That is one
 * slice, unless `together` is set: then one thread takes all slices that are due, and threads start
 * at least 16 us apart, because with short periods threads would cost more than scans.
 */
struct ppe_timer {
	ppe_segment segment;
	uint64_t period_us; /* [10, ...]: each slice is visited once per period */
	uint32_t slices; /* [1, 1000] */
	bool together;
	/* TSC before which no slice has anything to do; a sleeping worker wakes for it. UINT64_MAX:
	 * nothing is due. NULL: the timer does not wake a worker. */
	uint64_t (*earliest)(const void *state);
};

/* The arguments of a program's create(). */
struct ppe_setup {
	struct ppe *ppe;
	const struct ppe_config *config;
	const struct ppe_jobs *jobs; /* the first table; NULL in jobs->create */
	struct ppe_worker *worker; /* the worker that the state is for */
	unsigned int worker_id; /* [0, workers) */
	unsigned int workers;
	unsigned int nb_ports;
	int socket; /* NUMA node for the memory */
	uint32_t serial; /* jobs->create: of the job, the same for all its shards */
};

/* Leaks that a program reports when its state is destroyed; see struct ppe_leaks. */
struct ppe_program_leaks {
	uint64_t buffers, records, faults;
};

/* A number that the switch shows. A counter only grows. */
enum ppe_statistic_kind { PPE_STATISTIC_COUNTER, PPE_STATISTIC_GAUGE };
struct ppe_statistic {
	const char *key; /* in JSON; unique among all programs. NULL ends a list */
	const char *metric; /* in /metrics; of a counter: ..._total; NULL: not shown there */
	const char *help; /* of the metric: a phrase that names the unit */
	enum ppe_statistic_kind kind;
	bool is_largest; /* the largest of the workers' numbers is shown, otherwise their sum */
	uint64_t (*read)(const void *state); /* control thread, any time */
};

/* A segment's name in traces. */
struct ppe_segment_name {
	ppe_segment segment;
	const char *name; /* NULL ends a list */
};

#define PPE_SEGMENT_LISTS      6
#define PPE_PROGRAM_STATISTICS 8

/*
 * A program's operations on jobs. Jobs come and go while the switch runs. A program's state of a
 * job on one worker is its shard. It is made before a job table names the job, and destroyed when
 * no table does.
 *
 * A thread from another worker may belong to a job that this worker no longer has, or does not have
 * yet, so a segment that a hop runs compares serials. Threads must end after finitely many
 * segments, because a worker waits for them before it takes a table. Functions from `memory` on may
 * be NULL.
 */
struct ppe_jobs_ops {
	/* Control thread: make the shard. 0; -ENOMEM, or -ENOSPC when a table of fixed size has no
	 * room. Leaves nothing behind on error. */
	int (*create)(const struct ppe_setup *setup, void *state, const struct ppe_job *job,
		void **shard);
	/* Worker, between threads: use this shard for job `id` from now on; NULL: no job. */
	void (*take)(void *state, uint8_t id, void *shard);
	/* Worker, after all take() of a table. */
	void (*taken)(void *state);
	/* Control thread, after the worker gave up the shard: does no packet need its memory? */
	bool (*idle)(const void *shard);
	/* Control thread: free the shard, and report leaks. */
	void (*destroy)(void *shard, struct ppe_program_leaks *leaks);
	/* Add what create() of shard [0, shards) allocates to `memory`. No side effects, no EAL. */
	void (*memory)(const struct ppe_job *job, unsigned int shard, unsigned int shards,
		struct ppe_memory *memory);
	/* Control thread: raise room->records_needed to the job's records on this worker, and lower
	 * room->records_free to the free ones. */
	void (*room)(const void *state, const struct ppe_job *job, unsigned int shard,
		unsigned int shards, struct ppe_room *room);
	/* Has the shard heard the source in the last `seconds` s? now: TSC. Any worker. */
	bool (*heard)(const void *shard, uint8_t source, uint64_t now, uint32_t seconds);
	/* Control thread, any time: add up counters of the job, a source, parent [0,
	 * nb_parents). */
	void (*stats)(const void *shard, struct ppe_job_stats *stats);
	void (*source)(const void *shard, uint8_t source, struct ppe_source_stats *stats);
	void (*parent)(const void *shard, unsigned int parent, struct ppe_parent_stats *stats);
	/* Control thread, any time: list blocks, as ppe_blocks_read does. */
	unsigned int (*blocks)(const void *shard, bool open, uint64_t idle_us,
		struct ppe_block_info *blocks, unsigned int max);
};

/* All members but `name` and `first` may be NULL. state: what create() made, or NULL. */
struct ppe_program {
	const char *name;
	ppe_segment first;
	bool ordered; /* packets of a flow (a pair of MAC addresses) leave in order of arrival */
	/*
	 * A shortcut for dispatch. If the packet's first bytes equal those of an earlier, parsed
	 * packet, set packet, port, head and next of the context and return true; otherwise change
	 * nothing and return false. It must give the same result as matching and `first`. Only the
	 * first program of the list may have one, and only if it is not ordered.
	 */
	bool (*recognize)(struct ppe_worker *worker, void *state, struct ppe_thread *thread,
		struct rte_mbuf *packet);
	/*
	 * Batch segments: process the usual packets of a turn's backlog together, step by step,
	 * without threads. packets: n, at least 1, in order of arrival. Returns how many it does
	 * not take. It leaves these at the front of the array: first packets to dispatch, then
	 * *followers, which must not overtake them, and come back when their threads have ended. It
	 * must give the same result as threads would. Only the first program of the list may have
	 * one, and only if it is not ordered. No thread has a packet meanwhile.
	 */
	unsigned int (*batch)(struct ppe_worker *worker, void *state, struct rte_mbuf **packets,
		unsigned int n, unsigned int *followers);
	/* With `batch`: is this packet of another worker's batch of the job with this serial? */
	bool (*hopped)(const void *state, const struct rte_mbuf *packet, uint32_t job);
	/* Make this worker's state, and register matches with ppe_match_add and timers with
	 * ppe_timer_add. Control thread, before start. 0 or -errno. */
	int (*create)(const struct ppe_setup *setup, void **state);
	/* Free it: control thread, workers stopped. */
	void (*destroy)(void *state, struct ppe_program_leaks *leaks);
	/* Add what create() allocates on all workers together to `memory`; the engine adds the
	 * first jobs (jobs->memory). No side effects, no EAL. */
	void (*memory)(const struct ppe_config *config, const struct ppe_jobs *jobs,
		struct ppe_memory *memory);
	struct ppe_statistic statistics[PPE_PROGRAM_STATISTICS];
	/* Of a program that learns addresses: has a port other than these (bit p: port p) lately
	 * carried frames of the station? Worker. */
	bool (*seen_elsewhere)(const void *state, const uint8_t *mac, uint64_t ports, uint64_t now);
	/* Names of the segments for traces (ppe/trace/trace.h), a list per file; NULL: no more. */
	const struct ppe_segment_name *segments[PPE_SEGMENT_LISTS];
	/* While a trace runs: the block and source of the packet that the thread has started with,
	 * as ppe_trace_id; 0: none. */
	uint64_t (*identify)(const struct ppe_worker *worker, const struct ppe_thread *thread);
	const struct ppe_jobs_ops *jobs; /* NULL: the program has no jobs */
};

/* The id of a packet in traces; without the source, of a block. generation 0: not of a block. */
static inline uint64_t
ppe_trace_id(uint8_t source, uint16_t generation, uint8_t job, uint32_t block)
{
	return (uint64_t)source << 56 | (uint64_t)generation << 40 | (uint64_t)job << 32 | block;
}

/* Register a match for the program being created (create() only). 0, or -ENOSPC after 16. */
int ppe_match_add(const struct ppe_setup *setup, const struct ppe_match *match);

/* Register a timer for the program being created (create() only). 0, -EINVAL or -ENOSPC. */
int ppe_timer_add(const struct ppe_setup *setup, const struct ppe_timer *timer);

/* Set the period of the timer of `segment`. Worker. */
void ppe_timer_set_period(struct ppe_worker *worker, ppe_segment segment, uint64_t period_us);

/* Returns whether a worker that was away has not yet taken all packets that arrived meanwhile: what
 * a timer misses may be among them. For a timer's first segment. Cost: a line per worker. */
bool ppe_timer_must_wait(const struct ppe_worker *worker);

/*
 * The index of the program of this name, for ppe_pass (create() only). -ENOENT if it is not in the
 * list, so that create() can fail.
 */
int ppe_program_find(const struct ppe_setup *setup, const char *name);

/*
 * The state that create() of `program` made for a worker, to read its numbers. Control thread, any
 * time between ppe_create and ppe_destroy; the worker may be writing. NULL if the program is not in
 * the list, or worker is not in [0, workers).
 */
const void *ppe_program_state(
	const struct ppe *ppe, const struct ppe_program *program, unsigned int worker);

/* The operations of a segment (worker, hop, send, drop, ...) are in ppe/program_fast.h. */

#endif
