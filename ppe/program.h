/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program contract: how microcode is written.
 *
 * A program is linked into the switch, or is a shared object that a running switch loads
 * (PPE_PROGRAM_FILE, ppe/load.h). Both are the same structure with the same rules.
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
#include <rte_version.h>

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

/*
 * Which packets a program takes. All set conditions must hold. The first program that matches a
 * packet gets it: first the first of the built-in programs (collective), then the loaded ones in
 * the order in which they were loaded, then the other built-in programs (exception, forward).
 * `..._any` are masks: bits in which the packet may differ from the value.
 */
#define PPE_MATCH_TO_SWITCH_MAC 0x1 /* Ethernet destination is the switch's address */
#define PPE_MATCH_TO_SWITCH_IP  0x2 /* IPv4 destination is the switch's address */
#define PPE_MATCH_ETHER_TYPE    0x4
#define PPE_MATCH_IP_PROTO      0x8
#define PPE_MATCH_UDP_PORT      0x10 /* UDP destination port; implies a sane UDP header */
#define PPE_MATCH_FRAGMENT      0x20 /* IPv4 fragments, first or later */
#define PPE_MATCH_IP_DST        0x40 /* IPv4 destination */

struct ppe_match {
	uint16_t conditions; /* PPE_MATCH_*; 0 takes every packet */
	uint16_t ether_type, ether_any; /* host order */
	uint16_t udp_port, udp_any; /* host order */
	uint8_t ip_proto, ip_proto_any;
	uint32_t ip_dst, ip_any; /* host order */
	uint8_t program; /* engine */
};

/* Matches and timers of one program. */
#define PPE_PROGRAM_MATCHES 16
#define PPE_PROGRAM_TIMERS  4

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
	const struct ppe_jobs *jobs; /* the present ones; NULL in jobs->create */
	struct ppe_worker *worker; /* the worker that the state is for: not to be written */
	struct ppe_slot *slot; /* engine */
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

/* A table that the switch shows: API, weirctl and page. */
enum ppe_column_kind { PPE_COLUMN_NUMBER, PPE_COLUMN_IPV4, PPE_COLUMN_MAC, PPE_COLUMN_PORT };
struct ppe_column {
	const char *key; /* in JSON and as the column's head; NULL ends the columns */
	const char *help; /* a phrase that names the unit */
	enum ppe_column_kind kind; /* IPV4: host order; MAC: the low 48 bits; PORT: a switch port */
};

#define PPE_TABLE_COLUMNS 12
#define PPE_TABLE_ROWS    256

struct ppe_table {
	const char *name; /* unique among the program's; NULL ends a list */
	const char *help;
	struct ppe_column column[PPE_TABLE_COLUMNS + 1];
	/*
	 * Fill at most `max` rows, in the order in which they are shown, and return how many.
	 * states: of all workers, [0, workers). Control thread, any time; the workers may be
	 * writing.
	 */
	unsigned int (*read)(const void *const *states, unsigned int workers,
		uint64_t (*rows)[PPE_TABLE_COLUMNS], unsigned int max);
};

/*
 * A setting: a key of the object `settings` in the configuration and the API. create() reads it
 * with ppe_setting(). The switch checks kind and range, and reports errors with file and line.
 */
enum ppe_setting_kind {
	PPE_SETTING_INTEGER, /* min to max */
	PPE_SETTING_BOOLEAN, /* 0 or 1 */
	PPE_SETTING_CHOICE, /* index of a word in `choices` */
	PPE_SETTING_IPV4, /* host order */
	PPE_SETTING_TEXT, /* min to max bytes, at most PPE_SETTING_BYTES - 1 */
};

#define PPE_SETTING_BYTES 64

struct ppe_setting {
	const char *key; /* NULL ends a list */
	enum ppe_setting_kind kind;
	const char *preset; /* the default, as text: "8", "true", "after"; NULL: it must be given */
	int64_t min, max; /* INTEGER: the value; TEXT: its length */
	const char *choices; /* CHOICE: "before|after" */
	const char *unit; /* "us"; NULL: none */
	const char *help; /* a sentence */
};

struct ppe_value {
	int64_t number; /* all kinds but TEXT */
	char text[PPE_SETTING_BYTES];
};

/*
 * A segment's name in traces and in the graph of programs, and where it leads: names of segments
 * and ends, separated by spaces. Ends: "send", "consume", "drop:reason" with the key of
 * ppe/drops.h; "hop:segment" goes on at another worker, "pass:program" at another program, "pass"
 * at the next program that matches. "output" is a packet that the segment makes and sends.
 */
struct ppe_segment_name {
	ppe_segment segment;
	const char *name; /* NULL ends a list */
	const char *leads_to;
};

#define PPE_SEGMENT_LISTS      6
#define PPE_PROGRAM_STATISTICS 12

/* What ppe_simulate() learns of a packet's way, in words. */
struct ppe_explanation;

