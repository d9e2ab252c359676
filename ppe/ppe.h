/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packet-processing engines: the room's public page.
 *
 * A worker lcore is one engine (Trio: a PPE). It owns some port queues, one shard of the block
 * table and of DataMemory, and `threads` thread contexts. Its loop (ppe/barrel.c) takes packets
 * from its port queues and from the crossbar, gives each to a thread, and steps the threads round
 * robin, a segment at a time, so that one thread's memory latency hides behind the others' work.
 * What a thread does is microcode: a program (ppe/program.h, ppe/programs/).
 *
 *   port -> dispatch (program, order ticket) -> thread -> [crossbar -> thread on the owner]
 *        -> consumed | dropped under a reason | output queue of a port -> port
 *
 * Nothing mutable on the packet path has two owners, so there is no lock and no atomic
 * read-modify-write here; lcores meet in single-producer single-consumer rings only.
 *
 * Thread safety: every function of this page is for the one control thread, unless it says
 * otherwise.
 */
#ifndef PPE_PPE_H
#define PPE_PPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pktbuf/pktbuf.h"
#include "ppe/drops.h"
#include "ppe/jobs.h"

#define PPE_WORKERS_MAX  16
#define PPE_THREADS_MAX  64
#define PPE_PORTS_MAX    64
#define PPE_PROGRAMS_MAX 8

/* What an engine does when a loop turn found nothing to do. */
enum ppe_idle {
	PPE_IDLE_SPIN, /* poll on: lowest latency, takes the whole CPU */
	PPE_IDLE_YIELD, /* sched_yield(): for lcores that share a CPU */
	PPE_IDLE_SLEEP, /* sleep idle_sleep_us after some empty turns: small machines, demos */
};

struct ppe_program;

/* Filled by ctrl. Numbers are validated there; ppe_create checks them again and says -EINVAL. */
struct ppe_config {
	uint16_t workers; /* [1, 16] worker lcores: the first `workers` EAL worker lcores */
	uint16_t threads; /* [1, 64] contexts per worker */
	uint16_t burst; /* [1, 256] packets per poll of a port queue or of the crossbar */
	enum ppe_idle idle;
	uint32_t idle_sleep_us; /* [1, 10000] */
	uint32_t crossbar_depth; /* packets per ordered pair of workers, a power of two */
	uint32_t queue_depth; /* packets per output queue and priority, a power of two */
	uint32_t timer_threads; /* [1, 1000]: the slices of an aging scan */
	uint32_t
		refusals; /* [0, 1000000] a second and worker: answers to who is no source of a job */
	uint32_t
		joins_s; /* [0, 3600] a join that is not repeated is kept; 0: as docs/protocol.md says */
	uint32_t fdb_entries; /* [16, 1 << 20] */
	uint32_t fdb_timeout_s; /* [1, 1000000] */
	int exception_port; /* index of the TAP port that leads to the kernel; -1: none */
	int isa; /* enum rmw_isa: the widest vectors the kernels may use */
	struct pktbuf_identity identity; /* the switch's MAC, IPv4 address and UDP ports */
	uint16_t
		first_generation; /* [1, 65535] generation before the first join; draw it at random */
	uint32_t packets; /* mbufs of the packet pool */
	uint32_t packet_bytes; /* largest frame (or framesz) of any port */
	uint32_t headers; /* mbufs of the header pool and of the attach pool each */
	uint32_t
		blocks; /* block records per worker, [0, 1 << 24]; more when the first jobs need more */
	uint64_t hash_seed; /* of the FDB: draw it at random, so that nobody can fill a bucket */
};

/* What the jobs and tables take per worker, computed before anything is allocated. Bytes. */
struct ppe_memory {
	uint64_t packet_pools; /* all mbuf pools together, once per switch */
	uint64_t data_memory; /* aggregation buffers, summed over the workers */
	uint64_t block_tables; /* records and buckets, summed over the workers */
	uint64_t fdb; /* forwarding tables, summed over the workers */
	uint64_t rings; /* crossbar and output queues */
	uint64_t faults; /* those of the configuration, which ppe_memory_needed leaves out */
	uint64_t total;
};

struct ppe; /* a running switch */

/* Compute what ppe_create will allocate for this configuration. No side effects, no EAL. */
void ppe_memory_needed(const struct ppe_config *config, unsigned int nb_ports,
	const struct ppe_jobs *jobs, struct ppe_memory *memory);

