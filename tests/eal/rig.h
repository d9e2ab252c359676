/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch under test: real engines and programs, ports made of rings, and frames from and to whoever
 * is behind them. Main thread only; EAL starts once per process.
 *
 * Time is virtual: no lcore runs the workers. The test calls their turns one after the other, and the
 * clock goes on only when the test lets time pass (rig_pass_us, rte_delay_us_sleep, or while
 * rig_receive waits), so the same packets always do the same. With rig_config.lcores, and always
 * under ThreadSanitizer, workers run on EAL lcores that share the machine's CPUs, in real time.
 */
#ifndef TESTS_EAL_RIG_H
#define TESTS_EAL_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "ppe/ppe.h"
#include "ppe/program.h"
#include "ppe/worker_priv.h" /* ppe_tsc() */
#include "rmw/rmw.h"

#define RIG_PORTS_MAX  8
#define RIG_JOBS_MAX   6
#define RIG_QUEUES_MAX 4
#define RIG_FRAME_MAX  9216
#define RIG_SWITCH_IP  0x0a4d00fe /* 10.77.0.254 */

/* How many times as long an engine takes that ThreadSanitizer watches: for limits of waiting, and timeouts of jobs. */
#ifdef __SANITIZE_THREAD__
#define RIG_SLOW 10
#else
#define RIG_SLOW 1
#endif

/* A test that is one call. */
#define CASE(suite, name, call)                                                                    \
	Test(suite, name, .timeout = 90)                                                           \
	{                                                                                          \
		call;                                                                              \
	}

struct rig_config {
	unsigned int workers, threads, ports;
	bool lcores; /* workers run on lcores, in real time */
	unsigned int queues; /* of each port, each way; 0: 1 */
	unsigned int packets; /* mbufs of the switch; 0: 1024 */
	unsigned int frames; /* mbufs of the test; 0: 2047 */
	unsigned int jobs; /* entries of `job` in use */
	struct ppe_job job[RIG_JOBS_MAX];
	uint32_t fdb_timeout_s; /* 0: 300 */
	unsigned int joins_s; /* 0: as a switch keeps joins */
	uint16_t first_generation; /* 0: 65534, so that it wraps in the tests */
	const struct ppe_program *const *programs; /* NULL: the built-in ones */
	bool spin; /* how workers on lcores idle; else they sleep */
	bool unchecked; /* UDP checksums are neither verified nor computed */
	bool exception; /* the last port leads to the kernel */
	uint64_t unforwarded; /* ppe_config's */
	struct ppe_policers policers;
	unsigned int nb_hosts;
	struct ppe_host host[4];
	unsigned int
		number; /* of several switches in the process, which share EAL and the mbufs of the test: 0, 1, ... Their
				names are the test's business: tests/eal/test_ppe_tree.c */
};

struct rig {
	struct ppe *ppe;
	struct ppe_config config;
	struct ppe_jobs jobs;
	struct ppe_job job[RIG_JOBS_MAX];
	unsigned int ports;
	struct rte_mempool *pool;
	struct rte_ring *to[RIG_PORTS_MAX][RIG_QUEUES_MAX], *from[RIG_PORTS_MAX][RIG_QUEUES_MAX];
	unsigned int queues;
	/* Questions of the guard, which rig_receive() passes over. */
	unsigned int asked[RIG_PORTS_MAX];
	/* The device: the receive queue of a frame, [0, queues). NULL: 0 */
	unsigned int (*queue_of)(struct rig *rig, unsigned int port, const uint8_t *frame);
	unsigned int udp_ports; /* of each form, as the reply to the last join says */
	uint64_t skips_own[WEIR_SOURCES_MAX / 64]; /* bit: a source whose joins ask for that */
	uint64_t seed; /* splits frames over segments when not 0 */
	uint64_t
		standing; /* bit: a worker that makes no turns, as if its CPU were taken away; virtual time only */
	struct rig *next; /* of several switches */
};

extern const uint8_t rig_switch_mac[6];

/* A job of `sources` sources at 10.77.0.1 and up, with sensible defaults. */
struct ppe_job rig_job(uint8_t id, uint16_t sources, uint16_t window, uint16_t elements);

/* The same of the sources in ids[0..n-1], in ascending order. */
struct ppe_job rig_job_of(
	uint8_t id, const uint8_t *ids, uint16_t n, uint16_t window, uint16_t elements);

