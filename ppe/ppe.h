/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packet-processing engines: the public header of this folder.
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
 * No mutable state on the packet path has two owners, so there is no lock and no atomic
 * read-modify-write. Lcores meet only in single-producer single-consumer rings.
 *
 * Thread safety: all functions here are for the one control thread, unless they say otherwise.
 */
#ifndef PPE_PPE_H
#define PPE_PPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pktbuf/pktbuf.h"
#include "ppe/drops.h"
#include "ppe/jobs.h"
#include "ppe/program.h"

#define PPE_WORKERS_MAX  16
#define PPE_THREADS_MAX  64
#define PPE_PORTS_MAX    64
#define PPE_PROGRAMS_MAX 16

/* What an engine does after an idle loop turn. */
enum ppe_idle {
	PPE_IDLE_SPIN, /* continue polling: lowest latency, takes the whole CPU */
	PPE_IDLE_YIELD, /* sched_yield(): for lcores that share a CPU */
	PPE_IDLE_SLEEP, /* sleep idle_sleep_us after some empty turns: small machines, demos */
};

/* Limits of a port at each worker, in frames/s, 0: none. Name, key, default, what is counted. */
#define PPE_POLICERS(X)                                                                            \
	X(BROADCAST, broadcast, "20000",                                                           \
		"Frames that are flooded: broadcast, multicast, unknown unicast.")                 \
	X(EXCEPTION, exception, "2000", "Frames to the exception interface.")                      \
	X(REPLIES, replies, "20000",                                                               \
		"Packets that are answered with a status instead of a result.")                    \
	X(REFUSALS, refusals, "1000",                                                              \
		"Packets of unknown senders that are answered with a refusal.")                    \
	X(JOINS, joins, "2000", "Joins: their tags are verified, or their nonces compared.")

struct ppe_policers {
#define X(name, key, ...) uint32_t key; /* [0, PPE_POLICER_MAX] */
	PPE_POLICERS(X)
#undef X
};

#define PPE_POLICER_MAX 10000000

/* IPv4 addresses that come only from the ports that list them. Host order. */
struct ppe_host {
	uint32_t address, mask;
	uint64_t ports; /* bit p: port p lists them */
};

#define PPE_HOSTS_MAX 256

/* Filled and validated by ctrl; ppe_create checks the numbers again and returns -EINVAL. */
struct ppe_config {
	/* In order of precedence, ended by NULL; not copied, not NULL. ppe/programs/programs.h */
	const struct ppe_program *const *programs;
	uint16_t workers; /* [1, 16] worker lcores: the first `workers` EAL worker lcores */
	uint16_t threads; /* [1, 64] contexts per worker */
	uint16_t burst; /* [1, 256] packets per poll of a port queue */
	uint16_t batch; /* [1, 256] packets that batch segments take at once; 1: only threads */
	enum ppe_idle idle;
	uint32_t idle_sleep_us; /* [1, 10000] */
	uint32_t crossbar_depth; /* packets per ordered pair of workers, a power of two */
	uint32_t queue_depth; /* packets per output queue and priority, a power of two */
	uint32_t queue_wait_ms; /* [1, 10000] how long a packet may wait in an output queue */
	uint32_t timer_threads; /* [1, 1000]: the slices of an aging scan */
	struct ppe_policers policers;
	unsigned int nb_hosts; /* [0, PPE_HOSTS_MAX] */
	struct ppe_host host[PPE_HOSTS_MAX]; /* ppe/guard.h has the rule */
	uint64_t unforwarded; /* bit p: port p takes no part in forwarding */
	uint32_t joins_s; /* [0, 3600] time until an unrepeated join expires; 0: docs/protocol.md */
	uint32_t fdb_entries; /* [16, 1 << 20] */
	uint32_t fdb_timeout_s; /* [1, 1000000] */
	int exception_port; /* index of the TAP port that leads to the kernel; -1: none */
	int isa; /* enum rmw_isa: the widest vectors the kernels may use */
	struct pktbuf_identity identity; /* the switch's MAC, IPv4 address and UDP ports */
	uint16_t first_generation; /* [1, 65535] before the first join; draw it at random */
	uint32_t packets; /* mbufs of the packet pool */
	uint32_t packets_kept; /* of them at most in rings of devices */
	uint32_t packet_bytes; /* largest frame (or framesz) of any port */
	uint32_t headers; /* mbufs of the header pool and of the attach pool each */
	uint32_t headers_kept; /* of them at most in rings of devices */
	uint32_t blocks; /* block records per worker, [0, 1 << 24]; more if first jobs need more */
	uint64_t hash_seed; /* of the FDB; draw it at random against chosen addresses */
};