/* Add the segment that would run next, and what it would find. text: printf's format. */
void ppe_explain(struct ppe_explanation *explanation, const char *segment, const char *text, ...)
	__rte_format_printf(3, 4);

/* Set the packet's end, as in struct ppe_segment_name: "drop:stale"; text: why, in words. */
void ppe_explain_end(struct ppe_explanation *explanation, const char *end, const char *text, ...)
	__rte_format_printf(3, 4);

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
	 * must give the same result as threads would. Only a program that is not ordered may have
	 * one. No thread has a packet of the first program meanwhile.
	 *
	 * Every other program gets the backlog before the first program. It takes those of its own
	 * packets that are usual, leaves all others in their order, and sets no followers: packets
	 * that it takes overtake those that it leaves to threads. A program that was loaded behind
	 * one without batches gets no batches.
	 */
	unsigned int (*batch)(struct ppe_worker *worker, void *state, struct rte_mbuf **packets,
		unsigned int n, unsigned int *followers);
	/* With `batch`: is this packet of another worker's batch of the job with this serial? */
	bool (*hopped)(const void *state, const struct rte_mbuf *packet, uint32_t job);
	/* Make this worker's state, and register matches with ppe_match_add and timers with
	 * ppe_timer_add, the same for each worker. Control thread; other programs may be running.
	 * 0 or -errno; `*state` is destroyed in both cases. */
	int (*create)(const struct ppe_setup *setup, void **state);
	/* Of a loaded program, after the workers gave up its states: does no packet need their
	 * memory? Control thread. NULL: true. */
	bool (*idle)(const void *state);
	/* Free it: control thread; no worker uses it any more. */
	void (*destroy)(void *state, struct ppe_program_leaks *leaks);
	/* Add what create() allocates on all workers together to `memory`; the engine adds the
	 * first jobs (jobs->memory). No side effects, no EAL. */
	void (*memory)(const struct ppe_config *config, const struct ppe_jobs *jobs,
		struct ppe_memory *memory);
	const struct ppe_setting *settings; /* a list; NULL: none */
	struct ppe_statistic statistics[PPE_PROGRAM_STATISTICS];
	const struct ppe_table *tables; /* a list; NULL: none */
	/* A file of the program directory, which the switch runs while the program is loaded, for
	 * what is not packets (a session service): docs/write-a-program.md. NULL: none */
	const char *sidecar;
	const char *help; /* what the program does: a phrase, for lists */
	/* Say with ppe_explain() what the program would do with the thread's packet, and do
	 * nothing: only read. Control thread, while the workers run. states: of all workers;
	 * worker: the one that would receive the packet. */
	void (*explain)(const struct ppe_worker *worker, const void *const *states,
		const struct ppe_thread *thread, struct ppe_explanation *explanation);
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

/* The number of a setting of this program (create() only): for TEXT ppe_setting_text. A key
 * that is not one of the program's is logged, and is 0 or "". */
int64_t ppe_setting(const struct ppe_setup *setup, const char *key);
const char *ppe_setting_text(const struct ppe_setup *setup, const char *key);

/* Register a match for the program being created (create() only). 0, or -ENOSPC after
 * PPE_PROGRAM_MATCHES, or if all programs together have too many. */
int ppe_match_add(const struct ppe_setup *setup, const struct ppe_match *match);

/* Register a timer for the program being created (create() only). 0; -EINVAL, also if its segment
 * has a timer; -ENOSPC. */
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

/*
 * The contract's version. It grows with every change of this header, of ppe/program_fast.h or of
 * what these include that a compiled program would notice. The sizes catch a forgotten step.
 */
#define PPE_CONTRACT_VERSION 1

struct ppe_contract {
	uint32_t version; /* PPE_CONTRACT_VERSION */
	uint32_t dpdk; /* year * 100 + month of DPDK's release */
	uint32_t worker_bytes, thread_bytes, program_bytes;
};

/* The one symbol of a shared object with a program. */
struct ppe_program_file {
	struct ppe_contract contract; /* the first member in all versions */
	const struct ppe_program *program;
};

#define PPE_PROGRAM_SYMBOL "weir_program"

/* PPE_PROGRAM_FILE(vectorsum_program); at the end of a program's file, after including
 * ppe/program_fast.h. */
#define PPE_PROGRAM_FILE(name)                                                                     \
	extern const struct ppe_program_file weir_program;                                         \
	__attribute__((visibility("default")))                                                     \
	const struct ppe_program_file weir_program = {PPE_CONTRACT, &(name)}

/* The contract that a file was compiled for. Needs ppe/program_fast.h. */
#define PPE_CONTRACT                                                                               \
	{                                                                                          \
		PPE_CONTRACT_VERSION, RTE_VER_YEAR * 100 + RTE_VER_MONTH,                          \
			sizeof(struct ppe_worker), sizeof(struct ppe_thread),                      \
			sizeof(struct ppe_program)                                                 \
	}

/* The operations of a segment (worker, hop, send, drop, ...) are in ppe/program_fast.h. */

#endif