/*
 * Start EAL alone, with lcore 0 and `workers` more, which share the machine's CPUs. Once a process.
 */
void rig_start_eal(unsigned int workers);

/* Remove what EAL leaves in the file system. */
void rig_stop_eal(void);

/* Start EAL (once) and a switch. Aborts the test with a message on failure. */
void rig_start(struct rig *rig, const struct rig_config *config);

/* The same, but ppe_start() is still to be called: with lcores only. */
void rig_build(struct rig *rig, const struct rig_config *config);

/* Stop; checks packet accounting and that everything was returned. Returns a text on failure, else NULL. */
const char *rig_stop(struct rig *rig);

/* ---- time ---- */

/* A turn of each worker, in virtual time, which stands still. With lcores: this thread yields its CPU. */
void rig_turn(struct rig *rig);

/* So much time passes, and then each worker makes one turn: the workers were away. */
void rig_turn_after_us(struct rig *rig, uint64_t us);

/* So much time passes while the workers of all switches turn, often enough for every timer. */
void rig_pass_us(uint64_t us);

/*
 * Turn until nothing is under way. If something is held for some time (a fault that delays), time passes. Aborts
 * after 10 s of virtual time.
 */
void rig_rest(struct rig *rig);

/* ---- jobs ---- */

/* Jobs as they were at the start, with the attributes in rig->job: all that packets have done to them is gone. */
void rig_renew_jobs(struct rig *rig);

/* The same jobs with other attributes: what is in rig->job. */
void rig_change_jobs(struct rig *rig);

/*
 * At rest, with all that left taken from the ports: every packet has one end, every mbuf is back in its pool, no
 * release made no sense. Aborts with what is wrong.
 */
void rig_check(struct rig *rig);

/* Offer a frame to a port, over random segments when rig->seed is set. */
void rig_send(struct rig *rig, unsigned int port, const uint8_t *frame, unsigned int bytes);

/* The next frame that left by a port: its bytes, or 0 when none came within `ms` (times RIG_SLOW on lcores) and some turns of all
 * workers. ms 0: without a turn. */
unsigned int rig_receive(
	struct rig *rig, unsigned int port, uint8_t frame[RIG_FRAME_MAX], unsigned int ms);

/* Wait until each worker has made so many turns (at most some seconds). Returns whether they have. */
bool rig_turns(struct rig *rig, unsigned int turns);

/* Wait until nothing is under way (at most 20 s), then read the statistics. */
void rig_settle(struct rig *rig, struct ppe_stats *stats);

/* A source's address on the bench: source s is at port s % ports. */
uint32_t rig_source_ip(unsigned int source);
void rig_source_mac(unsigned int source, uint8_t mac[6]);

/* Write Ethernet, IPv4 and UDP headers of a frame to the switch, with so many bytes behind them, but for the checksums. */
void rig_headers(uint8_t *frame, const uint8_t mac[6], uint32_t ip, uint16_t from, uint16_t to,
	unsigned int bytes);

/*
 * Write an aggregation frame from a source: header in its form, payload behind it, checksums
 * right. Returns its bytes. frame: RIG_FRAME_MAX.
 */
unsigned int rig_frame(uint8_t *frame, unsigned int source, const struct weir_header *header,
	const void *payload, unsigned int payload_bytes);

/* The header of a source's contribution of `count` elements to an int32 sum, in the extended form. */
struct weir_header rig_contribution(
	uint8_t job, uint16_t generation, unsigned int source, uint32_t block, unsigned int count);

/* A frame of the header's source, sent to a port. */
void rig_offer(struct rig *rig, unsigned int port, const struct weir_header *header,
	const void *payload, unsigned int payload_bytes);

/* Set both checksums of an IPv4/UDP frame, by the plainest code there is. */
void rig_fix_checksums(uint8_t *frame);

/* Are both checksums of this frame right? */
bool rig_checksums_hold(const uint8_t *frame);

/* The aggregation header and payload of a frame from the switch; false: it is none. */
bool rig_parse(const uint8_t *frame, unsigned int bytes, struct weir_header *header,
	const uint8_t **payload, unsigned int *payload_bytes);

/* Join all sources of the job (index in rig->job), which are told their ranks; returns the generation. */
uint16_t rig_join(struct rig *rig, unsigned int job, bool base_form);

/* splitmix64, for all randomness of the tests. */
uint64_t rig_random(uint64_t *state);

/* random_seed(). */
uint64_t rig_seed(void);

#endif