/* Memory in bytes, computed before anything is allocated. */
struct ppe_memory {
	uint64_t packet_pools; /* all mbuf pools together, once per switch */
	uint64_t data_memory; /* aggregation buffers, summed over the workers */
	uint64_t block_tables; /* records and buckets, summed over the workers */
	uint64_t fdb; /* forwarding tables and bound addresses, summed over the workers */
	uint64_t rings; /* crossbar and output queues */
	uint64_t faults; /* of the configuration's faults; ppe_memory_needed leaves it out */
	uint64_t total;
};

struct ppe; /* a running switch */

/*
 * Compute what a job of this shape takes on a switch of this configuration, while it exists: its
 * buffers (data_memory), and its tables, keys and places (block_tables). The others are 0. No side
 * effects, no EAL.
 */
void ppe_job_memory(
	const struct ppe_config *config, const struct ppe_job *job, struct ppe_memory *memory);

/* Compute what ppe_create will allocate for this configuration. No side effects, no EAL. */
void ppe_memory_needed(const struct ppe_config *config, unsigned int nb_ports,
	const struct ppe_jobs *jobs, struct ppe_memory *memory);

/*
 * Build the whole switch: pools, ports, crossbar, engines, program state. After EAL init. ports:
 * nb_ports entries, [1, 64], copied. jobs: the first jobs, copied. Returns NULL with rte_errno
 * after one log line that says what failed. Nothing stays allocated on error.
 */
struct ppe *ppe_create(const struct ppe_config *config, const struct pktbuf_port_config *ports,
	unsigned int nb_ports, const struct ppe_jobs *jobs);

/* Print the topology (ports, queues, owners, rings, pools, programs), a line each, to `out`. */
void ppe_print(const struct ppe *ppe, FILE *out);

/* Start ports and workers. 0 or -errno. */
int ppe_start(struct ppe *ppe);

/* Returns whether the port's device gives a block's packets to its worker. After ppe_start. */
bool ppe_port_steers(const struct ppe *ppe, unsigned int port);

/*
 * Replace the jobs. A job stays the same while id, instance and shape (window, elements, sources,
 * generation, block bits) do: members, addresses, timeout and policy may change without effect on
 * blocks. A member's id must stay below the ppe_job_source_end() that the job began with; otherwise
 * it is another job, as with another shape. A new job gets its buffers and records now. A job that
 * is gone forgets its blocks, and its packets are unknown_job. A worker changes tables between
 * packets.
 *
 * A new job is made while the former one exists: replacing a job by one of another shape needs
 * buffers and records for both, until the former one has left (ppe_jobs_leaving).
 *
 * Table and jobs are copied. 0; or, without any change, -ENOMEM (DPDK's memory, or OpenSSL's for an
 * authenticated job), -ENOSPC (block records), -EBUSY (a worker has not taken the previous change),
 * -EIO (no random bytes for an authenticated job) or -EINVAL (buffers of a shape that no job of the
 * configuration has). Waits for a loop turn of the slowest worker, at most half a second; a worker
 * that is stuck takes the change later. Then calls ppe_jobs_leaving().
 */
int ppe_publish_jobs(struct ppe *ppe, const struct ppe_jobs *jobs);

/* Return what ppe_publish_jobs would, and change nothing: the memory and the records of new jobs
 * are taken and given back. Waits for no worker. */
int ppe_check_jobs(struct ppe *ppe, const struct ppe_jobs *jobs);