/*
 * Build the whole switch: pools, ports, crossbar, engines, program state. After EAL init.
 * ports: nb_ports entries, [1, 64], copied. jobs: the first jobs, copied. programs: NULL-terminated
 * in order of precedence, the first match takes a packet; NULL stands for the built-in ones. Returns
 * NULL with rte_errno; one log line says what failed. Nothing is left allocated on error.
 */
struct ppe *ppe_create(const struct ppe_config *config, const struct pktbuf_port_config *ports,
	unsigned int nb_ports, const struct ppe_jobs *jobs,
	const struct ppe_program *const *programs);

/* The built-in programs, NULL-terminated: collective, exception, forward. */
const struct ppe_program *const *ppe_programs(void);

/* Print the topology (ports, queues, owners, rings, pools, programs), a line each, to `out`. */
void ppe_print(const struct ppe *ppe, FILE *out);

/* Start ports and workers. 0 or -errno. */
int ppe_start(struct ppe *ppe);

/*
 * From now on these are the jobs. A job stays the same while id, instance and shape (window, elements,
 * sources, generation, block bits) do: members, addresses, timeout and policy may be others, and no
 * block of it, or of another job, notices. No member's id may reach the ppe_job_source_end() that the
 * job began with: then it is another job, as in another shape. A job that is new gets its buffers and records now; one
 * that is no longer there forgets its blocks, and its packets are unknown_job. Every worker changes
 * from the one table to the other between two packets.
 *
 * The new job is made while the former one is there: to replace a job by one of another shape takes
 * room for both, buffers and records, until the former one has left (ppe_jobs_leaving).
 *
 * Table and jobs are copied. 0; or -ENOMEM (DPDK's memory, or OpenSSL's for an authenticated job),
 * -ENOSPC (block records), -EBUSY (a worker has not taken the change before this one), -EIO (no random
 * bytes for an authenticated job) or -EINVAL (buffers of a shape that no job of the configuration
 * has), and then nothing has changed. Waits for a loop turn of the slowest worker, half a second at
 * most: one that does not turn then takes the change when it does; and, when all have, as
 * ppe_jobs_leaving() does.
 */
int ppe_publish_jobs(struct ppe *ppe, const struct ppe_jobs *jobs);

/*
 * Jobs that are gone, but whose last results are still on their way: their memory is given back
 * here, when it can be. Call it now and then. Returns how many are left. Waits for a loop turn of the
 * slowest worker, half a second at most, when the last results of some have just gone. A job has left some
 * milliseconds after its last result, also by ports that fall quiet (pktbuf_outq_reclaim); devices
 * whose drivers free nothing on demand keep it until they have sent a ring of other packets, and so
 * does a capture that holds packets.
 */
unsigned int ppe_jobs_leaving(struct ppe *ppe);

/* Is a job that is gone among those that ppe_jobs_leaving has to wait for? */
bool ppe_job_is_leaving(const struct ppe *ppe, uint8_t id, uint32_t instance);

/*
 * What a new job of this id is to begin with (ppe_job.first_generation), so that packets of the jobs
 * that had the id before are stale in it: the generation after their last one, [1, 65535]. 0: there
 * was none, and the switch's own will do; or a worker that does not turn has the last one still, which
 * may begin another generation.
 */
uint16_t ppe_generation_after(struct ppe *ppe, uint8_t id);

/* What a job of this shape would take, and what there is. */
struct ppe_room {
	uint64_t memory_needed, memory_free; /* bytes; free: the largest piece that DPDK has */
	uint32_t records_needed, records_free; /* block records, on the worker with the fewest */
};

void ppe_job_room(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *room);

/*
 * Stop: no more packets are received, what is under way is finished and sent, then the workers
 * return and the ports stop. Waits at most `limit_ms` for the packets under way. Returns 0;
 * -ETIMEDOUT when some had to be abandoned (they are freed and counted as in flight); or -EBUSY when a
 * worker did not return within a second more: a log line says which. It stops as soon as it turns, and
 * another call waits another second.
 */
int ppe_stop(struct ppe *ppe, unsigned int limit_ms);

/* What was not given back after ppe_stop: all zero in a switch that keeps its books. */
#define PPE_LEAKS(X)                                                                               \
	X(packets, "mbufs missing from the packet pool")                                           \
	X(headers, "mbufs missing from the header pool")                                           \
	X(attaches, "mbufs missing from the attach pool")                                          \
	X(buffers, "aggregation buffers missing from DataMemory")                                  \
	X(records, "block records still in the tables")                                            \
	X(faults, "releases and holds of aggregation buffers that made no sense")

