/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The generator: cheap hosts on the lcores of the switch.
 *
 * A port is an ethdev of rings whose receive ring stays empty; a receive callback of DPDK puts
 * ready contributions (frames.h) into the worker's burst, so the real engines run on them as if a
 * device had delivered them. Results leave through the port's transmit rings and are taken out
 * again, and freed, in the same callback, as a device does after sending. Each worker has a port,
 * and jobs whose sources all sit there.
 *
 * Instead of contributions, `forward` offers ordinary frames: the same mbufs, of the same size, as
 * UDP datagrams between hosts, all to a station behind an additional port. The switch learns that
 * station from a frame in the port's receive ring. Forwarding has no bare kernel.
 *
 * `authenticated`: contributions have tags, each made when its frame is given out. That is the hosts'
 * work, and its time is taken out. Hosts do not join: the generation is fixed, its challenge zeros.
 *
 * The loop is closed, as with real hosts: a slot takes its next block only when the results of the
 * block before have left. order.h: what arrives when.
 *
 * `role`: a leaf's port has hosts, and its parent is behind an additional one: a contribution that has gone up is
 * answered in the next burst from there. The answer is another payload than the sum, and is what hosts must get; what goes
 * up is compared with the sum. A spine's sources are switches.
 *
 * `lone`: one block at a time, and its last contribution a turn after the others. What counts is the time from then to the
 * poll that finds the result sent, and of a leaf also to the poll that finds the contribution upward.
 *
 * Time is cut into phases: a warm-up, in which each result is compared with the expected one
 * (block, status, sources, sum), then, with one result in 1024 compared, in turn the switch, the
 * bare kernel and bare k-way. In a bare phase the callback keeps the lcore and does only vector
 * operations, on the same frames, into as many buffers: the bare kernel adds one contribution at a time, in the order of
 * arrival; bare k-way adds those of a block in one pass over the buffer, eight at most. All are measured on one
 * core, in turn, many times.
 */
#ifndef APPS_BENCH_GENERATOR_H
#define APPS_BENCH_GENERATOR_H

#include "apps/bench/bench.h"
#include "apps/bench/frames.h"
#include "apps/bench/order.h"
#include "ppe/ppe.h"

#define GENERATOR_CPU 0.9 /* with less of a phase on a CPU, others disturbed it */

enum generator_role { ROLE_SWITCH, ROLE_LEAF, ROLE_SPINE };

/* One point of a sweep. */
struct generator_work {
	unsigned int workers; /* [1, 16] */
	unsigned int threads, burst;
	unsigned int sources, window, elements;
	unsigned int jobs; /* of each worker, [1, 256 / workers] */
	unsigned int depth; /* blocks under way at most per job, [1, window / workers] */
	unsigned int copies; /* laps until a frame is used again, [1, ...] */
	enum weir_dtype type;
	enum order order;
	bool checksum; /* software verifies and computes UDP checksums; else they are not used */
	bool multicast;
	bool authenticated;
	bool checked; /* integrity: crc32c; not with `authenticated` */
	bool deterministic; /* contributions are added in the order of their sources */
	bool forward; /* ordinary frames */
	enum generator_role
		role; /* others than a switch's: one worker, and none of multicast, authenticated,
				     forward */
	unsigned int ranks; /* ROLE_SPINE: that each source covers */
	bool lone; /* no phases; one worker, job, and block under way, ORDER_BLOCK */
	double far; /* probability that a block's shard is another worker's, [0, 1) */
	int isa; /* enum rmw_isa */
	const char *filter; /* file of a filter that sees all packets; NULL: none */
	const struct option_list *filter_values;
	unsigned int repeat, phase_ms;
	/* Not 0: no phases; after the warm-up so many packets, counted by callgrind. */
	uint64_t packets;
};

/* Kinds of phases, in turn: the switch, the bare kernel, bare k-way. */
enum { PHASE_SWITCH, PHASE_BARE, PHASE_BARE_TOGETHER, PHASES };

/* What a phase of each kind gave, over all workers. */
struct generator_sample {
	double rate[PHASES]; /* packets per second of CPU time, sums of the workers' rates */
	double cpu; /* the least share of a phase, over workers and kinds, spent on a CPU */
};

struct generator_result {
	unsigned int samples; /* those in which every worker got the CPU */
	struct generator_sample sample[BENCH_REPEAT_MAX];
	uint64_t verified, wrong; /* results compared with the expected sum */
	uint64_t counted; /* packets in the stretch that callgrind collects */
	uint64_t hops; /* over the whole run */
	uint64_t contributions; /* over the whole run */
	double latency_ns,
		up_ns; /* of `lone`: medians; up: of a leaf, the part until the contribution has left */
};

/* Set `depth` and `copies` so that about `frames` frames rotate, and `depth` blocks fit window and memory. */
void generator_fit(struct generator_work *work, unsigned int frames);

/* EAL memory that the point takes, MiB. */
unsigned int generator_memory_mb(const struct generator_work *work);

/* Build the switch and run it. 0, or -1 after a line on standard error (no memory; the switch drops
 * packets or makes no progress; a wrong sum). Main thread; EAL has workers + 1 lcores. */
int generator_run(const struct generator_work *work, struct generator_result *result);

#endif