/*
 * Free the memory of deleted jobs whose last results have been sent. Call it periodically. Returns
 * how many such jobs are left. Waits for a loop turn of the slowest worker, at most half a second,
 * if last results were sent just now. A job leaves some milliseconds after its last result was sent
 * or dropped, even through idle ports (pktbuf_outq_tend). A device that was prompt and then stops
 * keeps the job until it sends again, and a capture while it holds packets.
 */
unsigned int ppe_jobs_leaving(struct ppe *ppe);

/* Returns whether ppe_jobs_leaving still waits for this deleted job. */
bool ppe_job_is_leaving(const struct ppe *ppe, uint8_t id, uint32_t instance);

/*
 * The first generation of a new job of this id (ppe_job.first_generation), so that packets of
 * former jobs with the id are stale: the generation after their last one, [1, 65535]. 0: there was
 * none, so use the switch's; or a stuck worker still has the last job, which may begin another.
 */
uint16_t ppe_generation_after(struct ppe *ppe, uint8_t id);

/* The needs of a job of this shape, and what is free. */
struct ppe_room {
	uint64_t memory_needed, memory_free; /* bytes; free: the largest piece that DPDK has */
	uint64_t memory_left; /* all pieces together */
	uint32_t records_needed, records_free; /* block records, on the worker with the fewest */
};

void ppe_job_room(const struct ppe *ppe, const struct ppe_job *job, struct ppe_room *room);

/*
 * Stop: receive no more packets, finish and send those in progress, then end the workers and stop
 * the ports. Waits at most `limit_ms` for packets in progress. Returns 0; -ETIMEDOUT when some were
 * dropped (freed, and counted as in flight); -EBUSY when a worker did not return within another
 * second: a log line says which. It stops as soon as it turns; another call waits another second.
 */
int ppe_stop(struct ppe *ppe, unsigned int limit_ms);

/* What was not returned after ppe_stop: all zero in a correct switch. */
#define PPE_LEAKS(X)                                                                               \
	X(packets, "mbufs missing from the packet pool")                                           \
	X(headers, "mbufs missing from the header pool")                                           \
	X(attaches, "mbufs missing from the attach pool")                                          \
	X(buffers, "aggregation buffers missing from DataMemory")                                  \
	X(records, "block records still in the tables")                                            \
	X(faults, "invalid releases and holds of aggregation buffers")

struct ppe_leaks {
#define X(name, help) uint64_t name;
	PPE_LEAKS(X)
#undef X
};

/*
 * Free everything. NULL is fine. Stops a running switch first; if ppe_stop() returns -EBUSY, frees
 * nothing, and EAL must not be cleaned up either. leaks: receives what is missing; may be NULL.
 */
void ppe_destroy(struct ppe *ppe, struct ppe_leaks *leaks);