struct ppe_leaks {
#define X(name, help) uint64_t name;
	PPE_LEAKS(X)
#undef X
};

/*
 * Free everything. ppe: NULL is fine; a running one is stopped first, and nothing is freed when
 * ppe_stop() says -EBUSY: EAL must not be cleaned up then, either. leaks: what was found missing, may
 * be NULL.
 */
void ppe_destroy(struct ppe *ppe, struct ppe_leaks *leaks);

/*
 * Counters of packets, ports, workers and jobs. One list of each makes the struct's fields, the JSON
 * keys, the names of the metrics and docs/counters.md. Port counters under EACH are counted by
 * priority: [0] results, [1] bulk.
 */
#define PPE_PACKET_COUNTERS(X)                                                                     \
	X(received, "packets taken from the ports")                                                \
	X(created, "packets that the switch made: results, replies, copies of floods")             \
	X(sent, "packets handed to the ports")                                                     \
	X(consumed, "packets whose content went into a block, a table or a join")

#define PPE_PORT_COUNTERS(ONE, EACH)                                                               \
	ONE(rx_packets, "packets received")                                                        \
	ONE(rx_bytes, "bytes received: frames without FCS")                                        \
	ONE(missed, "packets that the device dropped before Weir saw them")                        \
	EACH(tx_packets, "packets sent")                                                           \
	EACH(tx_bytes, "bytes sent: frames without FCS")                                           \
	EACH(queue_full, "packets dropped because the port's output queue was full")

struct ppe_port_stats {
#define ONE(name, help)  uint64_t name;
#define EACH(name, help) uint64_t name[2];
	PPE_PORT_COUNTERS(ONE, EACH)
#undef ONE
#undef EACH
};

#define PPE_WORKER_COUNTERS(X)                                                                     \
	X(turns, "turns of the worker's loop")                                                     \
	X(busy_turns, "turns that found work")                                                     \
	X(threads_started, "packets and timers given to a thread")                                 \
	X(hops_out, "threads given to the crossbar")                                               \
	X(hops_in, "threads taken from the crossbar")                                              \
	X(segments, "segments of microcode run")                                                   \
	X(timer_runs, "slices of aging scans run")

#define PPE_JOB_COUNTERS(X)                                                                        \
	X(contributions, "contributions added to a block")                                         \
	X(duplicates, "contributions of a source that was in the open block already")              \
	X(late, "contributions to a block that was completed without them")                        \
	X(asked_again, "contributions to a completed block, answered with its result")             \
	X(acknowledged, "results that sources acknowledged while they could not contribute")       \
	X(blocks_opened, "blocks opened by a first contribution")                                  \
	X(blocks_complete, "blocks completed by every source")                                     \
	X(blocks_partial, "blocks completed by the timeout with sources missing")                  \
	X(blocks_error, "blocks failed by the timeout")                                            \
	X(blocks_mismatch, "blocks failed because contributions disagreed")                        \
	X(blocks_waiting, "times a block was found past its timeout and left to wait")             \
	X(held_back, "contributions that would have needed a third buffer of their residue")       \
	X(out_of_turn, "contributions of a deterministic job that waited for their turn")          \
	X(policed, "contributions beyond the job's rate")                                          \
	X(expired, "contributions to a block whose result is gone")                                \
	X(expelled, "sources that a worker gave up, after dead_after_ms")                          \
	X(forged, "packets without the right tag, of an authenticated job")                        \
	X(stale, "packets of another generation")                                                  \
	X(results, "result and reply packets built")                                               \
	X(joins, "join packets taken")                                                             \
	X(generations, "generations begun")                                                        \
	X(revokes, "generations ended by a source that joined anew")

/* Times by powers of two: bucket 0 counts those under 1 us, bucket i those under 2^i us, the last
 * one all others. */
#define PPE_BUCKETS 25

struct ppe_histogram {
	uint64_t bucket[PPE_BUCKETS];
	uint64_t sum_us;
};