/*
 * Counters of packets, ports, workers and jobs. One list of each makes the struct's fields, the
 * JSON keys, the names of the metrics and docs/counters.md. Port counters under EACH are counted by
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
	ONE(spoofed, "frames dropped because they carried an address that belongs elsewhere")      \
	ONE(policed, "packets beyond the port's rates: dropped, or not answered")                  \
	ONE(stalled, "packets dropped because the port took nothing, or its link was down")        \
	ONE(too_long, "packets dropped because they were longer than the port can send")           \
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
	X(batched, "packets that batches took, without a thread")                                  \
	X(hops_out, "packets given to the crossbar")                                               \
	X(hops_in, "packets taken from the crossbar")                                              \
	X(segments, "segments of microcode run")                                                   \
	X(timer_runs, "slices of aging scans run")

#define PPE_JOB_COUNTERS(X)                                                                        \
	X(contributions, "contributions added to a block")                                         \
	X(duplicates, "contributions of a source that was in the open block already")              \
	X(late, "contributions to a block that was completed without them")                        \
	X(asked_again, "contributions to a completed block, or probes, answered with its result")  \
	X(probes, "questions of sources whether a block has their contribution")                   \
	X(acknowledged, "results that sources acknowledged while they could not contribute")       \
	X(blocks_opened, "blocks opened by a first contribution")                                  \
	X(blocks_complete, "blocks completed by every source")                                     \
	X(blocks_partial, "blocks completed by the timeout with sources missing")                  \
	X(blocks_error, "blocks failed by the timeout")                                            \
	X(blocks_mismatch, "blocks failed because contributions disagreed")                        \
	X(blocks_waiting, "times a block was found past its timeout and left to wait")             \
	X(held_back, "contributions that would have needed a third buffer of their residue")       \
	X(out_of_turn, "contributions of a deterministic job that waited for their turn")          \
	X(policed, "contributions dropped, and answers not sent, beyond the job's rate")           \
	X(expired, "contributions to a block whose result is gone")                                \
	X(expelled, "sources expelled by a worker after dead_after_ms")                            \
	X(forged, "packets without the right tag, of a job with a key")                            \
	X(crc, "packets with a wrong CRC, of a job with integrity crc32c")                         \
	X(stale, "packets of another generation")                                                  \
	X(results, "result and reply packets built")                                               \
	X(joins, "join packets taken")                                                             \
	X(generations, "generations begun")                                                        \
	X(unguarded, "joins whose addresses were not bound to their port, for lack of room")       \
	X(revokes, "generations ended because a source joined again, or a parent's has ended")     \
	X(upward, "contributions, acknowledgements and probes sent to a parent")                   \
	X(upward_repeats, "contributions sent to a parent again")                                  \
	X(answers, "results taken from a parent")

/* Times by powers of two: bucket 0 counts those under 1 us, bucket i those under 2^i us, the last
 * one all others. */
#define PPE_BUCKETS 25

struct ppe_histogram {
	uint64_t bucket[PPE_BUCKETS];
	uint64_t sum_ns;
};

struct ppe_job_stats {
#define X(name, help) uint64_t name;
	PPE_JOB_COUNTERS(X)
#undef X
	struct ppe_histogram latency; /* of blocks: first contribution to result */
	struct ppe_histogram spread; /* of blocks: first contribution to last one */
	uint16_t generation;
	/* Bit s: source s is in the generation, and has neither left nor asked for another since.
	 * All 0 in a job of a fixed generation. */
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
	struct {
		const struct ppe_statistic *what; /* NULL ends the list */
		uint64_t value;
	} statistic[PPE_PROGRAMS_MAX * PPE_PROGRAM_STATISTICS + 1]; /* in the programs' order */
};

/* Sum the per-worker counters. Reads only; any time between create and destroy. */
void ppe_stats_read(const struct ppe *ppe, struct ppe_stats *stats);

/* The value of the statistic with this key; 0: no program declares it. Any thread. */
uint64_t ppe_statistic_value(const struct ppe_stats *stats, const char *key);

/* What waits for a port, in the output queues of all workers. */
struct ppe_port_queue {
	uint32_t packets;
	uint32_t oldest_ms; /* the oldest one has waited at least so long */
	bool is_stalled; /* packets were dropped, and the port still takes nothing */
	bool is_copied; /* results are copied for the port at present (pktbuf/outq.h) */
};

/* Read the output queues of a port. Any time between create and destroy. */
void ppe_port_queue_read(const struct ppe *ppe, unsigned int port, struct ppe_port_queue *queue);

/* Set the longest frame that the port's link carries now, in bytes without a VLAN tag; 0: no link.
 * Longer frames to the port are dropped. */
void ppe_port_set_frame_max(struct ppe *ppe, unsigned int port, uint32_t bytes);

/* A source address that a port must not carry. */
struct ppe_spoofed {
	bool is_mac;
	uint8_t mac[6]; /* if is_mac */
	uint32_t ip; /* otherwise; host order */
};

/* The last such address of a frame that was counted as `spoofed`. false: there was none. */
bool ppe_spoofed_read(const struct ppe *ppe, unsigned int port, struct ppe_spoofed *spoofed);

/* Returns whether more hosts have joined than ppe/guard.h has room for. */
bool ppe_guard_is_full(const struct ppe *ppe);