struct ppe_job_stats {
#define X(name, help) uint64_t name;
	PPE_JOB_COUNTERS(X)
#undef X
	struct ppe_histogram latency; /* of blocks: first contribution to result */
	struct ppe_histogram spread; /* of blocks: first contribution to last one */
	uint16_t generation;
	/* Bit s: source s is in the generation, and has neither left nor asked for another since. All 0 in
	 * a job of a fixed generation. */
	uint64_t present[WEIR_SOURCES_MAX / 64];
	uint64_t joining[WEIR_SOURCES_MAX / 64]; /* bit s: it asks for the next generation now */
	uint32_t blocks_in_flight;
	uint32_t buffers_used, buffers_reserved;
};

struct ppe_worker_stats {
#define X(name, help) uint64_t name;
	PPE_WORKER_COUNTERS(X)
#undef X
};

/*
 * Every packet has one end:
 *   received + created = sent + consumed + sum of drops + in_flight
 * Exact when traffic is at rest or the switch is stopped; a snapshot of moving counters otherwise.
 */
struct ppe_stats {
#define X(name, help) uint64_t name;
	PPE_PACKET_COUNTERS(X)
#undef X
	uint64_t in_flight; /* packets that the switch holds now */
	uint64_t drops[PPE_DROP_COUNT];
	unsigned int nb_ports, nb_workers;
	struct ppe_port_stats port[PPE_PORTS_MAX];
	struct ppe_worker_stats worker[PPE_WORKERS_MAX];
	uint32_t fdb_used, blocks_used;
};

/* Sum the per-worker counters. Reads only; any time between create and destroy. */
void ppe_stats_read(const struct ppe *ppe, struct ppe_stats *stats);

/* Sum a job's counters. 0, or -ENOENT. Costs a walk over its window on each worker, window x workers
 * slots, a cache line or two each, which the workers write: for a scrape, not for a loop. */
int ppe_job_stats_read(const struct ppe *ppe, uint8_t job, struct ppe_job_stats *stats);

/* A source, as far as packets tell. */
struct ppe_source_stats {
	uint64_t last; /* blocks that it was the last one in */
	uint64_t
		waited_us; /* how long some block waited for it, from its last contribution but one; of
			       the worker where that was longest */
	bool heard; /* a packet came from where it sends, under its tag where there are tags; joins
		       count when a generation has begun by them */
	uint64_t silent_us; /* since the last one, to a few ms; when heard */
	bool joining; /* it asks for the next generation now: its join is kept, and repeated */
	bool contested; /* two processes do: of joins in turn; or one, and another still contributes */
	uint64_t joining_us; /* since it first asked; when joining */
	bool located; /* the switch knows where to send its results: by the generation's join */
	uint16_t port; /* that way; index of the port */
	uint16_t udp; /* its UDP port */
	uint8_t mac[6];
};

/* A source of a job. 0, or -ENOENT when there is no such job. Costs a line per worker. */
int ppe_source_stats_read(
	const struct ppe *ppe, uint8_t job, uint8_t source, struct ppe_source_stats *stats);

/* A block that the switch keeps. */
struct ppe_block_info {
	uint32_t block;
	uint16_t generation;
	uint8_t job;
	bool open; /* else its result is out, and kept for those who ask again */
	uint16_t heard_count;
	uint64_t heard[WEIR_SOURCES_MAX / 64]; /* bit s: source s is in it */
	uint64_t age_us; /* since the first contribution */
	uint64_t idle_us; /* since the last new one */
};

/*
 * The blocks of a job that saw no new contribution for `idle_us` or more; open: only those without
 * a result. Fills at most `max`, in no order, and returns how many there are; -ENOENT: no such job.
 * The workers run on meanwhile: each block is told as it was at one moment of the call, one that
 * changed just then may be missing. Cost: window x workers slots, and a line or two of each block.
 */
int ppe_blocks_read(const struct ppe *ppe, uint8_t job, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max);

/* How full a running switch is: levels, where ppe_stats has counts. */
struct ppe_pool_gauge {
	uint32_t size, free; /* mbufs, or records */
};

struct ppe_gauges {
	struct ppe_pool_gauge packets, headers, attaches;
	struct ppe_pool_gauge records; /* of blocks, all workers; free: set aside for no job */
	uint16_t threads_live[PPE_WORKERS_MAX]; /* by worker: contexts with a packet or a timer */
};

/*
 * Read the levels of a switch between create and destroy; each was true a moment ago. Control
 * thread. Cost: walks the pools' caches, a line per lcore.
 */
void ppe_gauges_read(const struct ppe *ppe, struct ppe_gauges *gauges);

#endif