/* Sum a job's counters. 0, or -ENOENT. Cost: visits window x workers slots, one or two cache lines
 * each, which the workers write; for a scrape, not for a loop. */
int ppe_job_stats_read(const struct ppe *ppe, uint8_t job, struct ppe_job_stats *stats);

/* A source, as known from its packets. */
struct ppe_source_stats {
	uint64_t last; /* blocks to which it was the last to contribute */
	uint64_t waited_us; /* time that blocks waited for it alone; the longest of the workers' */
	/* A packet came from its address, with the right tag if any. A join counts when it has
	 * begun a generation. */
	bool heard;
	uint64_t silent_us; /* since its last packet, to a few ms; if heard */
	bool joining; /* it asks for the next generation: its join is kept and repeated */
	bool contested; /* two processes use it: both join, or one joins and one contributes */
	uint64_t joining_us; /* since it first asked; if joining */
	bool located; /* the switch knows where to send its results, from the join */
	uint16_t port; /* index of that port */
	uint16_t udp; /* its UDP port */
	uint8_t mac[6];
};

/* A source of a job. 0, or -ENOENT when there is no such job. Costs a line per worker. */
int ppe_source_stats_read(
	const struct ppe *ppe, uint8_t job, uint8_t source, struct ppe_source_stats *stats);

/* A parent of a job, as known from its packets. */
struct ppe_parent_stats {
	uint16_t generation; /* of the parent's job, in which this switch takes part; 0: none */
	bool serves; /* blocks go to it: false while the other parents serve without it */
	bool heard; /* a packet came from it */
	uint64_t silent_us; /* since its last packet, to a few ms; if heard */
	uint32_t given_up; /* how often this switch took it for dead, and ended the generation */
	bool joining; /* this switch asks it for the next generation */
	uint64_t joining_us; /* since it first asked; if joining */
	uint64_t joined[WEIR_SOURCES_MAX / 64]; /* if joining; bit r: rank r has joined there */
	uint8_t refused; /* enum ppe_parent_setting, by its last answer to a join; 0: none */
	uint32_t ours, theirs; /* values of that setting: enum values, milliseconds or flags */
};

/* A parent of a job. 0, or -ENOENT: there is no such job or parent. Costs a line per worker. */
int ppe_parent_stats_read(
	const struct ppe *ppe, uint8_t job, unsigned int parent, struct ppe_parent_stats *stats);

/* A block in the switch. */
struct ppe_block_info {
	uint32_t block;
	uint16_t generation;
	uint8_t job;
	bool open; /* false: its result was sent, and is kept for repetitions */
	bool up; /* open: its sum was sent to a parent, whose result is missing */
	uint8_t parent; /* index of that parent; if up */
	uint16_t heard_count;
	uint64_t heard[WEIR_SOURCES_MAX / 64]; /* bit s: source s is in it */
	uint64_t opened_us; /* time of the first contribution, since the machine started */
	uint64_t age_us; /* since then */
	uint64_t idle_us; /* since the last new one */
};

/*
 * The blocks of a job without a new contribution for `idle_us` or more; open: only those without a
 * result. Fills at most `max`, in no order, and returns how many there are; -ENOENT: no such job.
 * The workers continue meanwhile, so a block that changes during the call may be missing. Cost:
 * window x workers slots, and one or two lines of each block.
 */
int ppe_blocks_read(const struct ppe *ppe, uint8_t job, bool open, uint64_t idle_us,
	struct ppe_block_info *blocks, unsigned int max);

/* How full a running switch is. */
struct ppe_pool_gauge {
	uint32_t size, free; /* mbufs */
};

struct ppe_gauges {
	struct ppe_pool_gauge packets, headers, attaches;
	uint16_t threads_live[PPE_WORKERS_MAX]; /* by worker: contexts with a packet or a timer */
};

/* Read the gauges, between create and destroy. Cost: the pools' caches, a line per lcore. */
void ppe_gauges_read(const struct ppe *ppe, struct ppe_gauges *gauges);

#endif
